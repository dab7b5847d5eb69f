//! Releases from an OCI registry with token authentication, on a local server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubuild_exec::store::sha256;
use serde_json::{Value, json};

use crate::net::Remote;
use crate::release::Release;
use crate::server::{Reply, Request, Server, part};

/// The image of a release, and its blobs.
pub(crate) struct Image {
    manifest: Vec<u8>,
    blobs: Vec<(String, Vec<u8>)>,
}

impl Image {
    pub(crate) fn new(remote: &Remote) -> Self {
        let mut layers = Vec::new();
        let mut blobs = Vec::new();
        for (name, bytes) in &remote.files {
            let (kind, title) = match name.as_str() {
                "manifest.json" => ("application/vnd.gpubuild.manifest.v1+json", Some(name)),
                "manifest.json.minisig" => ("application/vnd.gpubuild.signature.v1.minisign", Some(name)),
                _ => ("application/vnd.gpubuild.layer.v1.tar+zstd", None),
            };
            let mut layer = json!({"mediaType": kind, "size": bytes.len(), "digest": format!("sha256:{}", sha256(bytes))});
            if let Some(title) = title {
                layer["annotations"] = json!({"org.opencontainers.image.title": title});
            }
            layers.push(layer);
            blobs.push((sha256(bytes), bytes.clone()));
        }
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "artifactType": "application/vnd.gpubuild.release.v1",
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2, "digest": format!("sha256:{}", sha256(b"{}"))},
            "layers": layers,
        });
        Self { manifest: manifest.to_string().into_bytes(), blobs }
    }

    fn changed(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut manifest: Value = serde_json::from_slice(&self.manifest).unwrap();
        change(&mut manifest);
        self.manifest = manifest.to_string().into_bytes();
        self
    }

    /// The response of a registry to an authorized request.
    pub(crate) fn answer(&self, request: &Request) -> Reply {
        let digest = format!("/v2/me/tool/manifests/sha256:{}", sha256(&self.manifest));
        if request.path == "/v2/me/tool/manifests/1.0.0" || request.path == digest {
            let accepts = request.header("accept") == Some("application/vnd.oci.image.manifest.v1+json");
            return if accepts { Reply::ok(&self.manifest) } else { Reply::status(406, b"") };
        }
        let hash = request.path.strip_prefix("/v2/me/tool/blobs/sha256:");
        match self.blobs.iter().find(|(own, _)| Some(own.as_str()) == hash) {
            Some((_, bytes)) => part(request, bytes),
            None => Reply::status(404, b"{\"errors\":[{\"code\":\"UNKNOWN\"}]}"),
        }
    }
}

pub(crate) fn challenge(request: &Request) -> Reply {
    let host = request.header("host").unwrap();
    let challenge =
        format!("Bearer realm=\"http://{host}/token\",service=\"here\",scope=\"repository:me/tool:pull\"");
    Reply::status(401, b"{}").with("WWW-Authenticate", &challenge)
}

pub(crate) fn image_url(server: &Server) -> String {
    format!("oci://127.0.0.1:{}/me/tool:1.0.0", server.port)
}

#[test]
fn image_is_pulled_with_a_token_sent_only_to_its_registry() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Arc::new(Image::new(&remote));
    // Layers are on another host, as with many registries.
    let elsewhere = {
        let image = Arc::clone(&image);
        Server::start(move |request| image.answer(request))
    };
    let port = elsewhere.port;
    let own = Arc::clone(&image);
    let server = Server::start(move |request| match request.header("authorization") {
        _ if request.path == "/token?service=here&scope=repository:me/tool:pull" => {
            Reply::ok(b"{\"token\": \"t0ken\"}")
        }
        Some("Bearer t0ken") if request.path.contains("/blobs/") => {
            Reply::redirect(307, &format!("http://127.0.0.1:{port}{}", request.path))
        }
        Some("Bearer t0ken") => own.answer(request),
        _ => challenge(request),
    });
    let done = remote.install(&image_url(&server), &[], &[]).done();
    assert_eq!(done["label"], "cpu");
    assert_eq!(remote.sandbox.installed(), "1.0.0\n");
    assert_eq!(server.requests().iter().filter(|one| one.path.starts_with("/token")).count(), 1);
    assert!(elsewhere.requests().len() >= 4);
    assert!(elsewhere.requests().iter().all(|one| one.header("authorization").is_none()));
    // Then offline.
    let before = (server.connections(), elsewhere.connections());
    assert_eq!(remote.install(&image_url(&server), &[], &["--offline"]).done()["outcome"], "unchanged");
    assert_eq!((server.connections(), elsewhere.connections()), before);
    // By digest.
    let digest = format!("oci://127.0.0.1:{}/me/tool@sha256:{}", server.port, sha256(&image.manifest));
    remote.install(&digest, &[], &[]).done();
    let other = format!("oci://127.0.0.1:{}/me/tool@sha256:{}", server.port, "0".repeat(64));
    remote.install(&other, &[], &[]).refused(2, "manifest.unreadable");
}

