//! Handles Ctrl-C and termination signals: terminates the process groups of all running children.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The running children and the number of termination requests so far. Each [`RealHost`](super::RealHost) has one.
#[derive(Debug, Default)]
pub struct Interrupt {
    requests: AtomicU32,
    running: Mutex<Running>,
}

/// The running children, each with a function that wakes the thread waiting for it.
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

/// Registration of a running child; dropping it removes the child from the list.
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
    /// The number of termination requests (Ctrl-C or signals) so far.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether termination was requested. Long operations without a child process check this between steps.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.requests() > 0
    }

    /// Counts a request and terminates all children. Returns whether a child was running; the caller then waits for it.
    pub fn trigger(&self) -> bool {
        let running = self.lock();
        self.requests.fetch_add(1, Ordering::SeqCst);
        running.wakers.values().for_each(|waker| waker());
        !running.wakers.is_empty()
    }

    /// Registers a child before it is started. `None` if termination was already requested.
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

/// Installs a handler for Ctrl-C, SIGTERM and SIGHUP that terminates every child of `host`. Call it once at startup.
///
/// The first request terminates the children and makes [`RunPrograms::run`](super::RunPrograms::run) return
/// [`RunError::Interrupted`](super::RunError::Interrupted). A second request, if no child is running,
/// exits with status 130.
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
                reason = "second termination request; state on disk is safe at any point"
            )]
            std::process::exit(130);
        }
    })
    .map_err(std::io::Error::other)
}
