//! The real host: the machine that gpubuild runs on.

mod conversation;
mod decode;
#[cfg(unix)]
mod family;
mod files;
mod group;
mod kept;
pub mod lines;
mod memo;
#[cfg(feature = "command")]
mod net;
mod permissions;
mod probe;
mod process;
#[cfg(feature = "command")]
mod read_limit;
pub(crate) mod reading;
mod registry;
mod stat;
mod temporary;
#[cfg(all(test, unix))]
mod tests;
mod variable;
mod watch;

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::interrupt::Interrupt;
use super::{
    Arch, Clock, Command, CommandOutput, DOCUMENT_LIMIT, Environment, FileLock, Host, HostCounts, HostInfo,
    HostPath, Identity, JobPool, NetworkAccess, NewFile, Os, OutputLine, Platform, ProbeAnswer,
    ProbeLibraries, ProbeStatus, ReadFiles, ReadRegistry, RegistryValue, RunError, RunPrograms, Stat, Wait,
    WriteFiles, search,
};

/// The real host. The environment is read once, when this value is created.
#[derive(Debug)]
pub struct RealHost {
    platform: Platform,
    env: Environment,
    identity: Identity,
    interrupt: Arc<Interrupt>,
    answers_probes: bool,
    made: Instant,
    processes: AtomicU64,
    files: AtomicU64,
    #[cfg(feature = "command")]
    clients: net::Clients,
    /// Acquired lock files; the reference of a released lock is dead.
    locks: Mutex<Vec<(HostPath, Weak<File>)>>,
    /// Set if files are examined only once.
    memo: OnceLock<memo::FileMemo>,
}

impl Default for RealHost {
    fn default() -> Self {
        Self::new()
    }
}

impl RealHost {
    /// Creates a host for this machine with its current environment. Variables that are not UTF-8 are omitted
    /// ([`Environment::not_utf8`]), and so are such folders on PATH.
    #[must_use]
    pub fn new() -> Self {
        let platform = this_platform();
        #[expect(
            clippy::disallowed_methods,
            reason = "host interface: the only place that reads the environment"
        )]
        let variables = std::env::vars_os();
        let (variables, not_utf8) = decode::decode(variables);
        #[expect(clippy::disallowed_methods, reason = "host interface: `Host::elapsed` counts from here")]
        let made = Instant::now();
        Self {
            platform,
            env: Environment::new(platform.os, variables).with_not_utf8(not_utf8),
            identity: this_identity(),
            interrupt: Arc::default(),
            answers_probes: false,
            made,
            processes: AtomicU64::new(0),
            files: AtomicU64::new(0),
            #[cfg(feature = "command")]
            clients: net::Clients::default(),
            locks: Mutex::default(),
            memo: OnceLock::new(),
        }
    }

    /// Declares that the running executable implements `__probe ID`. Only the `gpubuild` program may call this: a build script that
    /// starts itself for a probe would run its complete build again.
    #[must_use]
    pub fn with_own_probes(mut self) -> Self {
        self.answers_probes = true;
        self
    }

    /// From now on, assumes that neither this process nor another one changes files. For a process that examines the machine once:
    /// the checks ask for the same paths again and again.
    pub fn examine_files_once(&self) {
        self.memo.get_or_init(memo::FileMemo::new);
    }

    /// The interrupt state, to check for or trigger termination.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The interrupt state as a shared handle, for a signal handler.
    #[must_use]
    pub fn interrupt_handle(&self) -> Arc<Interrupt> {
        Arc::clone(&self.interrupt)
    }

    fn start(
        &self,
        command: &Command,
        on_line: Option<process::OnLine<'_>>,
    ) -> Result<CommandOutput, RunError> {
        let program = self.program(command)?;
        self.processes.fetch_add(1, Ordering::Relaxed);
        let lock = command.lock.as_ref().and_then(|path| self.held(path));
        process::run(&self.interrupt, &program, command, lock.as_deref(), on_line)
    }

    /// Resolves the program to start. A bare name is searched on the child's PATH.
    fn program(&self, command: &Command) -> Result<HostPath, RunError> {
        let name = command.argv.first().map_or("", String::as_str);
        let not_found = || RunError::NotFound { program: name.to_owned() };
        if name.is_empty() {
            return Err(not_found());
        }
        if search::is_bare(self.platform, name) {
            let path = command.env.iter().rev().find(|(variable, _)| match self.platform.os {
                Os::Windows => variable.eq_ignore_ascii_case("PATH"),
                Os::Linux | Os::Macos => variable == "PATH",
            });
            let path = match path {
                Some((_, value)) => value.as_deref(),
                None => self.env.get("PATH"),
            };
            return search::find_program_in(self, name, path.unwrap_or_default())
                .into_iter()
                .next()
                .ok_or_else(not_found);
        }
        let path = self.path(name);
        if path.is_absolute() {
            return Ok(path);
        }
        match &command.current_dir {
            Some(folder) if folder.is_absolute() => Ok(folder.join(name)),
            _ => self.current_dir().map(|folder| folder.join(name)).map_err(|_| not_found()),
        }
    }

    /// The lock on a file, if this process holds it.
    fn held(&self, path: &HostPath) -> Option<Arc<File>> {
        let locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.iter().find_map(|(held, file)| file.upgrade().filter(|_| held == path))
    }

    fn count_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }
}

