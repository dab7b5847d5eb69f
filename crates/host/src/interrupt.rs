//! Ctrl-C and the request to end: every running child is told, whole process groups at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who has to be told. One per [`RealHost`](super::RealHost); cheap to ask.
#[derive(Debug, Default)]
pub struct Interrupt {
    requests: AtomicU32,
    running: Mutex<Running>,
}

/// Children that are waited for, each with what wakes the one who waits.
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
pub struct Token<'a> {
    interrupt: &'a Interrupt,
    id: u64,
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.interrupt.lock().wakers.remove(&self.id);
    }
}

impl Interrupt {
    /// How often we were asked to end.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether we were asked to end. Long work of our own asks between its steps.
    #[must_use]
    pub fn requested(&self) -> bool {
        self.requests() > 0
    }

    /// Tells everybody to end. Returns whether a child was running that now has to be waited for.
    pub fn trigger(&self) -> bool {
        let running = self.lock();
        self.requests.fetch_add(1, Ordering::SeqCst);
        running.wakers.values().for_each(|waker| waker());
        !running.wakers.is_empty()
    }

    /// Registers a child before it is started; `None` once we were asked to end.
    pub fn register(&self, wake: impl Fn() + Send + 'static) -> Option<Token<'_>> {
        let mut running = self.lock();
        if self.requested() {
            return None;
        }
        let id = running.next;
        running.next += 1;
        running.wakers.insert(id, Box::new(wake));
        Some(Token { interrupt: self, id })
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes Ctrl-C, SIGTERM and SIGHUP end every child of `host`. For programs; called once, at their start.
///
/// The first request ends the children and makes [`Host::run`](super::Host::run) answer
/// [`RunError::Interrupted`](super::RunError::Interrupted). A second one, when nothing runs any more that could
/// answer, ends the program itself with status 130.
///
/// # Errors
/// When a handler is already installed.
#[cfg(feature = "command")]
pub fn install(host: &super::RealHost) -> std::io::Result<()> {
    let interrupt = host.interrupt_handle();
    ctrlc::try_set_handler(move || {
        if !interrupt.trigger() && interrupt.requests() > 1 {
            #[expect(
                clippy::exit,
                clippy::disallowed_methods,
                reason = "the user insists; state on disk is safe at any point"
            )]
            std::process::exit(130);
        }
    })
    .map_err(std::io::Error::other)
}
