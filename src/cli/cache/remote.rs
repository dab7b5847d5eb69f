//! `gpubuild cache push`, `pull`, `stat` and `prune --remote`: the shared store.

use std::sync::{Mutex, PoisonError};

use gpubuild_detect::id;
use gpubuild_exec::exec::{BuildEvent, BuildJob, reuse};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::remote::{PushOutcome, RemoteLevel as _, RemoteProblem};
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::project::Project;
use gpubuild_remote::settings::{self, RemoteRequest};
use gpubuild_remote::{RemoteError, RemoteSettings, RemoteStore};

use super::{CacheForm, CommandContext, Exit, Failure, Trees, build};
use crate::cli::project::open_project;
use crate::report::remote::{RemotePruneReport, StatReport, TransferReport, TransferState, TransferredTree};

/// Arguments of the commands that copy results.
#[derive(Debug, clap::Args)]
pub(super) struct TransferArguments {
    #[command(flatten)]
    pub(super) trees: super::TreeArguments,
    #[command(flatten)]
    address: RemoteAddress,
}

/// The shared store of a command.
#[derive(Debug, clap::Args)]
pub(super) struct RemoteAddress {
    /// URL of the shared store [default: GPUBUILD_REMOTE, else `[cache] remote` in gpubuild.toml]
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(super) remote: Option<String>,
}

impl RemoteAddress {
    fn url(&self) -> Option<&str> {
        self.remote.as_deref().filter(|url| !url.is_empty())
    }
}

/// Arguments of `cache stat`.
#[derive(Debug, clap::Args)]
pub(super) struct StatArguments {
    #[command(flatten)]
    address: RemoteAddress,
    #[command(flatten)]
    pub(super) form: CacheForm,
}

/// The shared store of a project; `None` without one, or without a network.
pub(in crate::cli) fn open<'a>(
    context: &CommandContext<'a>,
    project: Option<&Project>,
    network: Network,
) -> Result<Option<RemoteStore<'a>>, Failure> {
    if network == Network::Offline {
        return Ok(None);
    }
    requested(context, project, RemoteRequest::default())
}

fn requested<'a>(
    context: &CommandContext<'a>,
    project: Option<&Project>,
    request: RemoteRequest<'_>,
) -> Result<Option<RemoteStore<'a>>, Failure> {
    let table = project.map(|project| project.file.cache.clone()).unwrap_or_default();
    let settings = RemoteSettings::open(context.host, &table, request)
        .map_err(|error| Failure::of(&error, Exit::Usage))?;
    let printer = context.printer;
    let warn = move |text: &str| printer.warning(text);
    Ok(settings.map(|settings| RemoteStore::new(context.host, settings, Box::new(warn))))
}

/// The shared store that a command needs.
fn needed<'a>(
    context: &CommandContext<'a>,
    project: Option<&Project>,
    request: RemoteRequest<'_>,
) -> Result<RemoteStore<'a>, Failure> {
    if Network::from_env(context.host.env()) == Network::Offline {
        return Err(Failure::usage(id!("net.offline"), "the shared store cannot be used offline")
            .hint("unset GPUBUILD_OFFLINE and CARGO_NET_OFFLINE"));
    }
    requested(context, project, request)?.ok_or_else(|| {
        Failure::usage(id!("remote.off"), "no shared store is configured")
            .hint(format!("set `[cache] remote` in gpubuild.toml, or {}", settings::VARIABLE))
    })
}

fn failure(error: &RemoteError) -> Failure {
    Failure::of(error, Exit::Negative)
}

