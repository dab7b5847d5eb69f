//! Handles Ctrl-C and termination signals: terminates the process groups of all running children.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of the signal of Ctrl-C, also for Ctrl-C on Windows, which has no signals.
pub const SIGINT: u8 = 2;

/// The longest time that a second request waits for children that are being started.
const START_LIMIT: Duration = Duration::from_secs(1);

/// The running children and the number of termination requests so far. Each [`RealHost`](super::RealHost) has one.
#[derive(Debug, Default)]
pub struct Interrupt {
    requests: AtomicU32,
    /// The first signal; 0 before it.
    signal: AtomicU8,
    running: Mutex<Running>,
    /// A child has started, or has ended.
    changed: Condvar,
}

/// The running children.
#[derive(Default)]
struct Running {
    next: u64,
    children: BTreeMap<u64, RunningChild>,
}

/// A child that runs or is being started.
struct RunningChild {
    /// Wakes the thread that waits for it.
    wake: Box<dyn Fn() + Send>,
    /// Kills it with all its descendants; `None` until it has started.
    kill: Option<Box<dyn Fn() + Send>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Running").field("count", &self.children.len()).finish_non_exhaustive()
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
        self.interrupt.lock().children.remove(&self.id);
        self.interrupt.changed.notify_all();
    }
}

impl InterruptToken<'_> {
    /// Registers how the child, which has started, is killed with all its descendants.
    pub fn started(&self, kill: impl Fn() + Send + 'static) {
        let mut running = self.interrupt.lock();
        if self.interrupt.requests() > 1 {
            kill();
        }
        if let Some(child) = running.children.get_mut(&self.id) {
            child.kill = Some(Box::new(kill));
        }
        self.interrupt.changed.notify_all();
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

    /// Counts a request. The first one terminates all children, a second one kills them with all their descendants. Returns whether a
    /// child was running; after the first request, the caller then waits for it.
    pub fn trigger(&self, signal: u8) -> bool {
        let running = self.lock();
        let _ = self.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        self.requests.fetch_add(1, Ordering::SeqCst);
        running.children.values().for_each(|child| (child.wake)());
        let was_running = !running.children.is_empty();
        if self.requests() > 1 {
            running.children.values().filter_map(|child| child.kill.as_ref()).for_each(|kill| kill());
            // The others are killed by `started`.
            let is_starting =
                |running: &mut Running| running.children.values().any(|child| child.kill.is_none());
            drop(self.changed.wait_timeout_while(running, START_LIMIT, is_starting));
        }
        was_running
    }

    /// Registers a child before it is started. `None` if termination was already requested.
    pub fn register(&self, wake: impl Fn() + Send + 'static) -> Option<InterruptToken<'_>> {
        let mut running = self.lock();
        if self.requested() {
            return None;
        }
        let id = running.next;
        running.next += 1;
        running.children.insert(id, RunningChild { wake: Box::new(wake), kill: None });
        Some(InterruptToken { interrupt: self, id })
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_a_second_request_kills() {
        let interrupt = Interrupt::default();
        let killed = Arc::new(AtomicU32::new(0));
        let kill = || {
            let killed = Arc::clone(&killed);
            move || {
                let _ = killed.fetch_add(1, Ordering::SeqCst);
            }
        };
        let (one, other) = (interrupt.register(|| {}).unwrap(), interrupt.register(|| {}).unwrap());
        one.started(kill());
        assert!(interrupt.trigger(SIGINT));
        assert_eq!(killed.load(Ordering::SeqCst), 0);
        // A child that ends is not killed, and one that has started is killed once per request.
        drop(other);
        assert!(interrupt.trigger(SIGINT));
        assert_eq!(killed.load(Ordering::SeqCst), 1);
        drop(one);
        assert!(!interrupt.trigger(SIGINT));
        assert_eq!(killed.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_child_that_starts_during_a_second_request_is_killed() {
        let interrupt = Interrupt::default();
        let token = interrupt.register(|| {}).unwrap();
        interrupt.trigger(SIGINT);
        let killed = Arc::new(AtomicU32::new(0));
        std::thread::scope(|scope| {
            let request = scope.spawn(|| interrupt.trigger(SIGINT));
            while interrupt.requests() < 2 {
                std::thread::yield_now();
            }
            let count = Arc::clone(&killed);
            token.started(move || {
                let _ = count.fetch_add(1, Ordering::SeqCst);
            });
            assert!(request.join().unwrap());
        });
        assert_eq!(killed.load(Ordering::SeqCst), 1);
    }
}
