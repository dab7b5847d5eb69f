//! Generated cases for `gpubuild install` and `gpubuild pack`: kills, faults of the disk, and actors that run at once.
//! `GPUBUILD_CASES` sets the number of cases of the long tests.
#![expect(clippy::disallowed_methods, reason = "a test starts the program and reads its files")]

use std::path::PathBuf;
use std::process::Stdio;

use gpubuild_detect::diagnostic::Diagnostic as _;
use gpubuild_host::{Environment, HostInfo, HostPath, Os, RealHost, WriteFiles};

use crate::faulty::{ERRORS, Fault, FaultyHost};
use crate::kill::{Random, Victim, cases, temporary_names};
use crate::kills::{Whole, act, expected, is_one_of, is_tidy, version};
use crate::packing::{contents, pack};
use crate::release::Release;
use crate::server::{Server, files};
use crate::support::{RunResult, Sandbox, recorded};

/// Version 2 with a file that takes a moment to download and unpack, and its files.
fn large() -> (Release, Whole) {
    let mut random = Random::new(1);
    let mut large = version(2, 20);
    let bytes = std::iter::repeat_with(|| u8::try_from(random.below(256)).unwrap());
    large.variants[0].layers[0].push(("lib/large".to_owned(), bytes.take(3 << 20).collect()));
    let mut all = large.variants[0].layers.concat();
    all.sort();
    (large, ("2.0.0", all))
}

/// Kills installations over the network. The next call resumes the download.
fn kill_installations(kills: usize) {
    let sandbox = Sandbox::new();
    let (large, second) = large();
    let both = [("1.0.0", expected(1, 2)), second];
    version(1, 2).write(&sandbox, "release");
    large.write(&sandbox, "served");
    let server = Server::start(files(sandbox.tree("served")));
    let (url, host) = (server.url(""), recorded("debian-12-bare"));
    let arguments = ["install", "--unsigned", "--json", "--to", "to", "--manifest", &url, "--host", &host];
    let temporary = sandbox.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let command = || {
        let mut command = sandbox.command();
        command.args(arguments).env("TMPDIR", &temporary);
        command
    };
    let begin = || {
        sandbox.remove_folder("to");
        sandbox.remove_folder("cache");
        sandbox.install(&[]).done();
    };
    begin();
    let folders = vec![sandbox.path("to"), sandbox.path("cache"), temporary.clone()];
    let mut victim = Victim::new(7, folders.clone(), &mut command());
    let mut attempts = 0;
    while victim.needs_more(kills, attempts) {
        attempts += 1;
        begin();
        victim.kill(&mut command());
        let at = format!("attempt {attempts}");
        is_one_of(&sandbox, &both, &at);
        RunResult::from(command().output().unwrap()).done();
        assert_eq!(is_one_of(&sandbox, &both, &at), "2.0.0");
        is_tidy(&sandbox, &at);
        assert_eq!(temporary_names(&folders[..1]), Vec::<PathBuf>::new(), "{at}");
    }
    // Few kills hit the moment in which this file exists.
    sandbox.write("cache/layers/sha256/.gpubuild-abc123", "");
    // `cache prune` removes what killed processes left in the cache, once no running process can be using it.
    for path in &temporary_names(&folders) {
        make_old(path);
    }
    assert_eq!(sandbox.run(&["cache", "prune"]).exit, Some(0));
    assert_eq!(temporary_names(&folders), Vec::<PathBuf>::new());
}

