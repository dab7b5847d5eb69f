//! A kill at any point leaves the version before or the new one: by a host that dies at the n-th thing that is done to the disk, and
//! by real kills of the program.
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
    InstallError, InstallOrder, InstalledRelease, MayFall, Starting, install, rollback,
};
use gpubuild_release::source::ReleaseSource;
use gpubuild_release::{Devices, ReleaseMachine, ResolveQuestion, manifest};

use crate::foreign::MARKER;
use crate::release::{Release, Variant, check, tool};
use crate::server::{Server, files};
use crate::support::{World, recorded, tree};

/// A host that is killed before the n-th change of the disk: from then on nothing has an effect.
pub(crate) struct Dying {
    host: RealHost,
    env: Environment,
    left: Arc<AtomicUsize>,
    /// Whether its disk lets two folders change places.
    exchanges: bool,
}

impl Dying {
    pub(crate) fn at(count: usize) -> Self {
        let host = RealHost::new();
        let env = host.env().clone();
        Self { host, env, left: Arc::new(AtomicUsize::new(count)), exchanges: true }
    }

    pub(crate) fn with_environment(self, env: Environment) -> Self {
        Self { env, ..self }
    }

    /// The same with a disk that can't exchange folders.
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

/// A file of which a kill leaves what was written before.
struct DyingFile {
    file: Option<Box<dyn NewFile>>,
    left: Arc<AtomicUsize>,
}

impl Write for DyingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        step(&self.left)?;
        self.file.as_mut().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().unwrap().flush()
    }
}

impl NewFile for DyingFile {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        step(&self.left)?;
        self.file.take().unwrap().finish()
    }
}

impl HostInfo for Dying {
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

impl ReadFiles for Dying {
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

impl ReadRegistry for Dying {
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

impl RunPrograms for Dying {
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

impl ProbeLibraries for Dying {
    fn probe(&self, id: &str, deadline: Duration) -> ProbeAnswer {
        self.host.probe(id, deadline)
    }
}

impl Clock for Dying {
    fn now(&self) -> u64 {
        self.host.now()
    }

    fn elapsed(&self) -> Duration {
        self.host.elapsed()
    }
}

impl WriteFiles for Dying {
    fn write(&self, path: &HostPath, content: &[u8]) -> io::Result<()> {
        // A kill may leave the temporary file, whose name has this form.
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
        Ok(Box::new(DyingFile { file, left: Arc::clone(&self.left) }))
    }

