//! Installs a variant of a release into a folder, and switches to it after it has passed its check.
//!
//! ```text
//! TO/gpubuild-install.json                   marks the folder as an installation; written before anything else
//! TO/versions/VERSION-SERIAL-LABEL-HASH/…    complete or absent: unpacked under a temporary name, then renamed
//! TO/current                                 a link to one of them, replaced by one rename (on Windows a file with its name)
//! TO/state.json                              the installed version and the previous one
//! ```

mod error;
mod ownership;
mod start;
pub mod state;

pub use error::InstallError;
pub use state::{InstalledRelease, InstalledVersion, LinkPair, Proof};

use std::time::Duration;

use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::id;
use gpubuild_exec::store::sha256;
use gpubuild_host::{FileLock, Host, HostPath, ReadFiles, Wait, WriteFiles};

use self::ownership::{FolderOwner, LOCK};
use super::manifest::{Layer, ProgramStart, ReleaseManifest, ReleaseVariant};
use super::resolve::{Rejected, ResolveQuestion, VariantChoice, resolve};
use super::source::{SourceError, TakenSource};
use super::unpack::names::Names;
use super::unpack::unpack;

/// Room that is left on a disk beside the files.
const SLACK: u64 = 16 << 20;

/// Takes a layer from somewhere.
pub type TakeLayer<'a> = &'a dyn Fn(&Layer) -> Result<TakenSource, SourceError>;

/// What is to be installed.
pub struct InstallOrder<'a> {
    /// Where.
    pub host: &'a dyn Host,
    /// Into which folder.
    pub to: &'a HostPath,
    /// The question whose answer is installed.
    pub question: ResolveQuestion<'a>,
    /// Whether a better backend that is here may be left unused.
    pub fallback: MayFall,
    /// Whether it is started before it is used.
    pub start: Starting,
    /// Hands over layers.
    pub take: TakeLayer<'a>,
    /// Receives progress events.
    pub sink: &'a dyn Fn(&InstallEvent<'_>),
}

/// Whether a better backend may be left unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayFall {
    /// Yes, with a warning.
    Loudly,
    /// No.
    Never,
}

