//! Archives: finds or downloads them, verifies them, and unpacks them.

use gpubuild_exec::python::Network;
use gpubuild_exec::store::hash_file;
use gpubuild_host::HostPath;
use gpubuild_plan::project::source::SourceOrigin;
use gpubuild_plan::project::source::lock::LockedSource;
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::{Client, FetchTarget, FileDownload};
use gpubuild_release::unpack::tree::{TreeRequest, unpack_tree};
use gpubuild_release::url::Url;

use crate::error::LARGEST_ARCHIVE;
use crate::{SourceError, SourceRequest, cargo_config, python_index, registry};

/// Name of the partial archive in a temporary folder.
pub(crate) const PARTIAL: &str = "archive";

/// The verified archive: from cargo's cache, else downloaded into `scratch`. `None` if it would have to be downloaded offline.
pub(crate) fn find(
    request: &SourceRequest<'_>,
    locked: &LockedSource,
    scratch: &HostPath,
) -> Result<Option<HostPath>, SourceError> {
    let host = request.host;
    if let (SourceOrigin::Crate { name, .. }, Some(version)) = (&locked.origin, &locked.version) {
        let cached = cargo_config::cached_archives(host, name, version);
        let expected = locked.sha256.as_deref();
        let is_pinned =
            |path: &HostPath| hash_file(host, path).is_ok_and(|(hash, _)| Some(&*hash) == expected);
        if let Some(found) = cached.into_iter().find(is_pinned) {
            (request.progress)(&format!("using {name} {version} from cargo's cache"));
            return Ok(Some(found));
        }
    }
    if request.client.network == Network::Offline {
        return Ok(None);
    }
    let url = address(request, locked)?;
    (request.progress)(&format!("downloading {}", locked.name()));
    download(request.client, &url, locked.sha256.as_deref().unwrap_or_default(), LARGEST_ARCHIVE, scratch)
        .map(Some)
}

/// Downloads and verifies an archive of at most `limit` bytes. Continues a download that was interrupted.
pub(crate) fn download(
    client: &Client<'_>,
    url: &Url,
    expected: &str,
    limit: u64,
    scratch: &HostPath,
) -> Result<HostPath, SourceError> {
    let host = client.host;
    let (path, state) = (scratch.join(PARTIAL), scratch.join("archive.begun"));
    let target = FetchTarget { url, scope: CredentialScope::Server };
    let mut was_restarted = false;
    loop {
        let outcome = client.file(target, &path, &state, limit);
        let outcome = outcome.map_err(|error| SourceError::download(&path, error))?;
        match outcome {
            FileDownload::Complete | FileDownload::InParts => {}
            FileDownload::Missing => return Err(SourceError::Missing { url: url.shown() }),
            FileDownload::TooLarge => return Err(SourceError::TooLarge { url: url.shown(), limit }),
        }
        let (found, _) = hash_file(host, &path).map_err(|error| SourceError::write(&path, &error))?;
        if found == expected {
            return Ok(path);
        }
        // The content on the server may have changed between the parts, so the complete file is downloaded once more.
        if outcome == FileDownload::Complete || std::mem::replace(&mut was_restarted, true) {
            return Err(SourceError::Hash { place: url.shown(), found, expected: expected.to_owned() });
        }
        for file in [&path, &state] {
            host.remove(file).map_err(|error| SourceError::write(file, &error))?;
        }
    }
}

/// The URL of the archive.
fn address(request: &SourceRequest<'_>, locked: &LockedSource) -> Result<Url, SourceError> {
    match &locked.origin {
        SourceOrigin::Url { url, .. } => Ok(Url::parse(url)?),
        SourceOrigin::Crate { .. } => registry::archive_url(request, locked),
        SourceOrigin::Pypi { .. } => python_index::archive_url(request, locked),
        SourceOrigin::Git { url, .. } => {
            Err(SourceError::Index { url: url.clone(), why: "a repository is not an archive".to_owned() })
        }
    }
}

/// Unpacks a verified archive into `tree`. Crates and source distributions have one folder at their top, which is removed.
pub(crate) fn unpack(
    request: &SourceRequest<'_>,
    locked: &LockedSource,
    archive: &HostPath,
    tree: &HostPath,
) -> Result<(), SourceError> {
    let strip = if let SourceOrigin::Url { strip, .. } = &locked.origin { *strip } else { 1 };
    let sha256 = locked.sha256.as_deref().unwrap_or_default();
    let host = request.host;
    host.create_dir_all(tree).map_err(|error| SourceError::write(tree, &error))?;
    unpack_tree(host, archive, TreeRequest { sha256, strip }, tree)
        .map(drop)
        .map_err(|error| SourceError::Rejected { name: locked.name(), error: Box::new(error) })
}
