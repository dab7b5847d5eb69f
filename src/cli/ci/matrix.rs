//! `gpubuild ci matrix`: prints the jobs of a project.

use std::collections::BTreeSet;

use gpubuild_core::order::{CollectSorted as _, SortIndirect as _};
use gpubuild_detect::id;
use gpubuild_plan::project::Project;
use gpubuild_release::ci::rows::only;
use gpubuild_release::ci::test_row;
use gpubuild_release::ci::workflow::{GITHUB_MAX_JOBS, GITLAB_MAX_JOBS, gitlab_matrix, gitlab_tests};
use gpubuild_release::ci::{CiRow, CiTestRow, Rows};

use super::super::{CommandContext, Exit, Failure};
use super::changes::{self, ChangedRows};
use super::cluster;
use crate::report;
use crate::report::ci::{CiChangesReport, UnchangedRows};

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
    /// Print only the jobs for this platform: `linux-aarch64` [default for `slurm` and `kubernetes`: the platform of this machine]
    #[arg(long, value_name = "PLATFORM")]
    pub(super) platform: Option<String>,
    /// Print only the jobs whose inputs differ from this commit, and on stderr the reason for each job
    #[arg(long, value_name = "REF")]
    pub(super) changed_since: Option<String>,
    /// Order the jobs so that those whose inputs differ from this commit are first, and print on stderr the reason for each job
    #[arg(long, value_name = "REF", conflicts_with = "changed_since")]
    changed_first: Option<String>,
    /// Name of the run, part of the names of Jobs and folders (`kubernetes`): up to 30 characters of a to z, digits
    /// and `-`
    #[arg(long, value_name = "NAME", default_value = "1", value_parser = cluster::run_name)]
    pub(super) run: String,
    /// Print the jobs that test packages of other jobs instead of those that build (`github`, `gitlab`,
    /// `kubernetes`)
    #[arg(long)]
    pub(super) tests: bool,
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
    /// A script that submits the jobs and a merge of their packages to Slurm
    Slurm,
    /// YAML with an Indexed Job for each group of jobs and a Job that merges their packages
    Kubernetes,
}

impl CiMatrixArguments {
    pub(super) fn starts_git(&self) -> bool {
        self.changed_since.is_some() || self.changed_first.is_some()
    }

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
    let (project, rows) = super::load_rows(context, arguments.project.as_deref())?;
    super::check_dropped(context, &rows, arguments.allow_missing)?;
    let format = if arguments.json { CiMatrixForm::Json } else { arguments.format };
    let rows = selected(rows, arguments)?;
    let (rows, changes) = changed(rows, arguments, context, &project)?;
    let mut rows = part_of(rows, arguments.part);
    test_row::retain(&mut rows);
    let printer = context.printer;
    if let (Some(changes), false) = (&changes, format == CiMatrixForm::Json) {
        changes.text().lines().for_each(|line| printer.status(line));
    }
    if arguments.tests {
        return print_tests(&rows, format, &project, arguments, context);
    }
    match format {
        CiMatrixForm::Json => printer.json(&report::ci::CiReport::new(&rows, changes))?,
        CiMatrixForm::Text => printer.print(&report::ci::text(&rows))?,
        CiMatrixForm::Github => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.os.is_some()).collect();
            check_job_count(jobs.len(), GITHUB_MAX_JOBS, "GitHub")?;
            printer.json_line(&report::ci::GithubMatrix::new(jobs.into_iter(), &rows.tests))?;
        }
        CiMatrixForm::Gitlab => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.gitlab.is_some()).collect();
            check_job_count(jobs.len(), GITLAB_MAX_JOBS, "GitLab")?;
            printer.print_input(&gitlab_matrix(jobs.into_iter(), &rows.tests, ""))?;
        }
        CiMatrixForm::Slurm => cluster::print_slurm(&rows, &project, arguments, context)?,
        CiMatrixForm::Kubernetes => cluster::print_kubernetes(&rows, &project, arguments, context)?,
    }
    Ok(Exit::Done)
}

