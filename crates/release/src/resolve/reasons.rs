//! Why a variant was selected, and others were not.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Presence, Readiness};

use super::{Fallback, NoVariant, Rejected, ResolveRequest, VariantFit, can_run};
use crate::cover::VariantCover;
use crate::machine::{ObservedMachine, ReleaseMachine};
use crate::manifest::ReleaseVariant;
use crate::preference::BackendOrder;

/// Requirements of a variant that could not be verified on this machine.
pub(super) fn unknown(machine: &ReleaseMachine, selected: &ReleaseVariant, backend: Backend) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(needs) = &selected.libc
        && !matches!(&machine.libc, Some((_, Some(_))))
    {
        unknown.push(format!("{} {} or newer", needs.family, needs.version));
    }
    let seen = machine.backends.get(&backend);
    if let (Backend::Cuda, Some(cuda), Some(ObservedMachine { driver: None, .. })) =
        (backend, &selected.cuda, seen)
    {
        unknown.push(format!("driver {} or newer", cuda.driver));
    }
    if seen.is_some_and(|seen| seen.run == Readiness::Unknown) {
        unknown.push(format!("whether {backend} can run"));
    }
    unknown
}

/// Why a variant was not selected: it does not run here, or the selected one is better.
pub(super) fn why_not(
    fit: &VariantFit<'_>,
    selected: &ReleaseVariant,
    backend: Backend,
    order: &BackendOrder,
) -> String {
    match fit {
        VariantFit::No(reason) => reason.clone(),
        VariantFit::Yes(served, not, variant) => {
            if served.iter().any(|served| served.backend == backend) {
                return format!("`{}` matches this machine more closely [resolve.wider]", selected.label);
            }
            let best = not.iter().min_by_key(|(backend, _)| order.rank(*backend));
            if let Some((backend, reason)) = best {
                return format!("{backend}: {reason}");
            }
            let listed = variant.backends.iter().map(|one| one.id()).collect::<Vec<_>>().join(", ");
            if served.iter().any(|served| order.publisher_prefers(backend, served.backend)) {
                return format!(
                    "it is for {listed}, but the publisher prefers {backend} [resolve.preference]"
                );
            }
            format!("it is for {listed}, but {backend} is preferred [resolve.preference]")
        }
    }
}

pub(super) fn because(
    request: &ResolveRequest<'_>,
    (fits, order): (&[(&ReleaseVariant, VariantFit<'_>)], &BackendOrder),
    selected: &ReleaseVariant,
    backend: Backend,
    cover: VariantCover,
) -> String {
    let prefix = match (request.variant, request.backend) {
        (Some((_, origin)), _) | (None, Some((_, origin))) => format!("{origin} requests it; "),
        (None, None) => String::new(),
    };
    let rest = match (backend, cover) {
        (Backend::Cpu, _) => "it runs on the CPU".to_owned(),
        (_, VariantCover::Translated) => {
            format!("the driver translates its {backend} code for the devices of this machine")
        }
        (_, VariantCover::Native) => {
            let devices = request.machine.backends.get(&backend).map_or(&[][..], |seen| &seen.devices);
            let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
            let kind = if selected.portable { "portable" } else { "narrowest" };
            format!("{kind} {backend} variant that covers {}", names.join(", "))
        }
    };
    let publisher = if request.backend.is_some() { String::new() } else { preferred(fits, order, backend) };
    format!("{prefix}{publisher}{rest}")
}

/// Names the backends that would be used without the publisher's preference; empty without such backends.
fn preferred(fits: &[(&ReleaseVariant, VariantFit<'_>)], order: &BackendOrder, backend: Backend) -> String {
    let is_usable = |other: &Backend| {
        fits.iter().any(|(_, fit)| {
            matches!(fit, VariantFit::Yes(served, _, _) if served.iter().any(|served| served.backend == *other))
        })
    };
    let others: Vec<&str> = order
        .iter()
        .filter(|other| order.publisher_prefers(backend, *other) && is_usable(other))
        .map(Backend::id)
        .collect();
    if others.is_empty() {
        return String::new();
    }
    format!("the publisher prefers {backend} to {}; ", others.join(", "))
}

/// Backends that are better than the selected one and whose hardware is present.
pub(super) fn fallback(
    request: &ResolveRequest<'_>,
    (fits, order): (&[(&ReleaseVariant, VariantFit<'_>)], &BackendOrder),
    used: Backend,
) -> Vec<Fallback> {
    let better = order.iter().take_while(|backend| *backend != used);
    better
        .filter_map(|backend| {
            let seen = request.machine.backends.get(&backend)?;
            if seen.hardware != Presence::Present {
                return None;
            }
            if let Some((wanted, origin)) = request.backend {
                return Some(Fallback {
                    backend,
                    reason: format!("{origin} requests {wanted} [resolve.asked]"),
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
                format!("no variant contains {backend} [resolve.not-built]")
            } else {
                reasons.join("; ")
            };
            Some(Fallback { backend, reason })
        })
        .collect()
}

pub(super) fn no_variant(
    request: &ResolveRequest<'_>,
    fits: &[(&ReleaseVariant, VariantFit<'_>)],
) -> NoVariant {
    let (id, text) = match (request.variant, request.backend) {
        (Some((label, origin)), _) if fits.iter().all(|(variant, _)| variant.label != label) => (
            id!("resolve.unknown-variant"),
            format!("{origin} requests `{label}`, but the release has no such variant"),
        ),
        (Some((label, origin)), _) => (
            id!("resolve.asked-unfit"),
            format!("{origin} requests `{label}`, which does not fit this machine"),
        ),
        (None, Some((backend, origin))) => (
            id!("resolve.asked-unfit"),
            format!("{origin} requests {backend}, but no variant supports it on this machine"),
        ),
        (None, None) => (id!("resolve.nothing"), "no variant runs on this machine".to_owned()),
    };
    let rejected = fits
        .iter()
        .map(|(variant, fit)| {
            let reason = match fit {
                VariantFit::No(reason) => reason.clone(),
                VariantFit::Yes(_, not, _) => {
                    let wanted = request.backend.map(|(backend, _)| backend);
                    let is_relevant =
                        |backend: Backend| wanted.map_or(backend != Backend::Cpu, |wanted| wanted == backend);
                    let reason = not.iter().find(|(backend, _)| is_relevant(*backend));
                    match (reason, wanted) {
                        (Some((backend, reason)), _) => format!("{backend}: {reason}"),
                        (None, Some(wanted)) => format!("it does not contain {wanted} [resolve.not-built]"),
                        (None, None) => "none of its backends runs here [resolve.blocked]".to_owned(),
                    }
                }
            };
            Rejected { label: variant.label.clone(), reason }
        })
        .collect();
    NoVariant { id, text, rejected }
}
