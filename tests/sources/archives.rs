//! Archives at URLs: the lock file, the cache, and what happens if something is wrong.

use std::io::Read as _;
use std::process::Stdio;

use crate::server::{Reply, Server, files};
use crate::support::{Project, archive, library, sha256};

/// A server with an archive, and the value of `source` for it.
fn served(bytes: &[u8]) -> (Server, String) {
    let server = Server::start(files(vec![("x-1.0.tar.gz".to_owned(), bytes.to_vec())]));
    let source =
        format!("{{ url = \"{}\", sha256 = \"{}\", strip = 1 }}", server.url("x-1.0.tar.gz"), sha256(bytes));
    (server, source)
}

#[test]
fn archive_is_fetched_once_and_pinned() {
    let bytes = archive(&library("x-1.0", 1));
    let (server, source) = served(&bytes);
    let project = Project::new(&source);
    project.run(&["plan", "--backends", "cpu"]).fails(2, "source.not-fetched").says("gpubuild fetch");
    project.run(&["build", "--dry-run"]).fails(2, "source.not-fetched");
    // The doctor runs on machines without the sources.
    let doctor = project.run(&["doctor", "--offline", "--json"]);
    assert!(doctor.json()["findings"].is_array(), "{doctor:?}");
    project.run(&["clean"]).succeeds();
    project.run(&["link"]).fails(2, "manifest.missing");
    project.run(&["fetch", "--locked"]).fails(2, "source.locked");
    project.run(&["fetch", "--offline"]).fails(1, "source.offline");
    assert!(server.requests().is_empty());
    let report = project.run(&["fetch", "--json"]).succeeds().json();
    let one = &report["projects"][0];
    assert_eq!((one["kind"].as_str(), one["fetched"].as_bool()), (Some("url"), Some(true)), "{report}");
    let lock = project.read("app/gpubuild.lock");
    assert!(lock.contains(&format!("sha256 = \"{}\"", sha256(&bytes))), "{lock}");
    // The second time needs neither the server nor a change of the lock file.
    let report = project.run(&["fetch", "--json", "--offline", "--locked"]).succeeds().json();
    assert_eq!(report["projects"][0]["fetched"].as_bool(), Some(false), "{report}");
    project.run(&["update"]).succeeds();
    assert_eq!(server.requests().len(), 1);
    assert_eq!(project.read("app/gpubuild.lock"), lock);
    let plan = project.run(&["plan", "--backends", "cpu", "--json"]).succeeds().json();
    let folder = one["folder"].as_str().unwrap();
    assert_eq!(plan["trees"][0]["source"].as_str(), Some(folder));
    assert_eq!(project.names("cache/sources").len(), 1);
    // The lock file belongs to one source.
    let other =
        format!("{{ url = \"http://127.0.0.1:1/y.tar.gz\", sha256 = \"{}\", strip = 1 }}", sha256(&bytes));
    project.set_source(&other);
    project.run(&["fetch", "--locked"]).fails(2, "source.locked").says("does not match");
}

#[test]
fn wrong_hashes_and_archives_leave_nothing_behind() {
    let bytes = archive(&library("x-1.0", 1));
    let (_server, source) = served(&bytes);
    let project = Project::new(&source.replace(&sha256(&bytes), &"0".repeat(64)));
    project.run(&["fetch"]).fails(1, "source.hash-mismatch").says(&sha256(&bytes));
    assert!(project.names("cache/sources").is_empty() && !project.exists("app/gpubuild.lock"));
    let (server, source) = served(b"PK\x03\x04");
    project.set_source(&source);
    project.run(&["fetch"]).fails(1, "archive.format").says("a zip archive");
    let missing = source.replace("x-1.0", "y");
    project.set_source(&missing);
    project.run(&["fetch"]).fails(1, "net.status");
    assert!(server.requests().len() == 2 && project.names("cache/sources").is_empty());
    let (_server, source) = served(&bytes);
    project.set_source(&source.replace("strip = 1", "strip = 0, path = \"x-2.0\""));
    project.run(&["fetch"]).fails(2, "source.path-missing").says("`x-1.0`");
    assert!(!project.exists("app/gpubuild.lock"));
    project.set_source("{ git = \"https://h/x\", rev = \"main\" }");
    project.run(&["fetch"]).fails(2, "project.invalid").says("git ls-remote https://h/x main");
}

#[test]
fn damaged_lock_file_is_refused_and_replaced_by_update() {
    let (_server, source) = served(&archive(&library("x-1.0", 1)));
    let project = Project::new(&source);
    for damaged in ["version = 1\n[source]\n", "version = 9\n", "<<<<<<< HEAD\n"] {
        project.write("app/gpubuild.lock", damaged);
        project.run(&["fetch"]).fails(2, "source.lock-invalid").says("gpubuild update");
        project.run(&["plan"]).fails(2, "source.lock-invalid");
    }
    project.run(&["update"]).succeeds();
    project.run(&["fetch", "--locked"]).succeeds();
    project.run(&["update", "--locked"]).fails(2, "source.locked");
}

#[test]
fn killed_download_leaves_the_last_good_state() {
    let (old, new) = (archive(&library("x-1.0", 1)), archive(&library("x-1.0", 2)));
    let (_first, source) = served(&old);
    let project = Project::new(&source);
    project.run(&["fetch"]).succeeds();
    let (lock, names) = (project.read("app/gpubuild.lock"), project.names("cache/sources"));
    let half = new.len() / 2;
    let body = new.clone();
    let server = Server::start(move |request| match request.before {
        0 => Reply::ok(&body).stall(half),
        _ => Reply::ok(&body),
    });
    let changed =
        format!("{{ url = \"{}\", sha256 = \"{}\", strip = 1 }}", server.url("x-1.0.tar.gz"), sha256(&new));
    project.set_source(&changed);
    let mut child = project.command(&["fetch"]).stderr(Stdio::piped()).spawn().unwrap();
    // The message appears before the request.
    child.stderr.as_mut().unwrap().read_exact(&mut [0; 11]).unwrap();
    while server.requests().is_empty() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(project.read("app/gpubuild.lock"), lock);
    project.set_source(&source);
    project.run(&["fetch", "--offline", "--locked"]).succeeds();
    // The next download removes the rest.
    project.set_source(&changed);
    project.run(&["fetch"]).succeeds();
    let after = project.names("cache/sources");
    assert!(after.len() == 2 && after.contains(&names[0]), "{after:?}");
}

#[test]
fn two_processes_download_once() {
    let bytes = archive(&library("x-1.0", 1));
    let (server, source) = served(&bytes);
    let project = Project::new(&source);
    let children: Vec<_> = (0..4).map(|_| project.command(&["fetch", "--quiet"]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(server.requests().len(), 1);
    assert_eq!(project.names("cache/sources").len(), 1);
}
