//! A YAML reader that keeps line numbers and resolves anchors and merge keys. Files whose aliases expand without bound are
//! rejected.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::text::ScriptText;

/// A value with its line number.
#[derive(Debug)]
pub struct YamlNode {
    /// The first line of the value, counted from one.
    pub line: usize,
    /// The value.
    pub value: YamlValue,
    /// The number of values in it after alias expansion.
    size: usize,
}

/// The value of a node.
#[derive(Debug)]
pub enum YamlValue {
    /// A scalar, always as text: also numbers and words such as `true`.
    Text {
        /// The text.
        text: String,
        /// The text with the line number of each of its lines.
        script: ScriptText,
        /// Whether it is quoted or a block scalar, so that `0` is a string and not a number.
        is_quoted: bool,
    },
    /// A list.
    List(Vec<Rc<YamlNode>>),
    /// A map, in the order of the file.
    Map(Vec<YamlPair>),
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct YamlPair {
    /// The key.
    pub key: String,
    /// The line of the key.
    pub line: usize,
    /// The value.
    pub node: Rc<YamlNode>,
}

/// Why a text can't be read as YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// A syntax error.
    #[error("line {line}: {what}")]
    Syntax {
        /// The line number.
        line: usize,
        /// The parser's message.
        what: String,
    },
    /// Values are nested too deeply.
    #[error("line {0}: values are nested more than {MAX_DEPTH} levels deep")]
    Deep(usize),
    /// Alias expansion produces too many values.
    #[error("line {0}: the file has more than {MAX_VALUES} values after alias expansion")]
    Large(usize),
    /// An alias is inside the value that it refers to.
    #[error("line {0}: an alias refers to the value that contains it")]
    Cycle(usize),
}

/// The limit of nesting.
const MAX_DEPTH: usize = 64;
/// The limit of values in a file, after alias expansion.
const MAX_VALUES: usize = 500_000;

/// Parses all documents of a text.
///
/// # Errors
/// If the text is not valid YAML, or exceeds a limit.
pub fn parse(text: &str) -> Result<Vec<Rc<YamlNode>>, YamlError> {
    let strict = parse_strictly(text, text);
    let Err(YamlError::Syntax { .. }) = strict else { return strict };
    // GitHub, GitLab, Compose and Kubernetes accept more than YAML 1.2 allows.
    match super::yaml_repair::repaired(text) {
        Some(repaired) => parse_strictly(&repaired, text).or(strict),
        None => strict,
    }
}

/// Parses a text by the rules of YAML 1.2. `original` is the text with the lines for messages.
fn parse_strictly(text: &str, original: &str) -> Result<Vec<Rc<YamlNode>>, YamlError> {
    let lines: Vec<&str> = original.lines().collect();
    let mut builder =
        YamlBuilder { lines, open: Vec::new(), anchors: HashMap::new(), done: Vec::new(), total: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError::Syntax {
            line: error.marker().line(),
            what: error.info().to_owned(),
        })?;
        builder.push(event, span.start.line(), span.end.line())?;
    }
    Ok(builder.done)
}

/// A list or map whose end has not been read yet.
struct OpenCollection {
    anchor: usize,
    line: usize,
    kind: Collection,
    items: Vec<Rc<YamlNode>>,
}

/// The kind of a list or map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Collection {
    List,
    Map,
    /// A list that refers to a value elsewhere; read as an empty map.
    Reference,
}

struct YamlBuilder<'a> {
    lines: Vec<&'a str>,
    open: Vec<OpenCollection>,
    anchors: HashMap<usize, Rc<YamlNode>>,
    done: Vec<Rc<YamlNode>>,
    /// The number of values in all documents so far.
    total: usize,
}

