//! Link lines of constructed manifests.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;

use super::*;
use crate::artifacts::{Artifact, BuiltTree};

fn artifact(path: &str, kind: &str, sha256: &str) -> Artifact {
    Artifact {
        target: "t".into(),
        kind: kind.into(),
        path: path.into(),
        bytes: 1,
        sha256: sha256.into(),
        symbols: None,
        device_code: Vec::new(),
    }
}

fn tree(id: &str, files: Vec<Artifact>, link: Vec<LinkItem>) -> BuiltTree {
    BuiltTree {
        interface: crate::artifacts::BuiltInterface::default(),
        extra: Vec::new(),
        abi: std::collections::BTreeMap::new(),
        id: id.into(),
        folder: None,
        backends: vec![Backend::Cpu],
        key: "k".into(),
        source: "/s".into(),
        build: "/b".into(),
        generator: "Ninja".into(),
        cmake: "4.0".into(),
        cache: BTreeMap::new(),
        files,
        link,
        compilers: BTreeMap::new(),
        compile: Vec::new(),
        promises: BTreeMap::new(),
    }
}

fn manifest(trees: Vec<BuiltTree>) -> Manifest {
    Manifest {
        schema: crate::artifacts::SCHEMA,
        gpubuild: "0.1.0".into(),
        project: "infer".into(),
        backends: vec![Backend::Cpu, Backend::Vulkan],
        cargo: None,
        loader: None,
        target: None,
        trees,
    }
}

fn fixed(path: &str) -> LinkItem {
    LinkItem::Static { path: path.into() }
}

fn system(name: &str) -> LinkItem {
    LinkItem::System { name: name.into() }
}

fn argument(text: &str) -> LinkItem {
    LinkItem::Argument { text: text.into() }
}

fn two_trees() -> Manifest {
    let cpu = tree(
        "cpu",
        vec![artifact("/b/cpu/libgk-cpu.a", "static", "1"), artifact("/b/cpu/libgk-core.a", "static", "2")],
        vec![fixed("/b/cpu/libgk-cpu.a"), fixed("/b/cpu/libgk-core.a"), system("m")],
    );
    let vulkan = tree(
        "vulkan",
        vec![artifact("/b c/libgk-vulkan.a", "static", "3"), artifact("/b c/libgk-core.a", "static", "2")],
        vec![fixed("/b c/libgk-vulkan.a"), fixed("/b c/libgk-core.a"), system("dl"), system("m")],
    );
    manifest(vec![cpu, vulkan])
}

#[test]
fn core_library_of_two_trees_is_linked_once() {
    let directives = directives(&two_trees(), Os::Linux);
    let names: Vec<&str> = directives.statics.iter().map(|library| library.name.as_str()).collect();
    // A single-pass linker resolves symbols only from later libraries, so the core library must be last.
    assert_eq!(names, ["gk-cpu", "gk-vulkan", "gk-core"]);
    assert_eq!(directives.dynamic, ["dl", "m"]);
}

#[test]
fn every_format_quotes_special_characters() {
    let manifest = two_trees();
    let directives = directives(&manifest, Os::Linux);
    insta::assert_snapshot!(cargo_lines(&directives).join("\n"));
    insta::assert_snapshot!(plain(&directives));
    insta::assert_snapshot!(pkg_config(&directives, &manifest, None));
    insta::assert_snapshot!(cmake(&directives, &manifest));
}

