//! Looking at a machine, real or recorded: shared by every command that has `--host` and `--backends`.

use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{Host, RecordedHost, RecordingError};
pub use gpubuild_plan::look::{Sight, look};
use gpubuild_plan::plan::request::{self, Request};
use gpubuild_plan::project::{self, Project, ProjectError};

use super::{Context, Failure};

/// Which machine is looked at.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct HostArguments {
    /// Look at a recorded machine instead of this one
    #[arg(long, value_name = "FILE")]
    pub host: Option<String>,
    /// Folder with further toolkit descriptions; one with a known id replaces it
    #[arg(long, value_name = "DIR")]
    pub toolkits: Option<String>,
}

impl HostArguments {
    /// The recording that was asked for, if any.
    pub fn recorded(&self, context: &Context<'_>) -> Result<Option<RecordedHost>, Failure> {
        let Some(file) = &self.host else { return Ok(None) };
        let path = super::absolute(context, file)?;
        let recorded = RecordedHost::load(context.host, &path)
            .map_err(|error| Failure::usage(RecordingError::ID, error.to_string()))?;
        Ok(Some(recorded))
    }

    /// The descriptions in the crate and in `--toolkits`.
    pub fn catalogue(&self, context: &Context<'_>) -> Result<Catalogue, Failure> {
        let mut catalogue = Catalogue::embedded();
        if let Some(folder) = &self.toolkits {
            let folder = super::absolute(context, folder)?;
            catalogue
                .add_folder(context.host, &folder)
                .map_err(|error| Failure::usage("toolkit.description-invalid", error.to_string()))?;
        }
        Ok(catalogue)
    }
}

/// Refuses overrides that mean nothing, wherever a machine is looked at: a typing error must not pass for an observation.
pub fn check_overrides(host: &dyn Host) -> Result<(), Failure> {
    match gpubuild_plan::look::bad_override(host) {
        None => Ok(()),
        Some(bad) => Err(Failure::usage(
            "host.override-invalid",
            format!("`{}` in GPUBUILD_SET {}", bad.part, bad.why),
        )
        .hint("write `key=value` separated by commas: `GPUBUILD_SET=\"cuda.driver=550.54,cuda.cc=90\"`")),
    }
}

/// The project in the current folder or above, or in `--project`.
pub fn project(context: &Context<'_>, folder: Option<&str>) -> Result<Project, Failure> {
    let start = match folder {
        Some(folder) => super::absolute(context, folder)?,
        None => context.host.current_dir()?,
    };
    let explain = |error: ProjectError| Failure::usage(error.id(), error.to_string()).hint(error.hint());
    let file = project::find(context.host, &start).map_err(explain)?;
    project::load(context.host, &file).map_err(explain)
}

/// What was asked for: flag, environment of the machine that is looked at, project.
pub fn request(flag: Option<&str>, host: &dyn Host, project: Option<&Project>) -> Result<Request, Failure> {
    request::resolve(flag, host.env(), project.map(|project| &project.file.project)).map_err(
        |(origin, error)| {
            let known = Backend::ALL.map(Backend::id).join(", ");
            Failure::usage("backend.unknown", format!("{error} (from {origin})"))
                .hint(format!("backends are {known}; `auto` and `all` are selections"))
        },
    )
}
