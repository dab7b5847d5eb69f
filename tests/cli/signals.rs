//! Exit codes after signals: 128 + N, whether signal N reached gpubuild or ended the program that it ran.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{RunResult, Sandbox};

#[test]
fn every_termination_signal_ends_a_build_with_its_exit_code() {
    let Some(project) = Sandbox::with_library() else { return };
    let text = project.read("vendor/CMakeLists.txt");
    let slow = "add_custom_command(OUTPUT slow.h COMMAND ${CMAKE_COMMAND} -E touch started COMMAND \
                ${CMAKE_COMMAND} -E sleep 120 VERBATIM)\ntarget_sources(adder PRIVATE slow.h)\n";
    project.write("vendor/CMakeLists.txt", &format!("{text}{slow}"));
    let started = ".gpubuild/adder/cpu/started";
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let mut command = project.command();
        let arguments = ["build", "--message-format", "json"];
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        for _ in 0..3000 {
            if project.exists(started) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(project.exists(started), "{signal}: the slow step did not start within a minute");
        project.send(signal, child.id());
        let ran = RunResult::from(child.wait_with_output().unwrap());
        assert_eq!(ran.exit, Some(code), "{signal}: {ran:#?}");
        let last = ran.json_lines().pop().unwrap();
        assert_eq!((&last["exit"], &last["error"]["id"]), (&code.into(), &"build.interrupted".into()));
        project.remove(started);
    }
}

/// A diagnosis without the programs that the signal ended would be a wrong one.
#[test]
fn an_interrupted_diagnosis_prints_no_result() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        for arguments in [&["doctor"][..], &["doctor", "--json"]] {
            let sandbox = Sandbox::new();
            for name in
                ["nvcc", "hipcc", "icpx", "glslc", "vulkaninfo", "clinfo", "cmake", "ninja", "cc", "c++"]
            {
                let path = format!("bin/{name}");
                sandbox.write(&path, "#!/bin/sh\n: > \"$HOME/started\"\nexec sleep 60\n");
                std::fs::set_permissions(sandbox.path(&path), PermissionsExt::from_mode(0o755)).unwrap();
            }
            let mut command = sandbox.command();
            command.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("bin").display()));
            command.env("HOME", sandbox.path(".")).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            for _ in 0..3000 {
                if sandbox.exists("started") {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(sandbox.exists("started"), "the doctor started no program within a minute");
            sandbox.send(signal, child.id());
            let ran = RunResult::from(child.wait_with_output().unwrap());
            assert_eq!(ran.exit, Some(code), "{ran:#?}");
            assert!(ran.stderr.contains("[interrupted]"), "{ran:#?}");
            let printed =
                if arguments.len() == 1 { Value::Null } else { ran.json()["schema"]["name"].clone() };
            assert!(printed == "error" || ran.stdout.is_empty(), "{ran:#?}");
        }
    }
}

/// A shell or a supervisor that ignores SIGCHLD passes this on. The kernel then discards the exit statuses of all children.
#[cfg(target_os = "linux")]
#[test]
fn programs_are_waited_for_although_the_caller_ignores_the_end_of_children() {
    let sandbox = Sandbox::new();
    sandbox.write("bin/ccache", "#!/bin/sh\necho 'ccache version 4.9.1'\n");
    std::fs::set_permissions(sandbox.path("bin/ccache"), PermissionsExt::from_mode(0o755)).unwrap();
    let gpubuild = sandbox.command().get_program().to_owned();
    for shell in ["", "trap '' CHLD; "] {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("{shell}exec \"$0\" detect --probe --json")).arg(&gpubuild);
        command.envs(sandbox.command().get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", format!("{}:/usr/bin:/bin", sandbox.path("bin").display()));
        let ran = RunResult::from(command.current_dir(sandbox.path(".")).output().unwrap());
        assert_eq!(ran.exit, Some(0), "{shell}: {ran:#?}");
        let printed = ran.json();
        let tools = printed["tools"].as_array().unwrap();
        let version =
            tools.iter().find(|tool| tool["toolkit"] == "ccache").map(|tool| tool["version"].clone());
        assert_eq!(version, Some("4.9.1".into()), "{shell}: {ran:#?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_build_that_nohup_started_survives_the_end_of_the_terminal() {
    let Some(project) = Sandbox::with_library() else { return };
    let text = project.read("vendor/CMakeLists.txt");
    let wait = "execute_process(COMMAND sh -c \"touch started; while ! [ -e proceed ]; do sleep 0.02; done\" \
                WORKING_DIRECTORY ${CMAKE_BINARY_DIR})\n";
    project.write("vendor/CMakeLists.txt", &format!("{text}{wait}"));
    let direct = project.command();
    let mut command = Command::new("nohup");
    command.arg(direct.get_program()).arg("build").current_dir(project.path("."));
    for (name, value) in direct.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let folder = ".gpubuild/adder/cpu";
    for _ in 0..3000 {
        if project.exists(&format!("{folder}/started")) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    project.send("HUP", child.id());
    project.write(&format!("{folder}/proceed"), "");
    RunResult::from(child.wait_with_output().unwrap()).succeeds();
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_signal_leaves_no_process_that_ignores_the_first() {
    let Some(project) = Sandbox::with_library() else { return };
    let text = project.read("vendor/CMakeLists.txt");
    // Ninja starts it in a group of its own, as a compiler.
    project.write(
        "vendor/slow.sh",
        "trap '' TERM INT\necho $$ > pid.tmp\nmv pid.tmp pid\nwhile :; do sleep 1; done\n",
    );
    let slow = "add_custom_command(OUTPUT slow.h COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/slow.sh VERBATIM)\n\
                target_sources(adder PRIVATE slow.h)\n";
    project.write("vendor/CMakeLists.txt", &format!("{text}{slow}"));
    let pid = ".gpubuild/adder/cpu/pid";
    let child = project.command().arg("build").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..3000 {
        if project.exists(pid) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let slow = project.read(pid);
    project.send("INT", child.id());
    project.send("INT", child.id());
    let ran = RunResult::from(child.wait_with_output().unwrap());
    assert_eq!(ran.exit, Some(130), "{ran:#?}");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", slow.trim())).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}
