//! `gpubuild ci run` and `gpubuild ci preflight`: runs a job locally, or checks whether it would succeed.

use std::time::Duration;

use gpubuild_detect::facts;
use gpubuild_detect::id;
use gpubuild_host::{Command, Host, Os, RunError};
use gpubuild_plan::planning;
use gpubuild_plan::project::Project;
use gpubuild_release::ci::preflight::{self, Outlook};
use gpubuild_release::ci::{CiRow, CiTestRow, Images, Rows, pack};

use super::super::machine::HostArguments;
use super::super::plan::{SelectionArguments, with_request};
use super::super::run::NO_BINARY;
use super::super::{CommandContext, Exit, Failure, absolute, machine};
use crate::report;
use crate::report::ci_files::{CiRunReport, JobState};

/// One week: jobs have no time limit here, but the host interface requires one.
const DEADLINE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Arguments of `ci run`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub(super) struct CiRunArguments {
    /// Name of the job, as printed by `gpubuild ci matrix`
    #[arg(value_name = "JOB")]
    row: String,
    /// First install the packages that the job needs; for disposable machines only
    #[arg(long)]
    setup: bool,
    /// Pack the result into the folder `release`
    #[arg(long)]
    pack: bool,
    /// Print the commands without running them
    #[arg(long)]
    dry_run: bool,
    /// Folder for the build store and toolkits, instead of GPUBUILD_CACHE
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Print one JSON document; the output of the commands goes to stderr
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `ci preflight`.
#[derive(Debug, clap::Args)]
pub(super) struct PreflightArguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
}

/// A job of the matrix.
#[derive(Clone, Copy)]
enum Job<'a> {
    Build(&'a CiRow),
    Test(&'a CiTestRow),
}

impl<'a> Job<'a> {
    fn name(self) -> &'a str {
        match self {
            Self::Build(row) => &row.name,
            Self::Test(test) => &test.name,
        }
    }

    fn image(self) -> &'a str {
        match self {
            Self::Build(row) => &row.image,
            Self::Test(test) => &test.image,
        }
    }

    fn platform(self) -> &'a str {
        match self {
            Self::Build(row) => &row.platform,
            Self::Test(test) => &test.platform,
        }
    }

    /// The lines that install packages.
    fn setup(self) -> &'a [String] {
        match self {
            Self::Build(row) => &row.setup,
            Self::Test(_) => &[],
        }
    }

    /// The arguments of each gpubuild call. A job that builds is checked first.
    fn commands(self) -> Vec<Vec<String>> {
        let (checks, run): (Option<Vec<String>>, _) = match self {
            Self::Build(row) => {
                let check = |build: &Vec<String>| {
                    let rest = build.iter().skip(1).cloned();
                    ["ci".to_owned(), "preflight".to_owned()].into_iter().chain(rest).collect()
                };
                (row.run.first().map(check), &row.run)
            }
            Self::Test(test) => (None, &test.run),
        };
        checks.into_iter().chain(run.iter().cloned()).collect()
    }
}

/// A command of a job.
struct CiStep {
    /// The command as it is printed.
    shown: String,
    argv: Vec<String>,
}

pub(super) fn run(arguments: &CiRunArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let (project, rows) = super::load_rows(context, arguments.project.as_deref())?;
    let job = find(&rows, &arguments.row)?;
    let here = context.host.platform();
    let platform = format!("{}-{}", here.os.id(), here.arch.id());
    if job.platform() != platform && !arguments.dry_run {
        return Err(Failure::usage(
            id!("ci.other-platform"),
            format!("job `{}` is for {}, but this machine is {platform}", job.name(), job.platform()),
        )
        .hint("print its commands with `--dry-run`"));
    }
    let pack = if arguments.pack { Some(pack_command(&project, &rows, job)?) } else { None };
    let steps = steps(job, pack, arguments, context)?;
    let commands: Vec<&str> = steps.iter().map(|step| step.shown.as_str()).collect();
    if arguments.dry_run {
        if arguments.json {
            context.printer.json(&CiRunReport::new(job.name(), JobState::Planned, commands))?;
        } else {
            context.printer.print(&commands.join("\n"))?;
        }
        return Ok(Exit::Done);
    }
    print_system_difference(context, job.image(), &super::images(context, &project)?);
    run_steps(&steps, job.name(), arguments, context)?;
    if arguments.json {
        context.printer.json(&CiRunReport::new(job.name(), JobState::Succeeded, commands))?;
    } else {
        context.printer.status(&format!("job {} succeeded", job.name()));
    }
    Ok(Exit::Done)
}

/// Runs the commands of a job up to the first that fails.
fn run_steps(
    steps: &[CiStep],
    job: &str,
    arguments: &CiRunArguments,
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let cache = arguments.cache_dir.as_deref().map(|folder| absolute(context, folder)).transpose()?;
    for step in steps {
        context.printer.status(&format!("$ {}", step.shown));
        let command = Command::new(&step.argv[0], DEADLINE).args(step.argv[1..].iter().map(String::as_str));
        let mut command = if arguments.json { command.inherit_as_errors() } else { command.inherit() };
        if let Some(folder) = &cache {
            command = command.env("GPUBUILD_CACHE", folder.as_str());
        }
        let output = context.host.run(&command).map_err(|error| match error {
            RunError::Interrupted => Failure {
                exit: Exit::Interrupted,
                ..Failure::negative(id!("run.interrupted"), "interrupted")
            },
            other => Failure::negative(id!("run.failed"), other.to_string()),
        })?;
        if !output.success() {
            let code = output.exit.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
            let message = format!("job `{job}` failed: `{}` exited with status {code}", step.shown);
            return Err(Failure {
                exit: Exit::Child(code),
                ..Failure::negative(id!("ci.job-failed"), message)
            });
        }
    }
    Ok(())
}

