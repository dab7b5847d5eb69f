//! Results on a server for plain HTTP: what is saved, used, and reported.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::server::{Fault, Server};
use crate::support::Machine;

#[test]
fn second_machine_builds_without_compiler_and_cmake() {
    let server = Server::start();
    let Some(first) = Machine::new(&server.url()) else { return };
    let Some(second) = Machine::new(&server.url()) else { return };
    let first = first.writing();
    first.build().says("uploaded").says("1 saved");
    let built = second.build().says("downloaded").says("shared store: 1 of 1 lookups hit");
    assert!(!built.compiled(), "{built:?}");
    assert_eq!(second.libraries(), first.libraries());
    assert!(second.libraries().len() >= 2);
    server.requests();
    second.run(&["clean"]).succeeds();
    second.build().says("[cpu] hit");
    assert_eq!(server.requests(), Vec::<String>::new(), "a hit in the local store asks nobody");
}

#[test]
fn builds_only_read_unless_writing_is_allowed() {
    let server = Server::start();
    let Some(machine) = Machine::new(&server.url()) else { return };
    assert!(machine.build().compiled());
    assert!(server.objects().is_empty());
    let methods: Vec<String> = server.requests();
    assert!(methods.iter().all(|request| request.starts_with("GET ")), "{methods:?}");
    machine.forget();
    machine.setting("write = true");
    machine.build().says("uploaded");
    assert!(!server.objects().is_empty());
    machine.forget();
    let offline = machine.with("GPUBUILD_OFFLINE", "1");
    server.requests();
    assert!(offline.build().compiled());
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn changed_result_uploads_only_what_changed() {
    let server = Server::start();
    let Some(machine) = Machine::new(&server.url()) else { return };
    let machine = machine.writing();
    machine.build();
    let puts = |server: &Server| server.requests().iter().filter(|one| one.starts_with("PUT")).count();
    assert_eq!(puts(&server), 4, "two libraries, the inputs, the manifest");
    machine.write("vendor/more.c", "int more(void) { return 8; }\n");
    machine.run(&["clean"]).succeeds();
    machine.build();
    assert_eq!(puts(&server), 3, "one library, the inputs, the manifest");
}

#[test]
fn commands_copy_and_explain() {
    let server = Server::start();
    let Some(first) = Machine::new(&server.url()) else { return };
    let Some(second) = Machine::new(&server.url()) else { return };
    let missing = first.run(&["cache", "push", "--json"]).succeeds().json();
    assert_eq!(missing["trees"][0]["state"], "missing");
    first.build();
    let explained = first.run(&["cache", "explain", "--json"]).succeeds().json();
    assert_eq!(
        (&explained["trees"][0]["hit"], &explained["trees"][0]["level"]),
        (&true.into(), &"local".into())
    );
    let pulled = second.run(&["cache", "pull", "--json"]).succeeds().json();
    assert_eq!(pulled["trees"][0]["state"], "missing", "{pulled}");
    let pushed = first.run(&["cache", "push", "--json"]).succeeds().json();
    assert_eq!(pushed["trees"][0]["state"], "copied");
    assert!(pushed["trees"][0]["bytes"].as_u64().unwrap() > 100);
    let explained = second.run(&["cache", "explain", "--json"]).succeeds().json();
    assert_eq!(explained["trees"][0]["level"], "remote", "{explained}");
    assert!(explained["trees"][0]["remote"]["bytes"].as_u64().unwrap() > 100);
    second.run(&["cache", "explain"]).succeeds().stdout.find("to download").unwrap();
    let pulled = second.run(&["cache", "pull", "--json"]).succeeds().json();
    assert_eq!(pulled["trees"][0]["state"], "copied", "{pulled}");
    let again = second.run(&["cache", "pull", "--json"]).succeeds().json();
    assert_eq!(again["trees"][0]["state"], "present");
    assert!(!second.build().compiled());
    let stat = second.run(&["cache", "stat", "--json"]).succeeds().json();
    assert_eq!((&stat["write"], &stat["entries"]), (&false.into(), &Value::Null), "{stat}");
    let refused = second.run(&["cache", "prune", "--remote", "--all"]);
    assert!(!refused.success && refused.stderr.contains("remote.not-listable"), "{refused:?}");
}

#[test]
fn invalid_settings_are_reported_before_the_build() {
    let Some(machine) = Machine::new("ftp://host/x") else { return };
    let failed = machine.run(&["build"]);
    assert!(!failed.success && failed.stderr.contains("remote.setting-invalid"), "{failed:?}");
    let off = machine.with("GPUBUILD_REMOTE", "off");
    let failed = off.run(&["cache", "stat"]);
    assert!(!failed.success && failed.stderr.contains("remote.off"), "{failed:?}");
    let failed = off.run(&["cache", "stat", "--remote=https://me:hunter2@host/x"]);
    assert!(!failed.success && failed.stderr.contains("remote.setting-invalid"), "{failed:?}");
    assert!(!failed.stderr.contains("hunter2"), "{failed:?}");
}

#[test]
fn timings_contain_the_transfers() {
    let server = Server::start();
    let Some(machine) = Machine::new(&server.url()) else { return };
    let machine = machine.writing();
    machine.run(&["build", "--timings=one.json"]).succeeds();
    machine.forget();
    machine.run(&["build", "--timings=two.json"]).succeeds();
    let read = |name: &str| -> Value {
        let file = std::fs::File::options().read(true).open(machine.path(name)).unwrap();
        serde_json::from_reader(file).unwrap()
    };
    let (one, two) = (read("one.json"), read("two.json"));
    assert_eq!((&one["shared_store"]["saved"], &one["shared_store"]["hits"]), (&1.into(), &0.into()));
    assert_eq!((&two["shared_store"]["saved"], &two["shared_store"]["hits"]), (&0.into(), &1.into()));
    assert!(two["shared_store"]["downloaded"].as_u64().unwrap() > 100);
}

#[test]
fn entries_need_a_signature_if_keys_are_named() {
    let server = Server::start();
    let Some(writer) = Machine::new(&server.url()) else { return };
    let Some(reader) = Machine::new(&server.url()) else { return };
    let keys = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let other = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let secret = |keys: &minisign::KeyPair| keys.sk.to_box(None).unwrap().into_string();
    reader.setting(&format!("require_signature = true\nkeys = [\"{}\"]", keys.pk.to_base64()));
    let writer = writer.writing();
    writer.build();
    let built = reader.build().says("[remote.unsigned]");
    assert!(built.compiled() && built.warnings() == 1, "{built:?}");
    for (key, compiled) in [(&other, true), (&keys, false)] {
        writer.forget();
        server.clear();
        let signed = writer.command(&["build"]).env("GPUBUILD_SIGN_KEY", secret(key)).output().unwrap();
        assert!(signed.status.success());
        reader.forget();
        assert_eq!(reader.build().compiled(), compiled);
    }
    // The signature covers the manifest, and the manifest covers everything else.
    for (path, body) in server.objects().into_iter().filter(|(path, _)| path.contains("/ac/")) {
        let text = String::from_utf8(body).unwrap();
        server.set(&path, text.replacen("adder cpu", "adder gpu", 1).into_bytes());
    }
    reader.forget();
    assert!(reader.build().says("[remote.unsigned]").compiled());
    assert_eq!(reader.libraries(), writer.libraries());
}

#[test]
fn two_writers_leave_a_usable_entry() {
    let server = Server::start();
    let Some(one) = Machine::new(&server.url()) else { return };
    let Some(two) = Machine::new(&server.url()) else { return };
    let Some(reader) = Machine::new(&server.url()) else { return };
    let (one, two) = (one.writing(), two.writing());
    let start = |machine: &Machine| {
        machine.command(&["build"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let (mut first, mut second) = (start(&one), start(&two));
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    assert!(!reader.build().compiled());
    assert_eq!(reader.libraries(), one.libraries());
}

/// Kills a command as soon as a file with this part of a path exists. Returns whether it existed before the command ended.
fn kill_at(machine: &Machine, arguments: &[&str], part: &str) -> bool {
    let mut child = machine.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let cache = machine.path("cache");
    let is_there = || {
        let all = walkdir::WalkDir::new(&cache).into_iter().flatten();
        all.into_iter()
            .any(|entry| entry.file_type().is_file() && entry.path().to_string_lossy().contains(part))
    };
    while !is_there() {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    child.wait().unwrap();
    true
}

#[test]
fn transfers_that_were_killed_within_a_file_are_completed() {
    let server = Server::start();
    let Some(writer) = Machine::new(&server.url()) else { return };
    let Some(reader) = Machine::new(&server.url()) else { return };
    writer.build();
    server.fail("PUT /store/cas/", Fault::Hang);
    assert!(kill_at(&writer, &["cache", "push"], "/uploads/"));
    server.heal();
    writer.run(&["cache", "push"]).succeeds();
    let uploads = walkdir::WalkDir::new(writer.path("cache/store/v1/uploads")).min_depth(1).into_iter();
    assert_eq!(uploads.count(), 0, "compressed files of the killed upload are left");
    reader.impatient();
    let mut kills = 0;
    for object in server.objects().into_keys().filter(|path| path.contains("/cas/")) {
        server.fail(&format!("GET {object}"), Fault::Stall);
        // The list of inputs is not a file of the entry.
        kills += u32::from(kill_at(&reader, &["cache", "pull"], ".partial/files/"));
        server.heal();
        let pulled = reader.run(&["cache", "pull", "--json"]).succeeds().json();
        assert_eq!(pulled["trees"][0]["state"], "copied", "{object}: {pulled}");
        assert!(!reader.build().compiled());
        assert_eq!((reader.entries(), reader.libraries()), ((1, 0), writer.libraries()));
        reader.forget();
    }
    assert!(kills > 0);
}

#[test]
fn a_pull_from_a_failing_server_fails() {
    let server = Server::start();
    let Some(writer) = Machine::new(&server.url()) else { return };
    let Some(reader) = Machine::new(&server.url()) else { return };
    writer.writing().build();
    for (fault, id) in [
        (Fault::Status(500), "remote.status"),
        (Fault::Cut(3), "remote.unreachable"),
        (Fault::Body(200, "{}".to_owned()), "remote.damaged"),
        (Fault::Redirect("http://127.0.0.2/x".to_owned()), "remote.redirected"),
    ] {
        server.fail("GET /store/ac/", fault.clone());
        let pulled = reader.run(&["cache", "pull"]);
        assert!(!pulled.success && pulled.stderr.contains(&format!("[{id}]")), "{fault:?}: {pulled:?}");
        server.heal();
    }
    assert_eq!(reader.entries(), (0, 0));
    reader.run(&["cache", "pull"]).succeeds();
}

#[test]
fn killed_transfers_lose_nothing() {
    let server = Server::start();
    let Some(writer) = Machine::new(&server.url()) else { return };
    let Some(reader) = Machine::new(&server.url()) else { return };
    writer.build();
    let kill_after = |machine: &Machine, arguments: &[&str], delay: u64| {
        let mut child =
            machine.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        let _ = child.kill();
        child.wait().unwrap();
    };
    let points = [1, 5, 10, 15, 20, 30, 40, 60, 80, 100];
    for delay in points {
        server.clear();
        kill_after(&writer, &["cache", "push"], delay);
        let built = reader.build();
        assert_eq!(built.warnings(), 0, "a manifest without its files after {delay} ms: {built:?}");
        assert_eq!(reader.libraries(), writer.libraries());
        reader.forget();
    }
    writer.run(&["cache", "push"]).succeeds();
    for delay in points {
        kill_after(&reader, &["cache", "pull"], delay);
        let built = reader.build();
        assert!(!built.compiled() && built.warnings() == 0, "{delay} ms: {built:?}");
        assert_eq!((reader.entries(), reader.libraries()), ((1, 0), writer.libraries()), "{delay} ms");
        reader.forget();
    }
}
