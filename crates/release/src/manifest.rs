//! The manifest of a release: the variants for each platform, their requirements, and the layers with their files.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_plan::project::check_preference;
use serde::{Deserialize, Serialize};

/// The schema id of [`ReleaseManifest`].
pub const SCHEMA: &str = "gpubuild.manifest/1";
/// The largest manifest that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// The maximum number of variants per platform.
pub const MAX_VARIANTS: usize = 256;

/// `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseManifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The name of the released program.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// Increases with every published manifest. After a manifest was trusted, one with a lower serial is rejected.
    pub serial: u64,
    /// When the manifest expires, in seconds since 1970.
    pub expires: u64,
    /// The variants by platform, such as `linux-x86_64`.
    pub platforms: BTreeMap<String, ReleasePlatform>,
}

/// The variants for one platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleasePlatform {
    /// The label of the default variant, which runs without a GPU.
    pub default: String,
    /// The GPU backends that the publisher prefers, best first. They precede all others, which keep gpubuild's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Backend>,
    /// All variants, including the default.
    pub variants: Vec<ReleaseVariant>,
}

/// A variant and its requirements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReleaseVariant {
    /// The label, which is also valid for a wheel variant: at most 16 of a to z, digits, `_` and `.`.
    pub label: String,
    /// The backends in the variant.
    pub backends: Vec<Backend>,
    /// Whether the variant is built for every architecture of its backends, which makes it larger.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub portable: bool,
    /// The requirements of its CUDA code; present if and only if `backends` contains `cuda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<Cuda>,
    /// The requirements of its ROCm code; present if and only if `backends` contains `rocm`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<Rocm>,
    /// The required C library.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub libc: Option<RequiredLibc>,
    /// The oldest supported release of the operating system, for macOS and Windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os: Option<Version>,
    /// The required processor level: `x86-64-v3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// The program, and the arguments of its smoke test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<ProgramStart>,
    /// The layers with its files. Variants can share layers.
    pub layers: Vec<Layer>,
    /// The in-toto statement of how it was built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<AttachedFile>,
    /// Its software bill of materials, which is also one of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sbom: Option<AttachedFile>,
}

/// A document about a variant, in `blobs/sha256`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AttachedFile {
    /// Its sha256, which is also its file name.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

/// The program of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ProgramStart {
    /// The program's path in the variant, `bin/infer`.
    pub program: String,
    /// Arguments with which the program succeeds if and only if a backend works; `{backend}` is replaced by the backend's id. If
    /// empty, the smoke test runs the program with `--version`, which only shows that it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<String>,
}

/// CUDA code and its requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cuda {
    /// The CUDA release that compiled it, `13.0`.
    pub release: Version,
    /// The oldest supported driver.
    pub driver: Version,
    /// Architectures with machine code: `80`, `90a`.
    #[serde(default)]
    pub real: Vec<CudaArch>,
    /// Architectures with PTX, which the driver compiles.
    #[serde(default)]
    pub ptx: Vec<CudaArch>,
}

/// ROCm code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rocm {
    /// Architectures with code objects: `gfx90a`.
    pub gfx: Vec<String>,
}

/// A required C library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RequiredLibc {
    /// `glibc`, `musl`.
    pub family: String,
    /// The oldest supported version.
    pub version: Version,
}

/// An archive with some of a variant's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// The sha256 of the archive, which is also its file name.
    pub sha256: String,
    /// The size of the archive in bytes.
    pub size: u64,
    /// The total size of its files in bytes.
    pub unpacked: u64,
}

impl ReleaseVariant {
    /// The download size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.size))
    }

    /// The number of GPU architectures that it has code for.
    #[must_use]
    pub fn archs(&self) -> usize {
        self.cuda.as_ref().map_or(0, |cuda| cuda.real.len() + cuda.ptx.len())
            + self.rocm.as_ref().map_or(0, |rocm| rocm.gfx.len())
    }

    /// The documents about it.
    pub fn attached(&self) -> impl Iterator<Item = &AttachedFile> {
        self.provenance.iter().chain(&self.sbom)
    }

    /// Whether the CPU is its only backend.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.backends.iter().all(|backend| *backend == Backend::Cpu)
    }
}

