//! Driver libraries that crash, hang or return invalid values, loaded by the real command: the report is always
//! complete.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::{Value, json};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doctor/fake_driver.c");
/// The library that each probe opens first.
const LIBRARIES: [(&str, &str); 5] = [
    ("cuda", "libcuda.so.1"),
    ("rocm", "libamdhip64.so.7"),
    ("vulkan", "libvulkan.so.1"),
    ("opencl", "libOpenCL.so.1"),
    ("sycl", "libze_loader.so.1"),
];

/// A folder with faulty libraries for some probes. `None` without a C compiler.
fn libraries(fault: &str, probes: &[&str]) -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("fake.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", &format!("-DFAULT={fault}"), "-o"])
        .arg(&first)
        .arg(SOURCE)
        .output();
    let Ok(compiled) = compiled else {
        crate::requirements::skip("cc", "no cc");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for (_, name) in LIBRARIES.iter().filter(|(probe, _)| probes.contains(probe)) {
        std::fs::copy(&first, folder.path().join(name)).unwrap();
    }
    // The only Vulkan driver: without a driver the doctor knows the answer from files and does not blame the library.
    let driver = serde_json::json!({"file_format_version": "1.0.0", "ICD": {"library_path": first, "api_version": "1.3.0"}});
    std::fs::write(folder.path().join("icd.json"), driver.to_string()).unwrap();
    Some(folder)
}

/// Runs the command as if the machine had a GPU of each vendor.
fn gpubuild(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpubuild"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folder)
        .env("LD_LIBRARY_PATH", folder)
        .env("VK_DRIVER_FILES", folder.join("icd.json"))
        .env("GPUBUILD_CACHE", folder.join("cache"))
        .env("GPUBUILD_SET", "cuda.cc=90,cuda.driver=580.65,rocm.gfx=gfx1100")
        .output()
        .unwrap()
}

/// Runs the doctor and checks that the report is complete.
fn report(folder: &Path) -> Value {
    let started = Instant::now();
    let ran = gpubuild(folder, &["doctor", "--json"]);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{ran:?}");
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(started.elapsed().as_secs() < 60, "a driver delayed the doctor for {:?}", started.elapsed());
    let document: Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ran.stdout)));
    assert_eq!(document["schema"], json!({"name": "doctor", "version": 1}));
    let backends: Vec<&str> =
        document["backends"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(backends, ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"]);
    let findings = document["findings"].as_array().unwrap();
    for (severity, number) in [("error", "errors"), ("warning", "warnings"), ("info", "infos")] {
        let counted = findings.iter().filter(|one| one["severity"] == severity).count();
        assert_eq!(document["summary"][number], counted, "{severity}");
    }
    for finding in findings {
        assert!(!finding["summary"].as_str().unwrap().is_empty(), "{finding:#}");
        assert!(!finding["remedy"]["text"].as_str().unwrap().is_empty(), "{finding:#}");
    }
    document
}

/// Every id in the report, of findings and their consequences.
fn named(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap();
    let below = |finding: &Value| finding["consequences"].as_array().cloned().unwrap_or_default();
    let all = findings.iter().flat_map(|finding| std::iter::once(finding.clone()).chain(below(finding)));
    all.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn check(fault: &str, expected: &str) {
    let all: Vec<&str> = LIBRARIES.iter().map(|(probe, _)| *probe).collect();
    let Some(folder) = libraries(fault, &all) else { return };
    let document = report(folder.path());
    assert!(named(&document).iter().any(|id| id == expected), "{fault}: {document:#}");
    let text = document.to_string();
    assert!(!text.contains('\u{1b}') && !text.contains("\\u001b"), "{fault}: {text}");
    // Each probe on its own prints one valid line or none.
    for (probe, _) in LIBRARIES.iter().filter(|_| fault != "HANG") {
        let ran = gpubuild(folder.path(), &["__probe", probe]);
        let output = String::from_utf8_lossy(&ran.stdout).into_owned();
        let reply = output.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let says = |status: &str| reply.as_ref().is_some_and(|reply| reply["status"] == status);
        assert!(
            ran.status.code() != Some(0) || reply.is_none() || says("ok") || says("failed"),
            "{probe}: {output}"
        );
    }
}

#[test]
fn crashing_drivers_do_not_crash_the_doctor() {
    check("SEGFAULT", "probe.crashed");
    check("ABORT", "probe.crashed");
}

#[test]
fn hanging_drivers_time_out() {
    check("HANG", "probe.timeout");
}

/// The parent ends as if it had been killed.
#[cfg(target_os = "linux")]
#[test]
fn hanging_drivers_end_with_their_parent() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    use std::time::Duration;

    let Some(folder) = libraries("HANG", &["opencl"]) else { return };
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" __probe opencl > reply 2>&1 & echo $!; read line"])
        .arg(env!("CARGO_BIN_EXE_gpubuild"))
        .current_dir(folder.path())
        .env("LD_LIBRARY_PATH", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let process = Path::new("/proc").join(pid.trim());
    let wait_until = |what: &str, is_done: &dyn Fn() -> bool| {
        let is_reached = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            is_done()
        });
        assert!(is_reached, "{what}");
    };
    let maps = || std::fs::read_to_string(process.join("maps")).unwrap_or_default();
    wait_until("the driver is loaded", &|| maps().contains("libOpenCL.so.1"));
    shell.kill().unwrap();
    shell.wait().unwrap();
    wait_until("the child has ended", &|| maps().is_empty());
}

#[test]
fn drivers_that_exit_silently_are_reported() {
    check("LEAVE", "probe.failed");
}

#[test]
fn drivers_with_invalid_values_are_reported() {
    check("NONSENSE", "probe.invalid");
}

#[test]
fn drivers_that_flood_output_and_crash_are_reported() {
    check("FLOOD", "probe.crashed");
}

#[test]
fn one_bad_driver_does_not_affect_others() {
    for (probe, _) in LIBRARIES {
        let Some(folder) = libraries("SEGFAULT", &[probe]) else { return };
        let document = report(folder.path());
        let backend = |id: &str| {
            let all = document["backends"].as_array().unwrap();
            all.iter().find(|one| one["id"] == id).unwrap()["run"]["findings"].to_string()
        };
        for (other, _) in LIBRARIES.iter().filter(|(other, _)| *other != probe) {
            assert!(!backend(other).contains("probe.crashed"), "{probe}: {other}: {}", backend(other));
        }
    }
}

#[test]
fn text_report_is_complete_despite_faults() {
    let Some(folder) = libraries("NONSENSE", &["cuda", "rocm"]) else { return };
    let ran = gpubuild(folder.path(), &["doctor"]);
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(text.lines().any(|line| line.contains("errors")) && !text.contains('\u{1b}'), "{text}");
    let file: PathBuf = folder.path().join("report.json");
    assert!(!file.exists());
}
