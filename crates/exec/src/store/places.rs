//! The folders of a build, taken out of texts and put back in: what is stored must not know where it was made.

use gpubuild_host::{HostPath, PathRules, ReadFiles};
use gpubuild_plan::plan::PlannedTree;
use serde_json::Value;

const SOURCE: &str = "{gpubuild:source}";
const BUILD: &str = "{gpubuild:build}";

/// Source and build folder of a tree, in every spelling in which tools write them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    rules: PathRules,
    /// The source folder.
    pub source: HostPath,
    /// The build folder.
    pub build: HostPath,
    /// Spellings with what stands for them, the longest first.
    spellings: Vec<(String, &'static str)>,
}

impl Places {
    /// Those of a tree.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, tree: &PlannedTree) -> Self {
        let mut spellings = Vec::new();
        for (folder, token) in [(&tree.source, SOURCE), (&tree.build, BUILD)] {
            let real = host.canonical(folder).unwrap_or_else(|_| folder.clone());
            for path in [folder.normalized(), real, folder.clone()] {
                spellings.push((path.as_str().trim_end_matches(['/', '\\']).to_owned(), token));
                spellings.push((path.forward_slashes().trim_end_matches('/').to_owned(), token));
            }
        }
        spellings.retain(|(text, _)| !text.is_empty());
        spellings.sort_by(|left, right| (right.0.len(), &right.0).cmp(&(left.0.len(), &left.0)));
        spellings.dedup();
        Self { rules: tree.source.rules(), source: tree.source.clone(), build: tree.build.clone(), spellings }
    }

    /// A text with tokens in place of the folders.
    #[must_use]
    pub fn take_out(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, token) in &self.spellings {
            text = replace_folder(&text, folder, token);
        }
        text
    }

    /// The reverse for these folders.
    #[must_use]
    pub fn put_in(&self, text: &str) -> String {
        text.replace(SOURCE, self.source.as_str()).replace(BUILD, self.build.as_str())
    }

    /// A path that may start with a token.
    #[must_use]
    pub fn path(&self, text: &str) -> HostPath {
        HostPath::new(self.rules, &self.put_in(text))
    }

    /// Whether bytes name one of the folders.
    #[must_use]
    pub fn are_named_in(&self, bytes: &[u8]) -> bool {
        self.spellings.iter().any(|(folder, _)| memchr::memmem::find(bytes, folder.as_bytes()).is_some())
    }

    /// All texts of a value with tokens.
    #[must_use]
    pub fn take_out_of(&self, value: Value) -> Value {
        map_texts(value, &|text| self.take_out(text))
    }

    /// The reverse.
    #[must_use]
    pub fn put_into(&self, value: Value) -> Value {
        map_texts(value, &|text| self.put_in(text))
    }
}

/// Replaces a folder where it ends a path or other names follow, not where its name is the start of a longer one.
fn replace_folder(text: &str, folder: &str, token: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let after = &rest[at + folder.len()..];
        let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '~' | '@');
        // A point may also end a sentence or start `..`; then another part follows or nothing does.
        let same = !after.starts_with(goes_on);
        out.push_str(&rest[..at]);
        out.push_str(if same { token } else { folder });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn map_texts(value: Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(&text)),
        Value::Array(items) => items.into_iter().map(|item| map_texts(item, change)).collect(),
        Value::Object(entries) => {
            entries.into_iter().map(|(name, value)| (change(&name), map_texts(value, change))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(source: &str, build: &str) -> Places {
        let path = |text| HostPath::new(PathRules::Unix, text);
        let mut spellings = vec![(source.to_owned(), SOURCE), (build.to_owned(), BUILD)];
        spellings.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Places { rules: PathRules::Unix, source: path(source), build: path(build), spellings }
    }

    #[test]
    fn folders_are_taken_out_and_put_in_elsewhere() {
        let here = places("/p", "/p/build");
        let there = places("/other/p", "/out");
        for (text, elsewhere) in [
            ("-I/p/include -I/p/build/gen", "-I/other/p/include -I/out/gen"),
            ("/p", "/other/p"),
            ("/pq/x /p-2 /p.old", "/pq/x /p-2 /p.old"),
            ("/p/builder", "/other/p/builder"),
            ("\"/p\";/p:x", "\"/other/p\";/other/p:x"),
        ] {
            assert_eq!(there.put_in(&here.take_out(text)), elsewhere, "{text}");
        }
        assert!(here.are_named_in(b"\0/p/a.c\0") && !there.are_named_in(b"\0/p/a.c\0"));
    }
}