fn this_platform() -> Platform {
    let os = if cfg!(windows) {
        Os::Windows
    } else if cfg!(target_os = "macos") {
        Os::Macos
    } else {
        Os::Linux
    };
    let arch = if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 };
    Platform { os, arch }
}

#[cfg(unix)]
fn this_identity() -> Identity {
    use gpubuild_core::order::SortIndirect as _;

    let mut groups: Vec<u32> = rustix::process::getgroups()
        .unwrap_or_default()
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .chain([rustix::process::getegid().as_raw()])
        .collect();
    groups.sort_indirect();
    groups.dedup();
    Identity { uid: Some(rustix::process::geteuid().as_raw()), groups }
}

#[cfg(not(unix))]
fn this_identity() -> Identity {
    Identity::default()
}

impl HostInfo for RealHost {
    fn platform(&self) -> Platform {
        self.platform
    }

    fn env(&self) -> &Environment {
        &self.env
    }

    fn own_program(&self) -> Option<HostPath> {
        let program = std::env::current_exe().ok()?;
        Some(self.path(program.to_str()?))
    }

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn current_dir(&self) -> io::Result<HostPath> {
        #[expect(clippy::disallowed_methods, reason = "host interface")]
        let folder = std::env::current_dir().map_err(|error| {
            io::Error::new(error.kind(), format!("failed to find the current folder: {error}"))
        })?;
        files::host_path(self.platform.path_rules(), &folder)
    }

    fn counts(&self) -> HostCounts {
        HostCounts {
            processes: self.processes.load(Ordering::Relaxed),
            files: self.files.load(Ordering::Relaxed),
        }
    }
}

impl ReadFiles for RealHost {
    fn stat(&self, path: &HostPath) -> io::Result<Stat> {
        let extensions = if self.platform.os == Os::Windows { search::extensions(&self.env) } else { "" };
        self.memo.get().map_or_else(|| stat::stat(path, extensions), |memo| memo.stat(path, extensions))
    }

    fn canonical(&self, path: &HostPath) -> io::Result<HostPath> {
        self.memo.get().map_or_else(|| files::canonical(path), |memo| memo.canonical(path))
    }

    fn read_link(&self, path: &HostPath) -> io::Result<String> {
        files::read_link(path)
    }

    fn read(&self, path: &HostPath) -> io::Result<Vec<u8>> {
        self.count_file();
        self.memo
            .get()
            .map_or_else(|| reading::read(path, DOCUMENT_LIMIT), |memo| Ok(memo.read(path)?.to_vec()))
    }

    fn read_up_to(&self, path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
        self.count_file();
        reading::read(path, limit)
    }

    fn read_input(&self, path: &HostPath, limit: u64) -> io::Result<Vec<u8>> {
        self.count_file();
        reading::read_input(path, limit)
    }

    fn read_start(&self, path: &HostPath, limit: usize) -> io::Result<Vec<u8>> {
        self.read_part(path, 0, limit)
    }

    fn read_part(&self, path: &HostPath, start: u64, limit: usize) -> io::Result<Vec<u8>> {
        self.count_file();
        reading::read_part(path, start, limit)
    }

    fn open(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        self.count_file();
        Ok(Box::new(reading::open_regular(path)?))
    }

    fn open_input(&self, path: &HostPath) -> io::Result<Box<dyn io::Read + Send>> {
        self.count_file();
        Ok(Box::new(reading::open_input(path)?))
    }

    fn list(&self, folder: &HostPath) -> io::Result<Vec<String>> {
        self.memo.get().map_or_else(|| files::list(folder), |memo| Ok(memo.list(folder)?.to_vec()))
    }

    fn has_unlisted(&self, folder: &HostPath) -> io::Result<bool> {
        files::has_unlisted(folder)
    }

    fn list_matching(&self, folder: &HostPath, pattern: &str) -> io::Result<Vec<String>> {
        let names = match self.memo.get() {
            Some(memo) => memo.list(folder)?,
            None => Arc::new(files::list(folder)?),
        };
        Ok(search::matching(self.platform(), pattern, &names).cloned().collect())
    }

