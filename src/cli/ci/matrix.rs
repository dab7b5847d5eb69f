//! `gpubuild ci matrix`.

use std::collections::BTreeSet;

use gpubuild_detect::id;
use gpubuild_release::ci::rows::only;
use gpubuild_release::ci::workflow::{GITHUB_MOST, GITLAB_MOST, gitlab_matrix};
use gpubuild_release::ci::{CiRow, Rows};

use super::super::{CommandContext, Exit, Failure};
use crate::report;

/// Arguments of `ci matrix`.
#[derive(Debug, clap::Args)]
pub(super) struct CiMatrixArguments {
    /// `github`: one line for `fromJSON`; `gitlab`: `parallel:matrix`; `json`: everything
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    format: CiMatrixForm,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Only the jobs of this variant; may be repeated
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

/// Forms of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum CiMatrixForm {
    #[default]
    Text,
    Json,
    Github,
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
    let (_, rows) = super::made(context, arguments.project.as_deref())?;
    super::refuse_impossible(context, &rows, arguments.allow_missing)?;
    let rows = chosen(rows, arguments)?;
    let printer = context.printer;
    let format = if arguments.json { CiMatrixForm::Json } else { arguments.format };
    match format {
        CiMatrixForm::Json => printer.json(&report::ci::CiReport::new(&rows))?,
        CiMatrixForm::Text => printer.answer(&report::ci::text(&rows))?,
        CiMatrixForm::Github => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.os.is_some()).collect();
            few_enough(jobs.len(), GITHUB_MOST, "GitHub")?;
            printer.json_line(&report::ci::GithubMatrix::new(jobs.into_iter()))?;
        }
        CiMatrixForm::Gitlab => {
            let jobs: Vec<&CiRow> = rows.include.iter().filter(|row| row.gitlab.is_some()).collect();
            few_enough(jobs.len(), GITLAB_MOST, "GitLab")?;
            printer.answer(&gitlab_matrix(jobs.into_iter(), ""))?;
        }
    }
    Ok(Exit::Done)
}

fn chosen(rows: Rows, arguments: &CiMatrixArguments) -> Result<Rows, Failure> {
    let names: BTreeSet<String> = arguments.variant.iter().cloned().collect();
    let known: BTreeSet<&str> = rows.include.iter().map(|row| row.variant.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::usage(
            id!("ci.unknown-variant"),
            format!("no job builds a variant `{unknown}`"),
        )
        .hint(format!("there are {}", known.join(", "))));
    }
    let mut rows = only(rows, &names);
    if let Some((part, of)) = arguments.part {
        let each = rows.include.len().div_ceil(of);
        rows.include = rows.include.into_iter().skip((part - 1) * each).take(each).collect();
    }
    Ok(rows)
}

fn few_enough(jobs: usize, most: usize, service: &str) -> Result<(), Failure> {
    if jobs <= most {
        return Ok(());
    }
    let parts = jobs.div_ceil(most);
    Err(Failure::usage(
        id!("ci.too-many-jobs"),
        format!("{jobs} jobs, and a matrix of {service} takes {most}"),
    )
    .hint(format!("divide them: `--part 1/{parts}` to `--part {parts}/{parts}`, one job each")))
}
