//! Selects the variant for a machine: the narrowest that covers all devices of the best backend, then a portable one, then the same for
//! the next backend, and finally the CPU. The publisher can prefer backends. Pure. Every rejected variant has a reason.

mod reasons;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};
use serde::Serialize;

use crate::cover::{self, VariantCover};
use crate::machine::{ObservedMachine, ReleaseMachine, level};
use crate::manifest::{ReleaseManifest, ReleasePlatform, ReleaseVariant};
use crate::preference::BackendOrder;
use reasons::{because, fallback, no_variant, unknown, why_not};

/// Which devices a variant has to cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Devices {
    /// All devices of the backend.
    #[default]
    All,
    /// At least one device of the backend.
    Any,
}

/// The inputs of a selection.
#[derive(Debug, Clone, Copy)]
pub struct ResolveRequest<'a> {
    /// The variants to select from.
    pub manifest: &'a ReleaseManifest,
    /// The machine that the variant is for.
    pub machine: &'a ReleaseMachine,
    /// Which devices the variant has to cover.
    pub devices: Devices,
    /// The requested backend, with the option, variable or setting that requests it.
    pub backend: Option<(Backend, &'a str)>,
    /// The label of the requested variant, with the option, variable or setting that requests it.
    pub variant: Option<(&'a str, &'a str)>,
    /// Variants that failed their smoke test, each with the reason.
    pub excluded: &'a [Rejected],
}

/// The selected variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VariantChoice {
    /// The variant's label.
    pub label: String,
    /// The backend that it was selected for.
    pub backend: Backend,
    /// Why it was selected, in one line.
    pub because: String,
    /// Better backends whose hardware is present but which are not used, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<Fallback>,
    /// Requirements that could not be verified on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// All other variants, in the order of the manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<Rejected>,
}

/// A better backend whose hardware is present but which is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fallback {
    /// The unused backend.
    pub backend: Backend,
    /// Why it is not used, in one line that ends with an id.
    pub reason: String,
}

/// A variant that was not selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rejected {
    /// The variant's label.
    pub label: String,
    /// Why it was not selected, in one line that ends with an id.
    pub reason: String,
}

/// No variant could be selected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoVariant {
    /// The stable id of the error.
    pub id: DiagnosticId,
    /// The error message, in one line.
    pub text: String,
    /// Every variant of the platform with the reason against it.
    pub rejected: Vec<Rejected>,
}

/// How a variant fits a machine.
enum VariantFit<'a> {
    /// It cannot be selected, for this reason.
    No(String),
    /// It starts and supports these backends; the list of pairs has the reasons against its other backends.
    Yes(Vec<UsableBackend>, Vec<(Backend, String)>, &'a ReleaseVariant),
}

/// A backend of a variant that this machine can use.
#[derive(Debug, Clone, Copy)]
struct UsableBackend {
    backend: Backend,
    cover: VariantCover,
}

