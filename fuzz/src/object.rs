//! An executable, library or archive, as `doctor --binary`, `audit` and `link` read it.

use gpubuild::report::binary::BinaryReport;
use gpubuild::report::doctor::DoctorReport;
use gpubuild_doctor::{Filter, binary, diagnose_binary};
use gpubuild_host::with_program::WithProgram;
use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};
use gpubuild_linker::symbols;
use gpubuild_object::embedded;

use super::machine::{ExaminedMachine, FINDINGS};
use super::output::{check_report, check_text};

/// Examines a file on machines of each operating system, and reads the symbols of an archive.
pub fn run(bytes: &[u8]) -> bool {
    let origin = RecordedHost::builder(Os::Linux, Arch::X86_64).bytes("/input/program", bytes).build();
    let mut is_accepted = false;
    for machine in ExaminedMachine::all() {
        is_accepted |= examine(machine, &origin);
    }
    if let Err(error) = embedded(&origin, &origin.path("/input/program")) {
        check_text(&error.to_string());
    }
    for read in [symbols::defined::<&[u8]>, symbols::globals, symbols::groups] {
        match read(bytes) {
            Ok(_) => is_accepted = true,
            Err(error) => check_text(&error),
        }
    }
    is_accepted
}

fn examine(machine: &ExaminedMachine, origin: &RecordedHost) -> bool {
    let host = WithProgram::new(&machine.host, origin, &origin.path("/input/program"));
    let case = machine.case();
    match binary::examine(&host, &case, &host.program()) {
        Ok(examined) => {
            let found = diagnose_binary(&case, &FINDINGS, &examined, &Filter::default());
            let state = &machine.state;
            let mut report = DoctorReport::of_machine(&state.facts, &state.matrix, &[], found);
            report.binary = BinaryReport::new(&examined);
            check_report(&report);
            true
        }
        Err(error) => {
            check_text(&error.to_string());
            false
        }
    }
}
