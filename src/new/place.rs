//! Writes a rendered project into its folder: checks for existing files, extends the surrounding workspace, and undoes everything on an
//! error.

use std::io::ErrorKind;

use gpubuild_host::{FileKind, HostPath, ReadFiles, WriteFiles};

use super::NewError;
use super::render::{self, RenderRequest, RenderedFile};
use super::template::{TemplateCommand, Workspace};
use super::workspace::{self, WorkspaceProblem};

/// The file with the aliases of a workspace.
const CARGO_CONFIG: &str = ".cargo/config.toml";

/// A project with everything that will be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedProject {
    /// The id of the template.
    pub template: &'static str,
    /// The name of the crate.
    pub name: String,
    /// The folder of the project.
    pub root: HostPath,
    /// The new files.
    pub files: Vec<RenderedFile>,
    /// Changes of existing files and of cargo's configuration. They are written last, so that an interruption leaves the workspace usable.
    pub edits: Vec<Edit>,
    /// The commands that build and run the project.
    pub commands: Vec<TemplateCommand>,
}

impl PlacedProject {
    /// The name and the version requirement of a crate of gpubuild that the project takes from the registry.
    #[must_use]
    pub fn published_crate(&self) -> Option<(String, String)> {
        let cargo = self.files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
        cargo.flat_map(|file| file.text.lines()).find_map(|line| {
            let (name, version) = line.split_once(" = ")?;
            let version = version.trim().strip_prefix('"')?.strip_suffix('"')?;
            name.starts_with("gpubuild-").then(|| (name.to_owned(), version.to_owned()))
        })
    }
}

/// A change of a file, or a new configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// The path of the file.
    pub path: HostPath,
    /// The current content; `None` if the file does not exist.
    pub before: Option<String>,
    /// The new content.
    pub after: String,
    /// A summary of the change: `members xtask`.
    pub what: String,
}

