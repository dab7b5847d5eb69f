//! GPUs that ROCm's libraries do not support, and GPUs in the wrong order.

use gpubuild_core::backend::Backend;
use gpubuild_detect::facts::Gpu;
use gpubuild_detect::finding::{Affects, Evidence, FindingDraft, FindingKind};
use gpubuild_detect::id;
use gpubuild_detect::json;
use gpubuild_detect::toolkit::description::{Description, Risk};
use gpubuild_host::Os;

use super::{gpus, is_wanted, reason, visible, wanted_kind};
use crate::DiagnosisCase;
use crate::checks::graphics::is_last_resort;

/// Polaris and older: ROCm has not supported them since 4.0.
pub(super) fn gfx803(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("rocm.gfx803");
    let Some(known) = reason(case, Backend::Rocm, id) else { return Vec::new() };
    // If no other backend runs either, this is the cause.
    let kind = if is_wanted(case) || is_last_resort(case) { FindingKind::Fault } else { FindingKind::Note };
    let mut draft = FindingDraft::new(id).backend(Backend::Rocm).affects(Affects::Run).kind(kind);
    let last = known.values.get("arch").and_then(|arch| description(case)?.last(arch));
    if let Some(row) = last {
        draft = draft.value("last", row.release.to_string());
    }
    vec![draft.value("card", gpus(case).first().map(|gpu| gpu.name.clone()).unwrap_or_default())]
}

fn description<'a>(case: &DiagnosisCase<'a>) -> Option<&'a Description> {
    case.catalogue.for_backend(Backend::Rocm)
}

/// The architecture that an override makes programs use for all GPUs. The override has an effect only on Linux.
fn override_arch<'a>(case: &'a DiagnosisCase<'_>) -> Option<&'a str> {
    let set = case.facts.overrides.iter().find(|set| set.key == "rocm.hsa-override")?;
    (case.facts.platform.os == Os::Linux).then_some(set.value.as_str())
}

/// The libraries were built for none of the GPUs.
pub(super) fn unsupported(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let id = id!("rocm.gfx-unsupported");
    let gpus = gpus(case);
    let archs: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.arch.as_deref()).collect();
    if reason(case, Backend::Rocm, id).is_none() && !by_libraries(case, &archs, gpus.len()) {
        return Vec::new();
    }
    let copy = case.inventory.chosen("rocm");
    let (place, built) = copy
        .filter(|copy| !copy.device_archs.is_empty())
        .map(|copy| (copy.root.join("lib/rocblas/library").to_string(), copy.device_archs.clone()))
        .or_else(|| case.signs.rocm.rocblas.first().map(|(place, archs)| (place.to_string(), archs.clone())))
        .unwrap_or_default();
    let mut draft = FindingDraft::new(id)
        .backend(Backend::Rocm)
        .affects(Affects::Run)
        .kind(wanted_kind(case))
        .value("arch", archs.join(", "))
        .value("built", built.join(", "))
        .evidence(Evidence::file(place, format!("kernels for {}", built.join(" "))));
    draft = draft.summary(match copy.and_then(|copy| copy.version()) {
        Some(version) => {
            format!("the libraries of ROCm {} were not built for {}", version.release(), archs.join(", "))
        }
        None => format!("the libraries of this ROCm were not built for {}", archs.join(", ")),
    });
    for gpu in gpus.iter().take(1) {
        draft = gpu.evidence.iter().fold(draft, |draft, one| draft.evidence(one.clone()));
    }
    vec![suggest(case, draft, &archs, &built)]
}

/// Adds the fix: an override with a related architecture if that is safe, otherwise another ROCm or Vulkan.
fn suggest(case: &DiagnosisCase<'_>, draft: FindingDraft, archs: &[&str], built: &[String]) -> FindingDraft {
    let Some(arch) = archs.first() else { return draft };
    let row = description(case).and_then(|one| one.stand_in(arch));
    let safe = row.filter(|row| row.risk < Risk::High).and_then(|row| Some((row, row.to.as_ref()?)));
    match safe.filter(|(_, to)| case.facts.platform.os == Os::Linux && built.contains(to)) {
        Some((row, to)) => {
            let is_same = row.risk == Risk::Low;
            let caveat =
                if is_same { "its instructions are the same" } else { "it works for many GPUs, not for all" };
            draft.value("override", dotted(to)).value("stand_in", to).value("care", caveat).case("stand-in")
        }
        None => match description(case).and_then(|one| one.last(arch)) {
            Some(row) => draft.value("last", row.release.to_string()).case("given-up"),
            None => draft,
        },
    }
}

