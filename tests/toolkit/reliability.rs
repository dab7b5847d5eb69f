//! Generated cases for `gpubuild toolkit`: kills of installations, and actors that run at once. `GPUBUILD_CASES` sets the
//! number of cases of the long tests.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::kill::{Victim, cases, temporary_names};
use crate::sandbox::{RunResult, Sandbox};

/// Kills installations with each installer. No child is left, and the next call completes and removes what is partial.
fn kill_installations(kills: usize, sandbox: &Sandbox) {
    let temporary = sandbox.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let install = || -> Command {
        let mut command = sandbox.command(&Sandbox::INSTALL);
        command.env("TMPDIR", &temporary);
        command
    };
    let folders: Vec<PathBuf> = vec![sandbox.path("cache"), temporary.clone()];
    let mut victim = Victim::new(19, folders.clone(), &mut install());
    let mut round = 0;
    while victim.needs_more(kills, round) {
        round += 1;
        sandbox.run(&["toolkit", "remove", "cuda"]).succeeds();
        victim.kill(&mut install());
        if sandbox.exists("cache/toolkits/cuda-13.0") {
            sandbox.run(&["toolkit", "verify"]).succeeds();
        } else {
            sandbox.holds_nothing();
        }
        RunResult::from(install().output().unwrap()).succeeds();
        sandbox.run(&["toolkit", "verify"]).succeeds();
        assert_eq!(temporary_names(&folders), Vec::<PathBuf>::new(), "round {round}");
    }
}

#[test]
fn killed_install_leaves_nothing_partial() {
    let Some(sandbox) = Sandbox::new() else { return };
    kill_installations(2, &sandbox);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_installs_leave_nothing_partial() {
    for sandbox in [Sandbox::new(), Sandbox::with_uv()].into_iter().flatten() {
        kill_installations(cases(10) / 2, &sandbox);
    }
}

/// Two installations, a removal and two readers at once.
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn concurrent_installs_and_removals_leave_a_complete_toolkit_or_none() {
    let Some(sandbox) = Sandbox::new() else { return };
    let calls: [Vec<&str>; 5] = [
        Sandbox::INSTALL.to_vec(),
        vec!["toolkit", "remove", "cuda"],
        vec!["toolkit", "list"],
        [&Sandbox::INSTALL[..], &["--with", "cublas"]].concat(),
        vec!["detect", "--json"],
    ];
    for round in 0..cases(5).div_ceil(2) {
        let children = calls
            .each_ref()
            .map(|call| sandbox.command(call).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        for (call, child) in calls.iter().zip(children) {
            let ran = RunResult::from(child.wait_with_output().unwrap());
            let is_missing = call[1] == "remove" && ran.stderr.contains("[toolkit.not-installed]");
            assert!(ran.exit == Some(0) || is_missing, "round {round}: {call:?}: {ran:#?}");
        }
        if sandbox.exists("cache/toolkits/cuda-13.0") {
            sandbox.run(&["toolkit", "verify"]).succeeds();
        } else {
            sandbox.holds_nothing();
        }
    }
    sandbox.install(&[]).succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
}
