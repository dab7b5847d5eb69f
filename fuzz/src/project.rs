//! `gpubuild.toml`, as `plan` and `build` read it.

use gpubuild::report;
use gpubuild_exec::cmake::initial_cache;
use gpubuild_host::recorded::{HostRecording, RecordedEntry, RecordedFile};
use gpubuild_host::{HostInfo as _, HostPath, Os, RecordedHost};
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request;
use gpubuild_plan::planning::{PlanRequest, plan};
use gpubuild_plan::project::source::Source;
use gpubuild_plan::project::{self, FILE_NAME, Project};

use super::machine::ExaminedMachine;
use super::output::{check_json, check_text};

/// Loads a project and plans its build on machines of each operating system.
pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (file, _) = match project::parse(FILE_NAME, text) {
        Ok(parsed) => parsed,
        Err(error) => {
            check_text(&error.to_string());
            return false;
        }
    };
    let mut is_planned = false;
    for machine in ExaminedMachine::all() {
        // Fetched sources are not on these machines.
        let source = match &file.project.source {
            Source::Folder(folder) => folder,
            Source::Fetched(_) => ".",
        };
        if let Some(project) = load(&machine.host, text, source) {
            is_planned |= make(machine, &project);
        }
    }
    is_planned
}

/// Loads the project on a host that has nothing but its file and its `CMakeLists.txt`.
fn load(machine: &RecordedHost, text: &str, source: &str) -> Option<Project> {
    let platform = machine.platform();
    let root = machine.path(if platform.os == Os::Windows { r"C:\project" } else { "/project" });
    let mut recording = HostRecording::new(platform);
    let add = |recording: &mut HostRecording, path: &HostPath, content: &str| {
        let entry = RecordedEntry::file(Some(content.as_bytes()));
        recording.files.push(RecordedFile { path: path.to_string(), entry });
    };
    add(&mut recording, &root.join(FILE_NAME), text);
    let script = root.join(source).join("CMakeLists.txt").normalized();
    add(&mut recording, &script, "project(p)\noption(P_CUDA \"\" OFF)\nadd_library(p p.c)\n");
    let host = RecordedHost::new(recording).ok()?;
    match project::load(&host, &root.join(FILE_NAME)) {
        Ok(project) => Some(project),
        Err(error) => {
            check_text(&error.to_string());
            None
        }
    }
}

fn make(machine: &ExaminedMachine, project: &Project) -> bool {
    let request = match request::resolve(None, machine.host.env(), Some(&project.file.project)) {
        Ok(request) => request,
        Err((origin, error)) => {
            check_text(&format!("{error} (from {origin})"));
            return false;
        }
    };
    let request = PlanRequest {
        host: &machine.host,
        machine: &machine.state,
        project,
        request: &request,
        linkage: project.file.project.linkage.unwrap_or_default(),
        missing: MissingBackend::Allow,
        jobs: None,
        cross: None,
        cuda_archs: None,
        native: false,
        provision: None,
    };
    match plan(&request) {
        Ok(plan) => {
            for tree in &plan.trees {
                assert!(tree.build.as_str().starts_with(project.build_root.as_str()), "{}", tree.build);
                if let Err(error) = initial_cache::render(&tree.cache) {
                    check_text(&error.to_string());
                }
            }
            check_text(&report::plan::text(&plan));
            let report = report::plan::PlanReport::new(&plan);
            check_json(&serde_json::to_string(&report).expect("a report is valid JSON"));
            true
        }
        Err(refusal) => {
            let reasons = refusal.blocked.iter().flat_map(|(_, reasons)| reasons).chain(&refusal.project);
            reasons.for_each(|reason| check_text(&reason.line()));
            false
        }
    }
}
