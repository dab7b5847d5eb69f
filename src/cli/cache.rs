//! `gpubuild cache`: the build store, which is shared by all projects.

use gpubuild_detect::diagnostic;
use gpubuild_detect::id;
use gpubuild_exec::exec::{BuildBinary, BuildJob, InstalledTools, folder, reuse, tools_here};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::maintain::{self, StoreLimits};
use gpubuild_exec::store::remote::RemoteLevel;
use gpubuild_exec::store::settings::{self, SettingsError, Store};
use gpubuild_plan::plan::{Plan, PlannedTree};
use gpubuild_plan::project::{CacheAccess, Project};
use gpubuild_release::layers;
use gpubuild_sources::cache as sources;

use super::machine::{self, HostArguments};
use super::plan::{self, SelectionArguments};
use super::project::open_project;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure, build, check_listable};
use crate::report::cache::{CacheReport, ExplainDocument, PruneDocument};

mod remote;

pub(super) use remote::open as remote;

/// Arguments of `cache`.
#[derive(Debug, clap::Args)]
pub struct CacheArguments {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, clap::Subcommand)]
enum CacheCommand {
    /// List the entries, most recently used first
    List(CacheForm),
    /// Show the size of the store
    Size(CacheForm),
    /// Remove entries: damaged ones, old ones, then the least recently used
    Prune(Prune),
    /// Print for each build tree whether the store has it, and what differs
    Explain(TreeArguments),
    /// Upload the results of this project to the shared store
    Push(remote::TransferArguments),
    /// Download the results of this project from the shared store
    Pull(remote::TransferArguments),
    /// Show whether the shared store can be used, and how many entries it has
    Stat(remote::StatArguments),
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct CacheForm {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Prune {
    /// Maximum size of the store [default: the limit of the store]
    #[arg(long, value_name = "SIZE")]
    max_size: Option<String>,
    /// Remove entries that were not used for this long: `30d`, `12h`
    #[arg(long, value_name = "AGE")]
    older_than: Option<String>,
    /// Remove all entries that are not in use
    #[arg(long, conflicts_with_all = ["max_size", "older_than"])]
    all: bool,
    #[command(flatten)]
    address: remote::RemoteAddress,
    #[command(flatten)]
    form: CacheForm,
}

/// The trees of a command. None of the commands compiles.
#[derive(Debug, clap::Args)]
#[command(mut_arg("jobs", |argument| argument.hide(true)))]
struct TreeArguments {
    /// Build tree of the plan [default: all]
    tree: Option<String>,
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    form: CacheForm,
}

impl CacheArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match &self.command {
            CacheCommand::List(form) | CacheCommand::Size(form) => form.json,
            CacheCommand::Prune(prune) => prune.form.json,
            CacheCommand::Explain(explain) => explain.form.json,
            CacheCommand::Push(transfer) | CacheCommand::Pull(transfer) => transfer.trees.form.json,
            CacheCommand::Stat(stat) => stat.form.json,
        }
    }
}

/// Runs the subcommand.
pub fn run(arguments: &CacheArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        CacheCommand::List(form) => show(context, *form, true)?,
        CacheCommand::Size(form) => show(context, *form, false)?,
        CacheCommand::Prune(arguments) => prune(arguments, context)?,
        CacheCommand::Explain(arguments) => explain(arguments, context)?,
        CacheCommand::Push(arguments) => remote::push(arguments, context)?,
        CacheCommand::Pull(arguments) => remote::pull(arguments, context)?,
        CacheCommand::Stat(arguments) => remote::stat(arguments, context)?,
    }
    Ok(Exit::Done)
}

/// The build store of a project; `None` if it is disabled.
pub(super) fn open(
    context: &CommandContext<'_>,
    project: Option<&Project>,
) -> Result<Option<Store>, Failure> {
    let table = project.map(|project| project.file.cache.clone()).unwrap_or_default();
    Store::open(context.host, &table, project.map(|project| &project.root))
        .map_err(|error| invalid_setting(&error))
}

fn invalid_setting(error: &SettingsError) -> Failure {
    Failure::of(error, Exit::Usage)
}

/// The build store of the project in the current folder or above, else of the user; also a disabled one, which may have entries of
/// former builds.
fn store(context: &CommandContext<'_>) -> Result<Store, Failure> {
    let project = match open_project(context, None) {
        Ok(project) => Some(project),
        // Its `[cache] folder` decides what is removed.
        Err(failure) if failure.id == "project.other-owner" => return Err(failure),
        Err(_) => None,
    };
    let table = project.as_ref().map(|project| project.file.cache.clone()).unwrap_or_default();
    let store = Store::locate(context.host, &table, project.as_ref().map(|project| &project.root));
    let store = store.map_err(|error| invalid_setting(&error))?.ok_or_else(|| {
        Failure::usage(id!("cache.missing"), "the cache has no folder")
            .hint("set GPUBUILD_CACHE to a folder that can be written")
    })?;
    check_listable(context.host, &store.root)?;
    if store.access == CacheAccess::Off {
        let variable = settings::VARIABLE;
        context
            .printer
            .hint(&format!("builds do not use the store: `{variable}` or `[cache] store` disables it"));
    }
    Ok(store)
}

