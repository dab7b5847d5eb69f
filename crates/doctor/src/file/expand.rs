//! Variables in texts, as Dockerfiles, compose files and shells write them: `$NAME`, `${NAME}`, `${NAME:-default}`.

/// A text after its variables were replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expanded {
    /// The text; what is unknown stands in it as it was written.
    pub text: String,
    /// Whether every variable was known.
    pub is_whole: bool,
}

/// How deep a default may hold other variables.
const DEEPEST: usize = 8;
/// How long a variable with its default may be.
const LONGEST: usize = 250;
/// From this length on variables are left as they are: values that are made of themselves grow without bound.
const FULL: usize = 2048;

/// Replaces the variables of a text that `lookup` knows.
#[must_use]
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Expanded {
    let short = |name: &str| lookup(name).filter(|value| value.len() <= FULL);
    inner(text, &short, 0)
}

fn inner(text: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize) -> Expanded {
    let mut out = Expanded { text: String::with_capacity(text.len()), is_whole: true };
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        out.text.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = if let Some(after) = rest.strip_prefix('\\') {
            let length = after.chars().next().map_or(0, char::len_utf8);
            let keeps = !after.starts_with('$');
            out.text.push_str(&rest[usize::from(!keeps)..=length]);
            1 + length
        } else if out.text.len() > FULL {
            out.text.push('$');
            out.is_whole = false;
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

/// Writes the value of the variable that `rest` starts with and says how long its name was; zero if it is none.
fn variable(rest: &str, lookup: &dyn Fn(&str) -> Option<String>, depth: usize, out: &mut Expanded) -> usize {
    if let Some(braced) = rest.strip_prefix("${") {
        let Some(end) = closing(braced) else { return 0 };
        let whole = &rest[..end + 3];
        let body = &braced[..end];
        let name_end = body.find(|c: char| !is_name(c)).unwrap_or(body.len());
        let (name, operator) = body.split_at(name_end);
        if let Some(value) = braced_value(name, operator, lookup, depth) {
            out.text.push_str(&value.text);
            out.is_whole &= value.is_whole;
        } else {
            out.text.push_str(whole);
            out.is_whole = false;
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
        out.is_whole = false;
    }
    end + 1
}

fn braced_value(
    name: &str,
    operator: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<Expanded> {
    let whole = |text: String| Expanded { text, is_whole: true };
    let value = lookup(name);
    if name.is_empty() || depth >= DEEPEST {
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

/// Where the brace that closes the text's beginning stands.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (at, c) in text.char_indices().take(LONGEST) {
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
    fn every_form_is_known() {
        let lookup = |name: &str| match name {
            "A" => Some("1".to_owned()),
            "E" => Some(String::new()),
            _ => None,
        };
        for (text, shown, is_whole) in [
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
            assert_eq!(expand(text, &lookup), Expanded { text: shown.into(), is_whole }, "{text}");
        }
    }

    #[test]
    fn a_tower_of_defaults_ends() {
        let tower = format!("{}x{}", "${A:-".repeat(50_000), "}".repeat(50_000));
        assert!(expand(&tower, &|_| None).text.len() <= tower.len());
        let grown = expand(&"$A".repeat(1000), &|_| Some("x".repeat(100)));
        assert!(grown.text.len() < 5000 && !grown.is_whole);
        let short = format!("{}x{}", "${A:-".repeat(20), "}".repeat(20));
        assert!(!expand(&short, &|_| None).is_whole);
    }
}
