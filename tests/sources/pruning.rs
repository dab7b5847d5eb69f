//! `gpubuild cache` and downloaded sources.
#![expect(clippy::disallowed_methods, reason = "the test locks a file")]

use crate::server::{Server, files};
use crate::support::{Finished, Project, archive, library, sha256};

fn cache(project: &Project, arguments: &[&str]) -> Finished {
    project.command(&[&["cache"], arguments].concat()).env("GPUBUILD_STORE", "on").output().unwrap().into()
}

#[test]
fn sources_are_counted_and_pruned_except_those_of_running_downloads() {
    let bytes = archive(&library("x-1.0", 1));
    let server = Server::start(files(vec![("x-1.0.tar.gz".to_owned(), bytes.clone())]));
    let url = server.url("x-1.0.tar.gz");
    let project = Project::new(&format!("{{ url = \"{url}\", sha256 = \"{}\", strip = 1 }}", sha256(&bytes)));
    project.run(&["fetch"]).succeeds();
    project.write("cache/sources/.killed-1.0.tmp/tree/file", "1234");
    let name = project.names("cache/sources").pop().unwrap();
    let listed = cache(&project, &["size", "--json"]).succeeds().json();
    assert_eq!(listed["sources"]["count"], 2, "{listed}");
    cache(&project, &["list"]).succeeds().says("2 downloaded sources, ");

    // The rest of a killed download goes, sources that are not old stay.
    let removed = cache(&project, &["prune", "--older-than", "1d", "--json"]).succeeds().json();
    assert_eq!(
        (&removed["removed_sources"]["count"], &removed["removed_sources"]["bytes"]),
        (&1.into(), &4.into())
    );
    assert_eq!(project.names("cache/sources"), [name.as_str()]);
    // A process that holds the lock is downloading them.
    let lock = std::fs::File::create(project.path(&format!("cache/sources/.{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let removed = cache(&project, &["prune", "--all", "--json"]).succeeds().json();
    assert_eq!(removed["removed_sources"]["count"], 0);
    drop(lock);
    cache(&project, &["prune", "--all"]).succeeds().says("removed 1 downloaded sources");
    assert!(project.names("cache/sources").is_empty());
    // They come back.
    project.run(&["fetch", "--locked"]).succeeds();
    assert_eq!(project.names("cache/sources"), [name]);
}
