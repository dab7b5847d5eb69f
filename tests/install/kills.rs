//! A kill at any point leaves the previous or the new version: with a host that fails from the n-th disk change on,
//! and with real kills of the program.
#![expect(clippy::disallowed_methods, reason = "a test starts and kills the program")]

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gpubuild_exec::python::Network;
use gpubuild_host::{
    Clock, Command, CommandOutput, Environment, FileLock, Host, HostCounts, HostInfo, HostPath, Identity,
    NetworkAccess, NewFile, OutputLine, Platform, ProbeAnswer, ProbeLibraries, ReadFiles, ReadRegistry,
    RealHost, RegistryValue, RunError, RunPrograms, Stat, Wait, WriteFiles,
};
use gpubuild_release::fetch::{Client, PlainHttp};
use gpubuild_release::install::{
    FallbackPolicy, InstallError, InstallRequest, InstalledRelease, SmokeTest, install, rollback,
};
use gpubuild_release::source::ReleaseSource;
use gpubuild_release::{Devices, ReleaseMachine, ResolveRequest, manifest};

use crate::foreign::MARKER;
use crate::release::{Release, Variant, check, tool};
use crate::server::{Server, files};
use crate::support::{Sandbox, recorded, tree};

/// A host that simulates a kill before the n-th disk change: later changes fail without effect.
pub(crate) struct KilledHost {
    host: RealHost,
    env: Environment,
    left: Arc<AtomicUsize>,
    /// Whether the disk supports atomic exchange of folders.
    exchanges: bool,
}

impl KilledHost {
    pub(crate) fn at(count: usize) -> Self {
        let host = RealHost::new();
        let env = host.env().clone();
        Self { host, env, left: Arc::new(AtomicUsize::new(count)), exchanges: true }
    }

    pub(crate) fn with_environment(self, env: Environment) -> Self {
        Self { env, ..self }
    }

    /// Disables atomic exchange of folders.
    pub(crate) fn without_exchange(self) -> Self {
        Self { exchanges: false, ..self }
    }

    fn step(&self) -> io::Result<()> {
        step(&self.left)
    }
}

fn step(left: &AtomicUsize) -> io::Result<()> {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
        .map(drop)
        .map_err(|_| io::Error::other("killed"))
}

/// A file that keeps what was written before the kill.
struct KilledFile {
    file: Option<Box<dyn NewFile>>,
    left: Arc<AtomicUsize>,
}

impl Write for KilledFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(&self.left)?;
        self.file.as_mut().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().unwrap().flush()
    }
}

impl NewFile for KilledFile {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        step(&self.left)?;
        self.file.take().unwrap().finish()
    }

    fn close(mut self: Box<Self>) -> io::Result<()> {
        step(&self.left)?;
        self.file.take().unwrap().close()
    }
}

impl HostInfo for KilledHost {
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

impl ReadFiles for KilledHost {
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

impl ReadRegistry for KilledHost {
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

impl RunPrograms for KilledHost {
    fn run(&self, command: &Command) -> Result<CommandOutput, RunError> {
        self.step().map_err(|_| RunError::Interrupted)?;
        self.host.run(command)
    }

    fn run_lines(
        &self,
        command: &Command,
        on: &mut dyn FnMut(OutputLine<'_>),
    ) -> Result<CommandOutput, RunError> {
        self.host.run_lines(command, on)
    }
}

impl ProbeLibraries for KilledHost {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.host.probe(id, deadline)
    }
}

impl Clock for KilledHost {
    fn now(&self) -> u64 {
        self.host.now()
    }

    fn elapsed(&self) -> Duration {
        self.host.elapsed()
    }
}

impl WriteFiles for KilledHost {
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()> {
        // A kill may leave the temporary file, whose name has this format.
        if self.left.load(Ordering::SeqCst) == 1 {
            let half = path.parent().unwrap().join(".gpubuild-half00");
            self.host.write(&half, &content[..content.len() / 2])?;
            return Err(io::Error::other("killed"));
        }
        self.step()?;
        self.host.write(path, content)
    }

    fn create(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.step()?;
        let file = Some(self.host.create(path)?);
        Ok(Box::new(KilledFile { file, left: Arc::clone(&self.left) }))
    }

    fn append(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.step()?;
        let file = Some(self.host.append(path)?);
        Ok(Box::new(KilledFile { file, left: Arc::clone(&self.left) }))
    }

    fn set_executable(&self, path: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.set_executable(path)
    }

    fn create_dir_all(&self, path: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.create_dir_all(path)
    }

    fn rename(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.rename(from, to)
    }

    fn copy(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.copy(from, to)
    }

    fn link(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.link(from, to)
    }

    fn duplicate(&self, from: &HostPath, to: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.duplicate(from, to)
    }

    fn flush_all(&self, folder: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.flush_all(folder)
    }

