//! Programs load a wrong library of the driver, or find none.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Vendor;
use gpubuild_detect::finding::{Affects, Evidence, EvidenceKind, FindingDraft, FindingKind, Severity};
use gpubuild_detect::id;
use gpubuild_host::{Os, ProbeStatus};

use super::view::NvidiaView;
use crate::DiagnosisCase;
use crate::signs::nvidia::{Collision, DriverLibrary, DriverOrigin};

/// The kernel module is loaded, but the driver's libraries are missing.
pub(super) fn library_missing(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        view.reason(id!("nv.driver.library-missing"))?;
        let library = if case.facts.platform.os == Os::Windows { "nvcuda.dll" } else { "libcuda.so.1" };
        let mut draft = view
            .draft(id!("nv.driver.library-missing"))
            .evidence(Evidence::file(library, "not found by the loader"));
        draft = view.with_branch(draft, "replaced");
        if let Some(version) = view.kernel_version() {
            draft = draft.value("version", version.to_string());
        }
        if let Some(unlinked) = view.signs.libraries.unlinked.first() {
            return Some(draft.evidence(Evidence::file(unlinked.as_str(), "present")).case("unlinked"));
        }
        if let Some(copy) = uncached(&view) {
            let draft = draft.value("library", copy.path.as_str());
            return Some(draft.evidence(Evidence::file(copy.path.as_str(), "present")).case("uncached"));
        }
        if let Some(tegra) = &view.signs.system.tegra {
            return Some(draft.evidence(tegra.clone()).case("tegra"));
        }
        Some(draft)
    };
    draft().into_iter().collect()
}

/// A copy in a folder of the loader's configuration that is not in the loader's cache, and not for 32-bit programs.
fn uncached<'a>(view: &NvidiaView<'a>) -> Option<&'a DriverLibrary> {
    let libraries = &view.signs.libraries;
    if libraries.driver.is_some() || view.case.facts.platform.os != Os::Linux {
        return None;
    }
    let is_32_bit = |copy: &DriverLibrary| {
        ["/i386-linux-gnu/", "/i686-linux-gnu/", "/lib32/"]
            .iter()
            .any(|part| copy.path.as_str().contains(part))
    };
    libraries.copies.iter().find(|copy| copy.origin == DriverOrigin::Driver && !is_32_bit(copy))
}

/// The kernel module and the libraries have different versions.
pub(super) fn mismatch(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| mismatch_draft(&view)).into_iter().collect()
}

fn mismatch_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let libraries = &view.signs.libraries;
    let kernel = view.kernel_version()?;
    let differs = |copy: &&DriverLibrary| copy.version.as_ref().is_some_and(|version| version != kernel);
    let own = |copy: &&DriverLibrary| copy.origin == DriverOrigin::Driver;
    let older = |copy: &&DriverLibrary| copy.version.as_ref().is_some_and(|version| version < kernel);
    let wrong = libraries
        .driver
        .as_ref()
        .filter(differs)
        .filter(|copy| own(copy) || (copy.origin == DriverOrigin::Compatibility && older(copy)))
        .or_else(|| libraries.management.as_ref().filter(own).filter(differs));
    let is_reported = view.reason(id!("nv.driver.lib-mismatch")).is_some();
    let code = matches!(view.code(), Some(803));
    if !is_reported && (!code && wrong.is_none() || view.works()) {
        return None;
    }
    let mut draft = view
        .draft(id!("nv.driver.lib-mismatch"))
        .value("kernel", kernel.to_string())
        .evidence(Evidence::file("/proc/driver/nvidia/version", kernel.to_string()));
    if let Some(cuda_error) = view.cuda_error().filter(|_| code) {
        draft = draft.evidence(cuda_error.evidence);
    }
    let Some(wrong) = wrong else {
        return Some(draft.summary(format!(
            "the driver's libraries and the loaded kernel module {kernel} have different versions"
        )));
    };
    let version = wrong.version.as_ref().map(ToString::to_string).unwrap_or_default();
    draft = draft
        .value("found", &version)
        .value("library", wrong.path.as_str())
        .evidence(Evidence::file(wrong.real.as_str(), &version));
    let folder = wrong.path.parent().map(|folder| folder.to_string()).unwrap_or_default();
    draft = draft.value("folder", folder);
    // The right library exists too, later in the search order.
    let right = libraries.copies.iter().find(|copy| copy.version.as_ref() == Some(kernel));
    Some(match right {
        Some(right) => draft
            .value("right", right.path.as_str())
            .evidence(Evidence::file(right.path.as_str(), kernel.to_string()))
            .case(if wrong.origin == DriverOrigin::Compatibility { "compatibility" } else { "shadowed" }),
        None if wrong.origin == DriverOrigin::Compatibility => draft.case("compatibility"),
        None => match other_module(view, wrong) {
            Some(disk) => draft.case("module-behind").value("disk", disk.to_string()).evidence(
                Evidence::file(view.signs.kernels.running.modules[0].as_str(), format!("version {disk}")),
            ),
            None => draft,
        },
    })
}

