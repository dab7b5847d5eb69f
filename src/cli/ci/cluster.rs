//! `ci matrix --format slurm` and `--format kubernetes`: the jobs of one platform for a cluster.

use gpubuild_detect::id;
use gpubuild_host::{HostPath, Os};
use gpubuild_plan::project::Project;
use gpubuild_release::ci::kubernetes::{self, KubernetesFarm};
use gpubuild_release::ci::{Rows, slurm};

use super::super::{CommandContext, Failure};
use super::matrix::CiMatrixArguments;

/// Parses `--run`.
pub(super) fn run_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_name = (1..=30).contains(&text.len())
        && text.chars().all(plain)
        && !text.starts_with('-')
        && !text.ends_with('-');
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("use up to 30 of a to z, digits and `-` between them".to_owned())
    }
}

/// Prints the script for Slurm.
pub(super) fn print_slurm(
    rows: &Rows,
    project: &Project,
    arguments: &CiMatrixArguments,
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let platform = platform(arguments, context);
    let images = super::images(context, project)?;
    let groups = slurm::groups(rows, &platform, &images);
    check_any(groups.is_empty(), &platform, arguments)?;
    context.printer.print_input(&slurm::script(&groups, &rows.tests, &project.file.ci, &images))
}

/// Prints the documents for Kubernetes.
pub(super) fn print_kubernetes(
    rows: &Rows,
    project: &Project,
    arguments: &CiMatrixArguments,
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let platform = platform(arguments, context);
    let (jobs, without) = kubernetes::rows(&rows.include, &platform);
    let (mut tests, tests_without) = kubernetes::tests(&rows.tests, &platform);
    tests.retain(|test| !without.contains(&test.of.as_str()));
    let omitted_rows = without.iter().filter(|_| !arguments.tests);
    for name in omitted_rows.chain(&tests_without) {
        context.printer.warning(&format!("omitted {name}: no container is known for its image"));
    }
    let is_empty = if arguments.tests { tests.is_empty() } else { jobs.is_empty() };
    check_any(is_empty, &platform, arguments)?;
    let root = super::workflow::repository_root(context, &project.root);
    let farm = KubernetesFarm {
        run: &arguments.run,
        folder: &relative(&project.root, &root),
        table: &project.file.ci,
        images: &super::images(context, project)?,
    };
    let text = if arguments.tests { farm.tests(&tests) } else { farm.manifest(&jobs, &tests) };
    context.printer.print_input(&text)
}

/// The platform of a cluster: as requested, or that of this machine if it runs Linux.
fn platform(arguments: &CiMatrixArguments, context: &CommandContext<'_>) -> String {
    let here = context.host.platform();
    arguments.platform.clone().unwrap_or_else(|| match here.os {
        Os::Linux => format!("{}-{}", here.os.id(), here.arch.id()),
        _ => "linux-x86_64".to_owned(),
    })
}

fn check_any(is_empty: bool, platform: &str, arguments: &CiMatrixArguments) -> Result<(), Failure> {
    if !is_empty {
        return Ok(());
    }
    let kind = if arguments.tests { "test" } else { "job" };
    let message = format!("the matrix has no {kind} for {platform}");
    if let Some(revision) = &arguments.changed_since {
        return Err(Failure::negative(
            id!("ci.no-jobs"),
            format!("{message} that changed since `{revision}`"),
        ));
    }
    Err(Failure::usage(id!("ci.no-jobs"), message)
        .hint("select another platform with `--platform`; `gpubuild ci matrix` lists the jobs"))
}

/// The folder of a project in its repository.
fn relative(project: &HostPath, root: &HostPath) -> String {
    let (project, root) = (project.normalized().forward_slashes(), root.normalized().forward_slashes());
    project.strip_prefix(&root).unwrap_or_default().trim_start_matches('/').to_owned()
}
