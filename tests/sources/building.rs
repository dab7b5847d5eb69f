//! Builds of fetched sources: patches apply to a copy, and the cache stays as it is.
#![expect(clippy::disallowed_methods, reason = "tests look for programs and read file permissions")]

use crate::requirements::skip;
use crate::server::{Server, files};
use crate::support::{Project, archive, library, sha256};

fn has_tools() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = |tool: &&str| std::env::split_paths(&paths).any(|folder| folder.join(tool).is_file());
    match ["cmake", "ninja", "cc"].iter().find(|tool| !found(tool)) {
        Some(tool) => {
            skip("cmake", &format!("no {tool}"));
            false
        }
        None => true,
    }
}

#[test]
fn build_fetches_and_patches_a_copy() {
    if !has_tools() {
        return;
    }
    let bytes = archive(&library("x-1.0", 1));
    let server = Server::start(files(vec![("x-1.0.tar.gz".to_owned(), bytes.clone())]));
    let url = server.url("x-1.0.tar.gz");
    let source = format!("{{ url = \"{url}\", sha256 = \"{}\", strip = 1 }}", sha256(&bytes));
    let project = Project::new(&source);
    project.run(&["build", "--backends", "cpu", "--locked"]).fails(2, "source.locked");
    project.run(&["build", "--backends", "cpu", "--offline"]).fails(1, "source.offline");
    project.run(&["build", "--backends", "cpu"]).succeeds().says("downloading x-1.0-");
    project.run(&["build", "--backends", "cpu", "--locked", "--offline"]).succeeds().says("up to date");
    let presets = format!("../cache/sources/{}/CMakeUserPresets.json", project.names("cache/sources")[0]);
    project.run(&["export", "--presets", &presets]).fails(2, "export.shared-sources").says("copy = true");
    assert!(!project.exists(&format!("app/{presets}")));
    project.write(
        "app/fix.patch",
        "--- a/adder.c\n+++ b/adder.c\n@@ -1 +1 @@\n-int add(int x) { return x + 1; }\n+int add(int x) { return x + 42; }\n",
    );
    let file = project.read("app/gpubuild.toml");
    project.write("app/gpubuild.toml", file.replace("targets =", "patches = [\"fix.patch\"]\ntargets ="));
    project.run(&["build", "--backends", "cpu"]).succeeds();
    let copy = "app/.gpubuild/adder/source/adder.c";
    assert!(project.read(copy).contains("x + 42"));
    let cached = format!("cache/sources/{}/adder.c", project.names("cache/sources")[0]);
    assert!(project.read(&cached).contains("x + 1;"));
    let is_read_only = |name: &str| std::fs::metadata(project.path(name)).unwrap().permissions().readonly();
    assert!(is_read_only(&cached) && !is_read_only("app/.gpubuild/adder/source/CMakeLists.txt"));
}
