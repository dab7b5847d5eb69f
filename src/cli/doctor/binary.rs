//! `doctor --binary FILE`: what the loader will do with an executable or library on this machine, or on a recorded one.

use gpubuild_detect::finding::Findings;
use gpubuild_detect::finding::catalogue::FindingSubject;
use gpubuild_detect::id;
use gpubuild_doctor as doctor;
use gpubuild_doctor::binary;
use gpubuild_host::carried::Carried;
use gpubuild_host::{HostInfo, HostPath, InspectHost, ReadFiles};

use super::machine::{self, Depth};
use super::{CommandContext, DoctorArguments, Exit, Failure};
use crate::report::binary::BinaryReport;
use crate::report::doctor::DoctorReport;

/// Looks into a file and tells.
pub(super) fn run(
    arguments: &DoctorArguments,
    file: &str,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let Some(machine) = &recorded else {
        return examine(arguments, context.host, &crate::cli::absolute(context, file)?, context);
    };
    // A file of the recorded machine itself, or one from here that is carried there.
    let there = machine.path(file);
    if there.is_absolute() && machine.exists(&there) {
        return examine(arguments, machine, &there, context);
    }
    let here = crate::cli::absolute(context, file)?;
    let carried = Carried::new(machine, context.host, &here);
    examine(arguments, &carried, &carried.file(), context)
}

fn examine(
    arguments: &DoctorArguments,
    host: &dyn InspectHost,
    path: &HostPath,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let filter = machine::filter(arguments, &findings)?;
    let asked = machine::asked(arguments, context, host)?;
    let depth = if arguments.offline { Depth::Files } else { Depth::Drivers };
    let seen = machine::see(host, arguments.host.catalogue(context)?, depth)?;
    let case = seen.case(host, asked.as_deref());
    let examined = binary::examine(host, &case, path).map_err(|error| {
        Failure::usage(id!("binary.unreadable"), format!("failed to look into `{path}`: {error}"))
            .hint("name an executable or a shared library of Linux, Windows or macOS")
    })?;
    let told = doctor::diagnose_binary(&case, &findings, &examined, &filter);
    let mut document = DoctorReport::of_machine(&seen.sight.facts, &seen.sight.matrix, &[], told);
    document.binary = BinaryReport::new(&examined);
    document.recommended = None;
    document.checked = findings
        .iter()
        .filter(|(family, id, _)| family.subject == FindingSubject::Binary && filter.takes(id))
        .map(|(_, id, _)| id.to_owned())
        .collect();
    document.checked.sort();
    arguments.output.deliver(&document, context)?;
    Ok(machine::exit(arguments.fail_on, &document))
}
