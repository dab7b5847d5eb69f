//! `gpubuild setup` on this machine with faults that a variable makes, with a package manager that the test replaces, and on recorded
//! machines.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// Runs `setup` with a variable that names a folder that does not exist.
fn with_wrong_variable(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    let output = sandbox.command().env("VULKAN_SDK", "/nonexistent").arg("setup").args(arguments).output();
    RunResult::from(output.unwrap())
}

#[test]
fn steps_of_a_recorded_machine_are_printed() {
    let sandbox = Sandbox::new();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/doctor/cuda.toolkit.missing.toml");
    let plan = sandbox.run(&["setup", "--backends", "cuda", "--host", recording, "--dry-run"]);
    let text = &plan.succeeds().stdout;
    for part in [
        "1. error: no CUDA Toolkit was found",
        "[cuda.toolkit.missing]",
        "   why: ",
        "   fix: install the",
        "     $ ",
    ] {
        assert!(text.contains(part), "`{part}` is missing in {text}");
    }
    assert!(text.lines().all(|line| line.starts_with("     $ ") || line.chars().count() <= 100), "{text}");
    sandbox
        .run(&["setup", "--backends", "cuda", "--host", recording, "--yes"])
        .fails(2, "setup.recorded")
        .says(&["--dry-run"]);
    let lines = sandbox
        .run(&["setup", "--backends", "cuda", "--host", recording, "--dry-run", "--json"])
        .succeeds()
        .json_lines();
    assert_eq!((&lines[0]["reason"], &lines[0]["number"]), (&"step".into(), &1.into()));
    let last = lines.last().unwrap();
    assert_eq!((&last["reason"], &last["remaining"][0]), (&"done".into(), &"cuda.toolkit.missing".into()));
}

#[test]
fn nothing_runs_without_confirmation() {
    let sandbox = Sandbox::new();
    let ran = with_wrong_variable(&sandbox, &[]);
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    ran.says(&["[setup.unattended]", "--yes"]);
    assert!(ran.stdout.contains("$ unset VULKAN_SDK"), "{ran:#?}");
    // `--quiet` hides prompts, so it confirms nothing either.
    assert_eq!(with_wrong_variable(&sandbox, &["--quiet"]).exit, Some(2));
    let ran = with_wrong_variable(&sandbox, &["--dry-run"]);
    assert!(ran.succeeds().stdout.contains("[vk.sdk-path-wrong]"), "{ran:#?}");
    sandbox.run(&["setup", "--sudo"]).says(&["--yes"]);
}

#[test]
fn the_doctor_confirms_that_a_step_worked() {
    let sandbox = Sandbox::new();
    let ran = with_wrong_variable(&sandbox, &["--yes"]);
    ran.says(&[
        "fixed: the doctor no longer reports vk.sdk-path-wrong",
        "repeat these commands in your shell",
        "  unset VULKAN_SDK",
    ]);
    assert_eq!(ran.stdout, "");
    let lines = with_wrong_variable(&sandbox, &["--yes", "--json"]).json_lines();
    let of = |reason: &str| lines.iter().filter(|line| line["reason"] == reason).collect::<Vec<_>>();
    assert_eq!(of("run")[0]["command"], "unset VULKAN_SDK");
    assert_eq!(of("step-done")[0]["outcome"], "fixed");
    assert_eq!(of("done")[0]["shell"], serde_json::json!(["unset VULKAN_SDK"]));
}

/// Runs argv on a new terminal, types a text, and prints what appears.
const TYPIST: &str = r#"
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
os.write(fd, sys.argv[1].encode())
out = b""
while True:
    try:
        data = os.read(fd, 4096)
    except OSError:
        break
    if not data:
        break
    out += data
