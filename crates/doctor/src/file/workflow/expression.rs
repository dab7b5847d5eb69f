//! Evaluates GitHub Actions expressions: `${{ matrix.os }}`, `if: runner.os == 'Windows' && …`. Values that depend on the run
//! are unknown.

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpressionValue {
    /// A string or number.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// `null`, or a missing property of a known context.
    Null,
    /// A value that is only known at run time.
    Unknown,
}

impl ExpressionValue {
    fn truth(&self) -> Option<bool> {
        match self {
            Self::Text(text) => Some(!text.is_empty() && text != "0"),
            Self::Bool(value) => Some(*value),
            Self::Null => Some(false),
            Self::Unknown => None,
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Bool(value) => Some(value.to_string()),
            Self::Null => Some(String::new()),
            Self::Unknown => None,
        }
    }
}

/// Returns the value of a context name such as `matrix.os`.
pub type ContextLookup<'a> = &'a dyn Fn(&str) -> ExpressionValue;

/// The limit of nesting.
const MAX_DEPTH: usize = 24;

/// Whether a condition is true; `None` if that is only known at run time.
#[must_use]
pub fn holds(condition: &str, lookup: ContextLookup<'_>) -> Option<bool> {
    let text = condition.trim();
    let text = text.strip_prefix("${{").and_then(|text| text.strip_suffix("}}")).unwrap_or(text);
    if text.contains("${{") {
        return None;
    }
    evaluate(text, lookup).truth()
}

/// Replaces the expressions whose values are known.
#[must_use]
pub fn substitute(text: &str, lookup: ContextLookup<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        let Some(length) = rest[start..].find("}}") else { break };
        out.push_str(&rest[..start]);
        let whole = &rest[start..start + length + 2];
        match evaluate(&whole[3..whole.len() - 2], lookup).text() {
            Some(value) => out.push_str(&value),
            None => out.push_str(whole),
        }
        rest = &rest[start + length + 2..];
    }
    out.push_str(rest);
    out
}

/// The name if a text is a single reference: `matrix.os` for `${{ matrix.os }}`.
#[must_use]
pub fn only_name(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix("${{")?.strip_suffix("}}")?.trim();
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        .then_some(name)
}

fn evaluate(text: &str, lookup: ContextLookup<'_>) -> ExpressionValue {
    let mut parser = Parser { rest: text, lookup, depth: 0 };
    let value = parser.disjunction();
    if parser.rest.trim().is_empty() { value } else { ExpressionValue::Unknown }
}

