//! `doctor --file`: checks project files such as Dockerfiles, compose files and workflows instead of the machine.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::id;
use gpubuild_doctor::file::{self, InputFile, MAX_FILE_SIZE};
use gpubuild_host::FileKind;

use super::{DoctorArguments, diagnose};
use crate::cli::{CommandContext, Exit, Failure, absolute};
use crate::report::doctor::DoctorReport;

/// Checks the files and prints a report. A file that can't be read or parsed is a finding if there are other files, and an error
/// otherwise; the exit status is 2 in both cases.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let filter = diagnose::filter(arguments, &findings)?;
    let catalogue = arguments.host.catalogue(context)?;
    let Some(cuda) = catalogue.get("cuda") else {
        return Err(Failure::usage(id!("file.no-tables"), "no description of the CUDA toolkit is available")
            .hint("omit `--toolkits`, or add `cuda.toml` to it"));
    };
    let is_single = arguments.file.len() == 1;
    let mut inputs = Vec::new();
    let mut not_checked = Vec::new();
    for name in &arguments.file {
        match read(name, context) {
            Ok(input) => inputs.push(input),
            Err(failure) if is_single => return Err(failure),
            Err(failure) => not_checked.push(file::not_checked(name, &failure.message, failure.hint)),
        }
    }
    let examination = file::examine(&inputs, cuda);
    if let Some(error) = examination.unreadable.first().filter(|_| is_single) {
        return Err(Failure::of(error, Exit::Usage));
    }
    not_checked.extend(
        examination
            .unreadable
            .iter()
            .map(|error| file::not_checked(error.name(), &error.to_string(), error.hint())),
    );
    let mut found: Vec<_> =
        examination.drafts.iter().map(|draft| file::to_finding(draft, &findings)).collect();
    found.retain(|finding| filter.takes(&finding.id));
    // `--only` and `--skip` select checks. A file that was not checked is always reported.
    found.extend(not_checked.iter().map(|draft| file::to_finding(draft, &findings)));
    // Sort by severity over all files. The sort is stable, so findings of equal severity keep the order of the command line.
    found.sort_indirect_by_key(|finding| finding.severity);
    let mut document = DoctorReport::of_findings(found);
    let of_files =
        findings.iter().filter(|(family, _, _)| family.family == "files").map(|(_, id, _)| id.to_owned());
    document.checked = of_files.filter(|id| filter.takes(id)).collect();
    arguments.output.deliver(&document, context)?;
    Ok(if not_checked.is_empty() { diagnose::exit(arguments.fail_on, &document) } else { Exit::Usage })
}

fn read(name: &str, context: &CommandContext<'_>) -> Result<InputFile, Failure> {
    if name == "-" {
        let bytes = context.input.document().map_err(|error| {
            Failure::usage(id!("file.unreadable"), format!("failed to read standard input: {error}"))
        })?;
        return Ok(InputFile { name: "standard input".to_owned(), bytes });
    }
    let path = absolute(context, name)?;
    let unreadable = |why: String| {
        Failure::usage(
            id!("file.unreadable"),
            format!("failed to read `{}`: {why}", file::text::sanitize(name)),
        )
        .hint("`--file` accepts one file and may be repeated")
    };
    let stat = context.host.stat(&path).map_err(|error| unreadable(error.to_string()))?;
    if stat.kind != FileKind::File {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let bytes =
        context.host.read_start(&path, MAX_FILE_SIZE + 1).map_err(|error| unreadable(error.to_string()))?;
    Ok(InputFile { name: name.to_owned(), bytes })
}
