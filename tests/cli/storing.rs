//! The build store on the command line: its commands, a killed build and full disks.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::process::Stdio;

use serde_json::Value;

use crate::support::{RunResult, Sandbox, skip};

/// The command with its own store.
fn with_store(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Command {
    let mut command = sandbox.command();
    command.env("GPUBUILD_STORE", sandbox.path("store")).args(arguments);
    command
}

fn run(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    RunResult::from(with_store(sandbox, arguments).output().unwrap())
}

fn entries(sandbox: &Sandbox) -> Vec<Value> {
    let document = run(sandbox, &["cache", "list", "--json"]).succeeds().json();
    let all = document["entries"].as_array().unwrap().iter();
    all.filter(|entry| entry["kind"] == "tree").cloned().collect()
}

/// Programs in gpubuild's cache, in place of those that it downloads if the machine has none.
#[cfg(unix)]
#[test]
fn cache_commands_know_fetched_tools() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let programs = ["sh", "cc", "c++", "gcc", "g++", "ar", "ranlib", "ld", "as", "uname"];
    let run = |arguments: &[&str]| {
        let mut command = sandbox.command_with_only(&programs).unwrap();
        command.env("GPUBUILD_STORE", sandbox.path("store")).args(arguments);
        RunResult::from(command.output().unwrap())
    };
    let planned = run(&["plan", "--json"]).succeeds().json();
    for (tool, program) in [("cmake", "cmake/data/bin/cmake"), ("ninja", "bin/ninja")] {
        let all = planned["fetch"].as_array().unwrap();
        let fetch = all.iter().find(|fetch| fetch["tool"] == tool).unwrap();
        let version = fetch["version"].as_str().unwrap();
        let folder = format!("cache/tools/{tool}-{version}");
        sandbox.write(
            &format!("{folder}/verified.json"),
            &serde_json::json!({"package": tool, "version": version, "program": program}).to_string(),
        );
        let path = sandbox.path(&format!("{folder}/{program}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let real =
            sandbox.start(&["sh", "-c", &format!("command -v {tool}")]).succeeds().stdout.trim().to_owned();
        std::os::unix::fs::symlink(real, path).unwrap();
    }
    run(&["build", "--offline"]).succeeds();
    let explained = run(&["cache", "explain", "--json"]).succeeds().json();
    assert_eq!(explained["trees"][0]["hit"], true, "{explained:#}");
}

#[test]
fn cache_commands_list_explain_and_prune() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    assert!(entries(&sandbox).is_empty());
    let explained = run(&sandbox, &["cache", "explain", "--json"]).succeeds().json();
    assert_eq!(explained["trees"][0]["hit"], false);
    run(&sandbox, &["build", "--explain"])
        .succeeds()
        .says(&["[cpu] miss: nothing is stored", "[cpu] stored "]);
    let all = entries(&sandbox);
    assert_eq!((all.len(), &all[0]["label"]), (1, &Value::from("adder cpu")));
    run(&sandbox, &["clean"]).succeeds();
    let explained = run(&sandbox, &["cache", "explain", "cpu", "--json"]).succeeds().json();
    assert_eq!(explained["trees"][0]["hit"], true);
    assert!(explained["trees"][0]["parts"]["sources"].is_string());
    run(&sandbox, &["build", "--explain"])
        .succeeds()
        .says(&["[cpu] hit: key", "restored from the build store"]);
    sandbox.write("vendor/adder.c", "double add(double x) { return x + 2.0; }\n");
    run(&sandbox, &["build", "--explain"])
        .succeeds()
        .says(&["compared with the last build in this folder", "sources: `adder.c` changed"]);
    assert_eq!(
        run(&sandbox, &["cache", "size", "--json"]).succeeds().json()["count"],
        4,
        "two trees, two targets"
    );
    run(&sandbox, &["cache", "explain", "vulkan"])
        .fails(2, "cache.no-tree")
        .says(&["hint: available trees: cpu"]);
    run(&sandbox, &["cache", "prune", "--max-size", "much"]).fails(2, "cache.setting-invalid");
    let pruned = run(&sandbox, &["cache", "prune", "--older-than", "30d", "--json"]).succeeds().json();
    assert_eq!(pruned["removed"], Value::Array(Vec::new()));
    let pruned = run(&sandbox, &["cache", "prune", "--all", "--json"]).succeeds().json();
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 4);
    assert!(entries(&sandbox).is_empty());
    prune_follows_no_link(&sandbox);
    file_in_place_of_the_locks_is_named(&sandbox);
    run(&sandbox, &["build", "--no-store"]).succeeds();
    assert!(entries(&sandbox).is_empty());
}

