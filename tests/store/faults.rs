//! Servers that are absent, slow, lying or full: a build never fails, never gets a wrong library, and takes a bounded time.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::server::{Fault, Server};
use crate::support::Machine;

/// The time that a build with a useless server may take: its own work on a busy machine, and a time limit of seconds. A server that is
/// waited for without a limit takes longer.
const BOUND: Duration = Duration::from_secs(240);

struct Scene {
    server: Server,
    writer: Machine,
    reader: Machine,
}

/// A store with one entry, and a machine that has not used it yet.
fn scene() -> Option<Scene> {
    let server = Server::start();
    let (writer, reader) = (Machine::new(&server.url())?.writing(), Machine::new(&server.url())?);
    writer.build();
    Some(Scene { server, writer, reader })
}

impl Scene {
    /// A build with this fault compiles everything, with one warning.
    fn misses(&self, requests: &str, fault: &Fault, id: &str) {
        self.reader.forget();
        self.server.fail(requests, fault.clone());
        let started = Instant::now();
        let built = self.reader.build();
        assert!(started.elapsed() < BOUND, "{requests} {fault:?}: {:?}", started.elapsed());
        self.server.heal();
        assert!(built.compiled(), "{requests} {fault:?}: {built:?}");
        assert_eq!(built.warnings(), 1, "{requests} {fault:?}: {built:?}");
        assert!(built.stderr.contains(&format!("[{id}]")), "{requests} {fault:?}: no {id} in {built:?}");
        assert_eq!(self.reader.libraries(), self.writer.libraries());
        assert_eq!(self.reader.entries(), (1, 0), "{requests} {fault:?}");
    }
}

#[test]
fn lying_servers_are_misses() {
    let Some(scene) = scene() else { return };
    for fault in [Fault::Shorter(3), Fault::Longer, Fault::Flipped, Fault::Swapped, Fault::Shorter(1 << 20)] {
        scene.misses("GET /store/cas/", &fault, "remote.damaged");
    }
    for fault in [
        Fault::Shorter(5),
        Fault::Flipped,
        Fault::Body(200, "{}".to_owned()),
        Fault::Body(200, "<html>log in</html>".to_owned()),
        Fault::Body(200, "[".repeat(100_000)),
    ] {
        scene.misses("GET /store/ac/", &fault, "remote.damaged");
    }
    for path in ["ac", "cas"] {
        scene.misses(&format!("GET /store/{path}/"), &Fault::Cut(20), "remote.unreachable");
        scene.misses(&format!("GET /store/{path}/"), &Fault::Garbage, "remote.damaged");
    }
    scene.misses("GET /store/cas/", &Fault::Status(404), "remote.damaged");
}

#[test]
fn servers_that_refuse_are_misses() {
    let Some(scene) = scene() else { return };
    for status in [500, 502, 503, 507, 429, 400, 204] {
        scene.misses("GET /store/ac/", &Fault::Status(status), "remote.status");
        scene.misses("GET /store/cas/", &Fault::Status(status), "remote.status");
    }
    for status in [401, 403] {
        scene.misses("GET /store/ac/", &Fault::Status(status), "remote.denied");
        scene.misses("GET /store/cas/", &Fault::Status(status), "remote.denied");
    }
    let other = Server::start();
    scene.misses("GET /store/ac/", &Fault::Redirect(format!("{}/x", other.url())), "remote.redirected");
    scene.misses("GET /store/cas/", &Fault::Redirect(format!("{}/x", other.url())), "remote.redirected");
    assert!(other.requests().is_empty(), "nothing is sent to another server");
}

