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
    for fault in [Fault::Hang, Fault::Stall] {
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
