//! Compares device code with the devices of the machine.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_object::graph::LoadedObject;
use gpubuild_object::{FatbinCode, KernelKind};

use super::coverage::{self, Coverage, DeviceCover};
use super::{BinarySubject, quoted};

/// How each object's kernels run on each device of their backend.
#[must_use]
pub fn coverage(subject: &BinarySubject<'_>) -> Vec<Coverage> {
    if !super::is_loaded_here(subject) {
        return Vec::new();
    }
    let driver = subject.driver_release().map(|(release, _)| release);
    let cuda = subject.case.catalogue.get("cuda");
    let release = |(major, minor): (u16, u16)| -> Option<Version> {
        cuda?.release_of_ptx(&format!("{major}.{minor}").parse().ok()?)
    };
    let mut list = Vec::new();
    for (index, object) in subject.graph.objects.iter().enumerate() {
        let Some(binary) = object.binary().filter(|_| !is_of_driver(object)) else { continue };
        if !binary.cuda.is_empty() {
            list.extend(devices(subject, Backend::Cuda).map(|gpu| {
                let device = gpu.arch.as_deref().and_then(|arch| arch.parse::<CudaArch>().ok());
                let cover = device.as_ref().map_or(DeviceCover::Unknown, |device| {
                    coverage::cuda(&binary.cuda, device, driver.as_ref(), &release)
                });
                entry(index, gpu, cover)
            }));
        }
        if !binary.hip.is_empty() {
            list.extend(devices(subject, Backend::Rocm).map(|gpu| {
                let device = gfx(subject, gpu);
                let cover = match device {
                    Some(device) if coverage::hip(&binary.hip.targets, &device) => DeviceCover::Native,
                    Some(_) if binary.hip.compressed == 0 && !binary.hip.incomplete => DeviceCover::None,
                    _ => DeviceCover::Unknown,
                };
                entry(index, gpu, cover)
            }));
        }
    }
    list
}

fn entry(object: usize, gpu: &Gpu, cover: DeviceCover) -> Coverage {
    Coverage { object, device: gpu.arch.clone().unwrap_or_default(), name: gpu.name.clone(), cover }
}

/// Hardware devices of a backend.
fn devices<'a>(subject: &BinarySubject<'a>, backend: Backend) -> impl Iterator<Item = &'a Gpu> {
    let vendor = if backend == Backend::Cuda { Vendor::Nvidia } else { Vendor::Amd };
    subject.case.matrix.verdict(backend).devices.iter().filter(move |gpu| gpu.vendor == vendor)
}

/// The architecture that ROCm assumes for a device; overrides take precedence.
fn gfx(subject: &BinarySubject<'_>, gpu: &Gpu) -> Option<String> {
    let set = subject.case.facts.overrides.iter().find(|set| set.key == "rocm.hsa-override");
    set.map(|set| set.value.clone()).filter(|value| value.starts_with("gfx")).or_else(|| gpu.arch.clone())
}

fn is_of_driver(object: &LoadedObject) -> bool {
    libraries::find(object.name()).is_some_and(|library| library.role == LibraryRole::Driver)
}

/// Findings about kernels.
pub(super) fn kernels(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    let coverage = coverage(subject);
    let mut drafts = Vec::new();
    for (index, object) in subject.graph.objects.iter().enumerate() {
        let here: Vec<&Coverage> = coverage.iter().filter(|one| one.object == index).collect();
        let Some(binary) = object.binary().filter(|_| !here.is_empty()) else { continue };
        let cuda = !binary.cuda.is_empty();
        let of = |cover: DeviceCover| {
            here.iter().copied().filter(move |one| one.cover == cover).collect::<Vec<_>>()
        };
        let (none, new) = (of(DeviceCover::None), of(DeviceCover::PtxTooNew));
        let bad = none.len() + new.len();
        if bad > 0 && bad < here.len() {
            let uncovered: Vec<&Coverage> = none.iter().chain(&new).copied().collect();
            drafts.push(partly(subject, object, &uncovered));
        } else if let Some(first) = none.first() {
            drafts.push(if cuda {
                no_image(subject, object, first)
            } else {
                no_target(subject, object, first)
            });
        } else if let Some(first) = new.first() {
            drafts.extend(ptx_too_new(subject, object, first));
        } else if let Some(first) = of(DeviceCover::Compiled).first() {
            drafts.push(compiled(subject, object, first));
        } else if of(DeviceCover::Unknown).len() == here.len() {
            drafts.push(unknown(subject, object, here[0]));
        }
    }
    drafts.extend(rocblas(subject));
    merge_by_id(drafts)
}

