//! The documents of toolkits that are installed from the packages of distributions.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::Facts;
use gpubuild_plan::packages::{self, OptionalPackages, PackageSet};
use gpubuild_plan::plan::bytes;
use gpubuild_toolchain::packages::PackagePreview;
use gpubuild_toolchain::provision::{Prefix, UnpackedPackage};
use serde::Serialize;

use super::Schema;
use super::rows::Rows;

/// A toolkit from the packages of distributions, in `toolkit list`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PackageToolkit {
    /// Id of the toolkit: `vulkan`.
    pub(super) toolkit: String,
    /// Whether it can be installed on this machine.
    available: bool,
    /// Whether it is installed.
    installed: bool,
    /// The package manager that downloads the packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    manager: Option<String>,
    /// The packages, without their dependencies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    /// Optional components (`--with`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    optional: Vec<OptionalComponent>,
    /// Whether an installation was tried on this release of the distribution.
    tried: bool,
    /// Why it cannot be installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<PackageObstacle>,
}

/// An optional component.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct OptionalComponent {
    /// Id of the component.
    pub(super) id: String,
    /// Additional bytes to download; absent if this machine is not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) download_bytes: Option<u64>,
}

impl OptionalComponent {
    /// The option that installs it, with its size.
    pub(super) fn text(&self) -> String {
        let size = self.download_bytes.map(|size| format!(" (+{})", bytes::show(size)));
        format!("--with {}{}", self.id, size.unwrap_or_default())
    }
}

/// Why a toolkit cannot be installed from packages.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PackageObstacle {
    /// Id of the error that an installation would end with.
    id: DiagnosticId,
    /// The reason.
    text: String,
    /// What to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl PackageToolkit {
    pub(super) fn new(set: &PackageSet, facts: &Facts, installed: &[Prefix]) -> Self {
        let offer = packages::offer(facts, &set.toolkit);
        let row = offer.as_ref().ok().map(|offer| offer.row);
        let version = facts.distro.as_ref().map(|distro| distro.value.version.clone()).unwrap_or_default();
        Self {
            toolkit: set.toolkit.clone(),
            available: offer.is_ok(),
            installed: installed.iter().map(|one| &one.record).any(|record| {
                record.toolkit == set.toolkit && record.distribution.is_some() && record.target.is_none()
            }),
            manager: offer.as_ref().ok().map(|offer| offer.kind.id().to_owned()),
            names: row.map(|row| row.packages.clone()).unwrap_or_default(),
            optional: row.into_iter().flat_map(|row| &row.optional).map(component).collect(),
            tried: row.is_some_and(|row| row.tried.contains(&version)),
            problem: offer.err().map(|objection| PackageObstacle {
                id: objection.id,
                text: objection.text,
                hint: objection.hint,
            }),
        }
    }

    /// The toolkit in one line.
    pub(super) fn line(&self) -> String {
        if let Some(problem) = &self.problem {
            let hint = problem.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
            return format!("unavailable: {} [{}]{hint}", problem.text, problem.id);
        }
        let tried = if self.tried { "" } else { " (never tried on this release)" };
        let optional = self.optional.iter().map(OptionalComponent::text);
        let names = std::iter::once(self.names.join(", ")).chain(optional).collect::<Vec<_>>().join("; ");
        format!("{}: {names}{tried}", self.manager.as_deref().unwrap_or_default())
    }
}

fn component((id, packages): (&String, &OptionalPackages)) -> OptionalComponent {
    OptionalComponent { id: id.clone(), download_bytes: Some(packages.download) }
}

/// The document of `toolkit install --dry-run --json` for packages.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PackageDryRun {
    schema: Schema,
    /// Id of the toolkit: `vulkan`.
    toolkit: String,
    /// The distribution and release: `debian-12`.
    distribution: String,
    /// The packages that make up the toolkit, without their dependencies.
    names: Vec<String>,
    /// Destination folder; absent if the package manager could not be queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    into: Option<String>,
    /// Whether it is already installed.
    installed: bool,
    /// Bytes to download at most.
    download_bytes: u64,
    /// Required disk space in bytes, estimated.
    disk_bytes: u64,
    /// Free bytes at the destination, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    /// All packages to unpack.
    packages: Vec<UnpackedPackage>,
    /// Why the package manager could not be queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    unresolved: Option<String>,
}

impl PackageDryRun {
    /// The document of a planned installation.
    #[must_use]
    pub fn new(preview: &PackagePreview) -> Self {
        Self {
            schema: Schema { name: "toolkit-packages-plan", version: 1 },
            toolkit: preview.toolkit.clone(),
            distribution: preview.distribution.clone(),
            names: preview.names.clone(),
            into: preview.into.as_ref().map(ToString::to_string),
            installed: preview.installed.is_some(),
            download_bytes: preview.download,
            disk_bytes: preview.disk,
            free_bytes: preview.free,
            packages: preview.packages.clone(),
            unresolved: preview.unresolved.clone(),
        }
    }

    /// The document as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = Rows::default();
        let from = format!("{} from the packages of {}", self.toolkit, self.distribution);
        match &self.into {
            Some(into) if self.installed => text.row(format_args!("{from} is installed in {into}")),
            Some(into) => text.row(format_args!("{from} would be installed into {into}")),
            None => text.row(format_args!("{from}: {}", self.names.join(", "))),
        }
        if let Some(why) = &self.unresolved {
            text.row(format_args!("the dependencies are not known yet: {why}"));
            return text.into_text();
        }
        if !self.installed {
            let (download, disk) =
                (bytes::show_if_known(self.download_bytes), bytes::show_if_known(self.disk_bytes));
            let free =
                self.free_bytes.map(|free| format!(", {} free", bytes::show(free))).unwrap_or_default();
            text.row(format_args!("{download} to download, up to {disk} of disk space{free}"));
        }
        for one in &self.packages {
            text.row(format_args!(
                "  {:<24} {:<24} {:>10}",
                one.name,
                one.version,
                bytes::show_if_known(one.size)
            ));
        }
        text.into_text()
    }
}
