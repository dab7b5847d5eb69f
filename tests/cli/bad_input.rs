//! Invalid input gets an error with location, cause and remedy, a stable id, and exit code 2.

use crate::support::{Sandbox, recorded};

#[test]
fn unknown_backend_suggests_the_nearest_name() {
    let project = Sandbox::with_project("gk");
    for command in ["plan", "build"] {
        project.run(&[command, "--backends", "cpu,vulcan"]).fails(2, "backend.unknown").says(&[
            "`vulcan`",
            "did you mean `vulkan`?",
            "from --backends",
            "hint: backends are cpu, cuda",
        ]);
    }
}

#[test]
fn unknown_backend_in_the_environment_names_its_origin() {
    let project = Sandbox::with_project("gk");
    let output = project.command().arg("plan").env("GPUBUILD_BACKENDS", "cud").output().unwrap();
    crate::support::RunResult::from(output)
        .fails(2, "backend.unknown")
        .says(&["GPUBUILD_BACKENDS=cud", "did you mean `cuda`?"]);
}

#[test]
fn invalid_project_file_shows_line_and_caret() {
    let project = Sandbox::with_project("gk");
    project.write("gpubuild.toml", "schema = 1\n[project]\nname = \"demo\"\nsource = 5\n");
    project.run(&["plan"]).fails(2, "project.invalid").says(&["gpubuild.toml", "line 4", "source = 5", "^"]);
    project
        .write("gpubuild.toml", "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\ncolour = 1\n");
    project.run(&["plan"]).fails(2, "project.invalid").says(&["line 5", "colour", "^"]);
}

#[test]
fn newer_project_file_version_is_reported() {
    let project = Sandbox::with_project("gk");
    project.write("gpubuild.toml", "schema = 7\n[galaxy]\nanswer = 42\n");
    project.run(&["plan"]).fails(2, "project.newer-schema").says(&[
        "schema 7",
        "reads schemas up to 1",
        "update gpubuild",
    ]);
}

#[test]
fn lock_file_of_unreasonable_size_is_an_error() {
    let sandbox = Sandbox::new();
    let project = "schema = 1\n[project]\nname = \"x\"\nsource = { crate = \"x-sys\", version = \"0.1\" }\n";
    sandbox.write("gpubuild.toml", project);
    sandbox.write("gpubuild.lock", &"# x\n".repeat(20_000));
    for arguments in [&["plan"][..], &["fetch", "--offline"]] {
        sandbox.run(arguments).fails(2, "project.unreadable").says(&["gpubuild.lock", "larger than"]);
    }
    sandbox.write_bytes("gpubuild.lock", b"schema = 1\n# \xff\n");
    sandbox.run(&["plan"]).fails(2, "project.unreadable").says(&["gpubuild.lock", "it is not UTF-8"]);
}

#[test]
fn missing_project_is_reported() {
    let empty = Sandbox::new();
    empty.run(&["plan"]).fails(2, "project.not-found").says(&["gpubuild.toml", "--project"]);
    // A link that leads nowhere is not the same as no file.
    #[cfg(unix)]
    {
        let linked = Sandbox::new();
        std::os::unix::fs::symlink("gone.toml", linked.path("gpubuild.toml")).unwrap();
        linked.run(&["plan"]).fails(2, "project.unreadable").says(&["gpubuild.toml"]);
    }
    let project = Sandbox::with_project("gk");
    project.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"demo\"\nsource = \"elsewhere\"\nprofile = \"gk\"\n",
    );
    project.run(&["build"]).fails(2, "project.source-missing").says(&["elsewhere", "submodule"]);
}

/// `clean` would delete them.
#[test]
fn sources_in_the_build_folder_are_refused() {
    for (key, source, binary) in [
        ("project.source", ".gpubuild/demo/src", "app"),
        ("project.source", "native/../.gpubuild/demo", "app"),
        ("binary.package", "native", ".gpubuild/demo/app"),
    ] {
        let project = Sandbox::new();
        let file = format!(
            "schema = 1\n[project]\nname = \"demo\"\nsource = \"{source}\"\n[binary]\npackage = \"{binary}\"\n"
        );
        project.write("gpubuild.toml", &file);
        project.write("native/CMakeLists.txt", "");
        project.write(&format!("{source}/CMakeLists.txt"), "");
        for command in ["plan", "build", "clean"] {
            project.run(&[command]).fails(2, "project.inside-build").says(&[key, "build folder"]);
        }
        assert!(project.path(&format!("{source}/CMakeLists.txt")).is_file(), "{key}");
    }
}

