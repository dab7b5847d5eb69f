//! Which architectures a build contains here and which not, each with its reason: wish x devices x toolkit x driver x
//! kernels of libraries. What is built is what `gpubuild plan` says; what stands against it is told beside it.

use gpubuild_core::arch::{CudaArch, CudaCode};
use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::matrix::{Presence, Reason, Verdict};
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::range::Knows;
use gpubuild_plan::plan::archs::{self, ArchSelection};
use gpubuild_plan::plan::kits::kits;
use gpubuild_plan::plan::make::BuildKit;
use serde::Serialize;

use super::DiagnosisCase;

/// The architectures of one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DiagnosedArchs {
    /// The backend.
    pub backend: Backend,
    /// The toolkit that compiles: `CUDA Toolkit 12.4`.
    pub toolkit: String,
    /// Who decides: `auto`, `gpubuild.toml`, a variable with its value.
    pub origin: String,
    /// What is built.
    pub built: Vec<BuiltArchs>,
    /// What was left out, or does not help here.
    pub removed: Vec<RemovedArch>,
    /// Id of the finding that stops the build, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
}

/// An architecture that is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BuiltArchs {
    /// As CMake takes it: `90-real`, `90-virtual`, `gfx1100`.
    pub arch: String,
    /// Why.
    pub why: String,
}

/// An architecture that is not built, or is and does not run here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RemovedArch {
    /// `sm_61`, `gfx1103`.
    pub arch: String,
    /// What takes it out.
    pub by: By,
    /// Why.
    pub why: String,
}

/// What takes an architecture out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum By {
    /// The compiler does not know it.
    Toolkit,
    /// The driver here can't run it.
    Driver,
    /// The toolkit's libraries have no kernels for it.
    Libraries,
}

/// The plans of all backends with a toolkit that compiles for architectures, and with something to compile for.
#[must_use]
pub fn of_case(case: &DiagnosisCase<'_>) -> Vec<DiagnosedArchs> {
    let kits = kits(case.inventory, case.catalogue, case.facts.platform);
    let kit = |backend| kits.get(&backend).and_then(|list| list.first());
    let cuda = kit(Backend::Cuda).and_then(|kit| cuda(case, kit));
    let rocm = kit(Backend::Rocm).and_then(|kit| rocm(case, kit));
    cuda.into_iter().chain(rocm).collect()
}

/// Whether somebody builds for a backend: it was asked for, its hardware is there, or there is no hardware at all.
fn matters(case: &DiagnosisCase<'_>, verdict: &Verdict) -> bool {
    match case.asked {
        Some(asked) => asked.contains(&verdict.backend),
        None => verdict.hardware == Presence::Present || case.facts.gpus.is_empty(),
    }
}

fn wish(case: &DiagnosisCase<'_>, backend: Backend, variables: &[&str]) -> ArchSelection {
    let table = case.project.and_then(|project| project.backends.get(&backend));
    ArchSelection::resolve(case.env, variables, table.and_then(|table| table.archs.as_ref()))
}

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
    let wish = wish(case, Backend::Cuda, &["CUDAARCHS", "CUDA_COMPUTE_CAP"]);
    let named = |arch: CudaArch| kit.archs.other_name(&arch).unwrap_or(arch);
    let devices: Vec<(String, CudaArch)> =
        real(verdict).filter_map(|(gpu, arch)| Some((gpu.name.clone(), named(arch.parse().ok()?)))).collect();
    let archs: Vec<CudaArch> = devices.iter().map(|(_, arch)| arch.clone()).collect();
    let mut plan = DiagnosedArchs {
        backend: Backend::Cuda,
        toolkit: kit.archs.toolkit.clone(),
        origin: wish.origin.clone(),
        built: Vec::new(),
        removed: Vec::new(),
        blocked: None,
    };
    let list = match archs::cuda(&wish, &archs, &kit.archs, &kit.default_cuda) {
        Ok(found) => found.list,
        Err(reason) => {
            plan.refuse(&reason, &wish);
            Vec::new()
        }
    };
    plan.built = list
        .iter()
        .map(|arch| BuiltArchs { arch: arch.to_string(), why: why_cuda(arch, &list, &devices, &wish) })
        .collect();
    left_out_by_toolkit(&mut plan, kit, &list, &devices, &wish);
    against_driver(&mut plan, case, verdict, description, &list, &devices);
    Some(plan)
}

impl DiagnosedArchs {
    /// Nothing is built.
    fn refuse(&mut self, reason: &Reason, wish: &ArchSelection) {
        self.blocked = Some(reason.id.to_string());
        self.removed.push(RemovedArch { arch: wish.text.clone(), by: By::Toolkit, why: reason.text.clone() });
    }
}

fn why_cuda(
    arch: &CudaArch,
    list: &[CudaArch],
    devices: &[(String, CudaArch)],
    wish: &ArchSelection,
) -> String {
    let device = devices.iter().find(|(_, device)| device.number == arch.number);
    let newest_real = list.iter().filter(|one| one.code != CudaCode::Virtual).map(|one| one.number).max();
    let newest_device = devices.iter().map(|(_, device)| device.number).max();
    match (&arch.code, device) {
        _ if wish.origin != "auto" && !matches!(wish.text.trim(), "native" | "auto") => {
            format!("asked for by {}", wish.origin)
        }
        (CudaCode::Virtual, _) if newest_device.is_some_and(|device| device > arch.number) => {
            "PTX for a card that is newer than the toolkit: its driver translates it".to_owned()
        }
        (CudaCode::Virtual, _) if newest_real == Some(arch.number) => {
            "PTX of the newest, which drivers of later cards translate".to_owned()
        }
        (_, Some((name, _))) => format!("machine code for {name}"),
        _ => "a card in use somewhere: no GPU answers here, so the list for distribution is built".to_owned(),
    }
}

