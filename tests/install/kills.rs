//! A kill at any point leaves the previous or the new version: with a host that fails
//! from the n-th disk change on, and that then loses what was not flushed. `reliability` kills the program itself.
#![expect(clippy::disallowed_methods, reason = "a test reads its own folders")]

use std::path::Path;
use std::time::Duration;

use gpubuild_exec::python::Network;
use gpubuild_host::{Host, HostInfo, ReadFiles, RealHost};
use gpubuild_release::fetch::{Client, PlainHttp};
use gpubuild_release::install::{
    FallbackPolicy, InstallError, InstallRequest, InstalledRelease, ProvenancePolicy, SmokeTest, install,
    rollback,
};
use gpubuild_release::source::ReleaseSource;
use gpubuild_release::{Devices, ReleaseMachine, ResolveRequest, manifest};

use crate::faulty::{Fault, FaultyHost};
use crate::foreign::MARKER;
use crate::release::{Release, Variant, check, tool};
use crate::support::{Sandbox, tree};

/// A release of a version with this number of files.
pub(crate) fn version(number: u64, files: usize) -> Release {
    let version = format!("{number}.0.0");
    let mut variant = Variant::cpu(&version);
    let all = (0..files).map(|n| (format!("lib/part{n}"), format!("{version} {n}").into_bytes()));
    variant.layers = vec![all.collect(), vec![("bin/tool".to_owned(), tool(&version, "cpu"))]];
    variant.start = check();
    Release::new(&version, number, vec![variant])
}

/// The installed files of that version.
pub(crate) fn expected(number: u64, files: usize) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = version(number, files).variants[0].layers.concat();
    all.sort();
    all
}

pub(crate) fn act(host: &dyn Host, sandbox: &Sandbox, release: &str) -> Result<(), InstallError> {
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
        newest: manifest.serial,
        fallback: FallbackPolicy::Deny,
        smoke_test: SmokeTest::Within(Duration::from_secs(60)),
        provenance: ProvenancePolicy::Ignore,
        layers: &|layer| source.layer(&client, layer, &|_| {}),
        sink: &|_| {},
    };
    install(&order).map(drop)
}

/// A version and all of its files.
pub(crate) type Whole = (&'static str, Vec<(String, Vec<u8>)>);

/// Checks that exactly one of these versions is current and complete, and returns it.
pub(crate) fn is_one_of(sandbox: &Sandbox, wanted: &[Whole], at: &str) -> String {
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
pub(crate) fn is_tidy(sandbox: &Sandbox, at: &str) {
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
    let (mut points, mut old, mut new, mut lost) = (0, 0, 0, 0);
    for count in 0.. {
        sandbox.remove_folder("to");
        act(&RealHost::new(), &sandbox, "zero").unwrap();
        act(&RealHost::new(), &sandbox, "one").unwrap();
        let to = [sandbox.path("to")];
        let host = FaultyHost::new(Fault::Kill, count).knows(&to);
        let outcome = act(&host, &sandbox, "two");
        // A power failure loses more than a kill. Half of the points get one.
        if count % 2 == 0 {
            lost += host.lose_unsynced(&to);
        }
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
        points >= 200 && old > 0 && new > 2 && lost > 20,
        "{points} points, {old} times the old one, {new} times the new one, {lost} files lost"
    );
}

#[test]
fn kill_of_a_first_installation_leaves_nothing_or_everything() {
    let sandbox = Sandbox::new();
    version(1, 2).write(&sandbox, "one");
    let host = RealHost::new();
    for count in 0.. {
        sandbox.remove_folder("to");
        let disk = FaultyHost::new(Fault::Kill, count);
        if act(&disk, &sandbox, "one").is_ok() {
            assert!(count > 10);
            break;
        }
        disk.lose_unsynced(&[sandbox.path("to")]);
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
        let to = [sandbox.path("to")];
        let host = FaultyHost::new(Fault::Kill, count).knows(&to);
        let done = rollback(
            &host,
            &real.path(&sandbox.at("to")),
            SmokeTest::Within(Duration::from_secs(60)),
            &|_| {},
        )
        .is_ok();
        host.lose_unsynced(&to);
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
