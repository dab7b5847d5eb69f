//! Servers that send a few bytes per second: each fetch is given up, whatever the kind of source.

use crate::git::has_git;
use crate::server::{Reply, Server};
use crate::support::{Finished, Project, sha256};

/// The time limit of a server in seconds; ten times as long for all attempts, and for git.
const LIMIT: &str = "0.3";

fn fetch(project: &Project) -> Finished {
    let mut command = project.command(&["fetch"]);
    command.env("GPUBUILD_HTTP_TIMEOUT", LIMIT).env("GPUBUILD_HTTP_RETRIES", "1");
    Finished::from(command.output().unwrap())
}

#[test]
fn slow_archive_is_given_up_although_each_attempt_adds_bytes() {
    // Without a limit for all attempts, there would be 200 of them.
    let bytes = vec![b'x'; 20_000];
    let (url, body) = ("x-1.0.tar.gz", bytes.clone());
    let server = Server::start(move |request| crate::server::part(request, &body).slow());
    let project =
        Project::new(&format!("{{ url = \"{}\", sha256 = \"{}\" }}", server.url(url), sha256(&bytes)));
    fetch(&project).fails(1, "net.slow").says("hint: the same command resumes");
    let requests = server.requests();
    assert!((2..50).contains(&requests.len()), "{} requests", requests.len());
    assert!(requests.iter().skip(1).all(|one| one.range() > Some(0)), "{requests:?}");
}

#[test]
fn slow_index_of_a_registry_is_given_up() {
    let server = Server::start(|_| Reply::ok(&vec![b' '; 20_000]).slow());
    let project = Project::new("{ crate = \"adder\", version = \"1.0.0\" }");
    project.replace_crates_io(&server.url("index/"));
    fetch(&project).fails(1, "net.slow");
    assert!(server.requests().len() <= 4, "{:?}", server.requests());
}

#[test]
fn slow_git_server_is_given_up_and_not_asked_again() {
    if !has_git() {
        return;
    }
    let server = Server::start(|_| {
        let kind = "application/x-git-upload-pack-advertisement";
        Reply::ok(&b"001e# service=git-upload-pack\n0000".repeat(100)).with("Content-Type", kind).slow()
    });
    let rev = "1234567890123456789012345678901234567890";
    let project = Project::new(&format!("{{ git = \"{}\", rev = \"{rev}\" }}", server.url("repo.git")));
    fetch(&project).fails(1, "source.git-slow").says("Less than 256 bytes/sec").says("GPUBUILD_HTTP_TIMEOUT");
    assert_eq!(server.requests().len(), 1);
    assert!(project.names("cache/sources").is_empty());
}
