//! The manifest of a release: per platform its variants, what each needs, and where its files are.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use serde::{Deserialize, Serialize};

/// The form of [`ReleaseManifest`].
pub const SCHEMA: &str = "gpubuild.manifest/1";
/// The largest manifest that is read.
pub const MOST_BYTES: usize = 4 << 20;
/// The most variants of one platform.
pub const MOST_VARIANTS: usize = 256;

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseManifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of what is released.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Goes up with every manifest: an older one is not taken after a newer one.
    pub serial: u64,
    /// Seconds since 1970 after which it is not to be trusted any more.
    pub expires: u64,
    /// `linux-x86_64` and others.
    pub platforms: BTreeMap<String, ReleasePlatform>,
}

/// A platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasePlatform {
    /// The variant where nothing else suits; it needs no GPU.
    pub default: String,
    /// All of them.
    pub variants: Vec<ReleaseVariant>,
}

/// A variant, and what a machine has to have for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseVariant {
    /// The label of a wheel's variant: a to z, digits, `_`, `.`, 16 at most.
    pub label: String,
    /// Backends in it.
    pub backends: Vec<Backend>,
    /// Whether it is for every device of its backends, at the price of its size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub portable: bool,
    /// CUDA, where it has CUDA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<Cuda>,
    /// ROCm, where it has ROCm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<Rocm>,
    /// The C library that it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<RequiredLibc>,
    /// The oldest release of the operating system, for macOS and Windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<Version>,
    /// The level of processors that it needs: `x86-64-v3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// How it is started, and how it proves that a backend works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<ProgramStart>,
    /// Its files, in layers that variants share.
    pub layers: Vec<Layer>,
}

/// How a variant is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramStart {
    /// Its program, `bin/infer`.
    pub program: String,
    /// Arguments with which it ends well if and only if a backend works: `{backend}` stands for the backend's id. Without them
    /// it is started with `--version`, which proves that it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
}

/// What CUDA code needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cuda {
    /// The release that it was compiled with, `13.0`.
    pub release: Version,
    /// The oldest driver.
    pub driver: Version,
    /// Machine code: `80`, `90a`.
    #[serde(default)]
    pub real: Vec<CudaArch>,
    /// Code that the driver translates.
    #[serde(default)]
    pub ptx: Vec<CudaArch>,
}

/// What ROCm code needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rocm {
    /// Code objects: `gfx90a`.
    pub gfx: Vec<String>,
}

/// A C library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiredLibc {
    /// `glibc`, `musl`.
    pub family: String,
    /// The oldest version.
    pub version: Version,
}

/// An archive with some of a variant's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Hash of the archive, by which it is also named.
    pub sha256: String,
    /// Its bytes.
    pub size: u64,
    /// Bytes of what is in it.
    pub unpacked: u64,
}

impl ReleaseVariant {
    /// Bytes to fetch.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size))
    }

    /// Architectures of GPUs that it holds code for.
    #[must_use]
    pub fn archs(&self) -> usize {
        self.cuda.as_ref().map_or(0, |cuda| cuda.real.len() + cuda.ptx.len())
            + self.rocm.as_ref().map_or(0, |rocm| rocm.gfx.len())
    }

    /// Whether it has nothing but the processor.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.backends.iter().all(|backend| *backend == Backend::Cpu)
    }
}

/// An invalid entry of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct ManifestProblem {
    /// JSON pointer, `/platforms/linux-x86_64/variants/2/label`.
    pub at: String,
    /// One line.
    pub what: String,
}

impl ManifestProblem {
    /// Stable id.
    pub const ID: DiagnosticId = id!("manifest.invalid");
}

/// Parses and validates a manifest.
///
/// # Errors
/// The first invalid entry, with its path.
pub fn read(bytes: &[u8]) -> Result<ReleaseManifest, ManifestProblem> {
    #[derive(Deserialize)]
    struct ReleaseHead {
        schema: String,
    }
    let whole = |what: String| ManifestProblem { at: "/".to_owned(), what };
    if bytes.len() > MOST_BYTES {
        return Err(whole(format!("{} bytes, and at most {MOST_BYTES} are read", bytes.len())));
    }
    let head: ReleaseHead = serde_json::from_slice(bytes).map_err(|error| whole(error.to_string()))?;
    if head.schema != SCHEMA {
        return Err(ManifestProblem {
            at: "/schema".to_owned(),
            what: format!("`{}`, and this gpubuild reads `{SCHEMA}`", head.schema),
        });
    }
    let manifest: ReleaseManifest =
        serde_json::from_slice(bytes).map_err(|error| whole(error.to_string()))?;
    check(&manifest)?;
    Ok(manifest)
}

