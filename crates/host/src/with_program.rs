//! Combines a host with a program from another machine: the recorded host of `--host` and a program on the machine that runs
//! gpubuild. `doctor --binary` uses it to predict how the program would behave on the recorded host.

use std::io;

use super::forward::forward_to_host;
use super::{Environment, HostCounts, HostInfo, HostPath, Identity, InspectHost, Platform, ReadFiles, Stat};

/// Which files are added to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddedFiles {
    /// All files in the program's folder.
    Folder,
    /// Only the program, because its folder belongs to the operating system.
    Program,
}

/// A host to which a program from another machine is added. All queries go to the host; files that it lacks are read from
/// the origin.
pub struct WithProgram<'a> {
    host: &'a dyn InspectHost,
    /// The machine that has the program.
    origin: &'a dyn InspectHost,
    /// Path of the program's folder on the host.
    host_folder: HostPath,
    /// Path of the program's folder on the origin.
    origin_folder: HostPath,
    /// Path of the program on the origin.
    program: HostPath,
    added: AddedFiles,
}

impl<'a> WithProgram<'a> {
    /// Adds the program at the path `program` of `origin` to a host, together with its folder: for `app/bin/program`, the
    /// folder `app`. Of system folders only the program is added.
    #[must_use]
    pub fn new(host: &'a dyn InspectHost, origin: &'a dyn InspectHost, program: &HostPath) -> Self {
        let parent = program.parent().unwrap_or_else(|| program.clone());
        let is_inner = matches!(parent.file_name(), Some("bin" | "lib" | "lib64" | "libexec" | "sbin"));
        let above = parent.parent().filter(|above| is_inner && above.file_name().is_some());
        let folder = above.unwrap_or_else(|| parent.clone());
        let added = if is_system_folder(origin, &parent) { AddedFiles::Program } else { AddedFiles::Folder };
        let host_folder = if origin.platform().path_rules() == host.platform().path_rules() {
            folder.clone()
        } else {
            // Paths with the other platform's rules cannot be used on this host.
            let root = if host.platform().path_rules() == super::PathRules::Windows { r"C:\" } else { "/" };
            host.path(root).join(folder.file_name().unwrap_or("program"))
        };
        Self { host, origin, host_folder, origin_folder: folder, program: program.clone(), added }
    }

    /// The program's path on the host.
    #[must_use]
    pub fn program(&self) -> HostPath {
        self.on_host(&self.program).unwrap_or_else(|| self.program.clone())
    }

    /// Converts the path of an added file or folder on the host to its path on the origin.
    fn on_origin(&self, path: &HostPath) -> Option<HostPath> {
        let path = path.normalized();
        if !path.is_inside(&self.host_folder) {
            return None;
        }
        let rest = path.forward_slashes();
        let folder = self.host_folder.forward_slashes();
        let rest = rest.get(folder.len()..)?.trim_start_matches('/');
        let origin = if rest.is_empty() { self.origin_folder.clone() } else { self.origin_folder.join(rest) };
        (self.added == AddedFiles::Folder || origin == self.program).then_some(origin)
    }

    /// Converts the path of a file or folder on the origin to its path on the host.
    fn on_host(&self, path: &HostPath) -> Option<HostPath> {
        let path_text = path.normalized().forward_slashes();
        let folder = self.origin_folder.forward_slashes();
        let rest = path.is_inside(&self.origin_folder).then(|| path_text.get(folder.len()..))??;
        let rest = rest.trim_start_matches('/');
        Some(if rest.is_empty() { self.host_folder.clone() } else { self.host_folder.join(rest) })
    }

    /// Queries the host first. If the file is missing there, queries the added files.
    fn with_fallback<T>(
        &self,
        path: &HostPath,
        query: impl Fn(&dyn InspectHost, &HostPath) -> io::Result<T>,
    ) -> io::Result<T> {
        match (query(self.host, path), self.on_origin(path)) {
            (Err(error), Some(path)) if error.kind() == io::ErrorKind::NotFound => query(self.origin, &path),
            (answer, _) => answer,
        }
    }
}

/// Whether a folder belongs to the origin's operating system. Its files must not be mixed with those of the host.
fn is_system_folder(origin: &dyn HostInfo, folder: &HostPath) -> bool {
    let systems: &[&str] = match origin.platform().path_rules() {
        super::PathRules::Windows => &[r"C:\Windows"],
        super::PathRules::Unix => {
            &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/System", "/Library", "/opt/homebrew"]
        }
    };
    systems.iter().any(|system| folder.is_inside(&origin.path(system)))
}

impl HostInfo for WithProgram<'_> {
    fn platform(&self) -> Platform {
        self.host.platform()
    }

    fn env(&self) -> &Environment {
        self.host.env()
    }

    fn identity(&self) -> &Identity {
        self.host.identity()
    }

    fn current_dir(&self) -> io::Result<HostPath> {
        self.host.current_dir()
    }

    fn counts(&self) -> HostCounts {
        self.host.counts()
    }
}

impl ReadFiles for WithProgram<'_> {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        self.with_fallback(path, |host, path| host.stat(path))
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        match (self.host.canonical(path), self.on_origin(path)) {
            (Err(error), Some(origin_path)) if error.kind() == io::ErrorKind::NotFound => {
                let real = self.origin.canonical(&origin_path)?;
                // The target of a link out of the added folder is not visible on the host, so the link's path is returned.
                Ok(self.on_host(&real).unwrap_or_else(|| path.clone()))
            }
            (answer, _) => answer,
        }
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        self.with_fallback(path, |host, path| host.read_link(path))
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.with_fallback(path, |host, path| host.read(path))
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.with_fallback(path, |host, path| host.read_start(path, limit))
    }

    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.with_fallback(path, |host, path| host.read_part(path, start, limit))
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        self.with_fallback(folder, |host, folder| host.list(folder))
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.host.open_device(path)
    }
}

forward_to_host!(WithProgram);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arch, HostInfo, Os, ReadFiles, RecordedHost};

    fn check(host_os: Os, program: &str, program_on_host: &str, others: &[(&str, bool)]) {
        let origin = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/home/me/app/bin/program", "one")
            .file("/home/me/app/lib/libx.so", "two")
            .file("/home/me/other/secret", "no")
            .file("/usr/bin/program", "three")
            .file("/usr/bin/other", "no")
            .build();
        let own = if host_os == Os::Windows { r"C:\own" } else { "/own" };
        let host = RecordedHost::builder(host_os, Arch::X86_64).file(own, "").build();
        let combined = WithProgram::new(&host, &origin, &origin.path(program));
        assert_eq!(combined.program().as_str(), program_on_host);
        assert!(combined.is_file(&combined.program()));
        for (path, exists) in others {
            assert_eq!(combined.exists(&combined.path(path)), *exists, "{path}");
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
