//! The location of a release: a folder, a URL, or an image in a registry. Data from there is not trusted yet.

use std::io;

use gpubuild_exec::python::Network;
use gpubuild_exec::store::{read_json, sha256, write_json};
use gpubuild_host::folders::cache_folder;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

pub use super::source_error::SourceError;

pub(super) use super::source_error::{TakenSource, short};

use super::auth::Door;
use super::download;
use super::fetch::{Client, FetchError, FetchTarget};
use super::layers::{self, LayerSource};
use super::manifest::{self, Layer};
use super::oci::{self, Reference};
use super::trust;
use super::url::Url;

/// Name of the manifest in a folder.
pub const FILE: &str = "manifest.json";
/// The folder of the layers in a release.
const BLOBS: &str = "blobs/sha256";
/// The folder in gpubuild's cache with trusted manifests, for use without a network.
const KEPT: &str = "releases/fetched";

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseSource {
    /// A folder, or its manifest.
    Folder {
        /// The manifest.
        manifest: HostPath,
        /// The folder that the layers are in.
        folder: HostPath,
    },
    /// The address of its manifest.
    Address(Url),
    /// An image.
    Image(Reference),
}

/// A manifest as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// Its bytes.
    #[serde(with = "text")]
    pub bytes: Vec<u8>,
    /// Those of its signature.
    #[serde(with = "maybe_text", default)]
    pub signature: Option<Vec<u8>>,
}

/// A trusted manifest is text; nothing else is cached.
mod text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(std::str::from_utf8(bytes).map_err(serde::ser::Error::custom)?)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(from).map(String::into_bytes)
    }
}

mod maybe_text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "the form that serde wants")]
    pub(super) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        match bytes {
            Some(bytes) => super::text::serialize(bytes, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.map(String::into_bytes))
    }
}

impl ReleaseSource {
    /// What `--manifest` means, if it is an address.
    ///
    /// # Errors
    /// It is one that can't be fetched.
    pub fn address(client: &Client<'_>, text: &str) -> Result<Option<Self>, SourceError> {
        if let Some(image) = text.strip_prefix("oci://") {
            return Ok(Some(Self::Image(Reference::parse(image, client.plain)?)));
        }
        if !text.contains("://") {
            return Ok(None);
        }
        let url = Url::parse(text)?;
        let is_file = url.path().rsplit('/').next().is_some_and(|name| name.contains(".json"));
        Ok(Some(Self::Address(if is_file { url } else { url.below(FILE) })))
    }

    /// The release at a path.
    #[must_use]
    pub fn at(host: &dyn ReadFiles, path: HostPath) -> Self {
        if host.is_dir(&path) {
            return Self::Folder { manifest: path.join(FILE), folder: path };
        }
        let folder = path.parent().unwrap_or_else(|| path.clone());
        Self::Folder { manifest: path, folder }
    }