#[test]
fn invalid_recording_shows_the_location() {
    let folder = Sandbox::new();
    folder.write("host.toml", "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"z80\"\n");
    folder.run(&["detect", "--host", "host.toml"]).fails(2, "host.recording-invalid").says(&[
        "host.toml:4",
        "z80",
        "^",
        "hint:",
    ]);
    folder
        .run(&["detect", "--host", "absent.toml"])
        .fails(2, "host.recording-invalid")
        .says(&["absent.toml"]);
}

#[test]
fn host_without_a_compiler_fails_before_compiling() {
    let project = Sandbox::with_project("gk");
    project.write("vendor/src/cpu/CMakeLists.txt", "");
    let ran = project.run(&["plan", "--backends", "cpu", "--host", &recorded("windows-11-bare")]);
    ran.fails(2, "plan.refused").says(&["cpu:", "hint:", "nothing was compiled"]);
}

#[test]
fn json_error_is_the_only_document() {
    let project = Sandbox::with_project("gk");
    let ran = project.run(&["plan", "--json", "--backends", "quantum"]);
    assert_eq!(ran.exit, Some(2));
    assert_eq!(ran.json()["schema"]["name"], "error");
    assert_eq!(ran.json()["error"]["id"], "backend.unknown");
    let ran = project.run(&["plan", "--json", "--backends", "metal", "--host", &recorded("debian-12-bare")]);
    assert_eq!(ran.json()["error"]["id"], "plan.refused");
    assert_eq!(ran.json()["error"]["findings"][0]["backend"], "metal");
}

#[test]
fn unknown_override_is_rejected() {
    let folder = Sandbox::new();
    for (text, why) in
        [("cuda.cc", "has no `=`"), ("cuda.ccc=90", "unknown key"), ("cuda.driver=new", "cuda.driver=new")]
    {
        let output = folder.command().arg("detect").env("GPUBUILD_SET", text).output().unwrap();
        crate::support::RunResult::from(output)
            .fails(2, "host.override-invalid")
            .says(&[why, "GPUBUILD_SET"]);
    }
}

#[test]
fn closed_pipe_is_not_an_error() {
    use std::process::Stdio;
    let folder = Sandbox::new();
    let mut child = folder
        .command()
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
}

/// `/dev/full` refuses every write.
#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let sandbox = Sandbox::new();
    let commands: [&[&str]; 5] =
        [&["--help"], &["--version"], &["help", "build"], &["detect"], &["explain", "cuda.toolkit.missing"]];
    for arguments in commands {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = sandbox.command().args(arguments).stdout(full).output().unwrap();
        crate::support::RunResult::from(output).fails(1, "disk.full");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn recordings_that_never_end_are_errors() {
    Sandbox::new()
        .run(&["detect", "--host", "/dev/zero"])
        .fails(2, "host.recording-invalid")
        .says(&["/dev/zero", "not a regular file"]);
}

#[test]
fn unknown_option_is_a_usage_error() {
    let ran = Sandbox::new().run(&["plan", "--bakends", "cpu"]);
    assert_eq!(ran.exit, Some(2));
    ran.says(&["--backends"]);
}

/// Each option writes its own document again, but no other file.
#[test]
fn documents_replace_only_documents_of_their_kind() {
    let folder = Sandbox::new();
    folder.run(&["host", "record", "host.toml"]).succeeds();
    let host = ["--host", "host.toml"];
    let doctor = ["r.txt", "r.json", "r.md", "r.sarif", "r.xml"];
    let mut cases: Vec<(&str, Vec<&str>)> =
        doctor.iter().map(|file| (*file, vec!["doctor", "--offline", "--output", file])).collect();
    cases.push(("s.json", vec!["doctor", "--offline", "--save=s.json"]));
    cases.push(("report.md", vec!["report", "--offline", "report.md"]));
    cases.push(("report.html", vec!["report", "--offline", "--html", "report.html"]));
    for (file, arguments) in cases {
        let write = || folder.run(&[&arguments[..], &host].concat());
        folder.write(file, "");
        for _ in 0..2 {
            assert_ne!(write().exit, Some(2), "{file}");
            assert_ne!(folder.read(file), "", "{file}");
        }
        folder.write(file, "{ \"precious\": 1 }\n");
        write().fails(2, "file.not-ours").says(&[file, "hint: "]);
        assert_eq!(folder.read(file), "{ \"precious\": 1 }\n");
    }
}

#[test]
fn recording_round_trips_and_is_not_overwritten() {
    let folder = Sandbox::new();
    folder.write("mine.toml", "precious");
    folder.run(&["host", "record", "mine.toml"]).fails(2, "host.record-exists").says(&["--force"]);
    let ran = folder.run(&["host", "record", "here.toml"]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let (real, replayed) = (
        folder.run(&["detect", "--json"]).json(),
        folder.run(&["detect", "--json", "--host", "here.toml"]).json(),
    );
    assert_eq!(real["backends"], replayed["backends"]);
}
