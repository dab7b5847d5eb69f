//! From a registry: the distribution API with its tokens, spoken by a server here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpubuild_exec::store::sha256;
use serde_json::{Value, json};

use crate::net::Remote;
use crate::release::Release;
use crate::server::{Asked, Reply, Server, part};

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

    /// What a registry answers to one who may read.
    pub(crate) fn answer(&self, asked: &Asked) -> Reply {
        let digest = format!("/v2/me/tool/manifests/sha256:{}", sha256(&self.manifest));
        if asked.path == "/v2/me/tool/manifests/1.0.0" || asked.path == digest {
            let accepts = asked.header("accept") == Some("application/vnd.oci.image.manifest.v1+json");
            return if accepts { Reply::ok(&self.manifest) } else { Reply::status(406, b"") };
        }
        let hash = asked.path.strip_prefix("/v2/me/tool/blobs/sha256:");
        match self.blobs.iter().find(|(own, _)| Some(own.as_str()) == hash) {
            Some((_, bytes)) => part(asked, bytes),
            None => Reply::status(404, b"{\"errors\":[{\"code\":\"UNKNOWN\"}]}"),
        }
    }
}

pub(crate) fn challenge(asked: &Asked) -> Reply {
    let host = asked.header("host").unwrap();
    let told =
        format!("Bearer realm=\"http://{host}/token\",service=\"here\",scope=\"repository:me/tool:pull\"");
    Reply::status(401, b"{}").with("WWW-Authenticate", &told)
}

pub(crate) fn image_url(server: &Server) -> String {
    format!("oci://127.0.0.1:{}/me/tool:1.0.0", server.port)
}

#[test]
fn an_image_is_pulled_with_a_token_that_goes_to_its_registry_alone() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Arc::new(Image::new(&remote));
    // Layers lie elsewhere, as with many registries.
    let elsewhere = {
        let image = Arc::clone(&image);
        Server::start(move |asked| image.answer(asked))
    };
    let port = elsewhere.port;
    let own = Arc::clone(&image);
    let server = Server::start(move |asked| match asked.header("authorization") {
        _ if asked.path == "/token?service=here&scope=repository:me/tool:pull" => {
            Reply::ok(b"{\"token\": \"t0ken\"}")
        }
        Some("Bearer t0ken") if asked.path.contains("/blobs/") => {
            Reply::redirect(307, &format!("http://127.0.0.1:{port}{}", asked.path))
        }
        Some("Bearer t0ken") => own.answer(asked),
        _ => challenge(asked),
    });
    let done = remote.install(&image_url(&server), &[], &[]).done();
    assert_eq!(done["label"], "cpu");
    assert_eq!(remote.world.installed(), "1.0.0\n");
    assert_eq!(server.asked().iter().filter(|one| one.path.starts_with("/token")).count(), 1);
    assert!(elsewhere.asked().len() >= 4);
    assert!(elsewhere.asked().iter().all(|one| one.header("authorization").is_none()));
    // Then without a network.
    let before = (server.connections(), elsewhere.connections());
    assert_eq!(remote.install(&image_url(&server), &[], &["--offline"]).done()["outcome"], "unchanged");
    assert_eq!((server.connections(), elsewhere.connections()), before);
    // By its digest.
    let digest = format!("oci://127.0.0.1:{}/me/tool@sha256:{}", server.port, sha256(&image.manifest));
    remote.install(&digest, &[], &[]).done();
    let other = format!("oci://127.0.0.1:{}/me/tool@sha256:{}", server.port, "0".repeat(64));
    remote.install(&other, &[], &[]).refused(2, "manifest.unreadable");
}

#[test]
fn a_token_that_expires_is_asked_for_again() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let left = AtomicUsize::new(0);
    let server = Server::start(move |asked| {
        if asked.path.starts_with("/token") {
            left.store(2, Ordering::SeqCst);
            return Reply::ok(b"{\"access_token\": \"t\"}");
        }
        let may = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if may && asked.header("authorization").is_some() { image.answer(asked) } else { challenge(asked) }
    });
    remote.install(&image_url(&server), &[], &[]).done();
    assert!(server.asked().iter().filter(|one| one.path.starts_with("/token")).count() >= 2);
}

#[test]
fn what_no_registry_may_answer_is_refused() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let check = |what: &str, exit: i32, id: &str, handler: Box<dyn Fn(&Asked) -> Reply + Send + Sync>| {
        let server = Server::start(handler);
        let ran = remote.install(&image_url(&server), &[], &[]);
        assert_eq!(ran.exit, Some(exit), "{what}: {ran:#?}");
        ran.refused(exit, id);
        assert_eq!(remote.world.tree("to"), [], "{what}");
    };
    let changed = |change: fn(&mut Value)| {
        let image = Image::new(&remote).changed(change);
        Box::new(move |asked: &Asked| image.answer(asked))
    };
    check("no such tag", 2, "manifest.unreadable", Box::new(|_| Reply::status(404, b"")));
    check("always asked for a token", 1, "credentials.missing", {
        Box::new(|asked| {
            if asked.path.starts_with("/token") { Reply::ok(b"{\"token\":\"t\"}") } else { challenge(asked) }
        })
    });
    check("no token", 1, "net.registry", {
        Box::new(|asked| if asked.path.starts_with("/token") { Reply::ok(b"{}") } else { challenge(asked) })
    });
    check("a token with a line break", 1, "net.registry", {
        Box::new(|asked| {
            if asked.path.starts_with("/token") {
                Reply::ok(b"{\"token\":\"a\\r\\nx: y\"}")
            } else {
                challenge(asked)
            }
        })
    });
    check("a token server that is busy", 1, "net.status", {
        Box::new(
            |asked| if asked.path.starts_with("/token") { Reply::status(500, b"") } else { challenge(asked) },
        )
    });
    check("a password wanted", 1, "credentials.missing", {
        Box::new(|_| Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"x\""))
    });
    check("a token from elsewhere without encryption", 1, "net.not-encrypted", {
        Box::new(|_| {
            Reply::status(401, b"").with("WWW-Authenticate", "Bearer realm=\"http://192.0.2.1/token\"")
        })
    });
    check("no manifest of ours", 2, "manifest.unreadable", changed(|image| image["layers"] = json!([])));
    check("an index", 2, "manifest.unreadable", {
        changed(|image| drop(image.as_object_mut().unwrap().remove("layers")))
    });
    check("another schema", 1, "net.registry", changed(|image| image["schemaVersion"] = json!(1)));
    check("no image", 1, "net.registry", Box::new(|_| Reply::ok(b"<html>")));
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
    check("other bytes than of the digest", 1, "net.registry", {
        Box::new(move |asked| match image.answer(asked) {
            Reply::Whole { status: 200, body, .. } if asked.path.contains("/blobs/") => {
                Reply::ok(&vec![b' '; body.len()])
            }
            other => other,
        })
    });
    // The one of a digest, and another one comes.
    let image = Image::new(&remote);
    let server = Server::start(move |asked| match image.answer(asked) {
        Reply::Whole { status: 404, .. } => Reply::ok(&image.manifest),
        other => other,
    });
    let digest = format!("oci://127.0.0.1:{}/me/tool@sha256:{}", server.port, "0".repeat(64));
    remote.install(&digest, &[], &[]).refused(1, "net.registry");
}
