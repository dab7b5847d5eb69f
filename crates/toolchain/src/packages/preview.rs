//! What an installation from packages would do.

use gpubuild_detect::facts::Facts;
use gpubuild_host::{Host, HostPath};
use gpubuild_plan::offer::installed;
use gpubuild_plan::packages;

use super::request::{LISTS, PackageRequest, distribution, existing, version_of};
use super::source;
use crate::provision::state::PrefixPlace;
use crate::provision::{PackageError, Prefix, ProvisionError, UnpackedPackage};

/// A preview of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagePreview {
    /// Id of the toolkit.
    pub toolkit: String,
    /// The distribution and release: `debian-12`.
    pub distribution: String,
    /// The packages that make up the toolkit, without their dependencies.
    pub names: Vec<String>,
    /// All packages to unpack. Empty if the package manager could not be queried, or on a recorded host.
    pub packages: Vec<UnpackedPackage>,
    /// Why the package manager could not be queried.
    pub unresolved: Option<String>,
    /// The final folder; unknown without the packages.
    pub into: Option<HostPath>,
    /// Size in bytes of the packages.
    pub download: u64,
    /// Required disk space in bytes, estimated.
    pub disk: u64,
    /// Free disk space in bytes, if known.
    pub free: Option<u64>,
    /// The existing installation, if it already satisfies the request.
    pub installed: Option<Prefix>,
}

/// Computes what an installation would do. Changes nothing; also works on recorded hosts.
///
/// # Errors
/// The toolkit cannot be installed on this machine.
pub fn preview(
    host: &dyn Host,
    facts: &Facts,
    request: &PackageRequest,
) -> Result<PackagePreview, ProvisionError> {
    let offer = packages::offer(facts, &request.toolkit).map_err(PackageError::NotHere)?;
    let distribution = distribution(facts);
    let names = request.names(&offer)?;
    let installed = existing(host, &offer, request, &distribution, &names);
    let request = &request.with_installed(host, &offer, &distribution);
    let names = request.names(&offer)?;
    let all = installed::folder(host, request.triple()).ok_or(ProvisionError::NoCache)?;
    let mut resolved = source::resolve(&request.source(host, &offer, None, None)?, &offer, &names);
    let lists = all.join(LISTS);
    if resolved.is_err() && host.is_dir(&lists) {
        resolved = source::resolve(&request.source(host, &offer, None, Some(lists))?, &offer, &names);
    }
    let (packages, unresolved) = match resolved {
        Ok(packages) => (packages, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let version = version_of(&offer, &packages);
    let download: u64 = packages.iter().map(|one| one.size).sum();
    Ok(PackagePreview {
        toolkit: request.toolkit.clone(),
        into: version.map(|version| PrefixPlace::new(&all, &request.toolkit, &version).published),
        disk: download * (offer.row.growth(offer.set, &request.with) + 1),
        free: host.free_space(&all),
        installed,
        names,
        distribution,
        packages,
        unresolved,
        download,
    })
}
