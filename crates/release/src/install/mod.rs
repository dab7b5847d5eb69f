//! Installs a variant of a release into a folder, and switches to it after it has passed its smoke test.
//!
//! ```text
//! TO/gpubuild-install.json                   marks the folder as an installation; written before anything else
//! TO/versions/VERSION-SERIAL-LABEL-HASH/…    complete or absent: unpacked under a temporary name, then renamed
//! TO/current                                 a link to one of them, replaced by one rename (on Windows a file with its path)
//! TO/state.json                              the installed version and the previous one
//! ```

mod error;
mod ownership;
mod start;
pub mod state;
pub mod versions;

pub use error::InstallError;
pub use state::{InstalledRelease, InstalledVersion, Proof, VersionPair};

use std::time::Duration;

use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_detect::id;
use gpubuild_exec::store::sha256;
use gpubuild_host::{FileLock, Host, HostPath, ReadFiles, Wait, WriteFiles};

use self::ownership::{FolderState, LOCK};
use super::manifest::{AttachedFile, Layer, ProgramStart, ReleaseManifest, ReleaseVariant};
use super::provenance::{self, BuildOrigin, ProvenanceError};
use super::resolve::{Rejected, ResolveRequest, VariantChoice, resolve};
use super::source::{SourceError, VerifiedLayer};
use super::unpack::names::Names;
use super::unpack::unpack;

/// Free space that is required in addition to the size of the files, in bytes.
const SLACK: u64 = 16 << 20;

/// Provides a verified layer, from the cache, a folder or the network.
pub type LayerProvider<'a> = &'a dyn Fn(&Layer) -> Result<VerifiedLayer, SourceError>;

/// Reads a document about a variant; `None` if it has more than the given number of bytes.
pub type DocumentProvider<'a> = &'a dyn Fn(&AttachedFile, usize) -> Result<Option<Vec<u8>>, SourceError>;

/// Whether a variant must say how it was built.
#[derive(Clone, Copy)]
pub enum ProvenancePolicy<'a> {
    /// No.
    Ignore,
    /// Yes.
    Require {
        /// Provides the statement.
        documents: DocumentProvider<'a>,
        /// The repository that it must name.
        source: Option<&'a str>,
    },
}

/// The inputs of an installation.
pub struct InstallRequest<'a> {
    /// The host to install on.
    pub host: &'a dyn Host,
    /// The folder to install into.
    pub to: &'a HostPath,
    /// Selects the variant.
    pub resolve: ResolveRequest<'a>,
    /// The newest serial of the release that is known. It is remembered even if an older one is installed.
    pub newest: u64,
    /// Whether a better backend whose hardware is present may be left unused.
    pub fallback: FallbackPolicy,
    /// Whether the variant is smoke-tested before it is used.
    pub smoke_test: SmokeTest,
    /// Provides the layers.
    pub layers: LayerProvider<'a>,
    /// Whether the variant must say how it was built.
    pub provenance: ProvenancePolicy<'a>,
    /// Receives progress events.
    pub sink: &'a dyn Fn(&InstallEvent<'_>),
}

/// Whether a better backend whose hardware is present may be left unused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FallbackPolicy {
    /// It may, with a warning.
    Warn,
    /// It is an error.
    Deny,
}

/// Whether a variant is smoke-tested before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmokeTest {
    /// Run the smoke test with this time limit. A driver that compiles PTX for a new GPU needs a long time.
    Within(Duration),
    /// Do not run the smoke test.
    Skip,
}

