//! Builds on a faulty disk, with kills and power failures at each change that a build makes. `GPUBUILD_CASES` sets the number of
//! cases of the long tests.

use gpubuild_core::Backend;
use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_exec::exec::{self, BuildError, BuildOutcome, TreeState};
use gpubuild_exec::store::maintain::{self, StoreLimits};
use gpubuild_host::Host;

use crate::faulty::{ERRORS, Fault, FaultyHost};
use crate::support::{Project, plan, project, store_in};

const LIST: &str = "cmake_minimum_required(VERSION 3.16)\nproject(r C)\n\
    add_library(r STATIC r.c)\nadd_library(q SHARED q.c)\n";

fn sources(number: usize) -> String {
    format!("int r(void) {{ return {number}; }}\n")
}

/// A project with a store.
fn sharing(folder: &tempfile::TempDir) -> Option<Project> {
    let files = [("CMakeLists.txt", LIST), ("r.c", &sources(0)), ("q.c", "int q(void) { return 4; }\n")];
    let mut project = project(&files)?;
    project.store = Some(store_in(folder, &project.host));
    Some(project)
}

fn build(project: &Project, host: &dyn Host) -> Result<BuildOutcome, BuildError> {
    let plan = plan(vec![project.tree(&[Backend::Cpu], &["r", "q"], &[])]);
    project.build_on(host, &plan, None, &|_| {})
}

/// What the library of a completed build returns.
fn answer(project: &Project) -> String {
    project.write("../main.c", "#include <stdio.h>\nint r(void);\nint main(void) { printf(\"%d\", r()); }\n");
    let (program, library) = (project.path("main"), project.path("build/cpu/libr.a"));
    project.output(&["cc", "-o", program.as_str(), project.path("main.c").as_str(), library.as_str()]);
    project.output(&[program.as_str()])
}

/// All entries of the store either have their recorded content, or are found to be damaged.
fn damaged_entries(project: &Project) -> usize {
    let items = maintain::items(&project.host, project.store.as_ref().unwrap());
    let sound = |item: &maintain::StoreItem| {
        item.entry.as_ref().is_ok_and(|entry| entry.verify(&project.host, &item.folder).is_ok())
    };
    items.iter().filter(|item| !sound(item)).count()
}

/// The changes of the disk that a build makes which compiles, or which restores its outputs.
fn changes(project: &Project, restores: bool) -> usize {
    prepare(project, 0, restores);
    let complete = FaultyHost::new(Fault::Kill, usize::MAX);
    let outcome = build(project, &complete).unwrap();
    assert_eq!(outcome.state, if restores { TreeState::Taken } else { TreeState::Built });
    complete.changes()
}

/// Starts a case: without build outputs, and with an entry in the store or without.
fn prepare(project: &Project, number: usize, restores: bool) {
    use gpubuild_host::WriteFiles as _;
    project.write("r.c", &sources(number));
    project.host.remove(&project.path("build")).unwrap();
    let all = StoreLimits { all: true, ..StoreLimits::default() };
    maintain::prune(&project.host, project.store.as_ref().unwrap(), all).unwrap();
    if restores {
        build(project, &project.host).unwrap();
        project.host.remove(&project.path("build")).unwrap();
    }
}

/// Builds with a fault at this change. Then a healthy disk: the next build is complete and correct, and the one after it has
/// nothing to do.
fn check(project: &Project, fault: Fault, at: usize, restores: bool, folder: &tempfile::TempDir) -> bool {
    let number = at + 1;
    prepare(project, number, restores);
    let folders = [project.folder.path().to_owned(), folder.path().to_owned()];
    let disk = FaultyHost::new(fault, at).knows(&folders);
    let outcome = build(project, &disk);
    let context = format!("{fault:?} at change {at}, restores: {restores}");
    if let Err(error) = &outcome {
        assert!(!error.id().starts_with("internal") && !error.to_string().is_empty(), "{context}: {error}");
    }
    if fault == Fault::Kill {
        disk.lose_unsynced(&folders);
    } else {
        assert_eq!(damaged_entries(project), 0, "{context}");
    }
    // After a power failure the system starts again.
    let mut healthy = FaultyHost::new(Fault::Kill, usize::MAX);
    healthy.boot = (fault == Fault::Kill).then_some("another");
    let next = build(project, &healthy).unwrap_or_else(|error| panic!("{context}, and then: {error}"));
    assert!(exec::changed_files(&project.host, &next.manifest).is_empty(), "{context}");
    assert_eq!(answer(project), number.to_string(), "{context}");
    let again = build(project, &healthy).unwrap();
    assert_eq!(again.state, TreeState::Unchanged, "{context}");
    outcome.is_err()
}

/// Evenly distributed points.
fn cover(fault: impl Fn(usize) -> Fault, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let Some(project) = sharing(&folder) else { return };
    for restores in [false, true] {
        let (changes, mut failed) = (changes(&project, restores), 0);
        let count = count.min(changes * ERRORS.len());
        for case in 0..count {
            failed += usize::from(check(&project, fault(case), case * changes / count, restores, &folder));
        }
        assert!(failed > 0, "{count} of {changes} changes");
    }
}

#[test]
fn crash_and_full_disk_lead_to_a_complete_build() {
    cover(|case| [Fault::Kill, ERRORS[3]][case], 2);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn crash_at_many_changes_leads_to_a_complete_build() {
    cover(|_| Fault::Kill, cases(20));
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_disk_faults_lead_to_a_complete_build() {
    cover(|case| ERRORS[case % ERRORS.len()], cases(14) / 2);
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own settings")]
fn cases(default: usize) -> usize {
    std::env::var("GPUBUILD_CASES").map_or(default, |count| count.parse().unwrap())
}
