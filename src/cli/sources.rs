//! Makes the sources of a project available before a command plans its build.

use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_exec::python::Network;
use gpubuild_host::HostPath;
use gpubuild_plan::offer::simulate::libc;
use gpubuild_plan::project::source::Source;
use gpubuild_plan::project::{self, FILE_NAME, ProjectFile};
use gpubuild_release::fetch::{self, Client, PlainHttp};
use gpubuild_sources::{IndexWheels, LockPolicy, ReadySource, SourceRequest};

use super::project::project_file;
use super::{CommandContext, Exit, Failure};
use crate::report::fetch::ProjectSource;

/// Makes the sources of a project, and of the projects under `[[with]]`, available.
pub fn ensure(
    context: &CommandContext<'_>,
    folder: Option<&str>,
    network: Network,
    policy: LockPolicy,
) -> Result<Vec<ProjectSource>, Failure> {
    let file = project_file(context, folder)?;
    let (mut pending, mut done) = (vec![file], Vec::new());
    while let Some(file) = pending.pop() {
        let root = file.parent().unwrap_or_else(|| context.host.path("."));
        if done.iter().any(|one: &ProjectSource| one.root == root) {
            continue;
        }
        let parsed = read(context, &file)?;
        // The first one is the project of the command.
        pending.extend(
            parsed.with.iter().rev().map(|with| root.join(&with.project).join(FILE_NAME).normalized()),
        );
        let ready = one(context, &root, &parsed, network, policy)?;
        done.push(ProjectSource { root, name: parsed.project.name, ready });
    }
    Ok(done)
}

/// Wheels for machines without uv and pip.
pub(super) fn wheels<'a>(context: &CommandContext<'a>, facts: &Facts, network: Network) -> IndexWheels<'a> {
    let printer = context.printer;
    let warn = move |text: &str| printer.warning(text);
    let client = Client::new(context.host, network, PlainHttp::Loopback, Box::new(warn));
    IndexWheels { client, libc: libc(facts) }
}

fn read(context: &CommandContext<'_>, file: &HostPath) -> Result<ProjectFile, Failure> {
    let (path, host) = (file.to_string(), context.host);
    let unreadable = |error: std::io::Error| project::ProjectError::Unreadable {
        path: path.clone(),
        message: error.to_string(),
    };
    let parsed = host.read_text(file).map_err(unreadable).and_then(|text| project::parse(&path, &text));
    parsed.map(|(file, _)| file).map_err(|error| Failure::of(&error, Exit::Usage))
}

fn one(
    context: &CommandContext<'_>,
    root: &HostPath,
    file: &ProjectFile,
    network: Network,
    policy: LockPolicy,
) -> Result<Option<ReadySource>, Failure> {
    let Source::Fetched(source) = &file.project.source else { return Ok(None) };
    if let Some((name, expected)) = fetch::bad_setting(context.host) {
        return Err(Failure::usage(id!("net.setting-invalid"), format!("{name} must be {expected}")));
    }
    let printer = context.printer;
    let warn = |text: &str| printer.warning(text);
    let client = Client::new(context.host, network, PlainHttp::Loopback, Box::new(warn));
    let request = SourceRequest {
        host: context.host,
        client: &client,
        root,
        table: &file.project,
        source,
        policy,
        progress: &|text| printer.status(text),
    };
    gpubuild_sources::ensure(&request).map(Some).map_err(|error| {
        use gpubuild_sources::SourceError;
        let exit = match &error {
            SourceError::Interrupted => Exit::Interrupted,
            SourceError::Project(_) | SourceError::Locked { .. } | SourceError::Registry { .. } => {
                Exit::Usage
            }
            _ => Exit::Negative,
        };
        Failure::of(&error, exit)
    })
}
