//! Packages for another platform: programs are those of this machine, and libraries those of the target.

use std::io;

use gpubuild_detect::id;
use gpubuild_detect::toolkit::pattern::{fill, fill_for};
use gpubuild_host::{HostInfo, Platform};
use gpubuild_plan::packages::{PackageManager, PackageOffer};
use gpubuild_plan::plan::provision::Objection;
use gpubuild_plan::wheels::TargetWheels;

use crate::provision::PackageError;

/// The names of architectures that a package manager uses, and the packages with programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetPackages {
    /// This machine's architecture: `amd64`.
    pub(super) native: String,
    /// The target's architecture: `arm64`.
    pub(super) foreign: String,
    /// The packages with programs. All others are for the target.
    programs: Vec<String>,
}

impl TargetPackages {
    /// `None` without a target, and for one of this machine's architecture.
    ///
    /// # Errors
    /// The package manager has no packages for the target.
    pub(super) fn new(
        host: &dyn HostInfo,
        offer: &PackageOffer<'_>,
        target: Option<&TargetWheels>,
    ) -> Result<Option<Self>, PackageError> {
        let Some(target) = target else { return Ok(None) };
        let name = |platform: Platform| offer.manager.archs.get(platform.arch.id()).cloned();
        let (Some(native), Some(foreign)) = (name(host.platform()), name(target.platform)) else {
            let text = format!(
                "gpubuild has no {} for {} from packages of {}",
                offer.set.toolkit,
                target.triple,
                offer.kind.id()
            );
            let hint = Some("build on Debian or Ubuntu, or in a container of it".to_owned());
            return Err(PackageError::NotHere(Objection {
                id: id!("cross.toolkit-unsupported"),
                text,
                hint,
            }));
        };
        let programs = target.programs.clone();
        Ok((native != foreign).then_some(Self { native, foreign, programs }))
    }

    /// The packages with programs, and the other ones with the architecture of the target.
    pub(super) fn split(&self, packages: &[String]) -> (Vec<String>, Vec<String>) {
        let (programs, libraries): (Vec<&String>, Vec<&String>) =
            packages.iter().partition(|name| self.programs.contains(name));
        let of_target = |name: &String| format!("{name}:{}", self.foreign);
        (programs.into_iter().cloned().collect(), libraries.into_iter().map(of_target).collect())
    }
}

/// The folders of libraries in a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LibraryFolders {
    /// Those that programs are linked with: the libraries of the target.
    pub(super) linked: String,
    /// Those that the programs in the prefix load.
    pub(super) programs: String,
}

impl LibraryFolders {
    pub(super) fn new(
        host: &dyn HostInfo,
        manager: &PackageManager,
        target: Option<&TargetWheels>,
    ) -> io::Result<Self> {
        let unknown = || io::Error::other(format!("`{}` has an unknown placeholder", manager.lib));
        let platform = target.map_or_else(|| host.platform(), |target| target.platform);
        Ok(Self {
            linked: fill_for(&manager.lib, host, platform).ok_or_else(unknown)?,
            programs: fill(&manager.lib, host).ok_or_else(unknown)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, Os, RecordedHost};
    use gpubuild_plan::packages::{self, ManagerKind};

    fn wheels(arch: Arch) -> TargetWheels {
        let triple = format!("{}-unknown-linux-gnu", arch.id());
        TargetWheels {
            triple,
            platform: Platform { os: Os::Linux, arch },
            programs: vec!["glslc".to_owned()],
        }
    }

    #[test]
    fn programs_are_of_this_machine_and_libraries_of_the_target() {
        let set = packages::set_of("vulkan").unwrap();
        let manager = packages::manager(ManagerKind::Apt);
        let offer = PackageOffer { set, row: &set.distributions[0], kind: ManagerKind::Apt, manager };
        for (here, there, packages, folders) in [
            (Arch::X86_64, Arch::Aarch64, "libvulkan-dev:arm64", ["aarch64-linux-gnu", "x86_64-linux-gnu"]),
            (Arch::Aarch64, Arch::X86_64, "libvulkan-dev:amd64", ["x86_64-linux-gnu", "aarch64-linux-gnu"]),
        ] {
            let host = RecordedHost::builder(Os::Linux, here).build();
            let target = wheels(there);
            let found = TargetPackages::new(&host, &offer, Some(&target)).unwrap().unwrap();
            let (programs, libraries) = found.split(&offer.row.packages);
            assert_eq!(programs, ["glslc"]);
            assert_eq!((libraries.len(), libraries[0].as_str()), (3, packages));
            let [linked, programs] = folders.map(|folder| format!("lib/{folder}"));
            let expected = LibraryFolders { linked, programs };
            assert_eq!(LibraryFolders::new(&host, manager, Some(&target)).unwrap(), expected);
        }
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        for target in [None, Some(&wheels(Arch::X86_64))] {
            assert_eq!(TargetPackages::new(&host, &offer, target), Ok(None));
        }
    }

    #[test]
    fn package_managers_of_one_architecture_are_refused() {
        let set = packages::set_of("vulkan").unwrap();
        let manager = packages::manager(ManagerKind::Dnf);
        let offer = PackageOffer { set, row: &set.distributions[0], kind: ManagerKind::Dnf, manager };
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).build();
        let refused = TargetPackages::new(&host, &offer, Some(&wheels(Arch::Aarch64))).unwrap_err();
        let PackageError::NotHere(objection) = refused else { panic!("{refused:?}") };
        assert_eq!(objection.id, "cross.toolkit-unsupported");
        assert_eq!(
            objection.text,
            "gpubuild has no vulkan for aarch64-unknown-linux-gnu from packages of dnf"
        );
    }
}
