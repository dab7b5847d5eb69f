//! Places a rendered project: checks collisions and the surrounding workspace, and writes everything or nothing.

use gpubuild_host::{FileKind, HostPath, ReadFiles, WriteFiles};

use super::NewError;
use super::render::{self, RenderRequest, RenderedFile};
use super::template::{TemplateCommand, Workspace};
use super::workspace::{self, WorkspaceProblem};

/// Everything that will be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedProject {
    /// The template.
    pub template: &'static str,
    /// The crate's name.
    pub name: String,
    /// The folder.
    pub root: HostPath,
    /// New files.
    pub files: Vec<RenderedFile>,
    /// Changes of files that are there, and cargo's configuration. They are written last, so that a kill on the way leaves a
    /// workspace that works.
    pub edits: Vec<Edit>,
    /// What builds and runs it.
    pub commands: Vec<TemplateCommand>,
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub path: HostPath,
    /// What is in it, if it is there.
    pub before: Option<String>,
    /// What will be in it.
    pub after: String,
    /// What changes, in a few words.
    pub what: String,
}

/// Examines the folder without writing.
///
/// # Errors
/// A file of the same name exists, or the workspace cannot take the new crates.
pub fn gather(
    host: &dyn ReadFiles,
    root: &HostPath,
    request: &RenderRequest<'_>,
) -> Result<PlacedProject, NewError> {
    request.check()?;
    let mut files = render::files(request);
    let edits = match &request.template.about.workspace {
        Some(table) => {
            files
                .retain(|file| !(table.optional.contains(&file.path) && host.exists(&root.join(&file.path))));
            into_workspace(host, root, request, table)?
        }
        None => around(host, root)?.into_iter().collect(),
    };
    let taken: Vec<String> = files.iter().filter_map(|file| in_the_way(host, root, &file.path)).collect();
    if !taken.is_empty() {
        let mut paths = taken;
        paths.dedup();
        return Err(NewError::Exists { paths });
    }
    Ok(PlacedProject {
        template: request.template.id,
        name: request.name.to_owned(),
        root: root.clone(),
        files,
        edits,
        commands: request.template.about.command.clone(),
    })
}

/// What keeps a file from being written: itself, or a file where a folder has to be.
fn in_the_way(host: &dyn ReadFiles, root: &HostPath, path: &str) -> Option<String> {
    let target = root.join(path);
    if host.exists(&target) || host.read_link(&target).is_ok() {
        return Some(target.to_string());
    }
    let mut folder = target.parent();
    while let Some(here) = folder {
        match host.stat(&here) {
            Ok(stat) if stat.kind == FileKind::Directory => return None,
            Ok(_) => return Some(here.to_string()),
            Err(_) => folder = here.parent(),
        }
    }
    None
}

/// The edits of a workspace that gets members and aliases.
fn into_workspace(
    host: &dyn ReadFiles,
    root: &HostPath,
    request: &RenderRequest<'_>,
    table: &Workspace,
) -> Result<Vec<Edit>, NewError> {
    let cargo = root.join("Cargo.toml");
    let Some(text) = read(host, &cargo)? else {
        return Err(NewError::Workspace {
            why: format!(
                "template `{}` extends a workspace, and `{cargo}` does not exist",
                request.template.id
            ),
            hint: above(host, root).map_or_else(
                || "make the workspace first, or name its folder".to_owned(),
                |found| format!("name the folder of the workspace: {found}"),
            ),
        });
    };
    let members: Vec<String> = table.members.iter().map(|member| request.fill(member)).collect();
    let mut edits = Vec::new();
    match workspace::with_members(&text, &members) {
        Ok(None) => {}
        Ok(Some(after)) => edits.push(Edit {
            path: cargo,
            before: Some(text),
            after,
            what: format!("members {}", members.join(", ")),
        }),
        Err(problem) => return Err(refused(&cargo, &problem)),
    }
    if table.alias.is_empty() {
        return Ok(edits);
    }
    // Where both are there cargo reads the old name.
    let old = root.join(".cargo/config");
    let path = if host.is_file(&old) { old } else { root.join(".cargo/config.toml") };
    let before = read(host, &path)?;
    let mut after = before.clone().unwrap_or_default();
    for (name, value) in &table.alias {
        after = workspace::with_alias(&after, name, value).map_err(|problem| refused(&path, &problem))?;
    }
    let names: Vec<&str> = table.alias.keys().map(String::as_str).collect();
    edits.push(Edit { path, before, after, what: format!("alias {}", names.join(", ")) });
    Ok(edits)
}

