//! Credentials: where they come from, which servers receive them, and that nothing else shows them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::net::Remote;
use crate::registry::{Image, challenge, image_url};
use crate::release::Release;
use crate::server::{Reply, Request, Server, files};
use crate::support::{RunResult, Sandbox};

const PASSWORD: &str = "pa55:w0rd";
const DOCKER: &str = "home/.docker/config.json";

fn basic() -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("me:{PASSWORD}")))
}

/// Docker's configuration with an entry for a server.
fn config(server: &Server) -> String {
    let auth = BASE64_STANDARD.encode(format!("me:{PASSWORD}"));
    format!(r#"{{"auths": {{"127.0.0.1:{}": {{"auth": "{auth}"}}}}}}"#, server.port)
}

/// Requires basic authentication for every request.
fn with_basic(
    allowed: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Request) -> Reply + Send + Sync {
    move |request| match request.header("authorization") {
        Some(header) if header == basic() => allowed(request),
        _ => Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"private\""),
    }
}

/// Requires a bearer token.
fn with_token(
    allowed: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    token: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Request) -> Reply + Send + Sync {
    move |request| match request.header("authorization") {
        _ if request.path.starts_with("/token") => token(request),
        Some("Bearer t0ken") => allowed(request),
        _ => challenge(request),
    }
}

fn authorized(server: &Server) -> Vec<String> {
    server.requests().iter().filter_map(|one| one.header("authorization").map(str::to_owned)).collect()
}

/// Checks that neither output nor files contain credentials.
#[track_caller]
fn assert_no_secrets(sandbox: &Sandbox, ran: &RunResult) {
    let basic = BASE64_STANDARD.encode(format!("me:{PASSWORD}"));
    let written = [sandbox.tree("cache"), sandbox.tree("to")].concat();
    for secret in [PASSWORD, "w0rd", &basic, &basic[..12], "t0ken", "1dentity"] {
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{secret}: {ran:#?}");
        for (name, bytes) in &written {
            assert!(!String::from_utf8_lossy(bytes).contains(secret), "{secret} in {name}");
        }
    }
}

#[test]
fn credentials_are_sent_only_to_their_registry() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Arc::new(Image::new(&remote));
    let own = Arc::clone(&image);
    let elsewhere = Server::start(move |request| own.answer(request));
    let port = elsewhere.port;
    let server = Server::start(with_basic(move |request| {
        if request.path.contains("/blobs/") {
            return Reply::redirect(307, &format!("http://127.0.0.1:{port}{}", request.path));
        }
        image.answer(request)
    }));
    // Without credentials the error lists the files it searched and what to do.
    let ran = remote.install(&image_url(&server), &[], &[]);
    let host = format!("127.0.0.1:{}", server.port);
    ran.refused(1, "credentials.missing").says(&[
        "returned status 401",
        &remote.sandbox.at("run/containers/auth.json"),
        &remote.sandbox.at("home/.config/containers/auth.json"),
        &remote.sandbox.at(DOCKER),
        &format!("docker login {host}"),
    ]);
    remote.sandbox.write(DOCKER, config(&server));
    let ran = remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[]);
    ran.done();
    assert_no_secrets(&remote.sandbox, &ran);
    assert_eq!(remote.sandbox.installed(), "1.0.0\n");
    assert!(authorized(&server).iter().all(|header| *header == basic()));
    assert!(elsewhere.requests().len() >= 4);
    assert_eq!(authorized(&elsewhere), [""; 0]);
    // A configured authentication file is the only one used.
    let only = [("REGISTRY_AUTH_FILE", "other.json")];
    remote.install(&image_url(&server), &only, &[]).refused(1, "credentials.missing");
    remote.sandbox.write("other.json", config(&server));
    remote.install(&image_url(&server), &only, &[]).done();
}

#[test]
fn token_is_requested_with_credentials() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_token(
        move |request| image.answer(request),
        with_basic(|_| Reply::ok(br#"{"token": "t0ken"}"#)),
    ));
    let ran = remote.install(&image_url(&server), &[], &[]);
    ran.refused(1, "credentials.missing");
    remote.sandbox.write("run/containers/auth.json", config(&server));
    let ran = remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[]);
    ran.done();
    assert_no_secrets(&remote.sandbox, &ran);
    let shown = authorized(&server);
    assert_eq!(shown.iter().filter(|header| **header == basic()).count(), 1, "once, for the token");
    assert!(shown.iter().all(|header| *header == basic() || header == "Bearer t0ken"));
    assert!(
        server.requests().iter().any(|one| one.path == "/token?service=here&scope=repository:me/tool:pull")
    );
}

