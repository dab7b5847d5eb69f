//! Derives the requirements of a packed variant from the build and the contents of its files. Pure.

use std::collections::BTreeSet;

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;
use gpubuild_core::isa::{self, AllowedFeatures};
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_plan::artifacts::{BuiltTree, Manifest};

use crate::manifest::{Cuda, Rocm};

/// Why the requirements of a variant cannot be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownRequirement {
    /// The libraries contain no device code, or not for a common architecture.
    #[error("the libraries contain no {0} code for a common architecture, so the supported GPUs are unknown")]
    NoDeviceCode(Backend),
    /// The CUDA release of the compiler is unknown.
    #[error("the CUDA release of the compiler is unknown")]
    NoRelease,
    /// The oldest driver for a CUDA release is unknown.
    #[error("the driver version that CUDA {0} needs is unknown")]
    NoDriver(Version),
    /// The variant was built for the processor of the build machine.
    #[error("the variant was built for the processor of this machine only ({0})")]
    Native(String),
    /// The variant requires instruction sets that no processor level includes.
    #[error("no processor level includes all required instruction sets ({0})")]
    NoLevel(String),
}

impl Diagnostic for UnknownRequirement {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NoDeviceCode(_) => id!("pack.no-device-code"),
            Self::NoRelease | Self::NoDriver(_) => id!("pack.no-release"),
            Self::Native(_) => id!("pack.native"),
            Self::NoLevel(_) => id!("pack.no-cpu-level"),
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoDeviceCode(_) => "set `archs` for the variant or in `[backends.ID]`",
            Self::NoRelease | Self::NoDriver(_) => {
                "build it with a toolkit that `gpubuild detect` knows, then pack again"
            }
            Self::Native(_) => "build without `--native`, and without options such as GGML_NATIVE=ON",
            Self::NoLevel(_) => {
                "disable options until x86-64-v2, v3 or v4 includes all instruction sets, or select the code at run time"
            }
        };
        Some(hint.to_owned())
    }
}

/// The architectures for which every library with code of this kind has code.
fn common(manifest: &Manifest, kind: &str) -> BTreeSet<String> {
    let of_library = manifest.device_code().into_values().filter_map(|code| {
        let archs: BTreeSet<String> =
            code.into_iter().filter(|code| code.kind == kind).map(|code| code.arch).collect_set();
        (!archs.is_empty()).then_some(archs)
    });
    of_library.reduce(|one, other| one.intersection(&other).cloned().collect()).unwrap_or_default()
}

/// The requirements of its CUDA code. `toolkit` returns the version of the toolkit with a compiler at a path, and `floor` the oldest
/// driver for a CUDA release.
///
/// # Errors
/// See [`UnknownRequirement`].
pub fn cuda(
    manifest: &Manifest,
    toolkit: impl Fn(&str) -> Option<Version>,
    floor: impl Fn(&Version) -> Option<Version>,
) -> Result<Option<Cuda>, UnknownRequirement> {
    if !manifest.backends.contains(&Backend::Cuda) {
        return Ok(None);
    }
    let archs = |kind| -> Vec<CudaArch> {
        let mut archs: Vec<CudaArch> =
            common(manifest, kind).iter().filter_map(|text| text.parse().ok()).collect();
        archs.sort_indirect();
        archs
    };
    let (real, ptx) = (archs("sass"), archs("ptx"));
    if real.is_empty() && ptx.is_empty() {
        return Err(UnknownRequirement::NoDeviceCode(Backend::Cuda));
    }
    let releases = manifest.trees.iter().filter_map(|tree| release(tree, &toolkit));
    let release = releases.max().ok_or(UnknownRequirement::NoRelease)?;
    let driver = floor(&release).ok_or_else(|| UnknownRequirement::NoDriver(release.clone()))?;
    Ok(Some(Cuda { release, driver, real, ptx }))
}

