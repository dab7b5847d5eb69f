//! `gpubuild new`: creates a project from a template.

use std::time::Duration;

use gpubuild_core::shell;
use gpubuild_exec::python::Network;
use gpubuild_host::folders::cache_folder;
use gpubuild_host::{FileLock, HostPath, Wait};
use gpubuild_plan::plan::request::BackendSelection;
use gpubuild_release::fetch::{Client, PlainHttp};
use gpubuild_sources::{LockPolicy, has_crate};

use super::{CommandContext, Exit, Failure, absolute, sources, tools};
use crate::new::{
    CrateDependency, NewError, PlacedProject, RenderRequest, name, place, template, templates, workspace,
};
use crate::report::new::{self as report, WrittenReport};

/// How long the registry of crates may take to answer.
const REGISTRY_WAIT: Duration = Duration::from_secs(3);

/// Arguments of `new`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct NewArguments {
    /// Folder of the new project, or the workspace folder for templates that extend one [default: the current folder]
    #[arg(value_name = "PATH", conflicts_with = "list")]
    path: Option<String>,
    /// Template: an id of `--list`
    #[arg(short, long, value_name = "ID", conflicts_with = "list")]
    template: Option<String>,
    /// Name of the crate [default: the last component of PATH, or the template's]
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    name: Option<String>,
    /// Backends of the project, separated by commas, `auto` or `all` [default: auto; cpu for templates
    /// whose crate features select backends]
    #[arg(long, value_name = "LIST", conflicts_with = "list")]
    backends: Option<String>,
    /// Use the libraries of this gpubuild checkout instead of the published ones
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    gpubuild_path: Option<String>,
    /// Do not download the template's sources or missing tools
    #[arg(long, conflicts_with = "list")]
    offline: bool,
    /// Print what would be written without writing it
    #[arg(long, conflicts_with = "list")]
    dry_run: bool,
    /// List the templates
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl NewArguments {
    /// Whether the command writes no file.
    pub(super) fn is_read_only(&self) -> bool {
        self.list || self.dry_run
    }
}

impl From<NewError> for Failure {
    fn from(error: NewError) -> Self {
        let exit = if matches!(error, NewError::File { .. }) { Exit::Negative } else { Exit::Usage };
        Self::of(&error, exit)
    }
}

/// Creates the project, or lists the templates.
pub fn run(arguments: &NewArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if arguments.list {
        if arguments.json {
            context.printer.json(&report::TemplateListReport::new(templates()))?;
        } else {
            context.printer.print(&report::list(templates()))?;
        }
        return Ok(Exit::Done);
    }
    let lock = if arguments.dry_run { None } else { exclude_others(context) };
    let project = prepare(arguments, context)?;
    let written = if arguments.dry_run { WrittenReport::No } else { WrittenReport::Yes };
    if written == WrittenReport::Yes {
        write(context, &project)?;
        drop(lock);
        let done = fetch(arguments, context, &project);
        print_summary(arguments, context, &project, done);
        warn_of_missing_crates(arguments, context, &project);
    }
    if arguments.json {
        context.printer.json(&report::NewReport::new(&project, written))?;
    } else if written == WrittenReport::No {
        context.printer.print(&report::plan(&project))?;
    }
    Ok(Exit::Done)
}

/// Writes the project. A signal ends the command when it is complete.
fn write(context: &CommandContext<'_>, project: &PlacedProject) -> Result<(), Failure> {
    context.check_interrupt()?;
    let writing = context.interrupt.register(|| {});
    if let Some(writing) = &writing {
        writing.started(|| {});
    }
    place::write(context.host, project)?;
    drop(writing);
    context.check_interrupt()
}

/// Two calls for the same folder would find no file of each other, and mix their files. Without a writable cache folder there is no lock.
fn exclude_others(context: &CommandContext<'_>) -> Option<FileLock> {
    let path = cache_folder(context.host)?.join("new.lock");
    context.host.lock(&path, Wait::Yes).ok().flatten()
}

