//! TOML files of other programs: the runners of cargo's configuration with their `cfg(…)` expressions, a `pylock.toml` of uv, and
//! gpubuild.lock.

use gpubuild::cli::target::applies;
use gpubuild_host::recorded::{HostRecording, RecordedEntry, RecordedFile};
use gpubuild_host::{Arch, HostInfo as _, Os, Platform, RecordedHost};
use gpubuild_plan::project::source::lock::LockedSource;
use gpubuild_plan::target::{self, Target};
use gpubuild_toolchain::venv::{WheelTable, pylock};

use super::output::check_text;

/// Targets of each operating system. None runs on the machine, so that a runner is looked for.
const TARGETS: [&str; 3] = ["aarch64-unknown-linux-gnu", "x86_64-pc-windows-gnu", "aarch64-apple-darwin"];

/// Reads a text as each of the files. Whether one of them accepts it.
pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let is_runner = has_runner(text);
    let is_list = lists_wheels(text);
    pins_source(text) || is_runner || is_list
}

/// Looks for the runner of each target in cargo's configuration.
fn has_runner(text: &str) -> bool {
    let mut recording = HostRecording::new(Platform { os: Os::Linux, arch: Arch::X86_64 });
    let entry = RecordedEntry::file(Some(text.as_bytes()));
    recording.files.push(RecordedFile { path: "/project/.cargo/config.toml".to_owned(), entry });
    let Ok(host) = RecordedHost::new(recording) else { return false };
    let find =
        |triple: &str| target::runner(&host, &Target::of_triple(triple), &host.path("/project"), &applies);
    TARGETS
        .map(|triple| match find(triple) {
            Ok(words) => !words.is_empty(),
            Err(reason) => {
                check_text(&reason.text);
                check_text(reason.hint.as_deref().unwrap_or_default());
                false
            }
        })
        .contains(&true)
}

/// Compares a list of wheels with the built-in table.
fn lists_wheels(text: &str) -> bool {
    let release = &WheelTable::embedded().releases[0];
    let wheels: Vec<_> = release.wheels.iter().take(1).collect();
    match pylock::check(text, &wheels) {
        Ok(()) => true,
        Err(error) => {
            check_text(&error.to_string());
            false
        }
    }
}

/// Reads gpubuild.lock: it stays the same when it is written, and its folder is one below the cache.
fn pins_source(text: &str) -> bool {
    match LockedSource::parse(text) {
        Ok(locked) => {
            let folder = locked.folder();
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
            assert!(folder.chars().all(is_plain) && !folder.starts_with('.'), "{folder}");
            assert_eq!(LockedSource::parse(&locked.text()).as_ref(), Ok(&locked), "{}", locked.text());
            true
        }
        Err(error) => {
            check_text(&error);
            false
        }
    }
}