/// Prints the jobs that test packages of other jobs.
fn print_tests(
    rows: &Rows,
    format: CiMatrixForm,
    project: &Project,
    arguments: &CiMatrixArguments,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    match format {
        CiMatrixForm::Github => {
            let tests: Vec<&CiTestRow> = rows.tests.iter().filter(|test| test.os.is_some()).collect();
            check_job_count(tests.len(), GITHUB_MAX_JOBS, "GitHub")?;
            context.printer.json_line(&report::ci::GithubTests::new(tests.into_iter()))?;
        }
        CiMatrixForm::Gitlab => {
            let tests: Vec<&CiTestRow> = rows.tests.iter().filter(|test| test.gitlab.is_some()).collect();
            check_job_count(tests.len(), GITLAB_MAX_JOBS, "GitLab")?;
            context.printer.print_input(&gitlab_tests(tests.into_iter(), ""))?;
        }
        CiMatrixForm::Kubernetes => cluster::print_kubernetes(rows, project, arguments, context)?,
        _ => {
            return Err(Failure::usage(
                id!("usage.conflict"),
                "`--tests` is for `--format github`, `gitlab` and `kubernetes`",
            )
            .hint("the other formats list the tests beside the other jobs"));
        }
    }
    Ok(Exit::Done)
}

/// The rows that `--variant` and `--platform` select.
fn selected(rows: Rows, arguments: &CiMatrixArguments) -> Result<Rows, Failure> {
    let names: BTreeSet<String> = arguments.variant.iter().cloned().collect_set();
    let known: BTreeSet<&str> = rows.include.iter().map(|row| row.variant.as_str()).collect_set();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::usage(
            id!("ci.unknown-variant"),
            format!("no job builds the variant `{unknown}`"),
        )
        .hint_of_known(unknown, "available variants", &known));
    }
    let mut rows = only(rows, &names);
    if let Some(platform) = &arguments.platform {
        check_platform(&rows, platform)?;
        rows.include.retain(|row| row.platform == *platform);
    }
    Ok(rows)
}

/// The rows of one part.
fn part_of(mut rows: Rows, part: Option<(usize, usize)>) -> Rows {
    if let Some((part, of)) = part {
        let each = rows.include.len().div_ceil(of);
        rows.include = rows.include.into_iter().skip((part - 1) * each).take(each).collect();
    }
    rows
}

/// The rows that `--changed-since` keeps or `--changed-first` orders, and the decisions.
fn changed(
    mut rows: Rows,
    arguments: &CiMatrixArguments,
    context: &CommandContext<'_>,
    project: &Project,
) -> Result<(Rows, Option<CiChangesReport>), Failure> {
    let (revision, unchanged) = match (&arguments.changed_since, &arguments.changed_first) {
        (Some(revision), _) => (revision, UnchangedRows::LeftOut),
        (None, Some(revision)) => (revision, UnchangedRows::Last),
        (None, None) => return Ok((rows, None)),
    };
    let ChangedRows { commit, decisions } = changes::since(revision, context, project, &rows)?;
    let kept: BTreeSet<&str> =
        decisions.iter().filter(|one| one.keep).map(|one| one.name.as_str()).collect_set();
    for row in &mut rows.include {
        row.is_last = !kept.contains(row.name.as_str());
    }
    match unchanged {
        UnchangedRows::LeftOut => rows.include.retain(|row| !row.is_last),
        UnchangedRows::Last => rows.include.sort_indirect_by_key(|row| row.is_last),
    }
    Ok((rows, Some(CiChangesReport { unchanged, since: revision.clone(), commit, rows: decisions })))
}

fn check_platform(rows: &Rows, platform: &str) -> Result<(), Failure> {
    let known: BTreeSet<&str> = rows.include.iter().map(|row| row.platform.as_str()).collect_set();
    if known.contains(platform) {
        return Ok(());
    }
    let known: Vec<&str> = known.into_iter().collect();
    Err(Failure::usage(id!("ci.no-jobs"), format!("the matrix has no job for `{platform}`")).hint_of_known(
        platform,
        "platforms of the matrix",
        &known,
    ))
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