/// The version of the module on disk, which a reboot would load, if it is not that of the libraries.
fn other_module<'a>(view: &'a NvidiaView<'_>, libraries: &DriverLibrary) -> Option<&'a Version> {
    if view.is_container() || view.case.facts.wsl.is_some() {
        return None;
    }
    let on_disk = view.signs.kernels.running.version.as_ref();
    on_disk.filter(|version| Some(*version) != libraries.version.as_ref())
}

/// The driver's library is reachable, but the loader does not search its folder.
pub(super) fn not_on_path(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        let loader = view.runtime()?.loader.as_ref().filter(|loader| loader.found_via == "folder")?;
        if case.facts.platform.os != Os::Linux {
            return None;
        }
        let folder = loader.value.parent()?;
        let failed = case.probes.get(&Backend::Cuda).is_some_and(|probe| probe.status != ProbeStatus::Ok);
        // Programs built by Nix have the folder in themselves.
        let is_nix = case.facts.system.is_some_and(|system| system.id == "nixos");
        let kind = match (failed && !view.works(), is_nix) {
            (true, _) => FindingKind::Fault,
            (false, true) => FindingKind::Note,
            (false, false) => FindingKind::Caution,
        };
        let draft = view
            .draft(id!("nv.driver.library-not-on-path"))
            .affects(Affects::Run)
            .kind(kind)
            .value("library", loader.value.as_str())
            .value("folder", folder.as_str())
            .evidence(Evidence::file(loader.value.as_str(), "present, and not in the loader's folders"));
        Some(match alternative(folder.as_str()) {
            Some("current") => draft.case("alternative"),
            Some(name) => draft.case("named-alternative").value("name", name),
            None => draft,
        })
    };
    draft().into_iter().collect()
}

/// The name of a folder such as `/usr/lib/x86_64-linux-gnu/nvidia/current`, whose libraries Debian links into the loader's folder with
/// `update-alternatives`.
fn alternative(folder: &str) -> Option<&str> {
    let (before, name) = folder.rsplit_once('/')?;
    (before.starts_with("/usr/lib/") && before.ends_with("-linux-gnu/nvidia")).then_some(name)
}

/// NVIDIA's compatibility libraries for older drivers are loaded, which only compute GPUs support.
pub(super) fn compatibility(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| compatibility_draft(&view)).into_iter().collect()
}

fn compatibility_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    let driver = view.signs.libraries.driver.as_ref();
    let copy = driver.filter(|copy| copy.origin == DriverOrigin::Compatibility);
    let newer = |copy: &&DriverLibrary| match (&copy.version, view.kernel_version()) {
        (Some(library), Some(kernel)) => library > kernel,
        // Without a version in the file name, the release of the toolkit decides.
        (None, Some(_)) => match (&copy.release, view.driver_cuda()) {
            (Some(release), Some((cuda, _))) => *release > cuda,
            _ => false,
        },
        (_, None) => false,
    };
    let consumer = view.gpus.iter().all(|gpu| is_consumer_gpu(&gpu.name));
    let is_reported = view.code() == Some(804);
    // Libraries newer than the module, without a compatibility package: an incomplete driver update.
    let is_partial = is_reported && copy.is_none() && mismatch_draft(view).is_some();
    if is_partial || !(is_reported || (consumer && copy.is_some_and(|copy| newer(&copy)))) || view.works() {
        return None;
    }
    let mut draft = view.draft(id!("nv.compat-on-geforce"));
    let name = view.gpus.first().map(|gpu| gpu.name.clone()).unwrap_or_default();
    draft = draft.value("card", name);
    if let Some(copy) = copy {
        let folder = copy.path.parent().map(|folder| folder.to_string()).unwrap_or_default();
        let version = copy.version.as_ref().map(ToString::to_string).unwrap_or_default();
        draft = draft
            .value("library", copy.path.as_str())
            .value("folder", folder)
            .evidence(Evidence::file(copy.real.as_str(), version));
    }
    if let Some(kernel) = view.kernel_version() {
        draft = draft.value("kernel", kernel.to_string());
        draft = draft.evidence(Evidence::file("/proc/driver/nvidia/version", kernel.to_string()));
    }
    if let Some(cuda_error) = view.cuda_error().filter(|_| is_reported) {
        draft = draft.evidence(cuda_error.evidence);
    }
    let set = view.case.env.get("LD_LIBRARY_PATH").filter(|list| list.contains("compat"));
    Some(match set {
        Some(list) => draft.evidence(Evidence::env("LD_LIBRARY_PATH", list)),
        None => draft.case("configured"),
    })
}

