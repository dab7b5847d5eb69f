//! The scripts in `benches/` that users run on their own machines.
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
fn gpu_tables_are_generated_from_results() {
    python("benches/gpu/report", &["--check"]);
}

#[test]
fn gpu_kit_reports_hanging_crashing_and_missing_programs() {
    python("benches/gpu/kit/test_kit.py", &[]);
}
