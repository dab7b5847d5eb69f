//! `ci matrix --changed-since` and `--changed-first`: which rows git's differences keep or place first, and why.

use serde_json::{Value, json};

use crate::support::{Sandbox, is_on_path, skip};

const PROJECT: &str = r#"schema = 1
[project]
name = "demo"
source = "vendor"
options = { SHARED = "1" }
[backends.vulkan]
options = { X_VULKAN = "ON" }
[ci]
ignore = ["docs/**", "**/*.md"]
inputs = { vulkan = ["vendor/vulkan/**"] }
[[variants]]
name = "cpu"
backends = ["cpu"]
images = ["ubuntu-24.04"]
[[variants]]
name = "vulkan"
backends = ["cpu", "vulkan"]
images = ["ubuntu-24.04"]
"#;

const CPU: &str = "cpu-ubuntu-24.04";
const VULKAN: &str = "vulkan-ubuntu-24.04";

/// A repository whose project is in a folder, with one commit.
fn repository() -> Option<Sandbox> {
    if !is_on_path("git") {
        skip("git", "no git");
        return None;
    }
    let sandbox = Sandbox::new();
    sandbox.write("sub/gpubuild.toml", PROJECT);
    sandbox.write("sub/vendor/CMakeLists.txt", "project(x C)\n");
    sandbox.write("sub/vendor/a.c", "");
    sandbox.write("sub/vendor/vulkan/v.c", "");
    sandbox.write("sub/docs/page.html", "");
    sandbox.write(".gitignore", "cache\nconfig\n");
    sandbox.start(&["git", "init", "-q"]).succeeds();
    commit(&sandbox);
    Some(sandbox)
}

fn commit(sandbox: &Sandbox) {
    sandbox.start(&["git", "add", "-A"]).succeeds();
    let author = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"];
    sandbox.start(&[&["git"][..], &author, &["commit", "-q", "-m", "x"]].concat()).succeeds();
}

fn matrix<'a>(revision: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["ci", "matrix", "--project", "sub", "--changed-since", revision][..], more].concat()
}

