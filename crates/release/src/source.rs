//! The source of a release: a folder, a URL, or an image in a registry. Its data is untrusted until verified.

use std::io;

use gpubuild_exec::python::Network;
use gpubuild_exec::store::{read_json, sha256, write_json};
use gpubuild_host::folders::cache_folder;
use gpubuild_host::{HostInfo, HostPath, ReadFiles, WriteFiles};
use serde::{Deserialize, Serialize};

pub use super::source_error::SourceError;

pub(super) use super::source_error::{VerifiedLayer, short};

use super::auth::CredentialScope;
use super::download;
use super::fetch::{Client, FetchError, FetchTarget};
use super::layers::{self, LayerFile};
use super::manifest::{self, AttachedFile, Layer};
use super::oci::{self, Reference};
use super::trust;
use super::url::Url;

/// The manifest's file name.
pub const FILE: &str = "manifest.json";
/// The folder of the layers, beside the manifest.
const BLOBS: &str = "blobs/sha256";

/// Where a release is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleaseSource {
    /// A local folder.
    Folder {
        /// The path of the manifest.
        manifest: HostPath,
        /// The folder that contains `blobs`.
        folder: HostPath,
    },
    /// The URL of the manifest.
    Address(Url),
    /// An image in a registry.
    Image(Reference),
}

/// A manifest and its signature, unparsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// The manifest's bytes.
    #[serde(with = "text")]
    pub bytes: Vec<u8>,
    /// The signature's bytes, if the release has one.
    #[serde(with = "maybe_text", default)]
    pub signature: Option<Vec<u8>>,
}

