//! A host whose disk fails at a given operation: with an error, or because the process is killed or the machine crashes.
#![expect(clippy::disallowed_methods, reason = "a crash damages files without the host")]

mod disk;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpubuild_host::{
    Clock, Command, CommandOutput, Environment, FileLock, Host, HostCounts, HostInfo, HostPath, Identity,
    NetworkAccess, NewFile, OutputLine, Platform, ProbeAnswer, ProbeLibraries, ReadFiles, ReadRegistry,
    RealHost, RegistryValue, RunError, RunPrograms, Stat, Wait, WriteFiles,
};

use disk::{Durable, Faults, FaultyFile, files_below, state};

pub(crate) use disk::{ENOSPC, ERRORS, Fault};

/// The real machine with a faulty disk.
pub(crate) struct FaultyHost {
    host: RealHost,
    pub(crate) env: Environment,
    faults: Arc<Faults>,
    durable: Arc<Durable>,
    /// Whether the disk supports atomic exchange of folders.
    pub(crate) exchanges: bool,
    /// The identification of the start of the system, if it was restarted.
    pub(crate) boot: Option<&'static str>,
}

impl FaultyHost {
    /// A disk where the change with this number, from 0 on, and maybe later ones fail.
    pub(crate) fn new(fault: Fault, at: usize) -> Self {
        let host = RealHost::new();
        let env = host.env().clone();
        let faults = Arc::new(Faults { fault, at, changes: AtomicUsize::new(0) });
        Self { host, env, faults, durable: Arc::default(), exchanges: true, boot: None }
    }

    /// The number of changes so far.
    pub(crate) fn changes(&self) -> usize {
        self.faults.changes.load(Ordering::SeqCst)
    }

    /// Treats the files that are in these folders now as written to the disk.
    pub(crate) fn knows(self, folders: &[PathBuf]) -> Self {
        files_below(folders).for_each(|path| self.durable.add(&path));
        self
    }

    /// Empties the files below these folders that were not flushed, as a power failure does. Their modification times stay.
    /// Returns their number. Names are kept: file systems with a journal keep the order of renames.
    pub(crate) fn lose_unsynced(&self, folders: &[PathBuf]) -> usize {
        let mut lost = 0;
        for path in files_below(folders) {
            let Some(file) = state(&path).filter(|file| file.3 > 0 && !self.durable.has(*file)) else {
                continue;
            };
            let modified = std::fs::metadata(&path).and_then(|file| file.modified()).unwrap();
            let Ok(opened) = std::fs::OpenOptions::new().write(true).open(&path) else { continue };
            opened.set_len(file.3 / 2 * u64::from(lost % 2 == 1)).unwrap();
            opened.set_modified(modified).unwrap();
            lost += 1;
        }
        lost
    }

    fn change(&self) -> io::Result<()> {
        self.faults.change()
    }

    fn synced(&self, path: &HostPath) {
        self.durable.add(Path::new(path.as_str()));
    }
}

impl FaultyHost {
    /// A killed process starts no program.
    fn starts(&self) -> Result<(), RunError> {
        if self.faults.fault == Fault::Kill {
            self.change().map_err(|_| RunError::Interrupted)?;
        }
        Ok(())
    }

    fn opened(&self, path: &HostPath, file: Box<dyn NewFile>) -> Box<dyn NewFile> {
        let (faults, durable) = (Arc::clone(&self.faults), Arc::clone(&self.durable));
        Box::new(FaultyFile { file, path: path.clone(), faults, durable })
    }
}

impl HostInfo for FaultyHost {
    fn platform(&self) -> Platform {
        self.host.platform()
    }

    fn env(&self) -> &Environment {
        &self.env
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

impl ReadFiles for FaultyHost {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        self.host.stat(path)
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        self.host.canonical(path)
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        self.host.read_link(path)
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        if let Some(boot) = self.boot.filter(|_| path.as_str() == "/proc/sys/kernel/random/boot_id") {
            return Ok(boot.as_bytes().to_vec());
        }
        self.host.read(path)
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.host.read_start(path, limit)
    }

    fn open(&self, path: &HostPath) -> io::Result<Box<dyn Read + Send>> {
        self.host.open(path)
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        self.host.list(folder)
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.host.open_device(path)
    }
}

impl ReadRegistry for FaultyHost {
    fn registry_value(&self, _: &str, _: &str) -> Option<RegistryValue> {
        None
    }

    fn registry_keys(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn registry_values(&self, _: &str) -> Vec<(String, RegistryValue)> {
        Vec::new()
    }
}

impl RunPrograms for FaultyHost {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        self.starts()?;
        self.host.run(command)
    }

    fn run_lines(
        &self,
        command: &Command,
        on: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        self.starts()?;
        self.host.run_lines(command, on)
    }
}

impl ProbeLibraries for FaultyHost {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.host.probe(id, deadline)
    }
}

impl Clock for FaultyHost {
    fn now(&self) -> u64 {
        self.host.now()
    }

    fn elapsed(&self) -> Duration {
        self.host.elapsed()
    }
}

impl WriteFiles for FaultyHost {
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()> {
        // A kill may leave the temporary file, whose name has this format.
        if self.faults.fault == Fault::Kill && self.faults.is_next() {
            let half = path.parent().unwrap().join(".gpubuild-half00");
            self.host.write(&half, &content[..content.len() / 2])?;
        }
        self.change()?;
        self.host.write(path, content)?;
        self.synced(path);
        Ok(())
    }

    fn create(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.change()?;
        Ok(self.opened(path, self.host.create(path)?))
    }

    fn append(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.change()?;
        Ok(self.opened(path, self.host.append(path)?))
    }

    fn set_executable(&self, path: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.set_executable(path)
    }
    fn set_read_only(&self, path: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.set_read_only(path)
    }
    fn set_writable(&self, path: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.set_writable(path)
    }

    fn create_dir_all(&self, path: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.create_dir_all(path)
    }

    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.rename(from, to)
    }

    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.copy(from, to)?;
        self.synced(to);
        Ok(())
    }

    fn link(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.link(from, to)
    }

    fn duplicate(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.duplicate(from, to)
    }

    fn exchange(&self, one: &HostPath, other: &HostPath) -> io::Result<()> {
        if !self.exchanges {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.change()?;
        self.host.exchange(one, other)
    }

    fn symlink(&self, text: &str, link: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.symlink(text, link)
    }

    fn remove(&self, path: &HostPath) -> io::Result<()> {
        // Folders are removed file by file: a kill in the middle leaves the rest.
        if self.faults.fault == Fault::Kill && self.faults.is_next() && self.host.is_dir(path) {
            for name in self.host.list(path)?.into_iter().take(1) {
                self.host.remove(&path.join(&name))?;
            }
        }
        match self.change() {
            Err(error) if self.faults.fault != Fault::Always(ENOSPC) => Err(error),
            _ => self.host.remove(path),
        }
    }

    fn flush(&self, path: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.flush(path)?;
        self.synced(path);
        Ok(())
    }

    fn flush_all(&self, folder: &HostPath) -> io::Result<()> {
        self.change()?;
        self.host.flush_all(folder)?;
        files_below(&[PathBuf::from(folder.as_str())]).for_each(|path| self.durable.add(&path));
        Ok(())
    }

    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath> {
        self.change()?;
        self.host.temporary_dir(parent)
    }

    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<FileLock>> {
        self.change()?;
        self.host.lock(path, wait)
    }

    fn free_space(&self, path: &HostPath) -> Option<u64> {
        self.host.free_space(path)
    }
}

impl NetworkAccess for FaultyHost {}

impl Host for FaultyHost {}
