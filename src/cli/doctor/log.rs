//! `gpubuild doctor --log FILE`: finds known failures in a build log and prints the fixes for the machine of the log.

use std::io::{self, Read};

use gpubuild_detect::facts;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::id;
use gpubuild_exec::log::{LogReading, Signatures, to_findings};
use gpubuild_host::Host;

use super::{DoctorArguments, FailOn};
use crate::cli::{CommandContext, Exit, Failure, machine};
use crate::report::doctor::{DoctorReport, LogReport};

/// Number of bytes after which reading stops: the output of a program that does not end has no last line.
const LIMIT: u64 = 64 << 30;

/// Reads the log and reports its causes, with remedies for the machine that it was written on.
pub(super) fn run(
    arguments: &DoctorArguments,
    file: &str,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    machine::check_overrides(host)?;
    let signatures = Signatures::embedded();
    let (reading, place) = read(file, signatures, context)?;
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

/// What the log says, and the name that evidence refers to. The log is read part by part: it may not fit into memory.
fn read(
    file: &str,
    signatures: &Signatures,
    context: &CommandContext<'_>,
) -> Result<(LogReading, String), Failure> {
    let is_input = file == "-";
    let place = if is_input { "standard input" } else { file };
    let unreadable = |error: io::Error| {
        Failure::usage(id!("doctor.log-unreadable"), format!("failed to read `{place}`: {error}"))
            .hint("specify a file with the output of a build, or `-` for standard input")
    };
    let mut stream: Box<dyn Read> = if is_input {
        context.input.stream()
    } else {
        context.host.open_input(&crate::cli::absolute(context, file)?).map_err(unreadable)?
    };
    let mut reader = signatures.reader();
    let mut part = vec![0; 64 << 10];
    let mut size = 0;
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) => {
                reader.push(&part[..count]);
                size += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(error)),
        }
        if size >= LIMIT {
            context
                .printer
                .warning(&format!("`{place}` has more than {} GiB; the rest is not read", LIMIT >> 30));
            break;
        }
    }
    Ok((reader.finish(), place.to_owned()))
}
