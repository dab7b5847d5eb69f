//! The scripts in `benches/` that other people run on their machines.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test starts its own programs")]
fn python(script: &str, arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("python3").arg(root.join(script)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{script} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_tables_of_gpus_are_made_from_the_results() {
    python("benches/gpu/report", &["--check"]);
}

#[test]
fn the_gpu_kit_reports_programs_that_hang_crash_or_are_missing() {
    python("benches/gpu/kit/test_kit.py", &[]);
}
