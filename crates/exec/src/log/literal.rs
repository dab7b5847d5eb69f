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

/// Returns sets of literals such that every match contains at least one literal of each. With `joins`, neighbouring parts of the pattern
/// become one literal, for each combination of their alternatives.
pub(super) fn required(pattern: &str, joins: bool) -> Vec<Vec<String>> {
    alternatives(&mut pattern.chars().peekable(), joins).sets
}

/// Maximum number of literals that are made of neighbouring parts.
const JOINED: usize = 16;

/// What a part of a pattern matches.
#[derive(Default)]
struct RequiredText {
    /// Every match contains at least one literal of each set.
    sets: Vec<Vec<String>>,
    /// All texts that the part matches, if they are few.
    exact: Option<Vec<String>>,
}

/// How often an expression may occur.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurrence {
    Once,
    /// `+`: its text is followed by more of the same.
    AtLeastOnce,
    /// `?`
    AtMostOnce,
    /// `*` and `{…}`
    Unknown,
}

/// Parses `a|b|c` up to the end or the closing parenthesis. Of several branches, returns the union of the best set of each.
fn alternatives(rest: &mut Peekable<Chars<'_>>, joins: bool) -> RequiredText {
    let mut branches = vec![sequence(rest, joins)];
    while rest.next_if_eq(&'|').is_some() {
        branches.push(sequence(rest, joins));
    }
    if let [_] = &branches[..] {
        return branches.pop().unwrap_or_default();
    }
    let exact: Option<Vec<Vec<String>>> = branches.iter().map(|branch| branch.exact.clone()).collect();
    let exact = exact.map(|texts| texts.concat()).filter(|texts| texts.len() <= JOINED);
    let sets: Vec<Vec<String>> = branches.into_iter().map(|branch| best(branch.sets)).collect();
    let is_known = !sets.iter().any(Vec::is_empty);
    RequiredText { sets: if is_known { vec![shortest(sets.concat())] } else { Vec::new() }, exact }
}

/// The sequence of a branch while it is parsed.
struct LiteralRun {
    sets: Vec<Vec<String>>,
    /// The texts of the last parts, which follow each other.
    texts: Vec<String>,
    /// Whether all parts so far are in `texts`.
    is_exact: bool,
}

impl LiteralRun {
    /// Continues all texts with a character.
    fn push(&mut self, c: char) {
        for text in &mut self.texts {
            text.push(c);
        }
    }

    /// Continues all texts with one of several. Returns whether they are few enough.
    fn join(&mut self, next: &[String]) -> bool {
        let fits = next.len() == 1 || self.texts.len() * next.len() <= JOINED;
        if fits {
            let pairs = self
                .texts
                .iter()
                .flat_map(|text| next.iter().map(move |next| [text.as_str(), next.as_str()]));
            self.texts = pairs.map(|pair| pair.concat()).collect();
        }
        fits
    }

    /// Ends the texts, because unknown text follows.
    fn end(&mut self) {
        let texts = std::mem::replace(&mut self.texts, vec![String::new()]);
        if !texts.iter().any(String::is_empty) {
            self.sets.push(shortest(texts));
        }
        self.is_exact = false;
    }

    /// Adds a part of the pattern.
    fn add(&mut self, part: RequiredText, occurrence: Occurrence, joins: bool) {
        match (occurrence, part.exact.filter(|_| joins)) {
            (Occurrence::Once, Some(texts)) => {
                if !self.join(&texts) {
                    self.end();
                    self.texts = texts;
                }
            }
            (Occurrence::AtMostOnce, Some(mut texts)) => {
                texts.insert(0, String::new());
                if !self.join(&texts) {
                    self.end();
                }
            }
            (Occurrence::AtLeastOnce, Some(texts)) if self.join(&texts) => self.end(),
            (Occurrence::Once | Occurrence::AtLeastOnce, _) => {
                self.end();
                self.sets.extend(part.sets);
            }
            (Occurrence::AtMostOnce | Occurrence::Unknown, _) => self.end(),
        }
    }
}

/// Parses one branch.
fn sequence(rest: &mut Peekable<Chars<'_>>, joins: bool) -> RequiredText {
    let mut run = LiteralRun { sets: Vec::new(), texts: vec![String::new()], is_exact: true };
    while let Some(c) = rest.next_if(|c| !matches!(c, '|' | ')')) {
        let plain = match c {
            '\\' => match rest.next() {
                Some('b') if joins => continue,
                next => next.filter(|next| !next.is_ascii_alphanumeric()),
            },
            '^' | '$' if joins => continue,
            '.' | '^' | '$' => None,
            '[' => {
                skip_class(rest);
                None
            }
            '(' => {
                let part = group(rest, joins);
                run.add(part, occurrence(rest), joins);
                continue;
            }
            c => Some(c),
        };
        match (plain, occurrence(rest)) {
            (Some(c), Occurrence::Once) => run.push(c),
            (Some(c), Occurrence::AtLeastOnce) => {
                run.push(c);
                run.end();
            }
            (Some(c), occurrence) => run.add(RequiredText::of(c), occurrence, joins),
            (None, _) => run.end(),
        }
    }
    let exact = run.is_exact.then(|| run.texts.clone());
    run.end();
    RequiredText { sets: run.sets, exact }
}

