//! `gpubuild doctor --file`: output and exit codes.

use crate::support::Sandbox;

const ILL: &str = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN nvcc -O2 a.cu -o a\nCMD [\"./a\"]\n";
const HEALTHY: &str = "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nCOPY a /a\nCMD [\"/a\"]\n";

#[test]
fn file_with_errors_exits_with_1() {
    let sandbox = Sandbox::new();
    sandbox.write("docker/Dockerfile", ILL);
    let ran = sandbox.run(&["doctor", "--file", "docker/Dockerfile", "--json"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let document = ran.json();
    assert_eq!(document["schema"]["name"], "doctor");
    assert!(document.get("host").is_none());
    let finding = &document["findings"][0];
    assert_eq!(
        (&finding["id"], &finding["severity"]),
        (&"cuda.toolkit.runtime-only".into(), &"error".into())
    );
    assert_eq!(finding["evidence"][0]["where"], "docker/Dockerfile:2");
    assert_eq!(finding["remedy"]["text"], "change line 1 to `FROM nvidia/cuda:12.4.1-devel-ubuntu22.04`");
    // No remedy commands: they would apply to the machine that runs the doctor.
    assert!(finding["remedy"].get("commands").is_none());
    let ran = sandbox.run(&["doctor", "--file", "docker/Dockerfile", "--fail-on", "never"]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    assert!(ran.stdout.contains("error: line 2 needs the CUDA compiler"), "{ran:#?}");
}

#[test]
fn healthy_file_exits_with_0() {
    let sandbox = Sandbox::new();
    sandbox.write("Dockerfile", HEALTHY);
    sandbox.write("compose.yaml", "services:\n  a:\n    build: .\n    gpus: all\n");
    let ran = sandbox.run(&["doctor", "--file", "Dockerfile", "--file", "compose.yaml", "--json"]);
    assert_eq!((ran.succeeds().json()["findings"].clone(), ran.stderr.as_str()), (serde_json::json!([]), ""));
}

#[test]
fn fail_on_warning_makes_warnings_fatal() {
    let sandbox = Sandbox::new();
    sandbox.write("Dockerfile", "FROM nvidia/cuda:11.3.1-base-ubuntu20.04\nCMD [\"/a\"]\n");
    sandbox.run(&["doctor", "--file", "Dockerfile"]).succeeds();
    assert_eq!(sandbox.run(&["doctor", "--file", "Dockerfile", "--fail-on", "warning"]).exit, Some(1));
    sandbox
        .run(&["doctor", "--file", "Dockerfile", "--fail-on", "warning", "--skip", "file.image-*"])
        .succeeds();
}

#[test]
fn findings_of_several_files_list_errors_first() {
    let sandbox = Sandbox::new();
    sandbox.write("a/Dockerfile", "FROM nvidia/cuda:11.3.1-base-ubuntu20.04\nCMD [\"/a\"]\n");
    sandbox.write(
        ".github/workflows/ci.yml",
        "on: push\njobs:\n  a:\n    runs-on: macos-13\n    steps: [{run: make}]\n",
    );
    let ran = sandbox.run(&[
        "doctor",
        "--file",
        "a/Dockerfile",
        "--file",
        ".github/workflows/ci.yml",
        "--format",
        "github",
    ]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("::error file=.github/workflows/ci.yml,line=4,"), "{ran:#?}");
    assert!(lines[1].starts_with("::warning file=a/Dockerfile,line=1,"), "{ran:#?}");
}

#[test]
fn unreadable_files_do_not_hide_the_findings_of_others() {
    let sandbox = Sandbox::new();
    sandbox.write("a/Dockerfile", ILL);
    sandbox.write("notes.txt", "hello\n");
    sandbox.write("compose.yaml", "services: [\n");
    let files = ["notes.txt", "a/Dockerfile", "missing/Dockerfile", "compose.yaml"];
    let run = |more: &[&str]| {
        let mut arguments = vec!["doctor"];
        arguments.extend(files.iter().flat_map(|file| ["--file", file]));
        arguments.extend(more);
        sandbox.run(&arguments)
    };
    let ran = run(&["--json"]);
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    let document = ran.json();
    let seen: Vec<(&str, &str)> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["id"].as_str().unwrap(), one["evidence"][0]["where"].as_str().unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            ("cuda.toolkit.runtime-only", "a/Dockerfile:2"),
            ("file.not-checked", "missing/Dockerfile"),
            ("file.not-checked", "notes.txt"),
            ("file.not-checked", "compose.yaml"),
        ]
    );
    for (format, wanted) in
        [("text", "not a supported kind"), ("sarif", "file.not-checked"), ("github", "::error")]
    {
        let ran = run(&["--format", format, "--fail-on", "never"]);
        assert_eq!(ran.exit, Some(2), "{ran:#?}");
        assert!(
            ran.stdout.contains(wanted) && ran.stdout.contains("line 2 needs the CUDA compiler"),
            "{ran:#?}"
        );
    }
    // A file that was not checked can't be filtered.
    let ran = run(&["--json", "--only", "file.image-*"]);
    assert_eq!((ran.exit, ran.json()["findings"].as_array().unwrap().len()), (Some(2), 3), "{ran:#?}");
}

#[test]
fn unreadable_file_exits_with_2() {
    let sandbox = Sandbox::new();
    sandbox.write("notes.txt", "hello\n");
    sandbox.write("compose.yaml", "services: [\n");
    sandbox.write("large/Dockerfile", &"FROM a\n".repeat(2 << 20));
    for (name, id) in [
        ("missing/Dockerfile", "file.unreadable"),
        (".", "file.unreadable"),
        ("notes.txt", "file.kind-unknown"),
        ("compose.yaml", "file.unreadable"),
        ("large/Dockerfile", "file.too-large"),
    ] {
        let ran = sandbox.run(&["doctor", "--file", name, "--json"]);
        assert_eq!((ran.exit, &ran.json()["error"]["id"]), (Some(2), &id.into()), "{ran:#?}");
        assert!(ran.stderr.contains("hint:"), "{ran:#?}");
    }
    let ran = sandbox.run(&["doctor", "--file", "a", "--fix"]);
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
}