    /// As it is shown.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Folder { manifest, .. } => manifest.to_string(),
            Self::Address(url) => url.shown(),
            Self::Image(image) => image.shown(),
        }
    }

    /// Whether a third party could modify the data in transit.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Folder { .. })
    }

    /// The manifest and its signature, if it has one.
    ///
    /// # Errors
    /// The manifest cannot be fetched.
    pub fn manifest(&self, client: &Client<'_>) -> Result<Fetched, SourceError> {
        let host = client.host;
        if let Self::Folder { manifest, .. } = self {
            let bytes = host
                .read_start(manifest, manifest::MOST_BYTES + 1)
                .map_err(|error| SourceError::Manifest { at: self.name(), error })?;
            let beside = host.path(&format!("{manifest}{}", trust::SUFFIX));
            return Ok(Fetched { bytes, signature: host.read_start(&beside, trust::MOST_BYTES + 1).ok() });
        }
        if client.network == Network::Offline {
            let kept = self.kept(host).and_then(|place| read_json(host, &place));
            return kept.ok_or_else(|| FetchError::Offline(self.name()).into());
        }
        match self {
            Self::Image(image) => of_image(client, image),
            Self::Address(url) => {
                let fetch =
                    |url: &Url, most| client.document(FetchTarget { url, door: Door::Server }, None, most);
                let bytes = fetch(url, manifest::MOST_BYTES)?;
                let bytes = bytes.ok_or_else(|| SourceError::NoManifest(url.shown()))?;
                let signature = fetch(&url.with_suffix(trust::SUFFIX), trust::MOST_BYTES)?;
                Ok(Fetched { bytes, signature })
            }
            Self::Folder { .. } => Err(SourceError::NoManifest(self.name())),
        }
    }

    /// Stores a trusted manifest for use without a network.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn keep(&self, host: &dyn WriteFiles, fetched: &Fetched) -> io::Result<()> {
        match self.kept(host) {
            Some(place) if self.is_remote() => write_json(host, &place, fetched),
            _ => Ok(()),
        }
    }

    fn kept(&self, host: &dyn HostInfo) -> Option<HostPath> {
        let whole = match self {
            Self::Address(url) => url.to_string(),
            other => other.name(),
        };
        Some(cache_folder(host)?.join(KEPT).join(&format!("{}.json", sha256(whole.as_bytes()))))
    }

    /// A verified layer. `on_bytes` receives the number of downloaded bytes.
    ///
    /// # Errors
    /// The layer cannot be fetched, or differs from the manifest.
    pub fn layer(
        &self,
        client: &Client<'_>,
        layer: &Layer,
        on_bytes: &dyn Fn(u64),
    ) -> Result<TakenSource, SourceError> {
        match self {
            Self::Folder { folder, .. } => in_folder(client.host, folder, layer),
            Self::Address(url) => {
                let url = url.beside(&format!("{BLOBS}/{}", layer.sha256));
                download::layer(client, FetchTarget { url: &url, door: Door::Server }, layer, on_bytes)
            }
            Self::Image(image) => {
                let url = image.blob(&layer.sha256);
                download::layer(
                    client,
                    FetchTarget { url: &url, door: Door::Registry(image) },
                    layer,
                    on_bytes,
                )
            }
        }
    }
}

fn in_folder(host: &dyn WriteFiles, folder: &HostPath, layer: &Layer) -> Result<TakenSource, SourceError> {
    let path = folder.join(BLOBS).join(&layer.sha256);
    match layers::verify(host, &path, layer).map_err(SourceError::Io)? {
        LayerSource::Whole => return Ok(TakenSource { path, fetched: 0 }),
        LayerSource::Other(what) => return Err(SourceError::Other { sha256: layer.sha256.clone(), what }),
        LayerSource::Nothing => {}
    }
    let cached = layers::cached(host, layer).map_err(SourceError::Io)?;
    let missing = || SourceError::Missing { sha256: layer.sha256.clone() };
    cached.map(|path| TakenSource { path, fetched: 0 }).ok_or_else(missing)
}

/// The image's own manifest, then ours and its signature by their titles in it.
fn of_image(client: &Client<'_>, image: &Reference) -> Result<Fetched, SourceError> {
    let url = image.manifest();
    let registry = |what: String| FetchError::Registry { url: url.shown(), what };
    let door = Door::Registry(image);
    let document =
        client.document(FetchTarget { url: &url, door }, Some(oci::ACCEPT), oci::LARGEST_MANIFEST)?;
    let document = document.ok_or_else(|| SourceError::NoManifest(image.shown()))?;
    if image.digest().is_some_and(|digest| digest != sha256(&document)) {
        return Err(registry("its manifest is not the one of the digest".to_owned()).into());
    }
    let fetch = |title: &str, most: usize| -> Result<Option<Vec<u8>>, SourceError> {
        let Some(file) = oci::file(&document, title).map_err(registry)? else { return Ok(None) };
        if file.size > most as u64 {
            return Err(registry(format!("`{title}` has {} bytes", file.size)).into());
        }
        let bytes = client.document(FetchTarget { url: &image.blob(&file.sha256), door }, None, most)?;
        match bytes {
            Some(bytes) if sha256(&bytes) == file.sha256 => Ok(Some(bytes)),
            Some(_) => Err(registry(format!("`{title}` is not the one of the digest")).into()),
            None => Err(registry(format!("`{title}` is not there")).into()),
        }
    };
    let bytes = fetch(FILE, manifest::MOST_BYTES)?.ok_or_else(|| SourceError::NoManifest(image.shown()))?;
    Ok(Fetched { bytes, signature: fetch(&format!("{FILE}{}", trust::SUFFIX), trust::MOST_BYTES)? })
}
