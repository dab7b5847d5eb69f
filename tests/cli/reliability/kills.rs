//! A kill at any time: no process is left, the last result stays usable, and the next call completes and cleans up.

use std::path::PathBuf;

use super::common::{Victim, cases, temporary_names};
use super::{LIBRARY, Sandbox, answers, command, project, run, set, store_is_complete};

/// Removes build outputs. [`Victim::kill`] has waited for the processes of a killed build, so this always succeeds.
fn clean(sandbox: &Sandbox) {
    run(sandbox, &["clean"]).succeeds();
}

fn folders(sandbox: &Sandbox) -> Vec<PathBuf> {
    [".gpubuild", "store", "cache", "tmp", "dist"].map(|name| sandbox.path(name)).to_vec()
}

#[track_caller]
fn is_tidy(sandbox: &Sandbox, at: &str) {
    assert_eq!(temporary_names(&folders(sandbox)), Vec::<PathBuf>::new(), "{at}");
}

/// The library is as it was before the kill or complete, or the manifest is missing or stale.
fn is_usable(sandbox: &Sandbox, allowed: &[usize], at: &str) {
    let linked = run(sandbox, &["link", "--format", "plain"]);
    if linked.is_success() {
        sandbox.write("main.c", "int unit0(void);\nint main(void) { return unit0(); }\n");
        let mut cc = vec!["cc", "-o", "main", "main.c"];
        cc.extend(linked.stdout.split_whitespace());
        sandbox.start(&cc).succeeds();
        let answer = sandbox.start(&["./main"]).exit.unwrap();
        assert!(allowed.contains(&usize::try_from(answer).unwrap()), "{at}: {answer}, expected {allowed:?}");
    } else {
        let known = ["[manifest.missing]", "[manifest.stale]"];
        assert!(known.iter().any(|id| linked.stderr.contains(id)), "{at}: {linked:#?}");
    }
}

/// Kills builds, with the store or without. Every other round starts without build outputs.
fn kill_builds(kills: usize, store: &str) {
    let Some(sandbox) = project() else { return };
    let build = || {
        let mut build = command(&sandbox, &["build"]);
        if store == "off" {
            build.env("GPUBUILD_STORE", "off");
        }
        build
    };
    let mut victim = Victim::new(11, folders(&sandbox), &mut build());
    let (mut last, mut round) = (0, 0);
    while victim.needs_more(kills, round) {
        round += 1;
        // With the store, the content of an earlier round returns.
        let number = if store == "off" { round % 90 } else { round / 2 % 90 };
        set(&sandbox, number);
        if round % 2 == 0 {
            clean(&sandbox);
        }
        let at = format!("round {round}");
        victim.kill(&mut build());
        is_usable(&sandbox, &[last, number], &at);
        store_is_complete(&sandbox);
        if round % 3 == 0 {
            assert!(build().output().unwrap().status.success(), "{at}");
            answers(&sandbox, LIBRARY, number);
            last = number;
        } else if run(&sandbox, &["link"]).is_success() {
            last = number_of_manifest(&sandbox, last, number);
        }
    }
    set(&sandbox, 0);
    assert!(build().output().unwrap().status.success());
    answers(&sandbox, LIBRARY, 0);
    // Temporary files stay in the build folder until `clean`, and in the store until `cache prune`.
    clean(&sandbox);
    prune(&sandbox);
    is_tidy(&sandbox, "at the end");
}

/// Removes temporary files that no running process can be using.
fn prune(sandbox: &Sandbox) {
    for path in &temporary_names(&folders(sandbox)) {
        make_old(path);
    }
    run(sandbox, &["cache", "prune"]).succeeds();
}

/// The number that the linked library returns: the one before the kill or the new one.
fn number_of_manifest(sandbox: &Sandbox, before: usize, new: usize) -> usize {
    let answer = usize::try_from(sandbox.start(&["./main"]).exit.unwrap()).unwrap();
    if answer == new { new } else { before }
}

/// Kills `clean` and `cache prune --all` in turn.
fn kill_cleaning(kills: usize) {
    let Some(sandbox) = project() else { return };
    run(&sandbox, &["build"]).succeeds();
    let calls: [&[&str]; 2] = [&["cache", "prune", "--all"], &["clean"]];
    let mut victims = calls.map(|call| {
        run(&sandbox, &["build"]).succeeds();
        Victim::new(13, folders(&sandbox), &mut command(&sandbox, call))
    });
    for (call, victim) in calls.iter().zip(&mut victims) {
        let mut round = 0;
        while victim.needs_more(kills / 2, round) {
            round += 1;
            run(&sandbox, &["build"]).succeeds();
            victim.kill(&mut command(&sandbox, call));
            let at = format!("{call:?} in round {round}");
            store_is_complete(&sandbox);
            is_usable(&sandbox, &[0], &at);
            run(&sandbox, call).succeeds();
            prune(&sandbox);
            is_tidy(&sandbox, &at);
        }
    }
    run(&sandbox, &["build"]).succeeds();
    answers(&sandbox, LIBRARY, 0);
}

/// Kills exports. Each file is the old or the new one, and the next export is complete.
fn kill_exports(kills: usize) {
    let Some(sandbox) = project() else { return };
    let export = || command(&sandbox, &["export", "dist"]);
    run(&sandbox, &["build"]).succeeds();
    let mut victim = Victim::new(17, folders(&sandbox), &mut export());
    let mut round = 0;
    while victim.needs_more(kills, round) {
        round += 1;
        if round % 4 == 0 {
            sandbox.start(&["rm", "-rf", "dist"]).succeeds();
        }
        let (old, new) = ((round - 1) % 90, round % 90);
        set(&sandbox, new);
        run(&sandbox, &["build"]).succeeds();
        victim.kill(&mut export());
        if sandbox.exists("dist/lib/libadder.a") {
            sandbox.write("main.c", "int unit0(void);\nint main(void) { return unit0(); }\n");
            sandbox.start(&["cc", "-o", "main", "main.c", "dist/lib/libadder.a", "-lm"]).succeeds();
            let answer = usize::try_from(sandbox.start(&["./main"]).exit.unwrap()).unwrap();
            assert!([old, new].contains(&answer), "round {round}: {answer}");
        }
        for path in &temporary_names(&folders(&sandbox)) {
            make_old(path);
        }
        run(&sandbox, &["export", "dist"]).succeeds();
        answers(&sandbox, "dist/lib/libadder.a", new);
        assert!(sandbox.read("dist/include/adder.h").contains(&format!("ADDER {new}\n")));
        assert_eq!(temporary_names(&[sandbox.path("dist")]), Vec::<PathBuf>::new(), "round {round}");
    }
}

#[test]
fn killed_commands_leave_no_process_and_usable_state() {
    kill_builds(1, "on");
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_builds_without_a_store_leave_usable_state() {
    kill_builds(cases(10), "off");
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_builds_with_a_store_leave_usable_state() {
    kill_builds(cases(50), "on");
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_cleanings_leave_usable_state() {
    kill_cleaning(cases(10));
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_exports_leave_usable_state() {
    kill_exports(cases(10));
}

/// Sets the modification time of a file or folder to an hour ago.
#[expect(clippy::disallowed_methods, reason = "a test changes its own files")]
fn make_old(path: &std::path::Path) {
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::open(path).unwrap().set_modified(hour_ago).unwrap();
}
