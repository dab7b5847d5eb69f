//! `gpubuild cache`: the build store, which results of all projects share.

use gpubuild_exec::exec::{BuildBinary, Job, Tools, folder, reuse};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::maintain::{self, Limits};
use gpubuild_exec::store::settings::{self, SettingsError, Store};
use gpubuild_plan::project::{self, Project};
use gpubuild_release::layers;

use super::look::{self, HostArguments};
use super::plan::{self, Selection};
use super::{Context, Exit, Failure, build};
use crate::report::cache::{Document, ExplainDocument, Layers, PruneDocument};

/// Arguments of `cache`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show every entry, those used last first
    List(Form),
    /// Show how much the store takes
    Size(Form),
    /// Throw away entries: damaged ones, old ones, then those not used for longest
    Prune(Prune),
    /// Say for every tree of the project whether the store has it, and what is different
    Explain(Explain),
}

/// How to answer.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Form {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Prune {
    /// Keep at most this much [default: the limit of the store]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<String>,
    /// Throw away what was not used for so long: `30d`, `12h`
    #[arg(long, value_name = "AGE")]
    older_than: Option<String>,
    /// Throw away everything that is not in use
    #[arg(long, conflicts_with_all = ["max_size", "older_than"])]
    all: bool,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct Explain {
    /// Tree of the plan [default: all of them]
    tree: Option<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    form: Form,
}

impl Arguments {
    /// Whether the answer is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match &self.command {
            Command::List(form) | Command::Size(form) => form.json,
            Command::Prune(prune) => prune.form.json,
            Command::Explain(explain) => explain.form.json,
        }
    }
}

/// Does what was asked.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::List(form) => show(context, *form, true)?,
        Command::Size(form) => show(context, *form, false)?,
        Command::Prune(arguments) => prune(arguments, context)?,
        Command::Explain(arguments) => return explain(arguments, context),
    }
    Ok(Exit::Done)
}

/// The store of a project; `None` where it is off.
pub(super) fn open(context: &Context<'_>, project: Option<&Project>) -> Result<Option<Store>, Failure> {
    let table = project.map(|project| project.file.cache.clone()).unwrap_or_default();
    Store::open(context.host, &table, project.map(|project| &project.root)).map_err(|error| wrong(&error))
}

fn wrong(error: &SettingsError) -> Failure {
    Failure::usage(error.id(), error.to_string()).hint(error.hint())
}

/// The store of the project here, else that of the user.
fn store(context: &Context<'_>) -> Result<Store, Failure> {
    let here = context.host.current_dir().ok();
    let file = here.and_then(|here| project::find(context.host, &here).ok());
    let project = file.and_then(|file| project::load(context.host, &file).ok());
    open(context, project.as_ref())?.ok_or_else(|| {
        let off = format!("the build store is off: `{}` or `[cache] store` says so", settings::VARIABLE);
        Failure::usage("cache.off", off).hint(format!("{}=on switches it on", settings::VARIABLE))
    })
}

fn show(context: &Context<'_>, form: Form, with_entries: bool) -> Result<(), Failure> {
    let store = store(context)?;
    let items = maintain::items(context.host, &store);
    let document = Document::new(
        store.root.to_string(),
        store.limit,
        &items,
        told(layers::usage(context.host)),
        with_entries,
    );
    if form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&document.text(context.host.now()))?;
    }
    Ok(())
}

fn prune(arguments: &Prune, context: &Context<'_>) -> Result<(), Failure> {
    let store = store(context)?;
    let size =
        arguments.max_size.as_deref().map(settings::size).transpose().map_err(|error| wrong(&error))?;
    let age =
        arguments.older_than.as_deref().map(settings::age).transpose().map_err(|error| wrong(&error))?;
    let limits = Limits { size: size.or(Some(store.limit)), age, all: arguments.all };
    let refused = |error: std::io::Error| {
        Failure::negative("cache.not-pruned", format!("failed to prune `{}`: {error}", store.root))
            .hint("look at its owner and mode")
    };
    let pruned = maintain::prune(context.host, &store, limits).map_err(refused)?;
    let gone = layers::prune(context.host, age, arguments.all).map_err(refused)?;
    let document = PruneDocument::new(&pruned, told(gone));
    if arguments.form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&document.text())?;
    }
    Ok(())
}

fn told(layers::Usage { count, bytes }: layers::Usage) -> Layers {
    Layers { count, bytes }
}

fn explain(arguments: &Explain, context: &Context<'_>) -> Result<Exit, Failure> {
    let host_arguments = HostArguments::default();
    look::check_overrides(context.host)?;
    let sight = look::look(context.host, host_arguments.catalogue(context)?);
    let (project, plan) = plan::make(&arguments.selection, context, context.host, &sight)?;
    let Some(store) = open(context, Some(&project))? else {
        return Err(
            Failure::usage("cache.off", "the build store is off").hint("GPUBUILD_STORE=on switches it on")
        );
    };
    if let Some(name) = &arguments.tree
        && plan.trees.iter().all(|tree| tree.id != *name)
    {
        let known: Vec<&str> = plan.trees.iter().map(|tree| tree.id.as_str()).collect();
        let message = format!("the plan has no tree `{name}`");
        return Err(Failure::usage("cache.no-tree", message).hint(format!("it has {}", known.join(", "))));
    }
    let job = Job {
        host: context.host,
        project: project.file.project.name.clone(),
        root: project.build_root.clone(),
        lock: folder::lock_path(&project.build_root),
        tools: Tools::of(&sight.inventory),
        network: Network::Offline,
        binary: BuildBinary::No,
        replan: None,
        explain: None,
        store: Some(store),
        sink: &|_| {},
    };
    let wanted = plan.trees.iter().filter(|tree| arguments.tree.as_ref().is_none_or(|name| *name == tree.id));
    let trees: Result<Vec<_>, _> = wanted.map(|tree| reuse::explain(&job, tree)).collect();
    let document = ExplainDocument::new(trees.map_err(|error| build::failure(&error))?);
    if arguments.form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.answer(&document.text())?;
    }
    Ok(Exit::Done)
}
