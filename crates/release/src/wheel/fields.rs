//! The forms of the fields of pyproject.toml. Installers and package indexes read them line by line, so none has a line break. Pure.

use std::sync::LazyLock;

use regex_lite::Regex;

/// A normalized version (PEP 440, "public version identifiers").
const VERSION: &str =
    r"^(\d+!)?\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?$";
/// Conditions for a version: `>=3.9, !=3.9.1` (PEP 440, "version specifiers").
const CONDITIONS: &str = r"^\s*C(\s*,\s*C)*\s*,?\s*$";
/// A requirement (PEP 508): a name, extras, conditions or a URL, and a marker.
const REQUIREMENT: &str =
    r"^\s*N\s*(\[\s*(N(\s*,\s*N)*)?\s*\])?\s*(@\s*\S+|\(\s*C(\s*,\s*C)*\s*\)|C(\s*,\s*C)*)?\s*(;.*\S.*)?$";
/// One condition.
const CONDITION: &str = r"(~=|===?|!=|<=?|>=?)\s*[A-Za-z0-9.*+!_-]+";
/// The name of a package or an extra.
const NAME: &str = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?";
/// An SPDX expression: identifiers, operators and parentheses.
const LICENCE: &str = r"^[A-Za-z0-9.+:() -]*[A-Za-z0-9+)]\s*$";
/// The type of the description, with parameters.
const CONTENT_TYPE: &str = r"^text/(plain|markdown|x-rst)(\s*;[^\r\n]*)?$";
/// The group and the target of an entry point.
const GROUP: &str = r"^\w+(\.\w+)*$";
const TARGET: &str = r"^\s*\w+(\.\w+)*\s*(:\s*\w+(\.\w+)*\s*)?(\[[^\[\]]*\]\s*)?$";
/// The name of an entry point. It may contain almost everything, but must not look like another line of its file.
const ENTRY: &str = r"^[^\s=\[#;]([^=]*[^\s=])?$";

/// What a field contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// Any text in one line.
    Text,
    /// A version.
    Version,
    /// `requires-python`.
    Conditions,
    /// A dependency.
    Requirement,
    /// The name of a package or an extra.
    Name,
    /// A licence expression.
    Licence,
    /// The type of the description.
    ContentType,
    /// The group of entry points.
    EntryGroup,
    /// The name of an entry point.
    EntryName,
    /// The object that an entry point denotes.
    EntryTarget,
}

impl FieldKind {
    /// The pattern, and what to say of a text that does not match it.
    fn rule(self) -> Option<(&'static LazyLock<Regex>, &'static str)> {
        macro_rules! rule {
            ($pattern:expr, $message:literal) => {{
                static PATTERN: LazyLock<Regex> = LazyLock::new(|| pattern($pattern));
                Some((&PATTERN, $message))
            }};
        }
        match self {
            Self::Text => None,
            Self::Version => rule!(VERSION, "not a normalized version, such as `1.2.0rc1`"),
            Self::Conditions => rule!(CONDITIONS, "not a condition for versions, such as `>=3.9`"),
            Self::Requirement => rule!(REQUIREMENT, "not a requirement, such as `numpy>=2`"),
            Self::Name => rule!("^N$", "not a valid name"),
            Self::Licence => rule!(LICENCE, "not a licence expression, such as `MIT OR Apache-2.0`"),
            Self::ContentType => {
                rule!(CONTENT_TYPE, "not one of `text/plain`, `text/markdown` and `text/x-rst`")
            }
            Self::EntryGroup => rule!(GROUP, "not a group of entry points, such as `pytest11`"),
            Self::EntryName => rule!(ENTRY, "not the name of an entry point"),
            Self::EntryTarget => rule!(TARGET, "not an object of a module, such as `demo.cli:main`"),
        }
    }

    /// Checks a text.
    ///
    /// # Errors
    /// The text does not have the form of its field: why.
    pub fn check(self, text: &str) -> Result<(), String> {
        if text.contains(is_line_break) {
            return Err(format!(
                "`{}` has a line break",
                text.split(is_line_break).next().unwrap_or_default()
            ));
        }
        match self.rule() {
            Some((pattern, message)) if !pattern.is_match(text) => Err(format!("`{text}` is {message}")),
            _ => Ok(()),
        }
    }
}

