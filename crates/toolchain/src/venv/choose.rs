//! Selects the wheels that contain the needed libraries. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::finding::{Evidence, EvidenceKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{Description, libraries};
use gpubuild_host::Platform;
use gpubuild_plan::wheels::tag::{self, TagFit, WheelLibc};

use super::needs::NeededToolkit;
use super::problem::VenvProblem;
use super::table::{WheelRelease, WheelRow, WheelTable};

/// The inputs of the selection.
#[derive(Clone, Copy)]
pub struct VenvQuery<'a, 't> {
    /// The table of known wheels.
    pub table: &'t WheelTable,
    /// The platform of the machine.
    pub platform: Platform,
    /// The C library of the machine.
    pub libc: &'a WheelLibc,
    /// The needed libraries, each with the file that needs it.
    pub libraries: &'a BTreeMap<String, String>,
    /// The toolkit that they were built with.
    pub toolkit: Option<&'a NeededToolkit>,
    /// Major version of CUDA given with `--cuda`.
    pub major: Option<u64>,
    /// Version of NVIDIA's driver, if installed.
    pub driver: Option<&'a Version>,
    /// The CUDA description, for the minimum driver of each release.
    pub cuda: &'a Description,
}

/// The wheels to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VenvChoice<'a> {
    /// The selected release.
    pub release: &'a WheelRelease,
    /// The wheels in load order.
    pub wheels: Vec<&'a WheelRow>,
    /// Libraries that no known wheel contains.
    pub unknown: Vec<String>,
}

/// Selects the wheels. If no libraries are given, selects the default wheels of the release.
///
/// # Errors
/// The libraries need two major versions of CUDA, the release has no wheels, the driver or the C library is too old, or the
/// platform has no wheels.
pub fn choose<'t>(query: &VenvQuery<'_, 't>) -> Result<VenvChoice<'t>, VenvProblem> {
    let os = query.platform.os;
    let majors = query.majors()?;
    let release = query.release(&majors)?;
    let known = query.libraries.keys().filter_map(|library| release.wheel_of(os, library));
    let mut packages: BTreeSet<&str> = known.map(|wheel| wheel.package.as_str()).collect_set();
    if query.libraries.is_empty() {
        packages =
            release.wheels.iter().filter(|wheel| wheel.usual).map(|wheel| wheel.package.as_str()).collect();
    }
    let unknown = query.libraries.keys().filter(|library| release.wheel_of(os, library).is_none());
    let choice =
        VenvChoice { release, wheels: release.with_needs(&packages), unknown: unknown.cloned().collect() };
    for wheel in &choice.wheels {
        query.refuse_platform(wheel)?;
    }
    Ok(choice)
}

