//! The output of a build script: lines for cargo, and progress on standard error, which cargo shows if the script fails or with `-vv`.

use gpubuild_core::screen::{Colors, message};
use gpubuild_exec::exec::{BuildEvent, TreeState};
use gpubuild_plan::plan::bytes;

/// Prints lines for cargo.
#[expect(clippy::print_stdout, reason = "a build script passes lines to cargo on standard output")]
pub(super) fn print(text: &str) {
    print!("{text}");
}

/// Prints a progress event to standard error.
#[expect(clippy::print_stderr, reason = "cargo shows a build script's standard error to the user")]
pub(super) fn report(event: &BuildEvent) {
    if let Some(line) = line(event) {
        eprintln!("{}", message(&line, Colors::Remove));
    }
}

/// The line for an event; `None` for build steps, which are in the build log.
fn line(event: &BuildEvent) -> Option<String> {
    Some(match event {
        BuildEvent::Waiting { lock } => {
            format!("waiting for another build of the same sources, which holds `{lock}`")
        }
        BuildEvent::Fetching { tool, version, into } => format!("fetching {tool} {version} into {into}"),
        BuildEvent::Provisioning { toolkit, version, into, download, .. } => {
            format!("installing {toolkit} {version} into {into} ({})", bytes::show_if_known(*download))
        }
        BuildEvent::Configuring { tree, build, .. } => format!("[{tree}] configuring in {build}"),
        BuildEvent::Configured { tree, seconds } => format!("[{tree}] configured in {seconds:.1} s"),
        BuildEvent::Line { tree, text } if !text.trim().is_empty() => format!("[{tree}] {}", text.trim_end()),
        BuildEvent::Failed { tree, error, log, .. } => {
            format!("[{tree}] failed: {error} (full log: `{log}`)")
        }
        BuildEvent::Finished { tree, state: TreeState::Built, seconds } => {
            format!("[{tree}] built in {seconds:.1} s")
        }
        BuildEvent::Finished { tree, state: TreeState::Taken, .. } => {
            format!("[{tree}] restored from the build store")
        }
        BuildEvent::WaitingForStore { tree, lock } => {
            format!("[{tree}] waiting for another build of the same tree, which holds `{lock}`")
        }
        BuildEvent::StoreUnused { tree, why } => format!("[{tree}] the build store is not used: {why}"),
        BuildEvent::SourcesChanged { tree, files } => {
            format!("[{tree}] sources changed during the build: {}", files.join(", "))
        }
        BuildEvent::Finished { tree, state: TreeState::Unchanged, .. } => format!("[{tree}] nothing changed"),
        BuildEvent::Dropped { backend, why } => format!("{backend} is left out: {why}"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_steps_are_not_printed() {
        let step = BuildEvent::Progress { tree: "cpu".into(), done: 1, total: 2, what: "x".into() };
        assert_eq!(line(&step), None);
        let done = BuildEvent::Finished { tree: "cpu".into(), state: TreeState::Built, seconds: 1.25 };
        assert_eq!(line(&done).unwrap(), "[cpu] built in 1.2 s");
    }
}