/// Merges drafts with the same id. Several libraries without code for a GPU are one problem: the first is named, the others
/// are evidence.
fn merge_by_id(drafts: Vec<FindingDraft>) -> Vec<FindingDraft> {
    let mut list: Vec<FindingDraft> = Vec::new();
    for draft in drafts {
        match list.iter_mut().find(|known| known.id == draft.id) {
            Some(known) => {
                let more = draft.evidence.into_iter().fold(known.clone(), FindingDraft::evidence);
                *known = more;
            }
            None => list.push(draft),
        }
    }
    list
}

fn device(one: &Coverage) -> String {
    if one.device.is_empty() { one.name.clone() } else { format!("{} ({})", one.name, one.device) }
}

/// Architectures of a file's CUDA code: `sm_80, sm_90a, PTX of compute_90`.
#[must_use]
pub(super) fn archs(code: &FatbinCode) -> String {
    let list = |kind: KernelKind| {
        code.kernels
            .iter()
            .filter(|kernel| kernel.kind == kind)
            .map(|kernel| kernel.arch.clone())
            .collect_set()
    };
    let spell = |arch: &CudaArch, start: &str| arch.sm().replacen("sm_", start, 1);
    let mut names: Vec<String> = list(KernelKind::Sass).iter().map(CudaArch::sm).collect();
    names.extend(list(KernelKind::Ptx).iter().map(|arch| spell(arch, "PTX of compute_")));
    names.extend(list(KernelKind::Lto).iter().map(|arch| spell(arch, "LTO code of compute_")));
    names.join(", ")
}

/// Evidence with the architectures of an object's kernels.
fn contents(object: &LoadedObject) -> Evidence {
    let what = object.binary().map(|binary| {
        if binary.cuda.is_empty() {
            binary.hip.targets.iter().cloned().collect::<Vec<_>>().join(", ")
        } else {
            archs(&binary.cuda)
        }
    });
    Evidence::file(object.path.as_str(), what.unwrap_or_default())
}

fn about(id: DiagnosticId, object: &LoadedObject, one: &Coverage) -> FindingDraft {
    FindingDraft::new(id)
        .value("file", object.path.file_name().unwrap_or_default())
        .value("arch", one.device.as_str())
        .value("number", one.device.trim_start_matches("sm_"))
        .value("device", device(one))
        .value("archs", contents(object).value)
        .evidence(contents(object))
}

fn with_device(subject: &BinarySubject<'_>, draft: FindingDraft, one: &Coverage) -> FindingDraft {
    let gpus = subject.case.matrix.verdicts.iter().flat_map(|verdict| &verdict.devices);
    let gpu = gpus.into_iter().find(|gpu| gpu.name == one.name);
    let evidence = gpu.and_then(|gpu| {
        gpu.evidence.iter().find(|seen| seen.value.contains(&one.device)).or(gpu.evidence.first())
    });
    evidence.cloned().into_iter().fold(draft, FindingDraft::evidence)
}

fn no_image(subject: &BinarySubject<'_>, object: &LoadedObject, one: &Coverage) -> FindingDraft {
    let number = one.device.trim_start_matches("sm_");
    let draft = about(id!("nv.no-kernel-image"), object, one)
        .backend(Backend::Cuda)
        .summary(format!(
            "`{}` has no kernels for {}, only for {}",
            object.path.file_name().unwrap_or_default(),
            device(one),
            contents(object).value
        ))
        .fix(format!(
            "build it with `-DCMAKE_CUDA_ARCHITECTURES={number}` as well, or use a build that has `{}`",
            one.device
        ));
    with_device(subject, draft, one)
}

fn no_target(subject: &BinarySubject<'_>, object: &LoadedObject, one: &Coverage) -> FindingDraft {
    let draft = about(id!("rocm.gfx-unsupported"), object, one)
        .backend(Backend::Rocm)
        .summary(format!(
            "`{}` has no kernels for {}, only for {}",
            object.path.file_name().unwrap_or_default(),
            device(one),
            contents(object).value
        ))
        .fix(format!(
            "build it with `--offload-arch={}` as well, or use the Vulkan backend on this GPU",
            one.device
        ));
    with_device(subject, draft, one)
}

