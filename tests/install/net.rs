//! From a server: what is fetched, what is gone on with, what is shared, and without a network.

use serde_json::json;

use crate::release::{Release, key_pair};
use crate::server::{Asked, Certificates, Reply, Server, files};
use crate::support::{Ran, World, recorded};

/// A world with the key of a release, which a server has.
pub(crate) struct Remote {
    pub(crate) world: World,
    pub(crate) key: String,
    /// Files of the release as the server has them.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// The last layer.
    pub(crate) layer: (String, Vec<u8>),
}

impl Remote {
    pub(crate) fn new(release: &Release) -> Self {
        let (world, pair) = (World::new(), key_pair());
        release.write_signed(&world, "served", &pair);
        let files = world.tree("served");
        let is_layer = |(name, _): &&(String, Vec<u8>)| name.starts_with("blobs/");
        let layer = files.iter().filter(is_layer).min_by_key(|(_, bytes)| bytes.len()).unwrap().clone();
        Self { world, key: pair.pk.to_base64(), files, layer }
    }

    pub(crate) fn install(&self, url: &str, env: &[(&str, &str)], more: &[&str]) -> Ran {
        let host = recorded("debian-12-bare");
        let mut arguments = vec!["install", "--json", "--to", "to", "--manifest", url, "--key", &self.key];
        if !more.contains(&"--host") {
            arguments.extend(["--host", &host]);
        }
        arguments.extend(more);
        let quick = [("GPUBUILD_HTTP_TIMEOUT", "2"), ("GPUBUILD_HTTP_RETRIES", "1")];
        self.world.run_with(&[&quick, env].concat(), &arguments)
    }
}

fn layers(asked: &[Asked]) -> Vec<&Asked> {
    asked.iter().filter(|one| one.path.contains("/blobs/")).collect()
}

#[test]
fn a_release_is_fetched_once_and_then_needs_no_network() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(files(remote.files.clone()));
    let done = remote.install(&server.url("manifest.json"), &[], &[]).done();
    assert_eq!((&done["outcome"], &done["proof"]), (&json!("installed"), &json!("checked")));
    let size: usize =
        remote.files.iter().filter(|(name, _)| name.starts_with("blobs")).map(|(_, b)| b.len()).sum();
    assert_eq!((&done["fetched_bytes"], &done["reused_bytes"]), (&json!(size), &json!(0)));
    assert_eq!(remote.world.installed(), "1.0.0\n");
    // The same again, and into another folder without a network: not a byte.
    let before = server.connections();
    let offline = |env: &[(&str, &str)], more: &[&str]| {
        remote.install(&server.url("manifest.json"), env, &[&["--to", "other"], more].concat())
    };
    assert_eq!(offline(&[], &["--offline"]).exit, Some(2), "`--to` twice");
    let host = recorded("debian-12-bare");
    let url = server.url("manifest.json");
    let arguments =
        ["install", "--json", "--to", "other", "--manifest", &url, "--key", &remote.key, "--host", &host];
    for offline in [&["--offline"][..], &[]] {
        let env = if offline.is_empty() { &[("GPUBUILD_OFFLINE", "1")][..] } else { &[] };
        let done = remote.world.run_with(env, &[&arguments[..], offline].concat()).done();
        assert_eq!((&done["fetched_bytes"], &done["proof"]), (&json!(0), &json!("checked")));
    }
    assert_eq!(server.connections(), before);
    let resolve =
        ["resolve", "--json", "--manifest", &url, "--key", &remote.key, "--host", &host, "--offline"];
    assert_eq!(remote.world.run(&resolve).done()["label"], "cpu");
    let unknown = format!("{url}?other");
    let mut resolve = resolve;
    resolve[3] = &unknown;
    remote.world.run(&resolve).refused(1, "net.offline");
    assert_eq!(server.connections(), before);
}

#[test]
fn a_second_variant_fetches_only_what_differs() {
    let remote = Remote::new(&Release::wide("cuda", "cuda", "vulkan"));
    let server = Server::start(files(remote.files.clone()));
    let host = recorded("ubuntu-22.04-rtx4090");
    remote.install(&server.url(""), &[], &["--host", &host, "--variant", "vulkan"]).done();
    assert_eq!(layers(&server.asked()).len(), 2);
    let done = remote.install(&server.url(""), &[], &["--host", &host]).done();
    assert_eq!(done["label"], "cuda_sm89");
    assert_eq!(layers(&server.asked()).len(), 3);
    assert!(done["reused_bytes"].as_u64() > Some(0), "{done:#}");
    // One that was damaged in the cache is fetched again.
    for (name, bytes) in remote.world.tree("cache/layers/sha256") {
        remote.world.write(&format!("cache/layers/sha256/{name}"), vec![0; bytes.len()]);
    }
    assert_eq!(
        remote.install(&server.url(""), &[], &["--host", &host, "--variant", "cuda"]).done()["label"],
        "cuda"
    );
    assert_eq!(layers(&server.asked()).len(), 5);
    // They are counted, and thrown away.
    let cache = |more: &[&str]| remote.world.run(&[&["cache"], more, &["--json"]].concat()).done();
    assert_eq!(cache(&["size"])["layers"]["count"], 4);
    assert_eq!(cache(&["prune", "--older-than", "1d"])["removed_layers"]["count"], 0);
    assert_eq!(cache(&["prune", "--all"])["removed_layers"]["count"], 4);
    assert_eq!(remote.world.tree("cache/layers"), []);
}

