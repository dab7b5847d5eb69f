//! YAML with the line of every value, anchors and merge keys resolved. A file that grows without bound when its aliases are
//! followed is refused.

use std::collections::HashMap;
use std::rc::Rc;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::text::ScriptText;

/// A value and where it stands.
#[derive(Debug)]
pub struct YamlNode {
    /// Its first line, counted from one.
    pub line: usize,
    /// What it is.
    pub value: YamlValue,
    /// How many values it is when all aliases are followed.
    size: usize,
}

/// What a node is.
#[derive(Debug)]
pub enum YamlValue {
    /// Text. Numbers and words such as `true` are text as well.
    Text {
        /// The text.
        text: String,
        /// For a text over several lines: each line of it with its number in the file.
        script: ScriptText,
        /// Whether it stands in quotes or in a block, so that `0` in it is text and no number.
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

/// Why a text is no YAML that can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// What the parser says.
    #[error("line {line}: {what}")]
    Syntax {
        /// The line.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Too deep.
    #[error("line {0}: values are nested more than {DEEPEST} levels deep")]
    Deep(usize),
    /// Aliases that multiply.
    #[error("line {0}: with its aliases followed the file has more than {LARGEST} values")]
    Large(usize),
    /// An alias inside of what it names.
    #[error("line {0}: an alias names the value that it stands in")]
    Circle(usize),
}

/// How deep values may be nested.
const DEEPEST: usize = 64;
/// How many values a document may have, with aliases followed.
const LARGEST: usize = 500_000;

/// The documents of a text.
///
/// # Errors
/// It is no YAML, or has too many values.
pub fn parse(text: &str) -> Result<Vec<Rc<YamlNode>>, YamlError> {
    let lines: Vec<&str> = text.lines().collect();
    let mut builder =
        YamlBuilder { lines, open: Vec::new(), anchors: HashMap::new(), done: Vec::new(), total: 0 };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError::Syntax {
            line: error.marker().line(),
            what: error.info().to_owned(),
        })?;
        builder.take(event, span.start.line(), span.end.line())?;
    }
    Ok(builder.done)
}

/// A list or a map that is not finished.
struct Open {
    anchor: usize,
    line: usize,
    is_map: bool,
    items: Vec<Rc<YamlNode>>,
}

struct YamlBuilder<'a> {
    lines: Vec<&'a str>,
    open: Vec<Open>,
    anchors: HashMap<usize, Rc<YamlNode>>,
    done: Vec<Rc<YamlNode>>,
    /// Values of all documents together.
    total: usize,
}

impl YamlBuilder<'_> {
    fn take(&mut self, event: Event<'_>, line: usize, end: usize) -> Result<(), YamlError> {
        match event {
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned().ok_or(YamlError::Circle(line))?;
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
            Event::SequenceStart(anchor, _) => self.start(anchor, line, false),
            Event::MappingStart(anchor, _) => self.start(anchor, line, true),
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

    fn start(&mut self, anchor: usize, line: usize, is_map: bool) -> Result<(), YamlError> {
        if self.open.len() >= DEEPEST {
            return Err(YamlError::Deep(line));
        }
        self.open.push(Open { anchor, line, is_map, items: Vec::new() });
        Ok(())
    }

    fn finish(&mut self, anchor: usize, node: YamlNode) -> Result<(), YamlError> {
        let line = node.line;
        if node.size > LARGEST {
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
        if self.total > LARGEST {
            return Err(YamlError::Large(line));
        }
        self.done.push(node);
        Ok(())
    }

    /// The lines of a text as they stand in the file, so that each keeps its number.
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
                // Folding takes away line breaks only: the words stand in the file in their order.
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

/// Where a word stands at the beginning of a text: words that escapes have changed are not looked for to the end of it.
fn near(rest: &str, word: &str) -> Option<usize> {
    let limit = rest.len().min(word.len() + 200);
    let end = (limit..=rest.len()).find(|end| rest.is_char_boundary(*end))?;
    rest[..end].find(word)
}

/// The finished list or map. Merge keys give what the map does not have itself.
fn close(open: Open, size: usize) -> Result<YamlNode, YamlError> {
    let Open { line, is_map, items, .. } = open;
    if !is_map {
        return Ok(YamlNode { line, value: YamlValue::List(items), size });
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
            if looked > LARGEST {
                return Err(YamlError::Large(line));
            }
            if known.insert(pair.key.clone()) {
                pairs.push(pair.clone());
            }
        }
    }
    // A map that begins in a line of its own begins with its first key.
    let line = pairs
        .iter()
        .map(|pair| pair.line)
        .min()
        .map_or(line, |first| if first < line { line } else { first });
    Ok(YamlNode { line, value: YamlValue::Map(pairs), size })
}

impl YamlNode {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            YamlValue::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The text with the lines that it comes from.
    #[must_use]
    pub fn script(&self) -> Option<&ScriptText> {
        match &self.value {
            YamlValue::Text { script, .. } => Some(script),
            _ => None,
        }
    }

    /// The pairs of a map; none if it is no map.
    #[must_use]
    pub fn pairs(&self) -> &[YamlPair] {
        match &self.value {
            YamlValue::Map(pairs) => pairs,
            _ => &[],
        }
    }

    /// The values of a list; none if it is no list.
    #[must_use]
    pub fn items(&self) -> &[Rc<YamlNode>] {
        match &self.value {
            YamlValue::List(items) => items,
            _ => &[],
        }
    }

    /// The values of a list, or the value itself where one may be written without its list.
    #[must_use]
    pub fn one_or_many(&self) -> Vec<&Self> {
        match &self.value {
            YamlValue::List(items) => items.iter().map(AsRef::as_ref).collect(),
            _ => vec![self],
        }
    }

    /// The pair of a key.
    #[must_use]
    pub fn pair(&self, key: &str) -> Option<&YamlPair> {
        self.pairs().iter().find(|pair| pair.key == key)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.pair(key).map(|pair| pair.node.as_ref())
    }

    /// The value at the end of a path of keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&YamlNode> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// The text of a key.
    #[must_use]
    pub fn text_of(&self, key: &str) -> Option<&str> {
        self.get(key)?.text()
    }

    /// Whether a key says yes.
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        self.text_of(key).is_some_and(|text| matches!(text, "true" | "True" | "yes" | "on"))
    }

    /// Whether it is a number that is not written as a text.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(&self.value, YamlValue::Text { text, is_quoted: false, .. } if text.parse::<f64>().is_ok())
    }

    /// Whether nothing was written.
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
    fn values_know_their_lines() {
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
    fn documents_that_would_never_end_are_refused() {
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        let mut merges = "a0: &a0 {k: 1}\n".to_owned();
        for level in 1..40 {
            let names = vec![format!("*a{}", level - 1); 9].join(", ");
            let _ = writeln!(laughs, "a{level}: &a{level} [{names}]");
            let _ = writeln!(merges, "a{level}: &a{level} {{<<: [{names}], k{level}: 1}}");
        }
        assert!(matches!(parse(&laughs), Err(YamlError::Large(_))));
        assert!(matches!(parse(&merges), Err(YamlError::Large(_))));
        assert!(matches!(parse("a: &a [*a]\n"), Err(YamlError::Circle(1))));
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
    fn mistakes_name_their_line() {
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
