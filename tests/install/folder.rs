//! Releases from a folder: layout, rollback, configuration, and existing files.

use serde_json::json;

use crate::release::{Release, Variant, blob, key_pair};
use crate::support::{Sandbox, recorded};

#[test]
fn release_is_installed_started_and_rolled_back() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    let done = sandbox.install(&[]).done();
    assert_eq!(done["schema"], json!({"name": "install", "version": 1}));
    assert_eq!(
        (&done["label"], &done["backend"], &done["proof"]),
        (&json!("cpu"), &json!("cpu"), &json!("checked"))
    );
    assert_eq!(done["program"], sandbox.at("to/current/bin/tool"));
    assert_eq!(sandbox.installed(), "1.0.0\n");
    let folder = done["version"].as_str().unwrap();
    assert!(sandbox.read("to/state.json").contains(&format!("{folder}-1-cpu-")));
    assert_eq!(sandbox.install(&[]).done()["outcome"], "unchanged");

    Release::plain("2.0.0", 2).write(&sandbox, "release");
    let done = sandbox.install(&[]).done();
    assert_eq!((&done["outcome"], &done["previous"]["version"]), (&json!("installed"), &json!("1.0.0")));
    assert_eq!(sandbox.installed(), "2.0.0\n");
    let back = sandbox.run(&["install", "--rollback", "--to", "to", "--json"]).done();
    assert_eq!(back["installed"][0]["current"]["version"], "1.0.0");
    assert_eq!(sandbox.installed(), "1.0.0\n");
    sandbox.run(&["install", "--rollback", "--to", "to"]);
    assert_eq!(sandbox.installed(), "2.0.0\n");

    Release::plain("3.0.0", 3).write(&sandbox, "release");
    sandbox.install(&[]).done();
    // Only the previous version is kept, and nothing partial.
    let versions: Vec<String> = sandbox.tree("to/versions").into_iter().map(|(name, _)| name).collect();
    assert!(
        versions.iter().all(|name| name.starts_with("2.0.0-2") || name.starts_with("3.0.0-3")),
        "{versions:?}"
    );
    let listed = sandbox.run(&["install", "--list", "--to", "to", "--json"]).done();
    assert_eq!(listed["installed"][0]["previous"]["version"], "2.0.0");
}

#[test]
fn install_prints_the_program_path_in_the_data_folder() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    let host = recorded("debian-12-bare");
    let ran = sandbox.run(&["install", "--manifest", "release", "--host", &host]);
    let program = sandbox.at("home/.local/share/gpubuild/tool/current/bin/tool");
    assert_eq!((ran.stdout.as_str(), ran.exit), (format!("{program}\n").as_str(), Some(0)), "{ran:#?}");
    ran.says(&["tool 1.0.0 `cpu` is installed for cpu: its check of cpu succeeded"]);
    let quiet = sandbox.run(&["-q", "install", "--manifest", "release", "--host", &host]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), (format!("{program}\n").as_str(), ""));
    assert!(sandbox.run(&["install", "--list"]).stdout.contains(&program));
    assert_eq!(
        sandbox.run(&["install", "--list", "--name", "tool", "--json"]).done()["installed"][0]["name"],
        "tool"
    );
    let data = [("XDG_DATA_HOME", sandbox.at("data"))];
    let data: Vec<(&str, &str)> = data.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let ran = sandbox.run_with(&data, &["install", "--manifest", "release", "--host", &host]);
    assert_eq!(ran.stdout, format!("{}\n", sandbox.at("data/gpubuild/tool/current/bin/tool")));
}