/// A new package below a workspace becomes its member, as with `cargo new`.
fn around(host: &dyn ReadFiles, root: &HostPath) -> Result<Option<Edit>, NewError> {
    let mut folder = root.parent();
    while let Some(here) = folder {
        let cargo = here.join("Cargo.toml");
        let member = root.forward_slashes();
        let member = member.strip_prefix(&here.forward_slashes()).unwrap_or(&member).trim_start_matches('/');
        if let Some(text) = read(host, &cargo)?
            && workspace::takes(&text, member).map_err(|problem| refused(&cargo, &problem))?
        {
            let after = workspace::with_members(&text, &[member.to_owned()])
                .map_err(|problem| refused(&cargo, &problem))?;
            let what = format!("member {member}");
            return Ok(after.map(|after| Edit { path: cargo, before: Some(text), after, what }));
        }
        folder = here.parent();
    }
    Ok(None)
}

/// The nearest folder above with a workspace.
fn above(host: &dyn ReadFiles, root: &HostPath) -> Option<HostPath> {
    let mut folder = root.parent();
    while let Some(here) = folder {
        let text = host.read_text(&here.join("Cargo.toml")).unwrap_or_default();
        if workspace::takes(&text, "").unwrap_or(false) {
            return Some(here);
        }
        folder = here.parent();
    }
    None
}

fn refused(path: &HostPath, problem: &WorkspaceProblem) -> NewError {
    let (why, hint) = match problem {
        WorkspaceProblem::Invalid(message) => (
            format!("failed to read `{path}`: {message}"),
            "correct it first: `cargo metadata` says the same".to_owned(),
        ),
        WorkspaceProblem::NoWorkspace => (
            format!("`{path}` has no `[workspace]`"),
            "add a line `[workspace]` to it, or name the folder of the workspace".to_owned(),
        ),
        WorkspaceProblem::Excluded(member) => (
            format!("`exclude` in `{path}` leaves out `{member}`"),
            "take it out of `exclude`, or name another crate with `--name`".to_owned(),
        ),
        WorkspaceProblem::Taken(alias) => (
            format!("`{path}` has the alias `{alias}` already"),
            "take the alias away, or keep the task runner that is there".to_owned(),
        ),
    };
    NewError::Workspace { why, hint }
}

/// A text file, if it exists. Files that are not text are not edited.
fn read(host: &dyn ReadFiles, path: &HostPath) -> Result<Option<String>, NewError> {
    let failed = |message: String| NewError::File { message, undone: true };
    match host.read(path) {
        Ok(bytes) => String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| failed(format!("failed to read `{path}`: it is not UTF-8"))),
        Err(_) if !host.exists(path) => Ok(None),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Writes all of it. If something fails, what was written is taken back.
///
/// # Errors
/// [`NewError::File`].
pub fn write(host: &dyn WriteFiles, made: &PlacedProject) -> Result<(), NewError> {
    let new = made.files.iter().map(|file| (made.root.join(&file.path), None, file.text.as_str()));
    let changed =
        made.edits.iter().map(|edit| (edit.path.clone(), edit.before.as_deref(), edit.after.as_str()));
    let mut done: Vec<(HostPath, Option<&str>)> = Vec::new();
    for (path, before, text) in new.chain(changed) {
        // A link to a Cargo.toml stays one.
        let path = if before.is_some() { host.canonical(&path).unwrap_or(path) } else { path };
        let first = if before.is_some() { path.clone() } else { first_missing(host, &path) };
        done.push((first, before));
        if let Err(error) = host.write(&path, text.as_bytes()) {
            let undone = take_back(host, &done);
            return Err(NewError::File { message: error.to_string(), undone });
        }
    }
    Ok(())
}

/// The file, or the topmost of its folders that is not there yet.
fn first_missing(host: &dyn ReadFiles, path: &HostPath) -> HostPath {
    let mut first = path.clone();
    while let Some(above) =
        first.parent().filter(|above| !host.exists(above) && host.read_link(above).is_err())
    {
        first = above;
    }
    first
}

fn take_back(host: &dyn WriteFiles, done: &[(HostPath, Option<&str>)]) -> bool {
    let mut all = true;
    for (path, before) in done.iter().rev() {
        let undone = match before {
            Some(text) => host.write(path, text.as_bytes()),
            None => host.remove(path),
        };
        all &= undone.is_ok();
    }
    all
}
