//! Exit codes after signals: 130 if gpubuild was asked to end, and 128 + N if signal N ended the program that it ran.
#![cfg(unix)]

use std::process::Stdio;
use std::time::Duration;

use crate::support::{RunResult, Sandbox};

#[test]
fn every_termination_signal_ends_a_build_with_130() {
    let Some(project) = Sandbox::with_library() else { return };
    let text = project.read("vendor/CMakeLists.txt");
    let slow = "add_custom_command(OUTPUT slow.h COMMAND ${CMAKE_COMMAND} -E touch started COMMAND \
                ${CMAKE_COMMAND} -E sleep 120 VERBATIM)\ntarget_sources(adder PRIVATE slow.h)\n";
    project.write("vendor/CMakeLists.txt", &format!("{text}{slow}"));
    let started = ".gpubuild/adder/cpu/started";
    for signal in ["INT", "TERM", "HUP"] {
        let mut command = project.command();
        let child = command.arg("build").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        for _ in 0..3000 {
            if project.exists(started) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(project.exists(started), "{signal}: the slow step did not start within a minute");
        project.send(signal, child.id());
        RunResult::from(child.wait_with_output().unwrap()).fails(130, "build.interrupted");
        project.remove(started);
    }
}
