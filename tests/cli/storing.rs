//! The build store from the command line: its commands, and what happens to it when builds are killed or disks are full.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write their own files")]

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Ran, Sandbox, skip};

/// The command with a store of its own.
fn with_store(sandbox: &Sandbox, arguments: &[&str]) -> std::process::Command {
    let mut command = sandbox.command();
    command.env("GPUBUILD_STORE", sandbox.path("store")).args(arguments);
    command
}

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Ran {
    Ran::from(with_store(sandbox, arguments).output().unwrap())
}

fn entries(sandbox: &Sandbox) -> Vec<Value> {
    let document = run(sandbox, &["cache", "list", "--json"]).succeeds().json();
    let all = document["entries"].as_array().unwrap().iter();
    all.filter(|entry| entry["kind"] == "tree").cloned().collect()
}

#[test]
fn the_commands_show_explain_and_throw_away() {
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
    run(&sandbox, &["build", "--explain"]).succeeds().says(&["[cpu] hit: key", "taken from the store"]);
    sandbox.write("vendor/adder.c", "double add(double x) { return x + 2.0; }\n");
    run(&sandbox, &["build", "--explain"])
        .succeeds()
        .says(&["compared with the last build here", "sources: `adder.c` changed"]);
    assert_eq!(
        run(&sandbox, &["cache", "size", "--json"]).succeeds().json()["count"],
        4,
        "two trees, two targets"
    );
    run(&sandbox, &["cache", "explain", "vulkan"]).fails(2, "cache.no-tree").says(&["hint: it has cpu"]);
    run(&sandbox, &["cache", "prune", "--max-size", "much"]).fails(2, "cache.setting-invalid");
    let pruned = run(&sandbox, &["cache", "prune", "--older-than", "30d", "--json"]).succeeds().json();
    assert_eq!(pruned["removed"], Value::Array(Vec::new()));
    let pruned = run(&sandbox, &["cache", "prune", "--all", "--json"]).succeeds().json();
    assert_eq!(pruned["removed"].as_array().unwrap().len(), 4);
    assert!(entries(&sandbox).is_empty());
    run(&sandbox, &["build", "--no-store"]).succeeds();
    assert!(entries(&sandbox).is_empty());
    let off = sandbox.run(&["cache", "list"]);
    off.fails(2, "cache.off").says(&["GPUBUILD_STORE"]);
}

#[test]
fn the_project_file_chooses_the_store() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}[cache]\nfolder = \"mine\"\nmax_size = \"1GiB\"\n"));
    let run = |arguments: &[&str]| {
        Ran::from(sandbox.command().env_remove("GPUBUILD_STORE").args(arguments).output().unwrap())
    };
    run(&["build"]).succeeds();
    let size = run(&["cache", "size", "--json"]).succeeds().json();
    assert_eq!((&size["count"], &size["limit"]), (&Value::from(2), &Value::from(1_u64 << 30)));
    assert!(sandbox.exists("mine/v1/trees"));
    sandbox.write("gpubuild.toml", &format!("{text}[cache]\nmax_size = \"huge\"\n"));
    run(&["build"]).fails(2, "cache.setting-invalid");
}

/// Moments without order, the same in each run.
struct Moments(u64);

