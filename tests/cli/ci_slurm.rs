//! The script of `ci matrix --format slurm`, with programs that stand for Slurm's and gpubuild.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "a test starts its own programs and reads their files")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Sandbox, is_on_path, skip};

/// Runs each task at once, in the order of submission. `REFUSE` is the number of the call that fails.
const SBATCH: &str = r#"#!/usr/bin/env bash
set -euo pipefail
number=$(($(cat "$LOGS/number" 2>/dev/null || echo 0) + 1))
echo "$number" > "$LOGS/number"
printf '%s|' "$@" >> "$LOGS/sbatch"
echo >> "$LOGS/sbatch"
if [ "$number" = "${REFUSE:-}" ]; then exit 1; fi
tasks=none
while [[ $1 == --* ]]; do
  case $1 in
    --array=0-*) tasks=$(seq 0 "${1#--array=0-}") ;;
    --chdir=*) chdir=${1#--chdir=} ;;
  esac
  shift
done
cp "$1" "$LOGS/spooled"
shift
for task in $tasks; do
  (cd "$chdir" && SLURM_JOB_ID=$number SLURM_ARRAY_TASK_ID=$task bash "$LOGS/spooled" "$@") >> "$LOGS/output" 2>&1
done
echo "$number;cluster"
"#;

/// Logs its arguments and the name of its folder. A job packs a file; a merge needs every folder.
const GPUBUILD: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "$(basename -- "$PWD")|$*|${GPUBUILD_SIGN_KEY:-no key}" >> "$LOGS/gpubuild"
[ -f gpubuild.toml ] && [ ! -e .gpubuild ]
case $3 in *-on-*) echo "tests $(cat release/row)" >> "$LOGS/gpubuild" ;; esac
if [ "$1" = ci ]; then
  if [[ " $* " == *" --pack "* ]]; then mkdir release && echo "$3" > release/row; fi
