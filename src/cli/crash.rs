//! Internal errors: a panic on any thread ends the process with exit code 70 and a short report.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{self, PanicHookInfo};

use gpubuild_core::screen::{self, Colors};
use gpubuild_core::secret;
use gpubuild_detect::id;

use super::Exit;

/// Replaces the standard library's report of a panic. The process ends at once, so a panic of a worker thread cannot be ignored, and the
/// exit code does not depend on whether the program was compiled to unwind or to abort. Children end with the process (see the watchdog in
/// `gpubuild-host`), and every state on disk survives a kill.
pub(super) fn report_panics() {
    panic::set_hook(Box::new(|info| {
        let text = secret::redact(&report(info, &Backtrace::capture())).text.into_owned();
        let _ = std::io::stderr().write_all(screen::screen(&text, Colors::Remove).as_bytes());
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "a panic is reported only once, on any thread"
        )]
        std::process::exit(Exit::Internal.code().into());
    }));
}

/// What happened, the version, and where to report it. The backtrace is captured only if `RUST_BACKTRACE` asks for it.
fn report(info: &PanicHookInfo<'_>, backtrace: &Backtrace) -> String {
    let payload = info.payload();
    let message =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let message = format!("internal error: {}", message.unwrap_or("a panic without a message"));
    let message = screen::message(&message, Colors::Remove);
    let place =
        info.location().map_or_else(String::new, |place| format!(" at {}:{}", place.file(), place.line()));
    let mut text = format!("error: {message} [{}]\n", id!("internal.panic"));
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "gpubuild {version}, thread `{thread}`{place}");
    text.push_str("hint: report this text and the command to the project from which you have gpubuild");
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = write!(text, "\n{backtrace}");
    } else {
        text.push_str("; RUST_BACKTRACE=1 adds a backtrace");
    }
    text.push('\n');
    text
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test starts itself")]
mod tests {
    use std::process::Command;

    use super::*;

    /// The child process panics on the thread that this variable names.
    const THREAD: &str = "GPUBUILD_TEST_PANIC";

    #[test]
    fn panics_on_every_thread_exit_with_70_and_a_report() {
        match std::env::var(THREAD).as_deref() {
            Ok("worker") => {
                report_panics();
                let worker = std::thread::Builder::new().name("worker".to_owned());
                // The panic of the thread ends the process before `join` can return the panic as an error.
                let joined = worker.spawn(|| panic!("lost\n::error::\u{9b}31m")).unwrap().join();
                panic!("survived: {joined:?}");
            }
            Ok("caught") => {
                report_panics();
                let _ = panic::catch_unwind(|| panic!("lost\n::error::\u{9b}31m"));
                return;
            }
            _ => {}
        }
        for (thread, backtrace) in [("worker", "0"), ("worker", "1"), ("caught", "0")] {
            let test = "cli::crash::tests::panics_on_every_thread_exit_with_70_and_a_report";
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", test, "--nocapture"])
                .env(THREAD, thread)
                .env("RUST_BACKTRACE", backtrace);
            let output = command.output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(70), "{stderr}");
            assert!(
                stderr.starts_with("error: internal error: lost\n  : :error::\\u{9b}31m [internal.panic]\n"),
                "{stderr}"
            );
            assert!(
                stderr.contains(concat!("\ngpubuild ", env!("CARGO_PKG_VERSION"), ", thread `")),
                "{stderr}"
            );
            assert!(stderr.contains("hint: report this text"), "{stderr}");
            assert_eq!(stderr.lines().count() > 6, backtrace == "1", "{stderr}");
        }
    }
}