impl Moments {
    /// A number below `end`.
    fn next(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn start(sandbox: &Sandbox) -> Child {
    with_store(sandbox, &["build"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[cfg(unix)]
#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn a_kill_at_any_moment_leaves_a_store_and_a_folder_that_the_next_build_completes() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    // A few files, so that there is something between the beginning and the end.
    let units: Vec<String> = (0..6).map(|index| format!("u{index}.c")).collect();
    for (index, unit) in units.iter().enumerate() {
        sandbox.write(&format!("vendor/{unit}"), &format!("int unit{index}(void) {{ return {index}; }}\n"));
    }
    let list = format!(
        "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder STATIC adder.c {})\ntarget_link_libraries(adder PUBLIC m)\n",
        units.join(" ")
    );
    sandbox.write("vendor/CMakeLists.txt", &list);
    let begun = std::time::Instant::now();
    run(&sandbox, &["build"]).succeeds();
    let whole = u64::try_from(begun.elapsed().as_millis()).unwrap().max(50);
    let mut moments = Moments(0x9e37_79b9_7f4a_7c15);
    for round in 0..50_u32 {
        // Each round another content, with and without what the last one left.
        sandbox.write("vendor/u0.c", &format!("int unit0(void) {{ return {}; }}\n", round / 2));
        if moments.next(2) == 0 {
            clean(&sandbox);
        }
        let mut child = start(&sandbox);
        std::thread::sleep(std::time::Duration::from_millis(moments.next(whole)));
        child.kill().unwrap();
        child.wait().unwrap();
        if round % 5 == 0 {
            run(&sandbox, &["build"]).succeeds();
            answers(&sandbox, round / 2);
        }
        all_are_whole(&sandbox);
    }
    for content in [0, 24] {
        sandbox.write("vendor/u0.c", &format!("int unit0(void) {{ return {content}; }}\n"));
        clean(&sandbox);
        run(&sandbox, &["build"]).succeeds();
        answers(&sandbox, content);
    }
    run(&sandbox, &["cache", "prune"]).succeeds();
    let trees = std::fs::read_dir(sandbox.path("store/v1/trees")).unwrap();
    let left: Vec<_> = trees.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

/// Removes what was built, once what a killed build had started is gone.
#[cfg(unix)]
fn clean(sandbox: &Sandbox) {
    for _ in 0..200 {
        if run(sandbox, &["clean"]).is_success() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    run(sandbox, &["clean"]).succeeds();
}

/// A compiler that writes down when it begins and ends, works until it is told to go on, and does not end when it is
/// asked to.
#[cfg(target_os = "linux")]
const STUBBORN: &str = r#"#!/bin/sh
case "$*" in *u[0-9].c)
    trap '' TERM HUP INT
    echo "begin $ROUND $$" >> "$NOTES"
    rounds=0
    until [ -e "$NOTES.go" ] || [ $rounds -eq 600 ]; do sleep 0.1; rounds=$((rounds + 1)); done
    # Long enough for it to be asked to end.
    sleep 1
    echo "end $ROUND $$" >> "$NOTES"
esac
exec cc "$@"
"#;

/// The process that watches over what another one has started, once there is one.
#[cfg(target_os = "linux")]
fn watchman(of: u32) -> u32 {
    let started_by = |pid: u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let watches = |pid: u32| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split('\0').any(|word| word == "gpubuild-watch")
    };
    for _ in 0..3000 {
        let names = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let mut pids = names.filter_map(|name| name.to_str()?.parse().ok());
        if let Some(pid) = pids.find(|pid| started_by(*pid) == Some(of) && watches(*pid)) {
            return pid;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nobody watches over the children of {of}");
}

/// The processes of CMake, Ninja and make among the descendants of a process.
#[cfg(target_os = "linux")]
fn build_tools(of: u32) -> Vec<u32> {
    let mut family = vec![of];
    let mut tools = Vec::new();
    let mut at = 0;
    while let Some(pid) = family.get(at) {
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
            family.push(child);
        }
        at += 1;
    }
    assert!(!tools.is_empty());
    tools
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_build_started_has_ended_before_the_next_one_begins() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::fs::PermissionsExt;
    let Some(sandbox) = Sandbox::with_library() else { return };
    sandbox.write("slow-cc", STUBBORN);
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
    let begun = |text: &str| text.matches("begin").count();
    for _ in 0..6000 {
        if begun(&sandbox.read("notes")) >= 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let watchman = watchman(first.id());
    // A build tool may die before gpubuild does; its compilers then have no parent.
    sandbox.send("STOP", first.id());
    for tool in build_tools(first.id()) {
        sandbox.send("KILL", tool);
    }
    first.kill().unwrap();
    first.wait().unwrap();
    // The watchdog is stopped until the next build waits, so that the order does not depend on timing.
    sandbox.send("STOP", watchman);
    let mut second = build("2").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut words = BufReader::new(second.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("waiting for another build") {
        assert_ne!(words.read_line(&mut said).unwrap(), 0, "it did not wait: {said}");
    }
    assert_eq!(begun(&sandbox.read("notes")), 2, "nothing begins before that");
    sandbox.send("CONT", watchman);
    sandbox.write("notes.go", "");
    words.read_to_string(&mut said).unwrap();
    assert!(second.wait().unwrap().success(), "{said}");
    let notes = sandbox.read("notes");
    let lines: Vec<&str> = notes.lines().collect();
    let second = lines.iter().position(|line| line.starts_with("begin 2")).unwrap();
    let (before, after) = lines.split_at(second);
    // Those of the first round came to their own end, as they do not listen, and no other began.
    assert_eq!(before.iter().filter(|line| line.starts_with("begin 1")).count(), 2, "{notes}");
    assert_eq!(before.iter().filter(|line| line.starts_with("end 1")).count(), 2, "{notes}");
    assert!(after.iter().all(|line| line.contains(" 2 ")) && begun(&after.join("\n")) == 4, "{notes}");
    answers(&sandbox, 0);
}

/// Every entry that is there has files with the hashes that it says.
#[cfg(unix)]
fn all_are_whole(sandbox: &Sandbox) {
    use gpubuild_exec::store::{maintain, settings};
    use gpubuild_host::{HostInfo, RealHost};
    let host = RealHost::new();
    let root = host.path(sandbox.path("store/v1").to_str().unwrap());
    let store = settings::Store { root, access: gpubuild_plan::project::CacheAccess::Readonly, limit: 0 };
    for item in maintain::items(&host, &store) {
        item.entry.as_ref().unwrap().verify(&host, &item.folder).unwrap();
    }
}

/// A program that links what was built says what the sources say.
fn answers(sandbox: &Sandbox, expected: u32) {
    sandbox.write("main.c", "int unit0(void);\nint main(void) { return unit0(); }\n");
    sandbox.start(&["cc", "-o", "main", "main.c", ".gpubuild/adder/cpu/libadder.a", "-lm"]).succeeds();
    assert_eq!(sandbox.start(&["./main"]).exit, Some(i32::try_from(expected).unwrap()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_store_costs_a_warning_and_no_build() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    if !sandbox.start(&["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]).is_success() {
        skip("root", "this machine does not let us mount");
        return;
    }
    let script = r#"set -e; mkdir disk; mount -t tmpfs -o size=2m none disk; export GPUBUILD_STORE="$PWD/disk"
        for room in 4 12 24 48 200; do
            head -c 2097152 /dev/zero > disk/filler 2> ignored || true; truncate -s "-${room}k" disk/filler
            "$0" build 2> said || { cat said; exit 1; }
            echo "== $room"; cat said; "$0" link > line; grep -q libadder.a line
            rm disk/filler; "$0" clean 2> ignored; "$0" build 2> said; grep -v damaged said; "$0" clean 2> ignored
            "$0" build --explain 2>&1 | grep '] hit'; "$0" clean 2> ignored; "$0" cache prune --all
        done
        mount -o remount,ro disk; "$0" build 2> said; cat said"#;
    let ran = sandbox.start(&["unshare", "-m", "sh", "-c", script, env!("CARGO_BIN_EXE_gpubuild")]);
    let said = &ran.succeeds().stdout;
    assert_eq!(said.matches("] hit").count(), 5, "{ran:#?}");
    let warned = said.matches("warning: cpu: ").count();
    assert!(warned >= 2 && said.contains("No space left"), "{ran:#?}");
    assert!(said.contains("nothing is put into the store"), "a read-only disk is told: {ran:#?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_build_folder_is_named_when_results_are_taken() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    if !sandbox.start(&["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]).is_success() {
        skip("root", "this machine does not let us mount");
        return;
    }
    run(&sandbox, &["build"]).succeeds();
    run(&sandbox, &["clean"]).succeeds();
    let script = r#"set -e; mkdir -p .gpubuild; mount -t tmpfs -o size=64k none .gpubuild; export GPUBUILD_STORE="$PWD/store"
        mkdir -p .gpubuild/adder; head -c 65536 /dev/zero > .gpubuild/filler 2> ignored || true
        code=0; "$0" build 2> said || code=$?; cat said; [ "$code" = 1 ]; grep -qF '[disk.full]' said
        umount .gpubuild; "$0" build --explain 2>&1 | grep '] hit'"#;
    let ran = sandbox.start(&["unshare", "-m", "sh", "-c", script, env!("CARGO_BIN_EXE_gpubuild")]);
    assert!(ran.succeeds().stdout.contains("] hit"), "{ran:#?}");
}
