//! Handles Ctrl-C and termination signals by ending the process groups of all running children.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The running children and the number of requests to end. One per [`RealHost`](super::RealHost); cheap to query.
#[derive(Debug, Default)]
pub struct Interrupt {
    requests: AtomicU32,
    running: Mutex<Running>,
}

/// The running children, each with a function that wakes the thread that waits for it.
#[derive(Default)]
struct Running {
    next: u64,
    wakers: BTreeMap<u64, Box<dyn Fn() + Send>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("count", &self.wakers.len()).finish_non_exhaustive()
    }
}

/// Keeps a child registered until it is dropped.
#[derive(Debug)]
pub struct InterruptToken<'a> {
    interrupt: &'a Interrupt,
    id: u64,
}

impl Drop for InterruptToken<'_> {
    fn drop(&mut self) {
        self.interrupt.lock().wakers.remove(&self.id);
    }
}

impl Interrupt {
    /// How often gpubuild was asked to end.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether gpubuild was asked to end. Long operations without a child check this between their steps.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.requests() > 0
    }

    /// Ends all children. Returns whether one was running, so that the caller must wait for it.
    pub fn trigger(&self) -> bool {
        let running = self.lock();
        self.requests.fetch_add(1, Ordering::SeqCst);
        running.wakers.values().for_each(|waker| waker());
        !running.wakers.is_empty()
    }

    /// Registers a child before it is started; `None` if gpubuild was already asked to end.
    pub fn register(&self, wake: impl Fn() + Send + 'static) -> Option<InterruptToken<'_>> {
        let mut running = self.lock();
        if self.requested() {
            return None;
        }
        let id = running.next;
        running.next += 1;
        running.wakers.insert(id, Box::new(wake));
        Some(InterruptToken { interrupt: self, id })
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes Ctrl-C, SIGTERM and SIGHUP end every child of `host`. Programs call it once, at their start.
///
/// The first request ends the children and makes [`RunPrograms::run`](super::RunPrograms::run) return
/// [`RunError::Interrupted`](super::RunError::Interrupted). A second request, if no child is running,
/// ends the program with status 130.
///
/// # Errors
/// A handler is already installed.
#[cfg(feature = "command")]
pub fn install(host: &super::RealHost) -> std::io::Result<()> {
    let interrupt = host.interrupt_handle();
    ctrlc::try_set_handler(move || {
        if !interrupt.trigger() && interrupt.requests() > 1 {
            #[expect(
                clippy::exit,
                clippy::disallowed_methods,
                reason = "the user asked twice; state on disk is safe at any point"
            )]
            std::process::exit(130);
        }
    })
    .map_err(std::io::Error::other)
}
