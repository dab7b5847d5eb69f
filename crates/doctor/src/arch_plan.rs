//! Which architectures a build contains on this machine and which it does not, each with its reason.
//!
//! The inputs are the requested architectures, the devices, the toolkit, the driver and the kernels in the toolkit's
//! libraries. The built architectures are those of `gpubuild plan`; conflicts with the driver or the libraries are listed
//! separately.

use gpubuild_core::arch::{CudaArch, CudaCode};
use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::matrix::{Presence, Reason, Verdict};
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::range::ArchSupport;
use gpubuild_plan::plan::archs::{self, ArchSelection};
use gpubuild_plan::plan::kits::kits;
use gpubuild_plan::plan::make::BuildKit;
use serde::Serialize;

use super::DiagnosisCase;

/// The planned architectures of one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiagnosedArchs {
    /// The backend.
    pub backend: Backend,
    /// Name and release of the toolkit: `CUDA Toolkit 12.4`.
    pub toolkit: String,
    /// Where the selection comes from: `auto`, `gpubuild.toml`, or a variable with its value.
    pub origin: String,
    /// Architectures that are built.
    pub built: Vec<BuiltArchs>,
    /// Architectures that are excluded, or that cannot run on this machine.
    pub removed: Vec<RemovedArch>,
    /// Id of the finding that blocks the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

/// An architecture that is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuiltArchs {
    /// Architecture in CMake's notation: `90-real`, `90-virtual`, `gfx1100`.
    pub arch: String,
    /// Reason for building it.
    pub why: String,
}

/// An architecture that is not built, or that is built and cannot run on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemovedArch {
    /// Name of the architecture: `sm_61`, `gfx1103`.
    pub arch: String,
    /// What excludes it.
    pub by: By,
    /// Reason for the exclusion.
    pub why: String,
}

/// What excludes an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum By {
    /// The compiler does not support it.
    Toolkit,
    /// The installed driver cannot run it.
    Driver,
    /// The toolkit's libraries have no kernels for it.
    Libraries,
}

/// Plans of the CUDA and ROCm backends, if they are relevant on this machine and have a toolkit.
#[must_use]
pub fn of_case(case: &DiagnosisCase<'_>) -> Vec<DiagnosedArchs> {
    let kits = kits(case.inventory, case.catalogue, case.facts.platform);
    let kit = |backend| kits.get(&backend).and_then(|list| list.first());
    let cuda = kit(Backend::Cuda).and_then(|kit| cuda(case, kit));
    let rocm = kit(Backend::Rocm).and_then(|kit| rocm(case, kit));
    cuda.into_iter().chain(rocm).collect()
}

/// Whether a backend is relevant: it was requested, its hardware is present, or the machine has no GPU.
fn matters(case: &DiagnosisCase<'_>, verdict: &Verdict) -> bool {
    match case.asked {
        Some(asked) => asked.contains(&verdict.backend),
        None => verdict.hardware == Presence::Present || case.facts.gpus.is_empty(),
    }
}

/// Hardware devices of a verdict with their architecture.
fn real(verdict: &Verdict) -> impl Iterator<Item = (&Gpu, &str)> {
    let real = verdict.devices.iter().filter(|gpu| gpu.vendor != Vendor::Software);
    real.filter_map(|gpu| Some((gpu, gpu.arch.as_deref()?)))
}

fn cuda(case: &DiagnosisCase<'_>, kit: &BuildKit) -> Option<DiagnosedArchs> {
    let verdict = case.matrix.verdict(Backend::Cuda);
    let description = case.catalogue.for_backend(Backend::Cuda)?;
    if !matters(case, verdict) {
        return None;
    }
    let selection = ArchSelection::cuda(None, case.env, case.project);
    let named = |arch: CudaArch| kit.archs.other_name(&arch).unwrap_or(arch);
    let devices: Vec<(String, CudaArch)> =
        real(verdict).filter_map(|(gpu, arch)| Some((gpu.name.clone(), named(arch.parse().ok()?)))).collect();
    let archs: Vec<CudaArch> = devices.iter().map(|(_, arch)| arch.clone()).collect();
    let mut plan = DiagnosedArchs {
        backend: Backend::Cuda,
        toolkit: kit.archs.toolkit.clone(),
        origin: selection.origin.clone(),
        built: Vec::new(),
        removed: Vec::new(),
        blocked: None,
    };
    let list = match archs::cuda(&selection, &archs, &kit.archs, &kit.default_cuda) {
        Ok(found) => found.list,
        Err(reason) => {
            plan.refuse(&reason, &selection);
            Vec::new()
        }
    };
    plan.built = list
        .iter()
        .map(|arch| BuiltArchs { arch: arch.to_string(), why: why_cuda(arch, &list, &devices, &selection) })
        .collect();
    excluded_by_toolkit(&mut plan, kit, &list, &devices, &selection);
    excluded_by_driver(&mut plan, case, verdict, description, &list, &devices);
    Some(plan)
}

