//! Distributes parallel jobs among trees that are built at the same time.
//!
//! If Ninja supports a jobserver, all trees share one pool, and jobs that one tree does not need are available to the
//! others. Otherwise each tree has a fixed number of jobs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_host::JobPool;
use gpubuild_host::{Command, Host, HostPath};
use gpubuild_plan::plan::PlannedTree;

/// The first version of Ninja that supports a jobserver.
const NINJA: &str = "1.13";

/// The parallel jobs of a build.
pub(super) struct Shares<'a> {
    host: &'a dyn Host,
    /// Path of the jobserver's pipe.
    pipe: HostPath,
    ninja: Option<&'a HostPath>,
    state: Mutex<ShareState>,
}

/// The share of one worker.
#[derive(Clone, Copy)]
pub(super) struct JobShare<'a> {
    pub(super) shares: &'a Shares<'a>,
    /// Index of the worker.
    pub(super) worker: u32,
    /// Number of workers at the start.
    pub(super) workers: u32,
}

impl JobShare<'_> {
    /// Number of jobs without a jobserver.
    pub(super) fn fixed(&self) -> u32 {
        let total = self.shares.total();
        (total / self.workers + u32::from(self.worker < total % self.workers)).max(1)
    }
}

struct ShareState {
    /// Maximum number of jobs of all trees together.
    total: u32,
    /// Number of active workers. Each has one job that is not taken from the pool.
    workers: u32,
    pool: Pool,
}

enum Pool {
    /// The pool is created when it is first needed.
    NotCreated,
    /// Each worker has a fixed number of jobs.
    None,
    Open(JobPool),
}

impl<'a> Shares<'a> {
    /// Prepares `total` jobs for `workers` parallel builds of the trees.
    pub(super) fn new(
        host: &'a dyn Host,
        pipe: HostPath,
        ninja: Option<&'a HostPath>,
        trees: &[PlannedTree],
        (total, workers): (u32, u32),
    ) -> Self {
        let uses_same_ninja = |tree: &PlannedTree| {
            let own = tree.cache.get("CMAKE_MAKE_PROGRAM").map(|own| host.path(own));
            tree.generator.starts_with("Ninja") && own.is_none_or(|own| Some(&own) == ninja)
        };
        // `MAKEFLAGS` separates words by spaces, so the pipe's path must not contain any. A single worker needs no pool.
        let shared =
            workers > 1 && trees.iter().all(uses_same_ninja) && !pipe.as_str().contains(char::is_whitespace);
        let pool = if shared { Pool::NotCreated } else { Pool::None };
        Self { host, pipe, ninja, state: Mutex::new(ShareState { total, workers, pool }) }
    }

    /// Maximum number of jobs of all trees together.
    pub(super) fn total(&self) -> u32 {
        self.state().total
    }

    /// Raises the number of jobs: other machines compile too.
    pub(super) fn raise(&self, total: u32) {
        let mut state = self.state();
        let more = total.saturating_sub(state.total);
        state.total += more;
        if more > 0
            && let Pool::Open(pool) = &state.pool
            && let Err(error) = pool.add(more)
        {
            log::debug!("failed to add jobs to the jobserver: {error}");
        }
    }

    fn state(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of `MAKEFLAGS` for the jobserver, if there is one. The pool is created at the first call, so that a build
    /// without changes starts no process.
    pub(super) fn make_flags(&self) -> Option<String> {
        let mut state = self.state();
        if matches!(state.pool, Pool::NotCreated) {
            state.pool = self.make(state.total.saturating_sub(state.workers)).map_or(Pool::None, Pool::Open);
        }
        match &state.pool {
            Pool::Open(pool) => Some(pool.make_flags()),
            Pool::NotCreated | Pool::None => None,
        }
    }

    fn make(&self, jobs: u32) -> Option<JobPool> {
        let command = Command::new(self.ninja?.as_str(), Duration::from_secs(20)).arg("--version");
        let version = self.host.run(&command).ok()?.stdout;
        if !supports_jobserver(&version) {
            return None;
        }
        self.host.job_pool(&self.pipe, jobs).unwrap_or_else(|error| {
            log::debug!(
                "failed to create a jobserver at `{}`, so each tree has a fixed number of jobs: {error}",
                self.pipe
            );
            None
        })
    }

    /// Ends a worker and adds its job to the pool.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.workers = state.workers.saturating_sub(1);
        if let Pool::Open(pool) = &state.pool
            && let Err(error) = pool.add(1)
        {
            log::debug!("failed to return a job to the jobserver: {error}");
        }
    }
}

/// Whether a version of Ninja, as printed by `--version`, supports a jobserver.
fn supports_jobserver(version_text: &str) -> bool {
    let start: String = version_text.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let (Ok(version), Ok(oldest)) = (start.trim_end_matches('.').parse::<Version>(), NINJA.parse()) else {
        return false;
    };
    version >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninja_supports_a_jobserver_since_1_13() {
        for (version, expected) in [
            ("1.11.1\n", false),
            ("1.12.1", false),
            ("1.13.0", true),
            ("1.13.2.git.kitware.jobserver-pipe-1", true),
            ("2.0", true),
            ("1.11.1.git.kitware.jobserver-1", false),
            ("samurai", false),
            ("", false),
        ] {
            assert_eq!(supports_jobserver(version), expected, "{version}");
        }
    }
}
