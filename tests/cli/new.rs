//! `gpubuild new`: which files it writes and what it rejects. tests/new builds and runs the created projects.

use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox};

const IDS: [&str; 5] = ["own-kernels", "llama", "whisper", "cpp-library", "xtask"];

/// All files except gpubuild's own.
fn files(sandbox: &Sandbox) -> Vec<String> {
    let root = sandbox.path("");
    let paths = sandbox.files_outside("cache").into_iter().filter(|path| path.is_file());
    paths.map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/")).collect()
}

#[track_caller]
fn document(ran: &RunResult, name: &str) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let document = ran.json();
    assert_eq!(document["schema"], json!({"name": name, "version": 1}));
    document
}

#[test]
fn templates_are_listed() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["new", "--list"]);
    for id in IDS {
        assert!(ran.succeeds().stdout.lines().any(|line| line.starts_with(id)), "{id} in {}", ran.stdout);
    }
    let listed = document(&sandbox.run(&["new", "--list", "--json"]), "templates");
    let listed = listed["templates"].as_array().unwrap();
    assert_eq!(listed.iter().map(|one| one["id"].as_str().unwrap()).collect::<Vec<_>>(), IDS);
    assert_eq!(listed[0]["commands"][0]["run"], "cargo run");
    assert_eq!(listed[0]["backends"], json!(["cpu", "cuda", "vulkan"]));
    assert_eq!(listed[4]["into_workspace"], true);
    assert_eq!(files(&sandbox), [""; 0]);
}

#[test]
fn missing_or_unknown_template_lists_all_templates() {
    let sandbox = Sandbox::new();
    sandbox.run(&["new", "demo"]).fails(2, "new.template").says(&IDS).says(&["--template own-kernels"]);
    let ran = sandbox.run(&["new", "demo", "--template", "lama"]);
    ran.fails(2, "new.template").says(&IDS).says(&["did you mean `llama`?"]);
    sandbox.run(&["new", "--template", "llama"]).fails(2, "new.path");
    let ran = sandbox.run(&["new", "demo", "--template", "lama", "--json"]);
    assert_eq!((ran.json()["error"]["id"].as_str(), ran.exit), (Some("new.template"), Some(2)));
    assert_eq!(files(&sandbox), [""; 0]);
}

#[test]
fn new_writes_a_project_and_prints_next_steps() {
    let sandbox = Sandbox::new();
    let ran = sandbox.run(&["new", "my demo/deep", "--template", "cpp-library", "--name", "two-words"]);
    ran.succeeds().says(&["  cd 'my demo/deep'\n  cargo run", "  cargo test"]);
    assert_eq!(ran.stdout, "");
    let found = files(&sandbox);
    for name in [".gitignore", "Cargo.toml", "README.md", "build.rs", "native/include/two_words.hpp"] {
        assert!(found.contains(&format!("my demo/deep/{name}")), "{name} in {found:?}");
    }
    let cargo = sandbox.read("my demo/deep/Cargo.toml");
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    let dependency = format!("gpubuild-build = \"{version}\"\n");
    assert!(cargo.contains("name = \"two-words\"\n") && cargo.ends_with(&dependency), "{cargo}");
}

#[test]
fn json_lists_every_file_and_dry_run_writes_none() {
    let sandbox = Sandbox::new();
    let arguments = ["new", "demo", "--template", "own-kernels", "--json"];
    let planned = document(&sandbox.run(&[&arguments[..], &["--dry-run"]].concat()), "new");
    assert_eq!(planned["written"], false);
    assert_eq!(files(&sandbox), [""; 0]);
    let text = sandbox.run(&["new", "demo", "--template", "own-kernels", "--dry-run"]).stdout;
    let made = document(&sandbox.run(&arguments), "new");
    assert_eq!(
        (&made["template"], &made["name"], &made["written"]),
        (&json!("own-kernels"), &json!("demo"), &json!(true))
    );
    assert_eq!(made["commands"][1]["run"], "cargo test");
    let named = made["files"].as_array().unwrap();
    assert_eq!(named.len(), files(&sandbox).len());
    assert_eq!(text.lines().count(), named.len());
    for file in named {
        let path = file["path"].as_str().unwrap();
        assert!(std::path::Path::new(path).is_file() && text.contains(path), "{path}");
        assert_eq!(file["state"], "new");
    }
}

#[test]
fn invalid_crate_names_are_rejected() {
    let sandbox = Sandbox::new();
    for name in ["test", "fn", "9lives", "größe", "con", "gpubuild"] {
        let ran = sandbox.run(&["new", name, "--template", "own-kernels"]);
        ran.fails(2, "new.name").says(&[&format!("`{name}`"), "--name NAME"]);
    }
    sandbox.run(&["new", "fn", "--template", "own-kernels", "--name", "two words"]).fails(2, "new.name");
    assert_eq!(files(&sandbox), [""; 0]);
    // The folder may have any name.
    sandbox.run(&["new", "fn", "--template", "own-kernels", "--name", "good"]).succeeds();
}