#[test]
fn identity_token_is_exchanged() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_token(
        move |request| image.answer(request),
        |request| {
            let wanted =
                ["grant_type=refresh_token", "refresh_token=1dentity%2B", "service=here", "client_id="];
            let is_good = wanted.iter().all(|one| request.form.contains(one))
                && request.form.contains("scope=repository:me/tool:pull")
                && request.header("content-type") == Some("application/x-www-form-urlencoded")
                && request.header("authorization").is_none();
            if is_good { Reply::ok(br#"{"access_token": "t0ken"}"#) } else { Reply::status(401, b"") }
        },
    ));
    let host = format!("127.0.0.1:{}", server.port);
    let with = |token: &str| {
        let entry = format!(r#"{{"auth": "bWU6", "identitytoken": "{token}"}}"#);
        remote.sandbox.write(DOCKER, format!(r#"{{"auths": {{"{host}": {entry}}}}}"#));
        remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[])
    };
    let ran = with("wr0ng");
    ran.refused(1, "credentials.refused").says(&[&host, &remote.sandbox.at(DOCKER)]);
    assert!(!ran.stderr.contains("wr0ng"), "{ran:#?}");
    let ran = with("1dentity+");
    ran.done();
    assert_no_secrets(&remote.sandbox, &ran);
}

#[test]
fn credential_helper_runs_once_and_never_offline() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_basic(move |request| image.answer(request)));
    let host = format!("127.0.0.1:{}", server.port);
    let script = format!(
        "cat > asked; echo \"$1\" >> calls\necho '{{\"Username\": \"me\", \"Secret\": \"{PASSWORD}\"}}'\n"
    );
    remote.sandbox.write_program("bin/docker-credential-keep", &script);
    remote.sandbox.write(DOCKER, format!(r#"{{"credHelpers": {{"{host}": "keep"}}}}"#));
    let path = format!("{}:/usr/bin:/bin", remote.sandbox.at("bin"));
    let env = [("PATH", path.as_str())];
    let ran = remote.install(&image_url(&server), &env, &[]);
    ran.done();
    assert_no_secrets(&remote.sandbox, &ran);
    assert_eq!((remote.sandbox.read("asked"), remote.sandbox.read("calls")), (host, "get\n".to_owned()));
    remote.install(&image_url(&server), &env, &["--offline"]).done();
    remote.install(&format!("{}x", image_url(&server)), &env, &["--offline"]).refused(1, "net.offline");
    assert_eq!(remote.sandbox.read("calls"), "get\n");
}

#[test]
fn broken_credential_helper_is_reported_and_skipped() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_token(
        move |request| image.answer(request),
        |_| Reply::ok(br#"{"token": "t0ken"}"#),
    ));
    remote.sandbox.write(DOCKER, r#"{"credsStore": "keep"}"#);
    let path = format!("{}:/usr/bin:/bin", remote.sandbox.at("bin"));
    let check = |message: &str| {
        let ran =
            remote.install(&image_url(&server), &[("PATH", &path), ("GPUBUILD_HTTP_TIMEOUT", "1")], &[]);
        ran.done();
        ran.says(&["warning:", "docker-credential-keep", message, "[credentials.helper-failed]"]);
        assert_no_secrets(&remote.sandbox, &ran);
    };
    check("was not found");
    remote.sandbox.write_program("bin/docker-credential-keep", "echo w0rd; echo w0rd >&2; exit 3\n");
    check("ended with status 3");
    remote.sandbox.write_program("bin/docker-credential-keep", "echo w0rd\n");
    check("did not print");
    remote.sandbox.write_program("bin/docker-credential-keep", "echo w0rd; sleep 60\n");
    check("timed out after 1 s");
}

#[test]
fn invalid_docker_config_is_reported_and_skipped() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_token(
        move |request| image.answer(request),
        |_| Reply::ok(br#"{"token": "t0ken"}"#),
    ));
    for text in ["{\"auths\": \"w0rd\"}", "w0rd", "[]", "{\"auths\": {\"x\": [\"w0rd\"]}}"] {
        remote.sandbox.write(DOCKER, text);
        let ran = remote.install(&image_url(&server), &[], &[]);
        ran.done();
        ran.says(&["warning:", &remote.sandbox.at(DOCKER), "[credentials.file-invalid]"]);
        assert_no_secrets(&remote.sandbox, &ran);
        assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran:#?}");
        let offline = remote.install(&image_url(&server), &[], &["--offline"]);
        offline.done();
        assert!(!offline.stderr.contains("warning:"), "{offline:#?}");
    }
}

#[test]
fn wrong_password_names_its_source() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let check = |what: &str, status: u16, handler: Box<dyn Fn(&Request) -> Reply + Send + Sync>| {
        let server = Server::start(handler);
        remote.sandbox.write(DOCKER, config(&server));
        let ran = remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[]);
        let host = format!("127.0.0.1:{}", server.port);
        ran.refused(1, "credentials.refused").says(&[
            &format!("status {status}"),
            &format!("`{host}` in {}", remote.sandbox.at(DOCKER)),
            &format!("podman login {host}"),
        ]);
        assert_no_secrets(&remote.sandbox, &ran);
        assert_eq!(authorized(&server).iter().filter(|one| **one == basic()).count(), 1, "{what}: sent once");
    };
    let wanted = || Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"x\"");
    check("basic", 401, Box::new(move |_| wanted()));
    let is_first = |request: &Request| request.header("authorization").is_none();
    check(
        "not this image",
        403,
        Box::new(move |one| if is_first(one) { wanted() } else { Reply::status(403, b"") }),
    );
    check("no token", 401, Box::new(with_token(|_| Reply::status(500, b""), |_| Reply::status(401, b""))));
    check("a token without permission", 401, {
        Box::new(|request| {
            if request.path.starts_with("/token") {
                Reply::ok(br#"{"token": "t0ken"}"#)
            } else {
                challenge(request)
            }
        })
    });
}