/// Whether it is started before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starting {
    /// Yes, and it has to end within this time: a driver that translates code for a new card takes long.
    Within(Duration),
    /// No.
    Unproved,
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub enum InstallEvent<'a> {
    /// Another process is installing into the folder.
    Waiting,
    /// A variant was chosen, with so many bytes.
    Chosen(&'a VariantChoice, u64),
    /// A layer is taken.
    Layer(&'a Layer),
    /// It is unpacked.
    Unpacking(&'a Layer),
    /// It is started.
    Starting(&'a str),
    /// It does not work, and the next one is tried.
    Failed(&'a InstallError),
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallResult {
    /// The choice.
    pub choice: VariantChoice,
    /// Variants that were tried before and did not work.
    pub tried: Vec<Rejected>,
    /// What is current now.
    pub version: InstalledVersion,
    /// What was before it.
    pub previous: Option<InstalledVersion>,
    /// Whether it was current before.
    pub was_there: bool,
    /// Bytes that were fetched.
    pub fetched: u64,
    /// Bytes of layers that were there.
    pub reused: u64,
}

/// Installs the best variant for this machine that works.
///
/// # Errors
/// The folder may not be installed into, or no variant suits, can be fetched or works. The installed version stays as it is.
pub fn install(order: &InstallOrder<'_>) -> Result<InstallResult, InstallError> {
    let (host, to) = (order.host, order.to);
    let manifest = order.question.manifest;
    check_folder(host, to, &manifest.name)?;
    // A question that has no answer creates no folder.
    choose(order, &[])?;
    ownership::claim(host, to)?;
    let _lock = lock(host, to, order.sink)?;
    // Another installation may have changed the folder since.
    check_folder(host, to, &manifest.name)?;
    ownership::complete(host, to)?;
    let before = InstalledRelease::read(host, to).map(|installed| installed.pair).unwrap_or_default();
    state::tidy(host, to, &before)?;
    let mut tried: Vec<Rejected> = Vec::new();
    loop {
        let choice = choose(order, &tried)?;
        let Some(variant) = variant(manifest, &order.question.machine.platform, &choice.label) else {
            return Err(InstallError::Nothing(super::resolve::Nothing {
                id: id!("resolve.nothing"),
                text: format!("no variant is called `{}`", choice.label),
                rejected: Vec::new(),
            }));
        };
        match place(order, &choice, variant, &before) {
            Ok(placed) => return switch(order, choice, tried, variant, placed, before),
            Err(error @ InstallError::Start { .. }) => {
                let named = order.question.variant.is_some();
                if named || order.fallback == MayFall::Never {
                    return Err(error);
                }
                (order.sink)(&InstallEvent::Failed(&error));
                let reason = format!("{error} [{}]", error.id());
                tried.push(Rejected { label: choice.label, reason });
            }
            Err(error) => return Err(error),
        }
    }
}

fn choose(order: &InstallOrder<'_>, tried: &[Rejected]) -> Result<VariantChoice, InstallError> {
    let choice =
        resolve(&ResolveQuestion { without: tried, ..order.question }).map_err(InstallError::Nothing)?;
    if order.fallback == MayFall::Never && !choice.fallback.is_empty() {
        return Err(InstallError::Fallback(Box::new(choice)));
    }
    Ok(choice)
}

fn variant<'a>(manifest: &'a ReleaseManifest, platform: &str, label: &str) -> Option<&'a ReleaseVariant> {
    manifest.platforms.get(platform)?.variants.iter().find(|variant| variant.label == label)
}

/// Checks that a folder is empty, absent, or has this release.
fn check_folder(host: &dyn ReadFiles, to: &HostPath, name: &str) -> Result<(), InstallError> {
    match ownership::check(host, to)? {
        FolderOwner::Ours(Some(found)) if found != name => {
            let wanted = name.to_owned();
            Err(InstallError::OtherName { folder: to.clone(), found, wanted })
        }
        FolderOwner::Fresh | FolderOwner::Ours(_) => Ok(()),
    }
}

fn lock(
    host: &dyn WriteFiles,
    to: &HostPath,
    sink: &dyn Fn(&InstallEvent<'_>),
) -> Result<Option<FileLock>, InstallError> {
    let path = to.join(LOCK);
    if let Some(lock) = host.lock(&path, Wait::No)? {
        return Ok(Some(lock));
    }
    sink(&InstallEvent::Waiting);
    Ok(host.lock(&path, Wait::Yes)?)
}

/// A variant that was unpacked and whose program started.
struct PlacedVersion {
    folder: String,
    proof: Proof,
    fetched: u64,
    reused: u64,
}

/// The name of a variant's folder: another content has another name.
fn folder_name(manifest: &ReleaseManifest, variant: &ReleaseVariant) -> Result<String, InstallError> {
    let content = serde_json::to_vec(variant).map_err(std::io::Error::other)?;
    let hash = sha256(&content);
    Ok(format!("{}-{}-{}-{}", manifest.version, manifest.serial, variant.label, &hash[..8]))
}

fn place(
    order: &InstallOrder<'_>,
    choice: &VariantChoice,
    variant: &ReleaseVariant,
    before: &LinkPair,
) -> Result<PlacedVersion, InstallError> {
    let host = order.host;
    (order.sink)(&InstallEvent::Chosen(choice, variant.size()));
    let name = folder_name(order.question.manifest, variant)?;
    let folder = state::folder(order.to, &name);
    let mut placed = PlacedVersion { folder: name, proof: Proof::NotStarted, fetched: 0, reused: 0 };
    if !host.is_dir(&folder) {
        unpacked(order, variant, &folder, &mut placed)?;
    }
    let (Some(start), Starting::Within(deadline)) = (&variant.start, order.start) else { return Ok(placed) };
    (order.sink)(&InstallEvent::Starting(&start.program));
    match start::prove(host, &folder, &variant.label, choice.backend, start, deadline) {
        Ok(proof) => Ok(PlacedVersion { proof, ..placed }),
        Err(error) => {
            let is_used = |version: &InstalledVersion| version.folder == placed.folder;
            if ![&before.current, &before.previous].into_iter().flatten().any(is_used) {
                host.remove(&folder)?;
            }
            Err(error)
        }
    }
}

/// Fetches all layers, then unpacks them under another name, then gives them theirs.
fn unpacked(
    order: &InstallOrder<'_>,
    variant: &ReleaseVariant,
    folder: &HostPath,
    placed: &mut PlacedVersion,
) -> Result<(), InstallError> {
    let host = order.host;
    has_room(host, order.to, variant)?;
    let mut taken = Vec::new();
    for layer in &variant.layers {
        (order.sink)(&InstallEvent::Layer(layer));
        let one = (order.take)(layer)?;
        placed.fetched += one.fetched;
        placed.reused += layer.size.saturating_sub(one.fetched);
        taken.push((layer, one.path));
    }
    let half = host.temporary_dir(&order.to.join(state::VERSIONS))?;
    let fill = || {
        let mut names = Names::default();
        for (layer, path) in &taken {
            (order.sink)(&InstallEvent::Unpacking(layer));
            unpack(host, path, layer, &half, &mut names).map_err(|refused| InstallError::Refused {
                label: variant.label.clone(),
                layer: super::source::short(&layer.sha256).to_owned(),
                refused,
            })?;
        }
        match &variant.start {
            Some(ProgramStart { program, .. }) if !names.has_file(program) => {
                Err(InstallError::NoProgram { label: variant.label.clone(), program: program.clone() })
            }
            _ => Ok(host.rename(&half, folder)?),
        }
    };
    fill().inspect_err(|_| {
        // The next call removes what can't be removed now.
        let _ = host.remove(&half);
    })
}

/// Unknown free space does not stop the installation.
fn has_room(host: &dyn WriteFiles, to: &HostPath, variant: &ReleaseVariant) -> Result<(), InstallError> {
    let bytes = variant.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.unpacked));
    let needed = bytes.saturating_add(SLACK);
    match host.free_space(to) {
        Some(free) if free < needed => Err(InstallError::NoSpace { folder: to.clone(), needed, free }),
        _ => Ok(()),
    }
}

fn switch(
    order: &InstallOrder<'_>,
    choice: VariantChoice,
    tried: Vec<Rejected>,
    variant: &ReleaseVariant,
    placed: PlacedVersion,
    before: LinkPair,
) -> Result<InstallResult, InstallError> {
    let (host, to, manifest) = (order.host, order.to, order.question.manifest);
    let version = InstalledVersion {
        folder: placed.folder,
        version: manifest.version.clone(),
        serial: manifest.serial,
        label: variant.label.clone(),
        backend: choice.backend,
        program: variant.start.as_ref().map(|start| start.program.clone()),
        check: variant.start.as_ref().map(|start| start.check.clone()).unwrap_or_default(),
        proof: placed.proof,
    };
    let was_there = before.current.as_ref().is_some_and(|current| current.folder == version.folder);
    let previous = if was_there { before.previous } else { before.current };
    let now = LinkPair { current: Some(version.clone()), previous: previous.clone() };
    state::switch(host, to, &manifest.name, &now)?;
    state::tidy(host, to, &now)?;
    let (fetched, reused) = (placed.fetched, placed.reused);
    Ok(InstallResult { choice, tried, version, previous, was_there, fetched, reused })
}

/// Returns to the previous version; the current one becomes the previous one.
///
/// # Errors
/// The folder is not an installation, has no previous version, or that version fails its check; then the current one stays.
pub fn rollback(
    host: &dyn Host,
    to: &HostPath,
    starting: Starting,
    sink: &dyn Fn(&InstallEvent<'_>),
) -> Result<InstalledRelease, InstallError> {
    let is_installed = || match ownership::check(host, to)? {
        FolderOwner::Ours(Some(_)) => Ok(()),
        FolderOwner::Fresh | FolderOwner::Ours(None) => Err(InstallError::NotInstalled(to.clone())),
    };
    is_installed()?;
    let _lock = lock(host, to, sink)?;
    is_installed()?;
    let installed = InstalledRelease::read(host, to).ok_or_else(|| InstallError::NotInstalled(to.clone()))?;
    let Some(mut previous) = installed.pair.previous else {
        return Err(InstallError::NoPrevious(to.clone()));
    };
    if let (Some(program), Starting::Within(deadline)) = (previous.program.clone(), starting) {
        sink(&InstallEvent::Starting(&program));
        let start = ProgramStart { program, check: previous.check.clone() };
        let folder = state::folder(to, &previous.folder);
        previous.proof = start::prove(host, &folder, &previous.label, previous.backend, &start, deadline)?;
    }
    let pair = LinkPair { current: Some(previous), previous: installed.pair.current };
    state::switch(host, to, &installed.name, &pair)?;
    Ok(InstalledRelease { name: installed.name, pair })
}