/// The lines of a text, as readers of metadata divide it.
#[must_use]
pub fn lines(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split(is_line_break)).collect()
}

/// What Python's `str.splitlines` takes for the end of a line, and other control characters.
fn is_line_break(c: char) -> bool {
    (c.is_control() && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A pattern in which `C` is a condition and `N` a name.
fn pattern(text: &str) -> Regex {
    let text = text.replace('C', &format!("({CONDITION})")).replace('N', &format!("({NAME})"));
    Regex::new(&text).expect("the patterns are constants")
}

#[cfg(test)]
mod tests {
    use super::FieldKind::{
        Conditions, ContentType, EntryGroup, EntryName, EntryTarget, Licence, Name, Requirement, Text,
        Version,
    };
    use super::lines;

    #[test]
    fn usual_fields_are_accepted() {
        for (kind, texts) in [
            (Text, &["Adds numbers", "größer\tals", ""][..]),
            (Version, &["1", "2024.01.5", "1.0rc1", "1!2.0a3.post1.dev2+cu132.sm90"]),
            (Conditions, &[">=3.9", ">=3.8,<4", "~= 3.10, != 3.10.*", "===3.11"]),
            (
                Requirement,
                &[
                    "numpy",
                    "numpy>=1.2,<3",
                    "torch (>=2.0)",
                    "x[a, b-c] ~=1.0 ; python_version < '3.11' and extra == 'y'",
                    "pip @ https://example.org/pip-1.0.zip#sha1=da9",
                    "nvidia-cuda-runtime-cu12>=12.4,<13",
                    "A.b_c",
                    "demo[]",
                ],
            ),
            (Name, &["a", "scikit-build.core_1"]),
            (Licence, &["MIT", "MIT OR (Apache-2.0 WITH LLVM-exception AND GPL-2.0+)", "LicenseRef-x"]),
            (ContentType, &["text/markdown; charset=UTF-8; variant=GFM", "text/x-rst"]),
            (EntryGroup, &["pytest11", "a.b"]),
            (EntryName, &["demo", "a b", "x-y.z"]),
            (EntryTarget, &["demo", "demo.cli:main", "a.b : c.d [extra, x]"]),
        ] {
            for text in texts {
                assert_eq!(kind.check(text), Ok(()), "{kind:?}");
            }
        }
    }

    #[test]
    fn every_end_of_a_line_is_one() {
        assert_eq!(lines("a\r\nb\rc\n\nd\u{2028}e"), ["a", "b", "c", "", "d", "e"]);
    }

    #[test]
    fn texts_that_no_installer_reads_are_refused() {
        for (kind, texts) in [
            (Text, &["a\nEvil: x", "a\rb", "a\u{85}b", "a\u{2028}b", "\u{1b}[0m", "\0"][..]),
            (Version, &["", "1.0con", "1.0..", "1-2", "v1", "1.0+", "1.0+a..b", "latest"]),
            (Conditions, &["", "3.9", ">=", ">=3.9 <4", "%s", "..", ">=3.9;x"]),
            (Requirement, &["", "-rf", "..", "a b", "numpy>=", "x[", "@ https://x", "a @", "a;", "é"]),
            (Name, &["", "-a", "a-", "a b", "é", "a/b"]),
            (Licence, &["", " ", "..", "-", "MIT/Apache", "%s"]),
            (ContentType, &["", "markdown", "text/html", "text/plain\nX: y"]),
            (EntryGroup, &["", "a]", "a\nb", ".a"]),
            (EntryName, &["", "a=b", "[x]", "# x", " a", "a\n[b]"]),
            (EntryTarget, &["", "a:", "a-b:c", "a:b\nc=d:e", "${{ x }}", "a:b c"]),
        ] {
            for text in texts {
                assert!(kind.check(text).is_err(), "{kind:?} {text:?}");
            }
        }
    }
}
