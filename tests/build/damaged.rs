//! Artifacts that change outside gpubuild after they are built.

use gpubuild_core::Backend;
use gpubuild_exec::exec::{self, TreeState};
use gpubuild_exec::store::maintain::{self, StoreLimits};
use gpubuild_host::{HostInfo, ReadFiles, WriteFiles};

use crate::support::{Project, project, store_in};

/// Several members, so that a truncated archive can still be a valid archive.
const LIST: &str = "cmake_minimum_required(VERSION 3.16)\nproject(d C)\n\
    add_library(d STATIC a.c b.c c.c)\nadd_library(e SHARED e.c)\n";

fn sources() -> Option<Project> {
    project(&[
        ("CMakeLists.txt", LIST),
        ("a.c", "int a(void) { return 1; }\n"),
        ("b.c", "int b(void) { return 2; }\n"),
        ("c.c", "int c(void) { return 3; }\n"),
        ("e.c", "int e(void) { return 4; }\n"),
    ])
}

fn build(project: &Project) -> exec::BuildOutcome {
    project.build(vec![project.tree(&[Backend::Cpu], &["d", "e"], &[])]).unwrap()
}

/// Damaged variants of a file: truncated at five lengths, zeroed, one bit flipped, replaced.
fn damages(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let text = |needle: &[u8]| good.windows(needle.len()).position(|window| window == needle);
    let last_member = text(b"c.c.o/").unwrap_or(good.len() * 3 / 4);
    let mut flipped = good.to_vec();
    flipped[good.len() / 2] ^= 1;
    let mut found: Vec<(&'static str, Vec<u8>)> =
        [("emptied", 0), ("cut to 8", 8), ("cut to half", good.len() / 2), ("last member cut", last_member)]
            .into_iter()
            .map(|(name, length)| (name, good[..length].to_vec()))
            .collect();
    found.push(("last byte cut", good[..good.len() - 1].to_vec()));
    found.push(("zeroed", vec![0; good.len()]));
    found.push(("one bit", flipped));
    found.push(("replaced", b"!<arch>\n".to_vec()));
    found
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shared {
    Off,
    On,
    /// The store entry is pruned before the rebuild needs it.
    Pruned,
}

#[test]
fn damaged_artifact_is_rebuilt() {
    for shared in [Shared::Off, Shared::On, Shared::Pruned] {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut project) = sources() else { return };
        if shared != Shared::Off {
            project.store = Some(store_in(&folder, &project.host));
        }
        let first = build(&project);
        for artifact in &first.manifest.trees[0].files {
            let path = project.host.path(&artifact.path);
            let good = project.host.read(&path).unwrap();
            for (damage, bytes) in damages(&good) {
                let context = format!("{shared:?}: {} {damage}", artifact.target);
                // Writes in place, as a failing disk or an interrupted tool does, instead of renaming.
                #[expect(clippy::disallowed_methods, reason = "the damage bypasses gpubuild")]
                std::fs::write(path.as_str(), &bytes).unwrap();
                assert_eq!(exec::changed_files(&project.host, &first.manifest), [path.as_str()], "{context}");
                if let (Shared::Pruned, Some(store)) = (shared, &project.store) {
                    let all = StoreLimits { all: true, ..StoreLimits::default() };
                    maintain::prune(&project.host, store, all).unwrap();
                }
                let again = build(&project);
                assert_ne!(again.state, TreeState::Unchanged, "{context}");
                assert_eq!(again.manifest, first.manifest, "{context}");
                assert!(exec::changed_files(&project.host, &first.manifest).is_empty(), "{context}");
                assert_eq!(project.host.read(&path).unwrap(), good, "{context}");
                assert_eq!(build(&project).state, TreeState::Unchanged, "{context}");
            }
        }
    }
}

#[test]
fn touched_artifact_is_not_rebuilt() {
    let Some(project) = sources() else { return };
    let first = build(&project);
    let path = first.manifest.trees[0].files[0].path.clone();
    project.output(&["touch", &path]);
    assert!(exec::changed_files(&project.host, &first.manifest).is_empty());
}

#[test]
fn artifacts_without_a_stamp_are_rebuilt() {
    let Some(project) = sources() else { return };
    let first = build(&project);
    for gone in ["build/cpu/gpubuild/stamp.json", "build/manifest.json"] {
        project.host.remove(&project.path(gone)).unwrap();
    }
    let path = project.host.path(&first.manifest.trees[0].files[0].path);
    project.host.write(&path, b"").unwrap();
    let again = build(&project);
    assert_eq!(again.manifest, first.manifest);
}