/// Serialises bytes as a string. Only trusted manifests are serialised, which are UTF-8.
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

    #[expect(clippy::ref_option, reason = "serde's `with` requires this signature")]
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
    /// Parses the value of `--manifest`; `None` if it is a path.
    ///
    /// # Errors
    /// It is an invalid URL or image reference.
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

    /// The release at a path, which names a folder or a manifest.
    #[must_use]
    pub fn at(host: &dyn ReadFiles, path: HostPath) -> Self {
        if host.is_dir(&path) {
            return Self::Folder { manifest: path.join(FILE), folder: path };
        }
        let folder = path.parent().unwrap_or_else(|| path.clone());
        Self::Folder { manifest: path, folder }
    }

    /// The source as shown to the user, without credentials.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Folder { manifest, .. } => manifest.to_string(),
            Self::Address(url) => url.shown(),
            Self::Image(image) => image.shown(),
        }
    }

    /// Whether the release is fetched over the network, where third parties could modify it.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Folder { .. })
    }

    /// Reads or downloads the manifest and its signature, if it has one. Offline, the manifest comes from the cache.
    ///
    /// # Errors
    /// The manifest cannot be fetched.
    pub fn manifest(&self, client: &Client<'_>) -> Result<Fetched, SourceError> {
        let host = client.host;
        if let Self::Folder { manifest, .. } = self {
            let bytes = host
                .read_start(manifest, manifest::MAX_BYTES + 1)
                .map_err(|error| SourceError::Manifest { at: self.name(), error })?;
            let beside = host.path(&format!("{manifest}{}", trust::SUFFIX));
            return Ok(Fetched { bytes, signature: host.read_start(&beside, trust::MAX_BYTES + 1).ok() });
        }
        if client.network == Network::Offline {
            let cached = self.cached(host).and_then(|path| read_json(host, &path));
            return cached.ok_or_else(|| FetchError::Offline(self.name()).into());
        }
        match self {
            Self::Image(image) => from_image(client, image),
            Self::Address(url) => {
                let fetch = |url: &Url, max| {
                    client.document(FetchTarget { url, scope: CredentialScope::Server }, None, max)
                };
                let bytes = fetch(url, manifest::MAX_BYTES)?;
                let bytes = bytes.ok_or_else(|| SourceError::NoManifest(url.shown()))?;
                let signature = fetch(&url.with_suffix(trust::SUFFIX), trust::MAX_BYTES)?;
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
        match self.cached(host) {
            Some(path) if self.is_remote() => write_json(host, &path, fetched),
            _ => Ok(()),
        }
    }

    fn cached(&self, host: &dyn HostInfo) -> Option<HostPath> {
        let location = match self {
            Self::Address(url) => url.to_string(),
            other => other.name(),
        };
        Some(cache_folder(host)?.join(layers::TRUSTED).join(&format!("{}.json", sha256(location.as_bytes()))))
    }

    /// Reads or downloads a document about a variant and verifies it; `None` if it has more than `max` bytes.
    ///
    /// # Errors
    /// The document cannot be fetched, or differs from the manifest.
    pub fn attached(
        &self,
        client: &Client<'_>,
        file: &AttachedFile,
        max: usize,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        if file.size > max as u64 {
            return Ok(None);
        }
        let layer = Layer { sha256: file.sha256.clone(), size: file.size, unpacked: file.size };
        let verified = self.layer(client, &layer, &|_| ())?;
        client.host.read_start(&verified.path, max).map(Some).map_err(SourceError::Io)
    }

    /// Reads or downloads a layer and verifies it. `on_bytes` receives the size of each downloaded piece.
    ///
    /// # Errors
    /// The layer cannot be fetched, or differs from the manifest.
    pub fn layer(
        &self,
        client: &Client<'_>,
        layer: &Layer,
        on_bytes: &dyn Fn(u64),
    ) -> Result<VerifiedLayer, SourceError> {
        match self {
            Self::Folder { folder, .. } => in_folder(client.host, folder, layer),
            Self::Address(url) => {
                let url = url.beside(&format!("{BLOBS}/{}", layer.sha256));
                let target = FetchTarget { url: &url, scope: CredentialScope::Server };
                download::layer(client, target, layer, on_bytes)
            }
            Self::Image(image) => {
                let url = image.blob(&layer.sha256);
                let target = FetchTarget { url: &url, scope: CredentialScope::Registry(image) };
                download::layer(client, target, layer, on_bytes)
            }
        }
    }
}

fn in_folder(host: &dyn WriteFiles, folder: &HostPath, layer: &Layer) -> Result<VerifiedLayer, SourceError> {
    let path = folder.join(BLOBS).join(&layer.sha256);
    match layers::verify(host, &path, layer).map_err(SourceError::Io)? {
        LayerFile::Matches => return Ok(VerifiedLayer { path, fetched: 0 }),
        LayerFile::Differs(what) => return Err(SourceError::Differs { sha256: layer.sha256.clone(), what }),
        LayerFile::Missing => {}
    }
    let cached = layers::cached(host, layer).map_err(SourceError::Io)?;
    let missing = || SourceError::Missing { sha256: layer.sha256.clone() };
    cached.map(|path| VerifiedLayer { path, fetched: 0 }).ok_or_else(missing)
}

/// Downloads the image manifest, then the release manifest and its signature, which it lists by title.
fn from_image(client: &Client<'_>, image: &Reference) -> Result<Fetched, SourceError> {
    let url = image.manifest();
    let invalid = |what: String| FetchError::Registry { url: url.shown(), what };
    let scope = CredentialScope::Registry(image);
    let document =
        client.document(FetchTarget { url: &url, scope }, Some(oci::ACCEPT), oci::LARGEST_MANIFEST)?;
    let document = document.ok_or_else(|| SourceError::NoManifest(image.shown()))?;
    if image.digest().is_some_and(|digest| digest != sha256(&document)) {
        return Err(invalid("the image manifest does not match its digest".to_owned()).into());
    }
    let fetch = |title: &str, max: usize| -> Result<Option<Vec<u8>>, SourceError> {
        let Some(file) = oci::file(&document, title).map_err(invalid)? else { return Ok(None) };
        if file.size > max as u64 {
            let what = format!("`{title}` has {} bytes, but the limit is {max}", file.size);
            return Err(invalid(what).into());
        }
        let bytes = client.document(FetchTarget { url: &image.blob(&file.sha256), scope }, None, max)?;
        match bytes {
            Some(bytes) if sha256(&bytes) == file.sha256 => Ok(Some(bytes)),
            Some(_) => Err(invalid(format!("`{title}` does not match its digest")).into()),
            None => Err(invalid(format!("`{title}` is listed but does not exist")).into()),
        }
    };
    let bytes = fetch(FILE, manifest::MAX_BYTES)?.ok_or_else(|| SourceError::NoManifest(image.shown()))?;
    Ok(Fetched { bytes, signature: fetch(&format!("{FILE}{}", trust::SUFFIX), trust::MAX_BYTES)? })
}
