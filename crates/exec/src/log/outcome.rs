//! Distinguishes failures from the output of successful builds: what CMake reports without failing, and whether a tool reports
//! success or failure.

use super::lines::LogLines;
use super::{AT_THE_END, prefix, text};

/// Texts with which a tool reports that a complete command failed.
pub(super) const FAILURES: [&str; 42] = [
    "terminate called after",
    "(core dumped)",
    "error while loading shared libraries",
    "ImportError: ",
    "OSError: ",
    "RuntimeError: ",
    "AssertionError: ",
    "NotImplementedError: ",
    "Error occurred when executing",
    "Exception during processing",
    "GGML_ASSERT",
    "Unhandled exception",
    "Traceback (most recent call last)",
    "panicked at ",
    "goroutine 1 [running",
    "(node:internal/",
    "returned non-zero exit status",
    "CMake Error",
    "errors occurred!",
    "build stopped: ",
    ": *** ",
    "make (e=",
    "FAILED: ",
    "Build FAILED",
    "BUILD FAILED",
    "error: could not compile",
    "error: failed to run custom build command",
    "error: command ",
    "error: subprocess-exited-with-error",
    "ERROR: Failed building wheel",
    "Failed to build",
    "exited with code 1",
    "exit code: 1",
    "did not complete successfully",
    "returned a non-zero code",
    "compilation terminated.",
    "error: builder for '",
    "==> Error: ",
    "Process completed with exit code",
    "Error response from daemon",
    "dpkg: error processing",
    "/usr/bin/dpkg returned an error code",
];
/// Texts of the lines after which output may not be a failure.
pub(super) const HEADLINES: [&str; 4] =
    ["CMake Warning", "CMake Deprecation Warning", "Determining if ", "Performing C"];

/// Number of bytes at the end of a log that are searched for a line that reports success.
const TAIL: usize = 4096;

/// Detects output that is not a failure: `CMake Warning …` with the indented text below it, and what compilers print in checks
/// of CMake that may fail.
#[derive(Default)]
pub(super) struct IgnoredOutput {
    /// Indentation of the headline while inside a warning.
    indent: Option<usize>,
    /// Whether the output of a failed check follows.
    is_check: bool,
    /// Whether the output of failed checks is examined.
    reads_checks: bool,
}

impl IgnoredOutput {
    /// Ignores warnings only.
    pub(super) fn with_checks() -> Self {
        Self { reads_checks: true, ..Self::default() }
    }

    /// Whether the current line may be ignored because of an earlier one.
    pub(super) fn is_active(&self) -> bool {
        self.indent.is_some() || self.is_check
    }

    /// Whether a line is ignored. Needed only for headlines and while active.
    pub(super) fn covers(&mut self, line: &[u8]) -> bool {
        let line = prefix::without_stamps(line);
        let text = line.trim_ascii_start();
        let indent = line.len() - text.len();
        if text.starts_with(b"CMake Warning") || text.starts_with(b"CMake Deprecation Warning") {
            self.indent = Some(indent);
        } else if !text.is_empty() && self.indent.is_some_and(|headline| indent <= headline) {
            self.indent = None;
        }
        if is_check_headline(text) {
            self.is_check = text::find(text, b"failed with the following output").is_some();
        } else if self.is_check {
            let ends: [&[u8]; 4] = [b"Source file was:", b"-- ", b"CMake Error", b"Checking whether "];
            self.is_check = !ends.iter().any(|end| text.starts_with(end));
        }
        self.indent.is_some() || (self.is_check && !self.reads_checks)
    }
}

/// Detects the text below `CMake Error …`, which CMake indents by two spaces and breaks into lines.
#[derive(Default)]
pub(super) struct ErrorText {
    /// Indentation of the headline while inside a message.
    indent: Option<usize>,
}

impl ErrorText {
    pub(super) fn is_active(&self) -> bool {
        self.indent.is_some()
    }

