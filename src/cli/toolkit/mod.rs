//! `gpubuild toolkit`: toolkits of our own, installed from wheels without root.

mod choose;
mod env;
mod install;
mod list;
mod lock;
mod remove;
mod verify;

use gpubuild_core::version::Version;
use gpubuild_exec::python::InstallError;
use gpubuild_toolchain::provision::ProvisionError;

use super::{Context, Exit, Failure};

/// Install, list, verify and remove toolkits of gpubuild's own, without root
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Install a toolkit from Python wheels, pinned by their sums
    Install(install::Arguments),
    /// Show what is installed and what is offered
    List(list::Arguments),
    /// Compare every file with what was installed, and run the compiler
    Verify(verify::Arguments),
    /// Remove a toolkit that was installed like this
    Remove(remove::Arguments),
    /// Print the lines that make a shell use it
    Env(env::Arguments),
    /// Write down the wheels of a release that gpubuild does not know yet, with their sums
    Lock(lock::Arguments),
}

impl Arguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match &self.command {
            Command::Install(arguments) => arguments.json,
            Command::List(arguments) => arguments.json,
            Command::Verify(arguments) => arguments.json,
            Command::Remove(arguments) => arguments.json,
            Command::Env(arguments) => arguments.is_json(),
            Command::Lock(_) => false,
        }
    }
}

/// Runs the part that was asked for.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Install(arguments) => install::run(arguments, context),
        Command::List(arguments) => list::run(arguments, context),
        Command::Verify(arguments) => verify::run(arguments, context),
        Command::Remove(arguments) => remove::run(arguments, context),
        Command::Env(arguments) => env::run(arguments, context),
        Command::Lock(arguments) => lock::run(arguments, context),
    }
}

/// `cuda` or `cuda@13.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Id of the toolkit.
    pub(super) toolkit: String,
    /// Release, if one was named.
    pub(super) release: Option<Version>,
}

impl std::str::FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (toolkit, release) = match text.split_once('@') {
            Some((toolkit, release)) => (toolkit, Some(release)),
            None => (text, None),
        };
        let is_id = !toolkit.is_empty() && toolkit.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !is_id {
            return Err(format!("`{toolkit}` is no toolkit: write `cuda` or `cuda@13.0`"));
        }
        let release = release.map(str::parse::<Version>).transpose().map_err(|error| error.to_string())?;
        Ok(Self { toolkit: toolkit.to_owned(), release })
    }
}

/// A refusal in the words of the command line.
pub(in crate::cli) fn failure(error: &ProvisionError) -> Failure {
    let make = if error.is_usage() { Failure::usage } else { Failure::negative };
    let mut failure = make(error.id(), error.to_string());
    failure.hint = error.hint();
    if matches!(error, ProvisionError::Interrupted | ProvisionError::Install(InstallError::Interrupted)) {
        failure.exit = Exit::Interrupted;
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolkits_are_named_with_or_without_a_release() {
        let wanted: Wanted = "cuda@13.0".parse().unwrap();
        assert_eq!((wanted.toolkit.as_str(), wanted.release.unwrap().as_str()), ("cuda", "13.0"));
        assert_eq!("rocm".parse::<Wanted>().unwrap().release, None);
        for bad in ["", "@13.0", "../x", "cuda@", "cuda@new", "a b"] {
            assert!(bad.parse::<Wanted>().is_err(), "{bad}");
        }
    }
}
