//! Ctrl-C in a chat: the first ends the answer, the second the program.

use crate::Error;
use std::sync::atomic::{AtomicU32, Ordering};

static PRESSED: AtomicU32 = AtomicU32::new(0);

/// What shells expect of a program that Ctrl-C ended.
const EXIT_CODE: i32 = 130;

/// From now on Ctrl-C is counted.
pub(super) fn install() -> Result<(), Error> {
    ctrlc::set_handler(|| {
        if PRESSED.fetch_add(1, Ordering::SeqCst) > 0 {
            #[expect(clippy::exit, reason = "the main thread waits for a line or for a device")]
            std::process::exit(EXIT_CODE);
        }
    })
    .map_err(|error| Error::message(format!("Ctrl-C cannot be watched: {error}")))
}

/// Whether it was pressed since [`forget`].
pub(super) fn pressed() -> bool {
    PRESSED.load(Ordering::SeqCst) > 0
}

/// Starts counting anew.
pub(super) fn forget() {
    PRESSED.store(0, Ordering::SeqCst);
}