struct Parser<'a> {
    rest: &'a str,
    lookup: ContextLookup<'a>,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(after) = rest.strip_prefix(token) else { return false };
        self.rest = after;
        true
    }

    fn disjunction(&mut self) -> ExpressionValue {
        let mut value = self.conjunction();
        while self.eat("||") {
            let other = self.conjunction();
            value = match value.truth() {
                Some(true) => value,
                Some(false) => other,
                None if other.truth() == Some(true) && other == ExpressionValue::Bool(true) => other,
                None => ExpressionValue::Unknown,
            };
        }
        value
    }

    fn conjunction(&mut self) -> ExpressionValue {
        let mut value = self.comparison();
        while self.eat("&&") {
            let other = self.comparison();
            value = match value.truth() {
                Some(true) => other,
                Some(false) => value,
                None if other.truth() == Some(false) => other,
                None => ExpressionValue::Unknown,
            };
        }
        value
    }

    fn comparison(&mut self) -> ExpressionValue {
        let left = self.unary();
        let is_equal = self.eat("==");
        if !is_equal && !self.eat("!=") {
            return left;
        }
        let right = self.unary();
        match (left.text(), right.text()) {
            (Some(left), Some(right)) => ExpressionValue::Bool(left.eq_ignore_ascii_case(&right) == is_equal),
            _ => ExpressionValue::Unknown,
        }
    }

    fn unary(&mut self) -> ExpressionValue {
        self.depth += 1;
        let value = if self.depth > MAX_DEPTH {
            self.rest = "";
            ExpressionValue::Unknown
        } else {
            self.term()
        };
        self.depth -= 1;
        value
    }

    fn term(&mut self) -> ExpressionValue {
        if self.rest.trim_start().starts_with("!=") {
            return ExpressionValue::Unknown;
        }
        if self.eat("!") {
            return self
                .unary()
                .truth()
                .map_or(ExpressionValue::Unknown, |value| ExpressionValue::Bool(!value));
        }
        if self.eat("(") {
            let value = self.disjunction();
            return if self.eat(")") { value } else { ExpressionValue::Unknown };
        }
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('\'') {
            return self.quoted();
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '*')))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        if self.eat("(") {
            return self.call(word);
        }
        if self.rest.starts_with('[') {
            // `matrix['os']` is `matrix.os`; any other index is unknown.
            let inside = self.rest[1..].find(']').map(|length| &self.rest[1..=length]);
            let name = inside.and_then(|name| name.trim().strip_prefix('\'')?.strip_suffix('\''));
            self.rest = inside.map_or("", |inside| &self.rest[inside.len() + 2..]);
            return name.map_or(ExpressionValue::Unknown, |name| (self.lookup)(&format!("{word}.{name}")));
        }
        match word {
            "" => ExpressionValue::Unknown,
            "true" => ExpressionValue::Bool(true),
            "false" => ExpressionValue::Bool(false),
            "null" => ExpressionValue::Null,
            _ if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                ExpressionValue::Text(word.to_owned())
            }
            _ => (self.lookup)(word),
        }
    }

    fn quoted(&mut self) -> ExpressionValue {
        let mut text = String::new();
        let mut rest = &self.rest[1..];
        loop {
            let Some(at) = rest.find('\'') else {
                self.rest = "";
                return ExpressionValue::Unknown;
            };
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            // Two quotes are an escaped quote.
            match rest.strip_prefix('\'') {
                Some(after) => {
                    text.push('\'');
                    rest = after;
                }
                None => break,
            }
        }
        self.rest = rest;
        ExpressionValue::Text(text)
    }

    fn call(&mut self, name: &str) -> ExpressionValue {
        let mut values = Vec::new();
        while !self.eat(")") {
            if self.rest.trim().is_empty() {
                return ExpressionValue::Unknown;
            }
            let before = self.rest.len();
            values.push(self.disjunction());
            let has_comma = self.eat(",");
            if self.rest.len() == before || !(has_comma || self.rest.trim_start().starts_with(')')) {
                self.rest = "";
                return ExpressionValue::Unknown;
            }
        }
        let text = |index: usize| {
            values.get(index).and_then(ExpressionValue::text).map(|text| text.to_ascii_lowercase())
        };
        match (name.to_ascii_lowercase().as_str(), text(0), text(1)) {
            ("contains", Some(text), Some(part)) => ExpressionValue::Bool(text.contains(&part)),
            ("startswith", Some(text), Some(part)) => ExpressionValue::Bool(text.starts_with(&part)),
            ("endswith", Some(text), Some(part)) => ExpressionValue::Bool(text.ends_with(&part)),
            ("success" | "always", _, _) => ExpressionValue::Bool(true),
            _ => ExpressionValue::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> ExpressionValue {
        match name {
            "matrix.os" => ExpressionValue::Text("Windows-latest".into()),
            "matrix.cuda" => ExpressionValue::Text("12.4".into()),
            "matrix.none" => ExpressionValue::Null,
            _ => ExpressionValue::Unknown,
        }
    }

    #[test]
    fn conditions_are_evaluated() {
        for (text, expected) in [
            ("matrix.os == 'windows-latest'", Some(true)),
            ("${{ matrix.os != 'windows-latest' }}", Some(false)),
            ("startsWith(matrix.os, 'ubuntu') || github.ref == 'x'", None),
            ("startsWith(matrix.os, 'ubuntu') && github.ref == 'x'", Some(false)),
            ("github.ref == 'x' && false", Some(false)),
            ("!(contains(matrix.os, 'windows'))", Some(false)),
            ("matrix['cuda'] == 12.4", Some(true)),
            ("matrix.none", Some(false)),
            ("matrix.cuda != ''", Some(true)),
            ("always()", Some(true)),
            ("failure()", None),
            ("fromJSON(x).y == 1", None),
            ("'it''s' == 'it''s'", Some(true)),
            ("", None),
            ("((", None),
            ("'a", None),
            ("a(b", None),
        ] {
            assert_eq!(holds(text, &lookup), expected, "{text}");
        }
        assert_eq!(holds(&"(".repeat(100_000), &lookup), None);
        assert_eq!(holds(&"!".repeat(100_000), &lookup), None);
        assert_eq!(holds(&"f(".repeat(100_000), &lookup), None);
    }

    #[test]
    fn expressions_are_substituted() {
        assert_eq!(substitute("a-${{ matrix.cuda }}-${{ github.sha }}", &lookup), "a-12.4-${{ github.sha }}");
        assert_eq!(substitute("${{ matrix.cuda == '12.4' && 'x' || 'y' }}${{", &lookup), "x${{");
        assert_eq!(only_name("${{ matrix.os }}"), Some("matrix.os"));
        assert_eq!(only_name("x ${{ matrix.os }}"), None);
    }
}