/// Prints a note if the job's image is another distribution, where the available packages may differ.
fn print_system_difference(context: &CommandContext<'_>, image: &str, images: &Images) {
    let distribution = facts::gather(context.host).distro.map(|distro| distro.value.label());
    let expected = images.get(image).map(|image| image.distribution.clone());
    if let (Some(here), Some(expected)) = (distribution, expected)
        && here != expected
    {
        context.printer.status(&format!("this machine is {here}; in CI the job runs on {expected}"));
    }
}

fn find<'a>(rows: &'a Rows, name: &str) -> Result<Job<'a>, Failure> {
    let jobs = rows.include.iter().map(Job::Build).chain(rows.tests.iter().map(Job::Test));
    if let Some(job) = jobs.clone().find(|job| job.name() == name) {
        return Ok(job);
    }
    if let Some(impossible) = rows.dropped.iter().find(|one| one.name == name) {
        let message = format!("job `{name}` cannot succeed: {}", impossible.reasons.join("; "));
        return Err(Failure::usage(id!("ci.impossible"), message).hint("fix `[[variants]]` in gpubuild.toml"));
    }
    let known: Vec<&str> = jobs.map(Job::name).collect();
    Err(Failure::usage(id!("ci.unknown-job"), format!("unknown job `{name}`")).hint_of_known(
        name,
        "available jobs",
        &known,
    ))
}

fn steps(
    job: Job<'_>,
    pack: Option<&Vec<String>>,
    arguments: &CiRunArguments,
    context: &CommandContext<'_>,
) -> Result<Vec<CiStep>, Failure> {
    let mut steps = Vec::new();
    if arguments.setup {
        let is_root = context.host.identity().uid == Some(0);
        for line in job.setup() {
            // Containers usually run as root and have no sudo.
            let line = if is_root { line.replace("sudo ", "") } else { line.clone() };
            let argv = match context.host.platform().os {
                Os::Windows => vec!["cmd".to_owned(), "/c".to_owned(), line.clone()],
                _ => vec!["sh".to_owned(), "-ec".to_owned(), line.clone()],
            };
            steps.push(CiStep { shown: line, argv });
        }
    }
    let own = context.host.own_program().ok_or_else(|| Failure {
        exit: Exit::Internal,
        ..Failure::negative(id!("ci.no-program"), "the path of the gpubuild executable is unknown")
    })?;
    for command in job.commands().into_iter().chain(pack.cloned()) {
        // What a job tests does not depend on the project's folder.
        let project = arguments.project.iter().filter(|_| matches!(job, Job::Build(_)));
        let project = project.flat_map(|folder| ["--project".to_owned(), folder.clone()]);
        let arguments: Vec<String> = command.into_iter().chain(project).collect();
        let shown = format!("gpubuild {}", arguments.join(" "));
        steps.push(CiStep { shown, argv: std::iter::once(own.to_string()).chain(arguments).collect() });
    }
    Ok(steps)
}

/// The command that packs the result of a job, or why it packs none.
fn pack_command<'a>(project: &Project, rows: &Rows, job: Job<'a>) -> Result<&'a Vec<String>, Failure> {
    let row = match job {
        Job::Build(row) => row,
        Job::Test(test) => {
            let message = format!("job `{}` packs nothing: it tests what `{}` packs", test.name, test.of);
            return Err(Failure::usage(id!("ci.no-pack"), message).hint("run it without `--pack`"));
        }
    };
    if let Some(command) = &row.pack {
        return Ok(command);
    }
    let failure =
        |why: String| Failure::usage(id!("ci.no-pack"), format!("job `{}` packs nothing: {why}", row.name));
    if project.file.binary.is_none() && !project.file.pack.libraries {
        return Err(failure("gpubuild.toml defines no program".to_owned())
            .hint(format!("{NO_BINARY}, or pack the libraries: `[pack] libraries = true`")));
    }
    if let Some(reason) = row.warnings.iter().find_map(|line| line.strip_prefix(pack::NOT_PACKED)) {
        return Err(failure(reason.to_owned()).hint(if pack::lacks_version(project) {
            "set `version` in [pack] of gpubuild.toml"
        } else {
            "rename the variant in gpubuild.toml"
        }));
    }
    let same = |one: &&CiRow| {
        one.pack.is_some()
            && (&one.variant, &one.platform, &one.toolkits) == (&row.variant, &row.platform, &row.toolkits)
    };
    let other = rows.include.iter().find(same).map_or("another job", |one| one.name.as_str());
    Err(failure(format!("`{other}` packs variant `{}` for {}", row.variant, row.platform))
        .hint("the job with the first image in `images` packs the variant"))
}

pub(super) fn preflight(
    arguments: &PreflightArguments,
    context: &CommandContext<'_>,
) -> Result<Exit, Failure> {
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = match &recorded {
        Some(host) => host,
        None => context.host,
    };
    machine::check_overrides(host)?;
    let machine = machine::inspect(host, arguments.host.catalogue(context)?);
    let (_, checks) = with_request(&arguments.selection, context, host, &machine, &[], |request, _| {
        Ok(preflight::check(
            host,
            &machine.facts,
            &request.project.build_root,
            planning::plan(request).as_ref(),
        ))
    })?;
    if arguments.json {
        context.printer.json(&report::ci::PreflightDocument::new(&checks))?;
    } else {
        context.printer.print(&report::ci::preflight(&checks))?;
    }
    let fails = checks.iter().any(|check| check.outlook == Outlook::Bad);
    Ok(if fails { Exit::Negative } else { Exit::Done })
}
