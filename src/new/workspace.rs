//! Edits of files that are there: members of a workspace, aliases of cargo. What is not changed stays byte for byte,
//! comments and white space too. Pure.

use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

/// Why a file cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceProblem {
    /// It is not TOML, or not in the form that cargo reads.
    Invalid(String),
    /// It is a Cargo.toml without `[workspace]`.
    NoWorkspace,
    /// `exclude` leaves the member out.
    Excluded(String),
    /// The alias is there already.
    Taken(String),
}

/// A Cargo.toml with further members. `None`: they are members already.
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
    Ok(Some(written(&document, text)))
}

/// Whether a Cargo.toml is that of a workspace, and one that takes this member.
///
/// # Errors
/// It is not TOML.
pub fn takes(text: &str, member: &str) -> Result<bool, WorkspaceProblem> {
    let document = read(text)?;
    let workspace = document.get("workspace").and_then(Item::as_table_like);
    Ok(workspace.is_some_and(|workspace| !is_excluded(workspace, member)))
}

/// Cargo's configuration with a further alias.
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
        return Err(WorkspaceProblem::Taken(name.to_owned()));
    }
    aliases.insert(name, toml_edit::value(value));
    Ok(written(&document, text))
}

fn read(text: &str) -> Result<DocumentMut, WorkspaceProblem> {
    text.parse().map_err(|error: toml_edit::TomlError| {
        WorkspaceProblem::Invalid(error.to_string().trim_end().to_owned())
    })
}

/// The text of a document with the line ends of the one that was read: the parser drops those of Windows.
fn written(document: &DocumentMut, before: &str) -> String {
    let text = document.to_string();
    if before.contains("\r\n") { text.replace("\r\n", "\n").replace('\n', "\r\n") } else { text }
}

fn patterns(workspace: &dyn TableLike, key: &str) -> Vec<String> {
    let list = workspace.get(key).and_then(Item::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Cargo leaves out folders below an excluded one, unless they are members by name.
fn is_excluded(workspace: &dyn TableLike, member: &str) -> bool {
    let below = |folder: &str| {
        let folder = folder.trim_start_matches("./").trim_end_matches('/');
        member.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let named = patterns(workspace, "members").iter().any(|name| name == member);
    !named && patterns(workspace, "exclude").iter().any(|folder| below(folder))
}

/// Cargo's patterns, as far as `*` and `**` go. One that is not understood does not match: then the member is named, too,
/// which cargo does not mind.
fn matches(pattern: &str, member: &str) -> bool {
    fn parts(pattern: &[&str], member: &[&str]) -> bool {
        match (pattern.split_first(), member.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), None) => parts(rest, member),
            (Some((&"**", rest)), Some((_, further))) => parts(rest, member) || parts(pattern, further),
            (Some((part, rest)), Some((name, further))) => word(part, name) && parts(rest, further),
            _ => false,
        }
    }
    fn word(pattern: &str, name: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == name,
            Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
                (0..=name.len()).any(|at| name.get(at..).is_some_and(|name| word(rest, name)))
            }),
        }
    }
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    parts(&pattern.split('/').collect::<Vec<_>>(), &member.split('/').collect::<Vec<_>>())
}

/// Adds a text to a list in the form that the list has: on one line, or one on each line, with or without a comma at the end.
/// What is between the last one and the bracket, comments say, stays before the new one.
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
    let lines = between.contains('\n');
    let indent =
        prefix.as_deref().and_then(|prefix| prefix.rsplit_once('\n')).map(|(_, indent)| indent.to_owned());
    let before = if lines {
        // Comments after the last member stay in place; the new member gets a separate line.
        format!("{}\n{}", between.trim_end(), indent.unwrap_or_else(|| "    ".to_owned()))
    } else if list.is_empty() {
        String::new()
    } else {
        " ".to_owned()
    };
    let mut value = Value::from(text);
    value.decor_mut().set_prefix(before);
    list.push_formatted(value);
    if lines {
        let bracket = between.rsplit_once('\n').map_or("", |(_, bracket)| bracket);
        list.set_trailing(format!("\n{bracket}"));
        list.set_trailing_comma(true);
    } else {
        list.set_trailing(between);
    }
}

/// Whether a Cargo.toml is the one of this package.
#[must_use]
pub fn is_package(text: &str, name: &str) -> bool {
    let document = read(text).ok();
    let found =
        document.as_ref().and_then(|document| document.get("package")).and_then(|table| table.get("name"));
    found.and_then(Item::as_str) == Some(name)
}