#[test]
fn killed_installation_leaves_the_old_or_new_version() {
    kill_installations(25);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_killed_installations_leave_the_old_or_new_version() {
    kill_installations(cases(25));
}

/// Installs over a version with a faulty disk.
fn fault_installations(count: usize) {
    let sandbox = Sandbox::new();
    version(1, 2).write(&sandbox, "one");
    version(2, 12).write(&sandbox, "two");
    let both = [("1.0.0", expected(1, 2)), ("2.0.0", expected(2, 12))];
    act(&RealHost::new(), &sandbox, "one").unwrap();
    let complete = FaultyHost::new(Fault::Kill, usize::MAX);
    act(&complete, &sandbox, "two").unwrap();
    let (mut random, mut failed) = (Random::new(3), 0);
    for case in 0..count {
        sandbox.remove_folder("to");
        act(&RealHost::new(), &sandbox, "one").unwrap();
        let (fault, at) = (ERRORS[case % ERRORS.len()], random.below(complete.changes()));
        let outcome = act(&FaultyHost::new(fault, at), &sandbox, "two");
        let at = format!("{fault:?} at change {at}: {outcome:?}");
        is_one_of(&sandbox, &both, &at);
        if let Err(error) = outcome {
            failed += 1;
            assert!(!error.id().starts_with("internal"), "{at}");
            assert!(!error.to_string().is_empty(), "{at}");
        }
        act(&RealHost::new(), &sandbox, "two").unwrap_or_else(|error| panic!("{at}, and then: {error}"));
        assert_eq!(is_one_of(&sandbox, &both, &at), "2.0.0");
        is_tidy(&sandbox, &at);
    }
    assert!(failed > count / 3, "{failed} of {count} failed");
}

/// Packs over a release with a faulty disk.
fn fault_packs(count: usize) {
    let sandbox = Sandbox::new();
    let env = Environment::new(Os::Linux, [("GPUBUILD_CACHE", sandbox.at("cache"))]);
    let disk = |fault, at| {
        let mut host = FaultyHost::new(fault, at);
        host.env = env.clone();
        host
    };
    let host = disk(Fault::Kill, usize::MAX);
    let paths: Vec<HostPath> =
        (0..12).map(|index| host.path(&sandbox.at(&format!("files/{index}")))).collect();
    for (index, path) in paths.iter().enumerate() {
        host.write(path, format!("content {index}").repeat(100).as_bytes()).unwrap();
    }
    let release = sandbox.path("release");
    let folder = host.path(release.to_str().unwrap());
    pack(&host, &folder, "first", &paths[..6]).unwrap();
    let (old, before) = (contents(&release), host.changes());
    pack(&host, &folder, "second", &paths).unwrap();
    let (new, changes) = (contents(&release), host.changes() - before);
    let (mut random, mut failed) = (Random::new(4), 0);
    for case in 0..count {
        sandbox.remove_folder("release");
        pack(&host, &folder, "first", &paths[..6]).unwrap();
        let (fault, at) = (ERRORS[case % ERRORS.len()], random.below(changes));
        let outcome = pack(&disk(fault, at), &folder, "second", &paths);
        let at = format!("{fault:?} at change {at}: {:?}", outcome.as_ref().map_err(ToString::to_string));
        let now = contents(&release);
        assert!(now == old || now == new, "{at}: neither the old release nor the new one");
        if let Err(error) = outcome {
            failed += 1;
            assert!(!error.id().starts_with("internal"), "{at}");
        }
        pack(&host, &folder, "second", &paths).unwrap_or_else(|error| panic!("{at}, and then: {error}"));
        assert_eq!(contents(&release), new, "{at}: the next call");
    }
    assert!(failed > count / 3, "{failed} of {count} failed");
}

#[test]
fn disk_faults_leave_the_old_or_new_release() {
    fault_installations(7);
    fault_packs(7);
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn many_disk_faults_leave_the_old_or_new_release() {
    fault_installations(cases(35));
    fault_packs(cases(35));
}

/// Two installations of different versions, a rollback and a reader at once, on one folder.
fn install_at_once(rounds: usize) {
    let sandbox = Sandbox::new();
    version(1, 6).write(&sandbox, "one");
    version(2, 12).write(&sandbox, "two");
    let both = [("1.0.0", expected(1, 6)), ("2.0.0", expected(2, 12))];
    let host = recorded("debian-12-bare");
    let install = |release: &str| {
        let mut command = sandbox.command();
        command.args([
            "install",
            "--unsigned",
            "--json",
            "--to",
            "to",
            "--host",
            &host,
            "--manifest",
            release,
        ]);
        command
    };
    let rollback = || {
        let mut command = sandbox.command();
        command.args(["install", "--rollback", "--json", "--to", "to", "--host", &host]);
        command
    };
    for round in 0..rounds {
        if round % 5 == 0 {
            sandbox.remove_folder("to");
            act(&RealHost::new(), &sandbox, "one").unwrap();
            act(&RealHost::new(), &sandbox, "two").unwrap();
        }
        let commands = [install("one"), install("two"), rollback(), install("two")];
        let children = commands
            .map(|mut command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // The current version can be started at every moment.
        for _ in 0..5 {
            assert!(["1.0.0\n", "2.0.0\n"].contains(&sandbox.installed().as_str()), "round {round}");
        }
        for child in children {
            let ran = RunResult::from(child.wait_with_output().unwrap());
            assert!(matches!(ran.exit, Some(0..=2)), "round {round}: {ran:#?}");
            if ran.exit != Some(0) {
                assert!(ran.json()["error"]["id"].as_str().is_some_and(|id| !id.starts_with("internal")));
            }
        }
        is_one_of(&sandbox, &both, &format!("round {round}"));
        is_tidy(&sandbox, &format!("round {round}"));
    }
}

#[test]
#[ignore = "takes long: `cargo test -- --ignored`"]
fn concurrent_installations_and_rollbacks_leave_one_complete_version() {
    install_at_once(cases(5));
}

/// Sets the modification time of a file or folder to an hour ago.
fn make_old(path: &std::path::Path) {
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::open(path).unwrap().set_modified(hour_ago).unwrap();
}
