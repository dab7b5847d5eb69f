//! The program through its command line.

use crate::requirements::skip;
use infer::gk;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

fn infer(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infer"));
    command.args(args).env_remove("INFER_BACKEND").env_remove("INFER_THREADS").stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    infer(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// True if a backend that works on every machine is linked.
fn ready() -> bool {
    if gk::linked().next().is_none() {
        skip("cpu", "no kernels are linked");
        return false;
    }
    true
}

const STORY: [&str; 6] = ["run", "--backend", "ref", "--tokens", "12", "--quiet"];

#[test]
fn program_without_kernels_names_the_build_command() {
    if gk::linked().next().is_some() {
        return;
    }
    let output = output(&["run"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("cargo run -- build --run"), "{output:?}");
}

#[test]
fn stdout_contains_only_the_text() {
    if !ready() {
        return;
    }
    let quiet = output(&STORY);
    assert!(quiet.status.success(), "{quiet:?}");
    assert_eq!(text(&quiet.stderr), "");
    assert!(quiet.stdout.ends_with(b"\n") && quiet.stdout.len() > 12);
    let talking = output(&STORY[..5]);
    assert_eq!(talking.stdout, quiet.stdout);
    assert!(text(&talking.stderr).contains("using ref: "), "{talking:?}");
    // `run` is the default command.
    assert_eq!(output(&STORY[1..]).stdout, quiet.stdout);
}

#[test]
fn seeds_determine_sampled_text() {
    if !ready() {
        return;
    }
    let sample = |seed: &str, more: &[&str]| {
        let args = [&STORY[..], &["--temperature", "1.5", "--seed", seed], more].concat();
        let output = output(&args);
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout)
    };
    assert_eq!(sample("1", &[]), sample("1", &[]));
    assert_ne!(sample("1", &[]), sample("2", &[]));
    // All logits instead of the device's candidates.
    assert_eq!(sample("1", &["--top-k", "0"]), sample("1", &["--top-k", "0"]));
}

#[test]
fn threads_come_from_the_variable() {
    let invalid = infer(&["run"]).env("INFER_THREADS", "many").output().unwrap();
    assert_eq!(invalid.status.code(), Some(2));
    assert!(text(&invalid.stderr).contains("--threads"), "{invalid:?}");
    if !ready() {
        return;
    }
    let args = ["run", "--backend", "ref", "--tokens", "1"];
    let valid = infer(&args).env("INFER_THREADS", "1").output().unwrap();
    assert_eq!(valid.status.code(), Some(0), "{valid:?}");
}

#[test]
fn named_backend_is_never_replaced() {
    if !ready() {
        return;
    }
    let by_flag = output(&["run", "--backend", "metal"]);
    let by_variable = infer(&["run"]).env("INFER_BACKEND", "metal").output().unwrap();
    for output in [by_flag, by_variable] {
        if gk::linked().any(|id| id == "metal") {
            continue;
        }
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(said.contains("backend `metal` was requested and cannot be used"), "{said}");
        assert!(said.contains("metal: not built into this program"), "{said}");
        if gk::linked().any(|id| id == "cpu") {
            let hint = said.lines().find(|line| line.starts_with("hint: these work here: ")).expect("a hint");
            assert!(hint.contains("cpu"), "{hint}");
        }
    }
    let output = output(&["run", "--backend", "ref", "--device", "9"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("it has no device 9"), "{output:?}");
}

fn number(document: &serde_json::Value, path: &str) -> f64 {
    document
        .pointer(path)
        .and_then(serde_json::Value::as_f64)
        .unwrap_or_else(|| panic!("{path}: {document:#}"))
}

const BENCH: [&str; 12] = [
    "bench",
    "--backend",
    "ref",
    "--prompt-tokens",
    "3",
    "--tokens",
    "2",
    "--depth",
    "0,5",
    "--fusion",
    "both",
    "--runs",
];

#[test]
fn bench_measures_every_depth_with_and_without_fused_ops() {
    if !ready() {
        return;
    }
    let ran = output(&[&BENCH[..], &["1", "--json"]].concat());
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    for (index, fused) in [true, false].into_iter().enumerate() {
        let measured = &document["measured"][index];
        assert_eq!(measured["fused"], fused);
        assert_eq!(measured["replay"]["mode"], "host", "the reference has no launches");
        for (place, depth) in [0, 5].into_iter().enumerate() {
            assert_eq!(measured["decode"][place]["depth"], depth);
            assert!(number(measured, &format!("/decode/{place}/stepwise/best_tokens_per_second")) > 0.0);
        }
    }
    // A later token reads more of the cache.
    let read = |place| number(&document, &format!("/measured/0/decode/{place}/bytes_per_token"));
    assert!(read(0) < read(1));
    assert_eq!(document["decode"], document["measured"][0]["decode"][0]["stepwise"]);
    let text = text(&output(&[&BENCH[..], &["1"]].concat()).stdout);
    assert!(text.contains("decode at 5, token by token, without fused ops"), "{text}");
}

#[test]
fn bench_interleaves_with_another_program() {
    if !ready() {
        return;
    }
    let mut program = infer(&[&BENCH[..11], &["--turns"]].concat());
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(line()["ready"], true);
    let mut requests = program.stdin.take().unwrap();
    for _ in 0..2 {
        requests.write_all(b"\n").unwrap();
        let document = line();
        let prompt = &document["prompt"];
        assert_eq!(prompt["best_tokens_per_second"], prompt["worst_tokens_per_second"], "one run");
    }
    drop(requests);
    assert!(program.wait().unwrap().success());
}

#[test]
fn depth_beyond_the_context_is_rejected() {
    if !ready() {
        return;
    }
    let output = output(&["bench", "--backend", "ref", "--depth", "100000"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("do not fit the context"), "{output:?}");
}

#[test]
fn check_reports_how_a_token_is_run() {
    if !ready() {
        return;
    }
    let ran = output(&["check", "--backend", "ref", "--json"]);
    assert!(ran.status.success(), "{ran:?}");
    let document: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(document["schema"]["name"], "infer-check");
    assert_eq!((&document["wrong"], &document["replay"]["mode"]), (&0.into(), &"host".into()));
    assert!(document["rows"].as_array().unwrap().iter().all(|row| row["ok"] == true));
    let text = text(&output(&["check", "--backend", "ref"]).stdout);
    assert!(text.contains("a token: computed on the CPU, without launches"), "{text}");
}

#[test]
fn invalid_arguments_are_usage_errors() {
    for (args, said) in [
        (&["run", "--backend", "vulcan"][..], "unknown backend"),
        (&["run", "--top-p", "1.5"], "not between 0 and 1"),
        (&["run", "--temperature", "warm"], "not a number"),
        (&["run", "--ctx", "0"], "0 is not in 1.."),
        (&["bench", "--random", "1XB"], "unknown unit `XB`"),
    ] {
        let output = output(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn broken_files_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.gguf");
    std::fs::write(&path, b"GGUF\x03\0\0\0garbage").unwrap();
    let output = output(&["run", "--model", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("broken.gguf`, byte 8, tensor count: the file ends here"), "{said}");
}

#[test]
fn closed_pipe_is_not_an_error() {
    if !ready() {
        return;
    }
    let mut child = infer(&STORY).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn devices_are_listed_with_reasons() {
    let output = output(&["devices", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"]["name"], "infer-devices");
    let backends = report["backends"].as_array().unwrap();
    assert_eq!(backends.len(), gk::PREFERENCE.len());
    for backend in backends {
        let reason = backend["why"].is_string();
        let devices = backend["devices"].as_array().unwrap();
        assert!(reason == devices.is_empty(), "a reason or devices: {backend}");
        let evidence =
            match (backend["backend"].as_str().unwrap(), devices.first().map(|first| &first["arch"])) {
                ("cpu", arch) if arch.is_none_or(|arch| arch != "neon") => "hardware".into(),
                ("cuda", _) => "hardware".into(),
                ("cpu" | "rocm", _) => "compiled-only".into(),
                ("vulkan" | "opencl" | "sycl", _) => "cpu-implementation".into(),
                ("metal", _) => "source-only".into(),
                _ => serde_json::Value::Null,
            };
        assert_eq!(backend["evidence"], evidence, "{backend}");
    }
    if gk::linked().any(|id| id == "cpu") {
        assert!(report["chosen"].is_object(), "the CPU can always be used");
    }
}

#[test]
fn probe_answers_in_json() {
    let output = output(&["__probe", "ref"]);
    assert!(output.status.success());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["backend"], "ref");
    assert_eq!(answer["why"].is_string(), gk::linked().next().is_none());
}

/// The program must not link a driver's library, or it would not start without one.
#[cfg(target_os = "linux")]
#[test]
fn program_starts_without_drivers() {
    let Ok(output) = Command::new("readelf").args(["-d", env!("CARGO_BIN_EXE_infer")]).output() else {
        skip("readelf", "no readelf");
        return;
    };
    let needed = text(&output.stdout);
    let libraries: Vec<&str> = needed
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[').and_then(|(_, rest)| rest.split_once(']')))
        .map(|(name, _)| name)
        .collect();
    assert!(libraries.contains(&"libc.so.6"), "{needed}");
    let allowed = ["libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libgcc_s.so", "ld-linux"];
    for library in libraries {
        assert!(allowed.iter().any(|prefix| library.starts_with(prefix)), "needs `{library}` to start");
    }
}

/// Opening a named pipe would wait for a writer.
#[cfg(target_os = "linux")]
#[test]
fn models_that_are_not_regular_files_are_refused() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.gguf");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
    for path in [pipe.as_path(), folder.path(), std::path::Path::new("/dev/zero")] {
        let ran = output(&["run", "--model", path.to_str().unwrap()]);
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{}: {said}", path.display());
        assert!(said.contains("not a regular file"), "{}: {said}", path.display());
    }
}
