//! Archives at URLs: the lock file, the cache, and what happens if something is wrong.

use std::io::Read as _;
use std::process::Stdio;

use crate::server::{Reply, Request, Server, files, part};
use crate::support::{Project, archive, library, sha256, stored_zip};

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
    let (server, source) = served(b"7z\xbc\xaf\x27\x1c");
    project.set_source(&source);
    project.run(&["fetch"]).fails(1, "archive.format").says("a 7z archive");
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

/// An archive that is not tiny.
fn large() -> Vec<u8> {
    let noise = |seed: u32| -> String {
        (0..9000u32).map(|i| char::from(b'a' + (i.wrapping_mul(seed) >> 27) as u8 % 26)).collect()
    };
    let extra = (0..4).map(|i| (format!("x-1.0/data/{i}.txt"), noise(2_654_435_761 + i))).collect();
    archive(&[library("x-1.0", 1), extra].concat())
}

/// A server whose first response is cut after half of the body, and a project with its archive.
fn interrupted(
    bytes: &[u8],
    reply: impl Fn(&Request, &[u8]) -> Reply + Send + Sync + 'static,
) -> (Server, Project) {
    let (body, half) = (bytes.to_vec(), bytes.len() / 2);
    let server = Server::start(move |request| match request.before {
        0 => reply(request, &body).cut(half),
        _ => reply(request, &body),
    });
    let url = server.url("x-1.0.tar.gz");
    let project = Project::new(&format!("{{ url = \"{url}\", sha256 = \"{}\", strip = 1 }}", sha256(bytes)));
    (server, project)
}

/// The first byte that each request asked for.
fn ranges(server: &Server) -> Vec<Option<usize>> {
    server.requests().iter().map(Request::range).collect()
}

#[test]
fn interrupted_download_is_continued_by_the_next_command() {
    let bytes = large();
    let (server, project) = interrupted(&bytes, part);
    project.run(&["fetch"]).fails(1, "net.cut");
    assert_eq!(project.names("cache/sources").len(), 1, "the first half is kept");
    project.run(&["fetch"]).succeeds();
    assert_eq!(ranges(&server), [None, Some(bytes.len() / 2)]);
    assert_eq!(server.requests()[1].header("if-range"), Some("\"tag\""));
    let names = project.names("cache/sources");
    assert!(names.len() == 1 && !names[0].starts_with('.'), "{names:?}");
    assert!(!project.exists(&format!("cache/sources/{}/archive", names[0])));
}

#[test]
fn interrupted_download_is_continued_within_a_command() {
    let bytes = large();
    let (server, project) = interrupted(&bytes, part);
    let fetched = project.command(&["fetch"]).env("GPUBUILD_HTTP_RETRIES", "1").output().unwrap();
    crate::support::Finished::from(fetched).succeeds();
    assert_eq!(ranges(&server), [None, Some(bytes.len() / 2)]);
}

