//! From a folder: layout, going back, configuration, what was there before.

use serde_json::json;

use crate::release::{Release, Variant, blob, key_pair};
use crate::support::{World, recorded};

#[test]
fn a_release_is_installed_started_and_gone_back_from() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    let done = world.install(&[]).done();
    assert_eq!(done["schema"], json!({"name": "install", "version": 1}));
    assert_eq!(
        (&done["label"], &done["backend"], &done["proof"]),
        (&json!("cpu"), &json!("cpu"), &json!("checked"))
    );
    assert_eq!(done["program"], world.at("to/current/bin/tool"));
    assert_eq!(world.installed(), "1.0.0\n");
    let folder = done["version"].as_str().unwrap();
    assert!(world.read("to/state.json").contains(&format!("{folder}-1-cpu-")));
    assert_eq!(world.install(&[]).done()["outcome"], "unchanged");

    Release::plain("2.0.0", 2).write(&world, "release");
    let done = world.install(&[]).done();
    assert_eq!((&done["outcome"], &done["previous"]["version"]), (&json!("installed"), &json!("1.0.0")));
    assert_eq!(world.installed(), "2.0.0\n");
    let back = world.run(&["install", "--rollback", "--to", "to", "--json"]).done();
    assert_eq!(back["installed"][0]["current"]["version"], "1.0.0");
    assert_eq!(world.installed(), "1.0.0\n");
    world.run(&["install", "--rollback", "--to", "to"]);
    assert_eq!(world.installed(), "2.0.0\n");

    Release::plain("3.0.0", 3).write(&world, "release");
    world.install(&[]).done();
    // Only the one before stays, and nothing half.
    let versions: Vec<String> = world.tree("to/versions").into_iter().map(|(name, _)| name).collect();
    assert!(
        versions.iter().all(|name| name.starts_with("2.0.0-2") || name.starts_with("3.0.0-3")),
        "{versions:?}"
    );
    let listed = world.run(&["install", "--list", "--to", "to", "--json"]).done();
    assert_eq!(listed["installed"][0]["previous"]["version"], "2.0.0");
}

#[test]
fn the_path_of_the_program_is_the_answer_and_the_users_data_folder_the_place() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    let host = recorded("debian-12-bare");
    let ran = world.run(&["install", "--manifest", "release", "--host", &host]);
    let program = world.at("home/.local/share/gpubuild/tool/current/bin/tool");
    assert_eq!((ran.stdout.as_str(), ran.exit), (format!("{program}\n").as_str(), Some(0)), "{ran:#?}");
    ran.says(&["tool 1.0.0 `cpu` is installed for cpu: its check has used cpu"]);
    let quiet = world.run(&["-q", "install", "--manifest", "release", "--host", &host]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), (format!("{program}\n").as_str(), ""));
    assert!(world.run(&["install", "--list"]).stdout.contains(&program));
    assert_eq!(
        world.run(&["install", "--list", "--name", "tool", "--json"]).done()["installed"][0]["name"],
        "tool"
    );
    let data = [("XDG_DATA_HOME", world.at("data"))];
    let data: Vec<(&str, &str)> = data.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let ran = world.run_with(&data, &["install", "--manifest", "release", "--host", &host]);
    assert_eq!(ran.stdout, format!("{}\n", world.at("data/gpubuild/tool/current/bin/tool")));
}

#[test]
fn variants_share_layers_and_the_narrowest_is_taken() {
    let world = World::new();
    Release::wide("cuda", "cuda", "vulkan").write(&world, "release");
    let host = recorded("ubuntu-22.04-rtx4090");
    let done = world.install(&["--host", &host]).json();
    assert_eq!(done["error"], json!(null), "{done:#}");
    assert_eq!((&done["label"], &done["proof"]), (&json!("cuda_sm89"), &json!("checked")));
    assert_eq!(world.installed(), "cuda_sm89\n");
    let ran = world.run(&["install", "--manifest", "release", "--to", "to", "--host", &host, "--explain"]);
    assert!(
        ran.stdout.contains("not cuda: `cuda_sm89` is nearer") && ran.stdout.ends_with("bin/tool\n"),
        "{ran:#?}"
    );
}

