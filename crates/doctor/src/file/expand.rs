//! Expansion of `$NAME`, `${NAME}` and `${NAME:-default}`, as Dockerfiles, compose files and shells do it.

/// A text after variable expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The expanded text. References to unknown variables are kept as written.
    pub text: String,
    /// Whether every variable is known.
    pub is_complete: bool,
}

/// How deep defaults may be nested in other defaults.
const MAX_DEPTH: usize = 8;
/// The longest reference, default included, in characters.
const MAX_REFERENCE: usize = 250;
/// Variables are no longer expanded beyond this length in bytes: values that refer to themselves would grow without bound.
const MAX_LENGTH: usize = 2048;

/// Replaces the variables that `lookup` knows.
#[must_use]
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Expanded {
    let short = |name: &str| lookup(name).filter(|value| value.len() <= MAX_LENGTH);
    inner(text, &short, 0)
}

fn inner(text: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize) -> Expanded {
    let mut out = Expanded { text: String::with_capacity(text.len()), is_complete: true };
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        out.text.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = if let Some(after) = rest.strip_prefix('\\') {
            let length = after.chars().next().map_or(0, char::len_utf8);
            let keeps = !after.starts_with('$');
            out.text.push_str(&rest[usize::from(!keeps)..=length]);
            1 + length
        } else if out.text.len() > MAX_LENGTH {
            out.text.push('$');
            out.is_complete = false;
            1
        } else {
            let taken = variable(rest, lookup, depth, &mut out);
            if taken == 0 {
                out.text.push('$');
            }
            taken.max(1)
        };
        rest = &rest[taken..];
    }
    out.text.push_str(rest);
    out
}

/// Appends the value of the variable reference at the start of `rest` to `out`. Returns the length of the reference in bytes,
/// zero if `rest` does not start with one.
fn variable(rest: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize, out: &mut Expanded) -> usize {
    if let Some(braced) = rest.strip_prefix("${") {
        let Some(end) = closing(braced) else { return 0 };
        let whole = &rest[..end + 3];
        let body = &braced[..end];
        let name_end = body.find(|c: char| !is_name(c)).unwrap_or(body.len());
        let (name, operator) = body.split_at(name_end);
        if let Some(value) = braced_value(name, operator, lookup, depth) {
            out.text.push_str(&value.text);
            out.is_complete &= value.is_complete;
        } else {
            out.text.push_str(whole);
            out.is_complete = false;
        }
        return whole.len();
    }
    let body = &rest[1..];
    let end = body.find(|c: char| !is_name(c)).unwrap_or(body.len());
    if end == 0 || body.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    if let Some(value) = lookup(&body[..end]) {
        out.text.push_str(&value);
    } else {
        out.text.push_str(&rest[..=end]);
        out.is_complete = false;
    }
    end + 1
}

fn braced_value(
    name: &str,
    operator: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<Expanded> {
    let whole = |text: String| Expanded { text, is_complete: true };
    let value = lookup(name);
    if name.is_empty() || depth >= MAX_DEPTH {
        return None;
    }
    if operator.is_empty() {
        return value.map(whole);
    }
    let word = |text: &str| inner(text, lookup, depth + 1);
    if let Some(default) = operator.strip_prefix(":-").or_else(|| operator.strip_prefix(":=")) {
        return Some(value.filter(|value| !value.is_empty()).map_or_else(|| word(default), whole));
    }
    if let Some(default) = operator.strip_prefix('-').or_else(|| operator.strip_prefix('=')) {
        return Some(value.map_or_else(|| word(default), whole));
    }
    if let Some(other) = operator.strip_prefix(":+").or_else(|| operator.strip_prefix('+')) {
        return value.map(|value| if value.is_empty() { whole(value) } else { word(other) });
    }
    if operator.starts_with(":?") || operator.starts_with('?') {
        return value.map(whole);
    }
    None
}

/// The offset of the closing brace that matches an opening brace just before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, c) in text.char_indices().take(MAX_REFERENCE) {
        match c {
            '{' => open += 1,
            '}' if open == 0 => return Some(at),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_expanded() {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "E" => Some(String::new()),
            _ => None,
        };
        for (text, expected, is_complete) in [
            ("x$A.$A", "x1.1", true),
            ("${A}b", "1b", true),
            ("${B:-2}", "2", true),
            ("${E:-2}${E-2}", "2", true),
            ("${B:-${A}0}", "10", true),
            ("${B-${C}}", "${C}", false),
            ("${A:+yes}${E:+no}", "yes", true),
            ("$B ${C}", "$B ${C}", false),
            ("${A:?need}", "1", true),
            ("cost: 5$", "cost: 5$", true),
            (r"\$A \n", r"$A \n", true),
            ("$(pwd) $1", "$(pwd) $1", true),
            ("${A", "${A", true),
            ("${", "${", true),
            ("a\\", "a\\", true),
            ("\\ü$A", "\\ü1", true),
        ] {
            assert_eq!(expand(text, &lookup), Expanded { text: expected.into(), is_complete }, "{text}");
        }
    }

    #[test]
    fn nested_defaults_and_growing_values_are_limited() {
        let nested = format!("{}x{}", "${A:-".repeat(50_000), "}".repeat(50_000));
        assert!(expand(&nested, &|_| None).text.len() <= nested.len());
        let grown = expand(&"$A".repeat(1000), &|_| Some("x".repeat(100)));
        assert!(grown.text.len() < 5000 && !grown.is_complete);
        let short = format!("{}x{}", "${A:-".repeat(20), "}".repeat(20));
        assert!(!expand(&short, &|_| None).is_complete);
    }
}
