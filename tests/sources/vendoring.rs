//! Copies of sources in a folder of the project.

use crate::server::{Server, files};
use crate::support::{Project, archive, library, sha256};

#[test]
fn vendored_sources_need_neither_network_nor_cache() {
    let bytes = archive(&library("x-1.0", 1));
    let server = Server::start(files(vec![("x-1.0.tar.gz".to_owned(), bytes.clone())]));
    let url = server.url("x-1.0.tar.gz");
    let project = Project::new(&format!("{{ url = \"{url}\", sha256 = \"{}\", strip = 1 }}", sha256(&bytes)));
    for outside in ["..", ".", "/", "../other"] {
        project.run(&["fetch", "--vendor", outside]).fails(2, "usage.no-folder");
    }
    let before = project.read("app/gpubuild.toml");
    project.run(&["fetch", "--vendor", "third party/native"]).succeeds().says("set `vendor = ");
    let after = project.read("app/gpubuild.toml");
    assert_eq!(after.replace("vendor = \"third party/native\"\n", ""), before);
    project.remove("cache");
    project.run(&["fetch", "--offline", "--locked"]).succeeds();
    let plan = project.run(&["plan", "--backends", "cpu", "--json"]).succeeds().json();
    let source = plan["trees"][0]["source"].as_str().unwrap().to_owned();
    assert!(source.contains("/app/third party/native/x-1.0-"), "{source}");
    assert_eq!(server.requests().len(), 1);
    assert!(!project.exists("cache/sources"));
    // Users change their copy; the rest of a killed process is removed.
    let name = &project.names("app/third party/native")[0];
    let copy = format!("app/third party/native/{name}");
    project.write(&format!("{copy}/adder.c"), "int add(int x);\n");
    project.write(&format!("app/third party/native/.{name}.tmp/rest"), "");
    project.remove(&format!("{copy}/.gpubuild-source.json"));
    project.run(&["plan"]).fails(2, "source.not-fetched").says("third party/native");
    // Without the marker, the folder may be the user's own.
    project.run(&["fetch"]).fails(1, "source.vendor-occupied").says(name);
    assert_eq!(project.read(&format!("{copy}/adder.c")), "int add(int x);\n");
    project.remove(&copy);
    project.run(&["fetch"]).succeeds();
    assert!(project.read(&format!("{copy}/adder.c")).contains("x + 1"));
    assert_eq!(project.names("app/third party/native"), [name.as_str()]);
}

/// `fetch` writes nothing outside of the project, whatever its file and its folders say.
#[test]
fn vendored_sources_stay_in_the_project() {
    let bytes = archive(&library("x-1.0", 1));
    let server = Server::start(files(vec![("x-1.0.tar.gz".to_owned(), bytes.clone())]));
    let url = server.url("x-1.0.tar.gz");
    let project = Project::new(&format!("{{ url = \"{url}\", sha256 = \"{}\", strip = 1 }}", sha256(&bytes)));
    let file = project.read("app/gpubuild.toml");
    for outside in ["../out", "/tmp", "a/../../out", "", ".", "C:out"] {
        let changed = file.replace("[project]\n", &format!("[project]\nvendor = \"{outside}\"\n"));
        project.write("app/gpubuild.toml", &changed);
        project.run(&["fetch"]).fails(2, "project.invalid").says("project.vendor");
    }
    project.write("out/keep", "");
    std::os::unix::fs::symlink("../out", project.path("app/link")).unwrap();
    for folder in ["link", "link/inner"] {
        let changed = file.replace("[project]\n", &format!("[project]\nvendor = \"{folder}\"\n"));
        project.write("app/gpubuild.toml", &changed);
        project.run(&["fetch"]).fails(1, "file.link-refused").says("app/link");
    }
    assert_eq!(project.names("out"), ["keep"]);
    let changed = file.replace("[project]\n", "[project]\nvendor = \"third/\"\n");
    project.write("app/gpubuild.toml", &changed);
    project.run(&["fetch"]).succeeds();
    assert_eq!(project.names("app/third").len(), 1);
}
