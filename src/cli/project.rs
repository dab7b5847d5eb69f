//! The project and the backends that a command works on.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_host::{HostInfo, HostPath, ReadFiles};
use gpubuild_plan::plan::request::{self, BackendRequest};
use gpubuild_plan::project::{self, Project, SourceNeed};
use gpubuild_release::user::{self, Settings, UserFileError};

use super::{CommandContext, Exit, Failure};

/// Loads the project in `folder`, or in the current folder if that is `None`. Also searches the parent folders.
pub fn load_project(context: &CommandContext<'_>, folder: Option<&str>) -> Result<Project, Failure> {
    let file = project_file(context, folder)?;
    project::load(context.host, &file).map_err(|error| Failure::of(&error, Exit::Usage))
}

/// Like [`load_project`], for commands that neither plan nor build: the sources may not have been fetched yet.
pub fn open_project(context: &CommandContext<'_>, folder: Option<&str>) -> Result<Project, Failure> {
    let file = project_file(context, folder)?;
    project::load_for(context.host, &file, SourceNeed::Optional)
        .map_err(|error| Failure::of(&error, Exit::Usage))
}

/// The project file in `folder`, or in the current folder if that is `None`, or in the nearest parent folder.
pub fn project_file(context: &CommandContext<'_>, folder: Option<&str>) -> Result<HostPath, Failure> {
    let start = match folder {
        Some(folder) => super::absolute(context, folder)?,
        None => context.host.current_dir()?,
    };
    let settings = user_settings(context.host)?;
    project::find(context.host, &start, &settings.safe_directories)
        .map_err(|error| Failure::of(&error, Exit::Usage))
}

/// The user's settings: config.toml in the user's configuration folder.
pub fn user_settings(host: &dyn ReadFiles) -> Result<Settings, Failure> {
    let user = user::read(host).map_err(|error| invalid_settings(&error))?;
    Ok(user.settings)
}

/// The failure for settings that cannot be read.
#[must_use]
pub fn invalid_settings(error: &UserFileError) -> Failure {
    Failure::usage(UserFileError::ID, error.to_string()).hint(
        "allowed keys are `variant`, `backend`, `safe_directories`, and `[releases.NAME]` with `variant`, `backend` and `key`",
    )
}

/// The requested backends: from the flag, else the environment of the examined machine, else the project.
pub fn backend_request(
    flag: Option<&str>,
    host: &dyn HostInfo,
    project: Option<&Project>,
) -> Result<BackendRequest, Failure> {
    request::resolve(flag, host.env(), project.map(|project| &project.file.project)).map_err(
        |(origin, error)| {
            let known = Backend::ALL.map(Backend::id).join(", ");
            Failure::usage(id!("backend.unknown"), format!("{error} (from {origin})"))
                .hint(format!("backends are {known}; `auto` and `all` are selections"))
        },
    )
}
