//! Simulates the toolkit installations of a build: determines which missing toolkits it installs, and the inventory and
//! verdicts after the installation.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::VersionRequirement;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Presence, Probes, Readiness, Reason};
use gpubuild_detect::toolkit::description::is_on;
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};
use gpubuild_host::ReadFiles;

use super::for_target;
use super::installed;
use super::which::{self, OfferMachine, ReleaseQuery, which};
use crate::plan::archs::ArchSelection;
use crate::plan::provision::Provision;
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::project::Project;
use crate::target::Target;
use crate::wheels::{WheelLock, tag};

/// The machine, project and request of a build.
#[derive(Clone, Copy)]
pub struct OfferContext<'a> {
    /// The host; its environment determines the cache folder.
    pub host: &'a dyn ReadFiles,
    /// Facts about the host.
    pub facts: &'a gpubuild_detect::facts::Facts,
    /// Toolkit descriptions.
    pub catalogue: &'a Catalogue,
    /// Installed toolkits.
    pub inventory: &'a Inventory,
    /// The verdicts before the installation.
    pub matrix: &'a Matrix,
    /// The project to build.
    pub project: &'a Project,
    /// The requested backends.
    pub request: &'a BackendRequest,
    /// The platform to build for, if that is another one.
    pub target: Option<&'a Target>,
    /// `--cuda-archs`.
    pub cuda_archs: Option<&'a str>,
    /// Locks of the releases that can be installed.
    pub locks: &'a [WheelLock],
}

/// The state of a machine after the installations.
#[derive(Debug, Clone)]
pub struct Simulated {
    /// The inventory with the toolkits to install.
    pub inventory: Inventory,
    /// The verdicts with these toolkits. If no release of a toolkit suits, the reasons include the objections.
    pub matrix: Matrix,
    /// The toolkits to install.
    pub provision: Vec<Provision>,
}

/// Simulates the installations. Installs nothing; if there is nothing to install, inventory and verdicts are unchanged.
#[must_use]
pub fn simulate(context: &OfferContext<'_>) -> Simulated {
    let mut simulated = Simulated {
        inventory: context.inventory.clone(),
        matrix: context.matrix.clone(),
        provision: Vec::new(),
    };
    for backend in wanted(context) {
        let Some(description) = missing_toolkit(context, backend) else { continue };
        match choose(context, description, backend) {
            Ok(provision) => {
                let inventory =
                    installed::with_installed(context.host, &simulated.inventory, description, &provision);
                let matrix = match context.target {
                    Some(target) if provision.target.is_some() => {
                        let mut matrix = simulated.matrix.clone();
                        for_target::judge(&mut matrix, &inventory, description, backend, target);
                        matrix
                    }
                    _ => super::evaluate(context.facts, &inventory, context.catalogue, &Probes::new()),
                };
                // Do not install a toolkit for a backend that is still blocked with it.
                if matrix.verdict(backend).build != Readiness::Blocked {
                    simulated.inventory = inventory;
                    simulated.matrix = matrix;
                    simulated.provision.push(provision);
                }
            }
            Err(mut reasons) => {
                let verdict = simulated.matrix.verdicts.iter_mut().find(|verdict| verdict.backend == backend);
                if let Some(verdict) = verdict {
                    // Remove the hint to install the toolkit: the command would fail for the same reason.
                    for reason in &mut verdict.build_reasons {
                        reason.hint = reason.hint.take().and_then(|hint| without_command(hint, description));
                    }
                    reasons.append(&mut verdict.build_reasons);
                    verdict.build_reasons = reasons;
                    verdict.build = Readiness::Blocked;
                }
            }
        }
    }
    simulated
}

/// A hint without the installation command.
fn without_command(hint: String, description: &Description) -> Option<String> {
    match hint.strip_prefix(&which::install_hint(description)) {
        Some(rest) => Some(rest.trim_start_matches(", or ").to_owned()).filter(|rest| !rest.is_empty()),
        None => Some(hint),
    }
}

