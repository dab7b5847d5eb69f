//! `HSA_OVERRIDE_GFX_VERSION`: values that are safe, values that are not, and systems that ignore it.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::{Gpu, Vendor};
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::description::Risk;
use gpubuild_host::Os;

use super::devices::dotted;
use super::{gpus, is_visible, reason};
use crate::DiagnosisCase;

const NAME: &str = "HSA_OVERRIDE_GFX_VERSION";

/// An override makes programs use the code of an incompatible architecture.
pub(super) fn dangerous(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    if case.facts.platform.os != Os::Linux {
        return Vec::new();
    }
    let gpus = gpus(case);
    let found =
        gpus.iter().enumerate().filter(|(index, _)| is_visible(case, *index)).find_map(|(index, gpu)| {
            // A variable for one GPU takes precedence over the variable for all.
            let own = format!("{NAME}_{index}");
            let (name, value) =
                [own.as_str(), NAME].iter().find_map(|name| Some((*name, case.env.get(name)?)))?;
            let problem = problem(case, gpu, value.trim())?;
            Some((name.to_owned(), value.to_owned(), *gpu, problem))
        });
    let Some((name, value, gpu, problem)) = found else { return Vec::new() };
    let mut draft = FindingDraft::new(id!("rocm.override-dangerous"))
        .backend(Backend::Rocm)
        .affects(Affects::Run)
        .evidence(Evidence::env(&name, &value))
        .value("variable", &name)
        .value("value", &value)
        .value("arch", gpu.arch.clone().unwrap_or_default())
        .value("problem", problem);
    draft = gpu.evidence.iter().fold(draft, |draft, one| draft.evidence(one.clone()));
    // The installed libraries contain code for the GPU, and none for the architecture that the variable names.
    let is_supported = |arch: &str| {
        case.inventory.chosen("rocm").is_some_and(|copy| copy.device_archs.iter().any(|known| known == arch))
    };
    if reason(case, Backend::Rocm, id!("rocm.gfx-unsupported")).is_some()
        && gpu.arch.as_deref().is_some_and(is_supported)
    {
        draft = draft.kind(FindingKind::Fault);
    }
    let suggested =
        gpu.arch.as_deref().and_then(|arch| case.catalogue.for_backend(Backend::Rocm)?.stand_in(arch));
    let suggested = suggested.filter(|row| row.risk < Risk::High).and_then(|row| row.to.as_deref());
    if let Some(to) = suggested.filter(|to| Some(*to) != parse(value.trim()).as_deref()) {
        draft = draft.value("better", dotted(to)).case("better");
    }
    vec![draft]
}

/// The problem with a value for a GPU; `None` if the value is safe.
fn problem(case: &DiagnosisCase<'_>, gpu: &Gpu, value: &str) -> Option<String> {
    let arch = gpu.arch.as_deref()?;
    let Some(target) = parse(value) else {
        return Some("it is not a version of three numbers such as `10.3.0`".to_owned());
    };
    if target == arch {
        return None;
    }
    let row = case.catalogue.for_backend(Backend::Rocm).and_then(|one| one.stand_in(arch));
    match row {
        Some(row) if row.to.as_deref() == Some(target.as_str()) && row.risk == Risk::Low => None,
        Some(row) if row.to.as_deref() == Some(target.as_str()) && row.risk == Risk::Medium => Some(format!(
            "AMD does not support it, and code for {target} works on some {arch} ({}) and faults on others",
            row.cards
        )),
        Some(row) if row.risk == Risk::High => Some(format!(
            "{arch} ({}) is known to hang, fault or compute wrong results with code for {target}",
            row.cards
        )),
        _ => Some(format!(
            "{arch} lacks instructions of {target} or has different ones; programs crash, hang or compute wrong results"
        )),
    }
}

/// The architecture of a value: `10.3.0` is `gfx1030`.
fn parse(value: &str) -> Option<String> {
    let mut numbers = value.split('.').map(|number| number.parse::<u32>().ok());
    let (major, minor, step) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let fits = numbers.next().is_none() && minor < 16 && step < 16;
    fits.then(|| format!("gfx{major}{minor:x}{step:x}"))
}

/// The variable is set on Windows, where nothing reads it.
pub(super) fn windows(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let has_gpu = case.facts.gpus.iter().any(|gpu| gpu.vendor == Vendor::Amd);
    let set =
        case.env.iter().find(|(name, value)| name.to_uppercase().starts_with(NAME) && !value.is_empty());
    let (true, Os::Windows, Some((name, value))) = (has_gpu, case.facts.platform.os, set) else {
        return Vec::new();
    };
    // The variable was probably set for a GPU that is still not supported.
    let still = reason(case, Backend::Rocm, id!("rocm.gfx-unsupported"));
    let mut draft = FindingDraft::new(id!("rocm.override-windows"))
        .backend(Backend::Rocm)
        .affects(Affects::Run)
        .evidence(Evidence::env(name, value))
        .value("variable", name)
        .value("value", value);
    if let Some(arch) = still.and_then(|reason| reason.values.get("arch")) {
        draft = draft.kind(FindingKind::Fault).value("arch", arch).case("still-unsupported");
    }
    vec![draft]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_override_are_parsed() {
        for (value, arch) in [
            ("10.3.0", Some("gfx1030")),
            ("9.0.10", Some("gfx90a")),
            ("11.0.2", Some("gfx1102")),
            ("gfx1030", None),
            ("10.3", None),
            ("10.3.0.1", None),
            ("", None),
        ] {
            assert_eq!(parse(value).as_deref(), arch, "{value}");
        }
    }
}
