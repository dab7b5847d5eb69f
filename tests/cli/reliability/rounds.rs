//! Actors that run at once on one project, one store and one cache.
#![expect(clippy::disallowed_methods, reason = "a test reads its own files")]

use std::process::Stdio;

use super::common::{Random, cases};
use super::{LIBRARY, RunResult, UNITS, answers, command, project, run, set, store_is_complete};

/// What the actors do. Each has the ids of the errors that it may report.
const ACTORS: [(&[&str], &[&str]); 8] = [
    (&["build"], &[]),
    (&["clean"], &["build.running"]),
    (&["cache", "prune", "--all"], &[]),
    (&["link"], &["manifest.missing", "manifest.stale"]),
    (&["export", "dist"], &["manifest.missing", "manifest.stale", "export.failed"]),
    (&["cache", "list"], &[]),
    (&["build", "--no-store"], &[]),
    (&["plan"], &[]),
];

/// A build, and four others chosen by the generator.
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn concurrent_commands_leave_a_complete_library() {
    let Some(sandbox) = project() else { return };
    let mut random = Random::new(23);
    for round in 0..cases(10) {
        let number = round / 3 % 90;
        set(&sandbox, number);
        let actors: Vec<_> = [0].into_iter().chain((0..4).map(|_| random.below(ACTORS.len()))).collect();
        let children: Vec<_> = actors
            .iter()
            .map(|actor| {
                let mut command = command(&sandbox, ACTORS[*actor].0);
                command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for (actor, child) in actors.iter().zip(children) {
            let (call, errors) = ACTORS[*actor];
            let ran = RunResult::from(child.wait_with_output().unwrap());
            let is_allowed = errors.iter().any(|id| ran.stderr.contains(&format!("[{id}]")));
            assert!(ran.is_success() || is_allowed, "round {round}: {call:?}: {ran:#?}");
        }
        store_is_complete(&sandbox);
        if let Ok(bytes) = std::fs::read(sandbox.path(LIBRARY)) {
            let members = String::from_utf8_lossy(&bytes).matches(".c.o/").count();
            assert_eq!(members, UNITS + 1, "round {round}: {actors:?}");
        }
        if round % 5 == 0 {
            run(&sandbox, &["build"]).succeeds();
            answers(&sandbox, LIBRARY, number);
        }
    }
}
