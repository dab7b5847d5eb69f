//! A host with a program from another machine: the recorded host of `--host` plus the folder of a program on the machine that
//! gpubuild runs on. For `doctor --binary`, which predicts how the program would behave there.

use std::io;
use std::time::Duration;

use super::{
    Clock, Command, CommandOutput, Environment, HostCounts, HostInfo, HostPath, Identity, InspectHost,
    OutputLine, Platform, ProbeAnswer, ProbeLibraries, ReadFiles, ReadRegistry, RegistryValue, RunError,
    RunPrograms, Stat,
};

/// Which part of the program's folder is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luggage {
    /// Everything in the folder.
    Folder,
    /// Only the program, because its folder belongs to the system.
    File,
}

/// A host with a program from another machine.
pub struct Carried<'a> {
    machine: &'a dyn InspectHost,
    origin: &'a dyn InspectHost,
    /// The folder's path on the host.
    place: HostPath,
    /// The folder's path at the origin.
    folder: HostPath,
    file: HostPath,
    luggage: Luggage,
}

impl<'a> Carried<'a> {
    /// Adds the program at `file` of `origin` to a host, together with its folder (for `app/bin/program`, `app`). System folders
    /// are not added.
    #[must_use]
    pub fn new(machine: &'a dyn InspectHost, origin: &'a dyn InspectHost, file: &HostPath) -> Self {
        let parent = file.parent().unwrap_or_else(|| file.clone());
        let is_inner = matches!(parent.file_name(), Some("bin" | "lib" | "lib64" | "libexec" | "sbin"));
        let above = parent.parent().filter(|above| is_inner && above.file_name().is_some());
        let folder = above.unwrap_or_else(|| parent.clone());
        let luggage = if is_of_system(origin, &parent) { Luggage::File } else { Luggage::Folder };
        let place = if origin.platform().path_rules() == machine.platform().path_rules() {
            folder.clone()
        } else {
            // Paths with the other platform's rules cannot be used on this host.
            let root =
                if machine.platform().path_rules() == super::PathRules::Windows { r"C:\" } else { "/" };
            machine.path(root).join(folder.file_name().unwrap_or("program"))
        };
        Self { machine, origin, place, folder, file: file.clone(), luggage }
    }

    /// The program's path on the host.
    #[must_use]
    pub fn file(&self) -> HostPath {
        self.there(&self.file).unwrap_or_else(|| self.file.clone())
    }

    /// The path at the origin of an added file or folder.
    fn origin_of(&self, path: &HostPath) -> Option<HostPath> {
        let path = path.normalized();
        if !path.is_inside(&self.place) {
            return None;
        }
        let rest = path.forward_slashes();
        let place = self.place.forward_slashes();
        let rest = rest.get(place.len()..)?.trim_start_matches('/');
        let here = if rest.is_empty() { self.folder.clone() } else { self.folder.join(rest) };
        (self.luggage == Luggage::Folder || here == self.file).then_some(here)
    }

    /// The path on the host of a file or folder at the origin.
    fn there(&self, path: &HostPath) -> Option<HostPath> {
        let path_text = path.normalized().forward_slashes();
        let folder = self.folder.forward_slashes();
        let rest = path.is_inside(&self.folder).then(|| path_text.get(folder.len()..))??;
        let rest = rest.trim_start_matches('/');
        Some(if rest.is_empty() { self.place.clone() } else { self.place.join(rest) })
    }

    /// Queries the host first, then the added files.
    fn either<T>(
        &self,
        path: &HostPath,
        ask: impl Fn(&dyn InspectHost, &HostPath) -> io::Result<T>,
    ) -> io::Result<T> {
        match (ask(self.machine, path), self.origin_of(path)) {
            (Err(error), Some(path)) if error.kind() == io::ErrorKind::NotFound => ask(self.origin, &path),
            (answer, _) => answer,
        }
    }
}

/// Whether a folder belongs to the origin's system, whose files must not be mistaken for the host's.
fn is_of_system(origin: &dyn HostInfo, folder: &HostPath) -> bool {
    let systems: &[&str] = match origin.platform().path_rules() {
        super::PathRules::Windows => &[r"C:\Windows"],
        super::PathRules::Unix => {
            &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/System", "/Library", "/opt/homebrew"]
        }
    };
    systems.iter().any(|system| folder.is_inside(&origin.path(system)))
}

impl HostInfo for Carried<'_> {
    fn platform(&self) -> Platform {
        self.machine.platform()
    }