/// The CUDA release of a tree's compiler: `13.0` for nvcc 13.0.88. If the project calls nvcc without enabling CMake's CUDA language, the
/// compiler is the one in the plan's cache entries.
fn release(tree: &BuiltTree, toolkit: &impl Fn(&str) -> Option<Version>) -> Option<Version> {
    let compiler = tree.compilers.get("CUDA").filter(|compiler| compiler.id == "NVIDIA");
    let version = match compiler {
        Some(compiler) => compiler.version.parse().ok()?,
        None => toolkit(tree.cache.get("CMAKE_CUDA_COMPILER")?)?,
    };
    format!("{}.{}", version.major(), version.minor()).parse().ok()
}

/// The requirements of its ROCm code.
///
/// # Errors
/// See [`UnknownRequirement`].
pub fn rocm(manifest: &Manifest) -> Result<Option<Rocm>, UnknownRequirement> {
    if !manifest.backends.contains(&Backend::Rocm) {
        return Ok(None);
    }
    let gfx: Vec<String> = common(manifest, "code-object").into_iter().collect();
    if gfx.is_empty() { Err(UnknownRequirement::NoDeviceCode(Backend::Rocm)) } else { Ok(Some(Rocm { gfx })) }
}

/// The required processor level; `None` for the baseline of the architecture. `named` is the processor in `[audit]` of gpubuild.toml.
///
/// # Errors
/// See [`UnknownRequirement`].
pub fn cpu(
    manifest: &Manifest,
    arch: &str,
    named: Option<&str>,
) -> Result<Option<String>, UnknownRequirement> {
    let Some(processor) = isa::table().processor(arch) else { return Ok(None) };
    let (promise, from) = match named.and_then(|name| Some((processor.cpu(name)?, name))) {
        Some((promise, name)) => (promise, vec![name.to_owned()]),
        None => manifest.trees.iter().map(|tree| processor.options(&tree.promises)).fold(
            (AllowedFeatures::default(), Vec::new()),
            |(mut promise, mut from), (one, names)| {
                promise.add(&one);
                from.extend(names.into_iter().filter(|name| !from.contains(name)).collect::<Vec<_>>());
                (promise, from)
            },
        ),
    };
    if promise.native {
        return Err(UnknownRequirement::Native(from.join(", ")));
    }
    if promise.is_baseline() {
        return Ok(None);
    }
    let level =
        processor.level(&promise.features).filter(|level| super::super::machine::level(level).is_some());
    match level {
        Some(level) => Ok(Some(level.to_owned())),
        None => Err(UnknownRequirement::NoLevel(from.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use gpubuild_plan::artifacts::{self, Artifact, Compiler, DeviceCode};

    fn library(target: &str, codes: &[(&str, &str)]) -> Artifact {
        let code = |(arch, kind): &(&str, &str)| DeviceCode {
            arch: (*arch).to_owned(),
            kind: (*kind).to_owned(),
            bytes: 1,
        };
        Artifact {
            target: target.to_owned(),
            kind: "static".to_owned(),
            path: format!("/b/lib{target}.a"),
            bytes: 1,
            sha256: String::new(),
            symbols: None,
            device_code: codes.iter().map(code).collect(),
        }
    }

    fn built(
        backends: &[Backend],
        files: Vec<Artifact>,
        nvcc: Option<&str>,
        promises: &[(&str, &str)],
    ) -> Manifest {
        let tree = r#"{"id":"cpu","backends":["cpu"],"key":"k","source":"/s","build":"/b","generator":"Ninja","cmake":"4.0","cache":{},"files":[],"link":[],"compilers":{}}"#;
        let mut tree: artifacts::BuiltTree = serde_json::from_str(tree).unwrap();
        tree.files = files;
        if let Some(version) = nvcc {
            let compiler =
                Compiler { id: "NVIDIA".to_owned(), version: version.to_owned(), path: "/nvcc".to_owned() };
            tree.compilers.insert("CUDA".to_owned(), compiler);
        }
        tree.promises = promises
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect::<BTreeMap<_, _>>();
        Manifest {
            schema: artifacts::SCHEMA,
            gpubuild: String::new(),
            project: "demo".to_owned(),
            backends: backends.to_vec(),
            cargo: None,
            loader: None,
            target: None,
            trees: vec![tree],
        }
    }

    #[test]
    fn cuda_code_is_limited_to_common_architectures() {
        fn floor(release: &Version) -> Option<Version> {
            assert_eq!(release.as_str(), "13.0");
            "580.65".parse().ok()
        }
        let files = vec![
            library("one", &[("sm_80", "sass"), ("sm_90a", "sass"), ("compute_90", "ptx")]),
            library(
                "two",
                &[("sm_80", "sass"), ("sm_86", "sass"), ("compute_90", "ptx"), ("compute_80", "ptx")],
            ),
            library("none", &[]),
        ];
        let cuda = cuda(&built(&[Backend::Cpu, Backend::Cuda], files, Some("13.0.88"), &[]), |_| None, floor)
            .unwrap()
            .unwrap();
        assert_eq!(cuda.real.iter().map(CudaArch::sm).collect::<Vec<_>>(), ["sm_80"]);
        assert_eq!(cuda.ptx.iter().map(CudaArch::sm).collect::<Vec<_>>(), ["sm_90"]);
        assert_eq!((cuda.release.as_str(), cuda.driver.as_str()), ("13.0", "580.65"));
    }

    #[test]
    fn unknown_requirements_are_errors() {
        let code = || vec![library("one", &[("sm_80", "sass")])];
        let result = |manifest: &Manifest, driver: Option<&str>| {
            cuda(manifest, |_| None, |_| driver.and_then(|text| text.parse().ok()))
                .map(|_| ())
                .map_err(|error| error.id())
        };
        let backends = [Backend::Cuda];
        assert_eq!(
            result(&built(&backends, Vec::new(), Some("13.0"), &[]), Some("580")),
            Err(id!("pack.no-device-code"))
        );
        assert_eq!(result(&built(&backends, code(), None, &[]), Some("580")), Err(id!("pack.no-release")));
        assert_eq!(result(&built(&backends, code(), Some("99.0"), &[]), None), Err(id!("pack.no-release")));
        assert_eq!(result(&built(&[Backend::Cpu], code(), None, &[]), None), Ok(()));
        // A project that calls nvcc itself: the release comes from the toolkit.
        let mut own = built(&backends, code(), None, &[]);
        own.trees[0].cache.insert("CMAKE_CUDA_COMPILER".to_owned(), "/opt/cuda/bin/nvcc".to_owned());
        let toolkit = |nvcc: &str| (nvcc == "/opt/cuda/bin/nvcc").then(|| "12.4.131".parse().unwrap());
        let cuda = cuda(&own, toolkit, |_| "525".parse().ok()).unwrap().unwrap();
        assert_eq!(cuda.release.as_str(), "12.4");
        assert!(rocm(&built(&[Backend::Rocm], Vec::new(), None, &[])).is_err());
        let gfx = rocm(&built(&[Backend::Rocm], vec![library("k", &[("gfx90a", "code-object")])], None, &[]));
        assert_eq!(gfx.unwrap().unwrap().gfx, ["gfx90a"]);
    }

    #[test]
    fn the_level_includes_all_required_instruction_sets() {
        let level = |promises: &[(&str, &str)], named| {
            cpu(&built(&[Backend::Cpu], Vec::new(), None, promises), "x86_64", named)
                .map_err(|error| error.id())
        };
        assert_eq!(level(&[], None), Ok(None));
        assert_eq!(level(&[("GGML_AVX2", "ON")], None), Ok(Some("x86-64-v3".to_owned())));
        assert_eq!(level(&[("CMAKE_C_FLAGS", "-march=x86-64-v2")], None), Ok(Some("x86-64-v2".to_owned())));
        assert_eq!(level(&[], Some("x86-64-v3")), Ok(Some("x86-64-v3".to_owned())));
        // Haswell has more than v3, but not all of v4.
        assert_eq!(level(&[], Some("haswell")), Err(id!("pack.no-cpu-level")));
        assert_eq!(level(&[("GGML_NATIVE", "ON")], None), Err(id!("pack.native")));
        assert_eq!(level(&[("CMAKE_C_FLAGS", "-mavx512vnni")], None), Err(id!("pack.no-cpu-level")));
    }
}
