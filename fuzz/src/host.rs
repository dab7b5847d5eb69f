//! A recorded host, as `detect --host` and `doctor --host` read it.

use gpubuild::report::detect_text::{self, Detail, DetectSubject};
use gpubuild::report::doctor::DoctorReport;
use gpubuild_core::Backend;
use gpubuild_doctor::{Assessment, Filter, arch_plan, assess};
use gpubuild_host::RecordedHost;
use gpubuild_host::recorded::HostRecording;

use super::machine::{ExaminedMachine, FINDINGS};
use super::output::{check_report, check_text};

/// Parses a recording and diagnoses the machine.
pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let host = match RecordedHost::parse("host.toml", text) {
        Ok(host) => host,
        Err(error) => {
            check_text(&error.to_string());
            return false;
        }
    };
    // A report with a recording is no recording, but contains one.
    if let Ok(recording) = HostRecording::parse("host.toml", text) {
        let written = HostRecording::parse("written.toml", &recording.to_toml());
        let written = written.expect("a recording that is written is valid");
        assert_eq!(written, recording, "a recording that is written is read differently");
    }
    diagnose(&ExaminedMachine::new(host));
    true
}

fn diagnose(machine: &ExaminedMachine) {
    let state = &machine.state;
    let case = machine.case();
    let Assessment { findings, matrix } = assess(&case, &FINDINGS, &Filter::default());
    let mut report = DoctorReport::of_machine(&state.facts, &matrix, &Backend::ALL, findings);
    report.arch_plan = arch_plan::of_case(&case);
    check_report(&report);
    let subject = DetectSubject {
        facts: &state.facts,
        inventory: &state.inventory,
        catalogue: &state.catalogue,
        matrix: &matrix,
        backends: &Backend::ALL,
        detail: Detail::Everything,
    };
    check_text(&detect_text::text(&subject, &|_, text| text.to_owned()));
}
