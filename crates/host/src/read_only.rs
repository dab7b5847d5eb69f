//! A host that refuses every change. All other queries are forwarded to the original host.

use std::io;
use std::time::Duration;

use super::forward::{forward_facts, forward_file_queries, forward_registry_and_clock};
use super::{
    Command, CommandOutput, Environment, FileLock, Host, HostInfo, HostPath, InspectHost, NetworkAccess,
    OutputLine, ProbeAnswer, ProbeLibraries, ProbeStatus, ReadFiles, RunError, RunPrograms, Wait, WriteFiles,
};

/// Whether a [`ReadOnlyHost`] starts programs and probes drivers. They may write files: PoCL creates a cache when it is loaded, and
/// distcc a folder when it prints its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramAccess {
    /// It does.
    Allow,
    /// It does not: every start fails.
    Refuse,
}

/// A host that writes no file and opens no connection: every such call fails, as on a recorded host.
///
/// Documents and inputs that the user names must be regular files. Standard input of this process and its other open pipes have another
/// purpose.
pub struct ReadOnlyHost<'a> {
    host: &'a dyn InspectHost,
    programs: ProgramAccess,
}

impl<'a> ReadOnlyHost<'a> {
    /// Refuses changes through `host`.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost, programs: ProgramAccess) -> Self {
        Self { host, programs }
    }

    fn check(&self, command: &Command) -> Result<(), RunError> {
        match self.programs {
            ProgramAccess::Allow => Ok(()),
            ProgramAccess::Refuse => Err(RunError::Start {
                program: command.argv.first().cloned().unwrap_or_default(),
                message: REFUSAL.to_owned(),
            }),
        }
    }
}

const REFUSAL: &str = "no program is started here";

// Default implementations would return the values of a recorded host, so every method must be forwarded.
#[deny(clippy::missing_trait_methods)]
impl HostInfo for ReadOnlyHost<'_> {
    forward_facts!();

    fn env(&self) -> &Environment {
        self.host.env()
    }
}

/// The default implementations of `read_input` and `open_input` accept regular files only.
impl ReadFiles for ReadOnlyHost<'_> {
    forward_file_queries!();
}

forward_registry_and_clock!(ReadOnlyHost);

#[deny(clippy::missing_trait_methods)]
impl RunPrograms for ReadOnlyHost<'_> {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        self.check(command)?;
        self.host.run(command)
    }

    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        self.check(command)?;
        self.host.run_lines(command, on_line)
    }

    fn recorded_output(&self, command: &Command) -> Option<CommandOutput> {
        self.host.recorded_output(command)
    }
}

#[deny(clippy::missing_trait_methods)]
impl ProbeLibraries for ReadOnlyHost<'_> {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.probe_with(id, &[], deadline)
    }

    fn probe_with(&self, id: &str, arguments: &[String], deadline: Duration) -> ProbeAnswer {
        match self.programs {
            ProgramAccess::Allow => self.host.probe_with(id, arguments, deadline),
            ProgramAccess::Refuse => {
                ProbeAnswer { status: ProbeStatus::Failed, error: REFUSAL.to_owned(), answer: String::new() }
            }
        }
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

/// The default implementations of the other methods refuse as well.
impl WriteFiles for ReadOnlyHost<'_> {
    fn write(&self, _path: &HostPath, _content: &[u8]) -> io::Result<()> {
        refused()
    }

    fn set_executable(&self, _path: &HostPath) -> io::Result<()> {
        refused()
    }

    fn create_dir_all(&self, _path: &HostPath) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        refused()
    }

    fn copy(&self, _from: &HostPath, _to: &HostPath) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &HostPath) -> io::Result<()> {
        refused()
    }

    fn temporary_dir(&self, _parent: &HostPath) -> io::Result<HostPath> {
        refused()
    }

    fn lock(&self, _path: &HostPath, _wait: Wait) -> io::Result<Option<FileLock>> {
        refused()
    }

    fn free_space(&self, _path: &HostPath) -> Option<u64> {
        None
    }
}

/// The default implementations report that the network is absent.
impl NetworkAccess for ReadOnlyHost<'_> {}

impl Host for ReadOnlyHost<'_> {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::RealHost;

    const DEADLINE: Duration = Duration::from_secs(10);

    #[test]
    fn nothing_is_written_and_no_program_is_started() {
        let real = RealHost::new();
        let folder = real.temporary_dir(&real.path(std::env::temp_dir().to_str().unwrap())).unwrap();
        let host = ReadOnlyHost::new(&real, ProgramAccess::Refuse);
        let (new, old) = (folder.join("new"), folder.join("old"));
        real.write(&old, b"old").unwrap();
        let results = [
            host.write(&new, b""),
            host.create(&new).map(drop),
            host.append(&old).map(drop),
            host.create_dir_all(&new),
            host.rename(&old, &new),
            host.exchange(&old, &new),
            host.copy(&old, &new),
            host.link(&old, &new),
            host.duplicate(&old, &new),
            host.symlink("old", &new),
            host.set_executable(&old),
            host.set_read_only(&old),
            host.remove(&old),
            host.temporary_dir(&folder).map(drop),
            host.lock(&new, Wait::Yes).map(drop),
            host.set_variable("GPUBUILD_TEST", ""),
        ];
        assert!(results.iter().all(Result::is_err), "{results:?}");
        let touch = Command::new("touch", DEADLINE).arg(new.as_str());
        assert!(matches!(host.run(&touch), Err(RunError::Start { .. })));
        assert!(matches!(host.run_lines(&touch, &mut |_| {}), Err(RunError::Start { .. })));
        assert_eq!(host.probe("cuda", DEADLINE).error, REFUSAL);
        assert_eq!(
            (host.list(&folder).unwrap(), host.read(&old).unwrap()),
            (vec!["old".to_owned()], b"old".to_vec())
        );
        let allowed = ReadOnlyHost::new(&real, ProgramAccess::Allow);
        assert!(allowed.run(&touch).is_ok() && host.exists(&new));
        real.remove(&folder).unwrap();
    }
}