/// Computes everything that will be written.
fn prepare(arguments: &NewArguments, context: &CommandContext<'_>) -> Result<PlacedProject, Failure> {
    let template = template::find(arguments.template.as_deref())?;
    let path = match (&arguments.path, &template.about.workspace) {
        (Some(path), _) => path,
        (None, Some(_)) => ".",
        (None, None) => return Err(NewError::NoPath { template: template.id.to_owned() }.into()),
    };
    let root = absolute(context, path)?.normalized();
    let named = arguments.name.as_deref().or(template.about.name.as_deref());
    let name = named.or_else(|| root.file_name()).unwrap_or_default().to_owned();
    name::check(&name)?;
    let backends = match &arguments.backends {
        None => BackendSelection::Auto,
        Some(list) if list == "all" => BackendSelection::Named(template.about.backends.clone()),
        Some(list) => BackendSelection::parse(list).map_err(|error| NewError::Backends(error.to_string()))?,
    };
    let gpubuild = match &arguments.gpubuild_path {
        None => CrateDependency::Published,
        Some(folder) => CrateDependency::Folder(checkout(context, &absolute(context, folder)?.normalized())?),
    };
    let request = RenderRequest { template, name: &name, backends, gpubuild };
    Ok(place::prepare(context.host, &root, &request)?)
}

/// The folder of a gpubuild checkout, as a path dependency in a Cargo.toml.
fn checkout(context: &CommandContext<'_>, folder: &HostPath) -> Result<String, NewError> {
    let invalid = |why: String| NewError::Gpubuild { folder: folder.to_string(), why };
    let file = folder.join("Cargo.toml");
    let text = context.host.read_text(&file).map_err(|error| invalid(error.to_string()))?;
    if workspace::is_package(&text, env!("CARGO_PKG_NAME")) {
        Ok(folder.forward_slashes())
    } else {
        Err(invalid("its Cargo.toml belongs to another package".to_owned()))
    }
}

/// Downloads the sources that the project needs, and the tools that this machine lacks. The project is complete without them, so a
/// failure is a warning. Returns the command that has become superfluous.
fn fetch(
    arguments: &NewArguments,
    context: &CommandContext<'_>,
    project: &PlacedProject,
) -> Option<&'static str> {
    let network = if arguments.offline { Network::Offline } else { Network::from_env(context.host.env()) };
    let folder = Some(project.root.as_str());
    let fetched = match sources::ensure(context, folder, network, LockPolicy::Keep) {
        Ok(_) => {
            tools::fetch_missing(context, folder, network).map(|_| ()).map_err(|failure| ("tools", failure))
        }
        Err(failure) => Err(("sources", failure)),
    };
    let Err((what, failure)) = fetched else { return Some("gpubuild fetch") };
    context.printer.warning(&format!("the {what} were not downloaded: {} [{}]", failure.message, failure.id));
    context.printer.hint("run `gpubuild fetch` in the folder of the project");
    None
}

/// Prints what was written and the next steps, without the command that is `done`.
fn print_summary(
    arguments: &NewArguments,
    context: &CommandContext<'_>,
    project: &PlacedProject,
    done: Option<&str>,
) {
    let count = project.files.len();
    context
        .printer
        .status(&format!("wrote {count} files of template `{}` into {}", project.template, project.root));
    for edit in &project.edits {
        let done = if edit.before.is_some() { "changed" } else { "wrote" };
        context.printer.status(&format!("{done} {}: {}", edit.path, edit.what));
    }
    let folder = arguments.path.as_deref().filter(|path| *path != ".");
    let folder = folder.and_then(|folder| shell::quote(context.host.platform().os, folder));
    context.printer.status(&report::next(project, folder.as_deref(), done));
}

/// Warns if the registry lacks gpubuild's crates that the project needs. If it cannot be read, cargo reports that.
fn warn_of_missing_crates(arguments: &NewArguments, context: &CommandContext<'_>, project: &PlacedProject) {
    let network = if arguments.offline { Network::Offline } else { Network::from_env(context.host.env()) };
    if arguments.gpubuild_path.is_some() || network == Network::Offline {
        return;
    }
    let Some((name, requirement)) = project.published_crate() else { return };
    let printer = context.printer;
    let client =
        Client::new(context.host, network, PlainHttp::Loopback, Box::new(|text| printer.warning(text)))
            .impatient(REGISTRY_WAIT);
    if let Ok(false) = has_crate((context.host, &client), &project.root, &name, &requirement) {
        printer.warning(&format!(
            "the project cannot be built yet: the registry has no crate `{name}` {requirement}"
        ));
        printer.hint("pass the folder of a checkout of gpubuild with `--gpubuild-path`");
    }
}