/// The reasons of each row, and whether it is kept. The matrix has the rows that are kept.
#[track_caller]
fn decisions(sandbox: &Sandbox, revision: &str) -> Vec<(bool, String)> {
    let ran = sandbox.run(&matrix(revision, &["--json"]));
    ran.succeeds();
    let document = ran.json();
    let rows = document["changes"]["rows"].as_array().unwrap();
    let kept: Vec<&Value> = rows.iter().filter(|row| row["keep"] == true).map(|row| &row["name"]).collect();
    let included: Vec<&Value> =
        document["include"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(kept, included, "{document:#}");
    assert_eq!([&rows[0]["name"], &rows[1]["name"]], [CPU, VULKAN]);
    let reasons = |row: &Value| {
        let list: Vec<&str> = row["reasons"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        (row["keep"] == true, list.join("; "))
    };
    rows.iter().map(reasons).collect()
}

#[test]
fn rows_are_kept_only_if_their_inputs_changed() {
    let Some(sandbox) = repository() else { return };
    let nothing = (false, "nothing changed".to_owned());
    assert_eq!(decisions(&sandbox, "HEAD"), [nothing.clone(), nothing]);

    sandbox.write("sub/docs/page.html", "x");
    sandbox.write("sub/new.md", "x");
    let ignored = (false, "nothing that it reads changed, only `docs/page.html`, `new.md`".to_owned());
    assert_eq!(decisions(&sandbox, "HEAD"), [ignored.clone(), ignored]);

    sandbox.write("sub/vendor/vulkan/v.c", "x");
    let [cpu, vulkan] = decisions(&sandbox, "HEAD").try_into().unwrap();
    assert!(!cpu.0 && cpu.1.contains("`vendor/vulkan/v.c`"), "{cpu:?}");
    assert_eq!(vulkan, (true, "changed: `vendor/vulkan/v.c`".to_owned()));

    // An untracked file, and one outside of the project, which any script may read.
    commit(&sandbox);
    sandbox.write("sub/vendor/new\nline.c", "");
    sandbox.write("other/README.md", "");
    for (keep, reason) in decisions(&sandbox, "HEAD") {
        assert!(keep && reason.contains("`../other/README.md`") && reason.contains("new"), "{reason}");
    }
    assert_eq!(decisions(&sandbox, "HEAD~1").len(), 2);
}

#[test]
fn changes_of_gpubuild_toml_keep_the_rows_that_they_concern() {
    let Some(sandbox) = repository() else { return };
    let changed = |from: &str, to: &str| {
        assert!(PROJECT.contains(from));
        sandbox.write("sub/gpubuild.toml", &PROJECT.replace(from, to));
        decisions(&sandbox, "HEAD")
            .into_iter()
            .map(|(keep, reason)| if keep { reason } else { String::new() })
    };
    let plan = "gpubuild.toml changes its plan";
    for (from, to, expected) in [
        ("X_VULKAN = \"ON\"", "X_VULKAN = \"YES\"", ["", plan]),
        ("SHARED = \"1\"", "SHARED = \"2\"", [plan, plan]),
        ("[ci]", "[limits]\njobs = 1\n[ci]", ["", ""]),
        ("docs/**", "doc/**", ["", ""]),
        ("[ci]", "[pack]\nprefer = [\"vulkan\"]\n[ci]", ["[pack] in gpubuild.toml changed"; 2]),
        ("[ci]", "[ci]\ninstall = \"true\"", ["[ci] in gpubuild.toml changed"; 2]),
    ] {
        assert_eq!(changed(from, to).collect::<Vec<_>>(), expected, "{to}");
    }
    let renamed = PROJECT.replace("name = \"cpu\"", "name = \"base\"");
    sandbox.write("sub/gpubuild.toml", &renamed);
    let ran = sandbox.run(&matrix("HEAD", &[]));
    assert!(ran.stderr.contains("kept base-ubuntu-24.04: the job is new in gpubuild.toml"), "{ran:#?}");
    assert!(ran.stderr.contains("left out vulkan-ubuntu-24.04: nothing changed"), "{ran:#?}");
    assert!(ran.stdout.starts_with("base-ubuntu-24.04 ") && !ran.stdout.contains(VULKAN), "{ran:#?}");
}

#[test]
fn changed_rows_are_first_and_the_others_stay() {
    let Some(sandbox) = repository() else { return };
    let first = |more: &[&str]| {
        let ran =
            sandbox.run(&[&["ci", "matrix", "--project", "sub", "--changed-first", "HEAD"], more].concat());
        ran.succeeds();
        ran
    };
    let names = |document: &Value| -> Vec<String> {
        let rows = document["include"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first(&["--json"]).json()), [CPU, VULKAN], "without a change the order stays");
    sandbox.write("sub/vendor/vulkan/v.c", "x");
    let document = first(&["--json"]).json();
    assert_eq!(names(&document), [VULKAN, CPU]);
    assert_eq!(document["changes"]["unchanged"], "last");
    assert_eq!(
        document["changes"]["rows"][0]["keep"], false,
        "the decisions are in the order of gpubuild.toml"
    );
    let ran = first(&["--format", "github"]);
    assert!(ran.stderr.contains("last cpu-ubuntu-24.04: nothing that it reads changed"), "{ran:#?}");
    assert!(ran.stderr.contains("first vulkan-ubuntu-24.04: changed: `vendor/vulkan/v.c`"), "{ran:#?}");
    assert_eq!(names(&ran.json()), [VULKAN, CPU]);
    // An array job for each, submitted in this order.
    let script = first(&["--format", "slurm", "--platform", "linux-x86_64"]).stdout;
    for line in ["0) rows=('vulkan-ubuntu-24.04') ;;", "1) rows=('cpu-ubuntu-24.04') ;;"] {
        assert!(script.contains(line), "{line}: {script}");
    }
    let both = sandbox.run(&matrix("HEAD", &["--changed-first", "HEAD"]));
    assert_eq!(both.exit, Some(2), "{both:#?}");
}

#[test]
fn rows_are_kept_if_the_old_project_file_is_unusable() {
    let Some(sandbox) = repository() else { return };
    sandbox.write("sub/gpubuild.toml", "schema = [");
    commit(&sandbox);
    sandbox.write("sub/gpubuild.toml", PROJECT);
    for (keep, reason) in decisions(&sandbox, "HEAD") {
        assert!(keep && reason.contains("cannot be read with the sources of today"), "{reason}");
    }
    sandbox.remove("sub/gpubuild.toml");
    commit(&sandbox);
    sandbox.write("sub/gpubuild.toml", PROJECT);
    for (keep, reason) in decisions(&sandbox, "HEAD") {
        assert!(keep && reason.contains("the commit has no gpubuild.toml"), "{reason}");
    }
    // Sources outside of the repository.
    let outside = Sandbox::with_project("cmake");
    let source = outside.path("vendor");
    let project = PROJECT.replace("source = \"vendor\"", &format!("source = {:?}", source.to_str().unwrap()));
    sandbox.write("sub/gpubuild.toml", &project);
    commit(&sandbox);
    for (keep, reason) in decisions(&sandbox, "HEAD") {
        assert!(keep && reason.contains("outside of the repository"), "{reason}");
    }
    // Sources that git ignores.
    sandbox.write(".gitignore", "cache\nconfig\nclone\n");
    sandbox.write("sub/clone/CMakeLists.txt", "project(x C)\n");
    sandbox.write("sub/gpubuild.toml", &PROJECT.replace("\"vendor\"", "\"clone\""));
    commit(&sandbox);
    for (keep, reason) in decisions(&sandbox, "HEAD") {
        assert!(keep && reason.contains("git ignores `"), "{reason}");
    }
}

#[test]
fn unknown_revisions_and_repositories_are_errors() {
    let Some(sandbox) = repository() else { return };
    for revision in ["nope", "HEAD~7", "sub", "--output=x", "-z", "HEAD:sub", "HEAD\n", ""] {
        let revision = format!("--changed-since={revision}");
        let ran = sandbox.run(&["ci", "matrix", "--project", "sub", "--json", &revision]);
        assert_eq!(ran.exit, Some(2), "{revision:?}: {ran:#?}");
        assert_eq!(ran.json()["error"]["id"], "ci.unknown-revision", "{revision:?}");
    }
    assert!(!sandbox.exists("x") && !sandbox.exists("sub/x"));
    sandbox.write("sub/gpubuild.toml", &PROJECT.replace("docs/**", "docs/***"));
    let ran = sandbox.run(&matrix("HEAD", &["--json"]));
    assert_eq!(ran.json()["error"]["id"], "ci.invalid-pattern", "{ran:#?}");
    let ran = sandbox.run_with_only(&[], &matrix("HEAD", &["--json"])).unwrap();
    assert_eq!(ran.json()["error"]["id"], "ci.git-failed", "{ran:#?}");
    let empty = Sandbox::with_project("cmake");
    let ran = empty.run(&["ci", "matrix", "--changed-since", "HEAD", "--json"]);
    assert_eq!((ran.exit, &ran.json()["error"]["id"]), (Some(1), &json!("ci.git-failed")), "{ran:#?}");
}

#[test]
fn github_matrix_without_changes_is_empty() {
    let Some(sandbox) = repository() else { return };
    let ran = sandbox.run(&matrix("HEAD", &["--format", "github"]));
    assert_eq!(ran.stdout, "{\"include\":[]}\n");
    let ran = sandbox.run(&matrix("HEAD", &["--format", "slurm", "--platform", "linux-x86_64"]));
    ran.fails(1, "ci.no-jobs");
}
