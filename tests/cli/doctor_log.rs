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
fn log_without_a_known_failure_shows_a_guess_with_context_and_search_terms() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "odd.log",
        "[1/2] a\n/src/odd.c:3:5: error: no member named 'moon' in 'struct sky'\n   3 | sky.moon\n[2/2] b\n",
    );
    let ran = sandbox.run(&["doctor", "--log", "odd.log"]);
    let text = ran.succeeds().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "no known failure in 4 lines; probably the first error:",
        "this is a guess",
        "search the project's issues for `odd.c no member named moon in struct sky`",
        "odd.log:1: [1/2] a",
        "odd.log:3: 3 | sky.moon",
    ] {
        assert!(text.contains(part), "{part}: {ran:#?}");
    }
    assert!(!ran.stdout.contains('✓'), "{ran:#?}");
    let json = sandbox.run(&["doctor", "--log", "odd.log", "--json"]).json();
    assert_eq!(json["findings"][0]["id"], "build.unrecognised");
    let guess = &json["log"]["guess"];
    assert_eq!(guess["line"], 2);
    assert_eq!(guess["search"], "odd.c no member named moon in struct sky");
    assert_eq!(guess["context"][0]["text"], "[1/2] a");
    sandbox.write("fine.log", "[1/2] a\n[2/2] b\n");
    let ran = sandbox.run(&["doctor", "--log", "fine.log"]);
    assert!(ran.succeeds().stdout.contains("none of them looks like an error"), "{ran:#?}");
    assert!(sandbox.run(&["doctor", "--log", "fine.log", "--json"]).json()["log"]["guess"].is_null());
}

#[test]
fn commands_are_for_the_machine_of_the_log() {
    let sandbox = Sandbox::new();
    let header = "x.cpp:1:10: fatal error: spirv/unified1/spirv.hpp: No such file or directory\n";
    for (before, command, absent) in [
        (
            "/usr/include/x86_64-linux-gnu/c++/12/x.h:1: note: here\n",
            "apt install spirv-headers",
            "dnf install",
        ),
        (
            "/usr/lib/gcc/x86_64-redhat-linux/14/include/x.h:1: note: here\n",
            "dnf install spirv-headers-devel",
            "apt install",
        ),
        (
            "-- The CXX compiler identification is AppleClang 16.0.0\n",
            "brew install spirv-headers",
            "apt install",
        ),
    ] {
        sandbox.write("a.log", &format!("{before}{header}"));
        let ran = sandbox.run(&["doctor", "--log", "a.log"]);
        assert!(ran.stdout.contains(command) && !ran.stdout.contains(absent), "{ran:#?}");
        assert!(ran.stdout.contains("the commands are for"), "{ran:#?}");
    }
    // A log that does not show its system gets the commands of each one.
    sandbox.write("a.log", header);
    let ran = sandbox.run(&["doctor", "--log", "a.log"]);
    for command in [
        "apt install spirv-headers  # Debian, Ubuntu",
        "dnf install spirv-headers-devel  # Fedora, RHEL",
        "brew install spirv-headers  # macOS",
    ] {
        assert!(ran.stdout.contains(command), "{command}: {ran:#?}");
    }
    // The log contradicts the recorded machine.
    sandbox.write(
        "a.log",
        "C:\\Users\\ada\\x.vcxproj\nLINK : fatal error LNK1181: cannot open input file 'cublas.lib'\n",
    );
    let ran = sandbox.run(&["doctor", "--log", "a.log", "--host", &recorded("ubuntu-22.04-rtx4090")]);
    assert!(
        ran.stdout.contains("winget install --id Nvidia.CUDA") && !ran.stdout.contains("apt install"),
        "{ran:#?}"
    );
    let json = sandbox.run(&["doctor", "--log", "a.log", "--json"]).json();
    assert_eq!(json["log"]["platform"]["os"], "windows");
    assert_eq!(json["log"]["platform"]["line"], 1);
}

#[test]
fn exact_fix_of_a_signature_is_shown_with_its_count() {
    let sandbox = Sandbox::new();
    let line = "/usr/include/crt/host_config.h:139:2: error: #error -- unsupported GNU version! gcc versions later than 11 are not supported!\n";
    sandbox.write("a.log", &line.repeat(3));
    let ran = sandbox.run(&["doctor", "--log", "a.log"]);
    assert!(ran.stdout.contains("CUDAHOSTCXX=g++-11"), "{ran:#?}");
    assert!(ran.stdout.contains("3 lines report it, the last in line 3"), "{ran:#?}");
}

#[test]
fn remedies_without_commands_say_why() {
    let sandbox = Sandbox::new();
    sandbox.write("a.log", "/usr/bin/ld: u.c:(.text+0x11): undefined reference to `vkCreateInstance'\n");
    let ran = sandbox.run(&["doctor", "--log", "a.log", "--json"]).json();
    let remedy = &ran["findings"][0]["remedy"];
    assert!(
        remedy["text"]
            .as_str()
            .unwrap()
            .contains("(no command: the link line is in the project's build files)"),
        "{ran:#}"
    );
}

#[test]
fn unknown_compiler_error_is_listed_before_the_failed_link_step() {
    let sandbox = Sandbox::new();
    sandbox.write("a.log", "C:\\src\\a.cpp(12,5): error C2440: 'initializing': no conversion [C:\\src\\ggml.vcxproj]\nLINK : fatal error LNK1181: cannot open input file 'ggml.lib'\n");
    let ran = sandbox.run(&["doctor", "--log", "a.log", "--json"]);
    assert_eq!(ran.exit, Some(1));
    let json = ran.json();
    assert_eq!(json["findings"][0]["id"], "build.unrecognised");
    assert!(json["findings"][0]["summary"].as_str().unwrap().contains("C2440"), "{json:#}");
    assert_eq!(json["findings"][1]["id"], "link.library-missing");
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
