//! Which variant is for a machine: the narrowest that covers all devices of the best backend, then the portable one, then the next
//! backend, then the processor. Pure; each variant that is not taken has its reason.

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{PREFERENCE, Presence, Readiness};
use serde::Serialize;

use super::cover::{self, VariantCover};
use super::machine::{ObservedMachine, ReleaseMachine, level};
use super::manifest::{ReleaseManifest, ReleasePlatform, ReleaseVariant};

/// Which devices a variant has to cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// All of the backend's.
    #[default]
    All,
    /// One of them is enough.
    Any,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct ResolveQuestion<'a> {
    /// What there is.
    pub manifest: &'a ReleaseManifest,
    /// For which machine.
    pub machine: &'a ReleaseMachine,
    /// What has to be covered.
    pub devices: Devices,
    /// The only backend that is wanted, with who said so.
    pub backend: Option<(Backend, &'a str)>,
    /// The only variant that is wanted, with who said so.
    pub variant: Option<(&'a str, &'a str)>,
    /// Variants that were tried and did not work, each with the reason.
    pub without: &'a [Rejected],
}

/// The variant that is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariantChoice {
    /// Its label.
    pub label: String,
    /// The backend that it is taken for.
    pub backend: Backend,
    /// Why, in one line.
    pub because: String,
    /// Better backends whose hardware is here and which it does not use, each with the reason. Never silent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    /// Requirements that could not be verified on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// All others, in the order of the manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
}

/// A backend whose hardware is here and that is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fallback {
    /// Which.
    pub backend: Backend,
    /// Why, in one line with an id at its end.
    pub reason: String,
}

/// A variant that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// Its label.
    pub label: String,
    /// Why, in one line with an id at its end.
    pub reason: String,
}

/// Why no variant was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nothing {
    /// Stable id.
    pub id: DiagnosticId,
    /// One line.
    pub text: String,
    /// Every variant of the platform, with its reason.
    pub rejected: Vec<Rejected>,
}

/// What a variant is to a machine.
enum VariantFit<'a> {
    /// It would not start.
    No(String),
    /// It starts, and serves these backends; for the others of its backends the reasons.
    Yes(Vec<Served>, Vec<(Backend, String)>, &'a ReleaseVariant),
}

/// A backend that a variant serves.
#[derive(Debug, Clone, Copy)]
struct Served {
    backend: Backend,
    cover: VariantCover,
}

/// Chooses.
///
/// # Errors
/// Nothing suits, or what was asked for by name does not: the reason of every variant.
pub fn resolve(question: &ResolveQuestion<'_>) -> Result<VariantChoice, Nothing> {
    let machine = question.machine;
    let Some(platform) = question.manifest.platforms.get(&machine.platform) else {
        let known: Vec<&str> = question.manifest.platforms.keys().map(String::as_str).collect();
        return Err(Nothing {
            id: id!("resolve.no-platform"),
            text: format!("there is nothing for {}, only for {}", machine.platform, known.join(", ")),
            rejected: Vec::new(),
        });
    };
    let fits: Vec<(&ReleaseVariant, VariantFit<'_>)> =
        platform.variants.iter().map(|variant| (variant, fit(question, variant))).collect();
    for backend in PREFERENCE.into_iter().chain([Backend::Cpu]) {
        if question.backend.is_some_and(|(wanted, _)| wanted != backend) {
            continue;
        }
        let mut candidates: Vec<(&ReleaseVariant, VariantCover)> = fits
            .iter()
            .filter_map(|(variant, fit)| {
                let VariantFit::Yes(served, _, _) = fit else { return None };
                let served = served.iter().find(|served| served.backend == backend)?;
                Some((*variant, served.cover))
            })
            .collect();
        let driver_is_unknown = machine.backends.get(&backend).is_some_and(|seen| seen.driver.is_none());
        let order = |candidate| order(platform, driver_is_unknown, candidate);
        candidates.sort_by(|left, right| order(*left).cmp(&order(*right)));
        if let Some((variant, cover)) = candidates.first() {
            return Ok(choice(question, &fits, variant, backend, *cover));
        }
    }
    Err(nothing(question, &fits))
}

/// Smaller is better, in this order: code that needs no JIT compilation, a lower driver requirement if the driver is unknown, fewer
/// architectures, fewer other backends, a newer CUDA, a narrower processor level, fewer bytes, the platform's default, the name.
fn order<'a>(
    platform: &'a ReleasePlatform,
    driver_is_unknown: bool,
    (variant, cover): (&'a ReleaseVariant, VariantCover),
) -> impl Ord + use<'a> {
    let release = variant.cuda.as_ref().map(|cuda| &cuda.release);
    let rank = variant.cpu.as_deref().and_then(level).map_or(0, |(_, rank)| rank);
    let floor = variant.cuda.as_ref().filter(|_| driver_is_unknown).map(|cuda| &cuda.driver);
    (
        cover,
        floor,
        variant.portable,
        variant.archs(),
        variant.backends.len(),
        std::cmp::Reverse(release),
        std::cmp::Reverse(rank),
        variant.size(),
        variant.label != platform.default,
        &variant.label,
    )
}

