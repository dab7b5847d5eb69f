//! Archives of toolkits: finds or downloads them, verifies them, and unpacks them.

use gpubuild_exec::python::Network;
use gpubuild_exec::store::hash_file;
use gpubuild_host::{Host, HostPath};
use gpubuild_release::fetch::Client;
use gpubuild_release::unpack::tree::{TreeRequest, unpack_tree};
use gpubuild_release::url::Url;

use crate::error::LARGEST_ARCHIVE;
use crate::{SourceError, archive};

/// An archive of a toolkit.
#[derive(Debug, Clone, Copy)]
pub struct ToolkitArchive<'a> {
    /// Its path below the vendor's URL.
    pub path: &'a str,
    /// Its sha256.
    pub sha256: &'a str,
    /// Its size in bytes; 0 if it is not known.
    pub size: u64,
    /// The URL of the vendor or of a mirror, with a final `/`.
    pub url: &'a str,
    /// Folders that may contain it, at the same path or directly.
    pub folders: &'a [HostPath],
    /// The folder for its download, which may contain the start of it.
    pub downloads: &'a HostPath,
}

impl ToolkitArchive<'_> {
    /// Unpacks the files in the top folder of the archive into a folder. Downloads it if no folder contains it.
    ///
    /// # Errors
    /// See [`SourceError`]. A partial download remains, and the next call continues it.
    pub fn unpack(&self, client: &Client<'_>, into: &HostPath) -> Result<(), SourceError> {
        let host = client.host;
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        // The hash in the name separates the downloads of different locks.
        let scratch = self.downloads.join(&format!("{}-{name}", self.sha256.get(..16).unwrap_or_default()));
        let (found, is_downloaded) = match self.in_folder(client, name)? {
            Some(path) => (path, false),
            None => (self.download(client, name, &scratch)?, true),
        };
        host.create_dir_all(into).map_err(|error| SourceError::write(into, &error))?;
        let request = TreeRequest { sha256: self.sha256, strip: 1 };
        let unpacked = unpack_tree(host, &found, request, into);
        if is_downloaded {
            host.remove(&scratch).map_err(|error| SourceError::write(&scratch, &error))?;
        }
        unpacked
            .map(drop)
            .map_err(|error| SourceError::Rejected { name: name.to_owned(), error: Box::new(error) })
    }

    fn download(&self, client: &Client<'_>, name: &str, scratch: &HostPath) -> Result<HostPath, SourceError> {
        if client.network == Network::Offline {
            return Err(SourceError::OfflineArchive { name: name.to_owned() });
        }
        let url = Url::parse(&format!("{}{}", self.url, self.path))?;
        client.host.create_dir_all(scratch).map_err(|error| SourceError::write(scratch, &error))?;
        let limit = if self.size > 0 { self.size } else { LARGEST_ARCHIVE };
        archive::download(client, &url, self.sha256, limit, scratch)
    }

    /// The archive in one of the folders.
    fn in_folder(&self, client: &Client<'_>, name: &str) -> Result<Option<HostPath>, SourceError> {
        let host = client.host;
        let mut places = self.folders.iter().flat_map(|folder| [folder.join(self.path), folder.join(name)]);
        let Some(place) = places.find(|place| host.is_file(place)) else { return Ok(None) };
        let (found, _) = hash_file(host, &place).map_err(|error| SourceError::write(&place, &error))?;
        if found != self.sha256 {
            let (place, expected) = (place.to_string(), self.sha256.to_owned());
            return Err(SourceError::Hash { place, found, expected });
        }
        Ok(Some(place))
    }
}

/// Unpacks an archive that is part of a verified wheel into a folder.
///
/// # Errors
/// See [`SourceError`].
pub fn unpack_inner(host: &dyn Host, archive: &HostPath, into: &HostPath) -> Result<(), SourceError> {
    let (sha256, _) = hash_file(host, archive).map_err(|error| SourceError::write(archive, &error))?;
    let request = TreeRequest { sha256: &sha256, strip: 0 };
    let name = archive.file_name().unwrap_or_default().to_owned();
    unpack_tree(host, archive, request, into)
        .map(drop)
        .map_err(|error| SourceError::Rejected { name, error: Box::new(error) })
}
