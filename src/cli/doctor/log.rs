//! `gpubuild doctor --log FILE`: which known failure the output of a build shows, and what to do about it here.

use gpubuild_detect::facts;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::id;
use gpubuild_detect::tell::Teller;
use gpubuild_exec::log::{Signatures, tell};
use gpubuild_host::{Host, standard_input};

use super::{DoctorArguments, FailOn};
use crate::cli::{CommandContext, Exit, Failure, look};
use crate::report::doctor::DoctorReport;

/// Reads the log and reports its causes, with remedies for this machine or a recorded one.
pub(super) fn run(
    arguments: &DoctorArguments,
    file: &str,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    look::check_overrides(host)?;
    let (log, place) = read(file, context)?;
    let reading = Signatures::embedded().read(&log);
    let facts = facts::gather(host);
    let catalogue = arguments.host.catalogue(context)?;
    let findings = Findings::embedded();
    let is_root = host.identity().uid == Some(0);
    let teller = Teller::new(&facts, &catalogue, &findings, is_root);
    let found = tell(&reading, &place, &teller, &findings);
    arguments.output.deliver(&DoctorReport::of_findings(found), context)?;
    let calm = reading.causes.is_empty() || arguments.fail_on == FailOn::Never;
    Ok(if calm { Exit::Done } else { Exit::Negative })
}

/// The log and the name under which it is quoted.
fn read(file: &str, context: &CommandContext<'_>) -> Result<(Vec<u8>, String), Failure> {
    let (log, place) = if file == "-" {
        (standard_input(), "standard input".to_owned())
    } else {
        (context.host.read(&crate::cli::absolute(context, file)?), file.to_owned())
    };
    let log = log.map_err(|error| {
        Failure::usage(id!("doctor.log-unreadable"), format!("failed to read `{place}`: {error}"))
            .hint("name the file that holds the output of the build, or `-` for standard input")
    })?;
    Ok((log, place))
}