else
  out=$3
  shift 3
  mkdir -p "$out"
  while [ $# -gt 0 ]; do cat "$2/row" >> "$out/rows"; shift 2; done
fi
"#;

const SCANCEL: &str = "#!/bin/sh\necho \"$@\" >> \"$LOGS/scancel\"\n";

const VARIANTS: &str = r#"
[[variants]]
name = "cpu"
backends = ["cpu"]
images = ["ubuntu-24.04", "ubuntu-22.04", "windows-2022", "ubuntu-24.04-arm"]
[[variants]]
name = "other.cpu"
backends = ["cpu"]
images = ["ubuntu-24.04"]
"#;

struct Farm {
    sandbox: Sandbox,
}

impl Farm {
    /// A project in a folder whose name has characters of the shell and of tar's patterns.
    fn new(lines: &str) -> Option<Self> {
        if !is_on_path("bash") {
            skip("bash", "no bash");
            return None;
        }
        let sandbox = Sandbox::new();
        let place = "it's a [proj*]/sub $dir";
        let file = "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"cmake\"\n";
        sandbox.write(&format!("{place}/gpubuild.toml"), &format!("{file}{lines}{VARIANTS}"));
        sandbox.write(&format!("{place}/vendor/CMakeLists.txt"), "project(x C)\n");
        sandbox.write(&format!("{place}/.gpubuild/demo/old"), "");
        sandbox.write("it's a [proj*]/.git/HEAD", "ref: refs/heads/main\n");
        sandbox.write("logs/empty", "");
        for (name, text) in [("sbatch", SBATCH), ("gpubuild", GPUBUILD), ("scancel", SCANCEL)] {
            sandbox.write(&format!("bin/{name}"), text);
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(sandbox.path(&format!("bin/{name}")), mode).unwrap();
        }
        Some(Self { sandbox })
    }

    fn script(&self, arguments: &[&str]) -> String {
        let project = self.sandbox.path("it's a [proj*]/sub $dir");
        let all = ["ci", "matrix", "--format", "slurm", "--project", project.to_str().unwrap()];
        let ran = self.sandbox.run(&[&all, arguments].concat());
        ran.succeeds();
        ran.stdout.clone()
    }

    fn submit(&self, script: &str, arguments: &[&str], refuse: &str) -> Output {
        self.sandbox.write("farm script.sh", script);
        let path = std::env::var("PATH").unwrap();
        Command::new("bash")
            .arg(self.sandbox.path("farm script.sh"))
            .args(arguments)
            .current_dir(self.sandbox.path("it's a [proj*]/sub $dir"))
            .env("PATH", format!("{}:{path}", self.sandbox.path("bin").display()))
            .env("LOGS", self.sandbox.path("logs"))
            .env("GPUBUILD_FARM", self.sandbox.path("shared folder/farm"))
            .env("GPUBUILD_SIGN_KEY", "key")
            .env("TMPDIR", self.sandbox.path("logs"))
            .env("REFUSE", refuse)
            .env_remove("GPUBUILD_CACHE")
            .output()
            .unwrap()
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

fn lines_with<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(part)).collect()
}

#[test]
fn slurm_script_runs_every_row_and_merges_what_packs() {
    let Some(farm) = Farm::new("[binary]\npackage = \"app\"\n") else { return };
    let script = farm.script(&["--platform", "linux-x86_64"]);
    let output = farm.submit(&script, &["--partition=build", "--mem=1G"], "");
    let log = farm.sandbox.read("logs/output");
    assert!(output.status.success(), "{output:#?}\n{log}");

    let cache = farm.sandbox.path("shared folder/farm/cache");
    let row = |name: &str, pack: &str| {
        format!("sub $dir|ci run {name} --cache-dir {}{pack}|no key", cache.display())
    };
    let calls = farm.sandbox.read("logs/gpubuild");
    let calls = lines(&calls);
    assert_eq!(calls.len(), 4, "{calls:#?}");
    assert_eq!(
        calls[..3],
        [
            row("cpu-ubuntu-24.04", " --pack"),
            row("cpu-ubuntu-22.04", ""),
            row("other.cpu-ubuntu-24.04", " --pack")
        ]
    );
    assert!(calls[3].starts_with("sub $dir|pack --out ") && calls[3].ends_with("|key"), "{calls:#?}");
    let merged = farm.sandbox.read("shared folder/farm/release/rows");
    assert_eq!(lines(&merged), ["cpu-ubuntu-24.04", "other.cpu-ubuntu-24.04"]);

    let submitted = farm.sandbox.read("logs/sbatch");
    let submitted = lines(&submitted);
    assert_eq!(submitted.len(), 2, "{submitted:#?}");
    for part in [
        "--array=0-2|",
        "--cpus-per-task=4|",
        "--mem=4096M|--time=360|--partition=build|--mem=1G|",
        "|row|0|",
    ] {
        assert!(submitted[0].contains(part), "{part}: {submitted:#?}");
    }
    for part in ["--dependency=afterok:1|", "--kill-on-invalid-dep=yes|", "--partition=build|", "|merge|-|"] {
        assert!(submitted[1].contains(part), "{part}: {submitted:#?}");
    }
    // Neither the copies of the project nor its archive remain.
    let left = |folder: &Path, start: &str| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with(start))
            .count()
    };
    assert_eq!(left(&farm.sandbox.path("logs"), "gpubuild-farm"), 0);
    let runs = walkdir::WalkDir::new(farm.sandbox.path("shared folder/farm"));
    assert!(runs.into_iter().all(|entry| entry.unwrap().file_name() != "source.tar"));
}

