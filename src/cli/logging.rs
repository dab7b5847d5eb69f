//! `GPUBUILD_LOG=debug` writes what gpubuild notes along the way to stderr.

use std::io::Write;

use gpubuild_core::secret::Redacting;
use gpubuild_host::HostInfo;
use log::{LevelFilter, Log, Metadata, Record};

/// Starts logging at the level that `GPUBUILD_LOG` names: `error`, `warn`, `info`, `debug`, `trace`. Any other value logs
/// nothing.
pub(super) fn start(host: &dyn HostInfo) {
    let level = host.env().get("GPUBUILD_LOG").and_then(|level| level.parse().ok());
    // A second logger can only be ours, from a test in the same process: the first one stays.
    if let Some(level) = level.filter(|level| *level != LevelFilter::Off)
        && log::set_logger(&Stderr).is_ok()
    {
        log::set_max_level(level);
    }
}

struct Stderr;

impl Log for Stderr {
    /// Only gpubuild's own messages: the HTTP client logs every byte that it sends, passwords included.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("gpubuild")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{:5} {}: {}\n", record.level(), record.target(), record.args());
            // Written in one call, so that a secret is never split between two.
            let _ = Redacting(std::io::stderr()).write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}
