//! What only some may read: where names and passwords are taken from, whom they are shown to, and that nobody else sees them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::net::Remote;
use crate::registry::{Image, challenge, image_url};
use crate::release::Release;
use crate::server::{Asked, Reply, Server, files};
use crate::support::{Ran, World};

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

/// Wants the name and password of every request.
fn with_basic(
    allowed: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Reply + Send + Sync {
    move |asked| match asked.header("authorization") {
        Some(header) if header == basic() => allowed(asked),
        _ => Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"private\""),
    }
}

/// Wants a token of its own.
fn with_token(
    allowed: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
    token: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Reply + Send + Sync {
    move |asked| match asked.header("authorization") {
        _ if asked.path.starts_with("/token") => token(asked),
        Some("Bearer t0ken") => allowed(asked),
        _ => challenge(asked),
    }
}

fn authorized(server: &Server) -> Vec<String> {
    server.asked().iter().filter_map(|one| one.header("authorization").map(str::to_owned)).collect()
}

/// Nothing that was said or written has what opens a door.
#[track_caller]
fn assert_silent(world: &World, ran: &Ran) {
    let basic = BASE64_STANDARD.encode(format!("me:{PASSWORD}"));
    let written = [world.tree("cache"), world.tree("to")].concat();
    for secret in [PASSWORD, "w0rd", &basic, &basic[..12], "t0ken", "1dentity"] {
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{secret}: {ran:#?}");
        for (name, bytes) in &written {
            assert!(!String::from_utf8_lossy(bytes).contains(secret), "{secret} in {name}");
        }
    }
}

#[test]
fn a_registry_gets_name_and_password_and_no_other_server_does() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Arc::new(Image::new(&remote));
    let own = Arc::clone(&image);
    let elsewhere = Server::start(move |asked| own.answer(asked));
    let port = elsewhere.port;
    let server = Server::start(with_basic(move |asked| {
        if asked.path.contains("/blobs/") {
            return Reply::redirect(307, &format!("http://127.0.0.1:{port}{}", asked.path));
        }
        image.answer(asked)
    }));
    // Without: where it was looked for, and what to do.
    let ran = remote.install(&image_url(&server), &[], &[]);
    let host = format!("127.0.0.1:{}", server.port);
    ran.refused(1, "credentials.missing").says(&[
        "answers with status 401",
        &remote.world.at("run/containers/auth.json"),
        &remote.world.at("home/.config/containers/auth.json"),
        &remote.world.at(DOCKER),
        &format!("docker login {host}"),
    ]);
    remote.world.write(DOCKER, config(&server));
    let ran = remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[]);
    ran.done();
    assert_silent(&remote.world, &ran);
    assert_eq!(remote.world.installed(), "1.0.0\n");
    assert!(authorized(&server).iter().all(|header| *header == basic()));
    assert!(elsewhere.asked().len() >= 4);
    assert_eq!(authorized(&elsewhere), [""; 0]);
    // The only file, where one is named.
    let only = [("REGISTRY_AUTH_FILE", "other.json")];
    remote.install(&image_url(&server), &only, &[]).refused(1, "credentials.missing");
    remote.world.write("other.json", config(&server));
    remote.install(&image_url(&server), &only, &[]).done();
}

#[test]
fn a_token_is_asked_for_with_name_and_password() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_token(
        move |asked| image.answer(asked),
        with_basic(|_| Reply::ok(br#"{"token": "t0ken"}"#)),
    ));
    let ran = remote.install(&image_url(&server), &[], &[]);
    ran.refused(1, "credentials.missing");
    remote.world.write("run/containers/auth.json", config(&server));
    let ran = remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[]);
    ran.done();
    assert_silent(&remote.world, &ran);
    let shown = authorized(&server);
    assert_eq!(shown.iter().filter(|header| **header == basic()).count(), 1, "once, for the token");
    assert!(shown.iter().all(|header| *header == basic() || header == "Bearer t0ken"));
    assert!(server.asked().iter().any(|one| one.path == "/token?service=here&scope=repository:me/tool:pull"));
}

