//! Determines whether this machine can run a backend.

use gpubuild_core::text::quoted;
use gpubuild_core::version::Version;
use gpubuild_host::{HostPath, Os};

use super::hardware::HardwareVerdict;
use super::probes::ParsedAnswer;
use super::reasons::RuleInput;
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
    input: &RuleInput<'_>,
    description: &Description,
    runtime: Option<&ToolkitRuntime>,
    hardware: &HardwareVerdict,
    answer: Option<&ParsedAnswer>,
) -> RunVerdict {
    let rule = Rule { input, description, runtime, hardware };
    let driver = rule.driver_version();
    let (Some(needs), Some(runtime)) = (&description.runtime, runtime) else {
        let blocked = hardware.state != Presence::Present;
        let state = if blocked { Readiness::Blocked } else { Readiness::Ready };
        return RunVerdict {
            state,
            driver,
            reasons: if blocked { hardware.reasons.clone() } else { Vec::new() },
        };
    };
    if hardware.state != Presence::Present {
        return rule.without_hardware(needs, runtime, driver);
    }
    // If a driver reports a hardware device, then its loader, device nodes and kernel module work.
    let proven = answer.is_some_and(ParsedAnswer::drives_hardware);
    let mut reasons: Vec<Reason> =
        if proven { Vec::new() } else { rule.kernel_driver().into_iter().collect() };
    if reasons.is_empty() {
        if !proven {
            reasons.extend(rule.files(needs, runtime));
        }
        reasons.extend(rule.too_old(needs, driver.as_ref(), answer));
        reasons.extend(rule.devices(needs, driver.as_ref()));
    }
    let state = if reasons.is_empty() { Readiness::Ready } else { Readiness::Blocked };
    RunVerdict { state, driver, reasons }
}

/// Adds a probe's result to the verdict from files.
pub(super) fn apply(
    input: &RuleInput<'_>,
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
        None if answer.answered && !answer.drives_hardware() => Some(no_device(input, description, answer)),
        None => None,
    };
    let Some(reason) = reason else { return };
    // Reasons from files are closer to the cause than a failure that the driver reports.
    let is_symptom = reason.id == "probe.failed" || answer.reason.is_none();
    if is_symptom && run.state == Readiness::Blocked {
        return;
    }
    run.state = match reason.id.as_str() {
        "probe.invalid" if run.state == Readiness::Ready => Readiness::Unknown,
        _ => Readiness::Blocked,
    };
    run.reasons.push(reason);
}

/// The reason for a working driver that reports no GPU: no device at all, or only software devices.
fn no_device(input: &RuleInput<'_>, description: &Description, answer: &ParsedAnswer) -> Reason {
    let drivers = description.runtime.as_ref().and_then(|needs| needs.drivers.as_ref());
    let software_only = drivers.and_then(|drivers| drivers.software_only);
    if let (Some(id), false) = (software_only, answer.devices.is_empty()) {
        let names = quoted(answer.devices.iter().map(|gpu| gpu.name.as_str()));
        return input.reason(id, description, &[("drivers", names)]);
    }
    let name = description.backends.first().map_or(description.id.as_str(), |backend| backend.id());
    Reason::new(id!("probe.no-device"), format!("the {name} driver works but reports no GPU"))
        .hint("a variable such as `CUDA_VISIBLE_DEVICES` may hide it")
}

struct Rule<'a> {
    input: &'a RuleInput<'a>,
    description: &'a Description,
    runtime: Option<&'a ToolkitRuntime>,
    hardware: &'a HardwareVerdict,
}