    fn open_device(&self, path: &HostPath) -> io::Result<()> {
        self.count_file();
        files::open_device(path)
    }

    fn is_same_file(&self, one: &HostPath, other: &HostPath) -> bool {
        files::is_same_file(one, other)
    }
}

impl ReadRegistry for RealHost {
    fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        registry::value(key, name)
    }

    fn registry_keys(&self, key: &str) -> Vec<String> {
        registry::keys(key)
    }

    fn registry_values(&self, key: &str) -> Vec<(String, RegistryValue)> {
        registry::values(key)
    }

    fn visual_studio_tool(&self, name: &str) -> Option<HostPath> {
        // Returns `None` on other platforms, and if Visual Studio is not installed.
        let tool = find_msvc_tools::find_tool(self.platform.arch.id(), name)?;
        tool.path().to_str().map(|path| self.path(path))
    }
}

impl RunPrograms for RealHost {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        self.start(command, None)
    }

    fn run_lines(
        &self,
        command: &Command,
        on_line: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        self.start(command, Some(on_line))
    }
}

impl ProbeLibraries for RealHost {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.probe_with(id, &[], deadline)
    }

    fn probe_with(&self, id: &str, arguments: &[String], deadline: Duration) -> ProbeAnswer {
        let own = std::env::current_exe().ok().filter(|_| self.answers_probes);
        let Some(program) = own.as_deref().and_then(std::path::Path::to_str) else {
            let error = "only the `gpubuild` program can probe drivers, not the library".to_owned();
            return ProbeAnswer { status: ProbeStatus::Failed, error, answer: String::new() };
        };
        probe::classify(self.run(&Command::new(program, deadline).args(["__probe", id]).args(arguments)))
    }
}

impl Clock for RealHost {
    fn now(&self) -> u64 {
        #[expect(clippy::disallowed_methods, reason = "host interface")]
        let now = std::time::SystemTime::now();
        now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn elapsed(&self) -> Duration {
        self.made.elapsed()
    }
}

impl WriteFiles for RealHost {
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()> {
        files::write(path, content)
    }

    fn create(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        files::create(path)
    }

    fn append(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        files::append(path)
    }

    fn set_executable(&self, path: &HostPath) -> io::Result<()> {
        permissions::set_executable(path)
    }
    fn set_read_only(&self, path: &HostPath) -> io::Result<()> {
        permissions::set_read_only(path)
    }
    fn set_writable(&self, path: &HostPath) -> io::Result<()> {
        permissions::set_writable(path)
    }

    fn create_dir_all(&self, path: &HostPath) -> io::Result<()> {
        files::create_dir_all(path)
    }

    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        files::rename(from, to)
    }

    fn exchange(&self, one: &HostPath, other: &HostPath) -> io::Result<()> {
        files::exchange(one, other)
    }

    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        files::copy(from, to)
    }

    fn link(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        files::link(from, to)
    }

    fn duplicate(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        files::duplicate(from, to)
    }

    fn symlink(&self, text: &str, link: &HostPath) -> io::Result<()> {
        files::symlink(text, link)
    }

    fn flush_all(&self, folder: &HostPath) -> io::Result<()> {
        files::flush_all(folder)
    }

    fn flush(&self, path: &HostPath) -> io::Result<()> {
        files::flush(path)
    }

    fn remove(&self, path: &HostPath) -> io::Result<()> {
        files::remove(path)
    }

    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath> {
        files::temporary_dir(parent)
    }

    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<FileLock>> {
        let taken = files::lock(path, wait, &self.interrupt)?;
        if let Some(file) = taken.as_ref().and_then(|lock| lock.file.as_ref()) {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|(_, file)| file.strong_count() > 0);
            locks.push((path.clone(), Arc::downgrade(file)));
        }
        Ok(taken)
    }

    fn job_pool(&self, pipe: &HostPath, jobs: u32) -> io::Result<Option<JobPool>> {
        JobPool::make(pipe, jobs)
    }

    fn free_space(&self, path: &HostPath) -> Option<u64> {
        files::free_space(path)
    }

    fn free_files(&self, path: &HostPath) -> Option<u64> {
        files::free_files(path)
    }
}

impl NetworkAccess for RealHost {
    #[cfg(feature = "command")]
    fn fetch(&self, request: &crate::net::HttpRequest) -> Result<crate::net::Response, crate::net::NetError> {
        self.clients.fetch(request)
    }

    fn converse(
        &self,
        address: &str,
        question: &str,
        time: Duration,
    ) -> Result<String, crate::net::NetError> {
        conversation::converse(address, question, time)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

impl Host for RealHost {
    fn set_variable(&self, name: &str, value: &str) -> io::Result<()> {
        variable::set(name, value);
        Ok(())
    }
}