fn fit<'a>(question: &ResolveQuestion<'_>, variant: &'a ReleaseVariant) -> VariantFit<'a> {
    if let Some((label, who)) = question.variant
        && variant.label != label
    {
        return VariantFit::No(format!("{who} asks for `{label}` [resolve.asked]"));
    }
    if let Some(tried) = question.without.iter().find(|tried| tried.label == variant.label) {
        return VariantFit::No(tried.reason.clone());
    }
    if let Some(reason) = does_not_start(question.machine, variant) {
        return VariantFit::No(reason);
    }
    let mut served = Vec::new();
    let mut not = Vec::new();
    for backend in &variant.backends {
        match serves(question, variant, *backend) {
            Ok(cover) => served.push(Served { backend: *backend, cover }),
            Err(reason) => not.push((*backend, reason)),
        }
    }
    VariantFit::Yes(served, not, variant)
}

/// Why the loader or the processor would refuse it.
fn does_not_start(machine: &ReleaseMachine, variant: &ReleaseVariant) -> Option<String> {
    if let Some(needs) = &variant.libc {
        match &machine.libc {
            Some((family, _)) if *family != needs.family => {
                return Some(format!(
                    "it needs {}, and this system has {family} [resolve.libc]",
                    needs.family
                ));
            }
            Some((family, Some(version))) if *version < needs.version => {
                return Some(format!(
                    "it needs {family} {}, and {version} is here [resolve.libc]",
                    needs.version
                ));
            }
            // An unknown value does not reject a variant; the choice reports it.
            Some(_) | None => {}
        }
    }
    if let Some(needs) = &variant.os
        && machine.os.as_ref().is_none_or(|here| here < needs)
    {
        let here = machine
            .os
            .as_ref()
            .map_or("the installed one is unknown".to_owned(), |here| format!("{here} is here"));
        return Some(format!("it needs release {needs} of the system, and {here} [resolve.os]"));
    }
    let needs = variant.cpu.as_deref()?;
    let Some(here) = machine.cpu.as_deref() else {
        // The first level is what every processor of the platform has.
        return level(needs)
            .is_some_and(|(_, rank)| rank > 1)
            .then(|| format!("it needs {needs}, and the level of this processor is unknown [resolve.cpu]"));
    };
    let enough = matches!((level(needs), level(here)), (Some(needs), Some(here)) if needs.0 == here.0 && needs.1 <= here.1);
    (!enough).then(|| format!("it needs {needs}, and the processor is {here} [resolve.cpu]"))
}

