//! `gpubuild new`: a project to start from.

use gpubuild_core::shell;
use gpubuild_host::HostPath;
use gpubuild_plan::plan::request::Selection;

use super::{Context, Exit, Failure, absolute};
use crate::new::{Dependency, Made, NewError, Request, name, place, template, templates, workspace};
use crate::report::new::{self as report, Written};

/// Arguments of `new`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the new project; with a template that goes into a workspace, the folder of that [default: here]
    #[arg(value_name = "PATH", conflicts_with = "list")]
    path: Option<String>,
    /// What to start from: an id of `--list`
    #[arg(short, long, value_name = "ID", conflicts_with = "list")]
    template: Option<String>,
    /// What the crate is called [default: the last name of PATH, or what the template says]
    #[arg(long, value_name = "NAME", conflicts_with = "list")]
    name: Option<String>,
    /// Backends that it builds: ids separated by commas, `auto` or `all` [default: auto, or cpu where features name them]
    #[arg(long, value_name = "LIST", conflicts_with = "list")]
    backends: Option<String>,
    /// Have it take the library from a checkout of gpubuild instead of crates.io
    #[arg(long, value_name = "DIR", conflicts_with = "list")]
    gpubuild_path: Option<String>,
    /// Print what would be written and do nothing
    #[arg(long, conflicts_with = "list")]
    dry_run: bool,
    /// Print the templates
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl Arguments {
    /// Whether nothing is written.
    pub(super) fn only_looks(&self) -> bool {
        self.list || self.dry_run
    }
}

impl From<NewError> for Failure {
    fn from(error: NewError) -> Self {
        let make = if matches!(error, NewError::File { .. }) { Self::negative } else { Self::usage };
        Self { hint: error.hint(), ..make(error.id(), error.to_string()) }
    }
}

/// Makes the project.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    if arguments.list {
        if arguments.json {
            context.printer.json(&report::ListDocument::new(templates()))?;
        } else {
            context.printer.answer(&report::list(templates()))?;
        }
        return Ok(Exit::Done);
    }
    let made = made(arguments, context)?;
    let written = if arguments.dry_run { Written::No } else { Written::Yes };
    if written == Written::Yes {
        place::write(context.host, &made)?;
        tell(arguments, context, &made);
    }
    if arguments.json {
        context.printer.json(&report::Document::new(&made, written))?;
    } else if written == Written::No {
        context.printer.answer(&report::plan(&made))?;
    }
    Ok(Exit::Done)
}

/// Everything that will be written.
fn made(arguments: &Arguments, context: &Context<'_>) -> Result<Made, Failure> {
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
        None => Selection::Auto,
        Some(list) if list == "all" => Selection::Named(template.about.backends.clone()),
        Some(list) => Selection::parse(list).map_err(|error| NewError::Backends(error.to_string()))?,
    };
    let gpubuild = match &arguments.gpubuild_path {
        None => Dependency::Published,
        Some(folder) => Dependency::Folder(checkout(context, &absolute(context, folder)?.normalized())?),
    };
    let request = Request { template, name: &name, backends, gpubuild };
    Ok(place::gather(context.host, &root, &request)?)
}

/// The folder of a checkout of this library, as cargo wants it.
fn checkout(context: &Context<'_>, folder: &HostPath) -> Result<String, NewError> {
    let wrong = |why: String| NewError::Gpubuild { folder: folder.to_string(), why };
    let file = folder.join("Cargo.toml");
    let text = context.host.read_text(&file).map_err(|error| wrong(error.to_string()))?;
    if workspace::is_package(&text, env!("CARGO_PKG_NAME")) {
        Ok(folder.forward_slashes())
    } else {
        Err(wrong("its Cargo.toml is that of something else".to_owned()))
    }
}

/// Says what was done and what comes next.
fn tell(arguments: &Arguments, context: &Context<'_>, made: &Made) {
    let count = made.files.len();
    context.printer.say(&format!("wrote {count} files of template `{}` into {}", made.template, made.root));
    for edit in &made.edits {
        let done = if edit.before.is_some() { "changed" } else { "wrote" };
        context.printer.say(&format!("{done} {}: {}", edit.path, edit.what));
    }
    let folder = arguments.path.as_deref().filter(|path| *path != ".");
    let folder = folder.and_then(|folder| shell::quote(context.host.platform().os, folder));
    context.printer.say(&report::next(made, folder.as_deref()));
}
