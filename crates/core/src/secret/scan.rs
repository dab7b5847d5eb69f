//! Finds secrets by the text before them: names, authentication schemes, URLs.

use super::entropy::looks_secret;
use super::name::{Strength, strength};
use super::{FoundSecret, MARK, SecretKind};

/// Values that are not secret because they only mean on, off or unknown.
const TRIVIAL: [&str; 14] = [
    "on", "off", "true", "false", "yes", "no", "none", "null", "auto", "default", "string", "required",
    "optional", "unset",
];
/// Types of CMake cache entries: `-DAPI_KEY:STRING=x`.
const TYPES: [&str; 7] = ["STRING", "BOOL", "PATH", "FILEPATH", "INTERNAL", "STATIC", "UNINITIALIZED"];

const QUOTES: [u8; 3] = [b'"', b'\'', b'`'];

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Finds the values of `NAME=value`, `name: value`, `"name": "value"`, `-DNAME:STRING=value`, `?name=value`.
pub(super) fn assignments(text: &str, found: &mut Vec<FoundSecret>) {
    let bytes = text.as_bytes();
    for at in memchr::memchr2_iter(b'=', b':', bytes) {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let is_colon = bytes[at] == b':';
        // Skip scopes, URLs, `:=` (found at its second character) and comparisons.
        if next == b'=' || (is_colon && matches!(next, b':' | b'/')) {
            continue;
        }
        let Some(name) = name_before(text, at) else { continue };
        let typed = is_colon
            && TYPES
                .iter()
                .any(|kind| text[at + 1..].strip_prefix(kind).is_some_and(|rest| rest.starts_with('=')));
        let in_path = name.start > 0 && matches!(bytes[name.start - 1], b'/') && is_colon;
        if typed || in_path {
            continue;
        }
        let Some(strength) = strength(&text[name.start..name.end]) else { continue };
        let mut start = at + 1;
        if next == b'>' {
            start += 1;
        }
        let spaces = bytes[start..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if is_colon || name.spaced || next == b'>' {
            start += spaces;
        }
        let is_prose = is_colon && !name.quoted;
        let is_cookie = text[name.start..name.end].to_ascii_lowercase().ends_with("cookie");
        let (start, end) = value(text, start, name.opened_by, is_cookie);
        if is_secret(&text[start..end], strength, is_prose) {
            found.push(FoundSecret { start, end, kind: SecretKind::Name });
        }
    }
}

struct Name {
    start: usize,
    end: usize,
    /// Whether there are spaces between it and the `=` or `:`.
    spaced: bool,
    /// Whether it ends with a quote.
    quoted: bool,
    /// The quote before the name, which also ends its value.
    opened_by: Option<u8>,
}

fn name_before(text: &str, at: usize) -> Option<Name> {
    let bytes = text.as_bytes();
    let mut end = at;
    let back = |end: &mut usize, test: &dyn Fn(u8) -> bool| {
        let before = *end;
        while *end > 0 && test(bytes[*end - 1]) && before - *end < 4 {
            *end -= 1;
        }
        before != *end
    };
    // The `:=` of make.
    if end > 0 && bytes[end - 1] == b':' {
        end -= 1;
    }
    let spaced = back(&mut end, &|byte| byte == b' ');
    let quoted = back(&mut end, &|byte| QUOTES.contains(&byte) || matches!(byte, b'\\' | b']'));
    let mut start = end;
    while start > 0 && is_name(bytes[start - 1]) {
        start -= 1;
    }
    if start > 1 && bytes[start - 1] == b':' && TYPES.contains(&&text[start..end]) {
        end = start - 1;
        start = end;
        while start > 0 && is_name(bytes[start - 1]) {
            start -= 1;
        }
    }
    let opened_by = (!quoted && start > 0)
        .then(|| bytes[start - 1])
        .filter(|byte| QUOTES.contains(byte))
        // An escaped quote ends at the next escaped quote.
        .filter(|_| start < 2 || bytes[start - 2] != b'\\');
    (start < end).then_some(Name { start, end, spaced, quoted, opened_by })
}

/// The byte range of the value that starts at `start`.
fn value(text: &str, start: usize, opened_by: Option<u8>, to_end_of_line: bool) -> (usize, usize) {
    let rest = &text[start..];
    let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    let line = rest.find(['\n', '\r']).unwrap_or(rest.len());
    if let Some(quote) = rest.as_bytes().get(slashes).filter(|byte| QUOTES.contains(byte)) {
        let inside = start + slashes + 1;
        let closing = closing(&text[inside..], *quote, slashes);
        return (inside, closing.map_or(start + line.max(slashes + 1), |length| inside + length));
    }
    if let Some(quote) = opened_by
        && let Some(length) = closing(rest, quote, 0)
    {
        return (start, start + length.min(line));
    }
    let stops = |c: char| {
        (c.is_whitespace() && !to_end_of_line)
            || matches!(c, '\n' | '\r')
            || (c.is_ascii() && QUOTES.contains(&u8::try_from(c).unwrap_or_default()))
    };
    let mut length = rest.find(stops).unwrap_or(rest.len());
    let word = rest[..length].to_ascii_lowercase();
    if ["bearer", "basic", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"]
        .contains(&word.as_str())
    {
        let more = &rest[length..];
        let gap = more.len() - more.trim_start_matches(' ').len();
        length += gap + more[gap..].find(stops).unwrap_or(more.len() - gap);
    }
    if !to_end_of_line {
        length = before_next(&rest[..length]);
    }
    let kept = rest[..length].trim_end_matches([',', ';', ')', '}', ']', '\\']);
    if rest.starts_with(MARK) { (start, start) } else { (start, start + kept.len()) }
}

/// The position of the closing quote: a quote after as many backslashes as the opening one has.
fn closing(text: &str, quote: u8, slashes: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(quote, bytes).find_map(|at| {
        let before = bytes[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        (before == slashes || (slashes > 0 && before < slashes)).then_some(at - before)
    })
}

/// The length of a value up to the next assignment in the list: `a=1&b=2`, `a=1;b=2`, `a=1,b=2`.
fn before_next(value: &str) -> usize {
    let separators = value.match_indices(['&', ';', ',']).map(|(at, _)| at);
    let begins = |at: &usize| {
        let rest = &value[at + 1..];
        let name = rest.bytes().take_while(|byte| is_name(*byte)).count();
        name > 0 && matches!(rest.as_bytes().get(name), Some(b'=' | b':'))
    };
    separators.into_iter().find(begins).unwrap_or(value.len())
}

fn is_secret(value: &str, strength: Strength, is_prose: bool) -> bool {
    let is_reference = value.starts_with('$')
        && value[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '{' | '(' | '_'));
    let is_template = value.starts_with("{{") || value.starts_with('<') || value.starts_with(MARK);
    let is_windows_reference = value.len() > 2 && value.starts_with('%') && value.ends_with('%');
    let is_small_number = value.len() < 6 && value.bytes().all(|byte| byte.is_ascii_digit());
    let is_trivial = TRIVIAL.iter().any(|word| value.eq_ignore_ascii_case(word));
    if is_reference || is_template || is_windows_reference || is_small_number || is_trivial {
        return false;
    }
    match strength {
        Strength::Strong if is_prose => value.len() >= 6 && !value.starts_with(['/', '\\']),
        Strength::Strong => value.len() >= 4,
        Strength::Weak => looks_secret(value),
    }
}

/// Finds the values of `--password value` and `-u user:password`.
pub(super) fn options(text: &str, found: &mut Vec<FoundSecret>) {
    let bytes = text.as_bytes();
    for at in memchr::memchr_iter(b'-', bytes) {
        if at > 0 && !bytes[at - 1].is_ascii_whitespace() && !QUOTES.contains(&bytes[at - 1]) {
            continue;
        }
        let length = bytes[at..].iter().take_while(|byte| is_name(**byte)).count();
        let name = &text[at..at + length];
        let rest = &text[at + length..];
        let gap = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        if gap == 0 || rest[gap..].starts_with('-') {
            continue;
        }
        let (start, end) = value(text, at + length + gap, None, false);
        let word = &text[start..end];
        if is_secret_argument(name, word) {
            found.push(FoundSecret { start, end, kind: SecretKind::Name });
        }
    }
}

/// Whether the argument after an option is secret.
pub(super) fn is_secret_argument(option: &str, argument: &str) -> bool {
    if ["-u", "--user", "--proxy-user"].contains(&option) {
        let password = argument.split_once(':').map(|(_, password)| password);
        return password.is_some_and(|password| {
            password.bytes().any(|byte| !byte.is_ascii_digit()) && !password.starts_with("//")
        });
    }
    option.starts_with("--")
        && !argument.starts_with('-')
        && strength(option).is_some_and(|strength| is_secret(argument, strength, false))
}

/// Finds credentials after `Bearer` and other authentication schemes.
pub(super) fn schemes(text: &str, lower: &str, found: &mut Vec<FoundSecret>) {
    let bytes = text.as_bytes();
    for scheme in ["bearer", "basic", "token", "digest", "negotiate", "apikey"] {
        for at in memchr::memmem::find_iter(lower.as_bytes(), scheme) {
            let start = at + scheme.len();
            let is_inside = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
            let gap = bytes[start..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let encoded = if lower[start..].starts_with("%20") { 3 } else { gap };
            if is_inside || encoded == 0 {
                continue;
            }
            let start = start + encoded;
            let is_part = |byte: &&u8| {
                byte.is_ascii_alphanumeric()
                    || matches!(byte, b'.' | b'_' | b'~' | b'+' | b'/' | b'=' | b':' | b'-')
            };
            let end = start + bytes[start..].iter().take_while(is_part).count();
            let value = &text[start..end];
            let is_secret = match scheme {
                "bearer" => value.len() >= 8 || (value.len() >= 6 && looks_secret(value)),
                _ => value.len() >= 12 && looks_secret(value),
            };
            if is_secret {
                found.push(FoundSecret { start, end, kind: SecretKind::Scheme });
            }
        }
    }
}

/// Finds `user:password` in URLs and in `user:password@host`.
pub(super) fn user_info(text: &str, found: &mut Vec<FoundSecret>) {
    let bytes = text.as_bytes();
    let ends = |byte: u8| byte.is_ascii_whitespace() || QUOTES.contains(&byte) || matches!(byte, b'<' | b'>');
    for at in memchr::memmem::find_iter(bytes, "://") {
        let start = at + 3;
        let run = bytes[start..].iter().position(|byte| ends(*byte)).unwrap_or(bytes.len() - start);
        let run = &text[start..start + run];
        let authority = run.find(['/', '?', '#']).unwrap_or(run.len());
        let port = run[..authority].rsplit_once(':').map(|(_, port)| port);
        let has_password = port.is_some_and(|port| port.bytes().any(|byte| !byte.is_ascii_digit()));
        let end = match run[..authority].rfind('@') {
            None if has_password && !run.starts_with('[') => run.find('@'),
            end => end,
        };
        let Some(end) = end else { continue };
        if !run.starts_with(MARK) && &run[..end] != "git" {
            found.push(FoundSecret { start, end: start + end, kind: SecretKind::UserInfo });
        }
    }
    for at in memchr::memchr_iter(b'@', bytes) {
        let is_part = |byte: u8| !ends(byte) && !matches!(byte, b'/' | b'=' | b',' | b';');
        let start = at - bytes[..at].iter().rev().take_while(|byte| is_part(**byte)).count();
        let host: &str = &text[at + 1..];
        let host = &host[..host.bytes().take_while(|byte| is_name(*byte)).count()];
        let Some((user, password)) = text[start..at].split_once(':') else { continue };
        let is_host = host.contains('.') && host.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_host && !user.is_empty() && looks_secret(password) {
            found.push(FoundSecret { start, end: at, kind: SecretKind::UserInfo });
        }
    }
}

/// Finds logins and passwords in netrc files. `login NAME password PASSWORD` in a hint is neither.
pub(super) fn netrc(text: &str, lower: &str, found: &mut Vec<FoundSecret>) {
    if memchr::memmem::find(lower.as_bytes(), b"login ").is_none() {
        return;
    }
    for word in ["login", "account", "password"] {
        for (at, _) in lower.match_indices(word) {
            let is_inside = at > 0 && !text.as_bytes()[at - 1].is_ascii_whitespace();
            let start = at + word.len();
            let gap = text[start..].len() - text[start..].trim_start_matches([' ', '\t', '\n']).len();
            let rest = &text[start + gap..];
            let end = start + gap + rest.find(char::is_whitespace).unwrap_or(rest.len());
            let in_netrc = lower[..at].rsplit("machine ").next().is_some_and(|since| since.len() < 400)
                && (lower[..at].contains("machine ") || lower[..at].contains("default "));
            let value = &text[start + gap..end];
            let is_placeholder = matches!(value.trim_end_matches('`'), "NAME" | "PASSWORD");
            if !is_inside && gap > 0 && in_netrc && !value.starts_with(MARK) && !is_placeholder {
                found.push(FoundSecret { start: start + gap, end, kind: SecretKind::Name });
            }
        }
    }
}