#[test]
fn an_identity_token_is_exchanged() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_token(
        move |asked| image.answer(asked),
        |asked| {
            let wanted =
                ["grant_type=refresh_token", "refresh_token=1dentity%2B", "service=here", "client_id="];
            let is_good = wanted.iter().all(|one| asked.form.contains(one))
                && asked.form.contains("scope=repository:me/tool:pull")
                && asked.header("content-type") == Some("application/x-www-form-urlencoded")
                && asked.header("authorization").is_none();
            if is_good { Reply::ok(br#"{"access_token": "t0ken"}"#) } else { Reply::status(401, b"") }
        },
    ));
    let host = format!("127.0.0.1:{}", server.port);
    let with = |token: &str| {
        let entry = format!(r#"{{"auth": "bWU6", "identitytoken": "{token}"}}"#);
        remote.world.write(DOCKER, format!(r#"{{"auths": {{"{host}": {entry}}}}}"#));
        remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[])
    };
    let ran = with("wr0ng");
    ran.refused(1, "credentials.refused").says(&[&host, &remote.world.at(DOCKER)]);
    assert!(!ran.stderr.contains("wr0ng"), "{ran:#?}");
    let ran = with("1dentity+");
    ran.done();
    assert_silent(&remote.world, &ran);
}

#[test]
fn a_helper_is_asked_once_and_never_offline() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server = Server::start(with_basic(move |asked| image.answer(asked)));
    let host = format!("127.0.0.1:{}", server.port);
    let script = format!(
        "cat > asked; echo \"$1\" >> calls\necho '{{\"Username\": \"me\", \"Secret\": \"{PASSWORD}\"}}'\n"
    );
    remote.world.write_program("bin/docker-credential-keep", &script);
    remote.world.write(DOCKER, format!(r#"{{"credHelpers": {{"{host}": "keep"}}}}"#));
    let path = format!("{}:/usr/bin:/bin", remote.world.at("bin"));
    let env = [("PATH", path.as_str())];
    let ran = remote.install(&image_url(&server), &env, &[]);
    ran.done();
    assert_silent(&remote.world, &ran);
    assert_eq!((remote.world.read("asked"), remote.world.read("calls")), (host, "get\n".to_owned()));
    remote.install(&image_url(&server), &env, &["--offline"]).done();
    remote.install(&format!("{}x", image_url(&server)), &env, &["--offline"]).refused(1, "net.offline");
    assert_eq!(remote.world.read("calls"), "get\n");
}

#[test]
fn a_helper_that_does_not_work_is_told_and_done_without() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server =
        Server::start(with_token(move |asked| image.answer(asked), |_| Reply::ok(br#"{"token": "t0ken"}"#)));
    remote.world.write(DOCKER, r#"{"credsStore": "keep"}"#);
    let path = format!("{}:/usr/bin:/bin", remote.world.at("bin"));
    let check = |words: &str| {
        let ran =
            remote.install(&image_url(&server), &[("PATH", &path), ("GPUBUILD_HTTP_TIMEOUT", "1")], &[]);
        ran.done();
        ran.says(&["warning:", "docker-credential-keep", words, "[credentials.helper-failed]"]);
        assert_silent(&remote.world, &ran);
    };
    check("was not found");
    remote.world.write_program("bin/docker-credential-keep", "echo w0rd; echo w0rd >&2; exit 3\n");
    check("ended with status 3");
    remote.world.write_program("bin/docker-credential-keep", "echo w0rd\n");
    check("prints something else");
    remote.world.write_program("bin/docker-credential-keep", "echo w0rd; sleep 60\n");
    check("did not answer within 1 s");
}

#[test]
fn a_file_that_is_broken_is_told_and_done_without() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let image = Image::new(&remote);
    let server =
        Server::start(with_token(move |asked| image.answer(asked), |_| Reply::ok(br#"{"token": "t0ken"}"#)));
    for text in ["{\"auths\": \"w0rd\"}", "w0rd", "[]", "{\"auths\": {\"x\": [\"w0rd\"]}}"] {
        remote.world.write(DOCKER, text);
        let ran = remote.install(&image_url(&server), &[], &[]);
        ran.done();
        ran.says(&["warning:", &remote.world.at(DOCKER), "[credentials.file-invalid]"]);
        assert_silent(&remote.world, &ran);
        assert_eq!(ran.stderr.matches("warning:").count(), 1, "{ran:#?}");
        let offline = remote.install(&image_url(&server), &[], &["--offline"]);
        offline.done();
        assert!(!offline.stderr.contains("warning:"), "{offline:#?}");
    }
}

#[test]
fn a_wrong_password_is_told_with_its_place() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let check = |what: &str, status: u16, handler: Box<dyn Fn(&Asked) -> Reply + Send + Sync>| {
        let server = Server::start(handler);
        remote.world.write(DOCKER, config(&server));
        let ran = remote.install(&image_url(&server), &[("GPUBUILD_LOG", "trace")], &[]);
        let host = format!("127.0.0.1:{}", server.port);
        ran.refused(1, "credentials.refused").says(&[
            &format!("status {status}"),
            &format!("`{host}` in {}", remote.world.at(DOCKER)),
            &format!("podman login {host}"),
        ]);
        assert_silent(&remote.world, &ran);
        assert_eq!(authorized(&server).iter().filter(|one| **one == basic()).count(), 1, "{what}: sent once");
    };
    let wanted = || Reply::status(401, b"").with("WWW-Authenticate", "Basic realm=\"x\"");
    check("basic", 401, Box::new(move |_| wanted()));
    let is_first = |asked: &Asked| asked.header("authorization").is_none();
    check(
        "not this image",
        403,
        Box::new(move |one| if is_first(one) { wanted() } else { Reply::status(403, b"") }),
    );
    check("no token", 401, Box::new(with_token(|_| Reply::status(500, b""), |_| Reply::status(401, b""))));
    check("a token for nothing", 401, {
        Box::new(|asked| {
            if asked.path.starts_with("/token") {
                Reply::ok(br#"{"token": "t0ken"}"#)
            } else {
                challenge(asked)
            }
        })
    });
}

/// A proxy that stands for every server, and notes what it is told.
fn plain_server(answer: String) -> (Server, Arc<Mutex<String>>) {
    let told = Arc::new(Mutex::new(String::new()));
    let noted = Arc::clone(&told);
    let server = Server::wild(move |line| {
        let mut line = BufReader::new(line);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && line.read_line(&mut head).is_ok_and(|count| count > 0) {}
            noted.lock().unwrap().push_str(&head);
            let is_tunnel = head.starts_with("CONNECT");
            let reply = if is_tunnel { "HTTP/1.1 200 OK\r\n\r\n" } else { &answer };
            if line.get_mut().write_all(reply.as_bytes()).is_err() || !is_tunnel {
                break;
            }
        }
    });
    (server, told)
}

#[test]
fn without_encryption_nothing_is_shown_to_other_machines() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let auth = BASE64_STANDARD.encode(format!("me:{PASSWORD}"));
    let entry = format!(r#"{{"auths": {{"private.invalid": {{"auth": "{auth}"}}}}}}"#);
    for challenge in ["Basic realm=\"x\"", "Bearer realm=\"https://private.invalid/token\""] {
        let head = format!(
            "HTTP/1.1 401 No\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let (proxy, told) = plain_server(head);
        let at = format!("http://127.0.0.1:{}", proxy.port);
        let env = [("HTTP_PROXY", at.as_str()), ("HTTPS_PROXY", at.as_str())];
        remote.world.write(DOCKER, &entry);
        remote.world.write("home/.netrc", format!("machine private.invalid login me password {PASSWORD}\n"));
        for url in ["oci://private.invalid/me/tool:1", "http://private.invalid/release/"] {
            let ran = remote.install(url, &env, &["--insecure-http"]);
            ran.refused(1, "credentials.not-encrypted").says(&["private.invalid", "https://"]);
            assert_silent(&remote.world, &ran);
        }
        let told = told.lock().unwrap();
        assert!(
            told.contains("/v2/me/tool/manifests/1") && told.contains("/release/manifest.json"),
            "{told}"
        );
        assert!(!told.to_lowercase().contains("authorization"), "{told}");
    }
}

#[test]
fn a_place_for_tokens_without_encryption_gets_nothing() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let server = Server::start(|_| {
        Reply::status(401, b"").with("WWW-Authenticate", "Bearer realm=\"http://192.0.2.1/token\"")
    });
    remote.world.write(DOCKER, config(&server));
    for more in [&[][..], &["--insecure-http"]] {
        let ran = remote.install(&image_url(&server), &[], more);
        ran.refused(1, "credentials.not-encrypted").says(&["http://192.0.2.1/token"]);
        assert_silent(&remote.world, &ran);
    }
}

#[test]
fn a_web_server_gets_what_netrc_has_for_it() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let elsewhere = Server::start(files(remote.files.clone()));
    let port = elsewhere.port;
    let all = files(remote.files.clone());
    let server = Server::start(with_basic(move |asked| {
        if asked.path.contains("/blobs/") {
            return Reply::redirect(302, &format!("http://127.0.0.1:{port}{}", asked.path));
        }
        all(asked)
    }));
    let url = server.url("manifest.json");
    let netrc = remote.world.at("home/.netrc");
    remote.install(&url, &[], &[]).refused(1, "credentials.missing").says(&[&netrc, "machine 127.0.0.1"]);
    let before = server.asked().len();
    remote.world.write("home/.netrc", format!("machine 127.0.0.1 login me password {PASSWORD}\n"));
    let ran = remote.install(&url, &[("GPUBUILD_LOG", "trace")], &[]);
    ran.done();
    assert_silent(&remote.world, &ran);
    // From the first request on.
    assert!(server.asked()[before..].iter().all(|one| one.header("authorization") == Some(&basic())));
    assert_eq!((authorized(&elsewhere), elsewhere.asked().len()), (vec![], 2));
    // What is for all hosts only where one asks.
    let before = server.asked().len();
    remote.world.remove("home/.netrc");
    remote.world.write("other", format!("default login me password {PASSWORD}\n"));
    remote.world.remove_folder("cache");
    remote.install(&url, &[("NETRC", "other")], &["--variant", "cpu"]).done();
    assert!(server.asked()[before].header("authorization").is_none());
    // A wrong one, and a broken file.
    let before = server.asked().len();
    remote.world.write("home/.netrc", "machine 127.0.0.1 login me password wr0ng\n");
    let ran = remote.install(&url, &[], &[]);
    ran.refused(1, "credentials.refused").says(&["`machine 127.0.0.1`", &netrc]);
    assert!(!ran.stderr.contains("wr0ng"));
    assert_eq!(server.asked().len(), before + 1, "sent once");
    remote.world.write("home/.netrc", "machine 127.0.0.1 passwort wr0ng\n");
    let ran = remote.install(&url, &[], &[]);
    ran.refused(1, "credentials.missing").says(&["warning:", &netrc, "line 1", "[credentials.file-invalid]"]);
    assert!(!ran.stderr.contains("wr0ng"));
}

#[test]
fn a_server_of_files_that_names_a_place_for_tokens_gives_nothing_to_it() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let elsewhere = Server::start(|_| Reply::ok(br#"{"token": "t0ken"}"#));
    let realm = elsewhere.url("token");
    let server = Server::start(move |_| {
        Reply::status(401, b"").with("WWW-Authenticate", &format!("Bearer realm=\"{realm}\""))
    });
    remote.world.write("home/.netrc", format!("machine 127.0.0.1 login me password {PASSWORD}\n"));
    let ran = remote.install(&server.url(""), &[], &[]);
    ran.refused(1, "net.status");
    assert_silent(&remote.world, &ran);
    assert_eq!(authorized(&elsewhere), [""; 0]);
}

#[test]
fn passwords_in_addresses_are_refused_and_not_repeated() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    for (url, words) in [
        ("https://me:pa55:w0rd@example.org/", "~/.netrc"),
        ("https://me:p@pa55:w0rd@example.org/", "~/.netrc"),
        ("oci://me:pa55:w0rd@example.org/x:1", "docker login"),
        ("oci://me:x/w0rd@example.org/x:1", "is no image"),
        ("https://me:x/w0rd@example.org/", "is no address"),
    ] {
        let ran = remote.install(url, &[], &[]);
        ran.refused(2, "net.address-invalid").says(&[words]);
        assert!(!ran.stderr.contains("w0rd") && !ran.stdout.contains("w0rd"), "{ran:#?}");
    }
}
