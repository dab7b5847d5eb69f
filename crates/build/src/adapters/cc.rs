//! For crates that use the `cc` crate.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_host::{HostInfo, HostPath, PathRules, RealHost};
use gpubuild_plan::plan::PlannedTree;

use crate::{Planned, output};

impl Planned {
    /// Applies the plan of a backend to a `cc::Build`: compiler, architectures, flags. For CUDA, it also prints the lines with
    /// which cargo links the toolkit's static run-time library, because `cc` knows only one layout of toolkits. A later
    /// `.cudart(…)` adds to that.
    pub fn apply_to_cc<'a>(
        &self,
        backend: Backend,
        language: Language,
        build: &'a mut cc::Build,
    ) -> &'a mut cc::Build {
        match self.tree(backend) {
            Some(tree) => {
                let build = apply_to_cc(tree, language, build);
                if language == Language::Cuda
                    && let Some(folder) = self.cuda_libraries(tree)
                {
                    output::print(&format!(
                        "cargo::rustc-link-search=native={folder}\ncargo::rustc-link-lib=cudart_static\n"
                    ));
                    build.cudart("none");
                }
                build
            }
            None => build,
        }
    }

    /// The folder of the run-time library that belongs to a tree's CUDA compiler.
    fn cuda_libraries(&self, tree: &PlannedTree) -> Option<HostPath> {
        let compiler = tree.cache.get("CMAKE_CUDA_COMPILER")?;
        let copies = self.machine.inventory.of(Backend::Cuda.id());
        let copy =
            copies.iter().find(|copy| copy.part("compiler").is_some_and(|path| path.as_str() == compiler));
        copy.or_else(|| copies.iter().find(|copy| copy.chosen))?.part("runtime-static")?.parent()
    }
}

/// The language that a `cc::Build` compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
    /// CUDA.
    Cuda,
}

impl Language {
    /// CMake's name for the language.
    fn cmake(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cxx => "CXX",
            Self::Cuda => "CUDA",
        }
    }
}

/// Applies a tree's compilers, architectures and flags to a `cc::Build` of that language.
fn apply_to_cc<'a>(tree: &PlannedTree, language: Language, build: &'a mut cc::Build) -> &'a mut cc::Build {
    let settings = CcSettings::of(&tree.cache, language);
    match language {
        Language::C => {}
        Language::Cxx => {
            build.cpp(true);
        }
        Language::Cuda => {
            build.cuda(true);
        }
    }
    if let Some(compiler) = &settings.compiler {
        build.compiler(compiler);
    }
    if let Some(nvcc) = &settings.nvcc {
        let real = RealHost::new();
        if let Some(path) = first_on_path(&real, &real.path(nvcc)) {
            build.env("PATH", path);
        }
        // The plan's host compiler replaces the one that `cc` would pass.
        if settings.flags.iter().any(|flag| flag.starts_with("-ccbin=")) {
            build.ccbin(false);
        }
    }
    if let Some(pic) = settings.pic {
        build.pic(pic);
    }
    for flag in &settings.flags {
        build.flag(flag);
    }
    for (name, value) in &tree.env {
        build.env(name, value);
    }
    build
}

/// `PATH` with the folder of a program first.
fn first_on_path(host: &dyn HostInfo, program: &HostPath) -> Option<String> {
    let folder = program.parent()?;
    let separator = match folder.rules() {
        PathRules::Windows => ';',
        PathRules::Unix => ':',
    };
    let rest = host.env().get("PATH").unwrap_or_default();
    Some(if rest.is_empty() { folder.to_string() } else { format!("{folder}{separator}{rest}") })
}

/// The settings in a tree's cache that apply to a single compiler call.
#[derive(Debug, Default, PartialEq, Eq)]
struct CcSettings {
    compiler: Option<String>,
    /// `cc` finds nvcc through `NVCC` or PATH; nvcc as its `compiler` would get the flags of a C++ compiler.
    nvcc: Option<String>,
    pic: Option<bool>,
    flags: Vec<String>,
}

impl CcSettings {
    fn of(cache: &BTreeMap<String, String>, language: Language) -> Self {
        let name = language.cmake();
        let get = |entry: &str| cache.get(entry).filter(|value| !value.is_empty());
        let mut flags: Vec<String> = get(&format!("CMAKE_{name}_FLAGS"))
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        if language == Language::Cuda {
            let archs = get("CMAKE_CUDA_ARCHITECTURES").map(String::as_str).unwrap_or_default();
            flags.extend(
                archs.split(';').filter_map(|arch| arch.parse().ok()).flat_map(|arch| gencode(&arch)),
            );
            if let Some(host) = get("CMAKE_CUDA_HOST_COMPILER") {
                flags.push(format!("-ccbin={host}"));
            }
        }
        let named = get(&format!("CMAKE_{name}_COMPILER")).cloned();
        let (compiler, nvcc) = match language {
            Language::Cuda => (None, named),
            Language::C | Language::Cxx => (named, None),
        };
        Self { compiler, nvcc, pic: get("CMAKE_POSITION_INDEPENDENT_CODE").map(|value| value == "ON"), flags }
    }
}

/// nvcc's options for one architecture of a CMake list.
fn gencode(arch: &gpubuild_core::arch::CudaArch) -> Vec<String> {
    use gpubuild_core::arch::CudaCode;
    let sm = arch.sm();
    let compute = sm.replacen("sm_", "compute_", 1);
    let code = match arch.code {
        CudaCode::Both => format!("[{compute},{sm}]"),
        CudaCode::Real => sm,
        CudaCode::Virtual => compute.clone(),
    };
    vec!["-gencode".to_owned(), format!("arch={compute},code={code}")]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_compiler_call_gets_the_settings_of_the_tree() {
        let cache = cache(&[
            ("CMAKE_CUDA_COMPILER", "/cuda/bin/nvcc"),
            ("CMAKE_CUDA_ARCHITECTURES", "80-virtual;90a-real;120"),
            ("CMAKE_CUDA_HOST_COMPILER", "/usr/bin/g++-12"),
            ("CMAKE_CXX_FLAGS", "-O3 -g"),
            ("CMAKE_POSITION_INDEPENDENT_CODE", "ON"),
        ]);
        let cuda = CcSettings::of(&cache, Language::Cuda);
        assert_eq!(cuda.compiler, None);
        assert_eq!(cuda.nvcc.as_deref(), Some("/cuda/bin/nvcc"));
        assert_eq!(
            cuda.flags,
            [
                "-gencode",
                "arch=compute_80,code=compute_80",
                "-gencode",
                "arch=compute_90a,code=sm_90a",
                "-gencode",
                "arch=compute_120,code=[compute_120,sm_120]",
                "-ccbin=/usr/bin/g++-12",
            ]
        );
        let cxx = CcSettings::of(&cache, Language::Cxx);
        assert_eq!((cxx.compiler, cxx.pic, cxx.flags.len()), (None, Some(true), 2));
    }
}
