//! Repairs YAML that is not valid by YAML 1.2 but that libyaml and its relatives accept, and with them GitHub, GitLab, Compose and
//! Kubernetes: continuation lines of flow collections and quoted scalars that are not indented, or indented with tabs.

/// The text with indented continuation lines; `None` if no line needs it. Line numbers do not change.
#[must_use]
pub(super) fn repaired(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut state = FlowState::default();
    let mut is_changed = false;
    for line in text.split_inclusive('\n') {
        let content = line.trim_start_matches([' ', '\t']);
        if let Some(column) = state.continues() {
            let before = &line[..line.len() - content.len()];
            if !content.trim().is_empty() && (before.len() <= column || before.contains('\t')) {
                out.extend(std::iter::repeat_n(' ', column + 1));
                out.push_str(content);
                is_changed = true;
                state.read(line);
                continue;
            }
        }
        out.push_str(line);
        state.read(line);
    }
    is_changed.then_some(out)
}

/// The longest indentation that is added to a line.
const MAX_COLUMN: usize = 200;

/// What is open at the end of a line.
#[derive(Debug, Default)]
struct FlowState {
    /// The number of open brackets and braces.
    depth: usize,
    /// The quote of an open scalar.
    quote: Option<char>,
    /// The column where the outermost collection or the scalar starts.
    column: usize,
    /// The indentation of the line that starts a block scalar.
    block: Option<usize>,
}

impl FlowState {
    /// The column beyond which the next line has to start, if it continues a collection or a quoted scalar.
    fn continues(&self) -> Option<usize> {
        (self.depth > 0 || self.quote.is_some()).then_some(self.column.min(MAX_COLUMN))
    }

    fn read(&mut self, line: &str) {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        if let Some(parent) = self.block {
            if line.trim().is_empty() || indentation > parent {
                return;
            }
            self.block = None;
        }
        let mut starts_token = true;
        let mut before = ' ';
        let mut chars = line.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map_or('\n', |(_, next)| *next);
            if let Some(quote) = self.quote {
                let is_escape = c == '\\' && quote == '"';
                if is_escape || (c == quote && quote == '\'' && next == '\'') {
                    chars.next();
                } else if c == quote {
                    self.quote = None;
                    starts_token = false;
                    before = c;
                }
                continue;
            }
            match c {
                '#' if before.is_whitespace() => return,
                '"' | '\'' if starts_token => {
                    self.quote = Some(c);
                    if self.depth == 0 {
                        self.column = at;
                    }
                }
                '[' | '{' if starts_token || self.depth > 0 => {
                    if self.depth == 0 {
                        self.column = at;
                    }
                    self.depth += 1;
                    starts_token = true;
                }
                ']' | '}' if self.depth > 0 => {
                    self.depth -= 1;
                    starts_token = false;
                }
                ',' if self.depth > 0 => starts_token = true,
                '|' | '>' if starts_token && self.depth == 0 => {
                    let header = line[at + 1..].split('#').next().unwrap_or_default().trim();
                    if header.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-')) {
                        self.block = Some(indentation);
                        return;
                    }
                    starts_token = false;
                }
                ':' | '-' | '?' if next.is_whitespace() => starts_token = true,
                c if c.is_whitespace() => {}
                // An anchor or a tag precedes the value.
                '&' | '!' if starts_token => while chars.next_if(|(_, c)| !c.is_whitespace()).is_some() {},
                _ => starts_token = false,
            }
            before = c;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::yaml::parse;

    #[test]
    fn accepted_by_the_services() {
        for (text, path, expected) in [
            ("on:\n  push:\n    paths: [\n      'a',\n      'b'\n    ]\njobs: x\n", &["jobs"][..], "x"),
            ("a:\n  b: [\n1,\n2]\nc: y\n", &["c"], "y"),
            ("a:\n  b: {\n\tx: 1,\n\ty: 2\n  }\n", &["a", "b", "y"], "2"),
            ("a:\n  b: \"one\n two\nthree\"\n", &["a", "b"], "one two three"),
            ("a:\n  - b: {x: [\n  1 ], y: 'it''s # no\n more'}\n", &["a"], ""),
            ("s: |\n  f [ {\n  'x\nt:\n  u: [1,\n]\nv: 1\n", &["v"], "1"),
            ("s: a[1 'x\nt:\n  u: [1, # [\n]\nv: 1\n", &["v"], "1"),
        ] {
            let node = parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).remove(0);
            assert_eq!(node.at(path).and_then(|node| node.text()).unwrap_or_default(), expected, "{text}");
        }
        let node = parse("a:\n  b: [\n1,\n2]\nc: y\n").unwrap().remove(0);
        assert_eq!(node.at(&["a", "b"]).unwrap().items()[1].line, 4);
        assert_eq!(node.pair("c").map(|pair| pair.line), Some(5));
    }

    #[test]
    fn other_texts_are_not_changed() {
        for text in ["a: [1, 2\nb: 3\n", "a: b: c\n", "a:\n\t- b\n", "a: 'x\n"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(repaired("a:\n  [1,\n   2]\nb:\n  c: d\n"), None);
        assert_eq!(repaired(&"[".repeat(100_000)), None);
    }
}