sys.stdout.write(out.decode().replace("\r\n", "\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// Runs `setup` on a terminal where the user types a text.
fn typed(sandbox: &Sandbox, text: &str) -> RunResult {
    sandbox.write("typist.py", TYPIST);
    let program = env!("CARGO_BIN_EXE_gpubuild");
    let script = format!("VULKAN_SDK=/nonexistent python3 typist.py '{text}' {program} setup");
    sandbox.start(&["sh", "-c", &script])
}

#[test]
fn each_step_is_asked_about_on_a_terminal() {
    if !is_on_path("python3") {
        skip("python", "no python3");
        return;
    }
    let sandbox = Sandbox::new();
    let prompt = "run these commands? [y]es, [s]kip, [q]uit";
    // Other words are asked again.
    let ran = typed(&sandbox, "maybe\ny\nq\n");
    assert_eq!(ran.stdout.matches(prompt).count(), 2, "{ran:#?}");
    assert!(ran.stdout.contains("fixed: the doctor no longer reports vk.sdk-path-wrong"), "{ran:#?}");
    let ran = typed(&sandbox, "s\nq\n");
    assert!(
        ran.stdout.contains("   skipped") && !ran.stdout.contains("   $ unset VULKAN_SDK\n   fixed"),
        "{ran:#?}"
    );
    let ran = typed(&sandbox, "q\n");
    assert!(!ran.stdout.contains("fixed:") && ran.stdout.contains("the doctor now reports"), "{ran:#?}");
}

/// A package manager whose `install` runs a script; `None` if this machine's remedy for a missing toolkit does not use apt, or has a
/// toolkit.
fn with_apt(script: &str) -> Option<Sandbox> {
    let sandbox = Sandbox::new();
    let plan = setup(&sandbox, &["--dry-run", "--json"]).json_lines();
    let missing = plan.iter().find(|line| line["id"] == "cuda.toolkit.missing");
    let uses_apt = |step: &&Value| {
        step["commands"][0]["command"].as_str().is_some_and(|text| text.contains("apt -y install"))
    };
    if !missing.is_some_and(|step| uses_apt(&step)) {
        skip("apt", "a CUDA Toolkit is installed, or apt does not install it");
        return None;
    }
    let program = |name: &str, text: &str| {
        sandbox.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        let path = sandbox.path(&format!("bin/{name}"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("sudo", "exec \"$@\"");
    program("apt", &format!("echo \"apt $*\" >> \"$HOME/calls\"\n{script}"));
    Some(sandbox)
}

fn setup_command(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Command {
    let path =
        format!("{}:{}:/usr/bin:/bin", sandbox.path("bin").display(), sandbox.path("cuda/bin").display());
    let mut command = sandbox.command();
    command.env("HOME", sandbox.path("")).env("PATH", path);
    command.args(["setup", "--backends", "cuda"]).args(arguments);
    command
}

/// Runs `setup --backends cuda` with the programs of the test first on PATH.
fn setup(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    RunResult::from(setup_command(sandbox, arguments).output().unwrap())
}

/// The outcomes of the steps by id.
fn outcomes(lines: &[Value]) -> Vec<(String, String)> {
    let done = lines.iter().filter(|line| line["reason"] == "step-done");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    done.map(|line| (text(&line["id"]), text(&line["outcome"]))).collect()
}

/// A toolkit as the doctor finds it on PATH.
const INSTALLS: &str = r#"
mkdir -p "$HOME/cuda/bin" "$HOME/cuda/include" "$HOME/cuda/lib64"
printf '#!/bin/sh\necho "Cuda compilation tools, release 12.4, V12.4.131"\n' > "$HOME/cuda/bin/nvcc"
chmod 755 "$HOME/cuda/bin/nvcc"
echo '#define CUDA_VERSION 12040' > "$HOME/cuda/include/cuda.h"
cp "$HOME/cuda/include/cuda.h" "$HOME/cuda/include/cuda_runtime.h"
echo '{"cuda": {"version": "12.4.1"}}' > "$HOME/cuda/version.json"
: > "$HOME/cuda/lib64/libcudart.so""#;

#[test]
fn an_installed_package_fixes_its_finding() {
    let Some(sandbox) = with_apt(INSTALLS) else { return };
    let lines = setup(&sandbox, &["--yes", "--sudo", "--json"]).json_lines();
    let outcomes = outcomes(&lines);
    assert_eq!(outcomes[0], ("cuda.toolkit.missing".to_owned(), "fixed".to_owned()), "{lines:#?}");
    assert!(sandbox.read("calls").starts_with("apt -y install "), "{}", sandbox.read("calls"));
    let done = lines.last().unwrap();
    assert!(!done["remaining"].as_array().unwrap().contains(&"cuda.toolkit.missing".into()), "{done}");
}

#[test]
fn a_failing_command_ends_its_step_but_not_the_guide() {
    let Some(sandbox) = with_apt("echo 'E: Unable to locate package' >&2; exit 100") else { return };
    let ran = setup(&sandbox, &["--yes", "--sudo", "--json"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let lines = ran.json_lines();
    let failed = lines.iter().find(|line| line["outcome"] == "failed").unwrap();
    assert_eq!(failed["message"], "ended with status 100: E: Unable to locate package");
    assert!(outcomes(&lines).len() > 1, "the missing card is another step: {lines:#?}");
    let text = setup(&sandbox, &["--yes", "--sudo"]);
    text.says(&["failed: the command ended with status 100: E: Unable to locate package"]);
}

#[test]
fn a_command_that_changes_nothing_is_reported() {
    let Some(sandbox) = with_apt("exit 0") else { return };
    let ran = setup(&sandbox, &["--yes", "--sudo"]);
    ran.says(&["not fixed: the doctor still reports cuda.toolkit.missing"]);
    assert_eq!(sandbox.read("calls").lines().count(), 1, "each step runs once");
}

#[test]
fn steps_that_ask_for_root_need_permission() {
    let Some(sandbox) = with_apt("exit 0") else { return };
    let lines = setup(&sandbox, &["--yes", "--json"]).json_lines();
    let step = lines.iter().find(|line| line["id"] == "cuda.toolkit.missing").unwrap();
    if step["mode"] == "root" {
        assert_eq!(outcomes(&lines)[0].1, "needs-root");
        assert!(!sandbox.exists("calls"), "nothing was run");
    } else {
        // Commands have no `sudo` for root.
        assert_eq!(outcomes(&lines)[0].1, "remains");
    }
}

#[test]
fn an_interrupt_ends_the_command_and_the_guide() {
    let Some(sandbox) = with_apt("echo $$ > \"$HOME/pid\"; sleep 100") else { return };
    let mut command = setup_command(&sandbox, &["--yes", "--sudo"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut waited = 0;
    while !sandbox.exists("pid") || !sandbox.read("pid").ends_with('\n') {
        waited += 1;
        assert!(waited < 3000, "the command does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    sandbox.send("INT", child.id());
    let ran = RunResult::from(child.wait_with_output().unwrap());
    ran.fails(130, "setup.interrupted").says(&["was interrupted"]);
    // Without an init process that reaps it, it stays as a zombie.
    #[expect(clippy::disallowed_methods, reason = "a test looks at its own process")]
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", sandbox.read("pid").trim()));
    assert!(
        stat.as_ref().map_or(true, |stat| stat.contains(") Z ")),
        "the package manager still runs: {stat:?}"
    );
}
