//! Which toolkits a build installs first: those without which a wanted backend is blocked, and nothing else is in its way.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::VersionRequirement;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Matrix, Presence, Probes, Readiness, Reason};
use gpubuild_detect::toolkit::description::is_on;
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};
use gpubuild_host::ReadFiles;

use super::installed;
use super::which::{self, OfferMachine, ReleaseQuery, which};
use crate::plan::archs::ArchSelection;
use crate::plan::provision::Provision;
use crate::plan::request::{BackendRequest, BackendSelection};
use crate::project::Project;
use crate::wheels::{WheelLock, tag};

/// What a build wants, on a machine that was looked at.
#[derive(Clone, Copy)]
pub struct OfferContext<'a> {
    /// The host: its environment tells the folder.
    pub host: &'a dyn ReadFiles,
    /// What is there.
    pub facts: &'a gpubuild_detect::facts::Facts,
    /// The descriptions.
    pub catalogue: &'a Catalogue,
    /// What is installed.
    pub inventory: &'a Inventory,
    /// The verdicts.
    pub matrix: &'a Matrix,
    /// What is built.
    pub project: &'a Project,
    /// For which backends.
    pub request: &'a BackendRequest,
    /// `--cuda-archs`.
    pub cuda_archs: Option<&'a str>,
    /// What can be installed.
    pub locks: &'a [WheelLock],
}

/// A machine as it will be, and what makes it so.
#[derive(Debug, Clone)]
pub struct Foreseen {
    /// With the toolkits that are installed first.
    pub inventory: Inventory,
    /// The verdicts with them. Where nothing suits, the reasons say so.
    pub matrix: Matrix,
    /// Those toolkits.
    pub provision: Vec<Provision>,
}

/// Foresees. Nothing is done, and without anything to install nothing changes.
#[must_use]
pub fn foresee(scene: &OfferContext<'_>) -> Foreseen {
    let mut foreseen =
        Foreseen { inventory: scene.inventory.clone(), matrix: scene.matrix.clone(), provision: Vec::new() };
    for backend in wanted(scene) {
        let Some(description) = lacking(scene, backend) else { continue };
        match choose(scene, description, backend) {
            Ok(provision) => {
                let inventory =
                    installed::with_installed(scene.host, &foreseen.inventory, description, &provision);
                let matrix = super::evaluate(scene.facts, &inventory, scene.catalogue, &Probes::new());
                // What is blocked all the same is not worth a download.
                if matrix.verdict(backend).build != Readiness::Blocked {
                    foreseen.inventory = inventory;
                    foreseen.matrix = matrix;
                    foreseen.provision.push(provision);
                }
            }
            Err(mut reasons) => {
                let verdict = foreseen.matrix.verdicts.iter_mut().find(|verdict| verdict.backend == backend);
                if let Some(verdict) = verdict {
                    // The command would be refused for the same reason.
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
    foreseen
}

/// A hint without the way that is refused.
fn without_command(hint: String, description: &Description) -> Option<String> {
    match hint.strip_prefix(&which::words(description)) {
        Some(rest) => Some(rest.trim_start_matches(", or ").to_owned()).filter(|rest| !rest.is_empty()),
        None => Some(hint),
    }
}

/// The backends that were named; of `auto` those whose hardware is here.
fn wanted(scene: &OfferContext<'_>) -> Vec<Backend> {
    match &scene.request.selection {
        BackendSelection::Named(list) => list.clone(),
        BackendSelection::Auto => scene
            .matrix
            .verdicts
            .iter()
            .filter(|verdict| verdict.hardware == Presence::Present)
            .map(|verdict| verdict.backend)
            .filter(|backend| !scene.request.without.iter().any(|(without, _)| without == backend))
            .collect(),
    }
}

/// The description of a backend's toolkit, if it can be had as wheels, no usable copy is here, and the project has a use
/// for it.
fn lacking<'a>(scene: &OfferContext<'a>, backend: Backend) -> Option<&'a Description> {
    let description = scene.catalogue.for_backend(backend)?;
    let project = scene.project;
    let has_use = !project.without_kernels.contains(&backend)
        && (project.profile.backends.contains_key(&backend) || project.file.backends.contains_key(&backend));
    if !has_use
        || !which::is_offered(&description.id)
        || !is_on(&description.build.on, scene.facts.platform.os)
    {
        return None;
    }
    let requirement: Option<VersionRequirement> =
        requirement(scene, backend).and_then(|text| text.parse().ok());
    let meets = |copy: &&gpubuild_detect::toolkit::Installation| {
        copy.is_complete()
            && requirement
                .as_ref()
                .is_none_or(|requirement| copy.version().is_some_and(|version| requirement.holds(version)))
    };
    scene.inventory.of(&description.id).iter().find(meets).is_none().then_some(description)
}

fn requirement<'a>(scene: &OfferContext<'a>, backend: Backend) -> Option<&'a str> {
    scene.project.file.backends.get(&backend)?.toolkit.as_deref()
}

fn choose(
    scene: &OfferContext<'_>,
    description: &Description,
    backend: Backend,
) -> Result<Provision, Vec<Reason>> {
    let verdict = scene.matrix.verdict(backend);
    let table = scene.project.file.backends.get(&backend);
    let archs =
        ArchSelection::cuda(scene.cuda_archs, scene.host.env(), table.and_then(|table| table.archs.as_ref()));
    let machine = OfferMachine {
        facts: scene.facts,
        inventory: scene.inventory,
        catalogue: scene.catalogue,
        driver: verdict.driver.as_ref(),
        devices: &verdict.devices,
    };
    let wish = ReleaseQuery { asked: None, archs: Some(&archs), requirement: requirement(scene, backend) };
    let choice = which(&machine, description, &wish, scene.locks)
        .map_err(|reasons| reasons.into_iter().map(Reason::from).collect::<Vec<_>>())?;
    let no_folder =
        || vec![Reason::new(id!("cache.missing"), "there is no cache folder: set GPUBUILD_CACHE or HOME")];
    let root = installed::root(scene.host, &description.id, &choice).ok_or_else(no_folder)?;
    let lock =
        scene.locks.iter().find(|lock| lock.toolkit == description.id && lock.version == choice.version);
    let libc = libc(scene.facts);
    let download_bytes = lock.map_or(0, |lock| installed::download_bytes(lock, scene.facts.platform, &libc));
    Ok(Provision { toolkit: description.id.clone(), backend, choice, download_bytes, root })
}

/// The C library in the words of wheels.
#[must_use]
pub fn libc(facts: &gpubuild_detect::facts::Facts) -> tag::WheelLibc {
    match facts.libc.as_ref().map(|fact| &fact.value) {
        Some(libc) if libc.family == "glibc" => tag::WheelLibc::Glibc(libc.version.clone()),
        Some(libc) if libc.family == "musl" => tag::WheelLibc::Musl,
        _ => tag::WheelLibc::Other,
    }
}
