//! The scripts in `benches/` that users run on their own machines.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Output};

#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test starts its own programs")]
fn output(script: &str, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new("python3").arg(root.join(script)).args(arguments).output().unwrap()
}

fn succeeds(script: &str, arguments: &[&str]) -> bool {
    output(script, arguments).status.success()
}

fn python(script: &str, arguments: &[&str]) {
    let output = output(script, arguments);
    assert!(output.status.success(), "{script} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn gpu_tables_are_generated_from_results() {
    python("benches/gpu/report", &["--check"]);
}

#[test]
fn farm_order_is_close_to_the_lower_bound() {
    let costs_known = ["--deviation", "1", "--check", "1.15", "--stores", "none", "empty"];
    let filled = ["first", "since"];
    python("benches/farm.py", &[&costs_known[..], &filled].concat());
    // The order of the file is not.
    assert!(!succeeds("benches/farm.py", &[&costs_known[..], &["--order", "file"]].concat()));
}

#[test]
fn gpu_kit_reports_hanging_crashing_and_missing_programs() {
    python("benches/gpu/kit/test_kit.py", &[]);
}

#[test]
fn resources_of_kernels_are_compared() {
    python("benches/gpu/kit/test_resources.py", &[]);
}