fn ptx_too_new(subject: &BinarySubject<'_>, object: &LoadedObject, one: &Coverage) -> Option<FindingDraft> {
    let (driver, evidence) = subject.driver_release()?;
    let cuda = subject.case.catalogue.get("cuda")?;
    let binary = object.binary()?;
    let device_arch: CudaArch = one.device.parse().ok()?;
    let usable = binary.cuda.kernels.iter().filter(|kernel| kernel.arch.translates_for(&device_arch));
    let (major, minor) = usable.filter_map(|kernel| kernel.ptx).min()?;
    let wanted = cuda.release_of_ptx(&format!("{major}.{minor}").parse().ok()?)?;
    let number = one.device.trim_start_matches("sm_");
    let draft = about(id!("nv.ptx.too-new"), object, one)
        .backend(Backend::Cuda)
        .value("wanted", wanted.as_str())
        .value("has", driver.as_str())
        .value("driver", driver.as_str())
        .value("toolkit", wanted.as_str())
        .summary(format!(
            "`{}` has only PTX of CUDA {wanted} for {}, and the driver supports PTX up to CUDA {driver}",
            object.path.file_name().unwrap_or_default(),
            device(one)
        ))
        .fix(format!(
            "build machine code for the GPU (`-DCMAKE_CUDA_ARCHITECTURES={number}-real`), build with CUDA {driver}, or update the driver"
        ))
        .evidence(Evidence::file(object.path.as_str(), format!("PTX {major}.{minor}")))
        .evidence(evidence);
    Some(with_device(subject, draft, one))
}

fn partly(subject: &BinarySubject<'_>, object: &LoadedObject, uncovered: &[&Coverage]) -> FindingDraft {
    let devices = quoted(uncovered.iter().map(|one| device(one)));
    let draft = about(id!("binary.gpu-without-kernels"), object, uncovered[0]).value("devices", devices);
    let cuda = object.binary().is_some_and(|binary| !binary.cuda.is_empty());
    let draft = draft.backend(if cuda { Backend::Cuda } else { Backend::Rocm });
    uncovered.iter().fold(draft, |draft, one| with_device(subject, draft, one))
}

fn compiled(subject: &BinarySubject<'_>, object: &LoadedObject, one: &Coverage) -> FindingDraft {
    let number = one.device.trim_start_matches("sm_").to_owned();
    let draft = about(id!("binary.kernels-compiled-at-start"), object, one)
        .backend(Backend::Cuda)
        .value("number", number);
    with_device(subject, draft, one)
}

fn unknown(subject: &BinarySubject<'_>, object: &LoadedObject, one: &Coverage) -> FindingDraft {
    let hip = object.binary().filter(|binary| !binary.hip.is_empty() && binary.cuda.is_empty());
    let compressed = hip.is_some_and(|binary| binary.hip.compressed > 0);
    let why = match (one.device.is_empty(), compressed) {
        (true, _) => "the GPU's architecture is unknown",
        (false, true) => "they are compressed",
        (false, false) => "not all of them can be read",
    };
    let draft = about(id!("binary.kernels-unknown"), object, one).value("why", why);
    let draft = draft.backend(if hip.is_some() { Backend::Rocm } else { Backend::Cuda });
    with_device(subject, draft, one)
}

/// rocBLAS has its kernels in separate files by architecture.
fn rocblas(subject: &BinarySubject<'_>) -> Option<FindingDraft> {
    for object in &subject.graph.objects {
        let Some(known) =
            subject.observations.rocblas.get(object.path.as_str()).filter(|known| !known.is_empty())
        else {
            continue;
        };
        let archs: Vec<(&Gpu, String)> =
            devices(subject, Backend::Rocm).filter_map(|gpu| Some((gpu, gfx(subject, gpu)?))).collect();
        let (gpu, gfx) = archs.first()?;
        if archs.iter().any(|(_, gfx)| known.contains(gfx)) {
            return None;
        }
        let list = known.iter().cloned().collect::<Vec<_>>().join(", ");
        let draft = FindingDraft::new(id!("rocm.gfx-unsupported"))
            .backend(Backend::Rocm)
            .value("file", subject.file_name())
            .value("arch", gfx.as_str())
            .value("archs", list.as_str())
            .summary(format!("`{}` has no kernels for {} ({gfx}), only for {list}", object.path, gpu.name))
            .fix("use a ROCm that was built for this GPU, or the Vulkan backend")
            .evidence(Evidence::file(object.path.as_str(), format!("rocblas/library has {list}")));
        return Some(gpu.evidence.iter().take(1).cloned().fold(draft, FindingDraft::evidence));
    }
    None
}
