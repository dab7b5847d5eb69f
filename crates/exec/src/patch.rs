//! Unified diffs, applied to text. Pure: whoever calls brings the files and writes the results.

use std::collections::BTreeMap;

use diffy::patch_set::{FileOperation, ParseOptions, PatchSet};

/// Why a patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no unified diff.
    #[error("it is no unified diff: {0}")]
    Malformed(String),
    /// It changes nothing.
    #[error("it holds no change")]
    Empty,
    /// It renames, copies or has binary content.
    #[error("it {what} `{file}`, and only text that is changed, added or removed is supported")]
    Unsupported {
        /// `renames`, `changes the bytes of`.
        what: &'static str,
        /// The file.
        file: String,
    },
    /// It leads out of the source folder.
    #[error("it names `{0}`, which is not inside the source folder")]
    Outside(String),
    /// The file is not there, or is no text.
    #[error("there is no text file `{0}` in the sources")]
    NoFile(String),
    /// Its lines are not the ones that the patch was made for.
    #[error("hunk {hunk} (line {line}) does not fit `{file}`")]
    Hunk {
        /// The file.
        file: String,
        /// Counted from one.
        hunk: usize,
        /// Line in the original file.
        line: usize,
    },
}

/// What a patch did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchResult {
    /// The text is changed.
    Applied,
    /// The sources have the change already.
    Already,
}

/// Files by path below the source folder; `None` for one that is not there.
pub type PatchedFiles = BTreeMap<String, Option<String>>;

/// One file of a patch.
struct FileChange<'a> {
    path: String,
    before: bool,
    after: bool,
    patch: diffy::Patch<'a, str>,
}

/// The files that a patch speaks of, by the path below the source folder under which `exists` finds them.
///
/// # Errors
/// It is no patch, or one of another kind.
pub fn files(patch: &str, exists: &dyn Fn(&str) -> bool) -> Result<Vec<String>, PatchError> {
    Ok(changes(patch, exists)?.into_iter().map(|change| change.path).collect())
}

/// Applies a patch to the files that it speaks of: to all of them or to none.
///
/// # Errors
/// It is no patch, or the files are not the ones that it was made for.
pub fn apply(patch: &str, files: &mut PatchedFiles) -> Result<PatchResult, PatchError> {
    let there = |path: &str| files.get(path).is_some_and(Option::is_some);
    let changes = changes(patch, &there)?;
    let forward = changes.iter().map(|change| one(change, files, &change.patch, change.before, change.after));
    match forward.collect::<Result<Vec<_>, _>>() {
        Ok(results) => {
            files.extend(results);
            Ok(PatchResult::Applied)
        }
        // What can be taken back is already there.
        Err(error) => {
            let back = |change: &FileChange<'_>| {
                one(change, files, &change.patch.reverse(), change.after, change.before).is_ok()
            };
            if changes.iter().all(back) { Ok(PatchResult::Already) } else { Err(error) }
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
        // The crate tells the number in its message only.
        let said = error.to_string();
        let hunk = said.rsplit('#').next().and_then(|number| number.parse().ok()).unwrap_or(1);
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
            return unsupported("changes the bytes of", &name);
        };
        found.push(FileChange { path: name, before, after, patch });
    }
    if found.is_empty() { Err(PatchError::Empty) } else { Ok(found) }
}

/// The path below the source folder: with or without its first part, `a/` or `b/`.
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
Guard it.

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
    fn changes_are_made_even_if_lines_moved() {
        let mut tree = files("zero\none\ntwo\nthree\n", None);
        assert_eq!(apply(PATCH, &mut tree), Ok(PatchResult::Applied));
        assert_eq!(tree["src/x.c"].as_deref(), Some("zero\none\n#ifdef A\ntwo\n#endif\nthree\n"));
        assert_eq!(tree["new.h"].as_deref(), Some("hello\n"));
        // Once more is no error.
        let before = tree.clone();
        assert_eq!(apply(PATCH, &mut tree), Ok(PatchResult::Already));
        assert_eq!(tree, before);
    }

    #[test]
    fn what_does_not_fit_changes_nothing_and_names_the_place() {
        let mut tree = files("one\n2\nthree\n", None);
        let before = tree.clone();
        let error = apply(PATCH, &mut tree).unwrap_err();
        assert_eq!(error.to_string(), "hunk 1 (line 1) does not fit `src/x.c`");
        assert_eq!(tree, before);
        let mut tree = files("one\ntwo\nthree\n", Some("other\n"));
        assert_eq!(apply(PATCH, &mut tree), Err(PatchError::NoFile("new.h".into())));
    }

    #[test]
    fn git_diffs_are_read_and_hostile_ones_refused() {
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