impl YamlBuilder<'_> {
    fn push(&mut self, event: Event<'_>, line: usize, end: usize) -> Result<(), YamlError> {
        match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().ok_or(YamlError::Cycle(line))?;
                self.add(node, line)
            }
            Event::Scalar(text, style, anchor, _) => {
                let script = self.script(&text, style, line, end);
                let is_quoted = style != ScalarStyle::Plain;
                let node = YamlNode {
                    line,
                    value: YamlValue::Text { text: text.into_owned(), script, is_quoted },
                    size: 1,
                };
                self.finish(anchor, node)
            }
            Event::SequenceStart(anchor, tag) => {
                // GitLab replaces `!reference [job, key]` with a value of another job, often of another file.
                let is_reference = tag.is_some_and(|tag| tag.suffix == "reference");
                self.start(anchor, line, if is_reference { Collection::Reference } else { Collection::List })
            }
            Event::MappingStart(anchor, _) => self.start(anchor, line, Collection::Map),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let size = open.items.iter().fold(1usize, |sum, item| sum.saturating_add(item.size));
                let anchor = open.anchor;
                let node = close(open, size)?;
                self.finish(anchor, node)
            }
            _ => Ok(()),
        }
    }

    fn start(&mut self, anchor: usize, line: usize, kind: Collection) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(YamlError::Deep(line));
        }
        self.open.push(OpenCollection { anchor, line, kind, items: Vec::new() });
        Ok(())
    }

    fn finish(&mut self, anchor: usize, node: YamlNode) -> Result<(), YamlError> {
        let line = node.line;
        if node.size > MAX_VALUES {
            return Err(YamlError::Large(line));
        }
        let node = Rc::new(node);
        if anchor > 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        self.add(node, line)
    }

    fn add(&mut self, node: Rc<YamlNode>, line: usize) -> Result<(), YamlError> {
        if let Some(open) = self.open.last_mut() {
            open.items.push(node);
            return Ok(());
        }
        self.total = self.total.saturating_add(node.size);
        if self.total > MAX_VALUES {
            return Err(YamlError::Large(line));
        }
        self.done.push(node);
        Ok(())
    }

    /// Maps the lines of a scalar to their line numbers in the file.
    fn script(&self, text: &str, style: ScalarStyle, line: usize, end: usize) -> ScriptText {
        let mut script = ScriptText::default();
        match style {
            ScalarStyle::Literal => {
                let blank = text.len() - text.trim_start_matches('\n').len();
                let first = line.saturating_sub(blank);
                for (index, part) in text.lines().enumerate() {
                    script.push_line(first + index, part);
                }
            }
            ScalarStyle::Folded
            | ScalarStyle::Plain
            | ScalarStyle::DoubleQuoted
            | ScalarStyle::SingleQuoted
                if end > line && text.contains(' ') =>
            {
                // Folding only removes line breaks, so the words appear in the file in the same order.
                let mut number = line;
                let mut rest = "";
                for part in text.split_inclusive([' ', '\n']) {
                    let word = part.trim();
                    while near(rest, word).is_none() && number < end {
                        rest = self.lines.get(number - 1).copied().unwrap_or_default();
                        number += 1;
                    }
                    let at = if rest.is_empty() { line } else { number - 1 };
                    if let Some(found) = near(rest, word) {
                        rest = &rest[found + word.len()..];
                    }
                    script.push(at.max(line), part);
                }
            }
            _ => script.push(line, text),
        }
        script
    }
}

/// The offset of a word near the start of a text. The search is limited to 200 bytes before the word, because escapes may
/// have changed the word.
fn near(rest: &str, word: &str) -> Option<usize> {
    let limit = rest.len().min(word.len() + 200);
    let end = (limit..=rest.len()).find(|end| rest.is_char_boundary(*end))?;
    rest[..end].find(word)
}

/// The node of a complete list or map. Merge keys add only keys that the map does not have itself.
fn close(open: OpenCollection, size: usize) -> Result<YamlNode, YamlError> {
    let OpenCollection { line, kind, items, .. } = open;
    match kind {
        Collection::List => return Ok(YamlNode { line, value: YamlValue::List(items), size }),
        Collection::Reference => return Ok(YamlNode { line, value: YamlValue::Map(Vec::new()), size }),
        Collection::Map => {}
    }
    let mut pairs: Vec<YamlPair> = Vec::with_capacity(items.len() / 2);
    let mut merged: Vec<Rc<YamlNode>> = Vec::new();
    let mut items = items.into_iter();
    while let (Some(key), Some(node)) = (items.next(), items.next()) {
        let Some(text) = key.text() else { continue };
        if text == "<<" {
            match &node.value {
                YamlValue::List(list) => merged.extend(list.iter().cloned()),
                _ => merged.push(node),
            }
        } else {
            pairs.push(YamlPair { key: text.to_owned(), line: key.line, node });
        }
    }
    if !merged.is_empty() {
        let mut known: std::collections::HashSet<String> =
            pairs.iter().map(|pair| pair.key.clone()).collect();
        let mut looked = 0usize;
        for pair in merged.iter().flat_map(|node| node.pairs()) {
            looked += 1;
            if looked > MAX_VALUES {
                return Err(YamlError::Large(line));
            }
            if known.insert(pair.key.clone()) {
                pairs.push(pair.clone());
            }
        }
    }
    // A map starts at its first key. Merged keys may come from earlier lines and do not count.
    let line = pairs
        .iter()
        .map(|pair| pair.line)
        .min()
        .map_or(line, |first| if first < line { line } else { first });
    Ok(YamlNode { line, value: YamlValue::Map(pairs), size })
}

impl YamlNode {
    /// The text of a scalar.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text of a scalar with its line numbers.
    #[must_use]
    pub fn script(&self) -> Option<&ScriptText> {
        match &self.value {
            YamlValue::Text { script, .. } => Some(script),
            _ => None,
        }
    }