#[test]
fn most_specific_variant_is_installed_and_layers_are_shared() {
    let sandbox = Sandbox::new();
    Release::wide("cuda", "cuda", "vulkan").write(&sandbox, "release");
    let host = recorded("ubuntu-22.04-rtx4090");
    let done = sandbox.install(&["--host", &host]).json();
    assert_eq!(done["error"], json!(null), "{done:#}");
    assert_eq!((&done["label"], &done["proof"]), (&json!("cuda_sm89"), &json!("checked")));
    assert_eq!(sandbox.installed(), "cuda_sm89\n");
    let ran = sandbox.run(&["install", "--manifest", "release", "--to", "to", "--host", &host, "--explain"]);
    assert!(
        ran.stdout.contains("not cuda: `cuda_sm89` matches this machine more closely")
            && ran.stdout.ends_with("bin/tool\n"),
        "{ran:#?}"
    );
}

#[test]
fn preferred_backend_of_the_publisher_is_installed() {
    let prefer = |release: &mut serde_json::Value| {
        release["platforms"]["linux-x86_64"]["prefer"] = json!(["vulkan"]);
    };
    let host = recorded("ubuntu-22.04-rtx4090");
    let sandbox = Sandbox::new();
    Release::wide("cuda", "cuda", "vulkan").write_changed(&sandbox, "release", prefer);
    let done = sandbox.install(&["--host", &host]).json();
    assert_eq!((&done["label"], &done["fallback"]), (&json!("vulkan"), &json!(null)), "{done:#}");
    assert!(done["because"].as_str().unwrap().starts_with("the publisher prefers vulkan to cuda; "));
    assert_eq!(sandbox.installed(), "vulkan\n");
    // A preferred variant whose check fails is a reported fallback to the next backend.
    let sandbox = Sandbox::new();
    Release::wide("cuda", "cuda", "").write_changed(&sandbox, "release", prefer);
    let done = sandbox.install(&["--host", &host]).json();
    assert_eq!(done["label"], "cuda_sm89", "{done:#}");
    assert_eq!(done["fallback"][0]["backend"], "vulkan", "{done:#}");
}

#[test]
fn flags_override_variables_and_configuration() {
    let sandbox = Sandbox::new();
    Release::wide("cuda", "cuda", "vulkan").write(&sandbox, "release");
    let host = recorded("ubuntu-22.04-rtx4090");
    let resolve = |env: &[(&str, &str)], more: &[&str]| {
        let mut arguments = vec!["resolve", "--json", "--manifest", "release"];
        arguments.extend(more);
        sandbox.run_with(env, &arguments).done()
    };
    let install = |more: &[&str]| {
        let arguments =
            [&["install", "--json", "--no-start", "--manifest", "release", "--to", "to"], more].concat();
        sandbox.run(&arguments).done()
    };
    sandbox.write(
        "home/.config/gpubuild/config.toml",
        "variant = \"vulkan\"\n[releases.tool]\nvariant = \"cpu\"\n",
    );
    let found = install(&["--host", &host]);
    assert_eq!(found["error"], json!(null));
    // The user's configuration applies to recorded hosts too.
    assert_eq!(found["label"], "cpu");
    let because = found["because"].as_str().unwrap();
    assert!(
        because.starts_with("`releases.tool.variant` in ") && because.contains("config.toml requests it"),
        "{because}"
    );
    assert!(found["fallback"][0]["reason"].as_str().unwrap().ends_with("[resolve.asked]"), "{found:#}");
    assert_eq!(resolve(&[], &[])["label"], "cpu");
    let found = resolve(&[("GPUBUILD_BACKEND", "cpu"), ("GPUBUILD_VARIANT", "cpu")], &[]);
    assert!(found["because"].as_str().unwrap().starts_with("GPUBUILD_VARIANT requests it"), "{found:#}");
    let found = resolve(&[("GPUBUILD_VARIANT", "vulkan")], &["--variant", "cpu"]);
    assert!(found["because"].as_str().unwrap().starts_with("--variant requests it"), "{found:#}");
    sandbox.write("home/.config/gpubuild/config.toml", "varaint = \"vulkan\"\n");
    sandbox.install(&[]).refused(2, "config.invalid").says(&["varaint", "config.toml"]);
}

