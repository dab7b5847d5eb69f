//! No NVIDIA driver controls the GPU: the causes.

use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, Severity};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::description::DeviceRow;
use gpubuild_host::Os;

use super::view::NvidiaView;
use crate::DiagnosisCase;
use crate::signs::nvidia::{InstalledKernels, ModuleSigns};

/// Folder of modules that the distribution has signed with a key that Secure Boot accepts.
const SIGNED: &str = "/kernel/nvidia";

/// Secure Boot is enabled, and the module was built on this machine.
pub(super) fn secure_boot(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(secure_boot_draft(case))
}

fn secure_boot_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let view = unloaded(case)?;
    let kernels = &view.signs.kernels;
    let (true, evidence) = kernels.secure_boot.clone()? else { return None };
    let foreign = kernels.running.modules.iter().find(|module| !module.as_str().contains(SIGNED))?;
    if !kernels.forbidden.is_empty() || dropped(&view).is_some() {
        return None;
    }
    let draft = view
        .draft(id!("nv.driver.secureboot"))
        .value("kernel", &kernels.running.release)
        .value("module", foreign.as_str())
        .evidence(evidence)
        .evidence(Evidence::file(foreign.as_str(), "present"))
        .evidence(Evidence::file("/sys/module/nvidia", "absent"));
    Some(if kernels.uses_akmods() { draft.case("akmods") } else { draft })
}

/// The running kernel has no module, although another kernel has one or sources are installed.
pub(super) fn not_built(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(not_built_draft(case))
}

fn not_built_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let view = unloaded(case)?;
    let kernels = &view.signs.kernels;
    let running = &kernels.running;
    let other = kernels.others.iter().rfind(|kernel| !kernel.modules.is_empty());
    let builds = kernels.can_be_built();
    if running.release.is_empty() || !running.modules.is_empty() || (other.is_none() && !builds) {
        return None;
    }
    let mut draft = view
        .draft(id!("nv.driver.dkms"))
        .value("kernel", &running.release)
        .evidence(Evidence::file(format!("/lib/modules/{}", running.release), "no nvidia.ko"));
    for source in kernels.sources.iter().take(1).chain(kernels.failures.iter().take(1)) {
        draft = draft.evidence(Evidence::file(source.as_str(), "present"));
    }
    if let Some(other) = other {
        draft = draft
            .value("other", &other.release)
            .evidence(Evidence::file(other.modules[0].as_str(), "present"));
    }
    if !running.has_headers && running.has_folder {
        draft = draft.evidence(Evidence::file(format!("/lib/modules/{}/build", running.release), "absent"));
    }
    Some(match other {
        // The package manager has replaced the running kernel on disk.
        Some(_) if !running.has_folder => draft.case("reboot"),
        Some(other) => match prebuilt(other) {
            Some(package) => {
                draft.value("package", format!("{package}-{}", running.release)).case("prebuilt")
            }
            None => built(draft, kernels),
        },
        None => built(draft, kernels),
    })
}

fn built(draft: FindingDraft, kernels: &InstalledKernels) -> FindingDraft {
    // With the headers, the same build fails again: the sources are too old for this kernel.
    let failure = kernels.failures.first().filter(|_| kernels.running.has_headers);
    match (failure, kernels.uses_akmods(), kernels.can_be_built()) {
        (Some(log), true, _) => draft.value("log", log.as_str()).case("failed-akmods"),
        (Some(log), false, _) => draft.value("log", log.as_str()).case("failed"),
        (None, true, _) => draft.case("akmods"),
        (None, false, true) => draft.case("dkms"),
        // Neither: the module comes from NVIDIA's installer.
        (None, false, false) => draft,
    }
}

/// Ubuntu's package of prebuilt modules: `kernel/nvidia-535srv-open` is `linux-modules-nvidia-535-server-open`.
fn prebuilt(kernel: &ModuleSigns) -> Option<String> {
    let place = kernel.modules.iter().find_map(|module| module.as_str().split_once("/kernel/nvidia-"))?.1;
    let name = place.split('/').next()?;
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    let server = if name[digits..].starts_with("srv") { "-server" } else { "" };
    let open = if name.ends_with("-open") { "-open" } else { "" };
    (digits > 0).then(|| format!("linux-modules-nvidia-{}{server}{open}", &name[..digits]))
}

/// The installed driver no longer supports these GPUs. The verdict does not contain this if the driver is not loaded.
pub(super) fn unsupported(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(unsupported_draft(case))
}