impl RequiredText {
    fn of(c: char) -> Self {
        Self { sets: vec![vec![c.to_string()]], exact: Some(vec![c.to_string()]) }
    }
}

/// The literals without those that contain another one.
fn shortest(mut literals: Vec<String>) -> Vec<String> {
    if literals.len() == 1 {
        return literals;
    }
    // Stable, and a literal is never longer than one that contains it.
    let mut kept: Vec<String> = Vec::new();
    literals.sort_by_key(String::len);
    for literal in literals {
        if !kept.iter().any(|other| literal.contains(other.as_str())) {
            kept.push(literal);
        }
    }
    kept
}

/// Parses a group after its opening parenthesis, including the closing one.
fn group(rest: &mut Peekable<Chars<'_>>, joins: bool) -> RequiredText {
    let mut folds_case = false;
    if rest.next_if_eq(&'?').is_some() {
        // `(?:`, `(?i:` or `(?<name>`.
        let end = if rest.peek() == Some(&'<') { '>' } else { ':' };
        folds_case = rest.by_ref().take_while(|c| *c != end).any(|c| c == 'i' && end == ':');
    }
    let inner = alternatives(rest, joins);
    rest.next_if_eq(&')');
    if folds_case { RequiredText::default() } else { inner }
}

/// Parses `?`, `*`, `+` or `{…}` after an expression.
fn occurrence(rest: &mut Peekable<Chars<'_>>) -> Occurrence {
    let found = match rest.peek() {
        Some('?') => Occurrence::AtMostOnce,
        Some('+') => Occurrence::AtLeastOnce,
        Some('*' | '{') => Occurrence::Unknown,
        _ => return Occurrence::Once,
    };
    if rest.next() == Some('{') {
        rest.by_ref().find(|c| *c == '}');
    }
    // A lazy quantifier, such as `*?`.
    rest.next_if_eq(&'?');
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
    fn check(pattern: &str, expected: &[&str], joined: &[&str]) {
        assert_eq!(best(required(pattern, false)), expected, "{pattern}");
        assert_eq!(best(required(pattern, true)), joined, "{pattern}");
    }

    #[test]
    fn every_match_contains_a_literal() {
        let later = ["gcc versions later than "];
        check(r"gcc versions later than (?<max>\d+) are not supported", &later, &later);
        check(r"^a(?:bcdef|ghijkl)xy", &["bcdef", "ghijkl"], &["abcdefxy", "aghijklxy"]);
        check(r"a(?:bcdef|g)xyz", &["xyz"], &["agxyz", "abcdefxyz"]);
        check(r"colou?r", &["colo"], &["color", "colour"]);
        check(r"file\.c: [^']]+ gone", &["file.c: "], &["file.c: "]);
        check(r"ab+c", &["ab"], &["ab"]);
        check(r"abc{2,3}d", &["ab"], &["ab"]);
        check(r"a.+?bc", &["bc"], &["bc"]);
        check(r"one|three", &["one", "three"], &["one", "three"]);
        check(r"one|\d+", &[], &[]);
        check(r"(?i:error) of it", &[" of it"], &[" of it"]);
        check(r"(?:maybe this)?no", &["no"], &["no"]);
        check(r"(?:maybe this)*?no", &["no"], &["no"]);
        check(r"\d+\s*", &[], &[]);
        check(r"(a(b)c\))long text", &["long text"], &["abc)long text"]);
        check(r"[^\]x]*tail[]a]b", &["tail"], &["tail"]);
        check(r"(?<symbol>cu(?:Mem|Ctx)\w*)", &["Mem", "Ctx"], &["cuMem", "cuCtx"]);
        check(r"\w+(?:\(\))?(?: call)? (?:failed|error)\b:", &["error", "failed"], &[" error:", " failed:"]);
        check(r"(?:ab)+cd", &["ab"], &["ab"]);
        check(r"(?:a|b)(?:c|d)(?:e|f)(?:g|h)(?:i|jk)long", &["long"], &["ilong", "jklong"]);
    }

    #[test]
    fn every_match_contains_a_literal_of_each_set() {
        let pattern = r"^ab(?:cd|ef(?:gh)+)[xy]ij+k(?:l|\d)(?<name>m.n)?o\.p";
        let sets = required(pattern, false);
        assert_eq!(sets, [vec!["ab"], vec!["cd", "ef"], vec!["ij"], vec!["k"], vec!["o.p"]]);
        let sets = required(pattern, true);
        assert_eq!(sets, [vec!["ab"], vec!["cd", "efgh"], vec!["ij"], vec!["k"], vec!["o.p"]]);
    }
}
