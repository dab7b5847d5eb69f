//! Edits of existing files: the members of a workspace and the aliases of cargo. Everything else in a file is kept byte for byte, including
//! comments and white space. No I/O.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

/// Why a file cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceProblem {
    /// The file is not valid TOML, or a value has another type than cargo expects.
    Invalid(String),
    /// The Cargo.toml has no `[workspace]`.
    NoWorkspace,
    /// `exclude` contains the member.
    Excluded(String),
    /// The alias is already defined.
    AliasExists(String),
}

/// Adds members to a Cargo.toml. Returns `None` if all of them are already members.
///
/// # Errors
/// See [`WorkspaceProblem`].
pub fn with_members(text: &str, members: &[String]) -> Result<Option<String>, WorkspaceProblem> {
    let mut document = read(text)?;
    let workspace = document
        .get_mut("workspace")
        .ok_or(WorkspaceProblem::NoWorkspace)?
        .as_table_like_mut()
        .ok_or_else(|| WorkspaceProblem::Invalid("`workspace` is not a table".to_owned()))?;
    if let Some(member) = members.iter().find(|member| is_excluded(&*workspace, member)) {
        return Err(WorkspaceProblem::Excluded(member.clone()));
    }
    let known = patterns(&*workspace, "members");
    let new: Vec<&String> =
        members.iter().filter(|member| !known.iter().any(|pattern| matches(pattern, member))).collect();
    if new.is_empty() {
        return Ok(None);
    }
    let list = workspace
        .entry("members")
        .or_insert_with(|| Item::Value(Value::Array(Array::new())))
        .as_array_mut()
        .ok_or_else(|| WorkspaceProblem::Invalid("`workspace.members` is not a list".to_owned()))?;
    for member in new {
        push(list, member);
    }
    Ok(Some(to_text(&document, text)))
}

/// Whether a Cargo.toml defines a workspace that does not exclude the member.
///
/// # Errors
/// The text is not valid TOML.
pub fn accepts_member(text: &str, member: &str) -> Result<bool, WorkspaceProblem> {
    let document = read(text)?;
    let workspace = document.get("workspace").and_then(Item::as_table_like);
    Ok(workspace.is_some_and(|workspace| !is_excluded(workspace, member)))
}

/// Adds an alias to cargo's configuration.
///
/// # Errors
/// See [`WorkspaceProblem`].
pub fn with_alias(text: &str, name: &str, value: &str) -> Result<String, WorkspaceProblem> {
    let mut document = read(text)?;
    let aliases = document
        .entry("alias")
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
        .ok_or_else(|| WorkspaceProblem::Invalid("`alias` is not a table".to_owned()))?;
    if aliases.contains_key(name) {
        return Err(WorkspaceProblem::AliasExists(name.to_owned()));
    }
    aliases.insert(name, toml_edit::value(value));
    Ok(to_text(&document, text))
}

fn read(text: &str) -> Result<DocumentMut, WorkspaceProblem> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        WorkspaceProblem::Invalid(error.to_string().trim_end().to_owned())
    })
}

/// The text of a document with the line endings of the original, since the parser normalizes CRLF.
fn to_text(document: &DocumentMut, before: &str) -> String {
    let text = document.to_string();
    if before.contains("\r\n") { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text }
}

fn patterns(workspace: &dyn TableLike, key: &str) -> Vec<String> {
    let list = workspace.get(key).and_then(Item::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Whether cargo excludes a folder: it or a parent folder is in `exclude`, and it is not listed in `members`.
fn is_excluded(workspace: &dyn TableLike, member: &str) -> bool {
    let below = |folder: &str| {
        let folder = folder.trim_start_matches("./").trim_end_matches('/');
        member.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let named = patterns(workspace, "members").iter().any(|name| name == member);
    !named && patterns(workspace, "exclude").iter().any(|folder| below(folder))
}

/// Whether a pattern in `members` matches a member. An invalid pattern matches nothing.
fn matches(pattern: &str, member: &str) -> bool {
    let options = glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    glob::Pattern::new(pattern).is_ok_and(|pattern| {
        // `folder/**` includes the folder.
        pattern.matches_with(member, options) || pattern.matches_with(&format!("{member}/"), options)
    })
}

/// Appends a text to a list and keeps the format of the list: on one line or one item per line, with or without a trailing comma.
/// Comments after the last item stay before the new one.
fn push(list: &mut Array, text: &str) {
    let raw =
        |raw: Option<&toml_edit::RawString>| raw.and_then(|raw| raw.as_str()).unwrap_or_default().to_owned();
    let prefix = list.iter().last().map(|last| raw(last.decor().prefix()));
    let mut between = String::new();
    if let Some(last) = list.len().checked_sub(1).and_then(|at| list.get_mut(at)) {
        between = raw(last.decor().suffix());
        last.decor_mut().set_suffix("");
    }
    let trailing = raw(Some(list.trailing()));
    between += &trailing;
    let is_multiline = between.contains('\n');
    let indent =
        prefix.as_deref().and_then(|prefix| prefix.rsplit_once('\n')).map(|(_, indent)| indent.to_owned());
    let before = if is_multiline {
        format!("{}\n{}", between.trim_end(), indent.unwrap_or_else(|| "    ".to_owned()))
    } else if list.is_empty() {
        String::new()
    } else {
        " ".to_owned()
    };
    let mut value = Value::from(text);
    value.decor_mut().set_prefix(before);
    list.push_formatted(value);
    if is_multiline {
        let bracket = between.rsplit_once('\n').map_or("", |(_, bracket)| bracket);
        list.set_trailing(format!("\n{bracket}"));
        list.set_trailing_comma(true);
    } else {
        list.set_trailing(between);
    }
}

/// Whether a Cargo.toml defines the package `name`.
#[must_use]
pub fn is_package(text: &str, name: &str) -> bool {
    let document = read(text).ok();
    let found =
        document.as_ref().and_then(|document| document.get("package")).and_then(|table| table.get("name"));
    found.and_then(Item::as_str) == Some(name)
}
