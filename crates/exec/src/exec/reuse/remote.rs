//! Use of the shared store: copies results into the local store, and new results out of it.

use gpubuild_host::HostPath;
use gpubuild_plan::plan::PlannedTree;

use super::{Reuse, TREES, explain};
use crate::event::BuildEvent;
use crate::exec::BuildJob;
use crate::exec::error::BuildError;
use crate::store::entry::{self, Miss};
use crate::store::explain::RemoteExplanation;
use crate::store::remote::{PullOutcome, PushOutcome, RemoteLookup, RemoteProblem};
use crate::store::settings::Store;

/// Copies the result of a tree from the shared store into the local one. Returns whether it is there now.
///
/// # Errors
/// The sources cannot be read, or waiting for the lock was interrupted.
pub fn pull(job: &BuildJob<'_>, tree: &PlannedTree) -> Result<bool, BuildError> {
    let Some(store) = &job.store else { return Ok(false) };
    let mut reuse = explain::begin(job, tree)?;
    let Some(key) = reuse.key() else { return Ok(false) };
    reuse.external.write();
    let _lock = reuse.lock(store, &key)?;
    let is_here = reuse.find_local(store, &key).is_ok();
    Ok(is_here || reuse.pull(store, &key) && reuse.find_local(store, &key).is_ok())
}

impl Reuse<'_> {
    /// Copies the entry of a key from the shared store into the local one. Returns whether it is there now. The caller holds the
    /// lock of the key.
    pub(super) fn pull(&mut self, store: &Store, key: &str) -> bool {
        let Some(remote) = self.job.remote.filter(|_| self.writable) else { return false };
        for folder in entry::candidates(store, TREES, key, &self.roots) {
            let name = folder.file_name().unwrap_or_default();
            let (host, roots, external) = (self.job.host, &self.roots, &mut self.external);
            let outcome = remote.pull(store, name, &mut |_, inputs| inputs.verify(host, roots, external));
            match outcome {
                PullOutcome::Absent => {}
                PullOutcome::Pulled(cost) => {
                    (self.job.sink)(&BuildEvent::Pulled {
                        tree: self.tree.id.clone(),
                        key: key.to_owned(),
                        remote: remote.name(),
                        bytes: cost.bytes,
                        seconds: cost.seconds,
                    });
                    return true;
                }
                PullOutcome::Unusable(miss) => (self.job.sink)(&BuildEvent::NotPulled {
                    tree: self.tree.id.clone(),
                    remote: remote.name(),
                    why: miss.to_string(),
                }),
                PullOutcome::Failed(problem) => {
                    self.report_remote(problem);
                    return false;
                }
            }
        }
        false
    }

    /// Copies a new entry of the local store into the shared one.
    pub(super) fn push(&self, store: &Store, folder: &HostPath, key: &str) {
        let Some(remote) = self.job.remote else { return };
        match remote.push(store, folder) {
            PushOutcome::Off => {}
            PushOutcome::Pushed(cost) => (self.job.sink)(&BuildEvent::Pushed {
                tree: self.tree.id.clone(),
                key: key.to_owned(),
                remote: remote.name(),
                bytes: cost.bytes,
                seconds: cost.seconds,
            }),
            PushOutcome::NotShared(why) => (self.job.sink)(&BuildEvent::NotPushed {
                tree: self.tree.id.clone(),
                remote: remote.name(),
                why,
            }),
            PushOutcome::Failed(problem) => self.report_remote(problem),
        }
    }

    /// Looks a key up in the shared store without downloading files.
    pub(super) fn explain_remote(&mut self, key: &str) -> Option<RemoteExplanation> {
        let (remote, store) = (self.job.remote?, self.job.store.as_ref()?);
        let mut what = Miss::Absent.to_string();
        let mut found = None;
        for folder in entry::candidates(store, TREES, key, &self.roots) {
            let name = folder.file_name().unwrap_or_default();
            let (host, roots, external) = (self.job.host, &self.roots, &mut self.external);
            match remote.look_up(name, &mut |_, inputs| inputs.verify(host, roots, external)) {
                RemoteLookup::Absent => {}
                RemoteLookup::Unusable(miss) => what = miss.to_string(),
                RemoteLookup::Usable(cost) => {
                    found = Some(cost.bytes);
                    break;
                }
                RemoteLookup::Failed(problem) => {
                    what = format!("{} [{}]", problem.message, problem.id);
                    break;
                }
            }
        }
        let what = if found.is_some() { String::new() } else { what };
        let (hit, bytes) = (found.is_some(), found.unwrap_or_default());
        Some(RemoteExplanation { store: remote.name(), hit, what, bytes })
    }

    fn report_remote(&self, problem: RemoteProblem) {
        let tree = self.tree.id.clone();
        let RemoteProblem { id, message: why, hint } = problem;
        (self.job.sink)(&BuildEvent::RemoteUnused { tree, id, why, hint });
    }
}
