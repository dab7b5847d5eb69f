//! Finds the error and its cause in the output of uv and pip.

use gpubuild_host::CommandOutput;

/// Why wheels were not installed, derived from the installer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipCause {
    /// A file does not have the pinned hash.
    Hash,
    /// A file is not a complete wheel.
    Damaged,
    /// The index did not respond, or the connection failed.
    Network,
    /// Neither the index nor the wheel folders have the file.
    NotFound,
    /// The disk is full.
    Space,
    /// A folder is not writable.
    ReadOnly,
    /// Any other cause.
    Other,
}

/// Lowercase text by cause. Earlier causes take precedence: for example, an interrupted download may also be reported as a
/// hash mismatch.
const WORDS: &[(PipCause, &[&str])] = &[
    (PipCause::Space, &["no space left", "os error 28", "errno 28", "not enough space", "disk quota"]),
    (
        PipCause::ReadOnly,
        &["read-only file system", "permission denied", "os error 30", "errno 30", "access is denied"],
    ),
    (
        PipCause::Network,
        &[
            "error sending request",
            "connection refused",
            "connection reset",
            "connection broken",
            "newconnectionerror",
            "failed to establish a new connection",
            "incompleteread",
            "incomplete download",
            "error decoding response body",
            "end of file before message length",
            "read timed out",
            "operation timed out",
            "timed out",
            "name resolution",
            "dns error",
            "network is unreachable",
            "proxyerror",
            "sslerror",
            "ssl: certificate",
            "invalid peer certificate",
            "http status server error",
            "http status client error",
        ],
    ),
    (PipCause::Hash, &["do not match the hashes", "hash mismatch", "hashes did not match", "hash-checking"]),
    (
        PipCause::Damaged,
        &[
            "badzipfile",
            "bad zip",
            "not a zip file",
            "is invalid",
            "failed to extract",
            "failed to unzip",
            "unable to locate the end of central directory",
            "unexpected end of file",
            "truncated",
            "corrupt",
        ],
    ),
    (
        PipCause::NotFound,
        &[
            "no matching distribution",
            "could not find a version that satisfies",
            "was not found in",
            "not found in the cache",
            "not found in the package registry",
            "no solution found",
            "network connectivity is disabled",
            "no compatible",
            "there is no version of",
        ],
    ),
];

/// Returns the cause of a failed installation.
#[must_use]
pub fn cause(output: &CommandOutput) -> PipCause {
    let text = format!("{}\n{}", output.stderr, output.stdout).to_lowercase();
    let found = WORDS.iter().find(|(_, words)| words.iter().any(|word| text.contains(word)));
    found.map_or(PipCause::Other, |(cause, _)| *cause)
}

/// Returns the last error lines (at most three), joined by `; `.
#[must_use]
pub fn error_summary(output: &CommandOutput) -> String {
    // An error that pip did not expect.
    if let Some((_, traceback)) =
        output.stderr.split_once("ERROR: Exception:\nTraceback (most recent call last):")
        && let Some(last) = traceback.lines().rfind(|line| line.starts_with(|c: char| c.is_alphabetic()))
    {
        return last.trim().to_owned();
    }
    let lines: Vec<&str> = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error =
        |line: &&str| line.to_ascii_lowercase().contains("error") || line.starts_with(['×', '├', '╰']);
    let errors: Vec<&str> = lines.iter().copied().filter(is_error).collect();
    let relevant = if errors.is_empty() { &lines } else { &errors };
    let last: Vec<&str> = relevant.iter().rev().take(3).rev().copied().collect();
    last.iter()
        .map(|line| line.trim_start_matches(['×', '├', '╰', '─', '▶', ' ']))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stderr: &str) -> CommandOutput {
        CommandOutput { stderr: stderr.to_owned(), ..CommandOutput::default() }
    }

    #[test]
    fn error_lines_are_summarised() {
        let pip = output("Looking in indexes\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES\nsome text\n");
        assert_eq!(error_summary(&pip), "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES");
        let unexpected = output(
            "ERROR: Exception:\nTraceback (most recent call last):\n  File \"x.py\", line 1, in run\n    raise Error\nzipfile.BadZipFile: Bad CRC-32 for file 'a'\n",
        );
        assert_eq!(error_summary(&unexpected), "zipfile.BadZipFile: Bad CRC-32 for file 'a'");
        let uv =
            output("  × Failed to download `a==1`\n  ├─▶ Failed to fetch: `x`\n  ╰─▶ tcp connect error\n");
        assert_eq!(error_summary(&uv), "Failed to download `a==1`; Failed to fetch: `x`; tcp connect error");
    }

    #[test]
    fn causes_are_derived_from_output() {
        for (text, expected) in [
            ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", PipCause::Hash),
            ("× Failed to read `a`\n├─▶ Hash mismatch for `a`", PipCause::Hash),
            (
                "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
                PipCause::Space,
            ),
            (
                "error: failed to create directory `/c`: Read-only file system (os error 30)",
                PipCause::ReadOnly,
            ),
            ("ERROR: No matching distribution found for a==1", PipCause::NotFound),
            (
                "WARNING: Retrying ... NewConnectionError('...: Connection refused')\nERROR: No matching distribution found for a==1",
                PipCause::Network,
            ),
            ("error sending request for url (x)\n╰─▶ tcp connect error", PipCause::Network),
            ("zipfile.BadZipFile: File is not a zip file", PipCause::Damaged),
            ("something else", PipCause::Other),
        ] {
            assert_eq!(cause(&output(text)), expected, "{text}");
        }
    }
}
