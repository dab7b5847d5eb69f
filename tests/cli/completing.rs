//! The completion script for bash, called as bash calls it.
#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "tests start bash")]

use std::path::Path;
use std::process::Command;

use crate::support::{Sandbox, is_on_path, skip};

/// Loads the script, sets what bash sets, calls the function and prints the candidates.
const CALL: &str = r#"
source <(gpubuild completions bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_clap_complete_gpubuild
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// The candidates for a line that bash splits into these words.
fn candidates(line: &str, words: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_gpubuild"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let folder = Sandbox::new();
    let output = Command::new("bash")
        .args(["-c", CALL, "bash", line])
        .args(words)
        .env("PATH", path)
        .env("GPUBUILD_CACHE", folder.path("cache"))
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_words_that_it_splits() {
    if !is_on_path("bash") {
        return skip("bash", "no bash");
    }
    let joined = ["gpubuild", "build", "--backends", "=", "cpu,vu"];
    assert_eq!(candidates("gpubuild build --backends=cpu,vu", &joined), ["cpu,vulkan"]);
    let empty = ["gpubuild", "plan", "--linkage", "="];
    assert_eq!(candidates("gpubuild plan --linkage=", &empty), ["static", "shared", "dynamic"]);
    let separate = ["gpubuild", "build", "--backends", "vu"];
    assert_eq!(candidates("gpubuild build  --backends vu", &separate), ["vulkan"]);
    // readline replaces the `@` too.
    let release = ["gpubuild", "toolkit", "install", "cuda", "@", "13.5"];
    assert_eq!(candidates("gpubuild toolkit install cuda@13.5", &release), ["@13.5"]);
    let manual = ["gpubuild", "man", "ci", "ma"];
    assert_eq!(candidates("gpubuild man ci ma", &manual), ["matrix"]);
}
