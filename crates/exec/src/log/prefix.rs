//! Removes time stamps and the prefixes of build tools, CI systems and loggers from lines of a log.

use super::{logger, text};

/// Maximum length of the abbreviated name of a month and the space after it, in bytes.
const LONGEST_MONTH: usize = 13;

/// Returns the message without time stamps and without the prefixes that build tools add to the output of other tools.
pub(super) fn unprefixed(line: &[u8]) -> &[u8] {
    let mut line = line.trim_ascii();
    // Prefixes can be nested: the time of a CI system, the step of a container build, the prefix of a build tool.
    for _ in 0..8 {
        let rest = stamp(line).or_else(|| prefix(line)).or_else(|| logger::prefix(line));
        let Some(rest) = rest else { break };
        line = rest.trim_ascii_start();
    }
    line
}

/// Returns the line without time stamps; other prefixes and the indentation are kept.
pub(super) fn without_stamps(mut line: &[u8]) -> &[u8] {
    for _ in 0..4 {
        let Some(rest) = stamp(line) else { break };
        line = rest;
    }
    line
}

/// Skips a time stamp or the step number of a container build.
fn stamp(line: &[u8]) -> Option<&[u8]> {
    const ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
    match line.first()? {
        b'0'..=b'9' => date(line).or_else(|| clock(line)).or_else(|| seconds(line)),
        b'[' => {
            let rest = &line[1..];
            let rest = date(rest).or_else(|| clock(rest))?;
            rest.strip_prefix(b"]").map(after_space)
        }
        b'#' => {
            let rest = space_or_end(digits(&line[1..])?)?;
            Some(seconds(rest).unwrap_or(rest))
        }
        0xef => line.strip_prefix(ORDER_MARK),
        // `gh run view --log` prints job, step and time separated by tabs.
        _ => {
            let mut tabs = memchr::memchr_iter(b'\t', line);
            let last = &line[tabs.nth(1)? + 1..];
            date(last.strip_prefix(ORDER_MARK).unwrap_or(last))
        }
    }
}

/// Skips `2026-01-01T00:00:00.0000000Z ` and variants with a space, a comma or an offset.
fn date(line: &[u8]) -> Option<&[u8]> {
    let rest = shaped(line, b"dddd-dd-dd")?;
    let rest = rest.strip_prefix(b"T").or_else(|| rest.strip_prefix(b" "))?;
    let rest = shaped(rest, b"dd:dd:dd")?;
    let end =
        rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b',' | b'+' | b':' | b'Z' | b'-'));
    Some(after_space(&rest[end.unwrap_or(rest.len())..]))
}

/// Skips `12:32:13 `.
fn clock(line: &[u8]) -> Option<&[u8]> {
    let rest = shaped(line, b"dd:dd:dd")?;
    let end = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.')).unwrap_or(rest.len());
    let rest = &rest[end..];
    (rest.is_empty() || rest.starts_with(b" ") || rest.starts_with(b"]")).then(|| after_space(rest))
}

/// Skips `21.64 `, as printed by container builds. Nothing follows it if the line was empty.
fn seconds(line: &[u8]) -> Option<&[u8]> {
    space_or_end(digits(digits(line)?.strip_prefix(b".")?)?)
}

/// Skips the prefix of a build tool.
fn prefix(line: &[u8]) -> Option<&[u8]> {
    const STARTS: [&[u8]; 6] =
        [b"= note: ", b"cargo:warning=", b"cargo::warning=", b"##[error]", b"[cmake] ", b"[build] "];
    if let Some(rest) = STARTS.iter().find_map(|start| line.strip_prefix(*start)) {
        return Some(rest);
    }
    match line.first()? {
        b'[' => step(line).or_else(|| rank(line)),
        b'(' => process(line),
        // Quotes in issues.
        b'>' => line.strip_prefix(b"> "),
        b'0'..=b'9' => digits(line)?.strip_prefix(b">").or_else(|| syslog(line)),
        // Box-drawing characters around the output of another tool.
        0xe2 => ["│", "├─▶", "╰─▶"].iter().find_map(|bar| line.strip_prefix(bar.as_bytes())),
        // Errors in reports of pytest.
        b'E' if line.starts_with(b"E   ") => Some(&line[4..]),
        b'A'..=b'Z' => syslog(line),
        _ => crate_name(line).or_else(|| service(line)).or_else(|| syslog(line)),
    }
}

/// Skips `[12/300] ` of Ninja and `[ 27%] ` of Make.
fn step(line: &[u8]) -> Option<&[u8]> {
    let inner = digits(line[1..].trim_ascii_start())?;
    let inner = match inner.strip_prefix(b"/") {
        Some(total) => digits(total)?,
        None => inner.strip_prefix(b"%")?,
    };
    inner.strip_prefix(b"] ")
}

/// Skips `[rank0]: ` of PyTorch and `[1,0]<stderr>:` of Open MPI.
fn rank(line: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = line.strip_prefix(b"[rank") {
        return space_or_end(digits(rest)?.strip_prefix(b"]:")?);
    }
    let rest = digits(digits(&line[1..])?.strip_prefix(b",")?)?.strip_prefix(b"]<std")?;
    [b"err>:", b"out>:"].iter().find_map(|end| rest.strip_prefix(*end))
}

