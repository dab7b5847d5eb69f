//! Releases in a container registry: image references and the parts of the OCI distribution API that pulling needs. Pure.

use gpubuild_core::clean;
use serde::Deserialize;

use super::manifest::is_sha256;
use super::url::{Url, is_loopback};

/// The media type of an image manifest.
pub const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json";
/// The largest image manifest that is read, in bytes.
pub const LARGEST_MANIFEST: usize = 4 << 20;
/// The longest part of an invalid digest in a message, in characters.
const LONGEST_DIGEST: usize = 100;
/// The annotation with the file name of a layer.
const TITLE: &str = "org.opencontainers.image.title";

/// An image reference: `HOST/NAME:TAG` or `HOST/NAME@sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The base URL of the image in the API: `https://ghcr.io/v2/me/infer`.
    root: Url,
    /// The registry, as written in the reference.
    registry: String,
    name: String,
    /// The tag or digest.
    version: String,
    /// The reference as written.
    text: String,
}

/// Why a text is not an image reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`oci://{text}` is not an image reference: {why}")]
pub struct BadReference {
    /// The text, without passwords.
    pub text: String,
    /// Why it is rejected.
    pub why: &'static str,
}

impl Reference {
    /// Parses the text after `oci://`. A registry on this machine is contacted without encryption, as other tools do; with `plain`, every
    /// registry is.
    ///
    /// # Errors
    /// The text is not an image reference.
    pub fn parse(text: &str, plain: super::url::PlainHttp) -> Result<Self, BadReference> {
        let bad = |why| BadReference { text: without_password(text), why };
        if text.split('/').next().is_some_and(|host| host.contains('@')) {
            return Err(bad("it contains a user name or password; store them with `docker login HOST`"));
        }
        let (host, rest) = text.split_once('/').ok_or_else(|| bad("write `oci://HOST/NAME:TAG`"))?;
        let (name, version) = match rest.split_once('@') {
            Some((name, digest)) => {
                let hash = digest.strip_prefix("sha256:").filter(|hash| is_sha256(hash));
                hash.ok_or_else(|| bad("a digest is `sha256:` and 64 lower-case hexadecimal digits"))?;
                (name, digest)
            }
            None => rest.rsplit_once(':').ok_or_else(|| bad("it has no tag: write `oci://HOST/NAME:TAG`"))?,
        };
        let is_part = |part: &str| {
            part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
                && part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.ends_with(|c: char| c.is_ascii_alphanumeric())
        };
        if name.len() > 255 || !name.split('/').all(is_part) {
            return Err(bad("a name consists of lower-case letters, digits, `.`, `_`, `-` and `/`"));
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_tag = (1..=128).contains(&version.len())
            && version.chars().all(allowed)
            && !version.starts_with(['.', '-']);
        if !is_tag && !rest.contains('@') {
            return Err(bad("a tag consists of letters, digits, `.`, `_` and `-`"));
        }
        let bare = host.strip_prefix('[').and_then(|rest| rest.split(']').next());
        let bare = bare.unwrap_or_else(|| host.split(':').next().unwrap_or_default());
        let scheme =
            if is_loopback(bare) || plain == super::url::PlainHttp::Anywhere { "http" } else { "https" };
        // Docker Hub serves its API on another host.
        let server =
            if matches!(host, "docker.io" | "index.docker.io") { "registry-1.docker.io" } else { host };
        let root =
            Url::parse(&format!("{scheme}://{server}/v2/{name}")).map_err(|_| bad("its host is invalid"))?;
        let [registry, name, version] = [host, name, version].map(str::to_owned);
        Ok(Self { root, registry, name, version, text: text.to_owned() })
    }

    /// Parses the text after `oci://` that names a repository, without a tag.
    ///
    /// # Errors
    /// The text is not the name of a repository.
    pub fn repository(text: &str, plain: super::url::PlainHttp) -> Result<Self, BadReference> {
        let bad = |why| BadReference { text: without_password(text), why };
        let name = text.split_once('/').map(|(_, name)| name).unwrap_or_default();
        if name.contains([':', '@']) {
            return Err(bad("write `oci://HOST/NAME`, without a tag"));
        }
        let reference = Self::parse(&format!("{text}:latest"), plain)
            .map_err(|error| BadReference { text: without_password(text), ..error })?;
        Ok(Self { text: text.to_owned(), ..reference })
    }

    /// The same image with another tag or digest.
    #[must_use]
    pub fn with_version(&self, version: &str) -> Self {
        Self { version: version.to_owned(), ..self.clone() }
    }

    /// The URL that starts the upload of a blob.
    #[must_use]
    pub fn uploads(&self) -> Url {
        self.root.below("blobs/uploads/")
    }

    /// The URL of the list of tags.
    #[must_use]
    pub fn tags(&self) -> Url {
        self.root.below("tags/list")
    }

    /// The reference as written, with `oci://`.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("oci://{}", self.text)
    }

