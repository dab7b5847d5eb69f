//! How many compilers each tree may have at once, when several trees are built at the same time.
//!
//! Where Ninja takes part in a jobserver, all trees draw from one pool: what one does not need another has, and a tree that is
//! done leaves its jobs to the rest. Elsewhere each has a fixed share.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_host::JobPool;
use gpubuild_host::{Command, Host, HostPath};
use gpubuild_plan::plan::PlannedTree;

/// The first Ninja that takes part.
const NINJA: &str = "1.13";

/// The jobs of a build.
pub(super) struct Shares<'a> {
    host: &'a dyn Host,
    /// Where the pipe is made.
    place: HostPath,
    ninja: Option<&'a HostPath>,
    /// Of all trees together.
    pub(super) total: u32,
    state: Mutex<ShareState>,
}

/// What a tree may use of them.
#[derive(Clone, Copy)]
pub(super) struct JobShare<'a> {
    pub(super) shares: &'a Shares<'a>,
    /// Where nothing is handed on.
    pub(super) fixed: u32,
}

struct ShareState {
    /// Who may still build: each has one job without asking.
    workers: u32,
    pool: Pool,
}

enum Pool {
    /// Nobody has built yet.
    Unasked,
    /// The shares are fixed.
    None,
    Open(JobPool),
}

impl<'a> Shares<'a> {
    /// The jobs of these trees, of which so many are built at once.
    pub(super) fn new(
        host: &'a dyn Host,
        place: HostPath,
        ninja: Option<&'a HostPath>,
        trees: &[PlannedTree],
        (total, workers): (u32, u32),
    ) -> Self {
        let takes_part = |tree: &PlannedTree| {
            let own = tree.cache.get("CMAKE_MAKE_PROGRAM").map(|own| host.path(own));
            tree.generator.starts_with("Ninja") && own.is_none_or(|own| Some(&own) == ninja)
        };
        // The pipe's name stands between spaces. One tree alone has everything anyway.
        let shared =
            workers > 1 && trees.iter().all(takes_part) && !place.as_str().contains(char::is_whitespace);
        let pool = if shared { Pool::Unasked } else { Pool::None };
        Self { host, place, ninja, total, state: Mutex::new(ShareState { workers, pool }) }
    }

    /// The share of a worker where nothing is handed on.
    pub(super) fn fixed(&self, worker: u32, workers: u32) -> u32 {
        self.total / workers + u32::from(worker < self.total % workers)
    }

    /// What `MAKEFLAGS` says if the trees draw from one pool. It is made when it is first needed: a build with nothing to do
    /// starts no process.
    pub(super) fn make_flags(&self) -> Option<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(state.pool, Pool::Unasked) {
            state.pool = self.make(state.workers).map_or(Pool::None, Pool::Open);
        }
        match &state.pool {
            Pool::Open(pool) => Some(pool.make_flags()),
            Pool::Unasked | Pool::None => None,
        }
    }

    fn make(&self, workers: u32) -> Option<JobPool> {
        let ask = Command::new(self.ninja?.as_str(), Duration::from_secs(20)).arg("--version");
        let said = self.host.run(&ask).ok()?.stdout;
        if !takes_part(&said) {
            return None;
        }
        self.host.job_pool(&self.place, self.total.saturating_sub(workers)).unwrap_or_else(|error| {
            log::debug!(
                "no job server at `{}`, so each tree has a fixed number of jobs: {error}",
                self.place
            );
            None
        })
    }

    /// A worker has nothing more to do: its job is for others.
    pub(super) fn leave(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.workers = state.workers.saturating_sub(1);
        if let Pool::Open(pool) = &state.pool
            && let Err(error) = pool.add(1)
        {
            log::debug!("failed to return a job to the job server: {error}");
        }
    }
}

/// Whether the Ninja that says this of itself takes part in a jobserver.
fn takes_part(said: &str) -> bool {
    let start: String = said.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let (Ok(version), Ok(oldest)) = (start.trim_end_matches('.').parse::<Version>(), NINJA.parse()) else {
        return false;
    };
    version >= oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninja_takes_part_from_1_13_on() {
        for (said, expected) in [
            ("1.11.1\n", false),
            ("1.12.1", false),
            ("1.13.0", true),
            ("1.13.2.git.kitware.jobserver-pipe-1", true),
            ("2.0", true),
            ("1.11.1.git.kitware.jobserver-1", false),
            ("samurai", false),
            ("", false),
        ] {
            assert_eq!(takes_part(said), expected, "{said}");
        }
    }
}