#[test]
fn positional_arguments_are_interpreted() {
    let link = vec![
        argument("-Wl,--push-state,--whole-archive"),
        fixed("/b/liba.a"),
        argument("-Wl,--pop-state"),
        argument("-Wl,--start-group"),
        fixed("/b/libb.a"),
        fixed("/b/libc.a"),
        argument("-Wl,--end-group"),
        argument("-fopenmp"),
    ];
    let directives = directives(&manifest(vec![tree("cpu", Vec::new(), link)]), Os::Linux);
    let modes: Vec<(&str, ArchiveMode)> =
        directives.statics.iter().map(|entry| (entry.name.as_str(), entry.mode)).collect();
    assert_eq!(
        modes,
        [
            ("a", ArchiveMode::Whole),
            ("b", ArchiveMode::Needed),
            ("c", ArchiveMode::Needed),
            ("b", ArchiveMode::Needed),
            ("c", ArchiveMode::Needed)
        ]
    );
    assert_eq!(directives.arguments, ["-fopenmp"]);
    assert!(cargo_lines(&directives).contains(&"cargo::rustc-link-lib=static:+whole-archive=a".to_owned()));
}

#[test]
fn built_shared_libraries_get_an_rpath() {
    let link = vec![
        LinkItem::Shared { path: "/b/libggml.so".into() },
        LinkItem::Shared { path: "/usr/lib/libvulkan.so".into() },
        LinkItem::Shared { path: "/usr/lib/libz.so.1".into() },
    ];
    let files = vec![artifact("/b/libggml.so", "shared", "1")];
    let directives = directives(&manifest(vec![tree("cpu", files, link)]), Os::Linux);
    assert_eq!(directives.dynamic, ["ggml", "vulkan"]);
    assert_eq!(directives.arguments, ["/usr/lib/libz.so.1"]);
    assert_eq!(directives.rpath, ["/b"]);
}

#[test]
fn rpath_contains_the_folders_of_modules() {
    let files = vec![
        artifact("/b/libgk-sycl.a", "static", "1"),
        artifact("/b/m/libgk-sycl-driver.so", "module", "2"),
    ];
    let manifest = manifest(vec![tree("sycl", files, vec![fixed("/b/libgk-sycl.a")])]);
    let linux = directives(&manifest, Os::Linux);
    assert_eq!(linux.rpath, ["/b/m"]);
    assert!(linux.dynamic.is_empty(), "modules are not linked");
    assert_eq!(linux.beside_program(Os::Linux).rpath, ["$ORIGIN"]);
    assert!(directives(&manifest, Os::Windows).rpath.is_empty());
}

#[test]
fn environment_folders_are_one_argument_each() {
    let folders = vec!["$ORIGIN".to_owned(), "/v, 1/lib".to_owned()];
    let directives = Directives::default().with_search_path(folders);
    let rest = ["-Xlinker", "-rpath", "-Xlinker", "/v, 1/lib"];
    let words = words(&directives);
    assert_eq!(words[0], "-Wl,-rpath,$ORIGIN");
    assert_eq!(words[1..], rest);
    assert!(plain(&directives).starts_with("'-Wl,-rpath,$ORIGIN' -Xlinker -rpath -Xlinker '/v, 1/lib'"));
    let lines = cargo_lines(&directives);
    assert_eq!(lines.last().unwrap(), "cargo::rustc-link-arg=/v, 1/lib");
    assert!(cmake(&directives, &two_trees()).contains("SHELL:-Xlinker -rpath -Xlinker '/v, 1/lib'"));
}

#[test]
fn windows_and_unconventional_names_are_supported() {
    let link = vec![
        fixed(r"C:\b\gk-cpu.lib"),
        LinkItem::Shared { path: r"C:\b\ggml.lib".into() },
        system("kernel32"),
    ];
    let windows = directives(&manifest(vec![tree("cpu", Vec::new(), link)]), Os::Windows);
    assert_eq!(windows.statics[0].name, "gk-cpu");
    assert_eq!(windows.search, [r"C:\b"]);
    assert_eq!(windows.dynamic, ["ggml", "kernel32"]);
    let odd = directives(&manifest(vec![tree("cpu", Vec::new(), vec![fixed("/b/ggml.a")])]), Os::Linux);
    assert!(cargo_lines(&odd).contains(&"cargo::rustc-link-lib=static:+verbatim=ggml.a".to_owned()));
}
