//! `gpubuild ci init` and `gpubuild ci verify`: writes the workflow file, or checks that it is up to date.

use std::io::{self, ErrorKind};

use gpubuild_detect::id;
use gpubuild_host::HostPath;
use gpubuild_host::links::refuse_link;
use gpubuild_release::ci::workflow::{self, CiService, MARK};

use super::super::{CommandContext, Exit, Failure};
use crate::report::ci_files::{CiInitReport, CiVerifyReport, VerifiedWorkflow, WorkflowState};

/// Largest workflow file in bytes that is read.
const MAX_WORKFLOW: u64 = 4 << 20;

/// Arguments of `ci init`.
#[derive(Debug, clap::Args)]
pub(super) struct InitArguments {
    /// CI service
    #[arg(long, value_enum, default_value_t, value_name = "SERVICE")]
    format: WorkflowForm,
    /// Replace a file that gpubuild did not write
    #[arg(long)]
    force: bool,
    /// Skip jobs that cannot succeed, with a warning, instead of failing
    #[arg(long)]
    allow_missing: bool,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `ci verify`.
#[derive(Debug, clap::Args)]
pub(super) struct VerifyArguments {
    /// CI service [default: every service whose file exists]
    #[arg(long, value_enum, value_name = "SERVICE")]
    format: Option<WorkflowForm>,
    /// Skip jobs that cannot succeed, with a warning, instead of failing
    #[arg(long)]
    allow_missing: bool,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum WorkflowForm {
    #[default]
    Github,
    Gitlab,
}

impl From<WorkflowForm> for CiService {
    fn from(form: WorkflowForm) -> Self {
        match form {
            WorkflowForm::Github => Self::Github,
            WorkflowForm::Gitlab => Self::Gitlab,
        }
    }
}

/// What a workflow file should be.
struct ExpectedWorkflow {
    root: HostPath,
    file: HostPath,
    text: String,
    jobs: usize,
}

/// The path and the expected content of a service's workflow file.
fn expected(
    context: &CommandContext<'_>,
    folder: Option<&str>,
    service: CiService,
    allow: bool,
) -> Result<ExpectedWorkflow, Failure> {
    let (project, rows) = super::load_rows(context, folder)?;
    super::check_dropped(context, &rows, allow)?;
    if service == CiService::Github && rows.include.len() > service.max_jobs() {
        let message = format!(
            "too many jobs for a matrix of GitHub: {}, and the limit is {}",
            rows.include.len(),
            service.max_jobs()
        );
        return Err(Failure::usage(id!("ci.too-many-jobs"), message)
            .hint("write your own workflow with `gpubuild ci matrix --format github --part 1/2`"));
    }
    let text = workflow::text(service, &project.file.ci, &rows, &super::images(context, &project)?);
    let root = repository_root(context, &project.root);
    let file = root.join(service.file());
    Ok(ExpectedWorkflow { root, file, text, jobs: rows.include.len() })
}

/// The root folder of the repository, the only place where services read workflow files.
pub(super) fn repository_root(context: &CommandContext<'_>, project: &HostPath) -> HostPath {
    let mut folder = Some(project.clone());
    while let Some(here) = folder {
        if context.host.exists(&here.join(".git")) {
            return here;
        }
        folder = here.parent();
    }
    project.clone()
}

pub(super) fn init(arguments: &InitArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let service = CiService::from(arguments.format);
    let expected = expected(context, arguments.project.as_deref(), service, arguments.allow_missing)?;
    let ExpectedWorkflow { root, file, text, jobs } = expected;
    let done = |state: WorkflowState| {
        let document = CiInitReport::new(service, file.to_string(), state, jobs);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            document.text().lines().for_each(|line| context.printer.status(line));
        }
        Ok(Exit::Done)
    };
    match read(context, &file) {
        Ok(found) if found == text => return done(WorkflowState::UpToDate),
        Ok(found) if !found.starts_with(MARK) && !arguments.force => {
            return Err(Failure::usage(
                id!("ci.not-ours"),
                format!("`{file}` exists and was not written by gpubuild"),
            )
            .hint("move it, or replace it with `--force`"));
        }
        Err(error) if error.kind() != ErrorKind::NotFound && !arguments.force => {
            return Err(Failure::usage(id!("ci.not-ours"), format!("failed to read `{file}`: {error}"))
                .hint("move it, or replace it with `--force`"));
        }
        _ => {}
    }
    refuse_linked_folders(context, &root, &file)?;
    context
        .host
        .write(&file, text.as_bytes())
        .map_err(|error| Failure::file(id!("file.failed"), "write", &file, &error))?;
    done(WorkflowState::Written)
}

/// Reads a workflow file.
fn read(context: &CommandContext<'_>, file: &HostPath) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&context.host.read_up_to(file, MAX_WORKFLOW)?).into_owned())
}

/// Refuses links in place of the folders between the root of the repository and the file, which would then be written elsewhere.
fn refuse_linked_folders(
    context: &CommandContext<'_>,
    root: &HostPath,
    file: &HostPath,
) -> Result<(), Failure> {
    let mut folder = file.parent();
    while let Some(here) = folder.filter(|here| here != root) {
        refuse_link(context.host, &here).map_err(|error| Failure::of(&error, Exit::Negative))?;
        folder = here.parent();
    }
    Ok(())
}

pub(super) fn verify(arguments: &VerifyArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let all = [CiService::Github, CiService::Gitlab];
    let mut verified = Vec::new();
    for service in all {
        if arguments.format.is_some_and(|form| CiService::from(form) != service) {
            continue;
        }
        let expected = expected(context, arguments.project.as_deref(), service, arguments.allow_missing)?;
        let ExpectedWorkflow { file, text, jobs, .. } = expected;
        let found = match read(context, &file) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound && arguments.format.is_none() => {
                continue;
            }
            Err(error) => {
                return Err(Failure::usage(id!("ci.missing"), format!("failed to read `{file}`: {error}"))
                    .hint("write it with `gpubuild ci init`"));
            }
        };
        if let Some(difference) = workflow::drift(&found, &text) {
            let message = format!("`{file}` is out of date:\n{difference}");
            return Err(Failure::negative(id!("ci.drift"), message.trim_end())
                .hint("update it with `gpubuild ci init`; make changes in gpubuild.toml"));
        }
        verified.push(VerifiedWorkflow::new(service, file.to_string(), jobs));
    }
    if verified.is_empty() {
        return Err(Failure::usage(id!("ci.missing"), "no CI workflow file found")
            .hint("write one with `gpubuild ci init`"));
    }
    let document = CiVerifyReport::new(verified);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        document.text().lines().for_each(|line| context.printer.status(line));
    }
    Ok(Exit::Done)
}
