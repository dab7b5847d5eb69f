//! `doctor --binary FILE`: predicts how the loader of this machine, or of a recorded one, resolves an executable or library.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::finding::catalogue::FindingSubject;
use gpubuild_detect::id;
use gpubuild_doctor as doctor;
use gpubuild_doctor::binary;
use gpubuild_host::with_program::WithProgram;
use gpubuild_host::{HostInfo, HostPath, InspectHost, ReadFiles};

use super::diagnose::{self, Depth};
use super::{CommandContext, DoctorArguments, Exit, Failure};
use crate::report::binary::BinaryReport;
use crate::report::doctor::DoctorReport;

/// Examines the file and prints a report.
pub(super) fn run(
    arguments: &DoctorArguments,
    file: &str,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let Some(recorded) = &recorded else {
        return examine(arguments, context.host, &crate::cli::absolute(context, file)?, context);
    };
    // Either a file of the recorded host, or a file of this machine that is added to the recording.
    let recorded_path = recorded.path(file);
    if recorded_path.is_absolute() && recorded.exists(&recorded_path) {
        return examine(arguments, recorded, &recorded_path, context);
    }
    let path = crate::cli::absolute(context, file)?;
    let combined = WithProgram::new(recorded, context.host, &path);
    examine(arguments, &combined, &combined.program(), context)
}

fn examine(
    arguments: &DoctorArguments,
    host: &dyn InspectHost,
    path: &HostPath,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let filter = diagnose::filter(arguments, &findings)?;
    let backends = diagnose::requested_backends(arguments, context, host)?;
    let depth = if arguments.offline { Depth::Files } else { Depth::Drivers };
    let inspected = diagnose::inspect(host, arguments.host.catalogue(context)?, depth)?;
    let case = inspected.case(host, backends.as_deref());
    let examined = binary::examine(host, &case, path).map_err(|error| {
        Failure::usage(id!("binary.unreadable"), format!("failed to read `{path}`: {error}"))
            .hint("specify an executable or a shared library for Linux, Windows or macOS")
    })?;
    let found = doctor::diagnose_binary(&case, &findings, &examined, &filter);
    let mut document =
        DoctorReport::of_machine(&inspected.machine.facts, &inspected.machine.matrix, &[], found);
    document.binary = BinaryReport::new(&examined);
    document.recommended = None;
    document.checked = findings
        .iter()
        .filter(|(family, id, _)| family.subject == FindingSubject::Binary && filter.takes(id))
        .map(|(_, id, _)| id.to_owned())
        .collect();
    document.checked.sort_indirect();
    arguments.output.deliver(&document, context)?;
    Ok(diagnose::exit(arguments.fail_on, &document))
}