    /// The indentation of the headline if a line is text of a message. Needed only for headlines and while active.
    pub(super) fn headline_of(&mut self, line: &[u8]) -> Option<usize> {
        let line = prefix::without_stamps(line);
        let text = line.trim_ascii_start();
        let indent = line.len() - text.len();
        if text.starts_with(b"CMake Error") {
            self.indent = Some(indent);
            return None;
        }
        if !text.is_empty() && self.indent.is_some_and(|headline| indent <= headline) {
            self.indent = None;
        }
        self.indent.filter(|headline| indent == headline + 2)
    }
}

pub(super) fn is_check_headline(text: &[u8]) -> bool {
    text.starts_with(b"Determining if ") || text.starts_with(b"Performing C")
}

/// Files that autoconf, distutils and Meson compile to find out what there is. An error in such a file is the result of a check, after
/// which the build goes on or reports what it lacks.
const CHECKED_FILES: [&[u8]; 5] =
    [b"conftest.c", b"conftest.C", b"_configtest.c", b"/testfile.c", b"\\testfile.c"];
/// Those of CuPy, whose names are common, and the temporary folders in which it writes them.
const CUPY_FILES: [&[u8]; 2] = [b"/a.cpp:", b"/a.cu"];
const CUPY_FOLDERS: [&[u8]; 2] = [b"tmp/tmp", b"Temp\\tmp"];

/// Texts of which a line that names such a file has at least one.
pub(super) const CHECKED: [&str; 5] = ["test.c", "test.C", "testfile.c", "/a.cpp:", "/a.cu"];

/// Whether a line is the result of a check: an error in a file that is compiled only to find out what there is.
pub(super) fn is_failed_check(line: &[u8]) -> bool {
    let Some(error) = text::find(line, b"error") else { return false };
    let place = &line[..error];
    let has = |texts: &[&[u8]]| texts.iter().any(|text| text::find(place, text).is_some());
    has(&CHECKED_FILES) || (has(&CUPY_FILES) && has(&CUPY_FOLDERS))
}

/// Whether a line begins with the name of an exception of Java or .NET: `java.lang.RuntimeException: `.
pub(super) fn is_exception(text: &[u8]) -> bool {
    let Some(end) = text::find(text, b": ") else { return false };
    let name = &text[..end];
    !name.contains(&b' ') && name.contains(&b'.') && name.ends_with(b"Exception")
}

/// Whether a program prints a line only for debugging, as it does for everything that it looks for.
pub(super) fn is_debug(line: &[u8]) -> bool {
    let levels: [&[u8]; 4] = [b"level=DEBUG", b"level=debug", b"level=TRACE", b"level=trace"];
    levels.iter().any(|level| text::find(line, level).is_some())
}

/// Texts of lines that report an attempt that failed and after which the program tries another way: JAX lists the backends that its
/// installation does not have, and PyTorch tries the plans of cuDNN one after the other.
pub(super) const ATTEMPTS: [&str; 3] = [
    "Unable to initialize backend 'tpu",
    "Unable to initialize backend 'rocm': NOT_FOUND",
    "UserWarning: Plan failed with a ",
];

/// Whether a line reports such an attempt.
pub(super) fn is_attempt(line: &[u8]) -> bool {
    ATTEMPTS.iter().any(|attempt| text::find(line, attempt.as_bytes()).is_some())
}

/// Whether a program prints a line as an error. `text` is the line without prefixes.
pub(super) fn is_error(text: &[u8], line: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] =
        [b"error", b"Error", b"ERROR", b"fatal", b"Fatal", b"FATAL", b"CRITICAL", b"Critical"];
    const LEVELS: [&[u8]; 10] = [
        b"level=ERROR",
        b"level=error",
        b"[error]",
        b"[ERROR]",
        b"ERROR:",
        b" ERROR ",
        b" FATAL ",
        b" error: ",
        b" Error: ",
        b" Fatal: ",
    ];
    let has = |level: &&[u8]| text::find(line, level).is_some();
    is_exception(text) || STARTS.iter().any(|start| text.starts_with(start)) || LEVELS.iter().any(has)
}

/// Whether a line ends the output of a check that failed, as GCC does for every failure.
pub(super) fn is_end_of_check(line: &[u8]) -> bool {
    text::find(line, b"compilation terminated.").is_some()
}

