//! Extracts literals from a regular expression such that every match contains at least one of them. Lines without any of the
//! literals need not be matched.

use std::iter::Peekable;
use std::str::Chars;

/// Returns literals such that every match contains at least one; `None` if the pattern has no such set.
pub(super) fn literals(pattern: &str) -> Option<Vec<String>> {
    alternatives(&mut pattern.chars().peekable())
}

/// Parses `a|b|c` up to the end or the closing parenthesis. Returns literals for each branch.
fn alternatives(rest: &mut Peekable<Chars<'_>>) -> Option<Vec<String>> {
    let mut all = Some(Vec::new());
    loop {
        let branch = sequence(rest);
        all = all.zip(branch).map(|(mut all, branch)| {
            all.extend(branch);
            all
        });
        if rest.next_if_eq(&'|').is_none() {
            return all;
        }
    }
}

/// Parses one branch. Returns the best of its runs of plain characters and its groups.
fn sequence(rest: &mut Peekable<Chars<'_>>) -> Option<Vec<String>> {
    let mut best: Option<Vec<String>> = None;
    let mut run = String::new();
    while let Some(c) = rest.next_if(|c| !matches!(c, '|' | ')')) {
        let plain = match c {
            '\\' => rest.next().filter(|next| !next.is_ascii_alphanumeric()),
            '.' | '^' | '$' => None,
            '[' => {
                skip_class(rest);
                None
            }
            '(' => {
                let group = group(rest);
                if !is_optional(rest) {
                    best = better(best, group);
                }
                None
            }
            c => Some(c),
        };
        let optional = is_optional(rest);
        let repeated = rest.next_if_eq(&'+').is_some();
        match plain {
            Some(c) if !optional => {
                run.push(c);
                if !repeated {
                    continue;
                }
            }
            _ => {}
        }
        best = better(best, Some(vec![std::mem::take(&mut run)]));
    }
    better(best, Some(vec![run]))
}

/// Parses a group after its opening parenthesis, including the closing one.
fn group(rest: &mut Peekable<Chars<'_>>) -> Option<Vec<String>> {
    let mut folds_case = false;
    if rest.next_if_eq(&'?').is_some() {
        // `(?:`, `(?i:` or `(?<name>`.
        let end = if rest.peek() == Some(&'<') { '>' } else { ':' };
        folds_case = rest.by_ref().take_while(|c| *c != end).any(|c| c == 'i' && end == ':');
    }
    let inner = alternatives(rest);
    rest.next_if_eq(&')');
    inner.filter(|_| !folds_case)
}

/// Parses `?`, `*` or `{…}` after an expression. Returns whether the expression is optional.
fn is_optional(rest: &mut Peekable<Chars<'_>>) -> bool {
    let found = match rest.peek() {
        Some('?' | '*') => rest.next().is_some(),
        Some('{') => rest.by_ref().any(|c| c == '}'),
        _ => false,
    };
    if found {
        // A lazy quantifier, such as `*?`.
        rest.next_if_eq(&'?');
    }
    found
}

/// Skips a character class after its `[`.
fn skip_class(rest: &mut Peekable<Chars<'_>>) {
    rest.next_if_eq(&'^');
    let mut first = true;
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                rest.next();
            }
            ']' if !first => return,
            _ => {}
        }
        first = false;
    }
}

/// Returns the candidate whose shortest literal is longer.
fn better(left: Option<Vec<String>>, right: Option<Vec<String>>) -> Option<Vec<String>> {
    let length = |texts: &Vec<String>| texts.iter().map(String::len).min().unwrap_or(0);
    match (left, right) {
        (Some(left), Some(right)) if length(&left) >= length(&right) => Some(left),
        (_, Some(right)) if length(&right) > 0 => Some(right),
        (left, _) => left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: &[&str]) {
        let found = literals(pattern).unwrap_or_default();
        assert_eq!(found, expected, "{pattern}");
    }

    #[test]
    fn every_match_contains_a_literal() {
        check(r"gcc versions later than (?<max>\d+) are not supported", &["gcc versions later than "]);
        check(r"^a(?:bcdef|ghijkl)xy", &["bcdef", "ghijkl"]);
        check(r"a(?:bcdef|g)xyz", &["xyz"]);
        check(r"colou?r", &["colo"]);
        check(r"file\.c: [^']]+ gone", &["file.c: "]);
        check(r"ab+c", &["ab"]);
        check(r"abc{2,3}d", &["ab"]);
        check(r"one|three", &["one", "three"]);
        check(r"one|\d+", &[]);
        check(r"(?i:error) of it", &[" of it"]);
        check(r"(?:maybe this)?no", &["no"]);
        check(r"(?:maybe this)*?no", &["no"]);
        check(r"\d+\s*", &[]);
        check(r"(a(b)c\))long text", &["long text"]);
        check(r"[^\]x]*tail[]a]b", &["tail"]);
        check(r"(?<symbol>cu(?:Mem|Ctx)\w*)", &["Mem", "Ctx"]);
    }
}