impl Rule<'_> {
    fn reason(&self, id: DiagnosticId, values: &[(&str, String)]) -> Reason {
        self.input.reason(id, self.description, values)
    }

    /// Reasons from files about loader, drivers and device nodes.
    fn files(&self, needs: &RuntimeDescription, runtime: &ToolkitRuntime) -> Vec<Reason> {
        let mut reasons = self.libraries(needs, runtime);
        for reason in self.nodes(needs, runtime) {
            if reasons.iter().all(|known| known.id != reason.id) {
                reasons.push(reason);
            }
        }
        reasons.extend(self.mismatch(needs, runtime));
        reasons
    }

    fn driver_version(&self) -> Option<Version> {
        let vendor = self.hardware.real().next()?.vendor;
        let kernel = self.input.facts.drivers.iter().find(|driver| driver.vendor == vendor);
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

    /// The verdict without hardware: programs can still run on a software device, which is never recommended.
    fn without_hardware(
        &self,
        needs: &RuntimeDescription,
        runtime: &ToolkitRuntime,
        driver: Option<Version>,
    ) -> RunVerdict {
        let mut reasons = self.hardware.reasons.clone();
        let loader = runtime.loader.is_some() || loader_names(needs, self.input.os()).is_empty();
        if loader && self.hardware.software().next().is_some() {
            let names = quoted(self.hardware.software().map(|gpu| gpu.name.as_str()));
            let id = needs.drivers.as_ref().and_then(|drivers| drivers.software_only);
            reasons = id.map(|id| self.reason(id, &[("drivers", names)])).into_iter().collect();
            // Without a GPU, installing a driver does not help.
            for reason in &mut reasons {
                reason.hint = None;
            }
            return RunVerdict { state: Readiness::Ready, driver, reasons };
        }
        // Not in containers: there, the device may exist on the WSL host and not be passed through.
        if self.input.facts.wsl.is_some() && !self.input.in_container() && self.no_dxg(runtime) {
            reasons.insert(0, self.reason(id!("wsl.no-dxg"), &[]));
        }
        let state = match self.hardware.state {
            Presence::Unknown => Readiness::Unknown,
            Presence::Present | Presence::Absent => Readiness::Blocked,
        };
        RunVerdict { state, driver, reasons }
    }

    fn no_dxg(&self, runtime: &ToolkitRuntime) -> bool {
        self.input
            .inventory
            .runtimes
            .values()
            .chain([runtime])
            .all(|runtime| !runtime.nodes.iter().any(|node| node.path.as_str() == "/dev/dxg"))
    }

    /// The reason if the devices are bound to the wrong kernel driver or to none.
    fn kernel_driver(&self) -> Option<Reason> {
        let rules = &self.description.hardware;
        if self.input.os() != Os::Linux || rules.kernel_drivers.is_empty() {
            return None;
        }
        let right =
            |gpu: &Gpu| gpu.kernel_driver.as_ref().is_none_or(|driver| rules.kernel_drivers.contains(driver));
        if !self.hardware.real().any(right) {
            let bound = self.hardware.real().find_map(|gpu| gpu.kernel_driver.clone())?;
            let id = rules.wrong_drivers.get(&bound).copied().or(rules.driver_missing)?;
            return Some(self.reason(id, &[("driver", bound)]));
        }
        // All GPUs are unbound PCI devices, and no matching kernel module is loaded.
        let loaded = self.input.facts.drivers.iter().any(|driver| {
            rules.kernel_drivers.contains(&driver.module) || rules.vendors.contains(&driver.vendor)
        });
        let all_unbound = self.hardware.real().all(|gpu| gpu.kernel_driver.is_none() && gpu.pci.is_some());
        if all_unbound && !loaded { rules.driver_missing.map(|id| self.reason(id, &[])) } else { None }
    }

    fn libraries(&self, needs: &RuntimeDescription, runtime: &ToolkitRuntime) -> Vec<Reason> {
        let names = loader_names(needs, self.input.os());
        if runtime.loader.is_none() && !names.is_empty() {
            let library = names.first().cloned().unwrap_or_default();
            let id = match needs.container_loader {
                Some(id) if self.input.in_container() => id,
                _ => needs.loader_missing.unwrap_or(id!("toolkit.loader-missing")),
            };
            let what = format!("`{library}` was not found");
            let loader = self.reason(id, &[("library", library), ("what", what)]);
            // On macOS the loader and the driver are separate packages, and the system has neither: both have to be installed.
            let both = self.input.os() == Os::Macos;
            return std::iter::once(loader).chain(self.drivers(needs, runtime).filter(|_| both)).collect();
        }
        self.drivers(needs, runtime).into_iter().collect()
    }

    /// The reason if no driver behind the loader supports any of the devices.
    fn drivers(&self, needs: &RuntimeDescription, runtime: &ToolkitRuntime) -> Option<Reason> {
        let rules = needs.drivers.as_ref()?;
        if !rules.folders.contains_key(&self.input.os())
            && !rules.libraries.contains_key(&self.input.os())
            && (self.input.os() != Os::Windows || rules.registry.is_empty())
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
            return Some(self.reason(rules.missing?, &values));
        }
        let in_container =
            self.hardware.real().find_map(|gpu| rules.missing_in_container.get(&gpu.vendor).copied());
        if let (true, Some(id)) = (self.input.in_container(), in_container) {
            return Some(self.reason(id, &[]));
        }
        let software = self.hardware.software().next().is_some();
        let id = if software { rules.software_only.or(rules.missing) } else { rules.missing };
        let names = quoted(self.hardware.software().map(|gpu| gpu.name.as_str()));
        let library = rules.libraries.get(&self.input.os()).and_then(|names| names.first()).cloned();
        let values = [("why", String::new()), ("drivers", names), ("library", library.unwrap_or_default())];
        Some(self.reason(id?, &values))
    }

    fn nodes(&self, needs: &RuntimeDescription, runtime: &ToolkitRuntime) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = Vec::new();
        let groups = runtime.nodes.iter().map(|node| node.group).max().map_or(0, |last| last + 1);
        let of_group = |group: usize| runtime.nodes.iter().filter(move |node| node.group == group);
        let opens = |group: usize| of_group(group).any(|node| node.state == NodeState::Opens);
        let serves = |group: usize| {
            let node = needs.nodes.get(group);
            node.is_none_or(|node| self.hardware.real().any(|gpu| node.serves(gpu.kernel_driver.as_deref())))
        };
        let is_for_some = |group: usize| needs.nodes.get(group).is_some_and(NodeDescription::is_for_some);
        // One accessible GPU is enough.
        let reached = (0..groups).any(|group| is_for_some(group) && serves(group) && opens(group));
        for group in 0..groups {
            let nodes: Vec<&DeviceNode> = of_group(group).collect();
            if nodes.is_empty() || opens(group) || !serves(group) || (reached && is_for_some(group)) {
                continue;
            }
            let closed = nodes.iter().find(|node| node.state != NodeState::Missing);
            let node = closed.or(nodes.first()).copied();
            if let Some(reason) = node.and_then(|node| self.node(needs, runtime, node))
                && reasons.iter().all(|known| known.id != reason.id)
            {
                reasons.push(reason);
            }
        }
        reasons
    }

    fn node(
        &self,
        needs: &RuntimeDescription,
        runtime: &ToolkitRuntime,
        node: &DeviceNode,
    ) -> Option<Reason> {
        let container = |id: Option<DiagnosticId>| id.filter(|_| self.input.in_container());
        let id = match node.state {
            NodeState::Opens => return None,
            NodeState::Missing => {
                // If only some nodes are missing in a container, they are also missing on the host, unless its kernel lists the GPU
                // for computing. If all are missing, the container was started without them.
                let id = node.missing?;
                let all_missing = runtime.nodes.iter().all(|node| node.state == NodeState::Missing);
                let listed =
                    self.hardware.real().any(|gpu| gpu.found_via.iter().any(|source| source == "kfd"));
                container(needs.container).filter(|_| all_missing || listed).unwrap_or(id)
            }
            NodeState::Denied | NodeState::Failed => container(needs.container_denied).unwrap_or(node.denied),
        };
        let what = match node.state {
            NodeState::Missing => format!("`{}` is missing", node.path),
            _ => format!("`{}` cannot be opened", node.path),
        };
        Some(self.reason(id, &[("node", node.path.to_string()), ("what", what)]))
    }

    /// The reason if driver library and kernel module have different versions, as after an incomplete update.
    fn mismatch(&self, needs: &RuntimeDescription, runtime: &ToolkitRuntime) -> Option<Reason> {
        let id = needs.mismatch?;
        let library = runtime.version.as_ref()?;
        if runtime.loader.as_ref().is_some_and(|loader| is_compatibility(&loader.value)) {
            return None;
        }
        let vendor = self.hardware.real().next()?.vendor;
        let kernel = self.input.facts.drivers.iter().find(|driver| driver.vendor == vendor)?;
        let kernel = kernel.version.as_ref().filter(|fact| fact.found_via != "override")?;
        (kernel.value != library.value).then(|| {
            let name = runtime.loader.as_ref().map(|loader| loader.value.to_string()).unwrap_or_default();
            let values = [
                ("kernel", kernel.value.to_string()),
                ("found", library.value.to_string()),
                ("library", name),
            ];
            self.reason(id, &values)
        })
    }

    fn too_old(
        &self,
        needs: &RuntimeDescription,
        driver: Option<&Version>,
        answer: Option<&ParsedAnswer>,
    ) -> Option<Reason> {
        let (id, driver) = (needs.too_old?, driver?);
        let driver = self.compatibility().filter(|library| *library > driver).unwrap_or(driver);
        let release = self.input.inventory.chosen(&self.description.id)?.version()?;
        // The floor is that of the newest update of the release; drivers know better for which they are.
        let reported = answer.and_then(|answer| answer.release.as_ref());
        if reported.is_some_and(|own| (own.major(), own.minor()) >= (release.major(), release.minor())) {
            return None;
        }
        let floor = self.description.driver_floor(release, self.input.os())?;
        (driver < floor).then(|| {
            let values = [
                ("driver", driver.to_string()),
                ("version", release.release()),
                ("floor", floor.to_string()),
            ];
            self.reason(id, &values)
        })
    }

    /// The reason if the driver, or the toolkit's libraries, support none of the devices.
    fn devices(&self, needs: &RuntimeDescription, driver: Option<&Version>) -> Option<Reason> {
        let devices: Vec<&Gpu> = self.hardware.real().collect();
        let archs: Vec<&str> = devices.iter().filter_map(|gpu| gpu.arch.as_deref()).collect();
        if archs.is_empty() || archs.len() < devices.len() {
            return None;
        }
        let flavour = self.input.facts.drivers.iter().find(|driver| driver.vendor == devices[0].vendor);
        let flavour = flavour.and_then(|driver| driver.flavour.as_deref());
        let conflicts: Vec<_> = archs
            .iter()
            .filter_map(|arch| Some((arch, self.description.device_conflict(arch, driver, flavour)?)))
            .collect();
        if let (true, Some((arch, row))) = (conflicts.len() == archs.len(), conflicts.first()) {
            let driver = driver.map(ToString::to_string).unwrap_or_default();
            let last = row.last.as_ref().map(ToString::to_string).unwrap_or_default();
            let values = [("arch", (**arch).to_owned()), ("driver", driver), ("last", last)];
            return Some(self.reason(row.id, &values));
        }
        let id = needs.device_unsupported?;
        let copy = self.input.inventory.chosen(&self.description.id)?;
        // With `HSA_OVERRIDE_GFX_VERSION`, programs use the library code of another architecture.
        let overridden = self.input.facts.overrides.iter().find(|set| set.key == "rocm.hsa-override");
        let overridden = overridden.filter(|_| self.input.os() == Os::Linux).map(|set| set.value.as_str());
        let supported =
            |arch: &&str| copy.device_archs.iter().any(|known| known == overridden.unwrap_or(arch));
        (!copy.device_archs.is_empty() && !archs.iter().any(supported)).then(|| {
            let version = copy.version().map(ToString::to_string).unwrap_or_default();
            self.reason(id, &[("arch", archs.join(", ")), ("version", version)])
        })
    }
}

/// Whether a library belongs to NVIDIA's forward compatibility package, which supports a newer toolkit on an older driver. It is in
/// `cuda/compat`, or in a folder to which a container's entry script links it.
#[must_use]
pub fn is_compatibility(library: &HostPath) -> bool {
    library.as_str().split('/').any(|name| matches!(name, "compat" | "compat.real" | "cuda-compat"))
}

fn loader_names(needs: &RuntimeDescription, os: Os) -> &[String] {
    needs.loader.get(&os).map_or(&[], Vec::as_slice)
}

/// Whether a driver behind a loader may support a GPU. A driver of an unknown vendor may support any GPU.
fn matches(driver: &RuntimeDriver, gpu: &Gpu) -> bool {
    let vendor = driver.vendors.is_empty() || driver.vendors.contains(&gpu.vendor);
    let kernel = driver.kernel_drivers.is_empty()
        || gpu.vendor != Vendor::Nvidia
        || gpu.kernel_driver.as_ref().is_none_or(|bound| driver.kernel_drivers.contains(bound));
    vendor && kernel
}
