//! `gpubuild ci matrix`: prints the jobs of a project.

use std::collections::BTreeSet;

use gpubuild_detect::id;
use gpubuild_release::ci::rows::only;
use gpubuild_release::ci::workflow::{GITHUB_MAX_JOBS, GITLAB_MAX_JOBS, gitlab_matrix};
use gpubuild_release::ci::{CiRow, Rows};

use super::super::{CommandContext, Exit, Failure};
use crate::report;

/// Arguments of `ci matrix`.
#[derive(Debug, clap::Args)]
pub(super) struct CiMatrixArguments {
    /// Format of the jobs on standard output
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    format: CiMatrixForm,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print only the jobs of this variant; may be repeated
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// One part of several, for services that limit the number of jobs: `1/2`
    #[arg(long, value_name = "K/N", value_parser = part)]
    part: Option<(usize, usize)>,
    /// Skip jobs that cannot succeed, with a warning, instead of failing
    #[arg(long)]
    allow_missing: bool,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// The values of `--format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum CiMatrixForm {
    /// Human-readable text
    #[default]
    Text,
    /// One JSON document with all details
    Json,
    /// One line for `fromJSON` in a GitHub workflow
    Github,
    /// YAML for `parallel:matrix` in a GitLab CI file
    Gitlab,
}

impl CiMatrixArguments {
    pub(super) fn is_json(&self) -> bool {
        self.json || matches!(self.format, CiMatrixForm::Json | CiMatrixForm::Github)
    }
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if (1..=of).contains(&part) => Ok((part, of)),
        _ => Err("write `1/2` for the first of two parts".to_owned()),
    }
}

pub(super) fn run(arguments: &CiMatrixArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let (_, rows) = super::load_rows(context, arguments.project.as_deref())?;
    super::check_dropped(context, &rows, arguments.allow_missing)?;
    let rows = selected(rows, arguments)?;
    let printer = context.printer;
    let format = if arguments.json { CiMatrixForm::Json } else { arguments.format };
    match format {
        CiMatrixForm::Json => printer.json(&report::ci::CiReport::new(&rows))?,
        CiMatrixForm::Text => printer.print(&report::ci::text(&rows))?,
        CiMatrixForm::Github => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.os.is_some()).collect();
            check_job_count(jobs.len(), GITHUB_MAX_JOBS, "GitHub")?;
            printer.json_line(&report::ci::GithubMatrix::new(jobs.into_iter()))?;
        }
        CiMatrixForm::Gitlab => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.gitlab.is_some()).collect();
            check_job_count(jobs.len(), GITLAB_MAX_JOBS, "GitLab")?;
            printer.print_input(&gitlab_matrix(jobs.into_iter(), ""))?;
        }
    }
    Ok(Exit::Done)
}

/// The rows that `--variant` and `--part` select.
fn selected(rows: Rows, arguments: &CiMatrixArguments) -> Result<Rows, Failure> {
    let names: BTreeSet<String> = arguments.variant.iter().cloned().collect();
    let known: BTreeSet<&str> = rows.include.iter().map(|row| row.variant.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::usage(
            id!("ci.unknown-variant"),
            format!("no job builds the variant `{unknown}`"),
        )
        .hint_of_known(unknown, "available variants", &known));
    }
    let mut rows = only(rows, &names);
    if let Some((part, of)) = arguments.part {
        let each = rows.include.len().div_ceil(of);
        rows.include = rows.include.into_iter().skip((part - 1) * each).take(each).collect();
    }
    Ok(rows)
}

fn check_job_count(jobs: usize, limit: usize, service: &str) -> Result<(), Failure> {
    if jobs <= limit {
        return Ok(());
    }
    let parts = jobs.div_ceil(limit);
    Err(Failure::usage(
        id!("ci.too-many-jobs"),
        format!("too many jobs for a matrix of {service}: {jobs}, and the limit is {limit}"),
    )
    .hint(format!("split the matrix: `--part 1/{parts}` to `--part {parts}/{parts}`, one workflow job each")))
}