    fn exchange(&self, one: &HostPath, other: &HostPath) -> io::Result<()> {
        if !self.exchanges {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.step()?;
        self.host.exchange(one, other)
    }

    fn symlink(&self, text: &str, link: &HostPath) -> io::Result<()> {
        self.step()?;
        self.host.symlink(text, link)
    }

    fn remove(&self, path: &HostPath) -> io::Result<()> {
        // Folders are removed file by file: a kill in the middle leaves the rest.
        self.step()?;
        if self.left.load(Ordering::SeqCst) == 0 && self.host.is_dir(path) {
            for name in self.host.list(path)?.into_iter().take(1) {
                self.host.remove(&path.join(&name))?;
            }
            return Err(io::Error::other("killed"));
        }
        self.host.remove(path)
    }

    fn temporary_dir(&self, parent: &HostPath) -> io::Result<HostPath> {
        self.step()?;
        self.host.temporary_dir(parent)
    }

    fn lock(&self, path: &HostPath, wait: Wait) -> io::Result<Option<FileLock>> {
        self.step()?;
        self.host.lock(path, wait)
    }

    fn free_space(&self, path: &HostPath) -> Option<u64> {
        self.host.free_space(path)
    }
}

impl NetworkAccess for KilledHost {}

impl Host for KilledHost {}

/// A release of a version with this number of files.
fn version(number: u64, files: usize) -> Release {
    let version = format!("{number}.0.0");
    let mut variant = Variant::cpu(&version);
    let all = (0..files).map(|n| (format!("lib/part{n}"), format!("{version} {n}").into_bytes()));
    variant.layers = vec![all.collect(), vec![("bin/tool".to_owned(), tool(&version, "cpu"))]];
    variant.start = check();
    Release::new(&version, number, vec![variant])
}

/// The installed files of that version.
fn expected(number: u64, files: usize) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = version(number, files).variants[0].layers.concat();
    all.sort();
    all
}

fn act(host: &dyn Host, sandbox: &Sandbox, release: &str) -> Result<(), InstallError> {
    let path = |name: &str| host.path(&sandbox.at(name));
    let source = ReleaseSource::at(host, path(release));
    let client = Client::new(host, Network::Offline, PlainHttp::Loopback, Box::new(|_| ()));
    let read = source.manifest(&client).map_err(InstallError::Source)?;
    let manifest = manifest::read(&read.bytes).unwrap();
    let machine = ReleaseMachine { platform: "linux-x86_64".to_owned(), ..ReleaseMachine::default() };
    let order = InstallRequest {
        host,
        to: &path("to"),
        resolve: ResolveRequest {
            manifest: &manifest,
            machine: &machine,
            devices: Devices::All,
            backend: None,
            variant: None,
            excluded: &[],
        },
        fallback: FallbackPolicy::Deny,
        smoke_test: SmokeTest::Within(Duration::from_secs(60)),
        layers: &|layer| source.layer(&client, layer, &|_| {}),
        sink: &|_| {},
    };
    install(&order).map(drop)
}

/// A version and all of its files.
type Whole = (&'static str, Vec<(String, Vec<u8>)>);

/// Checks that exactly one of these versions is current and complete, and returns it.
fn is_one_of(sandbox: &Sandbox, wanted: &[Whole], at: &str) -> String {
    let host = RealHost::new();
    let installed = InstalledRelease::read(&host, &host.path(&sandbox.at("to")))
        .unwrap_or_else(|| panic!("{at}: nothing is installed"));
    let current = installed.pair.current.unwrap_or_else(|| panic!("{at}: nothing is current"));
    let link = std::fs::read_link(sandbox.path("to/current")).unwrap();
    assert_eq!(link, Path::new("versions").join(&current.folder), "{at}");
    let (_, all) = wanted
        .iter()
        .find(|(version, _)| *version == current.version)
        .unwrap_or_else(|| panic!("{at}: {current:?}"));
    assert_eq!(&tree(&sandbox.path("to/current/")), all, "{at}: {} is incomplete", current.version);
    if let Some(previous) = installed.pair.previous {
        let (_, all) = wanted.iter().find(|(version, _)| *version == previous.version).unwrap();
        assert_eq!(
            &tree(&sandbox.path(&format!("to/versions/{}", previous.folder))),
            all,
            "{at}: half of the one before"
        );
    }
    current.version
}

/// Checks that killed installations left no files.
fn is_tidy(sandbox: &Sandbox, at: &str) {
    let mut names: Vec<String> = std::fs::read_dir(sandbox.path("to"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".lock", "current", MARKER, "state.json", "versions"], "{at}");
    let versions = std::fs::read_dir(sandbox.path("to/versions")).unwrap().count();
    assert!(versions <= 2, "{at}: {versions} versions");
}

#[test]
fn kill_before_any_disk_change_leaves_the_old_or_new_version() {
    const FILES: usize = 64;
    let sandbox = Sandbox::new();
    version(0, 1).write(&sandbox, "zero");
    version(1, 2).write(&sandbox, "one");
    version(2, FILES).write(&sandbox, "two");
    let all = [("0.0.0", expected(0, 1)), ("1.0.0", expected(1, 2)), ("2.0.0", expected(2, FILES))];
    let (mut points, mut old, mut new) = (0, 0, 0);
    for count in 0.. {
        sandbox.remove_folder("to");
        act(&RealHost::new(), &sandbox, "zero").unwrap();
        act(&RealHost::new(), &sandbox, "one").unwrap();
        let outcome = act(&KilledHost::at(count), &sandbox, "two");
        let at = format!("killed before change {count}");
        if outcome.is_ok() {
            break;
        }
        points += 1;
        match is_one_of(&sandbox, &all, &at).as_str() {
            "1.0.0" => old += 1,
            "2.0.0" => new += 1,
            other => panic!("{at}: {other}"),
        }
        // Most points are in the middle of unpacking: recovery is tested at some of those and at all others.
        if count % 8 == 0 || new > 0 || count < 16 {
            act(&RealHost::new(), &sandbox, "two").unwrap_or_else(|error| panic!("{at}, and then: {error}"));
            assert_eq!(is_one_of(&sandbox, &all, &at), "2.0.0");
            is_tidy(&sandbox, &at);
        }
    }
    assert!(
        points >= 200 && old > 0 && new > 2,
        "{points} points, {old} times the old one, {new} times the new one"
    );
}

#[test]
fn kill_of_a_first_installation_leaves_nothing_or_everything() {
    let sandbox = Sandbox::new();
    version(1, 2).write(&sandbox, "one");
    let host = RealHost::new();
    for count in 0.. {
        sandbox.remove_folder("to");
        if act(&KilledHost::at(count), &sandbox, "one").is_ok() {
            assert!(count > 10);
            break;
        }
        let at = format!("killed before change {count}");
        let names = host.list(&host.path(&sandbox.at("to"))).unwrap_or_default();
        assert!(names.is_empty() || names.contains(&MARKER.to_owned()), "{at}: {names:?}");
        let there =
            InstalledRelease::read(&host, &host.path(&sandbox.at("to"))).and_then(|one| one.pair.current);
        if there.is_some() {
            is_one_of(&sandbox, &[("1.0.0", expected(1, 2))], &at);
        } else {
            assert!(!sandbox.path("to/current").exists(), "{at}");
        }
        act(&host, &sandbox, "one").unwrap_or_else(|error| panic!("{at}, and then: {error}"));
        is_tidy(&sandbox, &at);
    }
}

#[test]
fn kill_during_rollback_leaves_one_complete_version() {
    let sandbox = Sandbox::new();
    version(1, 2).write(&sandbox, "one");
    version(2, 3).write(&sandbox, "two");
    let both = [("1.0.0", expected(1, 2)), ("2.0.0", expected(2, 3))];
    let real = RealHost::new();
    for count in 0.. {
        sandbox.remove_folder("to");
        act(&real, &sandbox, "one").unwrap();
        act(&real, &sandbox, "two").unwrap();
        let host = KilledHost::at(count);
        let done = rollback(
            &host,
            &real.path(&sandbox.at("to")),
            SmokeTest::Within(Duration::from_secs(60)),
            &|_| {},
        )
        .is_ok();
        let at = format!("killed before change {count}");
        let version = is_one_of(&sandbox, &both, &at);
        if done {
            assert_eq!(version, "1.0.0");
            assert!(count >= 4, "{count} points");
            break;
        }
        let installed = InstalledRelease::read(&real, &real.path(&sandbox.at("to"))).unwrap();
        assert!(installed.pair.previous.is_some(), "{at}: nothing to go back to");
    }
}

/// Kills the program during an installation over the network; the next call resumes the download.
#[test]
fn kill_of_the_program_leaves_the_old_or_new_version() {
    const KILLS: u32 = 40;
    let sandbox = Sandbox::new();
    let mut noise: u32 = 1;
    let mut large = version(2, 20);
    let bytes = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    });
    large.variants[0].layers[0].push(("lib/large".to_owned(), bytes.take(3 << 20).collect()));
    let mut all = large.variants[0].layers.concat();
    all.sort();
    let both = [("1.0.0", expected(1, 2)), ("2.0.0", all)];
    version(1, 2).write(&sandbox, "release");
    large.write(&sandbox, "served");
    let server = Server::start(files(sandbox.tree("served")));
    let (url, host) = (server.url(""), recorded("debian-12-bare"));
    let second = ["install", "--unsigned", "--json", "--to", "to", "--manifest", &url, "--host", &host];
    let begin = || {
        sandbox.remove_folder("to");
        sandbox.remove_folder("cache");
        sandbox.install(&[]).done();
    };
    begin();
    let started = Instant::now();
    sandbox.run(&second).done();
    let duration = started.elapsed();
    for kill in 0..KILLS {
        begin();
        let mut child =
            sandbox.command().args(second).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(duration * kill / KILLS);
        child.kill().unwrap();
        child.wait().unwrap();
        let at = format!("killed after {:?}", duration * kill / KILLS);
        is_one_of(&sandbox, &both, &at);
        sandbox.run(&second).done();
        assert_eq!(is_one_of(&sandbox, &both, &at), "2.0.0");
        is_tidy(&sandbox, &at);
    }
}
