//! Handles Ctrl-C and termination signals: terminates the process groups of all running children.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of the signal of Ctrl-C, also for Ctrl-C on Windows, which has no signals.
pub const SIGINT: u8 = 2;

/// The running children and the number of termination requests so far. Each [`RealHost`](super::RealHost) has one.
#[derive(Debug, Default)]
pub struct Interrupt {
    requests: AtomicU32,
    /// The first signal; 0 before it.
    signal: AtomicU8,
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

    /// The signal of the first request: [`SIGINT`] for Ctrl-C.
    #[must_use]
    pub fn signal(&self) -> Option<u8> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|signal| *signal > 0)
    }

    /// Counts a request and terminates all children. Returns whether a child was running; the caller then waits for it.
    pub fn trigger(&self, signal: u8) -> bool {
        let running = self.lock();
        let _ = self.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
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
