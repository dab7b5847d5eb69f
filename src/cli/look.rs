//! Looking at a machine, real or recorded: shared by every command that has `--host` and `--backends`.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, RecordedHost};
pub use gpubuild_plan::look::{MachineState, look};
use gpubuild_plan::plan::request::{self, BackendRequest};
use gpubuild_plan::project::{self, Project, ProjectError};

use super::{CommandContext, Exit, Failure};

/// Which machine is looked at.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HostArguments {
    /// Use a recorded machine instead of this one
    #[arg(long, value_name = "FILE")]
    pub host: Option<String>,
    /// Folder with additional toolkit descriptions; a known id replaces the built-in one
    #[arg(long, value_name = "DIR")]
    pub toolkits: Option<String>,
}

impl HostArguments {
    /// The recording that was asked for, if any.
    pub fn recorded(&self, context: &CommandContext<'_>) -> Result<Option<RecordedHost>, Failure> {
        let Some(file) = &self.host else { return Ok(None) };
        let path = super::absolute(context, file)?;
        let recorded = RecordedHost::load(context.host, &path)
            .map_err(|error| Failure::usage(id!("host.recording-invalid"), error.to_string()))?;
        Ok(Some(recorded))
    }

    /// The descriptions in the crate and in `--toolkits`.
    pub fn catalogue(&self, context: &CommandContext<'_>) -> Result<Catalogue, Failure> {
        let mut catalogue = Catalogue::embedded();
        if let Some(folder) = &self.toolkits {
            let folder = super::absolute(context, folder)?;
            catalogue
                .add_folder(context.host, &folder)
                .map_err(|error| Failure::usage(id!("toolkit.description-invalid"), error.to_string()))?;
        }
        Ok(catalogue)
    }
}

/// Refuses overrides that mean nothing, wherever a machine is looked at: a typing error must not pass for an observation.
pub fn check_overrides(host: &dyn HostInfo) -> Result<(), Failure> {
    match gpubuild_plan::look::bad_override(host) {
        None => Ok(()),
        Some(bad) => Err(Failure::usage(
            id!("host.override-invalid"),
            format!("`{}` in GPUBUILD_SET {}", bad.part, bad.why),
        )
        .hint("write `key=value` separated by commas: `GPUBUILD_SET=\"cuda.driver=550.54,cuda.cc=90\"`")),
    }
}

/// The project in the current folder or above, or in `--project`.
pub fn project(context: &CommandContext<'_>, folder: Option<&str>) -> Result<Project, Failure> {
    let start = match folder {
        Some(folder) => super::absolute(context, folder)?,
        None => context.host.current_dir()?,
    };
    let explain = |error: ProjectError| Failure::of(&error, Exit::Usage);
    let file = project::find(context.host, &start).map_err(explain)?;
    project::load(context.host, &file).map_err(explain)
}

/// What was asked for: flag, environment of the machine that is looked at, project.
pub fn request(
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