impl DiagnosedArchs {
    /// Records that the selection is rejected and nothing is built.
    fn refuse(&mut self, reason: &Reason, selection: &ArchSelection) {
        self.blocked = Some(reason.id.to_string());
        self.removed.push(RemovedArch {
            arch: selection.text.clone(),
            by: By::Toolkit,
            why: reason.text.clone(),
        });
    }
}

fn why_cuda(
    arch: &CudaArch,
    list: &[CudaArch],
    devices: &[(String, CudaArch)],
    selection: &ArchSelection,
) -> String {
    let device = devices.iter().find(|(_, device)| device.number == arch.number);
    let newest_real = list.iter().filter(|one| one.code != CudaCode::Virtual).map(|one| one.number).max();
    let newest_device = devices.iter().map(|(_, device)| device.number).max();
    match (&arch.code, device) {
        _ if selection.origin != "auto" && !matches!(selection.text.trim(), "native" | "auto") => {
            format!("requested by {}", selection.origin)
        }
        (CudaCode::Virtual, _) if newest_device.is_some_and(|device| device > arch.number) => {
            "PTX for a GPU that is newer than the toolkit; its driver JIT-compiles it".to_owned()
        }
        (CudaCode::Virtual, _) if newest_real == Some(arch.number) => {
            "PTX of the newest architecture, which drivers of later GPUs JIT-compile".to_owned()
        }
        (_, Some((name, _))) => format!("machine code for {name}"),
        _ => "no GPU detected; in the default list for distribution".to_owned(),
    }
}

/// Excludes devices and default architectures that the compiler does not support.
fn excluded_by_toolkit(
    plan: &mut DiagnosedArchs,
    kit: &BuildKit,
    list: &[CudaArch],
    devices: &[(String, CudaArch)],
    selection: &ArchSelection,
) {
    let range = &kit.archs;
    let (Some(lowest), Some(highest)) = (range.numbers.first(), range.numbers.last()) else { return };
    let by_device = matches!(selection.text.trim(), "auto" | "native");
    let own = |device: &CudaArch| list.iter().any(|arch| arch.number == device.number);
    for (name, device) in devices.iter().filter(|(_, device)| by_device && !own(device)) {
        let why = match range.support(device.number) {
            ArchSupport::Yes => continue,
            ArchSupport::Dropped => {
                format!("{} supports sm_{lowest} and newer; {name} is older", range.toolkit)
            }
            ArchSupport::TooNew => {
                format!("{} supports up to sm_{highest}; {name} uses PTX of sm_{highest}", range.toolkit)
            }
            ArchSupport::Unknown => {
                format!(
                    "no table says whether {} supports it; {name} uses PTX of sm_{highest}",
                    range.toolkit
                )
            }
        };
        plan.add(device.sm(), By::Toolkit, why);
    }
    if devices.is_empty() && selection.text.trim() == "auto" {
        for arch in kit.default_cuda.iter().filter(|arch| !list.contains(arch)) {
            plan.add(arch.sm(), By::Toolkit, format!("{} does not support it", range.toolkit));
        }
    }
}

