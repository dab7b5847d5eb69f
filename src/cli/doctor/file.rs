//! `doctor --file`: checks project files such as Dockerfiles, compose files and workflows instead of the machine.

use gpubuild_detect::finding::Findings;
use gpubuild_detect::id;
use gpubuild_doctor::file::{self, InputFile, MAX_FILE_SIZE};
use gpubuild_host::{FileKind, standard_input};

use super::{DoctorArguments, diagnose};
use crate::cli::{CommandContext, Exit, Failure, absolute};
use crate::report::doctor::DoctorReport;

/// Checks the files and prints a report.
pub(super) fn run(arguments: &DoctorArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let filter = diagnose::filter(arguments, &findings)?;
    let inputs = arguments.file.iter().map(|name| read(name, context)).collect::<Result<Vec<_>, _>>()?;
    let catalogue = arguments.host.catalogue(context)?;
    let Some(cuda) = catalogue.get("cuda") else {
        return Err(Failure::usage(id!("file.no-tables"), "no description of the CUDA toolkit is available")
            .hint("omit `--toolkits`, or add `cuda.toml` to it"));
    };
    let drafts = file::examine(&inputs, cuda).map_err(|error| Failure::of(&error, Exit::Usage))?;
    let mut found: Vec<_> = drafts.iter().map(|draft| file::to_finding(draft, &findings)).collect();
    found.retain(|finding| filter.takes(&finding.id));
    // Sort by severity over all files. The sort is stable, so findings of equal severity keep the order of the command line.
    found.sort_by_key(|finding| finding.severity);
    let mut document = DoctorReport::of_findings(found);
    let of_files =
        findings.iter().filter(|(family, _, _)| family.family == "files").map(|(_, id, _)| id.to_owned());
    document.checked = of_files.filter(|id| filter.takes(id)).collect();
    arguments.output.deliver(&document, context)?;
    Ok(diagnose::exit(arguments.fail_on, &document))
}

fn read(name: &str, context: &CommandContext<'_>) -> Result<InputFile, Failure> {
    if name == "-" {
        let bytes = standard_input().map_err(|error| {
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
