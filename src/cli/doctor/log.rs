//! `gpubuild doctor --log FILE`: finds known failures in a build log and prints the fixes for the machine of the log.

use gpubuild_detect::facts;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_exec::log::{Signatures, to_findings};
use gpubuild_host::{Host, LIBRARY_LIMIT, standard_input};

use super::{DoctorArguments, FailOn};
use crate::cli::{CommandContext, Exit, Failure, machine};
use crate::report::doctor::{DoctorReport, LogReport};

/// Reads the log and reports its causes, with remedies for the machine that it was written on.
pub(super) fn run(
    arguments: &DoctorArguments,
    file: &str,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    machine::check_overrides(host)?;
    let (log, place) = read(file, context)?;
    let signatures = Signatures::embedded();
    let reading = signatures.read(&log);
    let facts = facts::gather(host);
    let catalogue = arguments.host.catalogue(context)?;
    let findings = Findings::embedded();
    let platform = &reading.platform;
    // The log shows for which machine commands are needed; a recorded host is that machine unless the log contradicts.
    let is_named = recorded.is_some() && platform.os.is_none_or(|os| os == facts.platform.os);
    let (written_on, candidates) = if is_named {
        (facts, Vec::new())
    } else {
        (signatures.facts(platform, &facts), signatures.candidates(platform, &facts))
    };
    let is_root = if is_named { host.identity().uid == Some(0) } else { platform.is_container };
    let renderer =
        FindingRenderer::new(&written_on, &catalogue, &findings, is_root).for_candidates(&candidates);
    let found = to_findings(&reading, &place, &renderer, &findings);
    let report = DoctorReport { log: Some(LogReport::new(&reading)), ..DoctorReport::of_findings(found) };
    arguments.output.deliver(&report, context)?;
    let passed = reading.causes.is_empty() || arguments.fail_on == FailOn::Never;
    Ok(if passed { Exit::Done } else { Exit::Negative })
}

/// The log and the name that evidence refers to.
fn read(file: &str, context: &CommandContext<'_>) -> Result<(Vec<u8>, String), Failure> {
    let (log, place) = if file == "-" {
        (standard_input(), "standard input".to_owned())
    } else {
        (context.host.read_input(&crate::cli::absolute(context, file)?, LIBRARY_LIMIT), file.to_owned())
    };
    let log = log.map_err(|error| {
        Failure::usage(id!("doctor.log-unreadable"), format!("failed to read `{place}`: {error}"))
            .hint("specify a file with the output of a build, or `-` for standard input")
    })?;
    Ok((log, place))
}