    /// The pairs of a map; empty for other values.
    #[must_use]
    pub fn pairs(&self) -> &[YamlPair] {
        match &self.value {
            YamlValue::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// The values of a list; empty for other values.
    #[must_use]
    pub fn items(&self) -> &[Rc<YamlNode>] {
        match &self.value {
            YamlValue::List(items) => items,
            _ => &[],
        }
    }

    /// The values of a list, or the value itself, for keys that accept both.
    #[must_use]
    pub fn one_or_many(&self) -> Vec<&Self> {
        match &self.value {
            YamlValue::List(items) => items.iter().map(AsRef::as_ref).collect(),
            _ => vec![self],
        }
    }

    /// The pair with this key.
    #[must_use]
    pub fn pair(&self, key: &str) -> Option<&YamlPair> {
        self.pairs().iter().find(|pair| pair.key == key)
    }

    /// The value of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.pair(key).map(|pair| pair.node.as_ref())
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&YamlNode> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The text of this key's scalar.
    #[must_use]
    pub fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// Whether the value of a key is true: `true`, `True`, `yes` or `on`.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        self.text_of(key).is_some_and(|text| matches!(text, "true" | "True" | "yes" | "on"))
    }

    /// Whether this is an unquoted number.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(&self.value, YamlValue::Text { text, is_quoted: false, .. } if text.parse::<f64>().is_ok())
    }

    /// Whether this is an empty value, `~` or `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.text(), Some("" | "~" | "null"))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn one(text: &str) -> Rc<YamlNode> {
        parse(text).unwrap().remove(0)
    }

    #[test]
    fn values_have_line_numbers() {
        let node =
            one("a:\n  b: 1\n  c:\n    - x\n    - y: 2\nrun: |\n\n  one\n  two\nfold: >-\n  aa bb\n  cc\n");
        assert_eq!(node.at(&["a", "b"]).map(|node| (node.line, node.text())), Some((2, Some("1"))));
        assert_eq!(node.at(&["a", "c"]).unwrap().items()[1].line, 5);
        let script = node.get("run").unwrap().script().unwrap();
        assert_eq!((script.text(), script.line_at(1), script.line_at(5)), ("\none\ntwo\n", 8, 9));
        let folded = node.get("fold").unwrap().script().unwrap();
        assert_eq!(
            (folded.text(), folded.line_at(0), folded.line_at(3), folded.line_at(6)),
            ("aa bb cc", 11, 11, 12)
        );
        assert_eq!(node.pair("fold").map(|pair| pair.line), Some(10));
    }

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        let node = one(
            "x: &a {k: 1, l: 2}\ny: &b\n  l: 3\n  m: 4\nz:\n  <<: [*a, *b]\n  k: 9\nw: *a\nv:\n  <<: *b\n",
        );
        let pairs = |key: &str| -> Vec<(String, String, usize)> {
            let pairs = node.get(key).unwrap().pairs().iter();
            pairs.map(|pair| (pair.key.clone(), pair.node.text().unwrap().to_owned(), pair.line)).collect()
        };
        assert_eq!(
            pairs("z"),
            [("k".into(), "9".into(), 7), ("l".into(), "2".into(), 1), ("m".into(), "4".into(), 4)]
        );
        assert_eq!(pairs("w").len(), 2);
        assert_eq!(pairs("v")[0], ("l".into(), "3".into(), 3));
    }

    #[test]
    fn unbounded_documents_are_rejected() {
        let mut aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        let mut merges = "a0: &a0 {k: 1}\n".to_owned();
        for level in 1..40 {
            let names = vec![format!("*a{}", level - 1); 9].join(", ");
            let _ = writeln!(aliases, "a{level}: &a{level} [{names}]");
            let _ = writeln!(merges, "a{level}: &a{level} {{<<: [{names}], k{level}: 1}}");
        }
        assert!(matches!(parse(&aliases), Err(YamlError::Large(_))));
        assert!(matches!(parse(&merges), Err(YamlError::Large(_))));
        assert!(matches!(parse("a: &a [*a]\n"), Err(YamlError::Cycle(1))));
        assert!(matches!(parse(&"- ".repeat(100_000)), Err(YamlError::Deep(1))));
        assert!(matches!(parse(&"[".repeat(100_000)), Err(YamlError::Deep(_) | YamlError::Syntax { .. })));
        let many: String = (0..60)
            .map(|index| format!("k{index}: &k{index} {{<<: *big, z{index}: 1}}\n"))
            .collect::<Vec<_>>()
            .concat();
        let big: String = (0..10_000).map(|index| format!("  b{index}: 1\n")).collect::<Vec<_>>().concat();
        assert!(matches!(parse(&format!("big: &big\n{big}{many}")), Err(YamlError::Large(_))));
    }

    #[test]
    fn syntax_errors_have_line_numbers() {
        for text in ["a: b: c\n", "a:\n\t- b\n", "a: [1, 2\nb: 3\n", "a: *nope\n", "\"abc\n", "a: 'x\n"] {
            assert!(
                matches!(parse(text), Err(YamlError::Syntax { line: 1..=3, .. })),
                "{text}: {:?}",
                parse(text)
            );
        }
        assert!(parse("").unwrap().is_empty());
        assert_eq!(parse("a: 1\n---\nb: 2\n").unwrap().len(), 2);
    }
}
