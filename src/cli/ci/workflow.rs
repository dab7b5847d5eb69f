//! `gpubuild ci init` and `gpubuild ci verify`: writes the workflow file, or checks that it is up to date.

use gpubuild_detect::id;
use gpubuild_host::HostPath;
use gpubuild_release::ci::Images;
use gpubuild_release::ci::workflow::{self, CiService, MARK};

use super::super::{CommandContext, Exit, Failure};

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

/// The path and the expected content of a service's workflow file.
fn expected(
    context: &CommandContext<'_>,
    folder: Option<&str>,
    service: CiService,
    allow: bool,
) -> Result<(HostPath, String), Failure> {
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
    let text = workflow::text(service, &project.file.ci, &rows, Images::embedded());
    Ok((repository_root(context, &project.root).join(service.file()), text))
}

/// The root folder of the repository, the only place where services read workflow files.
fn repository_root(context: &CommandContext<'_>, project: &HostPath) -> HostPath {
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
    let (file, text) = expected(context, arguments.project.as_deref(), service, arguments.allow_missing)?;
    match context.host.read_text(&file) {
        Ok(found) if found == text => {
            context.printer.status(&format!("{file} is up to date"));
            return Ok(Exit::Done);
        }
        Ok(found) if !found.starts_with(MARK) && !arguments.force => {
            return Err(Failure::usage(
                id!("ci.not-ours"),
                format!("`{file}` exists and was not written by gpubuild"),
            )
            .hint("move it, or replace it with `--force`"));
        }
        _ => {}
    }
    context.host.write(&file, text.as_bytes()).map_err(|error| {
        Failure::negative(id!("file.failed"), format!("failed to write `{file}`: {error}"))
    })?;
    context.printer.status(&format!("wrote {file}"));
    if let Some(note) = service.note() {
        context.printer.status(note);
    }
    Ok(Exit::Done)
}

pub(super) fn verify(arguments: &VerifyArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let all = [CiService::Github, CiService::Gitlab];
    let mut checked = 0;
    for service in all {
        if arguments.format.is_some_and(|form| CiService::from(form) != service) {
            continue;
        }
        let (file, text) = expected(context, arguments.project.as_deref(), service, arguments.allow_missing)?;
        let found = match context.host.read_text(&file) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && arguments.format.is_none() => {
                continue;
            }
            Err(error) => {
                return Err(Failure::usage(id!("ci.missing"), format!("failed to read `{file}`: {error}"))
                    .hint("write it with `gpubuild ci init`"));
            }
        };
        checked += 1;
        if let Some(difference) = workflow::drift(&found, &text) {
            let message = format!("`{file}` is out of date:\n{difference}");
            return Err(Failure::negative(id!("ci.drift"), message.trim_end())
                .hint("update it with `gpubuild ci init`; make changes in gpubuild.toml"));
        }
        context.printer.status(&format!("{file} is up to date"));
    }
    if checked == 0 {
        return Err(Failure::usage(id!("ci.missing"), "no CI workflow file found")
            .hint("write one with `gpubuild ci init`"));
    }
    Ok(Exit::Done)
}