#[test]
fn modification_time_identifies_what_is_continued() {
    let bytes = large();
    let (server, project) = interrupted(&bytes, |request, body| {
        let reply = part(&Request { headers: without_condition(request), ..request.clone() }, body);
        let Reply::Complete { status, mut headers, body } = reply else { return reply };
        headers.retain(|(name, _)| name != "ETag");
        Reply::Complete { status, headers, body }
            .with("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
            .with("Date", "Thu, 02 Jan 2025 00:00:00 GMT")
    });
    project.run(&["fetch"]).fails(1, "net.cut");
    project.run(&["fetch"]).succeeds();
    assert_eq!(server.requests()[1].header("if-range"), Some("Wed, 01 Jan 2025 00:00:00 GMT"));
}

fn without_condition(request: &Request) -> Vec<(String, String)> {
    request.headers.iter().filter(|(name, _)| name != "if-range").cloned().collect()
}

type Answer = fn(&Request, &[u8]) -> Reply;

#[test]
fn changed_or_unknown_content_is_downloaded_again() {
    let bytes = large();
    // A server without ranges, and one that continues although the content has changed.
    let ignores = |_: &Request, body: &[u8]| Reply::ok(body);
    let other_tag = |request: &Request, body: &[u8]| match request.before {
        0 => Reply::ok(&vec![b'x'; body.len()]).with("ETag", "\"old\""),
        _ => part(&Request { headers: without_condition(request), ..request.clone() }, body),
    };
    // A server that does not identify the content: only the hash shows that it has changed.
    let no_tag = |request: &Request, body: &[u8]| match (request.before, request.range()) {
        (0, _) => Reply::ok(&vec![b'x'; body.len()]),
        (_, Some(first)) => Reply::status(206, &body[first..])
            .with("Content-Range", &format!("bytes {first}-{}/{}", body.len() - 1, body.len())),
        _ => Reply::ok(body),
    };
    let refuses = |request: &Request, body: &[u8]| match request.range() {
        Some(_) => Reply::status(416, b""),
        None => Reply::ok(body),
    };
    let half = Some(bytes.len() / 2);
    let scenes: [(Answer, Vec<Option<usize>>); 4] = [
        (ignores, vec![None, half]),
        (other_tag, vec![None, half, None]),
        (no_tag, vec![None, half, None]),
        (refuses, vec![None, half, None]),
    ];
    for (reply, requested) in scenes {
        let (server, project) = interrupted(&bytes, reply);
        project.run(&["fetch"]).fails(1, "net.cut");
        project.run(&["fetch"]).succeeds();
        assert_eq!(ranges(&server), requested);
    }
}

#[test]
fn zip_archive_is_a_source() {
    // `x-1.0/CMakeLists.txt` and `x-1.0/adder.c`, not compressed.
    let bytes = stored_zip(&library("x-1.0", 1));
    let server = Server::start(files(vec![("x-1.0.zip".to_owned(), bytes.clone())]));
    let url = server.url("x-1.0.zip");
    let project = Project::new(&format!("{{ url = \"{url}\", sha256 = \"{}\", strip = 1 }}", sha256(&bytes)));
    project.run(&["fetch"]).succeeds();
    project.run(&["plan", "--backends", "cpu"]).succeeds();
    let names = project.names("cache/sources");
    assert!(names.len() == 1 && names[0].starts_with("x-1.0-"), "{names:?}");
    assert!(project.exists(&format!("cache/sources/{}/adder.c", names[0])));
}

#[test]
fn continued_download_with_a_wrong_hash_leaves_nothing_behind() {
    let bytes = large();
    let (server, project) = interrupted(&bytes, |request, body| part(request, &vec![b'x'; body.len()]));
    project.run(&["fetch"]).fails(1, "net.cut");
    project.run(&["fetch"]).fails(1, "source.hash-mismatch");
    assert_eq!(ranges(&server), [None, Some(bytes.len() / 2), None]);
    assert!(project.names("cache/sources").is_empty());
}

/// An answer to the request for the second half of a file, which begins at this byte.
type Lie = fn(usize, &[u8]) -> Reply;

fn content_range(first: usize, last: usize, total: usize) -> String {
    format!("bytes {first}-{last}/{total}")
}

#[test]
fn lying_servers_never_give_wrong_sources() {
    // The answer to the request for the second half; all other requests are answered honestly.
    let scenes: [(&str, Lie); 9] = [
        ("another start", |half, body| {
            let range = content_range(half + 1, body.len() - 1, body.len());
            Reply::status(206, &body[half + 1..]).with("Content-Range", &range)
        }),
        ("no range", |half, body| Reply::status(206, &body[half..])),
        ("another total", |half, body| {
            Reply::status(206, &body[half..])
                .with("Content-Range", &content_range(half, body.len() + 4, body.len() + 5))
        }),
        ("not a range", |half, body| {
            Reply::status(206, &body[half..]).with("Content-Range", "bytes ::error::x")
        }),
        ("nothing", |half, body| {
            Reply::status(206, b"").with("Content-Range", &content_range(half, body.len() - 1, body.len()))
        }),
        ("too much", |half, body| {
            let long = [&body[half..], &vec![b'x'; 1 << 20]].concat();
            Reply::status(206, &long).with("Content-Range", &content_range(half, body.len() - 1, body.len()))
        }),
        ("encoded", |half, body| {
            let range = content_range(half, body.len() - 1, body.len());
            Reply::status(206, &body[half..]).with("Content-Range", &range).with("Content-Encoding", "gzip")
        }),
        ("a shorter file", |half, body| Reply::ok(&body[..half / 2])),
        ("no content", |_, _| Reply::status(204, b"")),
    ];
    let bytes = large();
    for (name, lie) in scenes {
        let (server, project) = interrupted(&bytes, move |request, body| match request.before {
            1 => lie(body.len() / 2, body),
            _ => part(request, body),
        });
        project.run(&["fetch"]).fails(1, "net.cut");
        // Whatever the command makes of the answer, a few more reach the honest file.
        let done = (0..3).any(|_| {
            let output = project.command(&["fetch"]).output().unwrap();
            assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {output:?}");
            assert!(
                !String::from_utf8_lossy(&output.stderr).lines().any(|line| line.starts_with("::")),
                "{name}"
            );
            let names = project.names("cache/sources");
            let complete = names.iter().any(|found| !found.starts_with('.'));
            assert_eq!(complete, output.status.success(), "{name}: {names:?}");
            complete
        });
        assert!(done, "{name}: no fetch succeeded");
        assert!(server.requests().len() <= 6, "{name}: {} requests", server.requests().len());
        let names = project.names("cache/sources");
        assert!(project.exists(&format!("cache/sources/{}/adder.c", names[0])), "{name}: {names:?}");
    }
}
