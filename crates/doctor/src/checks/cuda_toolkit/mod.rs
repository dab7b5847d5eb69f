//! Finding the CUDA Toolkit: which copies exist, what variables and PATH lead to, and which build system uses which copy.

mod layout;
mod missing;
mod path;
mod roots;
mod several;
mod stubs;
mod windows;

pub(super) use missing::{is_blocked_by, with_toolkit};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Fact;
use gpubuild_detect::finding::Evidence;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;
use gpubuild_detect::toolkit::range::ArchSupport;
use gpubuild_host::{HostPath, Os};

use super::DoctorCheck;
use crate::DiagnosisCase;

/// The checks of this family.
pub(super) const CHECKS: &[DoctorCheck] = &[
    DoctorCheck { id: id!("cuda.toolkit.missing"), run: missing::toolkit },
    DoctorCheck { id: id!("cuda.toolkit.headers-missing"), run: missing::headers },
    DoctorCheck { id: id!("cuda.toolkit.runtime-only"), run: missing::runtime_only },
    DoctorCheck { id: id!("cuda.toolkit.root-invalid"), run: roots::invalid },
    DoctorCheck { id: id!("cuda.toolkit.not-on-path"), run: path::not_on_path },
    DoctorCheck { id: id!("cuda.language-vs-package"), run: path::language_vs_package },
    DoctorCheck { id: id!("cuda.toolkit.multiple"), run: several::multiple },
    DoctorCheck { id: id!("cuda.toolkit.conda-shadow"), run: several::conda_shadow },
    DoctorCheck { id: id!("cuda.toolkit.debian-split"), run: layout::debian_split },
    DoctorCheck { id: id!("cuda.toolkit.conda-layout"), run: layout::conda_layout },
    DoctorCheck { id: id!("cuda.toolkit.sbsa"), run: layout::sbsa },
    DoctorCheck { id: id!("cuda.toolkit.win-cuda-path"), run: windows::cuda_path },
    DoctorCheck { id: id!("cuda.toolkit.vs-integration"), run: windows::integration },
    DoctorCheck { id: id!("cuda.stub-missing"), run: stubs::missing },
    DoctorCheck { id: id!("cuda.stub-at-runtime"), run: stubs::at_runtime },
];

/// Variables that name an environment, not a toolkit.
const ENVIRONMENTS: [&str; 2] = ["CONDA_PREFIX", "VIRTUAL_ENV"];

/// The copy that builds use.
pub(super) fn chosen<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Installation> {
    case.inventory.chosen("cuda")
}

/// The copy that all builds should use: the chosen one if it fits this machine, otherwise the newest that does.
pub(super) fn recommended<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Installation> {
    let chosen = chosen(case);
    if chosen.is_some_and(|copy| fits(case, copy)) {
        return chosen;
    }
    let fitting = case.inventory.of("cuda").iter().filter(|copy| copy.is_complete() && fits(case, copy));
    fitting.max_by(|left, right| left.version().cmp(&right.version())).or(chosen)
}

/// Whether a copy fits the driver, every GPU, and an installed host compiler.
fn fits(case: &DiagnosisCase<'_>, copy: &Installation) -> bool {
    let (Some(description), Some(release)) = (case.catalogue.get("cuda"), copy.version()) else {
        return false;
    };
    let verdict = case.matrix.verdict(Backend::Cuda);
    let os = case.facts.platform.os;
    let driver = verdict.driver.as_ref().zip(description.driver_floor(release, os));
    let range = description.cuda_range(copy);
    let arch = |name: &str| name.parse::<gpubuild_core::arch::CudaArch>().ok();
    let archs = verdict.devices.iter().filter_map(|gpu| arch(gpu.arch.as_deref()?));
    let builds = |arch: &gpubuild_core::arch::CudaArch| {
        matches!(range.support(arch.number), ArchSupport::Yes | ArchSupport::Unknown)
    };
    let compilers: Vec<(&str, &Installation)> = ["gcc", "clang", "msvc"]
        .iter()
        .flat_map(|family| case.inventory.of(family).iter().map(|compiler| (*family, compiler)))
        .filter(|(_, compiler)| compiler.is_complete())
        .collect();
    let supports = |(family, compiler): &(&str, &Installation)| {
        let window = description.host_compiler_window(copy, family);
        window.is_none_or(|window| window.supports(compiler.version(), family))
    };
    driver.is_none_or(|(driver, floor)| driver >= floor)
        && archs.into_iter().all(|arch| builds(&arch))
        && (compilers.is_empty() || compilers.iter().any(supports))
}

/// The release of a copy, for messages.
pub(super) fn release(copy: &Installation) -> String {
    copy.version().map_or_else(|| "of unknown version".to_owned(), Version::release)
}

/// Evidence of a copy: of its version, otherwise of its compiler.
pub(super) fn evidence(copy: &Installation) -> Evidence {
    let known = copy.version.as_ref().and_then(|fact: &Fact<_>| fact.evidence.first()).cloned();
    known.unwrap_or_else(|| {
        let place = copy.part("compiler").map_or_else(|| copy.root.to_string(), ToString::to_string);
        Evidence::file(place, "present")
    })
}

/// The variables that name a copy, except those of environments.
fn variables(copy: &Installation) -> impl Iterator<Item = &str> {
    let named = copy.found_via.iter().filter_map(|via| via.strip_prefix("env:"));
    named.filter(|name| !ENVIRONMENTS.contains(name))
}

/// Whether a copy belongs to a Python or conda environment.
fn is_of_environment(case: &DiagnosisCase<'_>, copy: &Installation) -> bool {
    let in_conda =
        case.signs.cuda_toolkit.conda.as_ref().is_some_and(|conda| copy.root.is_inside(&conda.real));
    in_conda
        || copy
            .found_via
            .iter()
            .any(|via| via.strip_prefix("env:").is_some_and(|name| ENVIRONMENTS.contains(&name)))
}

/// The path of a copy to suggest for a variable: the link that leads to it, if there is one.
fn spelling<'a>(case: &'a DiagnosisCase<'_>, copy: &'a Installation) -> &'a HostPath {
    let link = case.signs.cuda_toolkit.link.as_ref();
    let leads_here = link.filter(|link| link.root.as_ref().is_some_and(|root| root.key() == copy.root.key()));
    leads_here.map_or(&copy.root, |link| &link.place)
}

fn is_windows(case: &DiagnosisCase<'_>) -> bool {
    case.facts.platform.os == Os::Windows
}

/// Whether the driver's library exists.
pub(super) fn has_driver_library(case: &DiagnosisCase<'_>) -> bool {
    case.inventory.runtimes.get(&Backend::Cuda).is_some_and(|runtime| runtime.loader.is_some())
}