/// How a variant serves a backend here, or why it does not.
fn serves(
    question: &ResolveQuestion<'_>,
    variant: &ReleaseVariant,
    backend: Backend,
) -> Result<VariantCover, String> {
    if backend == Backend::Cpu {
        // One for GPUs that was asked for by name is not meant for the processor.
        let only_asked = question.variant.is_some() && question.backend.is_none();
        return if only_asked && !variant.is_plain() {
            Err("nothing but the processor would run it [resolve.blocked]".to_owned())
        } else {
            Ok(VariantCover::Native)
        };
    }
    let Some(seen) = question.machine.backends.get(&backend) else {
        return Err(format!("nothing is known of {backend} [resolve.hardware]"));
    };
    can_run(backend, seen)?;
    match question.devices {
        Devices::All => covers(variant, backend, seen),
        Devices::Any if seen.devices.is_empty() => covers(variant, backend, seen),
        Devices::Any => {
            let one = |device: &super::machine::MachineDevice| {
                covers(variant, backend, &ObservedMachine { devices: vec![device.clone()], ..seen.clone() })
            };
            let mut best: Option<Result<VariantCover, String>> = None;
            for device in &seen.devices {
                best = match (best, one(device)) {
                    (Some(Ok(before)), Ok(cover)) => Some(Ok(before.min(cover))),
                    (Some(Ok(before)), Err(_)) => Some(Ok(before)),
                    (Some(Err(_)) | None, Ok(cover)) => Some(Ok(cover)),
                    (Some(Err(before)), Err(_)) => Some(Err(before)),
                    (None, Err(reason)) => Some(Err(reason)),
                };
            }
            best.unwrap_or(Ok(VariantCover::Native))
        }
    }
}

/// Whether a backend can run here at all, whatever the variant.
fn can_run(backend: Backend, seen: &ObservedMachine) -> Result<(), String> {
    let reason = || seen.reasons.first().cloned();
    if seen.hardware != Presence::Present {
        return Err(
            reason().unwrap_or_else(|| format!("no hardware for {backend} was found [resolve.hardware]"))
        );
    }
    if seen.run == Readiness::Blocked {
        return Err(reason().unwrap_or_else(|| format!("{backend} can't run here [resolve.blocked]")));
    }
    Ok(())
}

fn covers(
    variant: &ReleaseVariant,
    backend: Backend,
    seen: &ObservedMachine,
) -> Result<VariantCover, String> {
    match (backend, &variant.cuda, &variant.rocm) {
        (Backend::Cuda, Some(code), _) => cover::cuda(code, seen, variant.portable),
        (Backend::Rocm, _, Some(code)) => cover::rocm(code, seen, variant.portable),
        _ => Ok(VariantCover::Native),
    }
}