/// Lists built architectures that the installed driver can neither run nor JIT-compile.
fn excluded_by_driver(
    plan: &mut DiagnosedArchs,
    case: &DiagnosisCase<'_>,
    verdict: &Verdict,
    description: &Description,
    list: &[CudaArch],
    devices: &[(String, CudaArch)],
) {
    let Some(driver) = &verdict.driver else { return };
    let flavour = case.facts.drivers.iter().find(|one| one.vendor == Vendor::Nvidia);
    let flavour = flavour.and_then(|one| one.flavour.as_deref());
    for (name, device) in devices {
        if description.device_conflict(&device.sm(), Some(driver), flavour).is_some() {
            let flavour = flavour.map(|flavour| format!(" ({flavour} modules)")).unwrap_or_default();
            plan.add(device.sm(), By::Driver, format!("driver {driver}{flavour} does not support {name}"));
        }
    }
    let release = case.inventory.chosen(&description.id).and_then(|copy| copy.version());
    let newest = description.newest_for_driver(driver);
    let (Some(release), Some(newest)) = (release, newest) else { return };
    if (release.major(), release.minor()) <= (newest.major(), newest.minor()) {
        return;
    }
    for arch in list.iter().filter(|arch| arch.code != CudaCode::Real) {
        let why = format!(
            "driver {driver} supports CUDA {} and cannot JIT-compile PTX of CUDA {}; only machine code runs",
            newest.release(),
            release.release()
        );
        plan.add(format!("compute_{}", arch.number), By::Driver, why);
    }
}

fn rocm(case: &DiagnosisCase<'_>, kit: &BuildKit) -> Option<DiagnosedArchs> {
    let verdict = case.matrix.verdict(Backend::Rocm);
    let description = case.catalogue.for_backend(Backend::Rocm)?;
    if !matters(case, verdict) {
        return None;
    }
    let selection = ArchSelection::rocm(case.env, case.project);
    let devices: Vec<(&Gpu, &str)> = real(verdict).collect();
    let archs: Vec<String> = devices.iter().map(|(_, arch)| (*arch).to_owned()).collect();
    let mut plan = DiagnosedArchs {
        backend: Backend::Rocm,
        toolkit: kit.archs.toolkit.clone(),
        origin: selection.origin.clone(),
        built: Vec::new(),
        removed: Vec::new(),
        blocked: None,
    };
    let list = match archs::rocm(&selection, &archs, &kit.default_gfx) {
        Ok(found) => found.list,
        Err(reason) => {
            plan.refuse(&reason, &selection);
            Vec::new()
        }
    };
    plan.built = list
        .iter()
        .map(|arch| {
            let device = devices.iter().find(|(_, device)| device == arch);
            let why = match device {
                _ if !matches!(selection.text.trim(), "auto" | "native") => {
                    format!("requested by {}", selection.origin)
                }
                Some((gpu, _)) => format!("machine code for {}", gpu.name),
                None => "no AMD GPU detected; in the default list for distribution".to_owned(),
            };
            BuiltArchs { arch: arch.clone(), why }
        })
        .collect();
    let kernels = &kit.installation.device_archs;
    let base = |arch: &str| arch.split(':').next().unwrap_or(arch).to_owned();
    for arch in list.iter().filter(|arch| !kernels.is_empty() && !kernels.contains(&base(arch))) {
        let why = format!("rocBLAS of {} has no kernels for it", plan.toolkit);
        plan.add(arch.clone(), By::Libraries, why);
    }
    for (gpu, arch) in devices {
        if description.device_conflict(arch, verdict.driver.as_ref(), None).is_some() {
            plan.add(arch.to_owned(), By::Driver, format!("ROCm does not support {}", gpu.name));
        }
    }
    Some(plan)
}