fn unsupported_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let view = NvidiaView::new(case)?;
    let (row, version) = match view.reason(id!("nv.driver.branch-dropped")) {
        Some(_) => dropped(&view)?,
        None => dropped(&unloaded(case)?)?,
    };
    let archs = view.archs()?.join(", ");
    let last = row.last.as_ref().map(ToString::to_string).unwrap_or_default();
    let draft = view
        .draft(id!("nv.driver.branch-dropped"))
        .value("driver", &version)
        .value("arch", archs)
        .value("last", &last)
        .evidence(Evidence::file("driver", version))
        .summary(format!(
            "the installed driver no longer supports this GPU: {last} is the last branch for {}",
            view.gpus.first()?.name
        ));
    Some(if last == "580" { draft } else { draft.case("older") })
}

/// The table row by which the driver on disk or in the kernel supports none of the GPUs, and the driver's version.
fn dropped<'a>(view: &NvidiaView<'a>) -> Option<(&'a DeviceRow, String)> {
    let version = view.driver_version()?;
    let description = view.description()?;
    let rows: Option<Vec<&DeviceRow>> = view
        .archs()?
        .into_iter()
        .map(|arch| description.device_conflict(arch, Some(&version), None).filter(|row| row.last.is_some()))
        .collect();
    Some((rows?.first().copied()?, version.to_string()))
}

/// The GPU has no driver.
pub(super) fn missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(NvidiaView::new(case).and_then(|view| match case.facts.platform.os {
        Os::Windows => missing_on_windows(&view),
        _ => missing_draft(&view),
    }))
}

fn missing_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let not_ready = view.code() == Some(3) && !view.is_loaded() && view.case.facts.platform.os == Os::Linux;
    if view.reason(id!("nv.driver.missing")).is_none() && !not_ready {
        return None;
    }
    let kernels = &view.signs.kernels;
    let mut draft =
        view.draft(id!("nv.driver.missing")).evidence(Evidence::file("/sys/module/nvidia", "absent"));
    if let Some(module) = kernels.running.modules.first() {
        draft = draft.value("module", module.as_str()).evidence(Evidence::file(module.as_str(), "present"));
        if let Some(evidence) = kernels.forbidden.first() {
            let draft = draft.value("file", &evidence.place).value("line", &evidence.value);
            return Some(draft.evidence(evidence.clone()).case("forbidden"));
        }
        return Some(draft.case("unloaded"));
    }
    Some(by_generation(view, draft))
}

/// Selects the text by generation: GPUs before Turing need a legacy branch.
fn by_generation(view: &NvidiaView<'_>, draft: FindingDraft) -> FindingDraft {
    let number = |arch: &str| arch.trim_start_matches("sm_").parse::<u32>().ok();
    let newest = view.gpus.iter().filter_map(|gpu| number(gpu.arch.as_deref()?)).max();
    match newest {
        Some(..=29) => draft.value("last", "390").case("older"),
        Some(30..=49) => draft.value("last", "470").case("older"),
        Some(50..=70) => draft.case("legacy"),
        Some(100..) => {
            let repository = crate::advice::repository(view.case.facts);
            repository.into_iter().fold(draft.case("new"), |draft, name| draft.value("repository", name))
        }
        _ => draft,
    }
}

fn missing_on_windows(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    view.reason(id!("nv.driver.library-missing"))?;
    let has_driver =
        view.case.facts.drivers.iter().any(|driver| {
            driver.vendor == gpubuild_detect::facts::Vendor::Nvidia && driver.version.is_some()
        });
    (!has_driver).then(|| {
        let absent = Evidence::new(EvidenceKind::File, r"C:\Windows\System32\nvcuda.dll", "absent");
        view.draft(id!("nv.driver.missing")).evidence(absent)
    })
}

/// The GPU is controlled by nouveau, which does not support CUDA.
pub(super) fn nouveau(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(nouveau_draft(case))
}

fn nouveau_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let view = NvidiaView::new(case)?;
    view.reason(id!("nv.driver.nouveau"))?;
    let draft = view.draft(id!("nv.driver.nouveau"));
    let draft = match view.signs.kernels.running.modules.first() {
        Some(module) => draft.evidence(Evidence::file(module.as_str(), "present")).case("installed"),
        None => by_generation(&view, draft),
    };
    Some(if view.is_secondary() { draft.severity(Severity::Info) } else { draft })
}

/// The GPU is reserved for a virtual machine.
pub(super) fn vfio(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(vfio_draft(case))
}

fn vfio_draft(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let view = NvidiaView::new(case)?;
    view.reason(id!("nv.driver.vfio"))?;
    let address = view.gpus.iter().find_map(|gpu| gpu.pci.clone()).unwrap_or_default();
    let draft = view.draft(id!("nv.driver.vfio")).value("address", address);
    Some(if view.is_secondary() { draft.severity(Severity::Info) } else { draft })
}