impl<'t> VenvQuery<'_, 't> {
    /// The major versions of CUDA that contain every library.
    fn majors(&self) -> Result<BTreeSet<u64>, VenvProblem> {
        let os = self.platform.os;
        let mut remaining = self.table.majors();
        // The first input that determined the major version, for the message.
        let mut because: Option<(String, u64)> = None;
        let mut restrict = |what: String, to: &BTreeSet<u64>| -> Result<(), VenvProblem> {
            let both: BTreeSet<u64> = remaining.intersection(to).copied().collect_set();
            let major = to.first().copied().unwrap_or_default();
            if both.is_empty() {
                let (first, other) = because.clone().unwrap_or_default();
                return Err(VenvProblem::refused(id!("venv.two-majors"))
                    .value("first", first)
                    .value("first_major", other.to_string())
                    .value("second", what)
                    .value("second_major", major.to_string()));
            }
            if both.len() == 1 && because.is_none() {
                because = Some((what, major));
            }
            remaining = both;
            Ok(())
        };
        if let Some(major) = self.major {
            if !self.table.majors().contains(&major) {
                return Err(self.no_release(&format!("CUDA {major}")));
            }
            restrict(format!("--cuda {major}"), &BTreeSet::from([major]))?;
        }
        for (library, by) in self.libraries {
            let majors = self.table.majors_of(os, library);
            let what = format!("`{library}`, which {by} needs");
            if !majors.is_empty() {
                restrict(what, &majors)?;
            } else if let Some(release) = libraries::release(library) {
                if self.table.majors().contains(&release.major()) {
                    restrict(what, &BTreeSet::from([release.major()]))?;
                } else {
                    return Err(self.no_release(&what));
                }
            }
        }
        if let Some(toolkit) = self.toolkit {
            let major = toolkit.version.major();
            if self.table.majors().contains(&major) {
                restrict(format!("the toolkit of the build ({})", toolkit.from), &BTreeSet::from([major]))?;
            } else if self.libraries.is_empty() {
                return Err(self.no_release(&format!("CUDA {}", toolkit.version)));
            }
        }
        Ok(remaining)
    }

    fn no_release(&self, what: &str) -> VenvProblem {
        let known: Vec<&str> = self.table.releases.iter().map(|release| release.cuda.as_str()).collect();
        VenvProblem::refused(id!("venv.no-wheels")).value("what", what).value("known", known.join(", "))
    }

    /// Selects a release of these major versions that is not older than the toolkit and that the driver supports.
    fn release(&self, majors: &BTreeSet<u64>) -> Result<&'t WheelRelease, VenvProblem> {
        let of_majors =
            || self.table.releases.iter().filter(|release| majors.contains(&release.cuda.major()));
        let supported: Vec<&WheelRelease> =
            of_majors().filter(|release| self.too_old(release).is_none()).collect();
        if supported.is_empty() {
            let release = of_majors().next().ok_or_else(|| self.no_release("the libraries"))?;
            let floor = self.too_old(release).map(Version::as_str).unwrap_or_default();
            return Err(self.driver_too_old(release, floor));
        }
        // A toolkit of another major version does not restrict the release.
        let toolkit = self.toolkit.filter(|toolkit| majors.contains(&toolkit.version.major()));
        let Some(toolkit) = toolkit else {
            let newest = self.driver.and_then(|driver| self.cuda.newest_for_driver(driver));
            let fits =
                supported.iter().rev().find(|release| newest.is_none_or(|newest| release.cuda <= *newest));
            return Ok(fits.copied().unwrap_or(supported[0]));
        };
        let enough = |release: &&&WheelRelease| {
            let built = (toolkit.version.major(), toolkit.version.minor());
            release.cuda.major() == built.0 && release.cuda.minor() >= built.1
        };
        supported.iter().find(enough).copied().ok_or_else(|| {
            VenvProblem::refused(id!("venv.toolkit-newer"))
                .value("toolkit", toolkit.version.as_str())
                .value("from", toolkit.from.as_str())
                .value("newest", supported.last().map(|release| release.cuda.as_str()).unwrap_or_default())
        })
    }

    /// The minimum driver of a release, if the installed driver is older.
    fn too_old<'a>(&'a self, release: &WheelRelease) -> Option<&'a Version> {
        let driver = self.driver?;
        self.cuda.driver_floor(&release.cuda, self.platform.os).filter(|floor| driver < *floor)
    }

    fn driver_too_old(&self, release: &WheelRelease, floor: &str) -> VenvProblem {
        let driver = self.driver.map(Version::as_str).unwrap_or_default();
        let newest = self.driver.and_then(|driver| self.cuda.newest_for_driver(driver));
        let majors = self.table.majors();
        let instead = newest.map(Version::major).filter(|major| majors.contains(major));
        let problem = VenvProblem::refused(id!("venv.driver-too-old"))
            .value("driver", driver)
            .value("cuda", release.cuda.major().to_string())
            .value("floor", floor)
            .evidence(Evidence::new(EvidenceKind::File, "NVIDIA's driver", driver));
        match instead {
            Some(major) => problem.value("instead", major.to_string()).case("other-major"),
            None => problem,
        }
    }

    /// Refuses a wheel that the machine does not support, before anything is downloaded.
    fn refuse_platform(&self, wheel: &WheelRow) -> Result<(), VenvProblem> {
        let mut nearest = TagFit::OtherPlatform;
        for file in wheel.files() {
            match tag::fit(&file.name, self.platform, self.libc) {
                TagFit::Yes => return Ok(()),
                TagFit::OtherPlatform => {}
                other => nearest = other,
            }
        }
        let named = |problem: VenvProblem| {
            problem.value("package", wheel.package.as_str()).value("version", wheel.version.as_str())
        };
        Err(match nearest {
            TagFit::NeedsNewerGlibc(needs) => {
                let here = match self.libc {
                    WheelLibc::Glibc(Some(version)) => version.as_str(),
                    _ => "another C library",
                };
                named(VenvProblem::refused(id!("venv.libc")))
                    .value("needs", needs.as_str())
                    .value("here", here)
            }
            TagFit::NeedsGlibc => named(VenvProblem::refused(id!("venv.libc"))).case("musl"),
            TagFit::Yes | TagFit::OtherPlatform => named(VenvProblem::refused(id!("venv.no-wheel-here")))
                .value("os", self.platform.os.id())
                .value("arch", self.platform.arch.id()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::diagnostic::DiagnosticId;
    use gpubuild_detect::toolkit::Catalogue;
    use gpubuild_host::{Arch, Os};

    struct VenvCase {
        libraries: &'static [&'static str],
        toolkit: Option<&'static str>,
        major: Option<u64>,
        driver: Option<&'static str>,
        glibc: &'static str,
        platform: Platform,
    }

    const LINUX: Platform = Platform { os: Os::Linux, arch: Arch::X86_64 };

    impl Default for VenvCase {
        fn default() -> Self {
            Self { libraries: &[], toolkit: None, major: None, driver: None, glibc: "2.36", platform: LINUX }
        }
    }

    /// The release and its packages, or the problem.
    fn select(case: &VenvCase) -> Result<(String, Vec<String>), VenvProblem> {
        let libraries =
            case.libraries.iter().map(|name| ((*name).to_owned(), "libx.so".to_owned())).collect();
        let version = |text: &str| text.parse::<Version>().unwrap();
        let toolkit =
            case.toolkit.map(|text| NeededToolkit { version: version(text), from: "/opt/cuda".into() });
        let catalogue = Catalogue::embedded();
        let libc = match case.glibc {
            "musl" => WheelLibc::Musl,
            other => WheelLibc::Glibc(Some(version(other))),
        };
        let driver = case.driver.map(version);
        let choice = choose(&VenvQuery {
            table: WheelTable::embedded(),
            platform: case.platform,
            libc: &libc,
            libraries: &libraries,
            toolkit: toolkit.as_ref(),
            major: case.major,
            driver: driver.as_ref(),
            cuda: catalogue.get("cuda").unwrap(),
        })?;
        let packages = choice.wheels.iter().map(|wheel| wheel.package.clone()).collect();
        Ok((choice.release.cuda.as_str().to_owned(), packages))
    }

    #[track_caller]
    fn check(case: &VenvCase, release: &str, packages: &[&str]) {
        let (chosen, wheels) = select(case).unwrap();
        assert_eq!(
            (chosen.as_str(), wheels.iter().map(String::as_str).collect::<Vec<_>>()),
            (release, packages.to_vec())
        );
    }

    #[track_caller]
    fn refused(case: &VenvCase, id: DiagnosticId, values: &[(&str, &str)]) {
        let problem = select(case).unwrap_err();
        assert_eq!(problem.draft.id, id);
        for (name, value) in values {
            let found = problem.draft.values.get(*name).map(String::as_str).unwrap_or_default();
            assert!(found.contains(value), "{name} is `{found}`, not `{value}`");
        }
    }

    #[test]
    fn libraries_and_toolkit_determine_the_wheels() {
        let twelve = ["nvidia-cuda-runtime-cu12", "nvidia-cuda-nvrtc-cu12", "nvidia-cublas-cu12"];
        let thirteen = ["nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-cublas"];
        let cublas = ["libcublas.so.12", "libcudart.so.12"].as_slice();
        check(&VenvCase { libraries: cublas, ..VenvCase::default() }, "12.9", &twelve);
        check(
            &VenvCase { libraries: cublas, toolkit: Some("12.4.131"), ..VenvCase::default() },
            "12.9",
            &twelve,
        );
        check(
            &VenvCase { libraries: &["libcudart.so.13"], toolkit: Some("13.0.88"), ..VenvCase::default() },
            "13.0",
            &thirteen[..1],
        );
        // The release must not be older than the toolkit of the build.
        check(
            &VenvCase { libraries: &["libcublas.so.13"], toolkit: Some("13.2.1"), ..VenvCase::default() },
            "13.5",
            &thirteen[1..],
        );
        check(&VenvCase { major: Some(12), ..VenvCase::default() }, "12.9", &twelve);
        check(&VenvCase { ..VenvCase::default() }, "13.5", &thirteen);
        // Both major versions contain this library; the toolkit or the driver decides.
        let curand = ["libcurand.so.10"].as_slice();
        check(
            &VenvCase { libraries: curand, toolkit: Some("12.9"), ..VenvCase::default() },
            "12.9",
            &["nvidia-curand-cu12"],
        );
        check(
            &VenvCase { libraries: curand, driver: Some("550.54"), ..VenvCase::default() },
            "12.9",
            &["nvidia-curand-cu12"],
        );
    }

    #[test]
    fn driver_restricts_the_release() {
        check(
            &VenvCase { libraries: &["libcudart.so.13"], driver: Some("580.65.06"), ..VenvCase::default() },
            "13.0",
            &["nvidia-cuda-runtime"],
        );
        let old = VenvCase { libraries: &["libcudart.so.13"], driver: Some("550.54"), ..VenvCase::default() };
        refused(
            &old,
            id!("venv.driver-too-old"),
            &[("driver", "550.54"), ("cuda", "13"), ("floor", "580"), ("instead", "12")],
        );
        let older =
            VenvCase { libraries: &["libcudart.so.12"], driver: Some("470.57"), ..VenvCase::default() };
        refused(&older, id!("venv.driver-too-old"), &[("floor", "525.60.13")]);
        assert_eq!(
            select(&older).unwrap_err().draft.case,
            None,
            "the driver supports no known major version"
        );
    }

    #[test]
    fn two_major_versions_in_one_process_are_refused() {
        let both = VenvCase { libraries: &["libcublas.so.12", "libcudart.so.13"], ..VenvCase::default() };
        refused(
            &both,
            id!("venv.two-majors"),
            &[("first", "libcublas.so.12"), ("second", "libcudart.so.13")],
        );
        let built =
            VenvCase { libraries: &["libcublas.so.12"], toolkit: Some("13.0"), ..VenvCase::default() };
        refused(&built, id!("venv.two-majors"), &[("second", "/opt/cuda"), ("second_major", "13")]);
        let asked = VenvCase { libraries: &["libcublas.so.12"], major: Some(13), ..VenvCase::default() };
        refused(&asked, id!("venv.two-majors"), &[("first", "--cuda 13")]);
    }

    #[test]
    fn libraries_without_wheels_are_refused_or_reported() {
        refused(
            &VenvCase { libraries: &["libcudart.so.11.0"], ..VenvCase::default() },
            id!("venv.no-wheels"),
            &[("known", "12.9, 13.0")],
        );
        refused(
            &VenvCase { major: Some(11), ..VenvCase::default() },
            id!("venv.no-wheels"),
            &[("what", "CUDA 11")],
        );
        let newer =
            VenvCase { libraries: &["libcudart.so.13"], toolkit: Some("13.9"), ..VenvCase::default() };
        refused(&newer, id!("venv.toolkit-newer"), &[("toolkit", "13.9"), ("newest", "13.5")]);
        let libraries = ["libcudart.so.12", "libcudnn.so.9"].as_slice();
        check(&VenvCase { libraries, ..VenvCase::default() }, "12.9", &["nvidia-cuda-runtime-cu12"]);
    }

    #[test]
    fn unsupported_machines_are_refused_before_the_download() {
        let cublas = ["libcublas.so.12"].as_slice();
        let old = VenvCase { libraries: cublas, glibc: "2.17", ..VenvCase::default() };
        refused(
            &old,
            id!("venv.libc"),
            &[("needs", "2.27"), ("here", "2.17"), ("package", "nvidia-cublas-cu12")],
        );
        refused(&VenvCase { libraries: cublas, glibc: "musl", ..VenvCase::default() }, id!("venv.libc"), &[]);
        let arm = Platform { os: Os::Windows, arch: Arch::Aarch64 };
        refused(
            &VenvCase { major: Some(12), platform: arm, ..VenvCase::default() },
            id!("venv.no-wheel-here"),
            &[("arch", "aarch64")],
        );
        let mac = Platform { os: Os::Macos, arch: Arch::Aarch64 };
        refused(
            &VenvCase { platform: mac, ..VenvCase::default() },
            id!("venv.no-wheel-here"),
            &[("os", "macos")],
        );
    }
}
