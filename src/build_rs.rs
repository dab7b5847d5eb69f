//! For build scripts: the link lines of what `gpubuild build` made, and a plan's settings for crates that run CMake or a
//! compiler themselves.
//!
//! ```no_run
//! // The whole `main` of a build.rs:
//! gpubuild::build_rs::link();
//! ```
//!
//! The crate then has `cfg(gpubuild_backend = "cuda")` for each backend that was built. Without a manifest it compiles
//! without kernels and cargo shows which command makes them: editors, `cargo check` and docs.rs need no toolkit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::artifacts::{Manifest, ManifestError};
use crate::backend::Backend;
use crate::exec::{manifest_path, stage};
use crate::glue;
use crate::host::{Host, HostPath, RealHost};
use crate::link;
use crate::plan::Tree;
use crate::project;
use crate::venv::record;

/// The variable that names a manifest.
pub const VARIABLE: &str = "GPUBUILD_MANIFEST";

/// What a crate is linked with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Linked {
    /// Backends whose libraries are linked.
    pub backends: Vec<Backend>,
    /// Names of the static libraries.
    pub libraries: Vec<String>,
}

/// Prints everything that cargo needs to link what was built: nothing, if there is no manifest. [`lines`] tells what that is.
///
/// Call it from `main` of a build script.
#[expect(clippy::print_stdout, reason = "a build script speaks to cargo on its standard output")]
pub fn link() {
    let (text, _) = lines(&RealHost::new());
    print!("{text}");
}

/// The text that [`link`] prints.
#[must_use]
pub fn lines(host: &dyn Host) -> (String, Linked) {
    let mut text = String::new();
    let ids: Vec<String> = Backend::ALL.iter().map(|backend| format!("\"{backend}\"")).collect();
    say(&mut text, &format!("rustc-check-cfg=cfg(gpubuild_backend, values({}))", ids.join(", ")));
    say(&mut text, &format!("rerun-if-env-changed={VARIABLE}"));
    let Some(path) = find_manifest(host) else {
        let name = project::FILE_NAME;
        say(
            &mut text,
            &format!(
                "warning=no {name} here or above, so no kernels are linked; {VARIABLE} can name a manifest"
            ),
        );
        write_glue(&mut text, host, None);
        return (text, Linked::default());
    };
    // Watched while it is absent too: the crate is built again once it appears.
    say(&mut text, &format!("rerun-if-changed={path}"));
    let mut linked = Linked::default();
    let manifest = Manifest::read(host, &path);
    write_glue(&mut text, host, manifest.as_ref().ok());
    match manifest {
        Ok(manifest) => linked = with_manifest(&mut text, host, &path, &manifest),
        Err(ManifestError::Missing { .. }) => say(
            &mut text,
            "warning=no kernels were built yet, so none are linked: run `gpubuild build` (in its repository `cargo run --release -- build`)",
        ),
        Err(error) => say(&mut text, &format!("error={error}: run `gpubuild build` again")),
    }
    (text, linked)
}

fn with_manifest(text: &mut String, host: &dyn Host, path: &HostPath, manifest: &Manifest) -> Linked {
    for file in manifest.trees.iter().flat_map(|tree| &tree.files) {
        say(text, &format!("rerun-if-changed={}", file.path));
    }
    if let Some(path) = manifest.changed_files(host).first() {
        say(text, &format!("warning=`{path}` is not as it was built: run `gpubuild build` again"));
    }
    for backend in &manifest.backends {
        say(text, &format!("rustc-cfg=gpubuild_backend=\"{backend}\""));
    }
    let mut folders = Vec::new();
    if let Some(root) = path.parent() {
        // Cargo takes a file that is absent for changed, each time. The call that makes this one writes the manifest again.
        let file = root.join(record::FILE_NAME);
        if host.is_file(&file) {
            say(text, &format!("rerun-if-changed={file}"));
        }
        let (found, why) = record::search_path(host, &root);
        folders = found;
        if let Some(why) = why {
            say(text, &format!("warning={why}"));
        }
    }
    let mut directives = link::directives(manifest, host.platform().os);
    match place(host, manifest) {
        Ok(true) => directives = directives.beside_program(host.platform().os),
        Ok(false) => {}
        Err(error) => {
            say(text, &format!("warning=failed to put shared libraries beside the program: {error}"));
        }
    }
    let directives = directives.with_search_path(folders);
    for line in link::cargo_lines(&directives) {
        text.push_str(&line);
        text.push('\n');
    }
    let libraries = directives.statics.into_iter().map(|library| library.name).collect();
    Linked { backends: manifest.backends.clone(), libraries }
}