/// A progress event.
#[derive(Debug, Clone, Copy)]
pub enum InstallEvent<'a> {
    /// Waits for another process that is installing into the folder.
    Waiting,
    /// A variant was selected, with its download size in bytes.
    Chosen(&'a VariantChoice, u64),
    /// A layer is read or downloaded.
    Layer(&'a Layer),
    /// A layer is unpacked.
    Unpacking(&'a Layer),
    /// The smoke test of this program starts.
    Starting(&'a str),
    /// The smoke test failed, and the next variant is tried.
    Failed(&'a InstallError),
}

/// The result of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallResult {
    /// The selected variant.
    pub choice: VariantChoice,
    /// Variants whose smoke test failed before this one was selected.
    pub tried: Vec<Rejected>,
    /// The version that is current now.
    pub version: InstalledVersion,
    /// The version that was current before.
    pub previous: Option<InstalledVersion>,
    /// Whether the version was already current before.
    pub was_there: bool,
    /// Downloaded bytes.
    pub fetched: u64,
    /// Bytes of layers that were already in the cache or in a local folder.
    pub reused: u64,
    /// How the variant was built, if that is required.
    pub origin: Option<BuildOrigin>,
}

/// Installs the best variant for this machine that passes its smoke test.
///
/// # Errors
/// The folder is not suitable, or no variant fits, can be downloaded or works. The installed version is unchanged.
pub fn install(request: &InstallRequest<'_>) -> Result<InstallResult, InstallError> {
    let (host, to) = (request.host, request.to);
    let manifest = request.resolve.manifest;
    check_folder(host, to, &manifest.name)?;
    // If no variant fits, no folder is created.
    choose(request, &[])?;
    ownership::claim(host, to)?;
    let _lock = lock(host, to, request.sink)?;
    // Another installation may have changed the folder since.
    check_folder(host, to, &manifest.name)?;
    ownership::complete(host, to)?;
    let installed = InstalledRelease::read(host, to).map(|installed| installed.pair);
    versions::tidy(host, to, installed.as_ref())?;
    let before = installed.unwrap_or_default();
    let mut tried: Vec<Rejected> = Vec::new();
    loop {
        let choice = choose(request, &tried)?;
        let Some(variant) = variant(manifest, &request.resolve.machine.platform, &choice.label) else {
            return Err(InstallError::NoVariant(super::resolve::NoVariant {
                id: id!("resolve.nothing"),
                text: format!("no variant has the label `{}`", choice.label),
                rejected: Vec::new(),
            }));
        };
        match install_variant(request, &choice, variant, &before) {
            Ok(placed) => return switch(request, choice, tried, variant, placed, before),
            Err(error @ InstallError::Start { .. }) => {
                let named = request.resolve.variant.is_some();
                if named || request.fallback == FallbackPolicy::Deny {
                    return Err(error);
                }
                (request.sink)(&InstallEvent::Failed(&error));
                let reason = format!("{error} [{}]", error.id());
                tried.push(Rejected { label: choice.label, reason });
            }
            Err(error) => return Err(error),
        }
    }
}

fn choose(request: &InstallRequest<'_>, tried: &[Rejected]) -> Result<VariantChoice, InstallError> {
    let choice =
        resolve(&ResolveRequest { excluded: tried, ..request.resolve }).map_err(InstallError::NoVariant)?;
    if request.fallback == FallbackPolicy::Deny && !choice.fallback.is_empty() {
        return Err(InstallError::Fallback(Box::new(choice)));
    }
    Ok(choice)
}

fn variant<'a>(manifest: &'a ReleaseManifest, platform: &str, label: &str) -> Option<&'a ReleaseVariant> {
    manifest.platforms.get(platform)?.variants.iter().find(|variant| variant.label == label)
}

/// Checks that a folder is empty, does not exist, or contains this release.
fn check_folder(host: &dyn ReadFiles, to: &HostPath, name: &str) -> Result<(), InstallError> {
    match ownership::check(host, to)? {
        FolderState::Installation(Some(found)) if found != name => {
            let wanted = name.to_owned();
            Err(InstallError::OtherName { folder: to.clone(), found, wanted })
        }
        FolderState::Empty | FolderState::Installation(_) => Ok(()),
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

/// A variant that was unpacked and has passed its smoke test.
struct PlacedVersion {
    folder: String,
    proof: Proof,
    fetched: u64,
    reused: u64,
    origin: Option<BuildOrigin>,
}

/// The name of a variant's folder. It contains a hash, so that different content gets a different folder.
fn folder_name(manifest: &ReleaseManifest, variant: &ReleaseVariant) -> Result<String, InstallError> {
    let content = serde_json::to_vec(variant).map_err(std::io::Error::other)?;
    let hash = sha256(&content);
    Ok(format!("{}-{}-{}-{}", manifest.version, manifest.serial, variant.label, &hash[..8]))
}

/// Unpacks a variant, unless it exists, and smoke-tests it.
fn install_variant(
    request: &InstallRequest<'_>,
    choice: &VariantChoice,
    variant: &ReleaseVariant,
    before: &VersionPair,
) -> Result<PlacedVersion, InstallError> {
    let host = request.host;
    (request.sink)(&InstallEvent::Chosen(choice, variant.size()));
    let origin = origin(request, variant)?;
    let name = folder_name(request.resolve.manifest, variant)?;
    let folder = versions::folder(request.to, &name);
    let mut placed = PlacedVersion { folder: name, proof: Proof::NotStarted, fetched: 0, reused: 0, origin };
    if !host.is_dir(&folder) {
        unpack_layers(request, variant, &folder, &mut placed)?;
    }
    let (Some(start), SmokeTest::Within(deadline)) = (&variant.start, request.smoke_test) else {
        return Ok(placed);
    };
    (request.sink)(&InstallEvent::Starting(&start.program));
    match start::smoke_test(host, &folder, &variant.label, choice.backend, start, deadline) {
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

/// How the variant was built, if that is required.
fn origin(
    request: &InstallRequest<'_>,
    variant: &ReleaseVariant,
) -> Result<Option<BuildOrigin>, InstallError> {
    let ProvenancePolicy::Require { documents, source } = request.provenance else { return Ok(None) };
    let label = || variant.label.clone();
    let Some(file) = &variant.provenance else {
        return Err(ProvenanceError::Missing { label: label() }.into());
    };
    let Some(bytes) = documents(file, provenance::MAX_BYTES)? else {
        let what = format!("it has {} bytes, but the limit is {}", file.size, provenance::MAX_BYTES);
        return Err(ProvenanceError::Invalid { label: label(), what }.into());
    };
    Ok(Some(provenance::check(&bytes, variant, source)?))
}

/// Downloads all layers, unpacks them into a temporary folder, and renames it.
fn unpack_layers(
    request: &InstallRequest<'_>,
    variant: &ReleaseVariant,
    folder: &HostPath,
    placed: &mut PlacedVersion,
) -> Result<(), InstallError> {
    let host = request.host;
    check_space(host, request.to, variant)?;
    let mut layers = Vec::new();
    for layer in &variant.layers {
        (request.sink)(&InstallEvent::Layer(layer));
        let verified = (request.layers)(layer)?;
        placed.fetched += verified.fetched;
        placed.reused += layer.size.saturating_sub(verified.fetched);
        layers.push((layer, verified.path));
    }
    let temporary = host.temporary_dir(&request.to.join(versions::VERSIONS))?;
    let fill = || {
        let mut names = Names::default();
        for (layer, path) in &layers {
            (request.sink)(&InstallEvent::Unpacking(layer));
            unpack(host, path, layer, &temporary, &mut names).map_err(|rejected| InstallError::Rejected {
                label: variant.label.clone(),
                layer: super::source::short(&layer.sha256).to_owned(),
                rejected,
            })?;
        }
        match &variant.start {
            Some(ProgramStart { program, .. }) if !names.has_file(program) => {
                Err(InstallError::NoProgram { label: variant.label.clone(), program: program.clone() })
            }
            _ => {
                host.flush_all(&temporary)?;
                Ok(host.rename(&temporary, folder)?)
            }
        }
    };
    fill().inspect_err(|_| {
        // If this fails, the next installation removes the folder.
        let _ = host.remove(&temporary);
    })
}

/// Checks the free space and inodes. If it is unknown, the installation continues.
fn check_space(host: &dyn WriteFiles, to: &HostPath, variant: &ReleaseVariant) -> Result<(), InstallError> {
    let bytes = variant.layers.iter().fold(0_u64, |sum, layer| sum.saturating_add(layer.unpacked));
    let needed = bytes.saturating_add(SLACK);
    if host.free_files(to) == Some(0) {
        return Err(InstallError::NoFiles(to.clone()));
    }
    match host.free_space(to) {
        Some(free) if free < needed => Err(InstallError::NoSpace { folder: to.clone(), needed, free }),
        _ => Ok(()),
    }
}

fn switch(
    request: &InstallRequest<'_>,
    choice: VariantChoice,
    tried: Vec<Rejected>,
    variant: &ReleaseVariant,
    placed: PlacedVersion,
    before: VersionPair,
) -> Result<InstallResult, InstallError> {
    let (host, to, manifest) = (request.host, request.to, request.resolve.manifest);
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
    let now = VersionPair { current: Some(version.clone()), previous: previous.clone() };
    state::switch(host, to, (&manifest.name, request.newest), &now)?;
    versions::tidy(host, to, Some(&now))?;
    let (fetched, reused, origin) = (placed.fetched, placed.reused, placed.origin);
    Ok(InstallResult { choice, tried, version, previous, was_there, fetched, reused, origin })
}

/// Makes the previous version current; the current one becomes the previous one.
///
/// # Errors
/// The folder is not an installation, has no previous version, or that version fails its smoke test. The current version is unchanged.
pub fn rollback(
    host: &dyn Host,
    to: &HostPath,
    smoke_test: SmokeTest,
    sink: &dyn Fn(&InstallEvent<'_>),
) -> Result<InstalledRelease, InstallError> {
    let is_installed = || match ownership::check(host, to)? {
        FolderState::Installation(Some(_)) => Ok(()),
        FolderState::Empty | FolderState::Installation(None) => Err(InstallError::NotInstalled(to.clone())),
    };
    is_installed()?;
    let _lock = lock(host, to, sink)?;
    is_installed()?;
    let installed = InstalledRelease::read(host, to).ok_or_else(|| InstallError::NotInstalled(to.clone()))?;
    let Some(mut previous) = installed.pair.previous else {
        return Err(InstallError::NoPrevious(to.clone()));
    };
    if let (Some(program), SmokeTest::Within(deadline)) = (previous.program.clone(), smoke_test) {
        sink(&InstallEvent::Starting(&program));
        let start = ProgramStart { program, check: previous.check.clone() };
        let folder = versions::folder(to, &previous.folder);
        previous.proof =
            start::smoke_test(host, &folder, &previous.label, previous.backend, &start, deadline)?;
    }
    let pair = VersionPair { current: Some(previous), previous: installed.pair.current };
    state::switch(host, to, (&installed.name, 0), &pair)?;
    Ok(InstalledRelease { name: installed.name, pair })
}
