//! The document of `gpubuild fetch` and `gpubuild update`, and its text.

use gpubuild_host::HostPath;
use gpubuild_plan::plan::Fetch;
use gpubuild_plan::project::source::SourceOrigin;
use gpubuild_plan::project::source::lock::LockedSource;
use gpubuild_sources::{ReadySource, SourceState};
use serde::Serialize;

use super::Schema;

/// A project whose sources were made available.
pub struct ProjectSource {
    /// Folder of gpubuild.toml.
    pub root: HostPath,
    /// Name of the project.
    pub name: String,
    /// Its sources; `None` if they are in a folder of the project.
    pub ready: Option<ReadySource>,
}

/// A tool in gpubuild's cache.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FetchedTool {
    /// `cmake`, `ninja`, `libclang` or `zig`.
    tool: String,
    /// Its version.
    version: String,
    /// The program or library.
    path: String,
}

impl FetchedTool {
    /// A tool that was downloaded to this path, now or earlier.
    #[must_use]
    pub fn new(fetch: &Fetch, path: &HostPath) -> Self {
        Self { tool: fetch.tool.clone(), version: fetch.version.clone(), path: path.to_string() }
    }

    fn line(&self) -> String {
        format!("{} {}: {}", self.tool, self.version, self.path)
    }
}

/// The document of `fetch --json` and `update --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FetchReport {
    schema: Schema,
    /// The project, and the projects under `[[with]]`.
    projects: Vec<FetchedProject>,
    /// The tools in gpubuild's cache that builds use, because this machine lacks them; or those of `--tool`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<FetchedTool>,
}

/// The sources of a project.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FetchedProject {
    /// Its name.
    project: String,
    /// Where the sources come from.
    kind: FetchedKind,
    /// The crate, package, repository or archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// The exact version of a crate or package, or the hash of a commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The version that gpubuild.lock pinned before.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// The sha256 of the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// The folder of the sources.
    folder: String,
    /// Whether they were downloaded by this command.
    fetched: bool,
    /// Whether gpubuild.lock was written.
    lock_written: bool,
}

/// Where sources come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum FetchedKind {
    /// A folder of the project.
    Folder,
    /// A crate.
    Crate,
    /// A Python source distribution.
    Pypi,
    /// A commit of a git repository.
    Git,
    /// An archive.
    Url,
}

impl FetchReport {
    /// The document.
    #[must_use]
    pub fn new(done: &[ProjectSource], tools: Vec<FetchedTool>) -> Self {
        Self {
            schema: Schema { name: "fetch", version: 1 },
            projects: done.iter().map(FetchedProject::new).collect(),
            tools,
        }
    }

    /// One line per project and tool.
    #[must_use]
    pub fn text(&self) -> String {
        let tools = self.tools.iter().map(FetchedTool::line);
        let lines: Vec<String> = self.projects.iter().map(FetchedProject::line).chain(tools).collect();
        lines.join("\n")
    }
}

impl FetchedProject {
    fn new(one: &ProjectSource) -> Self {
        let Some(ready) = &one.ready else {
            return Self {
                project: one.name.clone(),
                kind: FetchedKind::Folder,
                origin: None,
                version: None,
                before: None,
                sha256: None,
                folder: one.root.to_string(),
                fetched: false,
                lock_written: false,
            };
        };
        let (kind, origin) = match &ready.locked.origin {
            SourceOrigin::Crate { name, .. } => (FetchedKind::Crate, name.clone()),
            SourceOrigin::Pypi { name, .. } => (FetchedKind::Pypi, name.clone()),
            SourceOrigin::Git { url, .. } => (FetchedKind::Git, url.clone()),
            SourceOrigin::Url { .. } => (FetchedKind::Url, ready.locked.origin.shown()),
        };
        let version = version(&ready.locked);
        Self {
            project: one.name.clone(),
            kind,
            origin: Some(origin),
            before: ready
                .before
                .as_ref()
                .and_then(self::version)
                .filter(|before| Some(before) != version.as_ref()),
            version,
            sha256: ready.locked.sha256.clone(),
            folder: ready.folder.to_string(),
            fetched: ready.state == SourceState::Fetched,
            lock_written: ready.is_lock_new,
        }
    }

    fn line(&self) -> String {
        let Some(origin) = &self.origin else {
            return format!("{}: the sources are in a folder of the project", self.project);
        };
        let versions = match (&self.before, &self.version) {
            (Some(before), Some(version)) => format!(" {before} -> {version}"),
            (None, Some(version)) => format!(" {version}"),
            _ => String::new(),
        };
        format!("{}: {origin}{versions} in {}", self.project, self.folder)
    }
}

fn version(locked: &LockedSource) -> Option<String> {
    match &locked.origin {
        SourceOrigin::Git { rev, .. } => Some(rev.clone()),
        _ => locked.version.clone(),
    }
}