/// Puts shared libraries and modules where cargo puts the programs and tests of this package. Whether it knows where.
fn place(host: &dyn Host, manifest: &Manifest) -> std::io::Result<bool> {
    let Some(out) = host.env().get("OUT_DIR") else { return Ok(false) };
    let folders = stage::cargo_folders(&host.path(out));
    for folder in &folders {
        stage::place(host, manifest, folder)?;
    }
    Ok(!folders.is_empty())
}

/// Writes the code that opens modules, and tells cargo where it is.
fn write_glue(text: &mut String, host: &dyn Host, manifest: Option<&Manifest>) {
    let Some(out) = host.env().get("OUT_DIR") else { return };
    let path = host.path(out).join(glue::FILE_NAME);
    match host.write(&path, glue::code(host, manifest).as_bytes()) {
        Ok(()) => say(text, &format!("rustc-env={}={path}", glue::VARIABLE)),
        Err(error) => say(text, &format!("error=failed to write `{path}`: {error}")),
    }
}

/// Directives are lines: a line break inside one would start another.
fn say(text: &mut String, directive: &str) {
    let line = directive.replace(['\n', '\r'], " ");
    writeln!(text, "cargo::{line}").expect("writing to a string");
}

/// The manifest that the environment names, else that of the project around the crate, whether it exists or not.
#[must_use]
pub fn find_manifest(host: &dyn Host) -> Option<HostPath> {
    if let Some(path) = host.env().get(VARIABLE) {
        return Some(host.path(path));
    }
    let start = match host.env().get("CARGO_MANIFEST_DIR") {
        Some(folder) => host.path(folder),
        None => host.current_dir().ok()?,
    };
    let file = project::find(host, &start).ok()?;
    let project = project::load(host, &file).ok()?;
    Some(manifest_path(&project.build_root))
}

/// Puts the cache entries and environment of a tree into the `cmake::Config` that a crate has already. Its own defines
/// that come later win.
pub fn apply_to_cmake<'a>(tree: &Tree, config: &'a mut cmake::Config) -> &'a mut cmake::Config {
    for (name, value) in &tree.cache {
        match name.as_str() {
            "CMAKE_BUILD_TYPE" => {
                config.profile(value);
            }
            _ => {
                config.define(name, value);
            }
        }
    }
    for (name, value) in &tree.env {
        config.env(name, value);
    }
    config.generator(&tree.generator)
}

/// What a `cc::Build` compiles.
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
    /// CMake's word for it.
    fn cmake(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cxx => "CXX",
            Self::Cuda => "CUDA",
        }
    }
}

/// Puts what a tree says about compilers, architectures and flags into a `cc::Build` of that language.
pub fn apply_to_cc<'a>(tree: &Tree, language: Language, build: &'a mut cc::Build) -> &'a mut cc::Build {
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

/// What a tree's cache says to a single compiler call.
#[derive(Debug, Default, PartialEq, Eq)]
struct CcSettings {
    compiler: Option<String>,
    pic: Option<bool>,
    flags: Vec<String>,
}