/// Skips `(EngineCore_0 pid=123) ` of vLLM and Ray.
fn process(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b')', &line[..line.len().min(64)])?;
    let is_process = text::find(&line[..end], b"pid=").is_some();
    is_process.then(|| space_or_end(&line[end + 1..]))?
}

/// Skips `Mar 09 21:00:13 host program[123]: ` of the system's log, with the month in any language: `juin`, `1月`.
fn syslog(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b' ', &line[..line.len().min(LONGEST_MONTH)])?;
    let (month, rest) = line.split_at(end);
    let is_month = month.iter().any(|byte| !byte.is_ascii_digit())
        && month.iter().all(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    let rest = is_month.then(|| digits(rest.trim_ascii_start()))??.strip_prefix(b" ")?;
    let rest = shaped(rest, b"dd:dd:dd")?.strip_prefix(b" ")?;
    let host = memchr::memchr(b' ', rest)?;
    let rest = &rest[host + 1..];
    let end = text::find(&rest[..rest.len().min(64)], b": ")?;
    (!rest[..end].contains(&b' ')).then(|| &rest[end + 2..])
}

/// Skips `warning: name@1.2.3: `, which cargo prints before the output of a build script.
fn crate_name(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"warning: ")?;
    let end = text::find(rest, b": ")?;
    let name = &rest[..end];
    let is_crate = name.contains(&b'@') && !name.contains(&b' ') && !name.contains(&b'/');
    is_crate.then(|| &rest[end + 2..])
}

/// Skips `service-1  | ` of Docker Compose.
fn service(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().position(|byte| !matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'))?;
    let rest = line[end..].trim_ascii_start();
    (end > 0 && line[end] == b' ').then(|| space_or_end(rest.strip_prefix(b"|")?))?
}

/// Skips a space. `None` if other text follows.
fn space_or_end(line: &[u8]) -> Option<&[u8]> {
    if line.is_empty() { Some(line) } else { line.strip_prefix(b" ") }
}

fn after_space(line: &[u8]) -> &[u8] {
    line.strip_prefix(b" ").unwrap_or(line)
}

/// Skips one or more digits.
pub(super) fn digits(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(line.len());
    (end > 0).then(|| &line[end..])
}

/// Skips text of a given shape, in which `d` stands for a digit.
pub(super) fn shaped<'a>(line: &'a [u8], shape: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = line.split_at_checked(shape.len())?;
    let fits = |(byte, wanted): (&u8, &u8)| {
        if *wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted }
    };
    start.iter().zip(shape).all(fits).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let plain = super::super::clean::plain(line.as_bytes());
        assert_eq!(String::from_utf8_lossy(unprefixed(&plain)), expected, "{line:?}");
    }

    #[test]
    fn ci_prefixes_are_removed() {
        check("2026-01-01T00:00:00.0000000Z nvcc fatal : no", "nvcc fatal : no");
        check("2026-01-01T00:00:00.0000000Z ##[error]nvcc fatal : no", "nvcc fatal : no");
        check("build\tCompile\t2026-01-01T00:00:00.0000000Z nvcc fatal : no", "nvcc fatal : no");
        check("\u{feff}2026-01-01T00:00:00.0000000Z a", "a");
        check("12:32:13   CMake Error at x", "CMake Error at x");
        check("[2026-01-01T00:00:00.000Z] a", "a");
        check("[2025-09-16 19:22:33,441] a", "a");
        check("#12 21.64 nvcc fatal", "nvcc fatal");
        check("21.64 nvcc fatal", "nvcc fatal");
        check("app-1  | a", "a");
        check("#12 21.64 ", "");
        check("#12 ", "");
        check("app-1  |", "");
        check("section_end:1:x\r\u{1b}[0Ka", "a");
    }

    #[test]
    fn prefixes_of_processes_are_removed() {
        check("[rank0]: RuntimeError: no", "RuntimeError: no");
        check("[1,12]<stderr>:RuntimeError: no", "RuntimeError: no");
        check("(EngineCore_0 pid=123) RuntimeError: no", "RuntimeError: no");
        check("(EngineCore_0 pid=123) ", "");
        check("(no process) a", "(no process) a");
        check("Mar 09 21:00:13 host ollama[98459]: no GPU", "no GPU");
        check("Mar 9 21:00:13 host kernel: no GPU", "no GPU");
        check("1月 10 22:38:05 host ollama[1]: no GPU", "no GPU");
        check("mar 15 11:39:07 host ollama[1]: no GPU", "no GPU");
        check("Mar was here", "Mar was here");
        check("E   RuntimeError: no", "RuntimeError: no");
        check("> > quoted", "quoted");
    }

    #[test]
    fn build_tool_prefixes_are_removed() {
        check("[12/300] ld: no", "ld: no");
        check("[ 27%] ld: no", "ld: no");
        check("12>LINK : fatal error", "LINK : fatal error");
        check("  = note: /usr/bin/ld: no", "/usr/bin/ld: no");
        check("warning: blst@0.3.1: a.c:1:2: error: no", "a.c:1:2: error: no");
        check("warning: unused variable", "warning: unused variable");
        check("│ │ error: no", "error: no");
        check("  139 | #error -- unsupported", "139 | #error -- unsupported");
        check("12.2.0 is the version", "12.2.0 is the version");
        check("", "");
    }
}
