//! Container image names, and data about images that need a GPU.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::search::star_matches;

use super::tables::{ImageRow, Tables, ToolkitIn, VersionIn, tables};

/// A parsed image reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// The host of the registry; `None` for Docker Hub.
    pub registry: Option<String>,
    /// The repository: `nvidia/cuda`, `ubuntu`.
    pub repository: String,
    /// The tag: `12.2.0-devel-ubuntu22.04`.
    pub tag: Option<String>,
    /// Whether the image is pinned by digest.
    pub has_digest: bool,
}

impl ImageName {
    /// Parses a reference. `None` if it is invalid or contains an unexpanded variable.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        if text.is_empty() || !text.chars().all(is_name) {
            return None;
        }
        let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
        let (path, tag) = match name.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (name, None),
        };
        let (registry, repository) = match path.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), rest),
            _ => (None, path),
        };
        let registry = registry
            .filter(|host| !matches!(*host, "docker.io" | "index.docker.io" | "registry-1.docker.io"));
        let repository = repository.strip_prefix("library/").unwrap_or(repository);
        (!repository.is_empty()).then(|| Self {
            registry: registry.map(str::to_owned),
            repository: repository.to_owned(),
            tag: tag.map(str::to_owned),
            has_digest: digest.is_some(),
        })
    }

    /// The repository and its shorter suffixes, because mirrors add prefixes: `docker/library/ubuntu` is also `ubuntu`.
    fn known_names(&self) -> impl Iterator<Item = &str> {
        let mut rest = Some(self.repository.as_str());
        std::iter::from_fn(move || {
            let name = rest?;
            rest = name.split_once('/').map(|(_, after)| after);
            Some(name)
        })
    }

    /// Whether the tag contains a word, with or without digits after it: `server-cuda` contains `cuda`.
    fn has_word(&self, word: &str) -> bool {
        let tag = self.tag.as_deref().unwrap_or_default();
        tag.split(['-', '_', '.']).any(|part| {
            let rest = part.strip_prefix(word);
            rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
        }) || (word == "cuda" && cu_word(tag).is_some())
    }

    /// Whether this is `nvidia/cuda`, also from a mirror.
    #[must_use]
    pub fn is_nvidia_cuda(&self) -> bool {
        self.known_names().any(|name| name == "nvidia/cuda")
    }

    /// Whether this is `nvidia/cuda` from Docker Hub or NVIDIA's registry, so that NVIDIA's rules for tags apply.
    #[must_use]
    pub fn is_from_nvidia(&self) -> bool {
        self.is_nvidia_cuda() && matches!(self.registry.as_deref(), None | Some("nvcr.io"))
    }

    /// Data about the image if it needs a GPU.
    #[must_use]
    pub fn gpu(&self) -> Option<GpuImage> {
        let tables = tables();
        let row = tables.image.iter().find(|row| self.matches_row(row))?;
        let backend = row.backend?;
        let tag = self.tag.as_deref().unwrap_or_default();
        let version = match row.version {
            Some(VersionIn::Tag) => leading_version(tag),
            Some(VersionIn::Word) => word_version(tag),
            None => None,
        };
        let has_toolkit = match row.toolkit {
            ToolkitIn::All => Some(true),
            ToolkitIn::None => Some(false),
            ToolkitIn::Devel if tag.is_empty() || tag == "latest" => None,
            ToolkitIn::Devel => Some(tag.split('-').any(|part| part == "devel")),
            ToolkitIn::Unknown => None,
        };
        let (defaults, graphics, jetson) = (row.defaults, row.graphics, row.jetson);
        Some(GpuImage { backend, version, has_toolkit, defaults, graphics, jetson })
    }

    fn matches_row(&self, row: &ImageRow) -> bool {
        if let Some(word) = &row.word {
            return self.has_word(word);
        }
        let Some(pattern) = &row.pattern else { return false };
        let tag = self.tag.as_deref().unwrap_or("latest");
        self.known_names()
            .any(|name| star_matches(pattern, &format!("{name}:{tag}")) || star_matches(pattern, name))
    }

    /// Whether this is the image of a plain distribution.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let plain = &tables().plain.images;
        self.known_names().any(|name| plain.iter().any(|known| known == name))
    }

    /// The CUDA release of the package of the distribution that the image is based on.
    #[must_use]
    pub fn distribution_toolkit(&self) -> Option<&'static Version> {
        let tables: &'static Tables = tables();
        let tag = self.tag.as_deref().unwrap_or("latest");
        let name = self.repository.rsplit('/').next().unwrap_or_default();
        let base = tag.split('-').next().unwrap_or_default();
        let system = tag.rsplit('-').next().unwrap_or_default();
        let row = tables
            .distribution_toolkit(&format!("{name}:{base}"))
            .or_else(|| tables.distribution_toolkit(system))?;
        Some(&row.toolkit)
    }
}

impl std::fmt::Display for ImageName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(registry) = &self.registry {
            write!(formatter, "{registry}/")?;
        }
        formatter.write_str(&self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(formatter, ":{tag}"))
    }
}