impl CcSettings {
    fn of(cache: &BTreeMap<String, String>, language: Language) -> Self {
        let word = language.cmake();
        let get = |name: &str| cache.get(name).filter(|value| !value.is_empty());
        let mut flags: Vec<String> = get(&format!("CMAKE_{word}_FLAGS"))
            .map(|text| text.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default();
        if language == Language::Cuda {
            let archs = get("CMAKE_CUDA_ARCHITECTURES").map(String::as_str).unwrap_or_default();
            flags.extend(
                archs.split(';').filter_map(|word| word.parse().ok()).flat_map(|arch| gencode(&arch)),
            );
            if let Some(host) = get("CMAKE_CUDA_HOST_COMPILER") {
                flags.push(format!("-ccbin={host}"));
            }
        }
        Self {
            compiler: get(&format!("CMAKE_{word}_COMPILER")).cloned(),
            pic: get("CMAKE_POSITION_INDEPENDENT_CODE").map(|value| value == "ON"),
            flags,
        }
    }
}

/// nvcc's words for one architecture of a CMake list.
fn gencode(arch: &crate::arch::CudaArch) -> Vec<String> {
    use crate::arch::CudaCode;
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

    #[test]
    fn without_a_manifest_a_crate_compiles_without_kernels() {
        let host = crate::host::RecordedHost::builder(crate::host::Os::Linux, crate::host::Arch::X86_64);
        let host = host.env(VARIABLE, "/m/manifest.json").directory("/m").build();
        let (text, linked) = lines(&host);
        assert_eq!(linked, Linked::default());
        assert!(text.contains("cargo::rustc-check-cfg=cfg(gpubuild_backend, values(\"cpu\", "), "{text}");
        assert!(text.contains("cargo::rerun-if-changed=/m/manifest.json\n"), "{text}");
        assert!(
            text.contains("cargo::warning=no kernels were built yet") && !text.contains("rustc-cfg="),
            "{text}"
        );
    }

    #[test]
    fn a_manifest_gives_cfgs_and_link_lines() {
        let manifest = r#"{"schema":1,"gpubuild":"0.1.0","project":"p","backends":["cpu"],"trees":[{"id":"cpu","backends":["cpu"],"key":"k","source":"/s","build":"/b","generator":"Ninja","cmake":"4","cache":{},"files":[{"target":"k","kind":"static","path":"/b/libk.a","bytes":1,"sha256":"0"}],"link":[{"kind":"static","path":"/b/libk.a"},{"kind":"system","name":"m"}],"compilers":{}}]}"#;
        let host = crate::host::RecordedHost::builder(crate::host::Os::Linux, crate::host::Arch::X86_64);
        let host = host.env(VARIABLE, "/m/manifest.json").file("/m/manifest.json", manifest).build();
        let (text, linked) = lines(&host);
        assert_eq!(linked.libraries, ["k"]);
        assert!(text.contains("cargo::rustc-cfg=gpubuild_backend=\"cpu\"\n"), "{text}");
        assert!(text.ends_with("cargo::rustc-link-lib=static=k\ncargo::rustc-link-lib=dylib=m\n"), "{text}");
        assert!(text.contains("cargo::warning=`/b/libk.a` is not as it was built"), "{text}");
    }

    fn cache(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_compiler_call_gets_what_the_tree_says() {
        let cache = cache(&[
            ("CMAKE_CUDA_COMPILER", "/cuda/bin/nvcc"),
            ("CMAKE_CUDA_ARCHITECTURES", "80-virtual;90a-real;120"),
            ("CMAKE_CUDA_HOST_COMPILER", "/usr/bin/g++-12"),
            ("CMAKE_CXX_FLAGS", "-O3 -g"),
            ("CMAKE_POSITION_INDEPENDENT_CODE", "ON"),
        ]);
        let cuda = CcSettings::of(&cache, Language::Cuda);
        assert_eq!(cuda.compiler.as_deref(), Some("/cuda/bin/nvcc"));
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
