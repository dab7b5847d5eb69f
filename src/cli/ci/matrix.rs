//! `gpubuild ci matrix`.

use std::collections::BTreeSet;

use gpubuild_release::ci::rows::only;
use gpubuild_release::ci::workflow::{GITHUB_MOST, GITLAB_MOST, gitlab_matrix};
use gpubuild_release::ci::{Row, Rows};

use super::super::{Context, Exit, Failure};
use crate::report;

/// Arguments of `ci matrix`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// `github`: one line for `fromJSON`; `gitlab`: `parallel:matrix`; `json`: everything
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    format: Form,
    /// The same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Only the jobs of this variant; may be given several times
    #[arg(long, value_name = "NAME")]
    variant: Vec<String>,
    /// One part of several, where a service takes fewer jobs at once: `1/2`
    #[arg(long, value_name = "K/N", value_parser = part)]
    part: Option<(usize, usize)>,
    /// Leave out jobs that can't succeed, with a warning, instead of refusing
    #[arg(long)]
    allow_missing: bool,
    /// Folder of the project [default: the nearest gpubuild.toml from here up]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// Forms of the answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    #[default]
    Text,
    Json,
    Github,
    Gitlab,
}

impl Arguments {
    pub(super) fn is_json(&self) -> bool {
        self.json || matches!(self.format, Form::Json | Form::Github)
    }
}

fn part(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((part, of)) if (1..=of).contains(&part) => Ok((part, of)),
        _ => Err("write `1/2` for the first of two parts".to_owned()),
    }
}

pub(super) fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let (_, rows) = super::made(context, arguments.project.as_deref())?;
    super::refuse_impossible(context, &rows, arguments.allow_missing)?;
    let rows = chosen(rows, arguments)?;
    let printer = context.printer;
    let format = if arguments.json { Form::Json } else { arguments.format };
    match format {
        Form::Json => printer.json(&report::ci::Document::new(&rows))?,
        Form::Text => printer.answer(&report::ci::text(&rows))?,
        Form::Github => {
            let jobs: Vec<&Row> = rows.include.iter().filter(|row| row.os.is_some()).collect();
            few_enough(jobs.len(), GITHUB_MOST, "GitHub")?;
            printer.json_line(&report::ci::GithubMatrix::new(jobs.into_iter()))?;
        }
        Form::Gitlab => {
            let jobs: Vec<&Row> = rows.include.iter().filter(|row| row.gitlab.is_some()).collect();
            few_enough(jobs.len(), GITLAB_MOST, "GitLab")?;
            printer.answer(&gitlab_matrix(jobs.into_iter(), ""))?;
        }
    }
    Ok(Exit::Done)
}

fn chosen(rows: Rows, arguments: &Arguments) -> Result<Rows, Failure> {
    let names: BTreeSet<String> = arguments.variant.iter().cloned().collect();
    let known: BTreeSet<&str> = rows.include.iter().map(|row| row.variant.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Failure::usage("ci.unknown-variant", format!("no job builds a variant `{unknown}`"))
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
    Err(Failure::usage("ci.too-many-jobs", format!("{jobs} jobs, and a matrix of {service} takes {most}"))
        .hint(format!(
            "divide them: `--part 1/{parts}` to `--part {parts}/{parts}`, each in a job of its own"
        )))
}
