//! The formats of the doctor's report.

use serde_json::Value;

use crate::support::{RunResult, Sandbox, recorded};

const FORMATS: [&str; 6] = ["text", "json", "markdown", "github", "sarif", "junit"];

#[test]
fn every_format_is_written_to_stdout_or_a_file() {
    let sandbox = Sandbox::new();
    let host = recorded("docker-no-gpus");
    let files = ["r.json", "r.md", "r.sarif", "r.xml", "r.txt"];
    let mut arguments = vec!["doctor", "--host", &host, "--fail-on", "never"];
    arguments.extend(files.iter().flat_map(|file| ["--output", file]));
    let ran = sandbox.run(&arguments);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let of = |format: &str| {
        let ran = sandbox.run(&["doctor", "--host", &host, "--fail-on", "never", "--format", format]);
        assert_eq!(ran.exit, Some(0), "{ran:#?}");
        ran.stdout
    };
    for (format, file) in ["json", "markdown", "sarif", "junit"].into_iter().zip(files) {
        assert_eq!(of(format), sandbox.read(file), "{file}");
    }
    let json: Value = serde_json::from_str(&sandbox.read("r.json")).unwrap();
    let sarif: Value = serde_json::from_str(&sandbox.read("r.sarif")).unwrap();
    let findings = json["findings"].as_array().unwrap().len();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), findings);
    assert!(sandbox.read("r.xml").contains("<testsuites name=\"gpubuild doctor\""));
    assert!(sandbox.read("r.txt").contains(&ran.stdout.lines().last().unwrap()[..8]));
    assert_eq!(sandbox.run(&["doctor", "--json", "--host", &host, "--fail-on", "never"]).stdout, of("json"));
}

#[test]
fn unknown_output_format_is_rejected_before_detection() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["doctor", "--host", "absent.toml", "--output", "report.pdf"]);
    assert_eq!(ran.exit, Some(2));
    assert!(ran.stderr.contains("doctor.output-unknown") && ran.stderr.contains(".sarif"), "{}", ran.stderr);
    assert_eq!(sandbox.run(&["doctor", "--json", "--format", "sarif"]).exit, Some(2));
}

fn in_step(sandbox: &Sandbox, arguments: &[&str], summary: &str) -> RunResult {
    RunResult::from(sandbox.command().args(arguments).env("GITHUB_STEP_SUMMARY", summary).output().unwrap())
}

#[test]
fn github_step_summary_is_best_effort() {
    let sandbox = Sandbox::new();
    let host = recorded("docker-no-gpus");
    let arguments = ["doctor", "--host", &host, "--format", "github", "--fail-on", "never"];
    sandbox.write("summary.md", "before");
    let file = sandbox.path("summary.md").display().to_string();
    let ran = in_step(&sandbox, &arguments, &file);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    assert!(sandbox.read("summary.md").starts_with("before\n### gpubuild doctor: "));
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("gpubuild doctor: "), "{last}");
    for (text, file) in [("x".repeat(1 << 20), file), (String::new(), sandbox.path("").display().to_string())]
    {
        sandbox.write("summary.md", &text);
        let again = in_step(&sandbox, &arguments, &file);
        assert_eq!((again.exit, &again.stdout), (Some(0), &ran.stdout), "{again:#?}");
        assert!(again.stderr.contains("failed to write the step summary"), "{}", again.stderr);
        assert_eq!(sandbox.read("summary.md").len(), text.len());
    }
}

#[test]
fn host_text_cannot_inject_terminal_or_ci_commands() {
    let sandbox = Sandbox::new();
    let machine = include_str!("../hosts/ubuntu-22.04-rtx4090.toml");
    let name = r"\u001b[31m::error::x\n::set-output name=a::b\r\n##[add-mask]c \u202e</details>@all]]>\u0007";
    let evil = machine.replace("NVIDIA GeForce RTX 4090", name);
    assert_ne!(machine, evil);
    let evil = evil
        .replace("[env]\n", "[env]\nCUDA_PATH = \"/opt/\\n::error::x/$(touch pwned)\\u001b[31m##[error]\"\n");
    sandbox.write("evil.toml", &evil);
    for format in FORMATS {
        let ran =
            sandbox.run(&["doctor", "-v", "--host", "evil.toml", "--format", format, "--fail-on", "never"]);
        assert_eq!(ran.exit, Some(0), "{ran:#?}");
        assert!(ran.stdout.contains("set-output") == ["text", "json", "markdown"].contains(&format));
        for text in [&ran.stdout, &ran.stderr] {
            assert!(
                !text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
                "{format}: {text:?}"
            );
            assert!(!text.contains("##["), "{format}: {text}");
            let ours = |line: &str| {
                ["::error ", "::warning ", "::notice "].iter().any(|start| line.starts_with(start))
            };
            let mut commands = text.lines().filter(|line| line.trim_start().starts_with("::"));
            assert!(commands.all(|line| format == "github" && ours(line)), "{format}: {text}");
        }
    }
    let detected = sandbox.run(&["detect", "-v", "--probe", "--host", "evil.toml"]).stdout;
    assert!(!detected.chars().any(|c| c.is_control() && c != '\n'), "{detected:?}");
}