fn choice(
    question: &ResolveQuestion<'_>,
    fits: &[(&ReleaseVariant, VariantFit<'_>)],
    taken: &ReleaseVariant,
    backend: Backend,
    cover: VariantCover,
) -> VariantChoice {
    let rejected = fits
        .iter()
        .filter(|(variant, _)| variant.label != taken.label)
        .map(|(variant, fit)| Rejected { label: variant.label.clone(), reason: why_not(fit, taken, backend) })
        .collect();
    VariantChoice {
        label: taken.label.clone(),
        backend,
        because: because(question, taken, backend, cover),
        fallback: fallback(question, fits, backend),
        unknown: unknown(question.machine, taken, backend),
        rejected,
    }
}

/// Requirements of a variant that could not be verified on this machine.
fn unknown(machine: &ReleaseMachine, taken: &ReleaseVariant, backend: Backend) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(needs) = &taken.libc
        && !matches!(&machine.libc, Some((_, Some(_))))
    {
        unknown.push(format!("{} {} or newer", needs.family, needs.version));
    }
    let seen = machine.backends.get(&backend);
    if let (Backend::Cuda, Some(cuda), Some(ObservedMachine { driver: None, .. })) =
        (backend, &taken.cuda, seen)
    {
        unknown.push(format!("driver {} or newer", cuda.driver));
    }
    if seen.is_some_and(|seen| seen.run == Readiness::Unknown) {
        unknown.push(format!("whether {backend} can run"));
    }
    unknown
}

/// The explanation for a variant that was not chosen: why it does not run here, or why the other one is better.
fn why_not(fit: &VariantFit<'_>, taken: &ReleaseVariant, backend: Backend) -> String {
    match fit {
        VariantFit::No(reason) => reason.clone(),
        VariantFit::Yes(served, not, variant) => {
            if served.iter().any(|served| served.backend == backend) {
                return format!("`{}` is nearer to this machine [resolve.wider]", taken.label);
            }
            let best =
                not.iter().min_by_key(|(backend, _)| PREFERENCE.iter().position(|other| other == backend));
            match best {
                Some((backend, reason)) => format!("{backend}: {reason}"),
                None => format!(
                    "it is for {}, and {backend} is preferred [resolve.preference]",
                    variant.backends.iter().map(|one| one.id()).collect::<Vec<_>>().join(", ")
                ),
            }
        }
    }
}

fn because(
    question: &ResolveQuestion<'_>,
    taken: &ReleaseVariant,
    backend: Backend,
    cover: VariantCover,
) -> String {
    let asked = match (question.variant, question.backend) {
        (Some((_, who)), _) | (None, Some((_, who))) => format!("{who} asks for it; "),
        (None, None) => String::new(),
    };
    let rest = match (backend, cover) {
        (Backend::Cpu, _) => "it runs on the processor".to_owned(),
        (_, VariantCover::Translated) => format!("its {backend} code is translated for the devices here"),
        (_, VariantCover::Native) => {
            let devices = question.machine.backends.get(&backend).map_or(&[][..], |seen| &seen.devices);
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            let kind = if taken.portable { "portable" } else { "narrowest" };
            format!("{kind} for {backend} that covers {}", names.join(", "))
        }
    };
    format!("{asked}{rest}")
}

/// Better backends than the one that is used, whose hardware is here.
fn fallback(
    question: &ResolveQuestion<'_>,
    fits: &[(&ReleaseVariant, VariantFit<'_>)],
    used: Backend,
) -> Vec<Fallback> {
    let better = PREFERENCE.into_iter().take_while(|backend| *backend != used);
    better
        .filter_map(|backend| {
            let seen = question.machine.backends.get(&backend)?;
            if seen.hardware != Presence::Present {
                return None;
            }
            if let Some((wanted, who)) = question.backend {
                return Some(Fallback {
                    backend,
                    reason: format!("{who} asks for {wanted} [resolve.asked]"),
                });
            }
            if let Err(reason) = can_run(backend, seen) {
                return Some(Fallback { backend, reason });
            }
            let of_fit = |(variant, fit): &(&ReleaseVariant, VariantFit<'_>)| {
                let built = variant.backends.contains(&backend);
                match fit {
                    VariantFit::No(reason) if built => Some(format!("`{}`: {reason}", variant.label)),
                    VariantFit::Yes(_, not, _) => {
                        let (_, reason) = not.iter().find(|(other, _)| *other == backend)?;
                        Some(format!("`{}`: {reason}", variant.label))
                    }
                    VariantFit::No(_) => None,
                }
            };
            let reasons: Vec<String> = fits.iter().filter_map(of_fit).collect();
            let reason = if reasons.is_empty() {
                format!("no variant has {backend} [resolve.not-built]")
            } else {
                reasons.join("; ")
            };
            Some(Fallback { backend, reason })
        })
        .collect()
}

fn nothing(question: &ResolveQuestion<'_>, fits: &[(&ReleaseVariant, VariantFit<'_>)]) -> Nothing {
    let (id, text) = match (question.variant, question.backend) {
        (Some((label, who)), _) if fits.iter().all(|(variant, _)| variant.label != label) => (
            id!("resolve.unknown-variant"),
            format!("{who} asks for `{label}`, and there is no such variant"),
        ),
        (Some((label, who)), _) => {
            (id!("resolve.asked-unfit"), format!("{who} asks for `{label}`, which does not suit"))
        }
        (None, Some((backend, who))) => {
            (id!("resolve.asked-unfit"), format!("{who} asks for {backend}, and no variant serves it here"))
        }
        (None, None) => (id!("resolve.nothing"), "no variant starts on this machine".to_owned()),
    };
    let rejected = fits
        .iter()
        .map(|(variant, fit)| {
            let reason = match fit {
                VariantFit::No(reason) => reason.clone(),
                VariantFit::Yes(_, not, _) => {
                    let wanted = question.backend.map(|(backend, _)| backend);
                    let told =
                        |backend: Backend| wanted.map_or(backend != Backend::Cpu, |wanted| wanted == backend);
                    let reason = not.iter().find(|(backend, _)| told(*backend));
                    match (reason, wanted) {
                        (Some((backend, reason)), _) => format!("{backend}: {reason}"),
                        (None, Some(wanted)) => format!("{wanted} is not in it [resolve.not-built]"),
                        (None, None) => "nothing in it runs here [resolve.blocked]".to_owned(),
                    }
                }
            };
            Rejected { label: variant.label.clone(), reason }
        })
        .collect();
    Nothing { id, text, rejected }
}