/// The requested backends; for `auto`, those with hardware.
fn wanted(context: &OfferContext<'_>) -> Vec<Backend> {
    match &context.request.selection {
        BackendSelection::Named(list) => list.clone(),
        BackendSelection::Auto => context
            .matrix
            .verdicts
            .iter()
            .filter(|verdict| verdict.hardware == Presence::Present)
            .map(|verdict| verdict.backend)
            .filter(|backend| !context.request.without.iter().any(|(without, _)| without == backend))
            .collect(),
    }
}

/// The description of a backend's toolkit, if gpubuild can install it, no suitable copy is installed, and the project
/// supports the backend.
fn missing_toolkit<'a>(context: &OfferContext<'a>, backend: Backend) -> Option<&'a Description> {
    let description = context.catalogue.for_backend(backend)?;
    let project = context.project;
    let is_supported = !project.without_kernels.contains(&backend)
        && (project.profile.backends.contains_key(&backend) || project.file.backends.contains_key(&backend));
    if !is_supported
        || !which::is_offered(&description.id)
        || !is_on(&description.build.on, context.facts.platform.os)
    {
        return None;
    }
    let requirement: Option<VersionRequirement> =
        requirement(context, backend).and_then(|text| text.parse().ok());
    let is_suitable = |copy: &&gpubuild_detect::toolkit::Installation| {
        copy.is_complete()
            && (!copy.is_own() || components(context, backend).iter().all(|id| copy.part(id).is_some()))
            && requirement
                .as_ref()
                .is_none_or(|requirement| copy.version().is_some_and(|version| requirement.holds(version)))
    };
    context.inventory.of(&description.id).iter().find(is_suitable).is_none().then_some(description)
}

/// The components of the toolkit that the project links.
fn components<'a>(context: &OfferContext<'a>, backend: Backend) -> &'a [String] {
    context.project.profile.backends.get(&backend).map(|row| row.components.as_slice()).unwrap_or_default()
}

fn requirement<'a>(context: &OfferContext<'a>, backend: Backend) -> Option<&'a str> {
    context.project.file.backends.get(&backend)?.toolkit.as_deref()
}

fn choose(
    context: &OfferContext<'_>,
    description: &Description,
    backend: Backend,
) -> Result<Provision, Vec<Reason>> {
    let wheels = context.target.and_then(|target| {
        let profile = &context.project.profile;
        for_target::wheels(for_target::toolkit(context.catalogue, profile, target, backend)?, target)
    });
    let verdict = context.matrix.verdict(backend);
    // GCC for the target is not in the inventory.
    let no_compilers = Inventory::default();
    let archs = ArchSelection::cuda(context.cuda_archs, context.host.env(), Some(&context.project.file));
    let machine = OfferMachine {
        facts: context.facts,
        inventory: if wheels.is_some() { &no_compilers } else { context.inventory },
        catalogue: context.catalogue,
        driver: verdict.driver.as_ref(),
        devices: &verdict.devices,
    };
    let query = ReleaseQuery { asked: None, archs: Some(&archs), requirement: requirement(context, backend) };
    let choice = which(&machine, description, &query, context.locks)
        .map_err(|reasons| reasons.into_iter().map(Reason::from).collect::<Vec<_>>())?;
    let no_folder =
        || vec![Reason::new(id!("cache.missing"), "no cache folder is known: set GPUBUILD_CACHE or HOME")];
    let triple = wheels.as_ref().map(|wheels| wheels.triple.clone());
    let root =
        installed::root(context.host, &description.id, &choice, triple.as_deref()).ok_or_else(no_folder)?;
    let lock =
        context.locks.iter().find(|lock| lock.toolkit == description.id && lock.version == choice.version);
    let libc = libc(context.facts);
    let named = |id: &&String| lock.is_some_and(|lock| lock.component(id).is_some());
    let with: Vec<String> = components(context, backend).iter().filter(named).cloned().collect();
    let download_bytes = lock.map_or(0, |lock| {
        installed::download_bytes(lock, &with, context.facts.platform, &libc, wheels.as_ref())
    });
    let toolkit = description.id.clone();
    Ok(Provision { toolkit, backend, choice, with, target: triple, download_bytes, root })
}

/// The C library of a host, as used for wheel tags.
#[must_use]
pub fn libc(facts: &gpubuild_detect::facts::Facts) -> tag::WheelLibc {
    tag::WheelLibc::of(facts.libc.as_ref().map(|fact| &fact.value))
}