    /// The registry as written: `ghcr.io`, `localhost:5000`.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The image's name in the registry: `me/infer`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URL of the image manifest.
    #[must_use]
    pub fn manifest(&self) -> Url {
        self.root.below(&format!("manifests/{}", self.version))
    }

    /// The URL of a blob.
    #[must_use]
    pub fn blob(&self, sha256: &str) -> Url {
        self.root.below(&format!("blobs/sha256:{sha256}"))
    }

    /// The sha256 of the image manifest, if the reference is a digest.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.version.strip_prefix("sha256:")
    }
}

/// Replaces everything before the last `@` that does not start a digest, because it may contain a password.
fn without_password(text: &str) -> String {
    let at = text.match_indices('@').map(|(at, _)| at).rfind(|at| !text[at + 1..].starts_with("sha256:"));
    at.map_or_else(|| text.to_owned(), |at| format!("…{}", &text[at..]))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciImage {
    schema_version: u32,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// A file in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciFile {
    /// The sha256 of its content.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The file with a given title. Other fields of the image manifest are ignored, because the release manifest determines what is
/// unpacked.
///
/// # Errors
/// The text is not a valid image manifest.
pub fn file(image: &[u8], title: &str) -> Result<Option<OciFile>, String> {
    let image: OciImage = serde_json::from_slice(image).map_err(|error| error.to_string())?;
    if image.schema_version != 2 {
        return Err(format!("the image manifest has schema version {}, not 2", image.schema_version));
    }
    let found =
        image.layers.into_iter().find(|one| one.annotations.get(TITLE).is_some_and(|own| own == title));
    let Some(found) = found else { return Ok(None) };
    let sha256 = found.digest.strip_prefix("sha256:").filter(|hash| is_sha256(hash));
    let sha256 = sha256.ok_or_else(|| {
        format!("`{title}` has the unsupported digest `{}`", clean::short(&found.digest, LONGEST_DIGEST))
    })?;
    Ok(Some(OciFile { sha256: sha256.to_owned(), size: found.size }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::PlainHttp;

    #[test]
    fn image_references_are_parsed_as_by_docker() {
        let good = Reference::parse("ghcr.io/me/infer:1.2.0", PlainHttp::Loopback).unwrap();
        assert_eq!(good.manifest().to_string(), "https://ghcr.io/v2/me/infer/manifests/1.2.0");
        let local = Reference::parse("localhost:5000/infer:latest", PlainHttp::Loopback).unwrap();
        assert_eq!(local.blob("ab").to_string(), "http://localhost:5000/v2/infer/blobs/sha256:ab");
        let digest = format!("h/infer@sha256:{}", "a".repeat(64));
        assert!(Reference::parse(&digest, PlainHttp::Loopback).unwrap().digest().is_some());
        for bad in [
            "ghcr.io",
            "ghcr.io/me/infer",
            "h/../x:1",
            "h/UP:1",
            "h/x:",
            "h/x:.a",
            "h/x:a b",
            "h/x@sha256:1",
            "/x:1",
            "h:port/x:1",
            "u@h/x:1",
        ] {
            assert!(Reference::parse(bad, PlainHttp::Loopback).is_err(), "{bad}");
        }
        let hub = Reference::parse("docker.io/me/infer:1", PlainHttp::Loopback).unwrap();
        assert_eq!(hub.manifest().to_string(), "https://registry-1.docker.io/v2/me/infer/manifests/1");
        assert_eq!((hub.registry(), hub.name()), ("docker.io", "me/infer"));
        for bad in ["me:pa55@h/x:1", "me:pa55/@h/x:1", "me:p@pa55@h/x@sha256:1", "me:5/pa55@h/X"] {
            let message = Reference::parse(bad, PlainHttp::Loopback).unwrap_err().to_string();
            assert!(!message.contains("pa55"), "{message}");
        }
    }
}
