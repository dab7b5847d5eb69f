//! The talk of a build script: cargo shows its standard error when it fails, or with `-vv`.

use gpubuild_exec::exec::{Event, State};
use gpubuild_plan::plan::bytes;

/// Lines for cargo.
#[expect(clippy::print_stdout, reason = "a build script speaks to cargo on its standard output")]
pub(super) fn print(text: &str) {
    print!("{text}");
}

/// Tells what happens.
#[expect(clippy::print_stderr, reason = "cargo keeps the standard error of a build script for its reader")]
pub(super) fn tell(event: &Event) {
    if let Some(line) = line(event) {
        eprintln!("{line}");
    }
}

/// One line for an event that a reader of the log wants; steps are told by the build log.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Waiting { lock } => {
            format!("waiting for another build of the same sources (it holds `{lock}`)")
        }
        Event::Fetching { tool, version, into } => format!("fetching {tool} {version} into {into}"),
        Event::Provisioning { toolkit, version, into, download, .. } => {
            format!("installing {toolkit} {version} into {into} ({})", bytes::show_if_known(*download))
        }
        Event::Configuring { tree, build, .. } => format!("[{tree}] configuring in {build}"),
        Event::Configured { tree, seconds } => format!("[{tree}] configured in {seconds:.1} s"),
        Event::Line { tree, text } if !text.trim().is_empty() => format!("[{tree}] {}", text.trim_end()),
        Event::Failed { tree, error, log, .. } => {
            format!("[{tree}] failed: {error} (the whole log is `{log}`)")
        }
        Event::Finished { tree, state: State::Built, seconds } => format!("[{tree}] built in {seconds:.1} s"),
        Event::Finished { tree, state: State::Taken, .. } => format!("[{tree}] taken from the store"),
        Event::WaitingForStore { tree, lock } => {
            format!("[{tree}] waiting for another build of the same (it holds `{lock}`)")
        }
        Event::StoreUnused { tree, why } => format!("[{tree}] the build store is not used: {why}"),
        Event::SourcesChanged { tree, files } => {
            format!("[{tree}] sources changed during the build: {}", files.join(", "))
        }
        Event::Finished { tree, state: State::Unchanged, .. } => format!("[{tree}] nothing changed"),
        Event::Dropped { backend, why } => format!("{backend} is left out: {why}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_left_to_the_log() {
        let step = Event::Progress { tree: "cpu".into(), done: 1, total: 2, what: "x".into() };
        assert_eq!(line(&step), None);
        let done = Event::Finished { tree: "cpu".into(), state: State::Built, seconds: 1.25 };
        assert_eq!(line(&done).unwrap(), "[cpu] built in 1.2 s");
    }
}
