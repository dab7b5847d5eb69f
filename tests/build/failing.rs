//! Failed builds: what is reported and what still gets built.

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::Diagnostic;
use gpubuild_exec::exec::{BuildError, BuildEvent};
use gpubuild_host::{HostInfo, ReadFiles, WriteFiles};

use crate::support::{plan, project};

const TWO: &[(&str, &str)] = &[
    (
        "CMakeLists.txt",
        r#"cmake_minimum_required(VERSION 3.16)
project(two C)
option(T_CPU "" ON)
option(T_VULKAN "" OFF)
add_library(t-core STATIC core.c)
add_library(t-cpu STATIC cpu.c)
target_link_libraries(t-cpu PUBLIC t-core)
if(T_VULKAN)
  add_library(t-vulkan STATIC vulkan.c)
  target_link_libraries(t-vulkan PUBLIC t-core)
endif()
"#,
    ),
    ("core.c", "int core(void) { return 1; }\n"),
    ("cpu.c", "int cpu(void) { return 1; }\n"),
    ("vulkan.c", "int vulkan(void)\n{\n  return nope;\n}\n"),
];

const BOTH: [Backend; 2] = [Backend::Cpu, Backend::Vulkan];
const TARGETS: [&str; 3] = ["t-core", "t-cpu", "t-vulkan"];

#[test]
fn failing_automatic_backend_is_dropped() {
    let Some(project) = project(TWO) else { return };
    let cpu = || project.tree(&[Backend::Cpu], &TARGETS[..2], &[("T_CPU", "ON"), ("T_VULKAN", "OFF")]);
    let replan = |without: &[(Backend, String)]| {
        assert_eq!(without.len(), 1);
        assert_eq!(without[0].0, Backend::Vulkan);
        Ok(plan(vec![cpu()]))
    };
    let tree = project.tree(&BOTH, &TARGETS, &[("T_CPU", "ON"), ("T_VULKAN", "ON")]);
    let outcome = project.build_with(vec![tree], Some(&replan)).unwrap();
    assert_eq!(outcome.manifest.backends, [Backend::Cpu]);
    let events = project.events.lock().unwrap();
    let why = events.iter().find_map(|event| match event {
        BuildEvent::Dropped { backend: Backend::Vulkan, why } => Some(why.clone()),
        _ => None,
    });
    let why = why.expect("an event reports that vulkan is dropped");
    assert!(
        why.contains("vulkan.c:3:") && why.contains("nope") && why.ends_with("[build.compile-failed]"),
        "{why}"
    );
}

#[test]
fn failing_requested_backend_fails_the_build() {
    let Some(project) = project(TWO) else { return };
    let mut tree = project.tree(&BOTH, &TARGETS, &[("T_CPU", "ON"), ("T_VULKAN", "ON")]);
    tree.named = BOTH.to_vec();
    let replan = |_: &[(Backend, String)]| panic!("a requested backend is never dropped");
    let error = project.build_with(vec![tree], Some(&replan)).unwrap_err();
    let BuildError::Compile { error, log, .. } = &error else { panic!("{error}") };
    assert!(error.file.as_deref().is_some_and(|file| file.ends_with("vulkan.c")), "{error:?}");
    assert_eq!(error.line, Some(3));
    assert!(error.step.as_deref().is_some_and(|step| step.contains("t-vulkan")), "{error:?}");
    let text = project.host.read_text(&project.host.path(log)).unwrap();
    assert!(text.contains("nope") && text.contains("ninja: build stopped"), "the complete log is kept");
}

#[test]
fn unknown_options_are_rejected() {
    let Some(project) = project(TWO) else { return };
    let cache =
        [("T_CPU", "ON"), ("T_VULKAN", "OFF"), ("T_VULCAN", "ON"), ("CMAKE_CUDA_ARCHITECTURES", "80")];
    let error = project.build(vec![project.tree(&[Backend::Cpu], &TARGETS[..2], &cache)]).unwrap_err();
    let BuildError::UnusedEntries { names, .. } = &error else { panic!("{error}") };
    assert_eq!(names, &["T_VULCAN"]);
    assert_eq!(error.id(), "project.option-unused");
}

#[test]
fn unknown_target_error_lists_the_known_targets() {
    let Some(project) = project(TWO) else { return };
    let error = project.build(vec![project.tree(&[Backend::Cpu], &["t-cqu"], &[])]).unwrap_err();
    assert_eq!(error.id(), "build.configure-failed");
    let text = error.to_string();
    assert!(text.contains("no target `t-cqu`") && text.contains("t-core;t-cpu"), "{text}");
}

#[test]
fn silently_omitted_backend_is_reported() {
    let Some(project) = project(TWO) else { return };
    let mut tree = project.tree(&BOTH, &TARGETS[..2], &[("T_VULKAN", "OFF")]);
    tree.named = BOTH.to_vec();
    let error = project.build(vec![tree]).unwrap_err();
    assert_eq!(error.id(), "build.incomplete", "{error}");
    assert!(error.to_string().contains("`vulkan`"), "{error}");
}

#[test]
fn duplicate_symbol_fails_the_build() {
    let Some(project) = project(TWO) else { return };
    project.write("cpu.c", "int core(void) { return 2; }\n__attribute__((weak)) int w;\n");
    project.write("core.c", "int core(void) { return 1; }\n__attribute__((weak)) int w;\n");
    let error = project.build(vec![project.tree(&[Backend::Cpu], &TARGETS[..2], &[])]).unwrap_err();
    let BuildError::Duplicate { symbol, first, second, more } = &error else { panic!("{error}") };
    assert!(symbol.ends_with("core"));
    assert!(first.contains("t-core") && second.contains("t-cpu"), "{first} {second}");
    assert_eq!(*more, 0, "weak symbols may be defined twice");
    let again = project.build(vec![project.tree(&[Backend::Cpu], &TARGETS[..2], &[])]).unwrap_err();
    assert_eq!(again, error, "the second build reports it again");
}

#[cfg(unix)]
#[test]
fn unwritable_folder_is_reported() {
    let Some(project) = project(TWO) else { return };
    if project.host.identity().uid == Some(0) {
        // Root can write anywhere; a file at the folder's path causes the same error for root.
        project.host.write(&project.path("build"), b"in the way").unwrap();
    } else {
        project.host.create_dir_all(&project.path("build")).unwrap();
        project.output(&["chmod", "a-w", project.path("build").as_str()]);
    }
    let error = project.build(vec![project.tree(&[Backend::Cpu], &TARGETS[..2], &[])]).unwrap_err();
    assert!(error.to_string().contains(project.path("build").as_str()), "{error}");
    assert!(error.id().starts_with("file."), "{}", error.id());
}

#[test]
fn missing_cmake_is_reported() {
    let Some(mut project) = project(TWO) else { return };
    project.tools.cmake = None;
    let error = project.build(vec![project.tree(&[Backend::Cpu], &TARGETS[..2], &[])]).unwrap_err();
    assert_eq!(error.id(), "build.tool-missing");
}
