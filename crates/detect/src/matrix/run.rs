//! Determines whether this machine can run a backend.

use gpubuild_core::version::Version;
use gpubuild_host::{HostPath, Os};

use super::hardware::HardwareVerdict;
use super::probes::ParsedAnswer;
use super::words::{WordCase, quoted};
use super::{Presence, Readiness, Reason};
use crate::diagnostic::DiagnosticId;
use crate::facts::{Gpu, Vendor};
use crate::id;
use crate::toolkit::description::{Description, NodeDescription, RuntimeDescription};
use crate::toolkit::{DeviceNode, NodeState, RuntimeDriver, ToolkitRuntime};

/// The run part of a verdict.
pub(super) struct RunVerdict {
    pub(super) state: Readiness,
    pub(super) driver: Option<Version>,
    pub(super) reasons: Vec<Reason>,
}

/// Evaluates driver, loader and device nodes of a described backend.
pub(super) fn evaluate(
    case: &WordCase<'_>,
    description: &Description,
    runtime: Option<&ToolkitRuntime>,
    hardware: &HardwareVerdict,
    answer: Option<&ParsedAnswer>,
) -> RunVerdict {
    let rule = Rule { case, description, runtime, hardware };
    let driver = rule.driver_version();
    let (Some(words), Some(runtime)) = (&description.runtime, runtime) else {
        let blocked = hardware.state != Presence::Present;
        let state = if blocked { Readiness::Blocked } else { Readiness::Ready };
        return RunVerdict {
            state,
            driver,
            reasons: if blocked { hardware.reasons.clone() } else { Vec::new() },
        };
    };
    if hardware.state != Presence::Present {
        return rule.without_hardware(words, runtime, driver);
    }
    // If a probed driver reports a device, its loader, nodes and kernel module work.
    let proven = answer.is_some_and(ParsedAnswer::drives_hardware);
    let mut reasons: Vec<Reason> =
        if proven { Vec::new() } else { rule.kernel_driver().into_iter().collect() };
    if reasons.is_empty() {
        if !proven {
            reasons.extend(rule.files(words, runtime));
        }
        reasons.extend(rule.too_old(words, driver.as_ref()));
        reasons.extend(rule.devices(words, driver.as_ref()));
    }
    let state = if reasons.is_empty() { Readiness::Ready } else { Readiness::Blocked };
    RunVerdict { state, driver, reasons }
}

/// Adds a probe's result to the verdict from files.
pub(super) fn apply(
    case: &WordCase<'_>,
    description: &Description,
    run: &mut RunVerdict,
    hardware: &HardwareVerdict,
    answer: &ParsedAnswer,
) {
    if hardware.state != Presence::Present {
        return;
    }
    let reason = match &answer.reason {
        Some(reason) => Some(reason.clone()),
        None if answer.answered && !answer.drives_hardware() => Some(shows_none(case, description, answer)),
        None => None,
    };
    let Some(reason) = reason else { return };
    // Reasons from files are closer to the cause than a driver that only reports a failure.
    let says_no = reason.id == "probe.failed" || answer.reason.is_none();
    if says_no && run.state == Readiness::Blocked {
        return;
    }
    run.state = match reason.id.as_str() {
        "probe.invalid" if run.state == Readiness::Ready => Readiness::Unknown,
        _ => Readiness::Blocked,
    };
    run.reasons.push(reason);
}

/// The reason for a working driver that reports no GPU: no device at all, or only software devices.
fn shows_none(case: &WordCase<'_>, description: &Description, answer: &ParsedAnswer) -> Reason {
    let drivers = description.runtime.as_ref().and_then(|words| words.drivers.as_ref());
    let software_only = drivers.and_then(|drivers| drivers.software_only);
    if let (Some(id), false) = (software_only, answer.devices.is_empty()) {
        let names = quoted(answer.devices.iter().map(|gpu| gpu.name.as_str()));
        return case.say(id, description, &[("drivers", names)]);
    }
    let name = description.backends.first().map_or(description.id.as_str(), |backend| backend.id());
    Reason::new(id!("probe.no-device"), format!("the {name} driver works but reports no GPU"))
        .hint("a variable such as `CUDA_VISIBLE_DEVICES` may hide it")
}

struct Rule<'a> {
    case: &'a WordCase<'a>,
    description: &'a Description,
    runtime: Option<&'a ToolkitRuntime>,
    hardware: &'a HardwareVerdict,
}

