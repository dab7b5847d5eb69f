//! Finds random-looking text, except hexadecimal hashes, UUIDs, paths and base32 names of package stores.

use super::{FoundSecret, SecretKind};

/// Minimum length of random text with characters of three classes.
const MIN_LENGTH: usize = 20;
/// Minimum length of random text with characters of two classes.
const MIN_LENGTH_TWO_CLASSES: usize = 32;
/// Minimum number of changes between lowercase, uppercase and digits per hundred characters. Random base64 has about 62 changes,
/// words and mangled names have fewer than 35.
const MIN_CHANGES: usize = 38;

#[derive(Default)]
struct Classes {
    lower: usize,
    upper: usize,
    digits: usize,
    changes: usize,
}

impl Classes {
    fn of(text: &str) -> Self {
        let mut classes = Self::default();
        let mut before = 0;
        for byte in text.bytes() {
            let class = match byte {
                b'a'..=b'z' => 1,
                b'A'..=b'Z' => 2,
                b'0'..=b'9' => 3,
                _ => 0,
            };
            match class {
                1 => classes.lower += 1,
                2 => classes.upper += 1,
                3 => classes.digits += 1,
                _ => {}
            }
            classes.changes += usize::from(class != 0 && before != 0 && class != before);
            before = class;
        }
        classes
    }

    fn count(&self) -> usize {
        self.lower + self.upper + self.digits
    }

    fn is_mixed(&self) -> bool {
        self.changes * 100 >= MIN_CHANGES * self.count()
    }
}

pub(super) fn random(text: &str, found: &mut Vec<FoundSecret>) {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/');
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let length = bytes[start..].iter().position(|byte| !is_part(*byte)).unwrap_or(bytes.len() - start);
        if length >= MIN_LENGTH {
            let run = &text[start..start + length];
            // Both base64 and paths contain slashes, but a path starts with one or contains words.
            if is_random_base64(run) && !is_hash_before(&text[..start]) {
                let padding = bytes[start + length..].iter().take_while(|byte| **byte == b'=').count();
                found.push(FoundSecret { start, end: start + length + padding, kind: SecretKind::Entropy });
            } else {
                pieces(text, start, run, found);
            }
        }
        start += length + 1;
    }
}

fn pieces(text: &str, start: usize, run: &str, found: &mut Vec<FoundSecret>) {
    let mut at = start;
    for piece in run.split('/') {
        if piece.len() >= MIN_LENGTH
            && is_random(piece)
            && !is_hash_before(&text[..at])
            && !is_in_path(text, at)
        {
            let end = at + piece.len();
            let padding = text[end..].bytes().take_while(|byte| *byte == b'=').count();
            found.push(FoundSecret { start: at, end: end + padding, kind: SecretKind::Entropy });
        }
        at += piece.len() + 1;
    }
}

/// Whether a file or folder name begins at `at`, except in a URL.
fn is_in_path(text: &str, at: usize) -> bool {
    let before = &text[..at];
    if !before.ends_with(['/', '\\']) {
        return false;
    }
    let word = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '=' | ',' | ';')).next();
    word.is_some_and(|word| !word.contains("://"))
}

/// Whether `before` ends with the prefix of a base64 hash, such as `sha256-`.
fn is_hash_before(before: &str) -> bool {
    let word = before.trim_end_matches(['-', ':', '=']);
    word.len() < before.len()
        && ["sha1", "sha256", "sha384", "sha512", "SHA256", "md5"].iter().any(|name| word.ends_with(name))
}

fn is_random_base64(run: &str) -> bool {
    let classes = Classes::of(run);
    let longest_word = run.split(|c: char| !c.is_ascii_lowercase()).map(str::len).max().unwrap_or_default();
    run.len() >= MIN_LENGTH_TWO_CLASSES
        && run.contains('/')
        && !run.starts_with('/')
        && !run.contains(['_', '-'])
        && classes.lower.min(classes.upper).min(classes.digits) >= 2
        && classes.is_mixed()
        && longest_word <= 5
}

fn is_random(piece: &str) -> bool {
    let is_hash =
        ["sha1-", "sha256-", "sha384-", "sha512-", "md5-"].iter().any(|name| piece.starts_with(name));
    let is_plain = |part: &str| part.len() < 5 || part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash || piece.split(['-', '_']).all(is_plain) {
        return false;
    }
    let parts = piece.split(['-', '_', '+']).filter(|part| part.len() >= MIN_LENGTH && *part != piece);
    std::iter::once(piece).chain(parts).any(|part| {
        let classes = Classes::of(part);
        let of_three = classes.lower.min(classes.upper).min(classes.digits) >= 2;
        let of_two = classes.digits >= 4
            && part.len() >= MIN_LENGTH_TWO_CLASSES
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && part.bytes().any(|byte| !byte.is_ascii_hexdigit());
        classes.count() >= MIN_LENGTH && (of_three || of_two) && classes.is_mixed()
    })
}

/// Whether the value of an assignment with a weak name looks like a secret.
pub(super) fn looks_secret(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    let digit = has(u8::is_ascii_digit);
    let (lower, upper) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    let is_version = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_word = value.contains(['/', '.', '-', '_', ' ', '\\', ':']);
    // A function call in a script: `key = call()`.
    let is_call = value.contains('(');
    value.len() >= 6
        && !is_call
        && !is_path(value)
        && !is_version
        && ((digit && (lower || upper))
            || (value.len() >= 12 && lower && upper)
            || (value.len() >= 20 && !is_word))
}

/// Whether a value is unusual enough to search for it in other texts.
pub(super) fn is_distinct(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|byte| test(&byte));
    let digit = has(u8::is_ascii_digit);
    let letter = has(u8::is_ascii_alphabetic);
    let mark = value.bytes().any(|byte| byte.is_ascii_punctuation());
    value.len() >= 8 && !is_path(value) && letter && (digit || mark || value.len() >= 16)
}

pub(super) fn is_path(value: &str) -> bool {
    let drive = value.as_bytes().get(1..3).is_some_and(|start| start == b":\\" || start == b":/");
    drive || ["/", "./", "../", "~", "\\\\", "unix:"].iter().any(|start| value.starts_with(start))
}
