//! A build log, as `doctor --log` reads it.

use gpubuild::report::doctor::{DoctorReport, LogReport};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_exec::log::{LogReading, Signatures, to_findings};

use super::machine::{CATALOGUE, ExaminedMachine, FINDINGS};
use super::output::check_report;

/// Reads a log at once and in small parts, which must give the same result, and renders its findings.
pub fn run(bytes: &[u8]) -> bool {
    let reading = read(bytes, bytes.len());
    assert_eq!(reading, read(bytes, 1 + bytes.len() / 7), "the result depends on how the log is split");
    for cause in &reading.causes {
        assert!((1..=reading.lines).contains(&cause.line), "line {} of {}", cause.line, reading.lines);
    }
    let signatures = Signatures::embedded();
    let facts = &ExaminedMachine::linux().state.facts;
    let (written_on, candidates) =
        (signatures.facts(&reading.platform, facts), signatures.candidates(&reading.platform, facts));
    let renderer = FindingRenderer::new(&written_on, &CATALOGUE, &FINDINGS, reading.platform.is_container)
        .for_candidates(&candidates);
    let findings = to_findings(&reading, "build.log", &renderer, &FINDINGS);
    let log = Some(LogReport::new(&reading));
    check_report(&DoctorReport { log, ..DoctorReport::of_findings(findings) });
    !reading.causes.is_empty()
}

fn read(bytes: &[u8], size: usize) -> LogReading {
    let mut reader = Signatures::embedded().reader();
    for part in bytes.chunks(size.max(1)) {
        reader.push(part);
    }
    reader.finish()
}
