//! A machine to which a program was carried: the recorded host of `--host`, and on it the folder of a program that lies on
//! the machine that we run on. For `doctor --binary`, which predicts what would happen there.

use std::io;
use std::time::Duration;

use super::{
    Command, Counts, Environment, Host, HostPath, Identity, Line, Lock, Output, Platform, ProbeAnswer,
    RegistryValue, RunError, Stat, Wait,
};

/// What of the folder is carried along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luggage {
    /// Everything below it.
    Folder,
    /// The program alone: its folder is one of the system's.
    File,
}

/// A machine with a program on it that came from another one.
pub struct Carried<'a> {
    machine: &'a dyn Host,
    origin: &'a dyn Host,
    /// Where the folder lies on the machine.
    place: HostPath,
    /// Where it lies at the origin.
    folder: HostPath,
    file: HostPath,
    luggage: Luggage,
}

impl<'a> Carried<'a> {
    /// Puts the program at `file` of `origin`, with the folder that it lies in (of `app/bin/program` with `app`), onto a
    /// machine. Folders of the system itself stay at home.
    #[must_use]
    pub fn new(machine: &'a dyn Host, origin: &'a dyn Host, file: &HostPath) -> Self {
        let parent = file.parent().unwrap_or_else(|| file.clone());
        let is_inner = matches!(parent.file_name(), Some("bin" | "lib" | "lib64" | "libexec" | "sbin"));
        let above = parent.parent().filter(|above| is_inner && above.file_name().is_some());
        let folder = above.unwrap_or_else(|| parent.clone());
        let luggage = if is_of_system(origin, &parent) { Luggage::File } else { Luggage::Folder };
        let place = if origin.platform().path_rules() == machine.platform().path_rules() {
            folder.clone()
        } else {
            // Paths of the other kind can't be written on this machine.
            let root =
                if machine.platform().path_rules() == super::PathRules::Windows { r"C:\" } else { "/" };
            machine.path(root).join(folder.file_name().unwrap_or("program"))
        };
        Self { machine, origin, place, folder, file: file.clone(), luggage }
    }

    /// Where the program lies on the machine.
    #[must_use]
    pub fn file(&self) -> HostPath {
        self.there(&self.file).unwrap_or_else(|| self.file.clone())
    }

    /// The path at the origin of what was carried along.
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

    /// The path on the machine of something at the origin.
    fn there(&self, path: &HostPath) -> Option<HostPath> {
        let path_text = path.normalized().forward_slashes();
        let folder = self.folder.forward_slashes();
        let rest = path.is_inside(&self.folder).then(|| path_text.get(folder.len()..))??;
        let rest = rest.trim_start_matches('/');
        Some(if rest.is_empty() { self.place.clone() } else { self.place.join(rest) })
    }

    /// Asks the machine first, then the luggage.
    fn either<T>(
        &self,
        path: &HostPath,
        ask: impl Fn(&dyn Host, &HostPath) -> io::Result<T>,
    ) -> io::Result<T> {
        match (ask(self.machine, path), self.origin_of(path)) {
            (Err(error), Some(path)) if error.kind() == io::ErrorKind::NotFound => ask(self.origin, &path),
            (answer, _) => answer,
        }
    }
}

/// Whether a folder belongs to the system that we run on: it must not pass for the other machine's.
fn is_of_system(origin: &dyn Host, folder: &HostPath) -> bool {
    let systems: &[&str] = match origin.platform().path_rules() {
        super::PathRules::Windows => &[r"C:\Windows"],
        super::PathRules::Unix => {
            &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/System", "/Library", "/opt/homebrew"]
        }
    };
    systems.iter().any(|system| folder.is_inside(&origin.path(system)))
}

impl Host for Carried<'_> {
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

    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        self.either(path, |host, path| host.stat(path))
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        match (self.machine.canonical(path), self.origin_of(path)) {
            (Err(error), Some(here)) if error.kind() == io::ErrorKind::NotFound => {
                let real = self.origin.canonical(&here)?;
                // A link out of the luggage leads to a file that came along under its own name.
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

    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        self.machine.registry_value(key, name)
    }

    fn registry_keys(&self, key: &str) -> Vec<String> {
        self.machine.registry_keys(key)
    }

    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        self.machine.registry_values(key)
    }

    fn run(&self, command: &Command) -> Result<Output, RunError> {
        self.machine.run(command)
    }

    fn run_lines(&self, command: &Command, on_line: &mut dyn FnMut(Line<'_>)) -> Result<Output, RunError> {
        self.machine.run_lines(command, on_line)
    }

    fn recorded_output(&self, command: &Command) -> Option<Output> {
        self.machine.recorded_output(command)
    }

    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.machine.probe(id, deadline)
    }

    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()> {
        self.machine.write(path, content)
    }

    fn set_executable(&self, path: &HostPath) -> io::Result<()> {
        self.machine.set_executable(path)
    }

    fn create_dir_all(&self, path: &HostPath) -> io::Result<()> {
        self.machine.create_dir_all(path)
    }

    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.machine.rename(from, to)
    }

    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.machine.copy(from, to)
    }

    fn remove(&self, path: &HostPath) -> io::Result<()> {
        self.machine.remove(path)
    }

    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath> {
        self.machine.temporary_dir(parent)
    }

    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<Lock>> {
        self.machine.lock(path, wait)
    }

    fn free_space(&self, path: &HostPath) -> Option<u64> {
        self.machine.free_space(path)
    }

    fn now(&self) -> u64 {
        self.machine.now()
    }

    fn elapsed(&self) -> Duration {
        self.machine.elapsed()
    }

    fn counts(&self) -> Counts {
        self.machine.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, Os, RecordedHost};

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
    fn what_lies_with_the_program_comes_along_and_nothing_else() {
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