    fn env(&self) -> &Environment {
        self.machine.env()
    }

    fn identity(&self) -> &Identity {
        self.machine.identity()
    }

    fn current_dir(&self) -> io::Result<HostPath> {
        self.machine.current_dir()
    }

    fn counts(&self) -> HostCounts {
        self.machine.counts()
    }
}

impl ReadFiles for Carried<'_> {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        self.either(path, |host, path| host.stat(path))
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        match (self.machine.canonical(path), self.origin_of(path)) {
            (Err(error), Some(here)) if error.kind() == io::ErrorKind::NotFound => {
                let real = self.origin.canonical(&here)?;
                // A link out of the added folder points to a file that is also visible under the link's path.
                Ok(self.there(&real).unwrap_or_else(|| path.clone()))
            }
            (answer, _) => answer,
        }
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        self.either(path, |host, path| host.read_link(path))
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.either(path, |host, path| host.read(path))
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.either(path, |host, path| host.read_start(path, limit))
    }

    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.either(path, |host, path| host.read_part(path, start, limit))
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        self.either(folder, |host, folder| host.list(folder))
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.machine.open_device(path)
    }
}

impl ReadRegistry for Carried<'_> {
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        self.machine.registry_value(key, name)
    }

    fn registry_keys(&self, key: &str) -> Vec<String> {
        self.machine.registry_keys(key)
    }

    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        self.machine.registry_values(key)
    }
}

impl RunPrograms for Carried<'_> {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        self.machine.run(command)
    }

    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        self.machine.run_lines(command, on_line)
    }

    fn recorded_output(&self, command: &Command) -> Option<CommandOutput> {
        self.machine.recorded_output(command)
    }
}

impl ProbeLibraries for Carried<'_> {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.machine.probe(id, deadline)
    }
}

impl Clock for Carried<'_> {
    fn now(&self) -> u64 {
        self.machine.now()
    }

    fn elapsed(&self) -> Duration {
        self.machine.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, HostInfo, Os, ReadFiles, RecordedHost};

    fn check(machine: Os, file: &str, there: &str, beside: &[(&str, bool)]) {
        let origin = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/home/me/app/bin/program", "one")
            .file("/home/me/app/lib/libx.so", "two")
            .file("/home/me/other/secret", "no")
            .file("/usr/bin/program", "three")
            .file("/usr/bin/other", "no")
            .build();
        let own = if machine == Os::Windows { r"C:\own" } else { "/own" };
        let machine = RecordedHost::builder(machine, Arch::X86_64).file(own, "").build();
        let carried = Carried::new(&machine, &origin, &origin.path(file));
        assert_eq!(carried.file().as_str(), there);
        assert!(carried.is_file(&carried.file()));
        for (path, is_there) in beside {
            assert_eq!(carried.exists(&carried.path(path)), *is_there, "{path}");
        }
    }

    #[test]
    fn only_files_of_the_program_folder_are_added() {
        let app = "/home/me/app/bin/program";
        check(
            Os::Linux,
            app,
            app,
            &[
                ("/home/me/app/bin/../lib/libx.so", true),
                ("/home/me/other/secret", false),
                ("/own", true),
                ("/usr/bin/program", false),
            ],
        );
        check(Os::Windows, app, r"C:\app\bin\program", &[(r"C:\app\lib\libx.so", true)]);
        check(Os::Linux, "/usr/bin/program", "/usr/bin/program", &[("/usr/bin/other", false)]);
    }
}
