//! `gpubuild doctor --log`, and the causes that a failed build reports.

use crate::support::{Sandbox, recorded};

const MEMORY: &str = "[1/2] Building CXX object a.o\nc++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\nninja: build stopped: subcommand failed.\n";

#[test]
fn recognised_failure_exits_with_1_and_its_cause() {
    let sandbox = Sandbox::new();
    sandbox.write("build.log", MEMORY);
    let ran = sandbox.run(&["doctor", "--log", "build.log"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let first = ran.stdout.lines().next().unwrap();
    assert!(first.contains("ran out of memory") && ran.stdout.contains("[build.out-of-memory]"), "{ran:#?}");
    assert!(ran.stdout.contains("fix: ") && ran.stdout.contains("build.log:2"), "{ran:#?}");
    let ran = sandbox.run(&["doctor", "--log", "build.log", "--json"]);
    let finding = &ran.json()["findings"][0];
    assert_eq!(finding["id"], "build.out-of-memory");
    assert_eq!(finding["evidence"][0]["where"], "build.log:2");
    assert_eq!(finding["severity"], "error");
    let ran = sandbox.run(&["doctor", "--log", "build.log", "--fail-on", "never"]);
    ran.succeeds();
}

#[test]
fn log_without_a_known_failure_is_reported_as_such() {
    let sandbox = Sandbox::new();
    sandbox.write("odd.log", "[1/2] a\nodd.c:3:5: error: the moon is full\n");
    let ran = sandbox.run(&["doctor", "--log", "odd.log"]);
    assert!(ran.succeeds().stdout.contains("nothing recognised in 2 lines"), "{ran:#?}");
    assert!(ran.stdout.contains("odd.c:3:5: the moon is full"), "{ran:#?}");
    assert!(!ran.stdout.contains('✓'), "{ran:#?}");
    sandbox.write("fine.log", "[1/2] a\n[2/2] b\n");
    let ran = sandbox.run(&["doctor", "--log", "fine.log"]);
    assert!(ran.succeeds().stdout.contains("none of them looks like an error"), "{ran:#?}");
}

#[test]
fn unreadable_log_is_a_usage_error() {
    let sandbox = Sandbox::new();
    sandbox.run(&["doctor", "--log", "nowhere.log"]).fails(2, "doctor.log-unreadable");
    sandbox.run(&["doctor", "--log", "."]).fails(2, "doctor.log-unreadable");
}

#[test]
fn remedy_commands_match_the_host() {
    let sandbox = Sandbox::new();
    sandbox.write("a.log", "x.cpp:1:10: fatal error: spirv/unified1/spirv.hpp: No such file or directory\n");
    for (host, command) in [
        ("ubuntu-22.04-rtx4090", "apt install spirv-headers"),
        ("fedora-41-hybrid", "dnf install spirv-headers-devel"),
        ("macos-15-m3", "brew install spirv-headers"),
    ] {
        let ran = sandbox.run(&["doctor", "--log", "a.log", "--host", &recorded(host)]);
        assert_eq!(ran.exit, Some(1));
        assert!(ran.stdout.contains(command), "{ran:#?}");
    }
}

#[test]
fn failed_build_prints_cause_and_fix() {
    let Some(project) = Sandbox::with_library() else { return };
    project.write("vendor/adder.c", "#include <nowhere/to_be_found.h>\n");
    let ran = project.run(&["build"]);
    ran.fails(1, "build.compile-failed").says(&[
        "adder.c:1:",
        "cause: the compiler does not find `nowhere/to_be_found.h` [build.header-missing]",
        "fix: install the development package",
        "hint: the full log is `",
    ]);
    let ran = project.run(&["build", "--message-format", "json", "--no-binary"]);
    let lines = ran.json_lines();
    let failed = lines.iter().find(|line| line["reason"] == "failed").unwrap();
    let cause = &failed["causes"][0];
    assert_eq!(cause["id"], "build.header-missing");
    let place = cause["evidence"][0]["where"].as_str().unwrap();
    let (file, line) = place.rsplit_once(':').unwrap();
    let log = project.read(file);
    let quoted = log.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
    assert!(quoted.contains("to_be_found"), "{place}: {quoted}");
    assert_eq!(lines.last().unwrap()["error"]["findings"][0]["id"], "build.header-missing");
}