/// Selects a variant.
///
/// # Errors
/// No variant fits, or the requested variant or backend does not.
pub fn resolve(request: &ResolveRequest<'_>) -> Result<VariantChoice, NoVariant> {
    let machine = request.machine;
    let Some(platform) = request.manifest.platforms.get(&machine.platform) else {
        let known: Vec<&str> = request.manifest.platforms.keys().map(String::as_str).collect();
        return Err(NoVariant {
            id: id!("resolve.no-platform"),
            text: format!(
                "the release has no variants for {}, only for {}",
                machine.platform,
                known.join(", ")
            ),
            rejected: Vec::new(),
        });
    };
    let fits: Vec<(&ReleaseVariant, VariantFit<'_>)> =
        platform.variants.iter().map(|variant| (variant, fit(request, variant))).collect();
    let backends = BackendOrder::of(platform);
    for backend in backends.iter() {
        if request.backend.is_some_and(|(wanted, _)| wanted != backend) {
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
        candidates.sort_indirect_by(|left, right| order(*left).cmp(&order(*right)));
        if let Some((variant, cover)) = candidates.first() {
            return Ok(choice(request, (&fits, &backends), variant, backend, *cover));
        }
    }
    Err(no_variant(request, &fits))
}

/// The sort key of a candidate. Smaller is better, in this order: code that needs no JIT compilation, a lower driver requirement if the
/// driver is unknown, fewer architectures, fewer other backends, a newer CUDA, a narrower processor level, fewer bytes, the platform's
/// default, the name.
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

fn fit<'a>(request: &ResolveRequest<'_>, variant: &'a ReleaseVariant) -> VariantFit<'a> {
    if let Some((label, origin)) = request.variant
        && variant.label != label
    {
        return VariantFit::No(format!("{origin} requests `{label}` [resolve.asked]"));
    }
    if let Some(tried) = request.excluded.iter().find(|tried| tried.label == variant.label) {
        return VariantFit::No(tried.reason.clone());
    }
    if let Some(reason) = does_not_start(request.machine, variant) {
        return VariantFit::No(reason);
    }
    let mut served = Vec::new();
    let mut not = Vec::new();
    for backend in &variant.backends {
        match serves(request, variant, *backend) {
            Ok(cover) => served.push(UsableBackend { backend: *backend, cover }),
            Err(reason) => not.push((*backend, reason)),
        }
    }
    VariantFit::Yes(served, not, variant)
}

/// Why a variant cannot start: the C library, the operating system or the processor.
fn does_not_start(machine: &ReleaseMachine, variant: &ReleaseVariant) -> Option<String> {
    if let Some(needs) = &variant.libc {
        match &machine.libc {
            Some((family, _)) if *family != needs.family => {
                return Some(format!(
                    "it needs {}, but this system has {family} [resolve.libc]",
                    needs.family
                ));
            }
            Some((family, Some(version))) if *version < needs.version => {
                return Some(format!(
                    "it needs {family} {} or newer, but this system has {version} [resolve.libc]",
                    needs.version
                ));
            }
            // An unknown version does not reject a variant; `VariantChoice::unknown` reports it.
            Some(_) | None => {}
        }
    }
    if let Some(needs) = &variant.os
        && machine.os.as_ref().is_none_or(|here| here < needs)
    {
        let here = machine
            .os
            .as_ref()
            .map_or("the installed release is unknown".to_owned(), |here| format!("{here} is installed"));
        return Some(format!("it needs release {needs} of the operating system, but {here} [resolve.os]"));
    }
    let needs = variant.cpu.as_deref()?;
    let Some(here) = machine.cpu.as_deref() else {
        // Every processor of the platform has level 1.
        return level(needs)
            .is_some_and(|(_, rank)| rank > 1)
            .then(|| format!("it needs {needs}, but the level of this processor is unknown [resolve.cpu]"));
    };
    let enough = matches!((level(needs), level(here)), (Some(needs), Some(here)) if needs.0 == here.0 && needs.1 <= here.1);
    (!enough).then(|| format!("it needs {needs}, but this processor is {here} [resolve.cpu]"))
}

/// How a variant supports a backend on this machine, or why it does not.
fn serves(
    request: &ResolveRequest<'_>,
    variant: &ReleaseVariant,
    backend: Backend,
) -> Result<VariantCover, String> {
    if backend == Backend::Cpu {
        // If the user requests a GPU variant by name, running only its CPU backend is not intended.
        let is_requested = request.variant.is_some() && request.backend.is_none();
        return if is_requested && !variant.is_plain() {
            Err("only its CPU backend would run here [resolve.blocked]".to_owned())
        } else {
            Ok(VariantCover::Native)
        };
    }
    let Some(seen) = request.machine.backends.get(&backend) else {
        return Err(format!("nothing is known about {backend} on this machine [resolve.hardware]"));
    };
    can_run(backend, seen)?;
    match request.devices {
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

/// Why a backend cannot run on this machine with any variant.
fn can_run(backend: Backend, seen: &ObservedMachine) -> Result<(), String> {
    let reason = || seen.reasons.first().cloned();
    if seen.hardware != Presence::Present {
        return Err(
            reason().unwrap_or_else(|| format!("no hardware for {backend} was found [resolve.hardware]"))
        );
    }
    if seen.run == Readiness::Blocked {
        return Err(reason().unwrap_or_else(|| format!("{backend} cannot run here [resolve.blocked]")));
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
    request: &ResolveRequest<'_>,
    (fits, order): (&[(&ReleaseVariant, VariantFit<'_>)], &BackendOrder),
    selected: &ReleaseVariant,
    backend: Backend,
    cover: VariantCover,
) -> VariantChoice {
    let rejected = fits
        .iter()
        .filter(|(variant, _)| variant.label != selected.label)
        .map(|(variant, fit)| Rejected {
            label: variant.label.clone(),
            reason: why_not(fit, selected, backend, order),
        })
        .collect();
    VariantChoice {
        label: selected.label.clone(),
        backend,
        because: because(request, (fits, order), selected, backend, cover),
        fallback: fallback(request, (fits, order), backend),
        unknown: unknown(request.machine, selected, backend),
        rejected,
    }
}
