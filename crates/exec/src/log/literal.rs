//! Extracts literals from a regular expression: sets of which every match contains at least one literal each. A line without a
//! literal of one of the sets need not be matched.

use std::iter::Peekable;
use std::str::Chars;

/// Returns the set whose shortest literal is longest; empty if the pattern has no set.
pub(super) fn best(sets: Vec<Vec<String>>) -> Vec<String> {
    let length = |texts: &Vec<String>| texts.iter().map(String::len).min().unwrap_or(0);
    // The first of equally good sets.
    sets.into_iter().rev().max_by_key(length).unwrap_or_default()
}

/// Returns sets of literals such that every match contains at least one literal of each.
pub(super) fn required(pattern: &str) -> Vec<Vec<String>> {
    alternatives(&mut pattern.chars().peekable())
}

/// Parses `a|b|c` up to the end or the closing parenthesis. Of several branches, returns the union of the best set of each.
fn alternatives(rest: &mut Peekable<Chars<'_>>) -> Vec<Vec<String>> {
    let first = sequence(rest);
    if rest.peek() != Some(&'|') {
        return first;
    }
    let mut branches = vec![best(first)];
    while rest.next_if_eq(&'|').is_some() {
        branches.push(best(sequence(rest)));
    }
    if branches.iter().any(Vec::is_empty) { Vec::new() } else { vec![branches.concat()] }
}

/// Parses one branch. Returns its runs of plain characters and the sets of its groups.
fn sequence(rest: &mut Peekable<Chars<'_>>) -> Vec<Vec<String>> {
    let mut sets = Vec::new();
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
                    sets.extend(group);
                }
                None
            }
            c => Some(c),
        };
        let optional = is_optional(rest);
        let repeated = rest.next_if_eq(&'+').is_some();
        if repeated {
            // A lazy quantifier, such as `+?`.
            rest.next_if_eq(&'?');
        }
        if let Some(c) = plain.filter(|_| !optional) {
            run.push(c);
            if !repeated {
                continue;
            }
        }
        sets.push(vec![std::mem::take(&mut run)]);
    }
    sets.push(vec![run]);
    sets.retain(|set| set.iter().all(|literal| !literal.is_empty()));
    sets
}

/// Parses a group after its opening parenthesis, including the closing one.
fn group(rest: &mut Peekable<Chars<'_>>) -> Vec<Vec<String>> {
    let mut folds_case = false;
    if rest.next_if_eq(&'?').is_some() {
        // `(?:`, `(?i:` or `(?<name>`.
        let end = if rest.peek() == Some(&'<') { '>' } else { ':' };
        folds_case = rest.by_ref().take_while(|c| *c != end).any(|c| c == 'i' && end == ':');
    }
    let inner = alternatives(rest);
    rest.next_if_eq(&')');
    if folds_case { Vec::new() } else { inner }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: &[&str]) {
        assert_eq!(best(required(pattern)), expected, "{pattern}");
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
        check(r"a.+?bc", &["bc"]);
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

    #[test]
    fn every_match_contains_a_literal_of_each_set() {
        let sets = required(r"^ab(?:cd|ef(?:gh)+)[xy]ij+k(?:l|\d)(?<name>m.n)?o\.p");
        assert_eq!(sets, [vec!["cd", "gh"], vec!["ab"], vec!["ij"], vec!["k"], vec!["o.p"]]);
    }
}