/// What a script reads from the environment belongs to the result: its own variables, and folders of packages.
#[test]
fn variables_that_scripts_name_are_part_of_the_key() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let list = "cmake_minimum_required(VERSION 3.18)\nproject(adder C)\nfind_package(Foo CONFIG QUIET)\nadd_library(adder STATIC adder.c)\ntarget_compile_definitions(adder PRIVATE \"FLAVOUR=\\\"_$ENV{FLAVOUR}_${FOO}_\\\"\")\n";
    sandbox.write("vendor/CMakeLists.txt", list);
    sandbox.write(
        "vendor/adder.c",
        "const char *flavour = FLAVOUR;\ndouble add(double x) { return x + 1.0; }\n",
    );
    for name in ["one", "two"] {
        sandbox.write(&format!("{name}/FooConfig.cmake"), &format!("set(FOO {name})\n"));
    }
    let build = |variable: &str, value: &str| {
        let value =
            if variable == "Foo_ROOT" { sandbox.path(value).display().to_string() } else { value.to_owned() };
        let mut command = with_store(&sandbox, &["build", "--explain"]);
        RunResult::from(command.env(variable, value).output().unwrap()).succeeds();
        let library = std::fs::read(sandbox.path(".gpubuild/adder/cpu/libadder.a")).unwrap();
        let text = String::from_utf8_lossy(&library);
        let words = ["_1__", "_2__", "__one_", "__two_"];
        (*words.iter().find(|word| text.contains(**word)).unwrap()).to_owned()
    };
    for (variable, first, second) in [("FLAVOUR", "1", "2"), ("Foo_ROOT", "one", "two")] {
        let (one, two) = (build(variable, first), build(variable, second));
        assert!(one.contains(first) && two.contains(second), "{variable}: {one} {two}");
        run(&sandbox, &["clean"]).succeeds();
        assert_eq!((build(variable, first), build(variable, second)), (one, two), "{variable}");
    }
}

/// Where the folder of the locks belongs, there is a file, or a link that leads nowhere.
fn file_in_place_of_the_locks_is_named(sandbox: &Sandbox) {
    let locks = sandbox.path("store/v1/locks");
    let is_named = |text: &str| {
        run(sandbox, &["cache", "prune", "--all"]).fails(1, "cache.not-pruned").says(&[
            &format!("`{}` is not a folder", locks.display()),
            "hint: ",
            "move or remove it",
        ]);
        std::fs::remove_file(&locks).unwrap_or_else(|error| panic!("{text}: {error}"));
        run(sandbox, &["cache", "prune", "--all"]).succeeds();
    };
    let fill = || {
        run(sandbox, &["clean"]).succeeds();
        run(sandbox, &["build"]).succeeds();
        std::fs::remove_dir_all(&locks).unwrap();
    };
    fill();
    std::fs::write(&locks, "").unwrap();
    is_named("a file");
    #[cfg(unix)]
    {
        fill();
        std::os::unix::fs::symlink("absent", &locks).unwrap();
        is_named("a link");
    }
}

/// A link in place of a folder of the store: nothing behind it is removed.
fn prune_follows_no_link(sandbox: &Sandbox) {
    #[cfg(unix)]
    {
        sandbox.write("photos/holiday.jpg", "mine");
        for name in ["store/v1/trees", "cache/layers/sha256", "cache/sources"] {
            let link = sandbox.path(name);
            let _ = std::fs::remove_dir_all(&link);
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(sandbox.path("photos"), &link).unwrap();
            let text = format!("`{}` is a link", link.display());
            run(sandbox, &["cache", "prune", "--all"]).fails(1, "cache.not-pruned").says(&[&text]);
            assert_eq!(sandbox.read("photos/holiday.jpg"), "mine");
            std::fs::remove_file(&link).unwrap();
        }
    }
}

#[test]
fn a_disabled_store_is_listed_and_pruned() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let with_store = |arguments: &[&str]| {
        RunResult::from(sandbox.command().env_remove("GPUBUILD_STORE").args(arguments).output().unwrap())
    };
    with_store(&["build"]).succeeds();
    let count = || with_store(&["cache", "size", "--json"]).json()["count"].as_u64().unwrap();
    let before = count();
    assert!(before > 0);
    // The store of `sandbox.run` is off.
    let listed = sandbox.run(&["cache", "list", "--json"]);
    listed.succeeds().says(&["builds do not use the store", "GPUBUILD_STORE"]);
    assert_eq!(listed.json()["count"], before);
    sandbox.run(&["cache", "size"]).succeeds();
    sandbox.run(&["cache", "explain"]).fails(2, "cache.off").says(&["GPUBUILD_STORE=on"]);
    let pruned = sandbox.run(&["cache", "prune", "--all", "--json"]);
    assert_eq!(pruned.succeeds().json()["removed"].as_array().unwrap().len() as u64, before);
    assert_eq!(count(), 0);
}