    fn append(&self, path: &HostPath) -> io::Result<Box<dyn NewFile>> {
        self.step()?;
        let file = Some(self.host.append(path)?);
        Ok(Box::new(DyingFile { file, left: Arc::clone(&self.left) }))
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
        // A folder goes file by file: a kill in the middle leaves the others.
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

impl NetworkAccess for Dying {}

impl Host for Dying {}

/// A version with so many files.
fn version(number: u64, files: usize) -> Release {
    let words = format!("{number}.0.0");
    let mut variant = Variant::cpu(&words);
    let all = (0..files).map(|n| (format!("lib/part{n}"), format!("{words} {n}").into_bytes()));
    variant.layers = vec![all.collect(), vec![("bin/tool".to_owned(), tool(&words, "cpu"))]];
    variant.start = check();
    Release::new(&words, number, vec![variant])
}

/// The files that a version has.
fn expected(number: u64, files: usize) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = version(number, files).variants[0].layers.concat();
    all.sort();
    all
}

fn act(host: &dyn Host, world: &World, release: &str) -> Result<(), InstallError> {
    let path = |name: &str| host.path(&world.at(name));
    let source = ReleaseSource::at(host, path(release));
    let client = Client::new(host, Network::Offline, PlainHttp::Loopback, Box::new(|_| ()));
    let read = source.manifest(&client).map_err(InstallError::Source)?;
    let manifest = manifest::read(&read.bytes).unwrap();
    let machine = ReleaseMachine { platform: "linux-x86_64".to_owned(), ..ReleaseMachine::default() };
    let order = InstallOrder {
        host,
        to: &path("to"),
        question: ResolveQuestion {
            manifest: &manifest,
            machine: &machine,
            devices: Devices::All,
            backend: None,
            variant: None,
            without: &[],
        },
        fallback: MayFall::Never,
        start: Starting::Within(Duration::from_secs(60)),
        take: &|layer| source.layer(&client, layer, &|_| {}),
        sink: &|_| {},
    };
    install(&order).map(drop)
}

/// A version with all of its files.
type Whole = (&'static str, Vec<(String, Vec<u8>)>);

/// Exactly one of two versions is there as a whole, whichever way one looks.
fn is_one_of(world: &World, wanted: &[Whole], at: &str) -> String {
    let host = RealHost::new();
    let installed = InstalledRelease::read(&host, &host.path(&world.at("to")))
        .unwrap_or_else(|| panic!("{at}: nothing is installed"));
    let current = installed.pair.current.unwrap_or_else(|| panic!("{at}: nothing is current"));
    let link = std::fs::read_link(world.path("to/current")).unwrap();
    assert_eq!(link, Path::new("versions").join(&current.folder), "{at}");
    let (_, all) = wanted
        .iter()
        .find(|(version, _)| *version == current.version)
        .unwrap_or_else(|| panic!("{at}: {current:?}"));
    assert_eq!(&tree(&world.path("to/current/")), all, "{at}: half of {}", current.version);
    if let Some(previous) = installed.pair.previous {
        let (_, all) = wanted.iter().find(|(version, _)| *version == previous.version).unwrap();
        assert_eq!(
            &tree(&world.path(&format!("to/versions/{}", previous.folder))),
            all,
            "{at}: half of the one before"
        );
    }
    current.version
}

/// Nothing stays of what was killed.
fn is_tidy(world: &World, at: &str) {
    let mut names: Vec<String> = std::fs::read_dir(world.path("to"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".lock", "current", MARKER, "state.json", "versions"], "{at}");
    let versions = std::fs::read_dir(world.path("to/versions")).unwrap().count();
    assert!(versions <= 2, "{at}: {versions} versions");
}

#[test]
fn a_kill_before_any_change_of_the_disk_leaves_the_old_or_the_new() {
    const FILES: usize = 64;
    let made = World::new();
    version(0, 1).write(&made, "zero");
    version(1, 2).write(&made, "one");
    version(2, FILES).write(&made, "two");
    let all = [("0.0.0", expected(0, 1)), ("1.0.0", expected(1, 2)), ("2.0.0", expected(2, FILES))];
    let (mut points, mut old, mut new) = (0, 0, 0);
    for count in 0.. {
        made.remove_folder("to");
        act(&RealHost::new(), &made, "zero").unwrap();
        act(&RealHost::new(), &made, "one").unwrap();
        let outcome = act(&Dying::at(count), &made, "two");
        let at = format!("killed before change {count}");
        if outcome.is_ok() {
            break;
        }
        points += 1;
        match is_one_of(&made, &all, &at).as_str() {
            "1.0.0" => old += 1,
            "2.0.0" => new += 1,
            other => panic!("{at}: {other}"),
        }
        // Most of the points are in the middle of unpacking: mending is tried at some of those, and at all others.
        if count % 8 == 0 || new > 0 || count < 16 {
            act(&RealHost::new(), &made, "two").unwrap_or_else(|error| panic!("{at}, and then: {error}"));
            assert_eq!(is_one_of(&made, &all, &at), "2.0.0");
            is_tidy(&made, &at);
        }
    }
    assert!(
        points >= 200 && old > 0 && new > 2,
        "{points} points, {old} times the old one, {new} times the new one"
    );
}

#[test]
fn a_kill_of_a_first_installation_leaves_nothing_or_all() {
    let made = World::new();
    version(1, 2).write(&made, "one");
    let host = RealHost::new();
    for count in 0.. {
        made.remove_folder("to");
        if act(&Dying::at(count), &made, "one").is_ok() {
            assert!(count > 10);
            break;
        }
        let at = format!("killed before change {count}");
        let names = host.list(&host.path(&made.at("to"))).unwrap_or_default();
        assert!(names.is_empty() || names.contains(&MARKER.to_owned()), "{at}: {names:?}");
        let there =
            InstalledRelease::read(&host, &host.path(&made.at("to"))).and_then(|one| one.pair.current);
        if there.is_some() {
            is_one_of(&made, &[("1.0.0", expected(1, 2))], &at);
        } else {
            assert!(!made.path("to/current").exists(), "{at}");
        }
        act(&host, &made, "one").unwrap_or_else(|error| panic!("{at}, and then: {error}"));
        is_tidy(&made, &at);
    }
}

#[test]
fn a_kill_while_going_back_leaves_one_of_the_two() {
    let made = World::new();
    version(1, 2).write(&made, "one");
    version(2, 3).write(&made, "two");
    let both = [("1.0.0", expected(1, 2)), ("2.0.0", expected(2, 3))];
    let real = RealHost::new();
    for count in 0.. {
        made.remove_folder("to");
        act(&real, &made, "one").unwrap();
        act(&real, &made, "two").unwrap();
        let host = Dying::at(count);
        let done =
            rollback(&host, &real.path(&made.at("to")), Starting::Within(Duration::from_secs(60)), &|_| {})
                .is_ok();
        let at = format!("killed before change {count}");
        let version = is_one_of(&made, &both, &at);
        if done {
            assert_eq!(version, "1.0.0");
            assert!(count >= 4, "{count} points");
            break;
        }
        let installed = InstalledRelease::read(&real, &real.path(&made.at("to"))).unwrap();
        assert!(installed.pair.previous.is_some(), "{at}: nothing to go back to");
    }
}

/// The program itself, over the network, killed after a while: what was fetched is gone on with.
#[test]
fn kills_of_the_program_leave_the_old_or_the_new() {
    const KILLS: u32 = 40;
    let made = World::new();
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
    version(1, 2).write(&made, "release");
    large.write(&made, "served");
    let server = Server::start(files(made.tree("served")));
    let (url, host) = (server.url(""), recorded("debian-12-bare"));
    let second = ["install", "--unsigned", "--json", "--to", "to", "--manifest", &url, "--host", &host];
    let begin = || {
        made.remove_folder("to");
        made.remove_folder("cache");
        made.install(&[]).done();
    };
    begin();
    let started = Instant::now();
    made.run(&second).done();
    let whole = started.elapsed();
    for kill in 0..KILLS {
        begin();
        let mut child =
            made.command().args(second).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * kill / KILLS);
        child.kill().unwrap();
        child.wait().unwrap();
        let at = format!("killed after {:?}", whole * kill / KILLS);
        is_one_of(&made, &both, &at);
        made.run(&second).done();
        assert_eq!(is_one_of(&made, &both, &at), "2.0.0");
        is_tidy(&made, &at);
    }
}
