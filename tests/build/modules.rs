//! Backends as modules and shared libraries: where they are installed, how they are loaded, and which calls are
//! rejected.

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::exec::{self, stage};
use gpubuild_host::{HostInfo, HostPath, Os, ReadFiles, RunPrograms, WriteFiles, find_program};
use gpubuild_plan::artifacts::ModuleLoader;
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::project::Linkage;

use crate::support::{Project, plan, project};

/// A registry that opens known modules in a folder, as ggml's does.
const REGISTRY: &str = r#"#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
static int count = 0;
void *reg_load(const char *file) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    int (*start)(void) = handle ? (int (*)(void))dlsym(handle, "module_start") : NULL;
    if (!start || !start()) return NULL;
    count++;
    return handle;
}
void reg_load_folder(const char *folder) {
    const char *names[] = {"libreg-cpu-new.so", "libreg-cpu-old.so", "libreg-cuda.so"};
    for (int i = 0; i < 3; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        reg_load(path);
    }
}
size_t reg_count(void) { return count; }
int reg_base(void) { return 20; }
"#;

const PROJECT: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        r#"cmake_minimum_required(VERSION 3.16)
project(reg C)
option(REG_CPU "" ON)
option(REG_CUDA "" OFF)
option(REG_DIRECT "" OFF)
set(REG_ANSWER "1" CACHE STRING "")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_library(reg-base SHARED base.c)
set_target_properties(reg-base PROPERTIES VERSION 1.2.3 SOVERSION 1)
target_link_libraries(reg-base PRIVATE dl)
add_library(reg SHARED reg.c)
target_link_libraries(reg PUBLIC reg-base)
if(REG_DIRECT)
  target_compile_definitions(reg PRIVATE DIRECT)
endif()
function(module name)
  add_library(${name} MODULE module.c)
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_link_libraries(${name} PRIVATE reg-base)
  target_compile_definitions(${name} PRIVATE ANSWER=${REG_ANSWER})
endfunction()
if(REG_CPU)
  module(reg-cpu-old)
  module(reg-cpu-new)
endif()
if(REG_CUDA)
  module(reg-cuda)
endif()
"#,
    ),
    ("base.c", REGISTRY),
    (
        "reg.c",
        "int reg_base(void);\n#ifdef DIRECT\nint module_answer(void);\nint reg_top(void) { return module_answer(); }\n#else\nint reg_top(void) { return reg_base() + 1; }\n#endif\n",
    ),
    (
        "module.c",
        "int reg_base(void);\nint module_answer(void) { return ANSWER; }\nint module_start(void) { return reg_base() == 20 && ANSWER > 0; }\n",
    ),
];

/// The tree of the base libraries and both CPU modules.
fn base(project: &Project) -> PlannedTree {
    let mut tree = project.tree(&[Backend::Cpu], &["reg", "reg-base"], &origin(&[]));
    tree.linkage = Linkage::Dynamic;
    tree.modules = vec!["reg-cpu".to_owned()];
    tree
}

/// A tree that builds only the CUDA module, into its own folder.
fn cuda(project: &Project, folder: &str, answer: &str) -> PlannedTree {
    let entries = [
        ("REG_CPU", "OFF"),
        ("REG_CUDA", "ON"),
        ("REG_ANSWER", answer),
        ("CMAKE_INSTALL_RPATH", "$ORIGIN/.."),
    ];
    let mut tree = project.tree(&[Backend::Cuda], &[], &origin(&entries));
    folder.clone_into(&mut tree.id);
    tree.build = project.path("build").join(folder);
    tree.linkage = Linkage::Dynamic;
    tree.modules = vec!["reg-cuda".to_owned()];
    tree.folder = Some(folder.to_owned());
    tree
}

fn origin<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut entries = vec![("CMAKE_BUILD_WITH_INSTALL_RPATH", "ON"), ("CMAKE_INSTALL_RPATH", "$ORIGIN")];
    entries.extend(more);
    entries
}

fn built(project: &Project, trees: Vec<PlannedTree>) -> Result<exec::BuildOutcome, exec::BuildError> {
    let loader =
        ModuleLoader { folder: "reg_load_folder".into(), file: "reg_load".into(), count: "reg_count".into() };
    let mut plan = plan(trees);
    plan.loader = Some(loader);
    project.build_plan(&plan)
}

/// Builds a program with the lines of a build script, in `target/debug` as cargo does.
fn rust_program(project: &Project, manifest: &HostPath, main: &str) -> Option<HostPath> {
    let rustc = find_program(&project.host, "rustc").into_iter().next()?;
    let out = project.path("app/target/debug/build/app-0/out");
    let variables = [
        ("GPUBUILD_MANIFEST", manifest.to_string()),
        ("OUT_DIR", out.to_string()),
        ("PATH", project.host.env().get("PATH").unwrap_or_default().to_owned()),
    ];
    let lines = gpubuild_link::internal::lines(variables.map(|(name, value)| (name.to_owned(), value)));
    assert!(lines.contains("cargo::rustc-cfg=gpubuild_backend=\"cpu\"\n"), "{lines}");
    assert!(!lines.contains("cargo::warning"), "{lines}");
    project.write("../app/main.rs", main);
    let program = project.path("app/target/debug/app");
    let mut argv = vec![
        rustc.to_string(),
        "--edition=2024".into(),
        project.path("app/main.rs").to_string(),
        "-o".into(),
        program.to_string(),
    ];
    let mut command =
        gpubuild_host::Command::new(argv.remove(0), std::time::Duration::from_secs(300)).args(&argv);
    for line in lines.lines() {
        let Some((key, value)) = line.strip_prefix("cargo::").and_then(|line| line.split_once('=')) else {
            continue;
        };
        command = match key {
            "rustc-link-search" => command.args(["-L", value]),
            "rustc-link-lib" => command.args(["-l", value]),
            "rustc-link-arg" => command.arg("-C").arg(format!("link-arg={value}")),
            "rustc-env" => command.env(value.split_once('=').unwrap().0, value.split_once('=').unwrap().1),
            _ => command,
        };
    }
    let output = project.host.run(&command).unwrap();
    assert!(output.success(), "{lines}\n{}", output.stderr);
    Some(program)
}