/// An architecture in the format of `HSA_OVERRIDE_GFX_VERSION`: `gfx1030` is `10.3.0`.
pub(super) fn dotted(arch: &str) -> String {
    let digits = arch.trim_start_matches("gfx");
    let (major, rest) = digits.split_at(digits.len().saturating_sub(2));
    let numbers: Vec<String> =
        rest.chars().map(|digit| digit.to_digit(16).map(|n| n.to_string()).unwrap_or_default()).collect();
    format!("{major}.{}", numbers.join("."))
}

/// Whether rocBLAS kernels are installed without an SDK, and none is for these GPUs.
fn by_libraries(case: &DiagnosisCase<'_>, archs: &[&str], gpus: usize) -> bool {
    let libraries = &case.signs.rocm.rocblas;
    let described = description(case);
    let dropped = |arch: &&str| described.is_some_and(|one| one.device_conflict(arch, None, None).is_some());
    if case.inventory.chosen("rocm").is_some()
        || libraries.is_empty()
        || archs.is_empty()
        || archs.len() < gpus
    {
        return false;
    }
    let has = |arch: &str| {
        let arch = override_arch(case).unwrap_or(arch);
        libraries.iter().any(|(_, built)| built.iter().any(|one| one == arch))
    };
    !archs.iter().any(|arch| has(arch)) && !archs.iter().all(dropped)
}

/// The integrated GPU is the first device, which programs use by default, and the discrete GPU comes after it.
pub(super) fn igpu_first(case: &DiagnosisCase<'_>) -> Vec<FindingDraft> {
    let (gpus, is_known) = device_order(case);
    let Some((first, others)) = gpus.split_first() else { return Vec::new() };
    let Some(discrete) = others.iter().position(|gpu| gpu.integrated != Some(true)) else {
        return Vec::new();
    };
    if first.integrated != Some(true) || !is_wanted(case) || visible(case).is_some() {
        return Vec::new();
    }
    // If the libraries have kernels for the integrated GPU, it works and is only slow.
    let built = case.inventory.chosen("rocm").map_or(&[][..], |copy| &copy.device_archs);
    let works = first.arch.as_ref().is_some_and(|arch| built.contains(arch));
    let number = (discrete + 1).to_string();
    let mut draft = FindingDraft::new(id!("rocm.igpu-first"))
        .backend(Backend::Rocm)
        .affects(Affects::Run)
        .kind(if works || !is_known { FindingKind::Caution } else { FindingKind::Fault })
        .value("first", describe(first))
        .value("card", describe(others[discrete]))
        .value("number", &number);
    for (index, gpu) in gpus.iter().enumerate() {
        let place = gpu.evidence.last().map_or_else(|| gpu.name.clone(), |one| one.place.clone());
        draft = draft.evidence(Evidence::file(place, format!("device {index}: {}", describe(gpu))));
    }
    vec![draft]
}

/// The GPUs in the order in which programs number them, and whether that order is known: from the driver probe, otherwise from
/// the kernel. The order of the Windows registry is only likely.
fn device_order<'a>(case: &DiagnosisCase<'a>) -> (Vec<&'a Gpu>, bool) {
    let devices = &case.matrix.verdict(Backend::Rocm).devices;
    let answer = case.probes.get(&Backend::Rocm).map(|answer| answer.answer.as_str()).unwrap_or_default();
    let reported = probe_order(answer);
    let find = |(name, pci): &(String, Option<String>)| {
        let by_place = |gpu: &&Gpu| pci.is_some() && gpu.pci == *pci;
        devices.iter().find(by_place).or_else(|| devices.iter().find(|gpu| gpu.name == *name))
    };
    let ordered: Option<Vec<&Gpu>> = reported.iter().map(find).collect();
    match ordered.filter(|list| list.len() > 1) {
        Some(list) => (list, true),
        None => (gpus(case), !case.signs.rocm.kernel.nodes.is_empty()),
    }
}

/// Name and PCI address of the devices in the answer of the HIP probe, in its order.
fn probe_order(answer: &str) -> Vec<(String, Option<String>)> {
    let document = json::parse(answer).unwrap_or_default();
    let devices = document["devices"].as_array().cloned().unwrap_or_default();
    let text = |device: &serde_json::Value, key: &str| device[key].as_str().map(str::to_owned);
    devices
        .iter()
        .map(|device| {
            (text(device, "name").unwrap_or_default(), text(device, "pci").map(|pci| pci.to_lowercase()))
        })
        .collect()
}

fn describe(gpu: &Gpu) -> String {
    match &gpu.arch {
        Some(arch) => format!("{} ({arch})", gpu.name),
        None => gpu.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_formatted_for_the_override() {
        for (arch, dots) in
            [("gfx1030", "10.3.0"), ("gfx90a", "9.0.10"), ("gfx1100", "11.0.0"), ("gfx906", "9.0.6")]
        {
            assert_eq!(dotted(arch), dots);
        }
    }
}