/// The driver is older than the first one that supports the GPUs.
pub(super) fn too_old_for_gpus(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    found(NvidiaView::new(case).and_then(|view| {
        let is_reported = view.reason(id!("nv.driver.card-too-new")).is_some();
        if !is_reported && unloaded(case).is_none() {
            return None;
        }
        let (driver, first) = view.too_old_for_gpus()?;
        let draft = view
            .draft(id!("nv.driver.card-too-new"))
            .affects(Affects::Run)
            .value("driver", &driver)
            .value("first", first.to_string())
            .value("arch", view.archs()?.join(", "))
            .evidence(Evidence::file("driver", driver));
        let repository = crate::advice::repository(case.facts);
        Some(repository.into_iter().fold(draft, |draft, name| draft.value("repository", name)))
    }))
}

/// The kernel module is of the wrong flavour: open or proprietary.
pub(super) fn flavour(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    if let Some(draft) = unloaded_flavour(case) {
        return vec![draft];
    }
    let draft = |id: DiagnosticId| -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        view.reason(id)?;
        let line = if id == "nv.driver.open-required" {
            "a proprietary kernel module"
        } else {
            "an open kernel module"
        };
        let mut draft = view.draft(id).evidence(Evidence::file("/proc/driver/nvidia/version", line));
        if let Some(branch) = view.replaced_by().map(|next| next.to_string()).or_else(|| view.branch()) {
            draft = draft.value("branch", branch);
        }
        Some(match &view.signs.kernels.variant_file {
            Some(file) => draft.value("file", file.as_str()).case("variant"),
            None => draft,
        })
    };
    [id!("nv.driver.open-required"), id!("nv.driver.open-unsupported")]
        .into_iter()
        .filter_map(draft)
        .collect()
}

/// The module on disk is not loaded, and it is of the flavour that supports none of the GPUs.
fn unloaded_flavour(case: &DiagnosisCase<'_>) -> Option<FindingDraft> {
    let view = unloaded(case)?;
    if view.too_old_for_gpus().is_some() {
        return None;
    }
    let running = &view.signs.kernels.running;
    let module = running.modules.first()?;
    let flavour = if running.open? { "open" } else { "proprietary" };
    let description = view.description()?;
    let archs = view.archs()?;
    let rows: Option<Vec<&DeviceRow>> = archs
        .iter()
        .map(|arch| {
            description.device_conflict(arch, None, Some(flavour)).filter(|row| row.flavour.is_some())
        })
        .collect();
    let row = rows?.first().copied()?;
    let mut draft = view
        .draft(row.id)
        .affects(Affects::Run)
        .case("unloaded")
        .value("arch", archs.join(", "))
        .value("module", module.as_str())
        .evidence(Evidence::file(module.as_str(), format!("{flavour} kernel module")))
        .evidence(Evidence::file("/sys/module/nvidia", "absent"));
    let branch = running.version.as_ref().map(|version| version.major().to_string());
    let branch = view.replaced_by().map(|next| next.to_string()).or(branch).or_else(|| view.branch());
    if let Some(branch) = branch {
        draft = draft.value("branch", branch);
    }
    Some(draft)
}

/// A Linux host on which no NVIDIA driver is loaded and the GPUs are not reserved for virtual machines.
fn unloaded<'a>(case: &'a DiagnosisCase<'a>) -> Option<NvidiaView<'a>> {
    let view = NvidiaView::of_linux_machine(case)?;
    let reserved = view.gpus.iter().all(|gpu| gpu.kernel_driver.as_deref() == Some("vfio-pci"));
    (!view.is_loaded() && !reserved && !view.works()).then_some(view)
}

fn found(draft: Option<FindingDraft>) -> Vec<FindingDraft> {
    draft.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{HostPath, PathRules};

    #[test]
    fn ubuntu_packages_are_derived_from_module_paths() {
        for (place, expected) in [
            ("kernel/nvidia-535/nvidia.ko", Some("linux-modules-nvidia-535")),
            ("kernel/nvidia-550srv/nvidia.ko.zst", Some("linux-modules-nvidia-550-server")),
            ("kernel/nvidia-580srv-open/nvidia.ko.zst", Some("linux-modules-nvidia-580-server-open")),
            ("updates/dkms/nvidia.ko", None),
            ("kernel/nvidia-/nvidia.ko", None),
        ] {
            let module = HostPath::new(PathRules::Unix, &format!("/lib/modules/6.8.0-45-generic/{place}"));
            let kernel = ModuleSigns { modules: vec![module], ..ModuleSigns::default() };
            assert_eq!(prebuilt(&kernel).as_deref(), expected, "{place}");
        }
    }
}