/// A proxy that answers for every server and logs the requests.
fn plain_server(answer: String) -> (Server, Arc<Mutex<String>>) {
    let received = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&received);
    let server = Server::wild(move |line| {
        let mut line = BufReader::new(line);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && line.read_line(&mut head).is_ok_and(|count| count > 0) {}
            log.lock().unwrap().push_str(&head);
            let is_tunnel = head.starts_with("CONNECT");
            let reply = if is_tunnel { "HTTP/1.1 200 OK\r\n\r\n" } else { &answer };
            if line.get_mut().write_all(reply.as_bytes()).is_err() || !is_tunnel {
                break;
            }
        }
    });
    (server, received)
}

#[test]
fn credentials_are_not_sent_over_plain_http() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let auth = BASE64_STANDARD.encode(format!("me:{PASSWORD}"));
    let entry = format!(r#"{{"auths": {{"private.invalid": {{"auth": "{auth}"}}}}}}"#);
    for challenge in ["Basic realm=\"x\"", "Bearer realm=\"https://private.invalid/token\""] {
        let head = format!(
            "HTTP/1.1 401 No\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let (proxy, received) = plain_server(head);
        let at = format!("http://127.0.0.1:{}", proxy.port);
        let env = [("HTTP_PROXY", at.as_str()), ("HTTPS_PROXY", at.as_str())];
        remote.sandbox.write(DOCKER, &entry);
        remote
            .sandbox
            .write("home/.netrc", format!("machine private.invalid login me password {PASSWORD}\n"));
        for url in ["oci://private.invalid/me/tool:1", "http://private.invalid/release/"] {
            let ran = remote.install(url, &env, &["--insecure-http"]);
            ran.refused(1, "credentials.not-encrypted").says(&["private.invalid", "https://"]);
            assert_no_secrets(&remote.sandbox, &ran);
        }
        let received = received.lock().unwrap();
        assert!(
            received.contains("/v2/me/tool/manifests/1") && received.contains("/release/manifest.json"),
            "{received}"
        );
        assert!(!received.to_lowercase().contains("authorization"), "{received}");
    }
}

#[test]
fn token_server_without_tls_gets_no_credentials() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(|_| {
        Reply::status(401, b"").with("WWW-Authenticate", "Bearer realm=\"http://192.0.2.1/token\"")
    });
    remote.sandbox.write(DOCKER, config(&server));
    for more in [&[][..], &["--insecure-http"]] {
        let ran = remote.install(&image_url(&server), &[], more);
        ran.refused(1, "credentials.not-encrypted").says(&["http://192.0.2.1/token"]);
        assert_no_secrets(&remote.sandbox, &ran);
    }
}