fn check(manifest: &ReleaseManifest) -> Result<(), ManifestProblem> {
    for (field, text) in [("/name", &manifest.name), ("/version", &manifest.version)] {
        if !is_plain_name(text) {
            return Err(problem(field, format!("`{text}`: use letters, digits, `-`, `_`, `+` and `.`")));
        }
    }
    for (id, platform) in &manifest.platforms {
        let at = format!("/platforms/{id}");
        if !is_plain_name(id) {
            return Err(problem(&at, "no name of a platform"));
        }
        check_platform(&at, platform)?;
    }
    Ok(())
}

fn check_platform(at: &str, platform: &ReleasePlatform) -> Result<(), ManifestProblem> {
    if platform.variants.len() > MOST_VARIANTS {
        return Err(problem(&format!("{at}/variants"), format!("more than {MOST_VARIANTS}")));
    }
    let mut labels = BTreeSet::new();
    for (index, variant) in platform.variants.iter().enumerate() {
        let at = format!("{at}/variants/{index}");
        if !is_label(&variant.label) {
            return Err(problem(&format!("{at}/label"), format!("`{}` is not a valid label", variant.label)));
        }
        if !labels.insert(&variant.label) {
            return Err(problem(&format!("{at}/label"), format!("`{}` is listed twice", variant.label)));
        }
        check_variant(&at, variant)?;
    }
    let default = platform.variants.iter().find(|variant| variant.label == platform.default);
    match default {
        None => {
            Err(problem(&format!("{at}/default"), format!("no variant is called `{}`", platform.default)))
        }
        Some(variant) if !variant.backends.contains(&Backend::Cpu) => Err(problem(
            &format!("{at}/default"),
            format!("`{}` does not run without a GPU", platform.default),
        )),
        Some(_) => Ok(()),
    }
}

fn check_variant(at: &str, variant: &ReleaseVariant) -> Result<(), ManifestProblem> {
    if variant.backends.is_empty() {
        return Err(problem(&format!("{at}/backends"), "no backend"));
    }
    for (backend, has, key) in
        [(Backend::Cuda, variant.cuda.is_some(), "cuda"), (Backend::Rocm, variant.rocm.is_some(), "rocm")]
    {
        if variant.backends.contains(&backend) != has {
            let what =
                if has { "for a backend that is not in it" } else { "missing for a backend that is in it" };
            return Err(problem(&format!("{at}/{key}"), what));
        }
    }
    if let Some(start) = &variant.start
        && !is_inner_path(&start.program)
    {
        return Err(problem(
            &format!("{at}/start/program"),
            format!("`{}` is not a path inside the release", start.program),
        ));
    }
    if variant.layers.is_empty() {
        return Err(problem(&format!("{at}/layers"), "no files"));
    }
    for (index, layer) in variant.layers.iter().enumerate() {
        if !is_sha256(&layer.sha256) {
            return Err(problem(&format!("{at}/layers/{index}/sha256"), "no sha256 in lower case"));
        }
    }
    if let Some(cpu) = &variant.cpu
        && super::machine::level(cpu).is_none()
    {
        return Err(problem(&format!("{at}/cpu"), format!("`{cpu}` is not a processor level")));
    }
    Ok(())
}

fn problem(at: &str, what: impl Into<String>) -> ManifestProblem {
    ManifestProblem { at: at.to_owned(), what: what.into() }
}

/// Whether a text may be the name or version of a release.
#[must_use]
pub fn is_plain_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    (1..=100).contains(&text.len()) && !text.starts_with('.') && text.chars().all(plain)
}

/// Whether a text is a sha256 as `sha256sum` writes it.
#[must_use]
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a path stays inside the folder that it starts in, on every platform: `bin/infer`.
#[must_use]
pub fn is_inner_path(path: &str) -> bool {
    let strange = |c: char| c.is_control() || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let good = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.ends_with(['.', ' ']);
    path.len() <= 1024 && !path.chars().any(strange) && path.split('/').all(good)
}

/// Whether a text may be the label of a variant.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    (1..=gpubuild_plan::project::variant::MOST_CHARACTERS).contains(&text.len())
        && !text.starts_with('.')
        && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::is_inner_path;

    #[test]
    fn a_path_of_a_program_stays_inside() {
        assert!(is_inner_path("bin/infer") && is_inner_path("infer.exe") && is_inner_path("lib/libfoo.so.1"));
        for bad in [
            "", "/bin/sh", "../x", "a/../b", "a//b", "a/", "./a", "C:/x", "a\\b", "a\0b", "a/b.", "a/b ",
            "a/.",
        ] {
            assert!(!is_inner_path(bad), "{bad:?}");
        }
    }
}
