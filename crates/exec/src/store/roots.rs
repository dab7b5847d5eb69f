//! Replaces the source and build folder in text with placeholders, so that stored data does not depend on the folders of the
//! build that created it.

use std::io;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{HostPath, PathRules, ReadFiles};
use gpubuild_object::scan;
use gpubuild_plan::plan::PlannedTree;
use serde_json::Value;

const SOURCE: &str = "{gpubuild:source}";
const BUILD: &str = "{gpubuild:build}";

/// Source and build folder of a tree, with all spellings that tools use for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRoots {
    rules: PathRules,
    /// The source folder.
    pub source: HostPath,
    /// The build folder.
    pub build: HostPath,
    /// Spellings with their placeholders, longest first.
    spellings: Vec<(String, &'static str)>,
}

impl TreeRoots {
    /// The folders of a tree.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, tree: &PlannedTree) -> Self {
        let mut spellings = Vec::new();
        for (folder, placeholder) in [(&tree.source, SOURCE), (&tree.build, BUILD)] {
            let real = host.canonical(folder).unwrap_or_else(|_| folder.clone());
            for path in [folder.normalized(), real, folder.clone()] {
                spellings.push((path.as_str().trim_end_matches(['/', '\\']).to_owned(), placeholder));
                spellings.push((path.forward_slashes().trim_end_matches('/').to_owned(), placeholder));
            }
        }
        spellings.retain(|(text, _)| !text.is_empty());
        spellings.sort_indirect_by(|left, right| (right.0.len(), &right.0).cmp(&(left.0.len(), &left.0)));
        spellings.dedup();
        Self { rules: tree.source.rules(), source: tree.source.clone(), build: tree.build.clone(), spellings }
    }

    /// Replaces the folders with placeholders.
    #[must_use]
    pub fn with_placeholders(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, placeholder) in &self.spellings {
            text = replace_folder(&text, folder, placeholder);
        }
        text
    }

    /// Replaces placeholders with these folders.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        text.replace(SOURCE, self.source.as_str()).replace(BUILD, self.build.as_str())
    }

    /// Converts text to a path after replacing placeholders.
    #[must_use]
    pub fn path(&self, text: &str) -> HostPath {
        HostPath::new(self.rules, &self.expand(text))
    }

    /// Whether a file contains the path of one of the folders.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn occur_in(&self, host: &dyn ReadFiles, file: &HostPath) -> io::Result<bool> {
        let folders: Vec<&[u8]> = self.spellings.iter().map(|(folder, _)| folder.as_bytes()).collect();
        let mut occur = false;
        scan(host, file, &folders, |_, _| occur = true)?;
        Ok(occur)
    }

    /// Replaces the folders with placeholders in all strings of a JSON value.
    #[must_use]
    pub fn with_placeholders_in(&self, value: Value) -> Value {
        map_texts(value, &|text| self.with_placeholders(text))
    }

    /// Replaces placeholders with these folders in all strings of a JSON value.
    #[must_use]
    pub fn expand_in(&self, value: Value) -> Value {
        map_texts(value, &|text| self.expand(text))
    }
}

/// Replaces a folder where it is a complete path or is followed by further components, but not where its name is a prefix of
/// a longer name.
fn replace_folder(text: &str, folder: &str, placeholder: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(folder) {
        let after = &rest[at + folder.len()..];
        let continues_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '~' | '@');
        // Text such as `/p.` or `/p..` is not replaced either, because a dot may continue the name.
        let same = !after.starts_with(continues_name);
        out.push_str(&rest[..at]);
        out.push_str(if same { placeholder } else { folder });
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
    use gpubuild_host::{Arch, HostInfo as _, Os, RecordedHost};

    use super::*;

    fn roots(source: &str, build: &str) -> TreeRoots {
        let path = |text| HostPath::new(PathRules::Unix, text);
        let mut spellings = vec![(source.to_owned(), SOURCE), (build.to_owned(), BUILD)];
        spellings.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        TreeRoots { rules: PathRules::Unix, source: path(source), build: path(build), spellings }
    }

    #[test]
    fn folders_are_replaced_by_placeholders_and_back() {
        let here = roots("/p", "/p/build");
        let there = roots("/other/p", "/out");
        for (text, expected) in [
            ("-I/p/include -I/p/build/gen", "-I/other/p/include -I/out/gen"),
            ("/p", "/other/p"),
            ("/pq/x /p-2 /p.old", "/pq/x /p-2 /p.old"),
            ("/p/builder", "/other/p/builder"),
            ("\"/p\";/p:x", "\"/other/p\";/other/p:x"),
        ] {
            assert_eq!(there.expand(&here.with_placeholders(text)), expected, "{text}");
        }
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).bytes("/a.o", b"\0/p/a.c\0").build();
        let occur = |roots: &TreeRoots| roots.occur_in(&host, &host.path("/a.o")).unwrap();
        assert!(occur(&here) && !occur(&there));
    }
}
