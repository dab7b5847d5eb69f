//! Releases from a server: downloads, resuming, shared layers, and offline use.

use serde_json::json;

use crate::release::{Release, key_pair};
use crate::server::{Certificates, Reply, Request, Server, files};
use crate::support::{RunResult, Sandbox, recorded};

/// A sandbox with a served release and its key.
pub(crate) struct Remote {
    pub(crate) sandbox: Sandbox,
    pub(crate) key: String,
    /// Paths and contents of the files on the server.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// Path and content of the last layer.
    pub(crate) layer: (String, Vec<u8>),
}

impl Remote {
    pub(crate) fn new(release: &Release) -> Self {
        let (sandbox, pair) = (Sandbox::new(), key_pair());
        release.write_signed(&sandbox, "served", &pair);
        let files = sandbox.tree("served");
        let is_layer = |(name, _): &&(String, Vec<u8>)| name.starts_with("blobs/");
        let layer = files.iter().filter(is_layer).min_by_key(|(_, bytes)| bytes.len()).unwrap().clone();
        Self { sandbox, key: pair.pk.to_base64(), files, layer }
    }

    pub(crate) fn install(&self, url: &str, env: &[(&str, &str)], more: &[&str]) -> RunResult {
        let host = recorded("debian-12-bare");
        let mut arguments = vec!["install", "--json", "--to", "to", "--manifest", url, "--key", &self.key];
        if !more.contains(&"--host") {
            arguments.extend(["--host", &host]);
        }
        arguments.extend(more);
        let quick = [("GPUBUILD_HTTP_TIMEOUT", "2"), ("GPUBUILD_HTTP_RETRIES", "1")];
        self.sandbox.run_with(&[&quick, env].concat(), &arguments)
    }
}

fn layers(requests: &[Request]) -> Vec<&Request> {
    requests.iter().filter(|one| one.path.contains("/blobs/")).collect()
}

#[test]
fn release_is_fetched_once_and_then_works_offline() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(files(remote.files.clone()));
    let done = remote.install(&server.url("manifest.json"), &[], &[]).done();
    assert_eq!((&done["outcome"], &done["proof"]), (&json!("installed"), &json!("checked")));
    let size: usize =
        remote.files.iter().filter(|(name, _)| name.starts_with("blobs")).map(|(_, b)| b.len()).sum();
    assert_eq!((&done["fetched_bytes"], &done["reused_bytes"]), (&json!(size), &json!(0)));
    assert_eq!(remote.sandbox.installed(), "1.0.0\n");
    // The same again, and into another folder without a network: nothing is fetched.
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
        let done = remote.sandbox.run_with(env, &[&arguments[..], offline].concat()).done();
        assert_eq!((&done["fetched_bytes"], &done["proof"]), (&json!(0), &json!("checked")));
    }
    assert_eq!(server.connections(), before);
    let resolve =
        ["resolve", "--json", "--manifest", &url, "--key", &remote.key, "--host", &host, "--offline"];
    assert_eq!(remote.sandbox.run(&resolve).done()["label"], "cpu");
    let unknown = format!("{url}?other");
    let mut resolve = resolve;
    resolve[3] = &unknown;
    remote.sandbox.run(&resolve).refused(1, "net.offline");
    assert_eq!(server.connections(), before);
}

#[test]
fn second_variant_fetches_only_missing_layers() {
    let remote = Remote::new(&Release::wide("cuda", "cuda", "vulkan"));
    let server = Server::start(files(remote.files.clone()));
    let host = recorded("ubuntu-22.04-rtx4090");
    remote.install(&server.url(""), &[], &["--host", &host, "--variant", "vulkan"]).done();
    assert_eq!(layers(&server.requests()).len(), 2);
    let done = remote.install(&server.url(""), &[], &["--host", &host]).done();
    assert_eq!(done["label"], "cuda_sm89");
    assert_eq!(layers(&server.requests()).len(), 3);
    assert!(done["reused_bytes"].as_u64() > Some(0), "{done:#}");
    // A layer that was damaged in the cache is fetched again.
    for (name, bytes) in remote.sandbox.tree("cache/layers/sha256") {
        remote.sandbox.write(&format!("cache/layers/sha256/{name}"), vec![0; bytes.len()]);
    }
    assert_eq!(
        remote.install(&server.url(""), &[], &["--host", &host, "--variant", "cuda"]).done()["label"],
        "cuda"
    );
    assert_eq!(layers(&server.requests()).len(), 5);
    // Cached layers are counted and pruned.
    let cache = |more: &[&str]| remote.sandbox.run(&[&["cache"], more, &["--json"]].concat()).done();
    assert_eq!(cache(&["size"])["layers"]["count"], 4);
    assert_eq!(cache(&["prune", "--older-than", "1d"])["removed_layers"]["count"], 0);
    assert_eq!(cache(&["prune", "--all"])["removed_layers"]["count"], 4);
    assert_eq!(remote.sandbox.tree("cache/layers"), []);
}

#[test]
fn truncated_download_is_resumed() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let (all, path) = (files(remote.files.clone()), format!("/{}", remote.layer.0));
    let size = remote.layer.1.len();
    let server = Server::start(move |request| match all(request) {
        // Each request gets ten more bytes.
        reply if request.path == path && request.before < 5 => reply.cut(10),
        reply => reply,
    });
    remote.install(&server.url(""), &[], &[]).done();
    let requests = server.requests();
    let ranges: Vec<Option<usize>> =
        requests.iter().filter(|one| one.path.ends_with(&remote.layer.0)).map(Request::range).collect();
    assert_eq!(ranges, [None, Some(10), Some(20), Some(30), Some(40), Some(50)], "of {size}");
    assert!(
        requests
            .iter()
            .filter(|one| one.range().is_some())
            .all(|one| one.header("if-range") == Some("\"tag\""))
    );
    assert_eq!(remote.sandbox.tree("cache/layers/sha256").len(), 2, "only the layers are left");
}

#[test]
fn unsigned_remote_release_needs_a_flag() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(files(remote.files.clone()));
    let (url, host) = (server.url(""), recorded("debian-12-bare"));
    let arguments = ["install", "--json", "--to", "to", "--manifest", &url, "--host", &host];
    remote.sandbox.run(&arguments).refused(2, "manifest.no-key");
    assert_eq!(server.connections(), 0);
    remote.sandbox.run(&[&arguments[..], &["--unsigned"]].concat()).done();
    assert_eq!(remote.sandbox.run(&["resolve", "--manifest", &url, "--host", &host]).stdout, "cpu\n");
}

#[test]
fn custom_certificates_are_trusted_if_configured() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let certificates = Certificates::good();
    let server = Server::with_tls(&certificates, files(remote.files.clone()));
    remote.sandbox.write("ca.pem", &certificates.authority);
    remote.install(&server.url(""), &[], &[]).refused(1, "net.tls");
    let file = remote.sandbox.at("ca.pem");
    remote.install(&server.url(""), &[("SSL_CERT_FILE", &file)], &[]).done();
    assert_eq!(remote.sandbox.installed(), "1.0.0\n");
}

#[test]
fn environment_proxy_is_not_used_for_localhost() {
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
    assert_eq!(proxy.requests()[0].path, "example.invalid:443");
}

#[test]
fn plain_http_is_allowed_only_for_localhost() {
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