/// Whether a line is the result of a check that CMake prints without dashes, as its graphical interface does. The same text below
/// `CMake Error` is an error and indented. `text` is the line without time stamps.
pub(super) fn is_check_result(lines: &LogLines, at: usize, text: &[u8]) -> bool {
    let is_result = text.starts_with(b"Could NOT find ");
    let mut before = (0..at).rev().map(|before| lines.line(before).trim_ascii());
    is_result && before.find(|line| !line.is_empty()).is_none_or(|line| !line.starts_with(b"CMake Error"))
}

/// Whether a line is one of the last in the output of a command: soon after it a terminal shows the next command.
pub(super) fn ends_command(lines: &LogLines, at: usize) -> bool {
    let after =
        (at + 1..lines.len()).map(|after| lines.line(after)).filter(|line| !line.trim_ascii().is_empty());
    after.take(AT_THE_END).any(is_prompt)
}

/// Whether a line begins with the prompt of a shell, followed by a command: `$ make`, `(venv) user@host:~$ make`, `PS C:\> make`.
fn is_prompt(line: &[u8]) -> bool {
    /// Maximum length of a prompt in bytes.
    const LONGEST: usize = 120;
    let environment = line.starts_with(b"(").then(|| text::find(line, b") ")).flatten();
    let line = environment.map_or(line, |end| &line[end + 2..]);
    let start = &line[..line.len().min(LONGEST)];
    let find = |text: &[u8]| text::find(start, text);
    let is_windows =
        start.starts_with(b"PS ") || matches!(start, [drive, b':', b'\\', ..] if drive.is_ascii_alphabetic());
    if is_windows {
        return find(b">").is_some_and(|end| end + 1 < line.len());
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"[._-".contains(byte);
    let user = find(b"@").is_some_and(|at| at > 0 && start[..at].iter().all(is_name));
    start.starts_with(b"$ ") || (user && [&b"$ "[..], b"# ", b"% "].iter().any(|end| find(end).is_some()))
}

/// The number of the line near the end of a log with which a build tool reports success. `log` is at least the end of the log,
/// `lines` the number of its lines.
pub(super) fn success(log: &[u8], lines: usize) -> Option<usize> {
    const WORDS: [&[u8]; 14] = [
        b"Generated CDI spec with version",
        b"-- Build files have been written to",
        b"-- Generating done",
        b"Build succeeded",
        b"BUILD SUCCESSFUL",
        b"[100%] Built target",
        b"Finished `",
        b"Finished release",
        b"Finished dev",
        b" 0 Error(s)",
        b"Successfully installed ",
        b"Successfully built ",
        b"Finished processing dependencies for ",
        b"config.status: creating ",
    ];
    let log = log.strip_suffix(b"\n").unwrap_or(log);
    let tail = &log[log.len().saturating_sub(TAIL)..];
    let last = tail.rsplit(|byte| *byte == b'\n').enumerate();
    let mut last = last.filter(|(_, line)| !line.trim_ascii().is_empty()).take(AT_THE_END);
    let found = last.find(|(_, line)| WORDS.iter().any(|word| text::find(line, word).is_some()));
    found.map(|(after, _)| lines.saturating_sub(after))
}

#[cfg(test)]
mod tests {
    use super::is_prompt;

    #[test]
    fn prompts_are_told_from_output() {
        let prompts = [
            "$ make",
            "(base) jovyan@notebook-0:~$ exit",
            "root@9c1f2d0f6b11:/app# python3 main.py",
            "[user@node01 build]$ cmake ..",
            "mario@mac ~ % python3 -c 'import torch'",
            "PS C:\\proj> python train.py",
            "(venv) C:\\proj>python train.py",
        ];
        for prompt in prompts {
            assert!(is_prompt(prompt.as_bytes()), "{prompt}");
        }
        let output = [
            "C:\\proj\\a.cu(3): error: x",
            "npm ERR! some@1.0.0 install: `$ make`",
            "# comment",
            "PS>",
            "@@ -1,3 +1,3 @@ # x",
            "error: package gcc@13.2.0 needs $ORIGIN",
        ];
        for line in output {
            assert!(!is_prompt(line.as_bytes()), "{line}");
        }
    }
}