fn problem(problem: RemoteProblem) -> Failure {
    let failure = Failure::negative(problem.id, problem.message);
    match problem.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

pub(super) fn push(arguments: &TransferArguments, context: &CommandContext<'_>) -> Result<(), Failure> {
    let request = RemoteRequest { url: arguments.address.url(), write: true };
    transfer(("cache-push", request), arguments, context, |job, remote, tree| {
        let found = reuse::explain(&job, tree).map_err(|error| build::failure(&error))?;
        let (Some(store), true) = (&job.store, found.hit) else { return Ok(missing(tree, found.what)) };
        match remote.push(store, &job.host.path(&found.what)) {
            PushOutcome::Pushed(cost) => Ok(TransferredTree {
                tree: tree.id.clone(),
                state: TransferState::Copied,
                bytes: cost.bytes,
                why: None,
            }),
            PushOutcome::NotShared(why) => Ok(missing(tree, why)),
            PushOutcome::Off => Ok(missing(tree, "the shared store is not used any more".to_owned())),
            PushOutcome::Failed(error) => Err(problem(error)),
        }
    })
}

pub(super) fn pull(arguments: &TransferArguments, context: &CommandContext<'_>) -> Result<(), Failure> {
    let request = RemoteRequest { url: arguments.address.url(), write: false };
    transfer(("cache-pull", request), arguments, context, |job, remote, tree| {
        let events = Mutex::new(Vec::new());
        let sink =
            |event: &BuildEvent| events.lock().unwrap_or_else(PoisonError::into_inner).push(event.clone());
        let outcome = reuse::pull(&BuildJob { sink: &sink, remote: Some(remote), ..job }, tree)
            .map_err(|error| build::failure(&error))?;
        let events = events.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut pulled = TransferredTree {
            tree: tree.id.clone(),
            state: if outcome { TransferState::Present } else { TransferState::Missing },
            bytes: 0,
            why: (!outcome).then(|| "the shared store has no result for this key".to_owned()),
        };
        for event in events {
            match event {
                BuildEvent::Pulled { bytes, .. } => {
                    (pulled.state, pulled.bytes, pulled.why) = (TransferState::Copied, bytes, None);
                }
                BuildEvent::NotPulled { why, .. } => pulled.why = Some(why),
                BuildEvent::RemoteUnused { id, why: message, hint, .. } => {
                    return Err(problem(RemoteProblem { id, message, hint }));
                }
                _ => {}
            }
        }
        Ok(pulled)
    })
}

fn missing(tree: &PlannedTree, why: String) -> TransferredTree {
    TransferredTree { tree: tree.id.clone(), state: TransferState::Missing, bytes: 0, why: Some(why) }
}

/// Copies the results of the selected trees, and prints the document.
fn transfer(
    (name, request): (&'static str, RemoteRequest<'_>),
    arguments: &TransferArguments,
    context: &CommandContext<'_>,
    copy: impl Fn(BuildJob<'_>, &RemoteStore<'_>, &PlannedTree) -> Result<TransferredTree, Failure>,
) -> Result<(), Failure> {
    let trees = Trees::of(&arguments.trees, context)?;
    let remote = needed(context, Some(&trees.project), request)?;
    let mut copied = Vec::new();
    for tree in trees.selected(&arguments.trees) {
        copied.push(copy(trees.job(context), &remote, tree)?);
    }
    let document = TransferReport::new(name, remote.name(), copied);
    if arguments.trees.form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(())
}

pub(super) fn stat(arguments: &StatArguments, context: &CommandContext<'_>) -> Result<(), Failure> {
    let project = open_project(context, None).ok();
    let request = RemoteRequest { url: arguments.address.url(), write: false };
    let remote = needed(context, project.as_ref(), request)?;
    let time = remote.check().map_err(|error| failure(&error))?;
    let entries = match remote.list() {
        Ok(entries) => Some(entries.len()),
        Err(RemoteError::NotListable(_)) => None,
        Err(error) => return Err(failure(&error)),
    };
    let document = StatReport::new(remote.name(), remote.may_write(), time.as_secs_f64(), entries);
    if arguments.form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(())
}

/// Removes entries of the shared store that were saved more than `age` seconds ago, or all.
pub(super) fn prune(
    url: &str,
    (age, all): (Option<u64>, bool),
    form: CacheForm,
    context: &CommandContext<'_>,
) -> Result<(), Failure> {
    let project = open_project(context, None).ok();
    let url = Some(url).filter(|url| !url.is_empty());
    let remote = needed(context, project.as_ref(), RemoteRequest { url, write: false })?;
    let pruned = remote.prune(age, all).map_err(|error| failure(&error))?;
    let document = RemotePruneReport::new(remote.name(), pruned);
    if form.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(())
}
