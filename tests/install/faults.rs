//! Sixty faults of servers and lines: each ends in the release, or in a failure with its own id and the version before untouched.

use std::io::{Read as _, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use crate::net::Remote;
use crate::release::Release;
use crate::server::{Asked, Certificates, Reply, Server, files, part};

/// What a server does when the layer, or another file, is asked for. It gets what a good server would answer.
type Fault = Box<dyn Fn(&Asked, Reply) -> Reply + Send + Sync>;

/// How it has to end.
#[derive(Clone, Copy)]
enum End {
    /// With the release.
    Installed,
    /// With this id.
    Refused(&'static str),
}

/// Which file it hits.
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

/// Faults that pass.
fn passing(add: &mut dyn FnMut(&str, Fault)) {
    let once = |fault: Fault| -> Fault {
        Box::new(move |asked, good| if asked.before == 0 { fault(asked, good) } else { good })
    };
    add("closed without an answer, once", once(Box::new(|_, _| Reply::Close)));
    for after in [0, 1, 20] {
        add(&format!("cut after {after} bytes, once"), once(Box::new(move |_, good| good.cut(after))));
    }
    for status in [408, 429, 500, 502, 503, 504] {
        add(&format!("status {status}, once"), once(Box::new(move |_, _| Reply::status(status, b"busy"))));
    }
    add("asked to wait", once(Box::new(|_, _| Reply::status(503, b"").with("Retry-After", "1"))));
    add("nothing more after a while, once", once(Box::new(|_, good| good.stall(20))));
    add("no answer, once", once(Box::new(|_, _| Reply::Hang)));
    add("a byte now and then, once", once(Box::new(|_, good| good.slow())));
    for status in [301, 302, 303, 307, 308] {
        add(
            &format!("moved with {status}"),
            Box::new(move |asked, good| {
                if asked.path.ends_with("?moved") {
                    good
                } else {
                    Reply::redirect(status, &format!("{}?moved", asked.path))
                }
            }),
        );
    }
    add("ten redirects", {
        Box::new(|asked, good| {
            let step: u32 = asked.path.split("?step=").nth(1).map_or(0, |text| text.parse().unwrap());
            if step < 10 { Reply::redirect(302, &format!("?step={}", step + 1)) } else { good }
        })
    });
    add("no length", Box::new(|_, good| Reply::bare(200, &body(&good))));
    add("more than the layer, without a length", {
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

/// Faults that last.
fn lasting(add: &mut dyn FnMut(&str, &'static str, Fault)) {
    for status in [204, 304, 400, 401, 403, 404, 410, 418, 500, 501, 503] {
        let id = if matches!(status, 401 | 403) { "credentials.missing" } else { "net.status" };
        add(&format!("status {status}"), id, Box::new(move |_, _| Reply::status(status, b"")));
    }
    add("always closed", "net.cut", Box::new(|_, _| Reply::Close));
    add("always cut at the start", "net.cut", Box::new(|_, good| good.cut(0)));
    add("always cut, and no parts", "net.cut", Box::new(|asked, _| Reply::ok(&asked.whole).cut(20)));
    add("always without an answer", "net.timeout", Box::new(|_, _| Reply::Hang));
    add(
        "always stalled, and no parts",
        "net.timeout",
        Box::new(|asked, _| Reply::ok(&asked.whole).stall(20)),
    );
    add(
        "always a byte now and then, and no parts",
        "net.slow",
        Box::new(|asked, _| Reply::ok(&asked.whole).slow()),
    );
    for (what, wrong) in [("longer", 1_i64), ("far longer", 1 << 40), ("shorter", -1)] {
        add(&format!("said to be {what}"), "net.length", {
            Box::new(move |_, good| {
                let body = body(&good);
                let length = i64::try_from(body.len()).unwrap() + wrong;
                Reply::bare(200, &body).with("Content-Length", &length.to_string())
            })
        });
    }
    add("said to be empty", "net.length", Box::new(|_, _| Reply::ok(b"")));
    add("shorter, without a length", "net.cut", Box::new(|_, good| Reply::bare(200, &body(&good)[..20])));
    add("a length that is none", "net.garbage", {
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
    add("a part that nobody asked for", "net.length", {
        Box::new(|_, good| {
            let body = body(&good);
            Reply::status(206, &body)
                .with("Content-Range", &format!("bytes 0-{}/{}", body.len() - 1, body.len()))
        })
    });
    add("leads to itself", "net.redirects", Box::new(|asked, _| Reply::redirect(302, &asked.path)));
    add("leads around", "net.redirects", {
        Box::new(|asked, _| Reply::redirect(302, if asked.path.ends_with("?a") { "?b" } else { "?a" }))
    });
    add("leads nowhere", "net.status", Box::new(|_, _| Reply::status(302, b"")));
    for to in
        ["file:///etc/passwd", "ftp://example.org/x", "https://", "https://h/ /x", "https://me:secret@h/"]
    {
        add(&format!("leads to {to}"), "net.address-invalid", Box::new(move |_, _| Reply::redirect(302, to)));
    }
    add("leads to another machine without encryption", "net.not-encrypted", {
        Box::new(|_, _| Reply::redirect(302, "http://192.0.2.1/layer"))
    });
    for (what, bytes) in [
        ("no protocol", &b"hello, I am a printer\r\n\r\n"[..]),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("a status that is none", b"HTTP/1.1 abc OK\r\n\r\n"),
        ("a header that is none", b"HTTP/1.1 200 OK\r\n\x00\x01: x\r\n\r\n"),
        ("chunks that are none", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n"),
    ] {
        add(what, "net.garbage", Box::new(move |_, _| Reply::Raw(bytes.to_vec())));
    }
    add("headers without end", "net.garbage", {
        Box::new(|_, _| {
            Reply::Endless(b"HTTP/1.1 200 OK\r\nX-Header: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n".to_vec())
        })
    });
    add("chunks that end early", "net.cut", {
        Box::new(|_, _| Reply::Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nx".to_vec()))
    });
}

/// Faults in what follows on a part.
fn resumed(add: &mut dyn FnMut(&str, End, Fault)) {
    let after_part = |fault: Fault| -> Fault {
        Box::new(move |asked, good| if asked.before == 0 { good.cut(20) } else { fault(asked, good) })
    };
    for (what, range) in [
        ("another start", "bytes 0-{last}/{size}"),
        ("another end", "bytes 20-21/{size}"),
        ("another size", "bytes 20-{last}/9999"),
        ("no range", ""),
        ("a range that is none", "bytes=20"),
        ("a range without end", "bytes 20-18446744073709551615/*"),
    ] {
        add(&format!("a part with {what}"), Refused("net.length"), {
            after_part(Box::new(move |asked, good| {
                let rest = body(&good);
                let size = rest.len() + asked.range().unwrap_or_default();
                let range =
                    range.replace("{last}", &(size - 1).to_string()).replace("{size}", &size.to_string());
                Reply::status(206, &rest).with("Content-Range", &range)
            }))
        });
    }
    add("a part without the size of all", Installed, {
        after_part(Box::new(|asked, good| {
            let rest = body(&good);
            let last = rest.len() + asked.range().unwrap_or_default() - 1;
            Reply::status(206, &rest).with("Content-Range", &format!("bytes 20-{last}/*"))
        }))
    });
    add("a part of other bytes, and whole the right ones", Installed, {
        Box::new(|asked, good| match asked.range() {
            Some(_) if asked.before == 1 => {
                let rest = vec![0; body(&good).len()];
                let last = rest.len() + 19;
                Reply::status(206, &rest).with("Content-Range", &format!("bytes 20-{last}/*"))
            }
            _ if asked.before == 0 => good.cut(20),
            _ => good,
        })
    });
    add("416 after a part", Installed, {
        Box::new(|asked, good| match asked.before {
            0 => good.cut(20),
            1 => Reply::status(416, b""),
            _ => good,
        })
    });
    add("416 always", Refused("net.status"), Box::new(|_, _| Reply::status(416, b"")));
    add("another tag after a part", Installed, {
        Box::new(|asked, good| match asked.before {
            0 => Reply::ok(&body(&good)).with("ETag", "\"another\"").cut(20),
            // The good server takes another tag for another file and sends all of this one.
            _ => good,
        })
    });
}

/// The manifest and its signature.
fn others(add: &mut impl FnMut(&str, Hit, End, Fault)) {
    use Hit::{Manifest, Signature};
    let always = |reply: Reply| -> Fault { Box::new(move |_, _| reply.clone()) };
    let page = b"<html>please log in</html>";
    add("no manifest", Manifest, Refused("manifest.unreadable"), always(Reply::status(404, b"")));
    add("a page in place of the manifest", Manifest, Refused("manifest.changed"), always(Reply::ok(page)));
    add("an empty manifest", Manifest, Refused("manifest.changed"), always(Reply::ok(b"")));
    add("a manifest without end", Manifest, Refused("manifest.changed"), {
        Box::new(|_, _| {
            Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n                                  ".repeat(200))
        })
    });
    add("a manifest cut, once", Manifest, Installed, {
        Box::new(|asked, good| if asked.before == 0 { good.cut(50) } else { good })
    });
    add("a manifest always cut", Manifest, Refused("net.cut"), Box::new(|_, good| good.cut(50)));
    add("a manifest cut where nobody can see it", Manifest, Refused("manifest.changed"), {
        Box::new(|_, good| Reply::bare(200, &body(&good)[..50]))
    });
    add("a manifest that is busy", Manifest, Refused("net.status"), always(Reply::status(503, b"")));
    add("no signature", Signature, Refused("manifest.unsigned"), always(Reply::status(404, b"")));
    add(
        "a page in place of the signature",
        Signature,
        Refused("manifest.signature-invalid"),
        always(Reply::ok(page)),
    );
    add("a signature that is busy", Signature, Refused("net.status"), always(Reply::status(500, b"")));
    add("a signature that hangs", Signature, Refused("net.timeout"), always(Reply::Hang));
}

fn body(reply: &Reply) -> Vec<u8> {
    match reply {
        Reply::Whole { body, .. } => body.clone(),
        other => panic!("{other:?}"),
    }
}

/// One case: a version is installed, the next one comes over the network.
fn run(case: &Case, number: usize) -> Result<(), String> {
    let remote = Remote::new(&Release::plain("2.0.0", 2));
    Release::plain("1.0.0", 1).write(&remote.world, "release");
    remote.world.install(&["--no-start"]).done();
    let before = remote.world.tree("to");
    let path = match case.hit {
        Hit::Layer => format!("/{}", remote.layer.0),
        Hit::Manifest => "/manifest.json".to_owned(),
        Hit::Signature => "/manifest.json.minisig".to_owned(),
    };
    let all = files(remote.files.clone());
    // The case lives as long as the test does.
    let fault: &'static Fault = Box::leak(Box::new(cases().swap_remove(number).fault));
    let server = Server::start(move |asked| {
        let good = all(asked);
        if asked.path.split('?').next() != Some(&path) {
            return good;
        }
        let whole = all(&Asked { headers: Vec::new(), ..asked.clone() });
        fault(&Asked { whole: body(&whole), ..asked.clone() }, good)
    });
    let ran = remote.install(&server.url(""), &[], &[]);
    match case.end {
        Installed if ran.exit == Some(0) && remote.world.installed() == "2.0.0\n" => Ok(()),
        Installed => Err(format!("{}: {} {}", case.what, ran.stderr, ran.stdout)),
        Refused(id) => {
            let is_told = ran.exit == Some(1) || id == "manifest.unreadable";
            if !is_told || ran.json()["error"]["id"] != id || !ran.stderr.contains(&format!("[{id}]")) {
                return Err(format!("{}: not {id}: {} {}", case.what, ran.stderr, ran.stdout));
            }
            if remote.world.tree("to") != before {
                return Err(format!("{}: something was changed", case.what));
            }
            Ok(())
        }
    }
}

#[test]
fn every_fault_ends_in_the_release_or_in_a_failure_that_changes_nothing() {
    let all = cases();
    assert!(all.len() >= 60, "{} faults", all.len());
    let (next, wrong) = (Mutex::new(0), Mutex::new(Vec::new()));
    // They wait more than they work.
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
                    if let Err(told) = run(case, number) {
                        wrong.lock().unwrap().push(told);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), all.len());
}

#[test]
fn encryption_that_is_none_is_refused() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let check = |server: &Server, authority: &str, id: &str| {
        remote.world.write("ca.pem", authority);
        let file = remote.world.at("ca.pem");
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
    // From encryption to none, and what nobody listens on.
    let server = Server::with_tls(&good, |_| Reply::redirect(302, "http://127.0.0.1:9/manifest.json"));
    check(&server, &good.authority, "net.downgrade");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    remote.install(&format!("http://127.0.0.1:{port}/"), &[], &[]).refused(1, "net.unreachable");
}

#[test]
fn what_lies_in_the_cache_half_is_gone_on_with_or_thrown_away() {
    let remote = Remote::new(&Release::plain("1.0.0", 1));
    let (name, bytes) = remote.layer.clone();
    let place = format!("cache/layers/sha256/{}.part", name.rsplit('/').next().unwrap());
    for (what, content, asked_for) in [
        ("the beginning", bytes[..30].to_vec(), vec![Some(30)]),
        ("another beginning", vec![0; 30], vec![Some(30), None]),
        ("all of it", bytes.clone(), vec![]),
        ("all of something else", vec![0; bytes.len()], vec![None]),
        ("more than it", vec![0; bytes.len() + 1], vec![None]),
    ] {
        let server = {
            let (all, path, bytes) = (files(remote.files.clone()), format!("/{name}"), bytes.clone());
            Server::start(move |asked| if asked.path == path { part(asked, &bytes) } else { all(asked) })
        };
        for (file, _) in remote.world.tree("cache/layers/sha256") {
            remote.world.remove(&format!("cache/layers/sha256/{file}"));
        }
        remote.world.remove_folder("to");
        remote.world.write(&place, content);
        remote.install(&server.url(""), &[], &[]).done();
        let ranges: Vec<Option<usize>> =
            server.asked().iter().filter(|one| one.path.ends_with(&name)).map(Asked::range).collect();
        assert_eq!(ranges, asked_for, "{what}");
    }
}
