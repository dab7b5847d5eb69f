//! `gpubuild toolkit`: toolkits that gpubuild installs without root.

pub(super) mod archives;
mod choose;
mod env;
mod install;
mod list;
pub(super) mod lock;
mod packages;
mod remove;
mod verify;

use gpubuild_core::version::Version;
use gpubuild_exec::python::PipInstallError;
use gpubuild_toolchain::provision::{self, Prefix, ProvisionError};

use super::target::SelectedTarget;
use super::{CommandContext, Exit, Failure};

/// Install and manage toolkits without root
#[derive(Debug, clap::Args)]
pub struct ToolkitArguments {
    #[command(subcommand)]
    command: ToolkitCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ToolkitCommand {
    /// Install a toolkit from Python wheels, NVIDIA's archives, or the distribution's packages
    Install(install::ToolkitInstallArguments),
    /// List installed and available toolkits
    List(list::ToolkitListArguments),
    /// Compare every installed file with its hash, and run the compiler
    Verify(verify::ToolkitVerifyArguments),
    /// Remove an installed toolkit
    Remove(remove::ToolkitRemoveArguments),
    /// Print the shell commands that activate a toolkit
    Env(env::ToolkitEnvArguments),
    /// Write a lock file with the wheels or archives of a toolkit's release
    Lock(lock::ToolkitLockArguments),
}

impl ToolkitArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match &self.command {
            ToolkitCommand::Install(arguments) => arguments.json,
            ToolkitCommand::List(arguments) => arguments.json,
            ToolkitCommand::Verify(arguments) => arguments.json,
            ToolkitCommand::Remove(arguments) => arguments.json,
            ToolkitCommand::Env(arguments) => arguments.is_json(),
            ToolkitCommand::Lock(arguments) => arguments.json,
        }
    }
}

/// Runs the subcommand.
pub fn run(arguments: &ToolkitArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        ToolkitCommand::Install(arguments) => install::run(arguments, context),
        ToolkitCommand::List(arguments) => list::run(arguments, context),
        ToolkitCommand::Verify(arguments) => verify::run(arguments, context),
        ToolkitCommand::Remove(arguments) => remove::run(arguments, context),
        ToolkitCommand::Env(arguments) => env::run(arguments, context),
        ToolkitCommand::Lock(arguments) => lock::run(arguments, context),
    }
}

/// A toolkit with an optional release: `cuda` or `cuda@13.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolkitSpec {
    /// The id of the toolkit.
    pub(super) toolkit: String,
    /// The release after the `@`.
    pub(super) release: Option<Version>,
}

impl std::str::FromStr for ToolkitSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (toolkit, release) = match text.split_once('@') {
            Some((toolkit, release)) => (toolkit, Some(release)),
            None => (text, None),
        };
        let is_id = !toolkit.is_empty() && toolkit.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_id {
            return Err(format!("unknown toolkit `{toolkit}`: write `cuda` or `cuda@13.0`"));
        }
        let release = release.map(str::parse::<Version>).transpose().map_err(|error| error.to_string())?;
        Ok(Self { toolkit: toolkit.to_owned(), release })
    }
}

/// `--target` of the commands for toolkits.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ToolkitTarget {
    /// Use the toolkit that builds for this platform, such as `aarch64-unknown-linux-gnu`: compilers of this
    /// machine, libraries of the target
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
}

impl ToolkitTarget {
    /// The target, else this machine.
    pub(super) fn get(&self) -> Result<SelectedTarget, Failure> {
        SelectedTarget::named(self.target.as_deref())
    }

    /// The installed toolkit that a specification names.
    pub(super) fn find(&self, context: &CommandContext<'_>, spec: &ToolkitSpec) -> Result<Prefix, Failure> {
        provision::find(context.host, &spec.toolkit, spec.release.as_ref(), self.get()?.triple())
            .map_err(|error| failure(&error))
    }

    /// All installed toolkits; with a target, those for it.
    pub(super) fn all(&self, context: &CommandContext<'_>) -> Result<Vec<Prefix>, Failure> {
        let (target, mut all) = (self.get()?, provision::installations(context.host));
        all.retain(|one| self.target.is_none() || one.record.target.as_deref() == target.triple());
        Ok(all)
    }
}

/// Converts an error of the provisioning library.
pub(in crate::cli) fn failure(error: &ProvisionError) -> Failure {
    let exit = match error {
        ProvisionError::Interrupted | ProvisionError::Install(PipInstallError::Interrupted) => {
            Exit::Interrupted
        }
        _ if error.is_usage() => Exit::Usage,
        _ => Exit::Negative,
    };
    Failure::of(error, exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolkits_are_named_with_or_without_a_release() {
        let spec: ToolkitSpec = "cuda@13.0".parse().unwrap();
        assert_eq!((spec.toolkit.as_str(), spec.release.unwrap().as_str()), ("cuda", "13.0"));
        assert_eq!("rocm".parse::<ToolkitSpec>().unwrap().release, None);
        for invalid in ["", "@13.0", "../x", "cuda@", "cuda@new", "a b"] {
            assert!(invalid.parse::<ToolkitSpec>().is_err(), "{invalid}");
        }
    }
}