#[test]
fn slow_and_absent_servers_cost_a_bounded_time() {
    let Some(scene) = scene() else { return };
    scene.writer.impatient();
    scene.reader.impatient();
    for fault in [Fault::Hang, Fault::Stall, Fault::Trickle] {
        scene.misses("GET /store/ac/", &fault, "remote.unreachable");
        scene.misses("GET /store/cas/", &fault, "remote.unreachable");
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(alone) = Machine::new(&format!("http://127.0.0.1:{port}/store")) else { return };
    let built = alone.writing().build().says("[remote.unreachable]");
    assert!(built.compiled() && built.warnings() == 1, "{built:?}");
}

#[test]
fn failed_uploads_do_not_fail_the_build() {
    let Some(scene) = scene() else { return };
    scene.writer.impatient();
    scene.reader.impatient();
    let upload = |fault: Option<(&str, Fault)>, id: &str| {
        scene.writer.forget();
        scene.server.clear();
        if let Some((requests, fault)) = fault {
            scene.server.fail(requests, fault);
        }
        let built = scene.writer.build();
        scene.server.heal();
        assert!(built.compiled() && built.warnings() == 1, "{built:?}");
        assert!(built.stderr.contains(&format!("[{id}]")), "no {id} in {built:?}");
        let manifests = scene.server.objects().keys().filter(|path| path.contains("/ac/")).count();
        assert_eq!(manifests, 0, "an incomplete entry has no manifest");
    };
    for path in ["PUT /store/cas/", "PUT /store/ac/"] {
        upload(Some((path, Fault::Status(507))), "remote.status");
        upload(Some((path, Fault::Status(403))), "remote.denied");
        upload(Some((path, Fault::Hang)), "remote.unreachable");
    }
    upload(Some(("HEAD ", Fault::Status(500))), "remote.status");
    // As a login page answers.
    upload(Some(("PUT /store/ac/", Fault::Body(200, "<html>".to_owned()))), "remote.damaged");
    let Some(limited) = Machine::new(&scene.server.url()) else { return };
    let limited = limited.writing();
    limited.setting("max_upload = \"100\"");
    scene.server.clear();
    let built = limited.build().says("[remote.budget]");
    assert!(built.compiled() && scene.server.objects().is_empty(), "{built:?}");
}

#[test]
fn manifest_of_another_entry_is_refused() {
    let Some(scene) = scene() else { return };
    let manifest = scene.server.objects().into_iter().find(|(path, _)| path.contains("/ac/")).unwrap();
    scene.reader.write("vendor/more.c", "int more(void) { return 9; }\n");
    scene.server.requests();
    assert!(scene.reader.build().compiled());
    let asked: Vec<String> = scene.server.requests();
    for request in asked.iter().filter_map(|request| request.strip_prefix("GET ")) {
        scene.server.set(request, manifest.1.clone());
    }
    scene.reader.forget();
    let built = scene.reader.build().says("[remote.damaged]").says("it is another entry");
    assert!(built.compiled(), "{built:?}");
    assert_ne!(scene.reader.libraries(), scene.writer.libraries(), "the changed source was compiled");
}

#[test]
fn interrupted_transfers_continue() {
    let Some(scene) = scene() else { return };
    let blobs = scene.server.objects().keys().filter(|path| path.contains("/cas/")).count();
    for fault in [Fault::Pieces(1000), Fault::CutFirst(500)] {
        scene.reader.forget();
        scene.server.fail("GET /store/cas/", fault.clone());
        scene.server.requests();
        let built = scene.reader.build();
        scene.server.heal();
        assert!(!built.compiled() && built.warnings() == 0, "{fault:?}: {built:?}");
        assert_eq!(scene.reader.libraries(), scene.writer.libraries());
        let requests = scene.server.requests().iter().filter(|one| one.contains("/cas/")).count();
        assert!(requests > blobs, "{fault:?}: {requests} requests for {blobs} blobs");
    }
    for range in [
        "bytes {next}-{last}/{size}",
        "bytes {from}-{from}/{size}",
        "bytes {from}-{more}/{size}",
        "bytes {from}-{last}/{more}",
        "bytes {from}-{last}",
        "bytes {from}-0/{size}",
        "bytes {from}-18446744073709551615/*",
        "items {from}-{last}/{size}",
        "bytes */{size}",
        "",
    ] {
        scene.misses("GET /store/cas/", &Fault::Range(500, range), "remote.damaged");
    }
}

#[test]
fn expired_credentials_of_object_storage_are_named() {
    let server = Server::start();
    let Some(machine) = Machine::new("s3://results/team") else { return };
    let machine = machine.writing().with("AWS_ACCESS_KEY_ID", "key").with("AWS_SECRET_ACCESS_KEY", "secret");
    let machine = machine.with("AWS_SESSION_TOKEN", "old");
    machine.setting(&format!("endpoint = \"{}\"", server.root()));
    machine.build();
    assert!(!server.objects().is_empty());
    let document =
        "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>";
    for (requests, status) in [("GET /results/team/ac/", 403), ("GET /results/team/cas/", 400), ("PUT ", 403)]
    {
        if requests == "PUT " {
            server.clear();
        }
        machine.forget();
        server.fail(requests, Fault::Body(status, document.to_owned()));
        let built = machine.build().says("(ExpiredToken) [remote.denied]");
        server.heal();
        assert!(built.compiled() && built.warnings() == 1, "{built:?}");
        let built = built.says("hint: the temporary credentials have expired").says("AWS_SESSION_TOKEN");
        assert!(!built.stderr.contains("secret"), "{built:?}");
    }
    // The answer to HEAD has no text.
    machine.forget();
    server.fail("HEAD ", Fault::Status(403));
    machine.build().says("[remote.denied]").says("have expired or lack permission");
}

#[test]
fn expired_token_of_a_registry_is_replaced() {
    let server = Server::start();
    let url = format!("oci://{}/team/store", server.root().trim_start_matches("http://"));
    let (Some(first), Some(second)) = (Machine::new(&url), Machine::new(&url)) else { return };
    server.expire_tokens(2);
    let built = first.writing().build().says("uploaded");
    assert_eq!(built.warnings(), 0, "{built:?}");
    let issued = server.issued_tokens();
    assert!(issued > 1, "{issued}");
    let built = second.build();
    assert!(!built.compiled() && built.warnings() == 0, "{built:?}");
    assert!(server.issued_tokens() > issued);
    // A registry that accepts none of its tokens.
    server.expire_tokens(0);
    second.forget();
    let built = second.build().says("[remote.denied]").says("hint: ");
    assert!(built.compiled() && built.warnings() == 1, "{built:?}");
}

#[test]
fn full_disk_is_a_miss_and_leaves_nothing() {
    const PAGE: u64 = 4096;
    let Some(scene) = scene() else { return };
    let bytes = scene.writer.entry_bytes();
    let enough_by_size = bytes.div_ceil(PAGE) * PAGE;
    // Files take more space than their size: the first check passes, and writing fails.
    for (size, cause) in [(enough_by_size - PAGE, "bytes are needed"), (enough_by_size, "No space left")] {
        scene.reader.forget();
        let Some(built) = scene.reader.build_with_small_store(size) else { return };
        let built = built.succeeds().says("[cache.failed]").says(cause).says("hint: check the free space");
        assert!(built.compiled(), "{built:?}");
        assert_eq!(scene.reader.libraries(), scene.writer.libraries());
        assert_eq!(built.stdout.lines().last(), Some("left:"), "{built:?}");
    }
}