const MAIN: &str = r#"mod backends { include!(env!("GPUBUILD_MODULES_RS")); }
unsafe extern "C" { fn reg_top() -> i32; }
fn main() {
    match backends::load() {
        Ok(count) => println!("{count} {:?} {}", backends::MODULES, unsafe { reg_top() }),
        Err(error) => println!("error: {error}"),
    }
}
"#;

/// Runs a program from the root folder with an empty environment.
fn from_elsewhere(project: &Project, program: &HostPath, variable: Option<(&str, &str)>) -> String {
    let mut command = gpubuild_host::Command::new("sh", std::time::Duration::from_secs(60)).args([
        "-c",
        "cd / && exec \"$0\"",
        program.as_str(),
    ]);
    if let Some((name, value)) = variable {
        command = command.env(name, value);
    }
    let output = project.host.run(&command).unwrap();
    assert!(output.success(), "{}", output.stderr);
    output.stdout
}

#[test]
fn program_loads_modules_from_any_working_directory() {
    let Some(project) = project(PROJECT) else { return };
    if project.host.platform().os != Os::Linux {
        return;
    }
    let trees = vec![base(&project), cuda(&project, "cuda-12", "12"), cuda(&project, "cuda-13", "0")];
    let outcome = built(&project, trees).unwrap();
    let kinds: Vec<(&str, &str)> = outcome
        .manifest
        .trees
        .iter()
        .flat_map(|tree| &tree.files)
        .map(|file| (file.target.as_str(), file.kind.as_str()))
        .collect();
    let module = "module";
    assert_eq!(
        kinds,
        [
            ("reg-cpu-new", module),
            ("reg-cpu-old", module),
            ("reg-base", "shared"),
            ("reg", "shared"),
            ("reg-cuda", module),
            ("reg-cuda", module)
        ]
    );
    let runtime = stage::runtime_folder(&project.path("build"));
    for name in [
        "libreg.so",
        "libreg-base.so.1",
        "libreg-cpu-old.so",
        "cuda-12/libreg-cuda.so",
        "cuda-13/libreg-cuda.so",
    ] {
        assert!(
            project.host.is_file(&runtime.join(name)),
            "{name} is missing in {:?}",
            project.host.list(&runtime)
        );
    }
    let Some(program) = rust_program(&project, &outcome.path, MAIN) else {
        crate::requirements::skip("rustc", "no rustc");
        return;
    };
    // The module of the later toolkit cannot be loaded here, so the other one is used.
    let names =
        r#"["libreg-cpu-new.so", "libreg-cpu-old.so", "cuda-12/libreg-cuda.so", "cuda-13/libreg-cuda.so"]"#;
    assert_eq!(from_elsewhere(&project, &program, None), format!("3 {names} 21\n"));
    // The build tree is no longer needed: nothing refers to it.
    project.host.rename(&project.path("build"), &project.path("moved")).unwrap();
    assert_eq!(from_elsewhere(&project, &program, None), format!("3 {names} 21\n"));
    let nowhere = from_elsewhere(&project, &program, Some(("GPUBUILD_MODULES", "/nowhere")));
    assert!(nowhere.contains("no backend could be loaded from `/nowhere`"), "{nowhere}");
    let moved = project.path("moved/runtime").to_string();
    assert!(from_elsewhere(&project, &program, Some(("GPUBUILD_MODULES", &moved))).starts_with("3 "));
}

#[test]
fn stale_module_is_removed() {
    let Some(project) = project(PROJECT) else { return };
    if project.host.platform().os != Os::Linux {
        return;
    }
    built(&project, vec![base(&project), cuda(&project, "cuda-12", "12")]).unwrap();
    let module = stage::runtime_folder(&project.path("build")).join("cuda-12/libreg-cuda.so");
    assert!(project.host.is_file(&module));
    built(&project, vec![base(&project)]).unwrap();
    assert!(!project.host.exists(&module));
}

#[test]
fn library_that_calls_a_module_is_rejected_before_linking() {
    let Some(project) = project(PROJECT) else { return };
    if project.host.platform().os != Os::Linux {
        return;
    }
    let mut tree = base(&project);
    tree.cache.insert("REG_DIRECT".into(), "ON".into());
    let error = built(&project, vec![tree]).unwrap_err();
    assert_eq!(error.id(), "build.module-called");
    let text = error.to_string();
    assert!(
        text.contains("`libreg.so` calls `module_answer`, which is in the module `libreg-cpu-"),
        "{text}"
    );
    assert!(error.hint().unwrap().contains("shared"));
}

#[test]
fn missing_module_is_reported() {
    let Some(project) = project(PROJECT) else { return };
    for (module, what) in [
        ("reg-vulkan", "it has no module `reg-vulkan`"),
        ("reg-base", "has the type `shared` instead of `module`"),
    ] {
        let mut tree = base(&project);
        tree.modules.push(module.to_owned());
        let error = built(&project, vec![tree]).unwrap_err();
        assert_eq!(error.id(), "build.incomplete");
        assert!(error.to_string().contains(what), "{error}");
    }
}