#[test]
fn backends_must_be_supported_by_the_template() {
    let sandbox = Sandbox::new();
    let make = |folder: &str, list: &str| {
        sandbox.run(&["new", folder, "--template", "own-kernels", "--backends", list])
    };
    make("a", "cpu,metal").fails(2, "new.backend").says(&["supported: cpu, cuda, vulkan"]);
    make("a", "cpu,vulcan").fails(2, "backend.unknown").says(&["vulkan"]);
    assert_eq!(files(&sandbox), [""; 0]);
    make("a", "vulkan,cpu").succeeds();
    assert!(sandbox.read("a/gpubuild.toml").contains("backends = [\"cpu\", \"vulkan\"]\n"));
    make("b", "all").succeeds();
    assert!(sandbox.read("b/gpubuild.toml").contains("backends = [\"cpu\", \"cuda\", \"vulkan\"]\n"));
    make("c", "auto").succeeds();
    assert!(sandbox.read("c/gpubuild.toml").contains("backends = \"auto\"\n"));
}

#[test]
fn existing_files_are_never_replaced() {
    let sandbox = Sandbox::new();
    sandbox.write("demo/Cargo.toml", "mine\n");
    sandbox.write("demo/src/main.rs", "mine\n");
    sandbox.write("demo/NOTES.md", "mine\n");
    let ran = sandbox.run(&["new", "demo", "--template", "own-kernels"]);
    ran.fails(2, "new.exists").says(&["demo/Cargo.toml`", "demo/src/main.rs`", "nothing was written"]);
    assert!(!ran.stderr.contains("NOTES.md"), "{ran:#?}");
    assert_eq!(files(&sandbox), ["demo/Cargo.toml", "demo/NOTES.md", "demo/src/main.rs"]);
    // Files with other names do not conflict.
    sandbox.remove("demo/Cargo.toml");
    sandbox.remove("demo/src/main.rs");
    sandbox.run(&["new", "demo", "--template", "own-kernels"]).succeeds();
    assert_eq!(sandbox.read("demo/NOTES.md"), "mine\n");
    // A second call fails too.
    let before = files(&sandbox);
    sandbox.run(&["new", "demo", "--template", "own-kernels"]).fails(2, "new.exists");
    assert_eq!(files(&sandbox), before);
    // A file at the path of a folder.
    sandbox.write("other/src", "a file\n");
    sandbox.run(&["new", "other", "--template", "llama"]).fails(2, "new.exists").says(&["other/src`"]);
    sandbox.run(&["new", "other/src/deep", "--template", "llama"]).fails(2, "new.exists");
    assert_eq!(sandbox.read("other/src"), "a file\n");
}

#[cfg(unix)]
#[test]
fn links_inside_the_project_are_not_followed() {
    use std::os::unix::fs::symlink;

    let sandbox = Sandbox::new();
    sandbox.write("ws/Cargo.toml", "[workspace]\nmembers = []\n");
    sandbox.write("elsewhere/notes", "mine\n");
    for (link, folder, template) in [
        ("demo/src", "demo", "own-kernels"),
        ("demo/kernels", "demo", "own-kernels"),
        ("ws/xtask", "ws", "xtask"),
        ("ws/.cargo", "ws", "xtask"),
    ] {
        sandbox.write(&format!("{folder}/notes"), "mine\n");
        symlink(sandbox.path("elsewhere"), sandbox.path(link)).unwrap();
        let before = files(&sandbox);
        let ran = sandbox.run(&["new", folder, "--template", template, "--offline"]);
        ran.fails(2, "new.link").says(&[&format!("{link}` is a symbolic link")]);
        assert_eq!(files(&sandbox), before, "{link}");
        sandbox.remove(link);
    }
}

/// A dangling symlink looks like a missing file until something is written below it.
#[cfg(unix)]
#[test]
fn failed_new_removes_what_it_wrote() {
    let sandbox = Sandbox::new();
    sandbox.write("ws/Cargo.toml", "[workspace] # mine\nmembers = []\n");
    sandbox.write("ws/native.txt", "mine\n");
    std::os::unix::fs::symlink("nowhere", sandbox.path("ws/src")).unwrap();
    let before = files(&sandbox);
    let ran = sandbox.run(&["new", "ws", "--template", "own-kernels", "--name", "inner"]);
    ran.fails(2, "new.exists");
    std::os::unix::fs::symlink("nowhere", sandbox.path("ws/xtask")).unwrap();
    let ran = sandbox.run(&["new", "ws", "--template", "xtask"]);
    ran.fails(1, "file.failed").says(&["all changes were undone"]);
    assert_eq!(files(&sandbox), before);
    assert!(!sandbox.exists("ws/kernels") && !sandbox.exists("ws/.cargo"));
    assert_eq!(sandbox.read("ws/Cargo.toml"), "[workspace] # mine\nmembers = []\n");
}

