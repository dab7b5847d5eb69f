//! `doctor --file`: a Dockerfile, a compose file, a workflow instead of a machine.

use gpubuild_detect::finding::Findings;
use gpubuild_doctor::file::{self, LARGEST, Patient};
use gpubuild_host::{FileKind, standard_input};

use super::{Arguments, machine};
use crate::cli::{Context, Exit, Failure, absolute};
use crate::report::doctor::Document;

/// Looks at the files and tells.
pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let findings = Findings::embedded();
    let filter = machine::filter(arguments, &findings)?;
    let patients = arguments.file.iter().map(|name| read(name, context)).collect::<Result<Vec<_>, _>>()?;
    let catalogue = arguments.host.catalogue(context)?;
    let Some(cuda) = catalogue.get("cuda") else {
        return Err(Failure::usage("file.no-tables", "no description of the CUDA toolkit is there")
            .hint("leave out `--toolkits`, or add `cuda.toml` to it"));
    };
    let drafts = file::examine(&patients, cuda)
        .map_err(|error| Failure::usage(error.id(), error.to_string()).hint(error.hint()))?;
    let mut found: Vec<_> = drafts.iter().map(|draft| file::tell(draft, &findings)).collect();
    found.retain(|finding| filter.takes(&finding.id));
    // Errors of all files first; within a severity the order of the command line stays.
    found.sort_by_key(|finding| finding.severity);
    let mut document = Document::of_findings(found);
    let of_files =
        findings.iter().filter(|(family, _, _)| family.family == "files").map(|(_, id, _)| id.to_owned());
    document.checked = of_files.filter(|id| filter.takes(id)).collect();
    arguments.output.deliver(&document, context)?;
    Ok(machine::exit(arguments.fail_on, &document))
}

fn read(name: &str, context: &Context<'_>) -> Result<Patient, Failure> {
    if name == "-" {
        let bytes = standard_input().map_err(|error| {
            Failure::usage("file.unreadable", format!("failed to read standard input: {error}"))
        })?;
        return Ok(Patient { name: "standard input".to_owned(), bytes });
    }
    let path = absolute(context, name)?;
    let unreadable = |why: String| {
        Failure::usage("file.unreadable", format!("failed to read `{}`: {why}", file::text::shown(name)))
            .hint("`--file` takes one file, and may be given several times")
    };
    let stat = context.host.stat(&path).map_err(|error| unreadable(error.to_string()))?;
    if stat.kind != FileKind::File {
        return Err(unreadable("it is no regular file".to_owned()));
    }
    let bytes = context.host.read_start(&path, LARGEST + 1).map_err(|error| unreadable(error.to_string()))?;
    Ok(Patient { name: name.to_owned(), bytes })
}
