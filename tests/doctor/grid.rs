//! Measures the guesses by words (`findings/logs/grid.toml`) alone, without any pattern: on the samples of all other signatures, as if
//! each of these did not exist, and on the unseen logs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_exec::log::{LogCause, Signatures};

use crate::unseen::all_logs;

/// Findings with the same cause as that of a cell, or a more exact one.
const SAME: [(&str, &[&str]); 12] = [
    (
        "cuda.toolkit.missing",
        &[
            "cuda.toolkit.not-on-path",
            "cuda.toolkit.root-invalid",
            "cuda.toolkit.runtime-only",
            "cuda.toolkit.win-cuda-path",
            "cuda.toolkit.component-missing",
        ],
    ),
    (
        "win.msvc-missing",
        &["py.msvc-missing", "win.msvc-environment", "cuda.host.cl-missing", "cmake.visual-studio-missing"],
    ),
    ("cuda.not-built", &["py.torch-cpu-only", "link.backends-not-loaded"]),
    (
        "nv.driver.library-missing",
        &["nv.driver.missing", "ctr.driver-library", "cuda.stub-missing", "ctr.runtime-missing"],
    ),
    ("cuda.no-device", &["nv.device-hidden", "nv.driver.missing", "cuda.hardware.absent", "probe.no-device"]),
    ("vk.icd-missing", &["vk.hardware.absent", "vk.software-only"]),
    ("ocl.no-icd", &["ocl.hardware.absent"]),
    ("ocl.loader-missing", &["ocl.library-missing"]),
    (
        "rocm.toolkit.missing",
        &["rocm.toolkit.root-invalid", "rocm.toolkit.headers-missing", "rocm.device-libs-missing"],
    ),
    ("nv.driver.missing", &["cuda.no-device", "nv.driver.library-missing"]),
    ("rocm.kfd-permission", &["rocm.kfd-missing", "ctr.amd-devices"]),
    ("sycl.env-not-sourced", &["sycl.toolkit.missing"]),
];

#[derive(Default)]
struct Tally {
    right: usize,
    wrong: Vec<String>,
}

fn fits(guess: &str, expected: &[String]) -> bool {
    let same = SAME.iter().find(|(id, _)| *id == guess).map_or(&[][..], |(_, same)| same);
    expected.iter().any(|id| id == guess || same.contains(&id.as_str()))
}

/// The cell of a guess, or what kind of name is missing.
fn kind(cause: &LogCause) -> String {
    let kinds = ["header", "library"];
    let missing = kinds.iter().find(|kind| cause.values.contains_key(**kind));
    missing.map_or_else(
        || cause.summary.clone().unwrap_or_default(),
        |kind| format!("the first error names a missing {kind}"),
    )
}

#[test]
fn guesses_alone_are_right_in_four_of_five_cases() {
    let guesses = Signatures::only_guesses();
    let all = Signatures::with_samples();
    let samples = all.iter().filter(|one| !one.is_guess()).flat_map(|one| {
        let texts = std::iter::once(&one.sample).chain(&one.also);
        texts.map(|text| (vec![one.id.as_str().to_owned()], text.clone().into_bytes()))
    });
    let mut report = String::new();
    let mut cells: BTreeMap<String, Tally> = BTreeMap::new();
    for (name, cases) in [("samples", samples.collect::<Vec<_>>()), ("unseen logs", all_logs())] {
        let (mut right, mut wrong, mut silent) = (0, 0, 0);
        for (expected, log) in &cases {
            let reading = guesses.read(log);
            let Some(cause) = reading.causes.first() else {
                silent += 1;
                continue;
            };
            let tally = cells.entry(kind(cause)).or_default();
            if fits(cause.id.as_str(), expected) {
                right += 1;
                tally.right += 1;
            } else {
                wrong += 1;
                tally.wrong.push(format!("{}: {}", expected.join(" or "), cause.text));
            }
        }
        let _ = writeln!(report, "{name}: {right} right, {wrong} wrong, {silent} silent");
    }
    for (cell, tally) in &cells {
        let _ = writeln!(report, "{cell}: {} right, {} wrong", tally.right, tally.wrong.len());
        for wrong in &tally.wrong {
            let _ = writeln!(report, "    {wrong}");
        }
    }
    insta::assert_snapshot!(report);
    for (cell, Tally { right, wrong }) in &cells {
        assert!(right * 5 >= (right + wrong.len()) * 4, "{cell}: {right} right, {wrong:?}");
    }
}