#[test]
fn web_server_gets_netrc_credentials() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let elsewhere = Server::start(files(remote.files.clone()));
    let port = elsewhere.port;
    let all = files(remote.files.clone());
    let server = Server::start(with_basic(move |request| {
        if request.path.contains("/blobs/") {
            return Reply::redirect(302, &format!("http://127.0.0.1:{port}{}", request.path));
        }
        all(request)
    }));
    let url = server.url("manifest.json");
    let netrc = remote.sandbox.at("home/.netrc");
    remote.install(&url, &[], &[]).refused(1, "credentials.missing").says(&[&netrc, "machine 127.0.0.1"]);
    let before = server.requests().len();
    remote.sandbox.write("home/.netrc", format!("machine 127.0.0.1 login me password {PASSWORD}\n"));
    let ran = remote.install(&url, &[("GPUBUILD_LOG", "trace")], &[]);
    ran.done();
    assert_no_secrets(&remote.sandbox, &ran);
    // Credentials are sent from the first request on.
    assert!(server.requests()[before..].iter().all(|one| one.header("authorization") == Some(&basic())));
    assert_eq!((authorized(&elsewhere), elsewhere.requests().len()), (vec![], 2));
    // The `default` entry is used only if the server requests credentials.
    let before = server.requests().len();
    remote.sandbox.remove("home/.netrc");
    remote.sandbox.write("other", format!("default login me password {PASSWORD}\n"));
    remote.sandbox.remove_folder("cache");
    remote.install(&url, &[("NETRC", "other")], &["--variant", "cpu"]).done();
    assert!(server.requests()[before].header("authorization").is_none());
    // Wrong credentials, and an invalid file.
    let before = server.requests().len();
    remote.sandbox.write("home/.netrc", "machine 127.0.0.1 login me password wr0ng\n");
    let ran = remote.install(&url, &[], &[]);
    ran.refused(1, "credentials.refused").says(&["`machine 127.0.0.1`", &netrc]);
    assert!(!ran.stderr.contains("wr0ng"));
    assert_eq!(server.requests().len(), before + 1, "sent once");
    remote.sandbox.write("home/.netrc", "machine 127.0.0.1 passwort wr0ng\n");
    let ran = remote.install(&url, &[], &[]);
    ran.refused(1, "credentials.missing").says(&["warning:", &netrc, "line 1", "[credentials.file-invalid]"]);
    assert!(!ran.stderr.contains("wr0ng"));
}

#[test]
fn file_server_cannot_redirect_credentials_to_a_token_server() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let elsewhere = Server::start(|_| Reply::ok(br#"{"token": "t0ken"}"#));
    let realm = elsewhere.url("token");
    let server = Server::start(move |_| {
        Reply::status(401, b"").with("WWW-Authenticate", &format!("Bearer realm=\"{realm}\""))
    });
    remote.sandbox.write("home/.netrc", format!("machine 127.0.0.1 login me password {PASSWORD}\n"));
    let ran = remote.install(&server.url(""), &[], &[]);
    ran.refused(1, "net.status");
    assert_no_secrets(&remote.sandbox, &ran);
    assert_eq!(authorized(&elsewhere), [""; 0]);
}

#[test]
fn passwords_in_urls_are_rejected_and_not_printed() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    for (url, hint) in [
        ("https://me:pa55:w0rd@example.org/", "~/.netrc"),
        ("https://me:p@pa55:w0rd@example.org/", "~/.netrc"),
        ("oci://me:pa55:w0rd@example.org/x:1", "docker login"),
        ("oci://me:x/w0rd@example.org/x:1", "is not an image reference"),
        ("https://me:x/w0rd@example.org/", "is not a valid address"),
    ] {
        let ran = remote.install(url, &[], &[]);
        ran.refused(2, "net.address-invalid").says(&[hint]);
        assert!(!ran.stderr.contains("w0rd") && !ran.stdout.contains("w0rd"), "{ran:#?}");
    }
}