/// Whether a GPU is a consumer product. Only of these it is certain that they do not support the compatibility libraries.
fn is_consumer_gpu(name: &str) -> bool {
    ["GeForce", "TITAN", "GTX"].iter().any(|word| name.contains(word))
}

/// CUDA's own libraries exist in several versions on one search path.
pub(super) fn mixed(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let collisions = &case.signs.nvidia.libraries.collisions;
    let has_gpu = case.facts.gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    let Some(first) = collisions.iter().find(|one| one.hides_newer).or(collisions.first()) else {
        return Vec::new();
    };
    let names: Vec<&str> = collisions.iter().map(|one| one.library.as_str()).collect();
    let list = |one: &Collision| {
        let copies = one.copies.iter().map(|(path, version)| format!("{version} in `{path}`"));
        copies.collect::<Vec<_>>().join(", ")
    };
    let mut draft = FindingDraft::new(id!("nv.cudart-mixed"))
        .value("library", &first.library)
        .value("libraries", names.join(", "))
        .value("copies", list(first));
    if let Some(set) = case.env.get("LD_LIBRARY_PATH") {
        draft = draft.evidence(Evidence::env("LD_LIBRARY_PATH", set));
    } else {
        draft = draft.case("configured");
    }
    draft = collisions.iter().flat_map(Collision::evidence).fold(draft, FindingDraft::evidence);
    if first.hides_newer {
        draft = draft.case("wheel").severity(Severity::Error);
    }
    if !has_gpu {
        draft = draft.severity(Severity::Info);
    }
    vec![draft]
}

/// The library that the loader found is the stub, as its error code shows.
pub(super) fn stub(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let draft = || -> Option<FindingDraft> {
        let view = NvidiaView::new(case)?;
        let cuda_error = view.cuda_error().filter(|cuda_error| cuda_error.code == Some(34))?;
        let draft =
            view.draft(id!("cuda.stub-at-runtime")).affects(Affects::Run).evidence(cuda_error.evidence);
        let copy = view.signs.libraries.driver.as_ref();
        Some(
            copy.into_iter()
                .fold(draft, |draft, copy| draft.evidence(Evidence::file(copy.path.as_str(), "loaded"))),
        )
    };
    draft().into_iter().collect()
}

/// A function that the driver lacks.
pub(super) fn symbol(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    NvidiaView::new(case).and_then(|view| symbol_draft(&view)).into_iter().collect()
}

fn symbol_draft(view: &NvidiaView<'_>) -> Option<FindingDraft> {
    if let Some(cuda_error) = view.cuda_error()
        && let Some(function) = &cuda_error.missing_function
    {
        let mut draft =
            view.draft(id!("nv.symbol-too-new")).value("function", function).evidence(cuda_error.evidence);
        if let Some((cuda, evidence)) = view.driver_cuda() {
            draft = draft.value("driver_cuda", cuda.release()).evidence(evidence);
        }
        return Some(draft);
    }
    // The CUDA release that the Rust crate `cudarc` is built for, which it does not verify: 12080 is 12.8.
    let variable = "CUDARC_CUDA_VERSION";
    let set = view.case.env.get(variable)?;
    let number: u64 = set.trim().parse().ok()?;
    let wanted = Version::of_cuda_number(number);
    let (cuda, evidence) = view.driver_cuda()?;
    (wanted > cuda).then(|| {
        view.draft(id!("nv.symbol-too-new"))
            .value("wanted", wanted.as_str())
            .value("driver_cuda", cuda.release())
            .evidence(Evidence::new(EvidenceKind::Env, variable, set))
            .evidence(evidence)
            .case("variable")
    })
}

#[cfg(test)]
mod tests {
    use super::alternative;

    #[test]
    fn folders_of_alternatives_have_names() {
        let folder = |rest: &str| format!("/usr/lib/x86_64-linux-gnu/{rest}");
        assert_eq!(alternative(&folder("nvidia/current")), Some("current"));
        assert_eq!(alternative(&folder("nvidia/tesla-470")), Some("tesla-470"));
        for other in [&folder("nvidia"), "/usr/lib/wsl/lib", "/opt/x-linux-gnu/nvidia/current"] {
            assert_eq!(alternative(other), None, "{other}");
        }
    }
}
