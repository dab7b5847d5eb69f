//! A request to install a toolkit from packages, and what fits it.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_exec::python::Network;
use gpubuild_host::{Host, HostPath, ReadFiles};
use gpubuild_plan::packages::PackageOffer;
use gpubuild_plan::wheels::TargetWheels;

use super::source::SourceContext;
use super::target::TargetPackages;
use crate::provision::{PackageError, Prefix, UnpackedPackage, installations};

/// The folder of package lists, if the system has none or old ones.
pub(super) const LISTS: &str = ".apt-lists";

/// The folder of downloaded packages: of an incomplete installation, and of one to which components can be added.
pub(super) const DOWNLOADED: &str = "packages";

/// A request to install a toolkit from packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageRequest {
    /// Id of the toolkit: `vulkan`.
    pub toolkit: String,
    /// Optional components: `hipblas`.
    pub with: Vec<String>,
    /// Folders with packages, which are used if their hashes are those of the signed lists, or with dnf if they are signed.
    pub find_links: Vec<HostPath>,
    /// The platform of the libraries, if that is another one.
    pub target: Option<TargetWheels>,
    /// Whether packages and lists may be downloaded.
    pub network: Network,
}

impl PackageRequest {
    /// Rust's name of the target.
    pub(super) fn triple(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.triple.as_str())
    }

    /// The packages of the set and of the requested components.
    pub(super) fn names(&self, offer: &PackageOffer<'_>) -> Result<Vec<String>, PackageError> {
        offer.row.packages_with(&self.with).map_err(|asked| PackageError::UnknownComponent {
            toolkit: self.toolkit.clone(),
            asked: asked.to_owned(),
            offered: offer.row.optional.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// The request for these components and for those that an installation to be replaced has, whose packages are used again.
    pub(super) fn with_installed(
        &self,
        host: &dyn ReadFiles,
        offer: &PackageOffer<'_>,
        distribution: &str,
    ) -> Self {
        let (mut with, mut find_links) = (self.with.clone(), self.find_links.clone());
        let of_request = |one: &Prefix| is_of(one, offer, self, distribution);
        for one in installations(host).into_iter().filter(of_request) {
            with.extend(one.record.components);
            find_links.push(one.folder.join(DOWNLOADED));
        }
        with.retain(|id| offer.row.optional.contains_key(id));
        with.sort_indirect();
        with.dedup();
        Self { with, find_links, ..self.clone() }
    }

    /// The package manager, with the system's package lists or those in `lists`.
    pub(super) fn source<'a>(
        &self,
        host: &'a dyn Host,
        offer: &PackageOffer<'a>,
        lock: Option<&'a HostPath>,
        lists: Option<HostPath>,
    ) -> Result<SourceContext<'a>, PackageError> {
        let target = TargetPackages::new(host, offer, self.target.as_ref())?;
        let PackageOffer { kind, manager, .. } = *offer;
        Ok(SourceContext { host, kind, manager, lock, lists, target, network: self.network })
    }
}

pub(super) fn distribution(facts: &Facts) -> String {
    facts.distro.as_ref().map(|distro| distro.value.label()).unwrap_or_default()
}

/// The installation of the packages `names` for the requested platform, from the same release of the distribution.
pub(super) fn existing(
    host: &dyn ReadFiles,
    offer: &PackageOffer<'_>,
    request: &PackageRequest,
    distribution: &str,
    names: &[String],
) -> Option<Prefix> {
    installations(host).into_iter().rfind(|one| {
        let has = |name: &String| one.record.packages.iter().any(|package| package.name == *name);
        is_of(one, offer, request, distribution) && names.iter().all(has)
    })
}

/// Whether an installation is of the requested toolkit and platform, from this release of the distribution.
fn is_of(one: &Prefix, offer: &PackageOffer<'_>, request: &PackageRequest, distribution: &str) -> bool {
    one.record.toolkit == offer.set.toolkit
        && one.record.target.as_deref() == request.triple()
        && one.record.distribution.as_deref() == Some(distribution)
}

/// The version of the toolkit: that of one of its packages, without what the distribution adds.
pub(super) fn version_of(offer: &PackageOffer<'_>, packages: &[UnpackedPackage]) -> Option<Version> {
    let name = offer.row.version.as_ref()?;
    let version = &packages.iter().find(|one| one.name == *name)?.version;
    let upstream = version.split_once(':').map_or(version.as_str(), |(_epoch, rest)| rest);
    let end = upstream.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(upstream.len());
    upstream[..end].trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::RecordedHost;
    use gpubuild_plan::packages::{self, ManagerKind};

    #[test]
    fn packages_of_the_installation_to_be_replaced_are_used_again() {
        let host = |distribution: &str| {
            let record = format!(
                r#"{{"schema":"gpubuild.installed/1","toolkit":"rocm","release":"7.1.1","version":"7.1.1","components":["base"],"wheels":[],"stub":false,"bytes":1,"files":1,"distribution":"{distribution}"}}"#
            );
            let text = format!(
                "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"x86_64\"\n[env]\nGPUBUILD_CACHE = \"/c\"\n\
                 [[file]]\npath = \"/c/toolkits/rocm-7.1.1/installed.json\"\ntext = '''{record}'''\n\
                 [[file]]\npath = \"/c/toolkits/rocm-7.1.1/prefix/bin/hipcc\"\ntext = \"\"\n"
            );
            RecordedHost::parse("test.toml", &text).unwrap()
        };
        let set = packages::set_of("rocm").unwrap();
        let row = set.distributions.iter().find(|row| !row.optional.is_empty()).unwrap();
        let (kind, manager) = (ManagerKind::Apt, packages::manager(ManagerKind::Apt));
        let offer = PackageOffer { set, row, kind, manager };
        let request = PackageRequest {
            toolkit: "rocm".to_owned(),
            with: vec!["hipblas".to_owned()],
            find_links: Vec::new(),
            target: None,
            network: Network::Allowed,
        };
        let links = |distribution: &str| {
            let found = request.with_installed(&host(distribution), &offer, "ubuntu-26.04");
            assert_eq!(found.with, ["hipblas"]);
            found.find_links.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(links("ubuntu-26.04"), ["/c/toolkits/rocm-7.1.1/packages"]);
        assert_eq!(links("ubuntu-24.04"), [""; 0]);
    }
}
