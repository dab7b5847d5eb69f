//! Faults of servers and connections: each ends with the installed release, or with its error id and the previous
//! version unchanged.

use std::io::{Read as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use crate::net::Remote;
use crate::release::Release;
use crate::server::{Certificates, Reply, Request, Server, files, part};

/// The response of a faulty server to a request, given the correct response.
type Fault = Box<dyn Fn(&Request, Reply) -> Reply + Send + Sync>;

/// Expected result of a case.
#[derive(Clone, Copy)]
enum End {
    /// The release is installed.
    Installed,
    /// The error id.
    Refused(&'static str),
}

/// The file whose requests fail.
#[derive(Clone, Copy)]
enum Hit {
    Layer,
    Manifest,
    Signature,
}

struct Case {
    what: String,
    hit: Hit,
    fault: Fault,
    end: End,
}

use End::{Installed, Refused};

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |what: &str, hit: Hit, end: End, fault: Fault| {
        all.push(Case { what: what.to_owned(), hit, fault, end });
    };
    passing(&mut |what, fault| add(what, Hit::Layer, Installed, fault));
    lasting(&mut |what, id, fault| add(what, Hit::Layer, Refused(id), fault));
    resumed(&mut |what, end, fault| add(what, Hit::Layer, end, fault));
    others(&mut add);
    all
}

/// Temporary faults.
fn passing(add: &mut dyn FnMut(&str, Fault)) {
    let once = |fault: Fault| -> Fault {
        Box::new(move |request, good| if request.before == 0 { fault(request, good) } else { good })
    };
    add("connection closed once", once(Box::new(|_, _| Reply::Close)));
    for after in [0, 1, 20] {
        add(&format!("cut after {after} bytes once"), once(Box::new(move |_, good| good.cut(after))));
    }
    for status in [408, 429, 500, 502, 503, 504] {
        add(&format!("status {status} once"), once(Box::new(move |_, _| Reply::status(status, b"busy"))));
    }
    add("Retry-After", once(Box::new(|_, _| Reply::status(503, b"").with("Retry-After", "1"))));
    add("stalled once", once(Box::new(|_, good| good.stall(20))));
    add("no response once", once(Box::new(|_, _| Reply::Hang)));
    add("slow once", once(Box::new(|_, good| good.slow())));
    for status in [301, 302, 303, 307, 308] {
        add(
            &format!("moved with {status}"),
            Box::new(move |request, good| {
                if request.path.ends_with("?moved") {
                    good
                } else {
                    Reply::redirect(status, &format!("{}?moved", request.path))
                }
            }),
        );
    }
    add("ten redirects", {
        Box::new(|request, good| {
            let step: u32 = request.path.split("?step=").nth(1).map_or(0, |text| text.parse().unwrap());
            if step < 10 { Reply::redirect(302, &format!("?step={}", step + 1)) } else { good }
        })
    });
    add("no length", Box::new(|_, good| Reply::bare(200, &body(&good))));
    add("longer than the layer, without a length", {
        Box::new(|_, good| Reply::bare(200, &[body(&good), vec![1; 100_000]].concat()))
    });
    add("in chunks", {
        Box::new(|_, good| {
            let mut chunked = Vec::new();
            for chunk in body(&good).chunks(7) {
                chunked.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                chunked.extend(chunk);
                chunked.extend(b"\r\n");
            }
            chunked.extend(b"0\r\n\r\n");
            Reply::bare(200, &chunked).with("Transfer-Encoding", "chunked")
        })
    });
}

/// Permanent faults.
fn lasting(add: &mut dyn FnMut(&str, &'static str, Fault)) {
    for status in [204, 304, 400, 401, 403, 404, 410, 418, 500, 501, 503] {
        let id = if matches!(status, 401 | 403) { "credentials.missing" } else { "net.status" };
        add(&format!("status {status}"), id, Box::new(move |_, _| Reply::status(status, b"")));
    }
    add("connection always closed", "net.cut", Box::new(|_, _| Reply::Close));
    add("always cut at the start", "net.cut", Box::new(|_, good| good.cut(0)));
    add(
        "always cut, without range support",
        "net.cut",
        Box::new(|request, _| Reply::ok(&request.full_body).cut(20)),
    );
    add("never a response", "net.timeout", Box::new(|_, _| Reply::Hang));
    add(
        "always stalled, without range support",
        "net.timeout",
        Box::new(|request, _| Reply::ok(&request.full_body).stall(20)),
    );
    add(
        "always slow, without range support",
        "net.slow",
        Box::new(|request, _| Reply::ok(&request.full_body).slow()),
    );
    for (what, wrong) in [("longer", 1_i64), ("far longer", 1 << 40), ("shorter", -1)] {
        add(&format!("declared {what}"), "net.length", {
            Box::new(move |_, good| {
                let body = body(&good);
                let length = i64::try_from(body.len()).unwrap() + wrong;
                Reply::bare(200, &body).with("Content-Length", &length.to_string())
            })
        });
    }
    add("declared empty", "net.length", Box::new(|_, _| Reply::ok(b"")));
    add("shorter, without a length", "net.cut", Box::new(|_, good| Reply::bare(200, &body(&good)[..20])));
    add("an invalid length", "net.garbage", {
        Box::new(|_, good| Reply::bare(200, &body(&good)).with("Content-Length", "many"))
    });
    add("other bytes", "layer.changed", Box::new(|_, good| Reply::ok(&vec![0; body(&good).len()])));
    add("one other byte", "layer.changed", {
        Box::new(|_, good| {
            let mut body = body(&good);
            body[20] ^= 1;
            Reply::ok(&body)
        })
    });
    add("compressed", "net.length", Box::new(|_, good| good.with("Content-Encoding", "gzip")));
    add("an unrequested range", "net.length", {
        Box::new(|_, good| {
            let body = body(&good);
            Reply::status(206, &body)
                .with("Content-Range", &format!("bytes 0-{}/{}", body.len() - 1, body.len()))
        })
    });
    add("redirect to itself", "net.redirects", Box::new(|request, _| Reply::redirect(302, &request.path)));
    add("redirect loop", "net.redirects", {
        Box::new(|request, _| Reply::redirect(302, if request.path.ends_with("?a") { "?b" } else { "?a" }))
    });
    add("redirect without a target", "net.status", Box::new(|_, _| Reply::status(302, b"")));
    for to in
        ["file:///etc/passwd", "ftp://example.org/x", "https://", "https://h/ /x", "https://me:secret@h/"]
    {
        add(
            &format!("redirect to {to}"),
            "net.address-invalid",
            Box::new(move |_, _| Reply::redirect(302, to)),
        );
    }
    add("redirect to another host over plain HTTP", "net.not-encrypted", {
        Box::new(|_, _| Reply::redirect(302, "http://192.0.2.1/layer"))
    });
    for (what, bytes) in [
        ("not HTTP", &b"hello, I am a printer\r\n\r\n"[..]),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("an invalid status", b"HTTP/1.1 abc OK\r\n\r\n"),
        ("an invalid header", b"HTTP/1.1 200 OK\r\n\x00\x01: x\r\n\r\n"),
        ("invalid chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n"),
    ] {
        add(what, "net.garbage", Box::new(move |_, _| Reply::Raw(bytes.to_vec())));
    }
    add("endless headers", "net.garbage", {
        Box::new(|_, _| {
            Reply::Endless(b"HTTP/1.1 200 OK\r\nX-Header: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n".to_vec())
        })
    });
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (what, id, first, repeated) in [
        ("endless trailers", "net.timeout", &b"0\r\n"[..], &b"X-Trailer: x\r\n"[..]),
        ("endless trailers after a part", "net.timeout", b"1\r\nx\r\n0\r\n", b"X-Trailer: x\r\n"),
        ("an endless chunk extension", "net.garbage", b"1;", b"x"),
    ] {
        let (first, repeated) = ([chunked, first].concat(), repeated.repeat(1000));
        let reply = Reply::EndlessAfter { first, repeated };
        add(what, id, Box::new(move |_, _| reply.clone()));
    }
    add("chunks that end early", "net.cut", {
        Box::new(|_, _| Reply::Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx".to_vec()))
    });
}

/// Faults in responses to range requests.
fn resumed(add: &mut dyn FnMut(&str, End, Fault)) {
    let after_part = |fault: Fault| -> Fault {
        Box::new(move |request, good| if request.before == 0 { good.cut(20) } else { fault(request, good) })
    };
    for (what, range) in [
        ("another start", "bytes 0-{last}/{size}"),
        ("another end", "bytes 20-21/{size}"),
        ("another size", "bytes 20-{last}/9999"),
        ("no range", ""),
        ("an invalid range", "bytes=20"),
        ("a range without end", "bytes 20-18446744073709551615/*"),
    ] {
        add(&format!("a range with {what}"), Refused("net.length"), {
            after_part(Box::new(move |request, good| {
                let rest = body(&good);
                let size = rest.len() + request.range().unwrap_or_default();
                let range =
                    range.replace("{last}", &(size - 1).to_string()).replace("{size}", &size.to_string());
                Reply::status(206, &rest).with("Content-Range", &range)
            }))
        });
    }
    add("a range without the total size", Installed, {
        after_part(Box::new(|request, good| {
            let rest = body(&good);
            let last = rest.len() + request.range().unwrap_or_default() - 1;
            Reply::status(206, &rest).with("Content-Range", &format!("bytes 20-{last}/*"))
        }))
    });
    add("a range with wrong bytes, and a correct complete file", Installed, {
        Box::new(|request, good| match request.range() {
            Some(_) if request.before == 1 => {
                let rest = vec![0; body(&good).len()];
                let last = rest.len() + 19;
                Reply::status(206, &rest).with("Content-Range", &format!("bytes 20-{last}/*"))
            }
            _ if request.before == 0 => good.cut(20),
            _ => good,
        })
    });
    add("416 after a partial download", Installed, {
        Box::new(|request, good| match request.before {
            0 => good.cut(20),
            1 => Reply::status(416, b""),
            _ => good,
        })
    });
    add("always 416", Refused("net.status"), Box::new(|_, _| Reply::status(416, b"")));
    add("another tag after a partial download", Installed, {
        Box::new(|request, good| match request.before {
            0 => Reply::ok(&body(&good)).with("ETag", "\"another\"").cut(20),
            // The server ignores the range because the tag differs, and sends the complete file.
            _ => good,
        })
    });
}

/// Faults of the manifest and its signature.
fn others(add: &mut impl FnMut(&str, Hit, End, Fault)) {
    use Hit::{Manifest, Signature};
    let always = |reply: Reply| -> Fault { Box::new(move |_, _| reply.clone()) };
    let page = b"<html>please log in</html>";
    add("no manifest", Manifest, Refused("manifest.unreadable"), always(Reply::status(404, b"")));
    add(
        "an HTML page instead of the manifest",
        Manifest,
        Refused("manifest.changed"),
        always(Reply::ok(page)),
    );
    add("an empty manifest", Manifest, Refused("manifest.changed"), always(Reply::ok(b"")));
    add("an endless manifest", Manifest, Refused("manifest.changed"), {
        Box::new(|_, _| {
            Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n                                  ".repeat(200))
        })
    });
    add("a manifest cut once", Manifest, Installed, {
        Box::new(|request, good| if request.before == 0 { good.cut(50) } else { good })
    });
    add("a manifest always cut", Manifest, Refused("net.cut"), Box::new(|_, good| good.cut(50)));
    add("a manifest cut without a length", Manifest, Refused("manifest.changed"), {
        Box::new(|_, good| Reply::bare(200, &body(&good)[..50]))
    });
    add("status 503 for the manifest", Manifest, Refused("net.status"), always(Reply::status(503, b"")));
    add("no signature", Signature, Refused("manifest.unsigned"), always(Reply::status(404, b"")));
    add(
        "an HTML page instead of the signature",
        Signature,
        Refused("manifest.signature-invalid"),
        always(Reply::ok(page)),
    );
    add("status 500 for the signature", Signature, Refused("net.status"), always(Reply::status(500, b"")));
    add("no response for the signature", Signature, Refused("net.timeout"), always(Reply::Hang));
}

fn body(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Complete { body, .. } => body.clone(),
        other => panic!("{other:?}"),
    }
}

/// Runs a case: installs a version from a folder, then the next one over the network.
fn run(case: &Case, number: usize) -> Result<(), String> {
    let remote = Remote::new(&Release::plain("2.0.0", 2));
    Release::plain("1.0.0", 1).write(&remote.sandbox, "release");
    remote.sandbox.install(&["--no-start"]).done();
    let before = remote.sandbox.tree("to");
    let path = match case.hit {
        Hit::Layer => format!("/{}", remote.layer.0),
        Hit::Manifest => "/manifest.json".to_owned(),
        Hit::Signature => "/manifest.json.minisig".to_owned(),
    };
    let all = files(remote.files.clone());
    // Leaked on purpose: the server thread needs it until the test ends.
    let fault: &'static Fault = Box::leak(Box::new(cases().swap_remove(number).fault));
    let server = Server::start(move |request| {
        let good = all(request);
        if request.path.split('?').next() != Some(&path) {
            return good;
        }
        let reply = all(&Request { headers: Vec::new(), ..request.clone() });
        fault(&Request { full_body: body(&reply), ..request.clone() }, good)
    });
    let ran = remote.install(&server.url(""), &[], &[]);
    match case.end {
        Installed if ran.exit == Some(0) && remote.sandbox.installed() == "2.0.0\n" => Ok(()),
        Installed => Err(format!("{}: {} {}", case.what, ran.stderr, ran.stdout)),
        Refused(id) => {
            let is_reported = ran.exit == Some(1) || id == "manifest.unreadable";
            if !is_reported || ran.json()["error"]["id"] != id || !ran.stderr.contains(&format!("[{id}]")) {
                return Err(format!("{}: not {id}: {} {}", case.what, ran.stderr, ran.stdout));
            }
            if remote.sandbox.tree("to") != before {
                return Err(format!("{}: files were changed", case.what));
            }
            Ok(())
        }
    }
}

#[test]
fn every_network_fault_installs_or_changes_nothing() {
    let all = cases();
    assert!(all.len() >= 60, "{} faults", all.len());
    let (next, wrong) = (Mutex::new(0), Mutex::new(Vec::new()));
    // The cases mostly wait, so more threads than processors are useful.
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                loop {
                    let number = {
                        let mut next = next.lock().unwrap();
                        *next += 1;
                        *next - 1
                    };
                    let Some(case) = all.get(number) else { return };
                    if let Err(problem) = run(case, number) {
                        wrong.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), all.len());
}

#[test]
fn invalid_tls_is_rejected() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let check = |server: &Server, authority: &str, id: &str| {
        remote.sandbox.write("ca.pem", authority);
        let file = remote.sandbox.at("ca.pem");
        remote.install(&server.url(""), &[("SSL_CERT_FILE", &file)], &[]).refused(1, id);
    };
    let good = Certificates::good();
    for (names, years) in [
        (&["example.org"][..], (2020, 2090)),
        (&["localhost", "127.0.0.1"], (2020, 2021)),
        (&["localhost", "127.0.0.1"], (2080, 2090)),
    ] {
        let certificates = Certificates::new(names, years);
        let server = Server::with_tls(&certificates, files(remote.files.clone()));
        check(&server, &certificates.authority, "net.tls");
    }
    let foreign = Server::with_tls(&Certificates::good(), files(remote.files.clone()));
    check(&foreign, &good.authority, "net.tls");
    let plain =
        Server::wild(|mut line| drop(line.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")));
    check(&plain, &good.authority, "net.tls");
    let closed = Server::wild(drop);
    check(&closed, &good.authority, "net.cut");
    let silent = Server::wild(|mut line| {
        std::thread::spawn(move || {
            let _ = line.set_read_timeout(Some(Duration::from_secs(30)));
            while line.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
        });
    });
    check(&silent, &good.authority, "net.timeout");
    // A redirect from TLS to plain HTTP, and a closed port.
    let server = Server::with_tls(&good, |_| Reply::redirect(302, "http://127.0.0.1:9/manifest.json"));
    check(&server, &good.authority, "net.downgrade");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    remote.install(&format!("http://127.0.0.1:{port}/"), &[], &[]).refused(1, "net.unreachable");
}

#[test]
fn partial_cache_file_is_resumed_or_discarded() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let (name, bytes) = remote.layer.clone();
    let partial = format!("cache/layers/sha256/{}.part", name.rsplit('/').next().unwrap());
    for (what, content, expected) in [
        ("the start of the layer", bytes[..30].to_vec(), vec![Some(30)]),
        ("a different start", vec![0; 30], vec![Some(30), None]),
        ("the complete layer", bytes.clone(), vec![]),
        ("different content of the same size", vec![0; bytes.len()], vec![None]),
        ("more bytes than the layer", vec![0; bytes.len() + 1], vec![None]),
    ] {
        let server = {
            let (all, path, bytes) = (files(remote.files.clone()), format!("/{name}"), bytes.clone());
            Server::start(
                move |request| if request.path == path { part(request, &bytes) } else { all(request) },
            )
        };
        for (file, _) in remote.sandbox.tree("cache/layers/sha256") {
            remote.sandbox.remove(&format!("cache/layers/sha256/{file}"));
        }
        remote.sandbox.remove_folder("to");
        remote.sandbox.write(&partial, content);
        remote.install(&server.url(""), &[], &[]).done();
        let ranges: Vec<Option<usize>> =
            server.requests().iter().filter(|one| one.path.ends_with(&name)).map(Request::range).collect();
        assert_eq!(ranges, expected, "{what}");
    }
}