#[test]
fn project_file_selects_the_store() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}[cache]\nfolder = \"mine\"\nmax_size = \"1GiB\"\n"));
    let run = |arguments: &[&str]| {
        RunResult::from(sandbox.command().env_remove("GPUBUILD_STORE").args(arguments).output().unwrap())
    };
    run(&["build"]).succeeds();
    let size = run(&["cache", "size", "--json"]).succeeds().json();
    assert_eq!((&size["count"], &size["limit"]), (&Value::from(2), &Value::from(1_u64 << 30)));
    assert!(sandbox.exists("mine/v1/trees"));
    sandbox.write("gpubuild.toml", &format!("{text}[cache]\nmax_size = \"huge\"\n"));
    run(&["build"]).fails(2, "cache.setting-invalid");
}

/// A compiler that logs its start and end, waits for a signal file, and ignores SIGTERM.
#[cfg(target_os = "linux")]
const UNKILLABLE: &str = r#"#!/bin/sh
case "$*" in *u[0-9].c)
    trap '' TERM HUP INT
    echo "begin $ROUND $$" >> "$NOTES"
    rounds=0
    until [ -e "$NOTES.go" ] || [ $rounds -eq 600 ]; do sleep 0.1; rounds=$((rounds + 1)); done
    # Long enough for a termination request to arrive.
    sleep 1
    echo "end $ROUND $$" >> "$NOTES"
esac
exec cc "$@"
"#;