/// Computes everything that will be written, without writing it.
///
/// # Errors
/// A file already exists, or the workspace cannot be extended.
pub fn prepare(
    host: &dyn ReadFiles,
    root: &HostPath,
    request: &RenderRequest<'_>,
) -> Result<PlacedProject, NewError> {
    request.check()?;
    let mut files = render::files(request);
    let edited = request.template.about.workspace.as_ref().map(|_| CARGO_CONFIG);
    let edits = match &request.template.about.workspace {
        Some(table) => {
            files
                .retain(|file| !(table.optional.contains(&file.path) && host.exists(&root.join(&file.path))));
            workspace_edits(host, root, request, table)?
        }
        None => membership_edit(host, root)?.into_iter().collect(),
    };
    let mut own = files.iter().map(|file| file.path.as_str()).chain(edited);
    if let Some(path) = own.find_map(|path| linked_folder(host, root, path)) {
        return Err(NewError::Link { path });
    }
    let existing: Vec<String> = files.iter().filter_map(|file| obstacle(host, root, &file.path)).collect();
    if !existing.is_empty() {
        let mut paths = existing;
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

/// The path that prevents a file from being written: the file itself, or a file in place of one of its folders.
fn obstacle(host: &dyn ReadFiles, root: &HostPath, path: &str) -> Option<String> {
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

/// The first folder between the root and a file that is a link to another folder. Nothing can be written below other links.
fn linked_folder(host: &dyn ReadFiles, root: &HostPath, path: &str) -> Option<String> {
    let mut folders = path.match_indices('/').map(|(end, _)| root.join(&path[..end]));
    folders
        .find(|folder| host.read_link(folder).is_ok() && host.is_dir(folder))
        .map(|folder| folder.to_string())
}

/// The edits that add members and aliases to a workspace.
fn workspace_edits(
    host: &dyn ReadFiles,
    root: &HostPath,
    request: &RenderRequest<'_>,
    table: &Workspace,
) -> Result<Vec<Edit>, NewError> {
    let cargo = root.join("Cargo.toml");
    let Some(text) = read(host, &cargo)? else {
        return Err(NewError::Workspace {
            why: format!(
                "template `{}` extends a workspace, but `{cargo}` does not exist",
                request.template.id
            ),
            hint: nearest_workspace(host, root).map_or_else(
                || "create the workspace first, or specify its folder".to_owned(),
                |found| format!("specify the folder of the workspace: {found}"),
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
    // If both files exist, cargo reads the one without an extension.
    let old_path = root.join(".cargo/config");
    let path = if host.is_file(&old_path) { old_path } else { root.join(CARGO_CONFIG) };
    let before = read(host, &path)?;
    let mut after = before.clone().unwrap_or_default();
    for (name, value) in &table.alias {
        after = workspace::with_alias(&after, name, value).map_err(|problem| refused(&path, &problem))?;
    }
    let names: Vec<&str> = table.alias.keys().map(String::as_str).collect();
    edits.push(Edit { path, before, after, what: format!("alias {}", names.join(", ")) });
    Ok(edits)
}

/// The edit that makes the package a member of the workspace around it, as `cargo new` does.
fn membership_edit(host: &dyn ReadFiles, root: &HostPath) -> Result<Option<Edit>, NewError> {
    let mut folder = root.parent();
    while let Some(here) = folder {
        let cargo = here.join("Cargo.toml");
        let member = root.forward_slashes();
        let member = member.strip_prefix(&here.forward_slashes()).unwrap_or(&member).trim_start_matches('/');
        if let Some(text) = read(host, &cargo)?
            && workspace::accepts_member(&text, member).map_err(|problem| refused(&cargo, &problem))?
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

/// The nearest parent folder that is a workspace.
fn nearest_workspace(host: &dyn ReadFiles, root: &HostPath) -> Option<HostPath> {
    let mut folder = root.parent();
    while let Some(here) = folder {
        let text = host.read_text(&here.join("Cargo.toml")).unwrap_or_default();
        if workspace::accepts_member(&text, "").unwrap_or(false) {
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
            "fix the file; `cargo metadata` reports the same error".to_owned(),
        ),
        WorkspaceProblem::NoWorkspace => (
            format!("`{path}` has no `[workspace]`"),
            "add a line `[workspace]` to it, or specify the folder of the workspace".to_owned(),
        ),
        WorkspaceProblem::Excluded(member) => (
            format!("`exclude` in `{path}` excludes `{member}`"),
            "remove it from `exclude`, or set another crate name with `--name`".to_owned(),
        ),
        WorkspaceProblem::AliasExists(alias) => (
            format!("`{path}` already defines the alias `{alias}`"),
            "remove the alias, or keep the existing task runner".to_owned(),
        ),
    };
    NewError::Workspace { why, hint }
}

/// Reads a text file; `None` if it does not exist.
fn read(host: &dyn ReadFiles, path: &HostPath) -> Result<Option<String>, NewError> {
    let failed = |kind: ErrorKind, why: &str| NewError::File {
        message: format!("failed to read `{path}`: {why}"),
        kind,
        undone: true,
    };
    match host.read(path) {
        Ok(bytes) => {
            String::from_utf8(bytes).map(Some).map_err(|_| failed(ErrorKind::InvalidData, "it is not UTF-8"))
        }
        Err(_) if !host.exists(path) => Ok(None),
        Err(error) => Err(failed(error.kind(), &error.to_string())),
    }
}

/// Writes the project. On an error, undoes everything that was written.
///
/// # Errors
/// [`NewError::File`].
pub fn write(host: &dyn WriteFiles, project: &PlacedProject) -> Result<(), NewError> {
    let new = project.files.iter().map(|file| (project.root.join(&file.path), None, file.text.as_str()));
    let changed =
        project.edits.iter().map(|edit| (edit.path.clone(), edit.before.as_deref(), edit.after.as_str()));
    let mut done: Vec<(HostPath, Option<&str>)> = Vec::new();
    for (path, before, text) in new.chain(changed) {
        // Write to the target of a symbolic link, so that the link is kept.
        let path = if before.is_some() { host.canonical(&path).unwrap_or(path) } else { path };
        let first = if before.is_some() { path.clone() } else { first_missing(host, &path) };
        done.push((first, before));
        if let Err(error) = host.write(&path, text.as_bytes()) {
            let undone = roll_back(host, &done);
            return Err(NewError::File { message: error.to_string(), kind: error.kind(), undone });
        }
    }
    Ok(())
}

/// The file, or the topmost of its folders that does not exist yet.
fn first_missing(host: &dyn ReadFiles, path: &HostPath) -> HostPath {
    let mut first = path.clone();
    while let Some(parent) =
        first.parent().filter(|parent| !host.exists(parent) && host.read_link(parent).is_err())
    {
        first = parent;
    }
    first
}

/// Undoes the changes in reverse order. Returns whether all could be undone.
fn roll_back(host: &dyn WriteFiles, done: &[(HostPath, Option<&str>)]) -> bool {
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
