//! Link lines of real projects from CMake's configure step, in the formats of cargo, pkg-config, CMake and compilers.
//! Nothing is compiled.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpubuild_core::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::cmake::fragments::{FragmentContext, link_items};
use gpubuild_exec::cmake::inject::PROBE;
use gpubuild_exec::cmake::{self, ConfigureStart, file_api};
use gpubuild_host::{HostInfo, Os, RealHost, RunPrograms, find_program};
use gpubuild_plan::artifacts::{BuiltTree, LinkItem, Manifest, SCHEMA};
use gpubuild_plan::link;
use gpubuild_plan::machine;
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request::{BackendRequest, BackendSelection};
use gpubuild_plan::planning::{PlanRequest, plan};

use crate::sources;
use crate::support::has_vulkan;

/// Configures a project and returns its link line in every format, without the folders of this machine.
fn lines(name: &str, profile: &str, source: &Path, backends: &[Backend], rest: &str) -> String {
    let host = RealHost::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("gpubuild.toml");
    std::fs::write(
        &file,
        format!(
            "schema = 1\n[project]\nname = \"{name}\"\nsource = \"{}\"\nprofile = \"{profile}\"\n{rest}",
            source.display()
        ),
    )
    .unwrap();
    let project = gpubuild_plan::project::load(&host, &host.path(file.to_str().unwrap())).unwrap();
    let request = BackendRequest {
        selection: BackendSelection::Named(backends.to_vec()),
        origin: "test".to_owned(),
        without: Vec::new(),
    };
    let machine = machine::inspect(&host, Catalogue::embedded());
    let plan = plan(&PlanRequest {
        host: &host,
        machine: &machine,
        project: &project,
        request: &request,
        missing: MissingBackend::Refuse,
        jobs: Some(2),
        cross: None,
        cuda_archs: None,
        native: false,
        linkage: gpubuild_plan::project::Linkage::Static,
        provision: None,
    })
    .unwrap();
    let [tree] = plan.trees.as_slice() else { panic!("{} trees", plan.trees.len()) };
    cmake::write_inputs(&host, tree).unwrap();
    let program = find_program(&host, "cmake").into_iter().next().unwrap();
    let output = host.run(&cmake::configure_command(&program, tree, ConfigureStart::Keep(&[]))).unwrap();
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let reply = file_api::read(&host, &tree.build, cmake::configuration(tree)).unwrap();
    let context = FragmentContext { build: &tree.build, os: Os::Linux };
    let items = link_items(context, &reply, reply.target(PROBE).unwrap());
    let manifest = manifest(name, backends, items, tree.build.as_str());
    let directives = link::directives(&manifest, Os::Linux);
    let text = format!(
        "cargo\n{}\n\npkg-config\n{}\ncmake\n{}\nplain\n{}\n",
        link::cargo_lines(&directives).join("\n"),
        link::pkg_config(&directives, &manifest, None),
        link::cmake(&directives, &manifest),
        link::plain(&directives)
    );
    generic(&text, tree.build.as_str())
}

fn manifest(name: &str, backends: &[Backend], link: Vec<LinkItem>, build: &str) -> Manifest {
    let tree = BuiltTree {
        id: "tree".to_owned(),
        backends: backends.to_vec(),
        key: String::new(),
        source: String::new(),
        build: build.to_owned(),
        generator: "Ninja".to_owned(),
        cmake: String::new(),
        cache: BTreeMap::new(),
        files: Vec::new(),
        link,
        compilers: BTreeMap::new(),
        extra: Vec::new(),
        folder: None,
        abi: BTreeMap::new(),
        compile: Vec::new(),
        promises: BTreeMap::new(),
        interface: gpubuild_plan::artifacts::BuiltInterface::default(),
    };
    let (project, gpubuild) = (name.to_owned(), "0.0.0".to_owned());
    Manifest {
        cargo: None,
        schema: SCHEMA,
        gpubuild,
        project,
        backends: backends.to_vec(),
        trees: vec![tree],
        loader: None,
        target: None,
    }
}

/// Replaces what differs between machines: folders and compiler versions.
fn generic(text: &str, build: &str) -> String {
    let text = text.replace(build, "BUILD");
    let parts = text.split_inclusive(|c: char| c.is_whitespace() || c == '=' || c == '[' || c == ']');
    parts
        .map(|part| match part.find("/usr/lib") {
            Some(at) => {
                let path = PathBuf::from(part[at..].trim_end());
                let kept = path.file_name().filter(|name| name.to_string_lossy().contains(".so"));
                let kept = kept.map(|name| format!("/{}", name.to_string_lossy())).unwrap_or_default();
                let end = &part[part.trim_end().len()..];
                let close = if part.trim_end().ends_with([']', '[']) {
                    &part.trim_end()[part.trim_end().len() - 1..]
                } else {
                    ""
                };
                format!("{}SYSTEM{kept}{close}{end}", &part[..at])
            }
            None => part.to_owned(),
        })
        .collect()
}

#[test]
fn ggml_link_lines_of_all_configurable_backends() {
    if !sources::wanted() || !has_vulkan() {
        return;
    }
    let source = sources::ggml();
    let backends = [Backend::Cpu, Backend::Vulkan, Backend::Opencl];
    insta::assert_snapshot!(
        "ggml-static",
        lines("ggml-static", "ggml", &source, &backends, "extra = [\"rpc\"]\n")
    );
    let shared = "extra = [\"rpc\"]\noptions = { BUILD_SHARED_LIBS = \"ON\" }\n";
    insta::assert_snapshot!("ggml-shared", lines("ggml-shared", "ggml", &source, &backends, shared));
}

#[test]
fn llama_link_lines_with_optional_libraries() {
    if !sources::wanted() {
        return;
    }
    let source = sources::llama();
    let rest = "targets = [\"common\", \"mtmd\"]\n";
    insta::assert_snapshot!("llama-static", lines("llama-static", "llama", &source, &[Backend::Cpu], rest));
    let other = sources::vendored("llama-cpp-sys-2").join("llama.cpp");
    insta::assert_snapshot!("llama-other", lines("llama-other", "llama", &other, &[Backend::Cpu], ""));
    let shared = "options = { BUILD_SHARED_LIBS = \"ON\" }\n";
    insta::assert_snapshot!("llama-shared", lines("llama-shared", "llama", &source, &[Backend::Cpu], shared));
}

#[test]
fn whisper_and_stable_diffusion_link_lines() {
    if !sources::wanted() {
        return;
    }
    let whisper = sources::whisper();
    insta::assert_snapshot!(
        "whisper-static",
        lines("whisper-static", "whisper", &whisper, &[Backend::Cpu], "")
    );
    let shared = "options = { BUILD_SHARED_LIBS = \"ON\" }\n";
    insta::assert_snapshot!(
        "whisper-shared",
        lines("whisper-shared", "whisper", &whisper, &[Backend::Cpu], shared)
    );
    let diffusion = sources::diffusion();
    insta::assert_snapshot!(
        "diffusion-static",
        lines("diffusion-static", "stable-diffusion", &diffusion, &[Backend::Cpu], "")
    );
    let shared = "options = { SD_BUILD_SHARED_LIBS = \"ON\" }\n";
    insta::assert_snapshot!(
        "diffusion-shared",
        lines("diffusion-shared", "stable-diffusion", &diffusion, &[Backend::Cpu], shared)
    );
}