#[test]
fn only_one_of_several_simultaneous_calls_creates_the_project() {
    let sandbox = Sandbox::new();
    let templates = ["cpp-library", "own-kernels"];
    let start = |number: usize| {
        let mut command = sandbox.command();
        command.args(["new", "deep/demo", "--offline", "--template", templates[number % 2]]);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..6).map(start).collect();
    let ran: Vec<RunResult> =
        children.into_iter().map(|child| RunResult::from(child.wait_with_output().unwrap())).collect();
    assert_eq!(ran.iter().filter(|ran| ran.is_success()).count(), 1, "{ran:#?}");
    for ran in ran.iter().filter(|ran| !ran.is_success()) {
        ran.fails(2, "new.exists");
    }
}

const WORKSPACE: &str = "\
# Our workspace.
[workspace] # virtual
resolver = \"3\"
members = [
    # the program
    \"app\", # first
    \"crates/*\",
]

[workspace.package]   # as we like it
edition=\"2024\"
";

#[test]
fn workspace_keeps_comments_and_gains_members() {
    let sandbox = Sandbox::new();
    sandbox.write("Cargo.toml", WORKSPACE);
    sandbox.write(".cargo/config.toml", "# ours\n[alias]\nt = \"test\" # often\n\n[build]\njobs = 2\n");
    sandbox.write(".gitignore", "/target\n*.log\n");
    let ran = sandbox.run(&["new", "--template", "xtask", "--json"]);
    let made = document(&ran, "new");
    let members = "    \"crates/*\",\n    \"kernels\",\n    \"xtask\",\n]";
    assert_eq!(sandbox.read("Cargo.toml"), WORKSPACE.replace("    \"crates/*\",\n]", members));
    assert_eq!(
        sandbox.read(".cargo/config.toml"),
        "# ours\n[alias]\nt = \"test\" # often\nxtask = \"run --quiet --package xtask --\"\n\n[build]\njobs = 2\n"
    );
    assert_eq!(sandbox.read(".gitignore"), "/target\n*.log\n");
    let changed: Vec<&Value> =
        made["files"].as_array().unwrap().iter().filter(|file| file["state"] == "changed").collect();
    assert_eq!(changed.len(), 2, "{made:#}");
    assert_eq!(changed[0]["what"], "members kernels, xtask");
    assert!(sandbox.exists("xtask/src/main.rs") && sandbox.exists("gpubuild.toml"));

    // A second call finds everything in place.
    let before = files(&sandbox);
    sandbox
        .run(&["new", "--template", "xtask"])
        .fails(2, "new.workspace")
        .says(&["already defines the alias `xtask`"]);
    assert_eq!(files(&sandbox), before);
}

#[test]
fn non_workspace_is_rejected_with_a_hint() {
    let sandbox = Sandbox::new();
    let make = |folder: &str| sandbox.run(&["new", folder, "--template", "xtask"]);
    make(".").fails(2, "new.workspace").says(&["does not exist", "create the workspace first"]);
    sandbox.write("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\n");
    make(".").fails(2, "new.workspace").says(&["has no `[workspace]`", "add a line `[workspace]`"]);
    sandbox.write("Cargo.toml", "[workspace]\nexclude = [\"xtask\"]\n");
    make(".").fails(2, "new.workspace").says(&["excludes `xtask`"]);
    make("inner").fails(2, "new.workspace").says(&["specify the folder of the workspace: "]);
    sandbox.write("Cargo.toml", "[workspace\n");
    make(".").fails(2, "new.workspace").says(&["line 1"]);
    assert_eq!(files(&sandbox), ["Cargo.toml"]);
}

#[test]
fn project_inside_a_workspace_becomes_a_member() {
    let sandbox = Sandbox::new();
    let workspace = "[workspace]\nmembers = [\"app\"] # all\nexclude = [\"out\"]\n";
    sandbox.write("Cargo.toml", workspace);
    let make = |folder: &str| sandbox.run(&["new", folder, "--template", "cpp-library"]);
    make("out/free").succeeds();
    assert_eq!(sandbox.read("Cargo.toml"), workspace);
    make("crates/demo").succeeds().says(&["member crates/demo"]);
    assert_eq!(sandbox.read("Cargo.toml"), workspace.replace("\"app\"", "\"app\", \"crates/demo\""));
}

#[test]
fn local_checkout_replaces_the_published_crate() {
    let sandbox = Sandbox::new();
    let make = |folder: &str, checkout: &str| {
        sandbox.run(&["new", folder, "--template", "llama", "--offline", "--gpubuild-path", checkout])
    };
    make("a", "nowhere").fails(2, "new.gpubuild-path");
    sandbox.write("other/Cargo.toml", "[package]\nname = \"other\"\n");
    make("a", "other").fails(2, "new.gpubuild-path").says(&["another package"]);
    assert_eq!(files(&sandbox), ["other/Cargo.toml"]);
    make("a", env!("CARGO_MANIFEST_DIR")).succeeds();
    let cargo: toml::Table = sandbox.read("a/Cargo.toml").parse().unwrap();
    let ours = &cargo["build-dependencies"]["gpubuild-build"];
    let path = ours["path"].as_str().unwrap();
    assert!(std::path::Path::new(path).join("src/lib.rs").is_file(), "{path}");
}