/// An invalid entry of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct ManifestProblem {
    /// The JSON pointer of the entry, `/platforms/linux-x86_64/variants/2/label`.
    pub at: String,
    /// The problem, in one line.
    pub what: String,
}

impl ManifestProblem {
    /// The stable id of the error.
    pub const ID: DiagnosticId = id!("manifest.invalid");
}

/// Parses and validates a manifest.
///
/// # Errors
/// The first invalid entry, with its path.
pub fn read(bytes: &[u8]) -> Result<ReleaseManifest, ManifestProblem> {
    #[derive(Deserialize)]
    struct SchemaHeader {
        schema: String,
    }
    let whole = |what: String| ManifestProblem { at: "/".to_owned(), what };
    if bytes.len() > MAX_BYTES {
        return Err(whole(format!("it has {} bytes, but the limit is {MAX_BYTES}", bytes.len())));
    }
    let header: SchemaHeader = serde_json::from_slice(bytes).map_err(|error| whole(error.to_string()))?;
    if header.schema != SCHEMA {
        return Err(ManifestProblem {
            at: "/schema".to_owned(),
            what: format!("the schema is `{}`, but this version of gpubuild reads `{SCHEMA}`", header.schema),
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
            return Err(problem(
                field,
                format!("`{text}` is not valid; use letters, digits, `-`, `_`, `+` and `.`"),
            ));
        }
    }
    for (id, platform) in &manifest.platforms {
        let at = format!("/platforms/{id}");
        if !is_plain_name(id) {
            return Err(problem(&at, "not a valid platform name"));
        }
        check_platform(&at, platform)?;
    }
    Ok(())
}

fn check_platform(at: &str, platform: &ReleasePlatform) -> Result<(), ManifestProblem> {
    if let Err(what) = check_preference(&platform.prefer) {
        return Err(problem(&format!("{at}/prefer"), what));
    }
    if platform.variants.len() > MAX_VARIANTS {
        return Err(problem(&format!("{at}/variants"), format!("more than {MAX_VARIANTS} variants")));
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
            Err(problem(&format!("{at}/default"), format!("no variant has the label `{}`", platform.default)))
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
        return Err(problem(&format!("{at}/backends"), "the list is empty"));
    }
    for (backend, has, key) in
        [(Backend::Cuda, variant.cuda.is_some(), "cuda"), (Backend::Rocm, variant.rocm.is_some(), "rocm")]
    {
        if variant.backends.contains(&backend) != has {
            let what = if has {
                "the variant does not contain this backend"
            } else {
                "missing, although the variant contains this backend"
            };
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
        return Err(problem(&format!("{at}/layers"), "the list is empty"));
    }
    for (index, layer) in variant.layers.iter().enumerate() {
        if !is_sha256(&layer.sha256) {
            return Err(problem(&format!("{at}/layers/{index}/sha256"), "not a sha256 in lower case"));
        }
    }
    for (key, file) in [("provenance", &variant.provenance), ("sbom", &variant.sbom)] {
        if file.as_ref().is_some_and(|file| !is_sha256(&file.sha256)) {
            return Err(problem(&format!("{at}/{key}/sha256"), "not a sha256 in lower case"));
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

/// Whether a relative path is valid on every platform and stays inside its folder: `bin/infer`.
#[must_use]
pub fn is_inner_path(path: &str) -> bool {
    let is_forbidden =
        |c: char| c.is_control() || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    let is_valid =
        |part: &str| !part.is_empty() && part != "." && part != ".." && !part.ends_with(['.', ' ']);
    path.len() <= 1024 && !path.chars().any(is_forbidden) && path.split('/').all(is_valid)
}

/// Whether a text may be the label of a variant.
#[must_use]
pub fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    (1..=gpubuild_plan::project::variant::MAX_NAME_LENGTH).contains(&text.len())
        && !text.starts_with('.')
        && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::is_inner_path;

    #[test]
    fn paths_outside_the_folder_are_rejected() {
        assert!(is_inner_path("bin/infer") && is_inner_path("infer.exe") && is_inner_path("lib/libfoo.so.1"));
        for bad in [
            "", "/bin/sh", "../x", "a/../b", "a//b", "a/", "./a", "C:/x", "a\\b", "a\0b", "a/b.", "a/b ",
            "a/.",
        ] {
            assert!(!is_inner_path(bad), "{bad:?}");
        }
    }
}
