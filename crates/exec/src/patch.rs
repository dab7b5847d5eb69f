//! Applies unified diffs to text. Pure: the caller reads the files and writes the results.

use std::collections::BTreeMap;

use diffy::patch_set::{FileOperation, ParseOptions, PatchSet};

/// Why a patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not a unified diff.
    #[error("it is not a unified diff: {0}")]
    Malformed(String),
    /// The patch contains no changes.
    #[error("it contains no changes")]
    Empty,
    /// The patch renames or copies a file, or changes a binary file.
    #[error("it {what} `{file}`, but only changing, adding and removing text files is supported")]
    Unsupported {
        /// The operation: `renames`, `copies`, `changes the binary file`.
        what: &'static str,
        /// The file.
        file: String,
    },
    /// The patch names a file outside the source folder.
    #[error("it names `{0}`, which is outside the source folder")]
    Outside(String),
    /// A file to change is missing or not text, or a file to create already exists.
    #[error("the text file `{0}` is missing, or already exists although the patch adds it")]
    NoFile(String),
    /// The lines of a file do not match a hunk.
    #[error("hunk {hunk} (line {line}) does not match `{file}`")]
    Hunk {
        /// The file.
        file: String,
        /// Number of the hunk, from 1.
        hunk: usize,
        /// First line of the hunk in the original file.
        line: usize,
    },
}

/// The result of applying a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchResult {
    /// The files were changed.
    Applied,
    /// The files already contain the changes.
    AlreadyApplied,
}

/// Contents of files by path below the source folder; `None` for a file that does not exist.
pub type PatchedFiles = BTreeMap<String, Option<String>>;

/// The changes of a patch to one file. `before` and `after` tell whether the file exists before and after the change.
struct FileChange<'a> {
    path: String,
    before: bool,
    after: bool,
    patch: diffy::Patch<'a, str>,
}

/// Returns the paths of the files that a patch names, below the source folder. `exists` decides whether a prefix such as
/// `a/` is removed.
///
/// # Errors
/// The patch is malformed or has unsupported changes.
pub fn files(patch: &str, exists: &dyn Fn(&str) -> bool) -> Result<Vec<String>, PatchError> {
    Ok(changes(patch, exists)?.into_iter().map(|change| change.path).collect())
}

/// Applies a patch to all files that it names, or to none of them.
///
/// # Errors
/// The patch is malformed, or does not match the files.
pub fn apply(patch: &str, files: &mut PatchedFiles) -> Result<PatchResult, PatchError> {
    let exists = |path: &str| files.get(path).is_some_and(Option::is_some);
    let changes = changes(patch, &exists)?;
    let forward = changes.iter().map(|change| one(change, files, &change.patch, change.before, change.after));
    match forward.collect::<Result<Vec<_>, _>>() {
        Ok(results) => {
            files.extend(results);
            Ok(PatchResult::Applied)
        }
        // If the patch can be reverted, it is already applied.
        Err(error) => {
            let back = |change: &FileChange<'_>| {
                one(change, files, &change.patch.reverse(), change.after, change.before).is_ok()
            };
            if changes.iter().all(back) { Ok(PatchResult::AlreadyApplied) } else { Err(error) }
        }
    }
}

fn one(
    change: &FileChange<'_>,
    files: &PatchedFiles,
    patch: &diffy::Patch<'_, str>,
    before: bool,
    after: bool,
) -> Result<(String, Option<String>), PatchError> {
    let name = &change.path;
    let text = match (files.get(name).and_then(Option::as_deref), before) {
        (Some(text), true) => text,
        (None, false) => "",
        (None, true) | (Some(_), false) => return Err(PatchError::NoFile(name.clone())),
    };
    let patched = diffy::apply(text, patch).map_err(|error| {
        // diffy reports the number of the hunk only in its message.
        let message = error.to_string();
        let hunk = message.rsplit('#').next().and_then(|number| number.parse().ok()).unwrap_or(1);
        let line = patch.hunks().get(hunk - 1).map_or(0, |hunk| hunk.old_range().start());
        PatchError::Hunk { file: name.clone(), hunk, line }
    })?;
    Ok((name.clone(), after.then_some(patched)))
}