/// An image that needs a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuImage {
    /// The backend that the image is built for.
    pub backend: Backend,
    /// The release of the toolkit in the image.
    pub version: Option<Version>,
    /// Whether the image contains the compiler; `None` if unknown.
    pub has_toolkit: Option<bool>,
    /// Whether the image sets `NVIDIA_VISIBLE_DEVICES=all` and the capabilities `compute,utility`.
    pub defaults: bool,
    /// Whether the image requests the graphics capability.
    pub graphics: bool,
    /// Whether the image is for Jetson.
    pub jetson: bool,
}

fn leading_version(tag: &str) -> Option<Version> {
    let end = tag.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(tag.len());
    tag[..end].trim_end_matches('.').parse().ok()
}

/// The release after `cuda` or `cu`: `12.1` in `2.3.0-cuda12.1-cudnn8-devel`, `12.4` in `nightly-cu124`.
fn word_version(tag: &str) -> Option<Version> {
    for (at, _) in tag.match_indices("cuda") {
        let rest = tag[at + 4..].trim_start_matches('-');
        if let Some(version) = leading_version(rest).filter(|version| version.as_str().contains('.')) {
            return Some(version);
        }
    }
    cu_word(tag)
}

/// The release in a short form: `cu124` is 12.4.
fn cu_word(tag: &str) -> Option<Version> {
    tag.split(['-', '_', '.', '+']).find_map(|part| {
        let digits = part.strip_prefix("cu")?;
        let is_release = (3..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_release.then(|| format!("{}.{}", &digits[..2], &digits[2..]).parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed() {
        for (text, expected) in [
            ("ubuntu", Some((None, "ubuntu", None))),
            ("docker.io/library/ubuntu:22.04", Some((None, "ubuntu", Some("22.04")))),
            ("nvcr.io/nvidia/cuda:12.2.0-base", Some((Some("nvcr.io"), "nvidia/cuda", Some("12.2.0-base")))),
            ("localhost:5000/a/b", Some((Some("localhost:5000"), "a/b", None))),
            ("nvidia/cuda:12.2.0@sha256:abc", Some((None, "nvidia/cuda", Some("12.2.0")))),
            ("nvidia/cuda:${V}-base", None),
            ("{{ .Values.image }}", None),
            ("", None),
        ] {
            let image = ImageName::parse(text);
            let seen = image
                .as_ref()
                .map(|image| (image.registry.as_deref(), image.repository.as_str(), image.tag.as_deref()));
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn gpu_images_are_recognized() {
        use Backend::{Cuda, Rocm};
        for (text, expected) in [
            ("nvidia/cuda:12.2.0-devel-ubuntu22.04", Some((Cuda, Some("12.2.0"), Some(true)))),
            ("nvcr.io/nvidia/cuda:11.8.0-cudnn8-runtime-ubi8", Some((Cuda, Some("11.8.0"), Some(false)))),
            (
                "mirror.example.org/docker/nvidia/cuda:12.2.0-base-ubuntu22.04",
                Some((Cuda, Some("12.2.0"), Some(false))),
            ),
            ("pytorch/pytorch:2.3.0-cuda12.1-cudnn8-devel", Some((Cuda, Some("12.1"), Some(true)))),
            ("ghcr.io/ggml-org/llama.cpp:server-cuda", Some((Cuda, None, None))),
            ("example/x:1.0-cu124", Some((Cuda, Some("12.4"), None))),
            ("ollama/ollama:rocm", Some((Rocm, None, None))),
            ("rocm/pytorch:latest", Some((Rocm, None, None))),
            ("ollama/ollama", None),
            ("tensorflow/tensorflow:2.15.0-gpu", Some((Cuda, None, Some(false)))),
            ("tensorflow/tensorflow:2.15.0", None),
            ("nvcr.io/nvidia/k8s-device-plugin:v0.15.0", None),
            ("nvcr.io/nvidia/k8s/dcgm-exporter:3.3", None),
            ("vllm/vllm-openai:latest", Some((Cuda, None, None))),
            ("ubuntu:22.04", None),
            ("cuda", None),
        ] {
            let gpu = ImageName::parse(text).unwrap().gpu();
            let seen = gpu
                .as_ref()
                .map(|gpu| (gpu.backend, gpu.version.as_ref().map(Version::as_str), gpu.has_toolkit));
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn distributions_are_recognized() {
        let toolkit =
            |text: &str| ImageName::parse(text).unwrap().distribution_toolkit().map(Version::to_string);
        assert_eq!(toolkit("ubuntu:22.04").as_deref(), Some("11.5"));
        assert_eq!(toolkit("nvidia/cuda:12.2.0-base-ubuntu20.04").as_deref(), Some("10.1"));
        assert_eq!(toolkit("debian:bookworm-slim").as_deref(), Some("11.8"));
        assert_eq!(toolkit("alpine:3.20"), None);
        assert!(ImageName::parse("public.ecr.aws/docker/library/ubuntu:22.04").unwrap().is_plain());
    }
}
