//! Crates and Python source distributions, from local registries.

use std::sync::{Arc, Mutex};

use crate::server::{Reply, Request, Server};
use crate::support::{Project, archive, library, sha256};

/// The files of a server by path, which can change.
type Served = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

fn serve(content: &Served) -> Server {
    let content = Arc::clone(content);
    Server::start(move |request: &Request| {
        let content = content.lock().unwrap();
        match content.iter().find(|(path, _)| request.path == format!("/{path}")) {
            Some((_, body)) => Reply::ok(body),
            None => Reply::status(404, b"not here"),
        }
    })
}

/// The archive of a version of the crate `adder-sys`.
fn krate(version: &str, value: u32) -> Vec<u8> {
    let top = format!("adder-sys-{version}");
    let manifest = (format!("{top}/Cargo.toml"), "[package]\n".to_owned());
    archive(&[library(&format!("{top}/adder"), value), vec![manifest]].concat())
}

fn line(version: &str, bytes: &[u8]) -> String {
    format!(
        "{{\"name\":\"adder-sys\",\"vers\":\"{version}\",\"deps\":[],\"cksum\":\"{}\",\"features\":{{}},\"yanked\":false}}\n",
        sha256(bytes)
    )
}

/// A registry with version 0.1.1 of `adder-sys`, and a project that uses it.
fn registry(source: &str) -> (Served, Server, Project) {
    let content = Served::default();
    let server = serve(&content);
    let first = krate("0.1.1", 1);
    content.lock().unwrap().extend([
        ("index/config.json".to_owned(), format!("{{\"dl\":\"{}\"}}", server.url("dl")).into_bytes()),
        ("index/ad/de/adder-sys".to_owned(), line("0.1.1", &first).into_bytes()),
        ("dl/adder-sys/0.1.1/download".to_owned(), first),
    ]);
    let project = Project::new(source);
    project.replace_crates_io(&server.url("index/"));
    (content, server, project)
}

const SOURCE: &str = "{ crate = \"adder-sys\", version = \"0.1\", path = \"adder\" }";

#[test]
fn crate_stays_pinned_until_update() {
    let (content, server, project) = registry(SOURCE);
    project.run(&["fetch"]).succeeds().says("adder-sys 0.1.1 in ");
    let second = krate("0.1.2", 2);
    {
        let mut content = content.lock().unwrap();
        content[1].1.extend(line("0.1.2", &second).into_bytes());
        content.push(("dl/adder-sys/0.1.2/download".to_owned(), second));
    }
    let before = server.requests().len();
    project.run(&["fetch"]).succeeds().says("adder-sys 0.1.1 in ");
    assert_eq!(server.requests().len(), before);
    project.run(&["update"]).succeeds().says("adder-sys 0.1.1 -> 0.1.2 in ");
    assert!(project.read("app/gpubuild.lock").contains("version = \"0.1.2\""));
    project.run(&["fetch", "--locked", "--offline"]).succeeds();
    // A new requirement makes the lock file outdated.
    project.set_source(&SOURCE.replace("0.1", "=0.1.1"));
    project.run(&["fetch", "--locked"]).fails(2, "source.locked").says("does not match");
    project.run(&["plan"]).fails(2, "source.not-fetched").says("pins other sources");
    project.run(&["fetch", "--offline"]).fails(1, "source.offline").says("not pinned");
    project.run(&["fetch"]).succeeds().says("adder-sys 0.1.2 -> 0.1.1 in ");
}

#[test]
fn unknown_crates_versions_and_other_content_are_refused() {
    let (content, _server, project) = registry(&SOURCE.replace("adder-sys", "adder-sis"));
    project.run(&["fetch"]).fails(1, "source.package-unknown").says("no crate `adder-sis`");
    project.set_source(&SOURCE.replace("0.1", "=0.3.0"));
    project.run(&["fetch"]).fails(1, "source.version-unknown").says("the newest are 0.1.1");
    project.set_source(SOURCE);
    let good = content.lock().unwrap()[1].1.clone();
    for wrong in
        ["[".repeat(1 << 20), "[]\n".to_owned(), "<html>\nlog in\n</html>\n".to_owned(), String::new()]
    {
        content.lock().unwrap()[1].1 = wrong.into_bytes();
        project.run(&["fetch"]).fails(1, "source.index-invalid").says("no line that is a JSON object");
    }
    content.lock().unwrap()[1].1 = good;
    content.lock().unwrap()[2].1 = krate("0.1.1", 666);
    project.run(&["fetch"]).fails(1, "source.hash-mismatch");
    // A long value in a message is cut, and the id follows it.
    content.lock().unwrap()[0].1 = format!("{{\"dl\":\"{}\"}}", "x".repeat(100_000)).into_bytes();
    let failed = project.run(&["fetch"]).fails(1, "net.address-invalid").says("more characters)");
    assert!(failed.stderr.len() < 20_000, "{} bytes", failed.stderr.len());
    content.lock().unwrap()[0].1 = b"{".to_vec();
    project.run(&["fetch"]).fails(1, "source.index-invalid");
    project.write(
        "home/.cargo/config.toml",
        "[source.crates-io]\nreplace-with = \"v\"\n[source.v]\ndirectory = \"/v\"\n",
    );
    project.run(&["fetch"]).fails(2, "source.registry-unsupported").says("a vendored folder");
    assert!(!project.exists("app/gpubuild.lock") && project.names("cache/sources").is_empty());
}

