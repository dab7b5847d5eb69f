//! Runs the program in a root with only itself and the C library: no drivers, no `/proc`, no `/dev`, no
//! `/tmp`.

use crate::requirements;
use infer::gk;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The libraries that the program's loader maps, including the loader itself.
fn libraries(program: &Path) -> Option<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    Some(text.lines().filter_map(path).collect())
}

/// A root with the program as `/infer`.
fn root_with(program: &Path, libraries: &[PathBuf]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::copy(program, root.path().join("infer")).unwrap();
    for library in libraries {
        let inside = root.path().join(library.strip_prefix("/").unwrap());
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        fs::copy(library, inside).unwrap();
    }
    root
}

/// Ways to change the root, depending on the user's rights.
const WAYS: [&[&str]; 2] = [&["chroot"], &["unshare", "--user", "--map-root-user", "chroot"]];

fn inside(way: &[&str], root: &Path, args: &[&str]) -> std::io::Result<Output> {
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).arg(root).arg("/infer").args(args);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output()
}

#[test]
fn program_starts_in_an_empty_root() {
    let no_root = |why: &str| requirements::skip("chroot", why);
    let program = Path::new(env!("CARGO_BIN_EXE_infer"));
    let Some(libraries) = libraries(program) else { return no_root("no ldd") };
    let root = root_with(program, &libraries);
    let works =
        |way: &&&[&str]| inside(way, root.path(), &["--version"]).is_ok_and(|output| output.status.success());
    let Some(way) = WAYS.iter().find(works) else { return no_root("no permission to change the root") };

    let output = inside(way, root.path(), &["devices", "--json"]).unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let linked: Vec<&str> = gk::linked().collect();
    for backend in report["backends"].as_array().unwrap() {
        let id = backend["backend"].as_str().unwrap();
        if id == "cpu" && linked.contains(&id) {
            assert!(backend["why"].is_null(), "{backend}");
            continue;
        }
        let why = backend["why"].as_str().unwrap_or_else(|| panic!("no reason: {backend}"));
        let expected = if linked.contains(&id) { "no driver: " } else { "not built into this program" };
        assert!(why.starts_with(expected), "{id}: {why}");
    }
    if !linked.contains(&"cpu") {
        return;
    }
    let run = ["run", "--tokens", "8"];
    let output = inside(way, root.path(), &run).unwrap();
    let outside = Command::new(program).args(run).args(["--backend", "cpu"]).output().unwrap();
    assert!(output.status.success() && !output.stdout.is_empty(), "{output:?}");
    assert_eq!(output.stdout, outside.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    for id in linked.iter().filter(|id| **id != "cpu" && **id != "ref") {
        assert!(said.contains(&format!("skipped {id}: no driver")), "{said}");
        let named = inside(way, root.path(), &["run", "--backend", id]).unwrap();
        let said = String::from_utf8_lossy(&named.stderr).into_owned();
        assert_eq!((named.status.code(), named.stdout.len()), (Some(1), 0), "{said}");
        assert!(said.contains("no driver") && said.contains("hint: these work here: cpu"), "{said}");
    }
}
