//! Log messages on stderr, enabled with `GPUBUILD_LOG=debug`.

use std::io::Write;

use gpubuild_core::screen::{Colors, message};
use gpubuild_core::secret::Redacting;
use gpubuild_host::HostInfo;
use log::{LevelFilter, Log, Metadata, Record};

/// Enables logging at the level in `GPUBUILD_LOG`: `error`, `warn`, `info`, `debug` or `trace`. Any other value disables it.
pub(super) fn start(host: &dyn HostInfo) {
    let level = host.env().get("GPUBUILD_LOG").and_then(|level| level.parse().ok());
    // If a logger is already set, it is this one: tests call the function several times in one process.
    if let Some(level) = level.filter(|level| *level != LevelFilter::Off)
        && log::set_logger(&Stderr).is_ok()
    {
        log::set_max_level(level);
    }
}

struct Stderr;

impl Log for Stderr {
    /// Enables only gpubuild's own messages: the HTTP client logs every byte that it sends, including passwords.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("gpubuild")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{:5} {}: {}\n", record.level(), record.target(), record.args());
            // A single write, so that no secret is split across two writes.
            let _ = Redacting(std::io::stderr()).write_all(message(&line, Colors::Remove).as_bytes());
        }
    }

    fn flush(&self) {}
}