impl DiagnosedArchs {
    fn add(&mut self, arch: String, by: By, why: String) {
        let removed = RemovedArch { arch, by, why };
        if !self.removed.contains(&removed) {
            self.removed.push(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineSigns;
    use gpubuild_detect::facts;
    use gpubuild_detect::matrix::Probes;
    use gpubuild_detect::toolkit::{self, Catalogue};
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, HostInfo, Os, RecordedHost};
    use gpubuild_plan::project;

    fn machine(toolkit: &str, driver: &str, gpus: &[&str]) -> RecordedHostBuilder {
        let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .executable(&format!("/usr/local/cuda-{toolkit}/bin/nvcc"))
            .opaque(&format!("/usr/local/cuda-{toolkit}/include/cuda_runtime.h"))
            .file("/sys/module/nvidia/version", driver)
            .opaque(&format!("/usr/lib/x86_64-linux-gnu/libcuda.so.{driver}"))
            .link("/usr/lib/x86_64-linux-gnu/libcuda.so.1", &format!("libcuda.so.{driver}"));
        for (index, gpu) in gpus.iter().enumerate() {
            let address = format!("0000:0{}:00.0", index + 1);
            let text = format!("Model: \t\t {gpu}\nBus Location: \t {address}\n");
            host = host
                .file(&format!("/sys/bus/pci/devices/{address}/class"), "0x030000")
                .file(&format!("/sys/bus/pci/devices/{address}/vendor"), "0x10de")
                .file(&format!("/sys/bus/pci/devices/{address}/device"), "0x9999")
                .file(&format!("/proc/driver/nvidia/gpus/{address}/information"), &text);
        }
        host
    }

    /// The built architectures, then the excluded ones with what excludes them.
    fn plan(host: RecordedHostBuilder, archs: Option<&str>) -> String {
        plan_of("gk", host, archs)
    }

    fn plan_of(profile: &str, host: RecordedHostBuilder, archs: Option<&str>) -> String {
        let host = host.build();
        let catalogue = Catalogue::embedded();
        let facts = facts::gather(&host);
        let inventory = toolkit::probe(&host, &catalogue);
        let probes = Probes::new();
        let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &probes);
        let signs = MachineSigns::default();
        let file = archs.map(|archs| {
            let text = format!(
                "schema = 1\n[project]\nname = \"x\"\nsource = \".\"\nprofile = \"{profile}\"\n[backends.cuda]\narchs = {archs}\n"
            );
            gpubuild_toml::from_str::<project::ProjectFile>(&text).unwrap()
        });
        let case = DiagnosisCase {
            facts: &facts,
            inventory: &inventory,
            catalogue: &catalogue,
            matrix: &matrix,
            probes: &probes,
            signs: &signs,
            env: host.env(),
            asked: None,
            project: file.as_ref(),
        };
        let plans = of_case(&case);
        let Some(plan) = plans.first() else { return "none".to_owned() };
        let built: Vec<&str> = plan.built.iter().map(|built| built.arch.as_str()).collect();
        let removed: Vec<String> =
            plan.removed.iter().map(|one| format!("{} by {:?}", one.arch, one.by).to_lowercase()).collect();
        format!("{} - {}", built.join(" "), removed.join(", "))
    }

    #[test]
    fn devices_toolkit_and_driver_limit_the_architectures() {
        let tesla = ["Tesla T4"];
        assert_eq!(plan(machine("12.4", "550.144.03", &tesla), None), "75-real 75-virtual - ");
        assert_eq!(
            plan(machine("12.4", "535.216.01", &tesla), None),
            "75-real 75-virtual - compute_75 by driver"
        );
        let old = ["NVIDIA GeForce RTX 3090", "NVIDIA GeForce GTX 1080"];
        assert_eq!(plan(machine("13.0", "580.95.05", &old), None), "86-real 86-virtual - sm_61 by toolkit");
        let both = "86-real 86-virtual - sm_61 by toolkit, sm_61 by driver";
        assert_eq!(plan(machine("13.0", "590.48.01", &old), None), both);
        let new = ["NVIDIA GeForce RTX 5090"];
        assert_eq!(plan(machine("12.4", "580.95.05", &new), None), "90-virtual - sm_120 by toolkit");
    }

    #[test]
    fn list_of_pytorch_selects_architectures_for_its_extensions_only() {
        let host =
            |list: &str| machine("12.4", "550.144.03", &["Tesla T4"]).env("TORCH_CUDA_ARCH_LIST", list);
        let archs = Some("[\"80\"]");
        assert_eq!(plan_of("torch-extension", host("Turing;8.6"), archs), "75 86-real - ");
        assert_eq!(plan_of("gk", host("Turing;8.6"), archs), "80 - ");
        let invalid = plan_of("torch-extension", host("Touring"), archs);
        assert_eq!(invalid, " - touring by toolkit");
    }

    #[test]
    fn project_file_selects_architectures_and_machine_without_gpu_uses_the_default_list() {
        let gpu = ["Tesla T4"];
        assert_eq!(plan(machine("12.4", "550.144.03", &gpu), Some("[\"80\", \"90a\"]")), "80 90a - ");
        assert_eq!(
            plan(machine("13.0", "580.95.05", &gpu), Some("[\"70\"]")),
            " - 70 by toolkit",
            "an architecture that was requested explicitly is rejected"
        );
        let none = plan(machine("11.8", "520.61.05", &[]), None);
        assert!(none.starts_with("60-real 70-real") && none.ends_with("90-virtual - "), "{none}");
    }
}