fn show(context: &CommandContext<'_>, form: CacheForm, with_entries: bool) -> Result<(), Failure> {
    let store = store(context)?;
    let items = maintain::items(context.host, &store);
    let document = CacheReport::new(
        store.root.to_string(),
        store.limit,
        &items,
        (layers::usage(context.host).into(), sources::usage(context.host).into()),
        with_entries,
    );
    if form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text(context.host.now()))?;
    }
    Ok(())
}

fn prune(arguments: &Prune, context: &CommandContext<'_>) -> Result<(), Failure> {
    let size = arguments
        .max_size
        .as_deref()
        .map(settings::size)
        .transpose()
        .map_err(|error| invalid_setting(&error))?;
    let age = arguments
        .older_than
        .as_deref()
        .map(settings::age)
        .transpose()
        .map_err(|error| invalid_setting(&error))?;
    if let Some(url) = &arguments.address.remote {
        return remote::prune(url, (age, arguments.all), arguments.form, context);
    }
    let store = store(context)?;
    let limits = StoreLimits { size: size.or(Some(store.limit)), age, all: arguments.all };
    let refused = |error: std::io::Error| {
        Failure::negative(id!("cache.not-pruned"), format!("failed to prune `{}`: {error}", store.root))
            .hint(diagnostic::file_hint(error.kind()))
    };
    let pruned = maintain::prune(context.host, &store, limits).map_err(refused)?;
    let removed = layers::prune(context.host, age, arguments.all).map_err(refused)?;
    let sources = sources::prune(context.host, age, arguments.all).map_err(refused)?;
    let document = PruneDocument::new(&pruned, (removed.into(), sources.into()));
    if arguments.form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(())
}

fn explain(arguments: &TreeArguments, context: &CommandContext<'_>) -> Result<(), Failure> {
    let trees = Trees::of(arguments, context)?;
    let network = Network::from_env(context.host.env());
    let remote = remote(context, Some(&trees.project), network)?;
    let job =
        BuildJob { remote: remote.as_ref().map(|remote| remote as &dyn RemoteLevel), ..trees.job(context) };
    let explained: Result<Vec<_>, _> =
        trees.selected(arguments).map(|tree| reuse::explain(&job, tree)).collect();
    let document = ExplainDocument::new(explained.map_err(|error| build::failure(&error))?);
    if arguments.form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(())
}

/// The build trees of a project, for commands that look them up in the store.
struct Trees {
    project: Project,
    plan: Plan,
    tools: InstalledTools,
    store: Store,
}

impl Trees {
    fn of(arguments: &TreeArguments, context: &CommandContext<'_>) -> Result<Self, Failure> {
        machine::check_overrides(context.host)?;
        let selection = arguments.selection.for_target(&arguments.target, context)?;
        let catalogue = HostArguments::default().catalogue(context)?;
        let machine = machine::inspect_for(context.host, catalogue, &selection.target);
        let (project, mut plan) = plan::make(&selection, context, context.host, &machine)?;
        let Some(store) = open(context, Some(&project))? else {
            return Err(Failure::usage(id!("cache.off"), "the build store is disabled")
                .hint("enable it with `GPUBUILD_STORE=on`"));
        };
        if let Some(name) = &arguments.tree
            && plan.trees.iter().all(|tree| tree.id != *name)
        {
            let known: Vec<&str> = plan.trees.iter().map(|tree| tree.id.as_str()).collect();
            let message = format!("unknown build tree `{name}`");
            let failure = Failure::usage(id!("cache.no-tree"), message);
            return Err(failure.hint_of_known(name, "available trees", &known));
        }
        let tools = tools_here(context.host, &InstalledTools::of(&machine.inventory), &mut plan);
        Ok(Self { project, plan, tools, store })
    }

    fn selected<'a>(&'a self, arguments: &'a TreeArguments) -> impl Iterator<Item = &'a PlannedTree> {
        self.plan.trees.iter().filter(|tree| arguments.tree.as_ref().is_none_or(|name| *name == tree.id))
    }

    /// A job that looks results up and builds nothing.
    fn job<'a>(&self, context: &'a CommandContext<'_>) -> BuildJob<'a> {
        BuildJob {
            host: context.host,
            project: self.project.file.project.name.clone(),
            root: self.project.build_root.clone(),
            lock: folder::lock_path(&self.project.build_root),
            tools: self.tools.clone(),
            network: Network::Offline,
            direct: None,
            binary: BuildBinary::No,
            replan: None,
            explain: None,
            runtime: None,
            store: Some(self.store.clone()),
            remote: None,
            sink: &|_| {},
        }
    }
}