impl Rule<'_> {
    fn say(&self, id: DiagnosticId, values: &[(&str, String)]) -> Reason {
        self.case.say(id, self.description, values)
    }

    /// Reasons from files about loader, drivers and device nodes.
    fn files(&self, words: &RuntimeDescription, runtime: &ToolkitRuntime) -> Vec<Reason> {
        let mut reasons = self.libraries(words, runtime);
        for reason in self.nodes(words, runtime) {
            if reasons.iter().all(|known| known.id != reason.id) {
                reasons.push(reason);
            }
        }
        reasons.extend(self.mismatch(words, runtime));
        reasons
    }

    fn driver_version(&self) -> Option<Version> {
        let vendor = self.hardware.real().next()?.vendor;
        let kernel = self.case.facts.drivers.iter().find(|driver| driver.vendor == vendor);
        let kernel = kernel.and_then(|driver| driver.version.as_ref());
        let library = self.runtime.and_then(|runtime| runtime.version.as_ref());
        kernel.or(library).map(|fact| fact.value.clone())
    }

    /// The version of the newer driver libraries in a toolkit's compatibility package, if programs load them.
    fn compatibility(&self) -> Option<&Version> {
        let runtime = self.runtime.filter(|runtime| {
            runtime.loader.as_ref().is_some_and(|loader| is_compatibility(&loader.value))
        })?;
        runtime.version.as_ref().map(|fact| &fact.value)
    }

    /// A program can still run on a software device. The device is listed but never recommended.
    fn without_hardware(
        &self,
        words: &RuntimeDescription,
        runtime: &ToolkitRuntime,
        driver: Option<Version>,
    ) -> RunVerdict {
        let mut reasons = self.hardware.reasons.clone();
        let loader = runtime.loader.is_some() || loader_names(words, self.case.os()).is_empty();
        if loader && self.hardware.software().next().is_some() {
            let names = quoted(self.hardware.software().map(|gpu| gpu.name.as_str()));
            let id = words.drivers.as_ref().and_then(|drivers| drivers.software_only);
            reasons = id.map(|id| self.say(id, &[("drivers", names)])).into_iter().collect();
            // Without a GPU, installing a driver does not help.
            for reason in &mut reasons {
                reason.hint = None;
            }
            return RunVerdict { state: Readiness::Ready, driver, reasons };
        }
        // In a container on WSL, the device may exist outside and only not be passed through.
        if self.case.facts.wsl.is_some() && !self.case.in_container() && self.no_dxg(runtime) {
            reasons.insert(0, self.say(id!("wsl.no-dxg"), &[]));
        }
        let state = match self.hardware.state {
            Presence::Unknown => Readiness::Unknown,
            Presence::Present | Presence::Absent => Readiness::Blocked,
        };
        RunVerdict { state, driver, reasons }
    }

    fn no_dxg(&self, runtime: &ToolkitRuntime) -> bool {
        self.case
            .inventory
            .runtimes
            .values()
            .chain([runtime])
            .all(|runtime| !runtime.nodes.iter().any(|node| node.path.as_str() == "/dev/dxg"))
    }

    /// Set if the devices are bound to the wrong kernel driver, or to none.
    fn kernel_driver(&self) -> Option<Reason> {
        let rules = &self.description.hardware;
        if self.case.os() != Os::Linux || rules.kernel_drivers.is_empty() {
            return None;
        }
        let right =
            |gpu: &Gpu| gpu.kernel_driver.as_ref().is_none_or(|driver| rules.kernel_drivers.contains(driver));
        if !self.hardware.real().any(right) {
            let bound = self.hardware.real().find_map(|gpu| gpu.kernel_driver.clone())?;
            let id = rules.wrong_drivers.get(&bound).copied().or(rules.driver_missing)?;
            return Some(self.say(id, &[("driver", bound)]));
        }
        // The GPUs on the PCI bus are unbound, and none of the kernel modules is loaded.
        let loaded = self.case.facts.drivers.iter().any(|driver| {
            rules.kernel_drivers.contains(&driver.module) || rules.vendors.contains(&driver.vendor)
        });
        let all_unbound = self.hardware.real().all(|gpu| gpu.kernel_driver.is_none() && gpu.pci.is_some());
        if all_unbound && !loaded { rules.driver_missing.map(|id| self.say(id, &[])) } else { None }
    }

    fn libraries(&self, words: &RuntimeDescription, runtime: &ToolkitRuntime) -> Vec<Reason> {
        let names = loader_names(words, self.case.os());
        if runtime.loader.is_none() && !names.is_empty() {
            let library = names.first().cloned().unwrap_or_default();
            let id = match words.container_loader {
                Some(id) if self.case.in_container() => id,
                _ => words.loader_missing.unwrap_or(id!("toolkit.loader-missing")),
            };
            let what = format!("`{library}` was not found");
            return vec![self.say(id, &[("library", library), ("what", what)])];
        }
        self.drivers(words, runtime).into_iter().collect()
    }

    /// Set if no driver behind the loader supports one of the devices.
    fn drivers(&self, words: &RuntimeDescription, runtime: &ToolkitRuntime) -> Option<Reason> {
        let rules = words.drivers.as_ref()?;
        if !rules.folders.contains_key(&self.case.os())
            && !rules.libraries.contains_key(&self.case.os())
            && (self.case.os() != Os::Windows || rules.registry.is_empty())
        {
            return None;
        }
        let is_candidate = |driver: &&RuntimeDriver| {
            driver.software.is_none() && self.hardware.real().any(|gpu| matches(driver, gpu))
        };
        let mut candidates = runtime.drivers.iter().filter(is_candidate).peekable();
        if candidates.peek().is_some() {
            let broken: Vec<&RuntimeDriver> = candidates.clone().filter(|driver| !driver.found).collect();
            if candidates.any(|driver| driver.found) {
                return None;
            }
            let driver = broken.first()?;
            let why = format!(": `{}` names `{}`, which was not found", driver.manifest, driver.library);
            let values = [
                ("why", why),
                ("manifest", driver.manifest.to_string()),
                ("library", driver.library.clone()),
            ];
            return Some(self.say(rules.missing?, &values));
        }
        let in_container =
            self.hardware.real().find_map(|gpu| rules.missing_in_container.get(&gpu.vendor).copied());
        if let (true, Some(id)) = (self.case.in_container(), in_container) {
            return Some(self.say(id, &[]));
        }
        let software = self.hardware.software().next().is_some();
        let id = if software { rules.software_only.or(rules.missing) } else { rules.missing };
        let names = quoted(self.hardware.software().map(|gpu| gpu.name.as_str()));
        let library = rules.libraries.get(&self.case.os()).and_then(|names| names.first()).cloned();
        let values = [("why", String::new()), ("drivers", names), ("library", library.unwrap_or_default())];
        Some(self.say(id?, &values))
    }

    fn nodes(&self, words: &RuntimeDescription, runtime: &ToolkitRuntime) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        let groups = runtime.nodes.iter().map(|node| node.group).max().map_or(0, |last| last + 1);
        let of_group = |group: usize| runtime.nodes.iter().filter(move |node| node.group == group);
        let opens = |group: usize| of_group(group).any(|node| node.state == NodeState::Opens);
        let serves = |group: usize| {
            let node = words.nodes.get(group);
            node.is_none_or(|node| self.hardware.real().any(|gpu| node.serves(gpu.kernel_driver.as_deref())))
        };
        let is_for_some = |group: usize| words.nodes.get(group).is_some_and(NodeDescription::is_for_some);
        // One accessible GPU is enough.
        let reached = (0..groups).any(|group| is_for_some(group) && serves(group) && opens(group));
        for group in 0..groups {
            let nodes: Vec<&DeviceNode> = of_group(group).collect();
            if nodes.is_empty() || opens(group) || !serves(group) || (reached && is_for_some(group)) {
                continue;
            }
            let closed = nodes.iter().find(|node| node.state != NodeState::Missing);
            let node = closed.or(nodes.first()).copied();
            if let Some(reason) = node.and_then(|node| self.node(words, runtime, node))
                && reasons.iter().all(|known| known.id != reason.id)
            {
                reasons.push(reason);
            }
        }
        reasons
    }

    fn node(
        &self,
        words: &RuntimeDescription,
        runtime: &ToolkitRuntime,
        node: &DeviceNode,
    ) -> Option<Reason> {
        let container = |id: Option<DiagnosticId>| id.filter(|_| self.case.in_container());
        let id = match node.state {
            NodeState::Opens => return None,
            NodeState::Missing => {
                // A node that may be missing outside of a container may also be missing inside. If only some are missing, they were
                // already missing on the machine.
                let id = node.missing?;
                let alone = runtime.nodes.iter().all(|node| node.state == NodeState::Missing);
                container(words.container).filter(|_| alone).unwrap_or(id)
            }
            NodeState::Denied | NodeState::Failed => container(words.container_denied).unwrap_or(node.denied),
        };
        let what = match node.state {
            NodeState::Missing => format!("`{}` is missing", node.path),
            _ => format!("`{}` cannot be opened", node.path),
        };
        Some(self.say(id, &[("node", node.path.to_string()), ("what", what)]))
    }

    /// Set if the library and the kernel module have different versions: an update is incomplete.
    fn mismatch(&self, words: &RuntimeDescription, runtime: &ToolkitRuntime) -> Option<Reason> {
        let id = words.mismatch?;
        let library = runtime.version.as_ref()?;
        if runtime.loader.as_ref().is_some_and(|loader| is_compatibility(&loader.value)) {
            return None;
        }
        let vendor = self.hardware.real().next()?.vendor;
        let kernel = self.case.facts.drivers.iter().find(|driver| driver.vendor == vendor)?;
        let kernel = kernel.version.as_ref().filter(|fact| fact.found_via != "override")?;
        (kernel.value != library.value).then(|| {
            let name = runtime.loader.as_ref().map(|loader| loader.value.to_string()).unwrap_or_default();
            let values = [
                ("kernel", kernel.value.to_string()),
                ("found", library.value.to_string()),
                ("library", name),
            ];
            self.say(id, &values)
        })
    }

    fn too_old(&self, words: &RuntimeDescription, driver: Option<&Version>) -> Option<Reason> {
        let (id, driver) = (words.too_old?, driver?);
        let driver = self.compatibility().filter(|library| *library > driver).unwrap_or(driver);
        let release = self.case.inventory.chosen(&self.description.id)?.version()?;
        let floor = self.description.driver_floor(release, self.case.os())?;
        (driver < floor).then(|| {
            let values = [
                ("driver", driver.to_string()),
                ("version", release.release()),
                ("floor", floor.to_string()),
            ];
            self.say(id, &values)
        })
    }

    /// Set if neither the driver nor the toolkit's libraries support any of the devices.
    fn devices(&self, words: &RuntimeDescription, driver: Option<&Version>) -> Option<Reason> {
        let devices: Vec<&Gpu> = self.hardware.real().collect();
        let archs: Vec<&str> = devices.iter().filter_map(|gpu| gpu.arch.as_deref()).collect();
        if archs.is_empty() || archs.len() < devices.len() {
            return None;
        }
        let flavour = self.case.facts.drivers.iter().find(|driver| driver.vendor == devices[0].vendor);
        let flavour = flavour.and_then(|driver| driver.flavour.as_deref());
        let conflicts: Vec<_> = archs
            .iter()
            .filter_map(|arch| Some((arch, self.description.device_conflict(arch, driver, flavour)?)))
            .collect();
        if let (true, Some((arch, row))) = (conflicts.len() == archs.len(), conflicts.first()) {
            let driver = driver.map(ToString::to_string).unwrap_or_default();
            let last = row.last.as_ref().map(ToString::to_string).unwrap_or_default();
            let values = [("arch", (**arch).to_owned()), ("driver", driver), ("last", last)];
            return Some(self.say(row.id, &values));
        }
        let id = words.device_unsupported?;
        let copy = self.case.inventory.chosen(&self.description.id)?;
        // `HSA_OVERRIDE_GFX_VERSION` makes programs see another architecture, for which they look in the libraries.
        let told = self.case.facts.overrides.iter().find(|set| set.key == "rocm.hsa-override");
        let told = told.filter(|_| self.case.os() == Os::Linux).map(|set| set.value.as_str());
        let supported = |arch: &&str| copy.device_archs.iter().any(|known| known == told.unwrap_or(arch));
        (!copy.device_archs.is_empty() && !archs.iter().any(supported)).then(|| {
            let version = copy.version().map(ToString::to_string).unwrap_or_default();
            self.say(id, &[("arch", archs.join(", ")), ("version", version)])
        })
    }
}

/// Whether a library belongs to NVIDIA's compatibility package, which supports a newer toolkit on an older driver: in
/// `cuda/compat`, or where a container's start script links it.
#[must_use]
pub fn is_compatibility(library: &HostPath) -> bool {
    library.as_str().split('/').any(|name| matches!(name, "compat" | "compat.real" | "cuda-compat"))
}

fn loader_names(words: &RuntimeDescription, os: Os) -> &[String] {
    words.loader.get(&os).map_or(&[], Vec::as_slice)
}

/// Whether a driver behind a loader supports a GPU. A driver of an unknown vendor may support any.
fn matches(driver: &RuntimeDriver, gpu: &Gpu) -> bool {
    let vendor = driver.vendors.is_empty() || driver.vendors.contains(&gpu.vendor);
    let kernel = driver.kernel_drivers.is_empty()
        || gpu.vendor != Vendor::Nvidia
        || gpu.kernel_driver.as_ref().is_none_or(|bound| driver.kernel_drivers.contains(bound));
    vendor && kernel
}