#[test]
fn slurm_script_tests_packages_on_images_with_a_gpu() {
    let lines = r#"[binary]
package = "app"
[backends.vulkan]
options = { X = "ON" }
[ci.images.gpu-box]
host = "gpu-box.toml"
[ci.images.big-box]
host = "gpu-box.toml"
sbatch = ["--partition=gpu", "--gres=gpu:it's:2"]
[[variants]]
name = "vulkan"
backends = ["cpu", "vulkan"]
images = ["debian-12", "ubuntu-24.04"]
test_images = ["gpu-box", "big-box"]
"#;
    let Some(farm) = Farm::new(lines) else { return };
    let host = include_str!("../hosts/ubuntu-22.04-rtx4090.toml");
    farm.sandbox.write("it's a [proj*]/sub $dir/gpu-box.toml", host);
    let script = farm.script(&["--platform", "linux-x86_64"]);
    let output = farm.submit(&script, &["--partition=build"], "");
    assert!(output.status.success(), "{output:#?}\n{}", farm.sandbox.read("logs/output"));
    let submitted = farm.sandbox.read("logs/sbatch");
    let submitted = lines_with(&submitted, "|test|");
    assert_eq!(submitted.len(), 2, "{submitted:#?}");
    let after = "--dependency=afterok:1_0|--kill-on-invalid-dep=yes|";
    for (line, own) in submitted
        .iter()
        .zip(["--partition=build|--gres=gpu:1|", "--partition=build|--partition=gpu|--gres=gpu:it's:2|"])
    {
        assert!(line.contains(after) && line.contains(own), "{own}: {line}");
    }
    let calls = farm.sandbox.read("logs/gpubuild");
    for image in ["gpu-box", "big-box"] {
        let call = format!("|ci run vulkan-debian-12-on-{image} --cache-dir ");
        assert_eq!(lines_with(&calls, &call).len(), 1, "{calls}");
    }
    assert_eq!(lines_with(&calls, "tests vulkan-debian-12").len(), 2, "{calls}");
    // The merge is last, and waits for the tests as well.
    let merge = farm.sandbox.read("logs/sbatch");
    let merge = lines_with(&merge, "|merge|");
    assert!(merge[0].contains("--dependency=afterok:1:2:3|") && !merge[0].contains("gres"), "{merge:#?}");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.starts_with("rows: 1\ntests: 2 3\nmerge: 4, "), "{printed}");
}

#[test]
fn slurm_script_of_a_project_without_a_program_has_no_merge() {
    let Some(farm) = Farm::new("") else { return };
    let output = farm.submit(&farm.script(&["--platform", "linux-x86_64"]), &[], "");
    assert!(output.status.success(), "{output:#?}");
    assert_eq!(farm.sandbox.read("logs/number").trim(), "1");
    assert!(!farm.sandbox.read("logs/gpubuild").contains("pack"));
}

#[test]
fn slurm_jobs_are_cancelled_if_a_later_one_is_refused() {
    let Some(farm) = Farm::new("[binary]\npackage = \"app\"\n") else { return };
    let output = farm.submit(&farm.script(&["--platform", "linux-x86_64"]), &[], "2");
    assert!(!output.status.success(), "{output:#?}");
    assert_eq!(farm.sandbox.read("logs/scancel").trim(), "1");
}

#[test]
fn slurm_script_refuses_wrong_folders() {
    let Some(farm) = Farm::new("") else { return };
    let script = farm.script(&["--platform", "linux-x86_64"]);
    let inside = script.replace("GPUBUILD_FARM:-", "PWD:-");
    assert_eq!(farm.submit(&inside, &[], "").status.code(), Some(2));
    farm.sandbox.remove("it's a [proj*]/sub $dir/gpubuild.toml");
    let output = farm.submit(&script, &[], "");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no gpubuild.toml"), "{output:#?}");
    assert!(!farm.sandbox.exists("logs/sbatch"));
}

#[test]
fn slurm_script_has_the_rows_of_one_platform() {
    let Some(farm) = Farm::new("") else { return };
    let script = farm.script(&["--platform", "linux-aarch64"]);
    assert!(script.contains("0) rows=('cpu-ubuntu-24.04-arm') ;;"), "{script}");
    assert!(!script.contains('@') || !script.contains("@names@"), "{script}");
    let project = farm.sandbox.path("it's a [proj*]/sub $dir");
    let project = project.to_str().unwrap();
    let matrix = ["ci", "matrix", "--project", project, "--json", "--platform"];
    let rows = farm.sandbox.run(&[&matrix[..], &["windows-x86_64"]].concat()).json();
    assert_eq!(rows["include"].as_array().unwrap().len(), 1, "{rows:#}");
    let ran = farm.sandbox.run(&[&matrix[..], &["linux-x86"]].concat());
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    assert_eq!(ran.json()["error"]["id"], "ci.no-jobs");
    assert!(ran.json()["error"]["hint"].as_str().unwrap().contains("linux-aarch64"), "{ran:#?}");
}
