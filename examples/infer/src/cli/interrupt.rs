//! Ctrl-C in a chat: the first stops the answer, the second exits.

use crate::Error;
use std::sync::atomic::{AtomicU32, Ordering};

static PRESSED: AtomicU32 = AtomicU32::new(0);

/// The conventional exit code after Ctrl-C.
const EXIT_CODE: i32 = 130;

/// Installs the handler that counts Ctrl-C.
pub(super) fn install() -> Result<(), Error> {
    ctrlc::set_handler(|| {
        if PRESSED.fetch_add(1, Ordering::SeqCst) > 0 {
            #[expect(clippy::exit, reason = "the main thread waits for a line or for a device")]
            std::process::exit(EXIT_CODE);
        }
    })
    .map_err(|error| Error::message(format!("cannot handle Ctrl-C: {error}")))
}

/// True if Ctrl-C was pressed since [`forget`].
pub(super) fn pressed() -> bool {
    PRESSED.load(Ordering::SeqCst) > 0
}

/// Resets the count.
pub(super) fn forget() {
    PRESSED.store(0, Ordering::SeqCst);
}