#[test]
fn what_was_cut_is_gone_on_with() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let (all, path) = (files(remote.files.clone()), format!("/{}", remote.layer.0));
    let size = remote.layer.1.len();
    let server = Server::start(move |asked| match all(asked) {
        // Each time ten bytes more.
        reply if asked.path == path && asked.before < 5 => reply.cut(10),
        reply => reply,
    });
    remote.install(&server.url(""), &[], &[]).done();
    let asked = server.asked();
    let ranges: Vec<Option<usize>> =
        asked.iter().filter(|one| one.path.ends_with(&remote.layer.0)).map(Asked::range).collect();
    assert_eq!(ranges, [None, Some(10), Some(20), Some(30), Some(40), Some(50)], "of {size}");
    assert!(
        asked.iter().filter(|one| one.range().is_some()).all(|one| one.header("if-range") == Some("\"tag\""))
    );
    assert_eq!(remote.world.tree("cache/layers/sha256").len(), 2, "nothing but the layers stays");
}

#[test]
fn an_unsigned_release_from_elsewhere_has_to_be_asked_for() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(files(remote.files.clone()));
    let (url, host) = (server.url(""), recorded("debian-12-bare"));
    let arguments = ["install", "--json", "--to", "to", "--manifest", &url, "--host", &host];
    remote.world.run(&arguments).refused(2, "manifest.no-key");
    assert_eq!(server.connections(), 0);
    remote.world.run(&[&arguments[..], &["--unsigned"]].concat()).done();
    assert_eq!(remote.world.run(&["resolve", "--manifest", &url, "--host", &host]).stdout, "cpu\n");
}

#[test]
fn certificates_of_ones_own_are_believed_where_they_are_named() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let certificates = Certificates::good();
    let server = Server::with_tls(&certificates, files(remote.files.clone()));
    remote.world.write("ca.pem", &certificates.authority);
    remote.install(&server.url(""), &[], &[]).refused(1, "net.tls");
    let file = remote.world.at("ca.pem");
    remote.install(&server.url(""), &[("SSL_CERT_FILE", &file)], &[]).done();
    assert_eq!(remote.world.installed(), "1.0.0\n");
}

#[test]
fn a_proxy_of_the_environment_is_used_and_never_for_this_machine() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(files(remote.files.clone()));
    let proxy = Server::start(|_| Reply::status(502, b"no"));
    let at = format!("http://127.0.0.1:{}", proxy.port);
    remote.install(&server.url(""), &[("HTTPS_PROXY", &at), ("HTTP_PROXY", &at)], &[]).done();
    assert_eq!(proxy.connections(), 0);
    let ran = remote.install("https://example.invalid/", &[("HTTPS_PROXY", &at)], &["--offline"]);
    ran.refused(1, "net.offline");
    assert_eq!(proxy.connections(), 0);
    remote.install("https://example.invalid/", &[("HTTPS_PROXY", &at)], &[]).refused(1, "net.unreachable");
    assert!(proxy.connections() > 0);
    assert_eq!(proxy.asked()[0].path, "example.invalid:443");
}

#[test]
fn addresses_without_encryption_are_for_this_machine_only() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    for url in ["http://192.0.2.1/release", "http://localhost.example.invalid/"] {
        remote.install(url, &[], &[]).refused(1, "net.not-encrypted");
    }
    for url in ["ftp://example.org/", "https://me:secret@example.org/", "oci://example.org/x", "https://"] {
        let ran = remote.install(url, &[], &[]);
        ran.refused(2, "net.address-invalid");
        assert!(!ran.stderr.contains("secret"));
    }
    for (name, value) in [("GPUBUILD_HTTP_TIMEOUT", "soon"), ("GPUBUILD_HTTP_RETRIES", "-1")] {
        remote.install("http://127.0.0.1:9/", &[(name, value)], &[]).refused(2, "net.setting-invalid");
    }
}