#[test]
fn flags_come_before_variables_before_the_configuration() {
    let world = World::new();
    Release::wide("cuda", "cuda", "vulkan").write(&world, "release");
    let host = recorded("ubuntu-22.04-rtx4090");
    let resolve = |env: &[(&str, &str)], more: &[&str]| {
        let mut arguments = vec!["resolve", "--json", "--manifest", "release"];
        arguments.extend(more);
        world.run_with(env, &arguments).done()
    };
    let install = |more: &[&str]| {
        let arguments =
            [&["install", "--json", "--no-start", "--manifest", "release", "--to", "to"], more].concat();
        world.run(&arguments).done()
    };
    world.write(
        "home/.config/gpubuild/config.toml",
        "variant = \"vulkan\"\n[releases.tool]\nvariant = \"cpu\"\n",
    );
    let found = install(&["--host", &host]);
    assert_eq!(found["error"], json!(null));
    // A recorded machine has the wishes of the one who sits here.
    assert_eq!(found["label"], "cpu");
    let because = found["because"].as_str().unwrap();
    assert!(
        because.starts_with("`releases.tool.variant` in ") && because.contains("config.toml asks for it"),
        "{because}"
    );
    assert!(found["fallback"][0]["reason"].as_str().unwrap().ends_with("[resolve.asked]"), "{found:#}");
    assert_eq!(resolve(&[], &[])["label"], "cpu");
    let found = resolve(&[("GPUBUILD_BACKEND", "cpu"), ("GPUBUILD_VARIANT", "cpu")], &[]);
    assert!(found["because"].as_str().unwrap().starts_with("GPUBUILD_VARIANT asks for it"), "{found:#}");
    let found = resolve(&[("GPUBUILD_VARIANT", "vulkan")], &["--variant", "cpu"]);
    assert!(found["because"].as_str().unwrap().starts_with("--variant asks for it"), "{found:#}");
    world.write("home/.config/gpubuild/config.toml", "varaint = \"vulkan\"\n");
    world.install(&[]).refused(2, "config.invalid").says(&["varaint", "config.toml"]);
}

#[test]
fn a_signature_is_held_against_the_key_that_is_named_anywhere() {
    let (world, pair, other) = (World::new(), key_pair(), key_pair());
    Release::plain("1.0.0", 5).write_signed(&world, "release", &pair);
    let key = pair.pk.to_base64();
    world.install(&["--key", &other.pk.to_base64()]).refused(1, "manifest.other-key");
    world.install(&["--key", &key]).done();
    world.write(
        "home/.config/gpubuild/config.toml",
        format!("[releases.tool]\nkey = \"{}\"\n", other.pk.to_base64()),
    );
    world.install(&["--name", "tool"]).refused(1, "manifest.other-key");
    world.install(&["--name", "tool", "--key", &key]).done();
    // An older one is not taken after a newer one.
    Release::plain("0.9.0", 4).write_signed(&world, "release", &pair);
    world.install(&["--key", &key]).refused(1, "manifest.older");
    assert_eq!(world.installed(), "1.0.0\n");
}

#[test]
fn a_folder_with_something_else_is_left_alone() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    world.write("to/thesis.txt", "years of work");
    world.install(&[]).refused(2, "install.not-ours");
    assert_eq!(world.tree("to"), [("thesis.txt".to_owned(), b"years of work".to_vec())]);
    world.write("file", "x");
    world.install(&["--to", "file"]).refused(2, "install.not-ours");
    assert_eq!(world.read("file"), "x");
    let other = |manifest: &mut serde_json::Value| manifest["name"] = json!("other");
    world.run(&["install", "--manifest", "release", "--to", "mine", "--json", "--no-start"]);
    Release::plain("1.0.0", 1).write_changed(&world, "release", other);
    world
        .run(&["install", "--manifest", "release", "--to", "mine", "--json"])
        .refused(2, "install.other-name");
}

#[test]
fn a_layer_that_was_changed_or_is_gone_is_refused() {
    let world = World::new();
    Release::plain("1.0.0", 1).write(&world, "release");
    world.install(&[]).done();
    Release::plain("2.0.0", 2).write(&world, "release");
    let layer = blob(&world, "release", 1);
    let name = layer.strip_prefix(world.path("")).unwrap().to_str().unwrap().to_owned();
    let good = world.tree("release/blobs/sha256");
    let (_, bytes) = good.iter().find(|(file, _)| name.ends_with(file.as_str())).unwrap();
    let mut changed = bytes.clone();
    changed[20] ^= 1;
    world.write(&name, &changed);
    world.install(&[]).refused(1, "layer.changed");
    world.write(&name, &bytes[..bytes.len() - 1]);
    world.install(&[]).refused(1, "layer.changed");
    world.remove(&name);
    world.install(&[]).refused(1, "layer.missing");
    assert_eq!(world.installed(), "1.0.0\n");
}

#[test]
fn a_variant_without_a_start_says_that_it_was_not_started() {
    let world = World::new();
    let mut variant = Variant::cpu("x");
    variant.start = json!(null);
    Release::new("1.0.0", 1, vec![variant.clone()]).write(&world, "release");
    let done = world.install(&[]).done();
    assert_eq!((&done["proof"], &done["program"]), (&json!("not-started"), &json!(world.at("to/current"))));
    variant.start = json!({"program": "bin/tool"});
    Release::new("2.0.0", 2, vec![variant.clone()]).write(&world, "release");
    assert_eq!(world.install(&[]).done()["proof"], "started");
    variant.start = json!({"program": "bin/gone"});
    Release::new("3.0.0", 3, vec![variant]).write(&world, "release");
    world.install(&[]).refused(1, "install.no-program");
    assert_eq!(world.installed(), "x\n");
}