fn changes<'a>(diff: &'a str, exists: &dyn Fn(&str) -> bool) -> Result<Vec<FileChange<'a>>, PatchError> {
    let is_git = diff.lines().any(|line| line.starts_with("diff --git "));
    let options = if is_git { ParseOptions::gitdiff() } else { ParseOptions::unidiff() };
    let mut found = Vec::new();
    for file in PatchSet::parse(diff, options) {
        let file = file.map_err(|error| PatchError::Malformed(error.to_string()))?;
        let unsupported = |what, file: &str| Err(PatchError::Unsupported { what, file: file.to_owned() });
        let (name, before, after) = match file.operation() {
            FileOperation::Create(name) => (name.to_string(), false, true),
            FileOperation::Delete(name) => (name.to_string(), true, false),
            FileOperation::Modify { modified, .. } => (modified.to_string(), true, true),
            FileOperation::Rename { from, .. } => return unsupported("renames", from),
            FileOperation::Copy { from, .. } => return unsupported("copies", from),
        };
        let name = below(&name, exists)?;
        let Some(patch) = file.into_patch().as_text().cloned() else {
            return unsupported("changes the binary file", &name);
        };
        found.push(FileChange { path: name, before, after, patch });
    }
    if found.is_empty() { Err(PatchError::Empty) } else { Ok(found) }
}

/// Returns the path below the source folder. Removes the first component if it is `a/` or `b/`, or if the file exists only
/// without it.
fn below(path: &str, exists: &dyn Fn(&str) -> bool) -> Result<String, PatchError> {
    let outside = path.starts_with('/') || path.contains('\\') || path.split('/').any(|part| part == "..");
    if outside {
        return Err(PatchError::Outside(path.to_owned()));
    }
    let short = path.split_once('/').map_or(path, |(_, rest)| rest);
    let is_prefixed = path.starts_with("a/") || path.starts_with("b/");
    Ok(if (is_prefixed && !exists(path)) || (exists(short) && !exists(path)) { short } else { path }
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
Adds a guard.

--- a/src/x.c
+++ b/src/x.c
@@ -1,3 +1,5 @@
 one
+#ifdef A
 two
+#endif
 three
--- /dev/null
+++ b/new.h
@@ -0,0 +1 @@
+hello
";

    fn files(text: &str, new: Option<&str>) -> PatchedFiles {
        PatchedFiles::from([
            ("src/x.c".to_owned(), Some(text.to_owned())),
            ("new.h".to_owned(), new.map(str::to_owned)),
        ])
    }

    #[test]
    fn changes_are_applied_even_if_lines_moved() {
        let mut tree = files("zero\none\ntwo\nthree\n", None);
        assert_eq!(apply(PATCH, &mut tree), Ok(PatchResult::Applied));
        assert_eq!(tree["src/x.c"].as_deref(), Some("zero\none\n#ifdef A\ntwo\n#endif\nthree\n"));
        assert_eq!(tree["new.h"].as_deref(), Some("hello\n"));
        // Applying the patch again is not an error.
        let before = tree.clone();
        assert_eq!(apply(PATCH, &mut tree), Ok(PatchResult::AlreadyApplied));
        assert_eq!(tree, before);
    }

    #[test]
    fn mismatch_changes_nothing_and_names_the_hunk() {
        let mut tree = files("one\n2\nthree\n", None);
        let before = tree.clone();
        let error = apply(PATCH, &mut tree).unwrap_err();
        assert_eq!(error.to_string(), "hunk 1 (line 1) does not match `src/x.c`");
        assert_eq!(tree, before);
        let mut tree = files("one\ntwo\nthree\n", Some("other\n"));
        assert_eq!(apply(PATCH, &mut tree), Err(PatchError::NoFile("new.h".into())));
    }

    #[test]
    fn git_diffs_are_applied_and_unsafe_ones_rejected() {
        let git = "diff --git a/y b/y\nindex 1..2 100644\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
        let mut tree = PatchedFiles::from([("y".to_owned(), Some("a\n".to_owned()))]);
        assert_eq!(apply(git, &mut tree), Ok(PatchResult::Applied));
        assert_eq!(tree["y"].as_deref(), Some("b\n"));
        let out = git.replace("b/y", "b/../../etc/y");
        assert!(
            matches!(apply(&out, &mut tree), Err(PatchError::Outside(_))),
            "{:?}",
            apply(&out, &mut tree)
        );
        assert!(apply("", &mut tree).is_err());
        assert!(apply("not a patch\n", &mut tree).is_err());
        let rename = "diff --git a/y b/z\nsimilarity index 100%\nrename from y\nrename to z\n";
        assert!(matches!(apply(rename, &mut tree), Err(PatchError::Unsupported { .. })));
    }
}
