//! The parts of a toolkit description about GPUs: their vendors, drivers and device nodes, and how a driver is asked.

use std::collections::BTreeMap;

use gpubuild_host::{Os, Platform};
use serde::Deserialize;

use crate::diagnostic::DiagnosticId;
use crate::facts::Vendor;

/// The hardware that a toolkit's backends use.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwareDescription {
    /// The vendors.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// Operating systems on which the hardware is supported; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Kernel drivers, one of which the device must be bound to on Linux; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
    /// Id of the finding if no driver is bound.
    pub driver_missing: Option<DiagnosticId>,
    /// Ids of the findings if a device is bound to an unsuitable kernel driver, by driver.
    #[serde(default)]
    pub wrong_drivers: BTreeMap<String, DiagnosticId>,
    /// Platforms that always have the hardware, such as Metal on Apple processors.
    #[serde(default)]
    pub builtin: Vec<Platform>,
    /// The name of the device on these platforms.
    pub builtin_name: Option<String>,
}

/// What a backend requires at run time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeDescription {
    /// Names of the library that programs load, by operating system. The first one that is found is used. Empty if no library is loaded.
    #[serde(default)]
    pub loader: BTreeMap<Os, Vec<String>>,
    /// Folders to search after those of the loader, by operating system.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// Id of the finding if the library is not found.
    pub loader_missing: Option<DiagnosticId>,
    /// Id of the finding if a node is missing in a container.
    pub container: Option<DiagnosticId>,
    /// Id of the finding if the library is missing in a container whose runtime should provide it.
    pub container_loader: Option<DiagnosticId>,
    /// Id of the finding if a node cannot be opened in a container.
    pub container_denied: Option<DiagnosticId>,
    /// Id of the finding if the versions of the library and the kernel driver differ.
    pub mismatch: Option<DiagnosticId>,
    /// Id of the finding if the driver is too old for the chosen toolkit.
    pub too_old: Option<DiagnosticId>,
    /// Id of the finding if the libraries of the chosen toolkit support none of the devices.
    pub device_unsupported: Option<DiagnosticId>,
    /// A pattern with `{version}` that matches the library's real file name.
    pub version: Option<String>,
    /// Device nodes on Linux.
    #[serde(default)]
    pub nodes: Vec<NodeDescription>,
    /// Drivers behind the loader.
    pub drivers: Option<DriverDescription>,
}

/// A device node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeDescription {
    /// Alternative paths; may contain `*`. The first alternative that exists is used. If it has several matches, one that can be opened is
    /// enough.
    pub paths: Vec<String>,
    /// Id of the finding if it is missing; `None` if it is optional.
    pub missing: Option<DiagnosticId>,
    /// Id of the finding if it cannot be opened.
    pub denied: DiagnosticId,
    /// The program with which the driver creates the node on first use. If it exists, a missing node is not a problem.
    pub made_by: Option<String>,
    /// Kernel drivers whose GPUs use the node; all if empty.
    #[serde(default)]
    pub only_drivers: Vec<String>,
    /// Kernel drivers whose GPUs do not use the node.
    #[serde(default)]
    pub except_drivers: Vec<String>,
}

impl NodeDescription {
    /// Whether GPUs with this kernel driver use the node. True if the driver is unknown.
    #[must_use]
    pub fn serves(&self, kernel_driver: Option<&str>) -> bool {
        let Some(driver) = kernel_driver else { return true };
        let named = |list: &[String]| list.iter().any(|name| name == driver);
        (self.only_drivers.is_empty() || named(&self.only_drivers)) && !named(&self.except_drivers)
    }

    /// Whether only some GPUs use the node.
    #[must_use]
    pub fn is_for_some(&self) -> bool {
        !self.only_drivers.is_empty() || !self.except_drivers.is_empty()
    }
}

/// How to find the drivers behind a loader: by manifests in folders, variables and the registry.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverDescription {
    /// The format of the manifests.
    pub form: ManifestForm,
    /// Variables with a list of manifest files that replaces all other sources. The first one that is set is used.
    #[serde(default)]
    pub env: Vec<String>,
    /// Variables with a list of additional manifest files.
    #[serde(default)]
    pub add_env: Vec<String>,
    /// A variable with a folder that replaces the default folders.
    pub folder_env: Option<String>,
    /// A variable with a list of additional drivers, as libraries without a manifest.
    pub library_env: Option<String>,
    /// Folders with manifests, by operating system; may contain placeholders.
    #[serde(default)]
    pub folders: BTreeMap<Os, Vec<String>>,
    /// The file extension of manifests.
    #[serde(default)]
    pub extension: String,
    /// Registry keys in which the names of values are paths of manifests or libraries.
    #[serde(default)]
    pub registry: Vec<String>,
    /// The name of the value in the registry keys of display adapters.
    pub adapter_value: Option<String>,
    /// Libraries that are drivers, by operating system (Level Zero).
    #[serde(default)]
    pub libraries: BTreeMap<Os, Vec<String>>,
    /// Id of the finding if the devices have no driver.
    pub missing: Option<DiagnosticId>,
    /// Ids of the findings in a container, by vendor of the GPU.
    #[serde(default)]
    pub missing_in_container: BTreeMap<Vendor, DiagnosticId>,
    /// Id of the finding if only software drivers exist.
    pub software_only: Option<DiagnosticId>,
    /// Properties of known drivers. The first match is used.
    #[serde(default)]
    pub known: Vec<KnownDriver>,
}

/// The format of a manifest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestForm {
    /// JSON with `ICD.library_path`.
    #[default]
    VulkanJson,
    /// A text file that contains the library's name or path.
    IcdText,
    /// No manifests, only libraries.
    Library,
}

/// Properties of a driver that is identified by its name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDriver {
    /// Text that the name of the manifest or library contains, in lowercase.
    pub has: String,
    /// The vendors whose GPUs it supports.
    #[serde(default)]
    pub vendors: Vec<Vendor>,
    /// The name, if it is a software driver, which runs on the CPU.
    pub software: Option<String>,
    /// Kernel drivers that it works with; any if empty.
    #[serde(default)]
    pub kernel_drivers: Vec<String>,
}

/// The text and hint of a reason, one line each. `{name}` is replaced by a value of the actual case, `{install}` and
/// `{install_driver}` by the command for the host's distribution.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReasonText {
    /// The problem.
    pub text: String,
    /// How to fix it.
    pub hint: Option<String>,
}