#[test]
fn expired_token_is_renewed() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let left = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if request.path.starts_with("/token") {
            left.store(2, Ordering::SeqCst);
            return Reply::ok(b"{\"access_token\": \"t\"}");
        }
        let may = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if may && request.header("authorization").is_some() {
            image.answer(request)
        } else {
            challenge(request)
        }
    });
    remote.install(&image_url(&server), &[], &[]).done();
    assert!(server.requests().iter().filter(|one| one.path.starts_with("/token")).count() >= 2);
}

#[test]
fn invalid_registry_responses_are_rejected() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let check = |what: &str, exit: i32, id: &str, handler: Box<dyn Fn(&Request) -> Reply + Send + Sync>| {
        let server = Server::start(handler);
        let ran = remote.install(&image_url(&server), &[], &[]);
        assert_eq!(ran.exit, Some(exit), "{what}: {ran:#?}");
        ran.refused(exit, id);
        assert_eq!(remote.sandbox.tree("to"), [], "{what}");
    };
    let changed = |change: fn(&mut Value)| {
        let image = Image::new(&remote).changed(change);
        Box::new(move |request: &Request| image.answer(request))
    };
    check("no such tag", 2, "manifest.unreadable", Box::new(|_| Reply::status(404, b"")));
    check("a token is always required", 1, "credentials.missing", {
        Box::new(|request| {
            if request.path.starts_with("/token") {
                Reply::ok(b"{\"token\":\"t\"}")
            } else {
                challenge(request)
            }
        })
    });
    check("no token", 1, "net.registry", {
        Box::new(
            |request| if request.path.starts_with("/token") { Reply::ok(b"{}") } else { challenge(request) },
        )
    });
    check("a token with a line break", 1, "net.registry", {
        Box::new(|request| {
            if request.path.starts_with("/token") {
                Reply::ok(b"{\"token\":\"a\\r\\nx: y\"}")
            } else {
                challenge(request)
            }
        })
    });
    check("status 500 of the token server", 1, "net.status", {
        Box::new(|request| {
            if request.path.starts_with("/token") { Reply::status(500, b"") } else { challenge(request) }
        })
    });
    check("a password is required", 1, "credentials.missing", {
        Box::new(|_| Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"x\""))
    });
    check("a token server over plain HTTP", 1, "net.not-encrypted", {
        Box::new(|_| {
            Reply::status(401, b"").with("WWW-Authenticate", "Bearer realm=\"http://192.0.2.1/token\"")
        })
    });
    check(
        "an image without a release manifest",
        2,
        "manifest.unreadable",
        changed(|image| image["layers"] = json!([])),
    );
    check("an index", 2, "manifest.unreadable", {
        changed(|image| drop(image.as_object_mut().unwrap().remove("layers")))
    });
    check("another schema", 1, "net.registry", changed(|image| image["schemaVersion"] = json!(1)));
    check("not an image", 1, "net.registry", Box::new(|_| Reply::ok(b"<html>")));
    check("a digest of another kind", 1, "net.registry", {
        changed(|image| {
            let layers = image["layers"].as_array_mut().unwrap();
            let ours = layers.iter_mut().find(|one| one["annotations"] != json!(null)).unwrap();
            ours["digest"] = json!("md5:abc");
        })
    });
    check("a manifest of a gigabyte", 1, "net.registry", {
        changed(|image| {
            for layer in image["layers"].as_array_mut().unwrap() {
                layer["size"] = json!(1_u64 << 30);
            }
        })
    });
    let image = Image::new(&remote);
    check("content that does not match its digest", 1, "net.registry", {
        Box::new(move |request| match image.answer(request) {
            Reply::Complete { status: 200, body, .. } if request.path.contains("/blobs/") => {
                Reply::ok(&vec![b' '; body.len()])
            }
            other => other,
        })
    });
    // A digest reference, but the registry returns another manifest.
    let image = Image::new(&remote);
    let server = Server::start(move |request| match image.answer(request) {
        Reply::Complete { status: 404, .. } => Reply::ok(&image.manifest),
        other => other,
    });
    let digest = format!("oci://127.0.0.1:{}/me/tool@sha256:{}", server.port, "0".repeat(64));
    remote.install(&digest, &[], &[]).refused(1, "net.registry");
}