/// Devices and entries of the list for distribution that the compiler does not know.
fn left_out_by_toolkit(
    plan: &mut DiagnosedArchs,
    kit: &BuildKit,
    list: &[CudaArch],
    devices: &[(String, CudaArch)],
    wish: &ArchSelection,
) {
    let range = &kit.archs;
    let (Some(lowest), Some(highest)) = (range.numbers.first(), range.numbers.last()) else { return };
    let by_device = matches!(wish.text.trim(), "auto" | "native");
    let own = |device: &CudaArch| list.iter().any(|arch| arch.number == device.number);
    for (name, device) in devices.iter().filter(|(_, device)| by_device && !own(device)) {
        let why = match range.knows(device.number) {
            Knows::Yes => continue,
            Knows::Dropped => format!("{} starts at sm_{lowest}; {name} needs an older one", range.toolkit),
            Knows::TooNew => {
                format!("{} builds up to sm_{highest}; {name} gets PTX of that", range.toolkit)
            }
            Knows::Unknown => {
                format!("no table tells whether {} knows it; {name} gets PTX of sm_{highest}", range.toolkit)
            }
        };
        plan.add(device.sm(), By::Toolkit, why);
    }
    if devices.is_empty() && wish.text.trim() == "auto" {
        for arch in kit.default_cuda.iter().filter(|arch| !list.contains(arch)) {
            plan.add(arch.sm(), By::Toolkit, format!("{} does not build for it", range.toolkit));
        }
    }
}

/// What is built and the driver here can't run or translate.
fn against_driver(
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
            plan.add(device.sm(), By::Driver, format!("driver {driver}{flavour} does not drive {name}"));
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
            "driver {driver} knows CUDA {} and can't translate PTX of {}: here only machine code runs",
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
    let wish = wish(case, Backend::Rocm, &["AMDGPU_TARGETS"]);
    let devices: Vec<(&Gpu, &str)> = real(verdict).collect();
    let archs: Vec<String> = devices.iter().map(|(_, arch)| (*arch).to_owned()).collect();
    let mut plan = DiagnosedArchs {
        backend: Backend::Rocm,
        toolkit: kit.archs.toolkit.clone(),
        origin: wish.origin.clone(),
        built: Vec::new(),
        removed: Vec::new(),
        blocked: None,
    };
    let list = match archs::rocm(&wish, &archs, &kit.default_gfx) {
        Ok(found) => found.list,
        Err(reason) => {
            plan.refuse(&reason, &wish);
            Vec::new()
        }
    };
    plan.built = list
        .iter()
        .map(|arch| {
            let device = devices.iter().find(|(_, device)| device == arch);
            let why = match device {
                _ if !matches!(wish.text.trim(), "auto" | "native") => {
                    format!("asked for by {}", wish.origin)
                }
                Some((gpu, _)) => format!("machine code for {}", gpu.name),
                None => "in the list for distribution: no AMD GPU answers here".to_owned(),
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
            plan.add(arch.to_owned(), By::Driver, format!("ROCm does not drive {}", gpu.name));
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

    fn machine(toolkit: &str, driver: &str, cards: &[&str]) -> RecordedHostBuilder {
        let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .executable(&format!("/usr/local/cuda-{toolkit}/bin/nvcc"))
            .opaque(&format!("/usr/local/cuda-{toolkit}/include/cuda_runtime.h"))
            .file("/sys/module/nvidia/version", driver)
            .opaque(&format!("/usr/lib/x86_64-linux-gnu/libcuda.so.{driver}"))
            .link("/usr/lib/x86_64-linux-gnu/libcuda.so.1", &format!("libcuda.so.{driver}"));
        for (index, card) in cards.iter().enumerate() {
            let address = format!("0000:0{}:00.0", index + 1);
            let text = format!("Model: \t\t {card}\nBus Location: \t {address}\n");
            host = host
                .file(&format!("/sys/bus/pci/devices/{address}/class"), "0x030000")
                .file(&format!("/sys/bus/pci/devices/{address}/vendor"), "0x10de")
                .file(&format!("/sys/bus/pci/devices/{address}/device"), "0x9999")
                .file(&format!("/proc/driver/nvidia/gpus/{address}/information"), &text);
        }
        host
    }

    /// What is built, then what is not and by what.
    fn plan(host: RecordedHostBuilder, archs: Option<&str>) -> String {
        let host = host.build();
        let catalogue = Catalogue::embedded();
        let facts = facts::gather(&host);
        let inventory = toolkit::probe(&host, &catalogue);
        let probes = Probes::new();
        let matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &probes);
        let signs = MachineSigns::default();
        let file = archs.map(|archs| {
            let text = format!(
                "schema = 1\n[project]\nname = \"x\"\nsource = \".\"\nprofile = \"gk\"\n[backends.cuda]\narchs = {archs}\n"
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
    fn cards_toolkit_and_driver_are_taken_together() {
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
    fn a_wish_of_the_project_counts_and_a_machine_without_a_gpu_builds_for_others() {
        let card = ["Tesla T4"];
        assert_eq!(plan(machine("12.4", "550.144.03", &card), Some("[\"80\", \"90a\"]")), "80 90a - ");
        assert_eq!(
            plan(machine("13.0", "580.95.05", &card), Some("[\"70\"]")),
            " - 70 by toolkit",
            "what was asked for by name is refused"
        );
        let none = plan(machine("11.8", "520.61.05", &[]), None);
        assert!(none.starts_with("60-real 70-real") && none.ends_with("90-virtual - "), "{none}");
    }
}