#[test]
fn signature_is_verified_with_the_configured_key() {
    let (sandbox, pair, other) = (Sandbox::new(), key_pair(), key_pair());
    Release::plain("1.0.0", 5).write_signed(&sandbox, "release", &pair);
    let key = pair.pk.to_base64();
    sandbox.install(&["--key", &other.pk.to_base64()]).refused(1, "manifest.other-key");
    sandbox.install(&["--key", &key]).done();
    sandbox.write(
        "home/.config/gpubuild/config.toml",
        format!("[releases.tool]\nkey = \"{}\"\n", other.pk.to_base64()),
    );
    sandbox.install(&["--name", "tool"]).refused(1, "manifest.other-key");
    sandbox.install(&["--name", "tool", "--key", &key]).done();
    // A lower serial is rejected after a higher one.
    Release::plain("0.9.0", 4).write_signed(&sandbox, "release", &pair);
    sandbox.install(&["--key", &key]).refused(1, "manifest.older");
    assert_eq!(sandbox.installed(), "1.0.0\n");
}

#[test]
fn foreign_folder_is_not_changed() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    sandbox.write("to/thesis.txt", "years of work");
    sandbox.install(&[]).refused(2, "install.not-ours");
    assert_eq!(sandbox.tree("to"), [("thesis.txt".to_owned(), b"years of work".to_vec())]);
    sandbox.write("file", "x");
    sandbox.install(&["--to", "file"]).refused(2, "install.not-ours");
    assert_eq!(sandbox.read("file"), "x");
    let other = |manifest: &mut serde_json::Value| manifest["name"] = json!("other");
    sandbox.run(&["install", "--manifest", "release", "--to", "mine", "--json", "--no-start"]);
    Release::plain("1.0.0", 1).write_changed(&sandbox, "release", other);
    sandbox
        .run(&["install", "--manifest", "release", "--to", "mine", "--json"])
        .refused(2, "install.other-name");
}

#[test]
fn changed_or_missing_layer_is_rejected() {
    let sandbox = Sandbox::new();
    Release::plain("1.0.0", 1).write(&sandbox, "release");
    sandbox.install(&[]).done();
    Release::plain("2.0.0", 2).write(&sandbox, "release");
    let layer = blob(&sandbox, "release", 1);
    let name = layer.strip_prefix(sandbox.path("")).unwrap().to_str().unwrap().to_owned();
    let good = sandbox.tree("release/blobs/sha256");
    let (_, bytes) = good.iter().find(|(file, _)| name.ends_with(file.as_str())).unwrap();
    let mut changed = bytes.clone();
    changed[20] ^= 1;
    sandbox.write(&name, &changed);
    sandbox.install(&[]).refused(1, "layer.changed");
    sandbox.write(&name, &bytes[..bytes.len() - 1]);
    sandbox.install(&[]).refused(1, "layer.changed");
    sandbox.remove(&name);
    sandbox.install(&[]).refused(1, "layer.missing");
    assert_eq!(sandbox.installed(), "1.0.0\n");
}

#[test]
fn variant_without_a_program_is_reported_as_not_started() {
    let sandbox = Sandbox::new();
    let mut variant = Variant::cpu("x");
    variant.start = json!(null);
    Release::new("1.0.0", 1, vec![variant.clone()]).write(&sandbox, "release");
    let done = sandbox.install(&[]).done();
    assert_eq!((&done["proof"], &done["program"]), (&json!("not-started"), &json!(sandbox.at("to/current"))));
    variant.start = json!({"program": "bin/tool"});
    Release::new("2.0.0", 2, vec![variant.clone()]).write(&sandbox, "release");
    assert_eq!(sandbox.install(&[]).done()["proof"], "started");
    variant.start = json!({"program": "bin/gone"});
    Release::new("3.0.0", 3, vec![variant]).write(&sandbox, "release");
    sandbox.install(&[]).refused(1, "install.no-program");
    assert_eq!(sandbox.installed(), "x\n");
}