/// The watchdog process of another process, once it exists.
#[cfg(target_os = "linux")]
fn watchdog_of(of: u32) -> u32 {
    let started_by = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let watches = |pid: u32| {
        let arguments = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split('\0').any(|argument| argument == "gpubuild-watch")
    };
    for _ in 0..3000 {
        let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let mut pids = names.filter_map(|name| name.to_str()?.parse().ok());
        if let Some(pid) = pids.find(|pid| started_by(*pid) == Some(of) && watches(*pid)) {
            return pid;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{of} has no watchdog");
}

/// The CMake, Ninja and make processes among the descendants of a process.
#[cfg(target_os = "linux")]
fn build_tools(of: u32) -> Vec<u32> {
    let mut processes = vec![of];
    let mut tools = Vec::new();
    let mut at = 0;
    while let Some(pid) = processes.get(at) {
        let lists = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
        let children = lists.filter_map(|task| std::fs::read_to_string(task.join("children")).ok());
        let children: Vec<u32> = children
            .flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>())
            .collect();
        for child in children {
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
            if ["cmake", "ninja", "make", "gmake"].contains(&name.trim()) {
                tools.push(child);
            }
            processes.push(child);
        }
        at += 1;
    }
    assert!(!tools.is_empty());
    tools
}

#[cfg(target_os = "linux")]
#[test]
fn processes_of_a_killed_build_end_before_the_next_build() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::fs::PermissionsExt;
    let Some(sandbox) = Sandbox::with_library() else { return };
    sandbox.write("slow-cc", UNKILLABLE);
    std::fs::set_permissions(sandbox.path("slow-cc"), std::fs::Permissions::from_mode(0o755)).unwrap();
    for index in 0..4 {
        sandbox
            .write(&format!("vendor/u{index}.c"), &format!("int unit{index}(void) {{ return {index}; }}\n"));
    }
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\n\
         add_library(adder STATIC adder.c u0.c u1.c u2.c u3.c)\ntarget_link_libraries(adder PUBLIC m)\n",
    );
    let text = sandbox.read("gpubuild.toml");
    let compiler = sandbox.path("slow-cc");
    let options = format!("options = {{ CMAKE_C_COMPILER = {:?} }}\n", compiler.to_str().unwrap());
    sandbox.write("gpubuild.toml", &format!("{text}{options}"));
    let build = |round: &str| {
        let mut command = with_store(&sandbox, &["build", "--jobs", "2"]);
        command.env("ROUND", round).env("NOTES", sandbox.path("notes"));
        command
    };
    sandbox.write("notes", "");
    let mut first = build("1").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = |text: &str| text.matches("begin").count();
    for _ in 0..6000 {
        if started(&sandbox.read("notes")) >= 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let watchdog = watchdog_of(first.id());
    // A build tool may die before gpubuild; its compilers are then orphaned.
    sandbox.send("STOP", first.id());
    for tool in build_tools(first.id()) {
        sandbox.send("KILL", tool);
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // The watchdog is stopped until the next build waits, so that the order does not depend on timing.
    sandbox.send("STOP", watchdog);
    let mut second = build("2").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(second.stderr.take().unwrap());
    let mut stderr = String::new();
    while !stderr.contains("waiting for another build") {
        assert_ne!(reader.read_line(&mut stderr).unwrap(), 0, "the build did not wait: {stderr}");
    }
    assert_eq!(started(&sandbox.read("notes")), 2, "nothing starts before that");
    sandbox.send("CONT", watchdog);
    sandbox.write("notes.go", "");
    reader.read_to_string(&mut stderr).unwrap();
    assert!(second.wait().unwrap().success(), "{stderr}");
    let notes = sandbox.read("notes");
    let lines: Vec<&str> = notes.lines().collect();
    let second = lines.iter().position(|line| line.starts_with("begin 2")).unwrap();
    let (before, after) = lines.split_at(second);
    // Compilers of the first round run to their end because they ignore signals, and no others start.
    assert_eq!(before.iter().filter(|line| line.starts_with("begin 1")).count(), 2, "{notes}");
    assert_eq!(before.iter().filter(|line| line.starts_with("end 1")).count(), 2, "{notes}");
    assert!(after.iter().all(|line| line.contains(" 2 ")) && started(&after.join("\n")) == 4, "{notes}");
    answers(&sandbox, 0);
}

/// Checks that a program linked with the outputs returns the value in the sources.
fn answers(sandbox: &Sandbox, expected: u32) {
    sandbox.write("main.c", "int unit0(void);\nint main(void) { return unit0(); }\n");
    sandbox.start(&["cc", "-o", "main", "main.c", ".gpubuild/adder/cpu/libadder.a", "-lm"]).succeeds();
    assert_eq!(sandbox.start(&["./main"]).exit, Some(i32::try_from(expected).unwrap()));
}

#[cfg(target_os = "linux")]
#[test]
fn full_store_disk_is_only_a_warning() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    if !sandbox.start(&["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]).is_success() {
        skip("root", "this machine does not allow mounting");
        return;
    }
    let script = r#"set -e; mkdir disk; mount -t tmpfs -o size=2m none disk; export GPUBUILD_STORE="$PWD/disk"
        for room in 4 12 24 48 200; do
            head -c 2097152 /dev/zero > disk/filler 2> ignored || true; truncate -s "-${room}k" disk/filler
            "$0" build 2> log || { cat log; exit 1; }
            echo "== $room"; cat log; "$0" link > line; grep -q libadder.a line
            rm disk/filler; "$0" clean 2> ignored; "$0" build 2> log; grep -v damaged log; "$0" clean 2> ignored
            "$0" build --explain 2>&1 | grep '] hit'; "$0" clean 2> ignored; "$0" cache prune --all
        done
        mount -o remount,ro disk; "$0" build 2> log; cat log"#;
    let ran = sandbox.start(&["unshare", "-m", "sh", "-c", script, env!("CARGO_BIN_EXE_gpubuild")]);
    let output = &ran.succeeds().stdout;
    assert_eq!(output.matches("] hit").count(), 5, "{ran:#?}");
    let warned = output.matches("warning: [cpu] ").count();
    assert!(warned >= 2 && output.contains("No space left"), "{ran:#?}");
    assert!(output.contains("nothing is saved in the build store"), "a read-only disk is reported: {ran:#?}");
}

#[cfg(target_os = "linux")]
#[test]
fn full_build_disk_is_reported_on_restore() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    if !sandbox.start(&["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]).is_success() {
        skip("root", "this machine does not allow mounting");
        return;
    }
    run(&sandbox, &["build"]).succeeds();
    run(&sandbox, &["clean"]).succeeds();
    let script = r#"set -e; mkdir -p .gpubuild; mount -t tmpfs -o size=64k none .gpubuild; export GPUBUILD_STORE="$PWD/store"
        mkdir -p .gpubuild/adder; head -c 65536 /dev/zero > .gpubuild/filler 2> ignored || true
        code=0; "$0" build 2> log || code=$?; cat log; [ "$code" = 1 ]; grep -qF '[disk.full]' log
        umount .gpubuild; "$0" build --explain 2>&1 | grep '] hit'"#;
    let ran = sandbox.start(&["unshare", "-m", "sh", "-c", script, env!("CARGO_BIN_EXE_gpubuild")]);
    assert!(ran.succeeds().stdout.contains("] hit"), "{ran:#?}");
}
