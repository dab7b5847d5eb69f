//! The machine that a command examines: this one, or the recording that `--host` names.

use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{HostInfo, RecordedHost};
pub use gpubuild_plan::machine::{MachineState, inspect};

use super::{CommandContext, Failure};

/// Options that select the machine and the toolkit descriptions.
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
    /// The recorded host that `--host` names; `None` without the option.
    pub fn recorded(&self, context: &CommandContext<'_>) -> Result<Option<RecordedHost>, Failure> {
        let Some(file) = &self.host else { return Ok(None) };
        let path = super::absolute(context, file)?;
        let recorded = RecordedHost::load(context.host, &path)
            .map_err(|error| Failure::usage(id!("host.recording-invalid"), error.to_string()))?;
        Ok(Some(recorded))
    }

    /// The built-in toolkit descriptions and those of `--toolkits`.
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

/// Rejects invalid entries of `GPUBUILD_SET`: ignoring a typo would leave the observed value in place.
pub fn check_overrides(host: &dyn HostInfo) -> Result<(), Failure> {
    match gpubuild_plan::machine::bad_override(host) {
        None => Ok(()),
        Some(bad) => Err(Failure::usage(
            id!("host.override-invalid"),
            format!("`{}` in GPUBUILD_SET {}", bad.part, bad.why),
        )
        .hint("write `key=value` separated by commas: `GPUBUILD_SET=\"cuda.driver=550.54,cuda.cc=90\"`")),
    }
}