#[test]
fn archive_in_the_cache_of_cargo_is_used_if_its_hash_is_right() {
    let (_served, server, project) = registry(SOURCE);
    project.run(&["fetch"]).succeeds();
    project.remove("cache");
    let cached = "home/.cargo/registry/cache/mirror-0011/adder-sys-0.1.1.crate";
    project.write(cached, krate("0.1.1", 666));
    project.run(&["fetch", "--offline"]).fails(1, "source.offline").says("not on this machine");
    project.write(cached, krate("0.1.1", 1));
    let before = server.requests().len();
    project.run(&["fetch", "--offline"]).succeeds().says("from cargo's cache");
    assert_eq!(server.requests().len(), before);
}

#[test]
fn source_distribution_is_found_in_both_forms_of_an_index() {
    let bytes = archive(&library("adder_py-1.0/vendor/adder", 1));
    for is_json in [true, false] {
        let content = Served::default();
        let server = serve(&content);
        let page = if is_json {
            format!(
                "{{\"meta\":{{}},\"files\":[{{\"filename\":\"adder_py-1.0.tar.gz\",\"url\":\"../../f/a.tar.gz\",\"hashes\":{{\"sha256\":\"{}\"}}}}]}}",
                sha256(&bytes)
            )
        } else {
            format!("<a href=\"../../f/a.tar.gz#sha256={}\">adder_py-1.0.tar.gz</a>\n", sha256(&bytes))
        };
        content.lock().unwrap().extend([
            ("simple/adder-py/".to_owned(), page.into_bytes()),
            ("f/a.tar.gz".to_owned(), bytes.clone()),
        ]);
        let project = Project::new("{ pypi = \"Adder_Py\", version = \"1.0\", path = \"vendor/adder\" }");
        let index = server.url("simple");
        project.write("home/.config/pip/pip.conf", format!("[global]\nindex-url = {index}\n"));
        project.run(&["fetch"]).succeeds().says("Adder_Py 1.0 in ");
        let lock = project.read("app/gpubuild.lock");
        assert!(lock.contains("file = \"adder_py-1.0.tar.gz\""), "{lock}");
        assert!(!lock.contains("127.0.0.1"), "{lock}");
        project.remove("cache");
        project.run(&["fetch", "--locked"]).succeeds();
        project.run(&["plan", "--backends", "cpu"]).succeeds();
        project.set_source("{ pypi = \"Adder_Py\", version = \"2.0\" }");
        project.run(&["fetch"]).fails(1, "source.version-unknown").says("the newest are 1.0");
        project.set_source("{ pypi = \"other\", version = \"2.0\" }");
        project.run(&["fetch"]).fails(1, "source.package-unknown").says("no Python package `other`");
    }
}

#[test]
fn new_says_that_the_registry_lacks_the_crates_of_gpubuild() {
    let (content, _server, project) = registry(SOURCE);
    let warns = |name: &str, more: &[&str]| {
        let made = project.run(&[&["new", name, "--template", "own-kernels"], more].concat()).succeeds();
        made.stderr.contains("the registry has no crate `gpubuild-build`")
    };
    assert!(warns("one", &[]));
    assert!(!warns("two", &["--offline"]) && !warns("three", &["--dry-run"]));
    assert!(!warns("four", &["--gpubuild-path", env!("CARGO_MANIFEST_DIR")]));
    let listed = line(env!("CARGO_PKG_VERSION"), b"").replace("adder-sys", "gpubuild-build");
    content.lock().unwrap().push(("index/gp/ub/gpubuild-build".to_owned(), listed.into_bytes()));
    assert!(!warns("five", &[]));
    // cargo reports a registry that cannot be reached.
    project.replace_crates_io("http://127.0.0.1:9/");
    assert!(!warns("six", &[]));
}
