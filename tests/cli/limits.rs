//! Limits of processes, address space and inodes: the command works with less, or ends with a plain error. It never panics or hangs.
#![cfg(target_os = "linux")]

use crate::support::{RunResult, Sandbox, is_on_path, recorded, skip};

/// Runs the command in a shell after `prepare`, with a time limit. Checks the exit code and that nothing panicked.
fn run_limited(sandbox: &Sandbox, prepare: &str, arguments: &str) -> RunResult {
    let program = env!("CARGO_BIN_EXE_gpubuild");
    let ran = sandbox.start(&["sh", "-c", &format!("{prepare}\nexec timeout 120 {program} {arguments}")]);
    assert!(!ran.stderr.contains("panicked"), "{prepare}; {arguments}: {ran:#?}");
    assert!(matches!(ran.exit, Some(0 | 1 | 2 | 70)), "{prepare}; {arguments}: {ran:#?}");
    ran
}

/// Commands that start threads or processes.
fn command_lines() -> [String; 6] {
    let host = recorded("debian-12-bare");
    [
        "detect --json".to_owned(),
        "detect --probe --json".to_owned(),
        "doctor --json".to_owned(),
        format!("doctor --host {host} --json"),
        "build --backends cpu --json".to_owned(),
        "build --backends cpu --timings --json".to_owned(),
    ]
}

#[test]
fn a_small_address_space_is_enough_or_an_error() {
    let sandbox = Sandbox::with_c_library().unwrap_or_else(Sandbox::new);
    for arguments in command_lines() {
        run_limited(&sandbox, "ulimit -v 300000", &arguments);
    }
    run_limited(&sandbox, "ulimit -v 300000", "detect --json").succeeds();
}

#[test]
fn without_threads_the_command_works_or_names_the_reason() {
    let sandbox = Sandbox::with_c_library().unwrap_or_else(Sandbox::new);
    let is_root = std::os::unix::fs::MetadataExt::uid(&sandbox.path("").metadata().unwrap()) == 0;
    if !is_root || !is_on_path("setpriv") {
        skip("root", "the limit of processes applies to no user that this test can use");
        return;
    }
    // The user's program must be readable, and so must the folders.
    sandbox.start(&["chmod", "-R", "a+rwX", "."]).succeeds();
    let program = env!("CARGO_BIN_EXE_gpubuild");
    sandbox.start(&["cp", program, "gpubuild"]).succeeds();
    sandbox.start(&["chmod", "a+rx", "gpubuild"]).succeeds();
    for arguments in command_lines() {
        for limit in [1, 2, 3, 4, 8] {
            // Another user without other processes, so that the limit is exact.
            let script = format!(
                "setpriv --reuid 54322 --regid 54322 --clear-groups env HOME=/nonexistent GPUBUILD_SAFE_DIRECTORY='*' sh -c \
                 'ulimit -u {limit}; exec timeout 120 ./gpubuild {arguments}'"
            );
            let output = sandbox.start(&["sh", "-c", &script]);
            assert!(!output.stderr.contains("panicked"), "{limit} {arguments}: {output:#?}");
            // 125 and 126: timeout(1) itself cannot start a process.
            let expected = matches!(output.exit, Some(0 | 1 | 2 | 70 | 125 | 126));
            assert!(expected, "{limit} {arguments}: {output:#?}");
        }
    }
}

#[test]
fn a_file_system_without_inodes_is_reported_as_a_full_disk() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    // A private mount that ends with the process.
    let program = env!("CARGO_BIN_EXE_gpubuild");
    let script = |command: &str| {
        format!(
            "mkdir -p .gpubuild && mount -t tmpfs -o nr_inodes=20 none .gpubuild 2>/dev/null || exit 99\n\
             i=0; while touch .gpubuild/full-$i 2>/dev/null; do i=$((i+1)); done\n\
             GPUBUILD_STORE=off exec {program} {command}"
        )
    };
    let run = |command: &str| {
        sandbox.start(&["unshare", "--mount", "--map-root-user", "sh", "-c", &script(command)])
    };
    if !is_on_path("unshare") {
        skip("mount", "no unshare");
        return;
    }
    let ran = run("build --backends cpu --json");
    if ran.exit == Some(99) || ran.stderr.contains("unshare") {
        skip("mount", "no file system can be mounted");
        return;
    }
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    assert!(ran.stderr.contains("[disk.full]"), "{ran:#?}");
}

#[test]
fn writes_beyond_the_limit_of_the_file_size_are_errors_with_a_hint() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let limited = |command: &str| run_limited(&sandbox, "ulimit -f 0; export GPUBUILD_STORE=off", command);
    for (command, id) in [
        ("report report.md --offline", "report.unwritable"),
        ("host record machine.toml", "host.record-unwritable"),
        ("doctor --output report.txt --fail-on never", "doctor.output-unwritable"),
        ("doctor --save=state.json --fail-on never", "doctor.snapshot-unwritable"),
        ("new made --template cpp-library", "file.failed"),
        ("ci init", "file.failed"),
        ("build --backends cpu", "file.failed"),
    ] {
        let ran = limited(command);
        assert_eq!(ran.exit, Some(1), "{command}: {ran:#?}");
        ran.says(&[&format!("[{id}]"), "hint: ", "ulimit -f"]);
    }
    sandbox.run(&["build", "--backends", "cpu"]).succeeds();
    limited("export dist").fails(1, "export.failed").says(&["ulimit -f"]);
    // Some megabytes are enough for CMake's own files.
    run_limited(&sandbox, "ulimit -f 20000", "build --backends cpu").succeeds();
}

#[test]
fn a_full_temporary_folder_is_named_instead_of_the_build_folder() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    if !is_on_path("unshare") {
        skip("mount", "no unshare");
        return;
    }
    let program = env!("CARGO_BIN_EXE_gpubuild");
    let script = format!(
        "mkdir -p full && mount -t tmpfs -o size=64k none full 2>/dev/null || exit 99\n\
         head -c 65536 /dev/zero > full/filler 2>/dev/null\n\
         TMPDIR=$PWD/full GPUBUILD_STORE=off exec {program} build --backends cpu"
    );
    let ran = sandbox.start(&["unshare", "--mount", "--map-root-user", "sh", "-c", &script]);
    if ran.exit == Some(99) || ran.stderr.contains("unshare") {
        skip("mount", "no file system can be mounted");
        return;
    }
    ran.fails(1, "disk.full").says(&["/full`, where compilers write temporary files", "set TMPDIR"]);
}
