//! Files that are given on the command line.

use serde_json::Value;

use crate::check::Form;
use crate::documents::{Spot, in_line, plant, spots};
use crate::runs::{Call, Extent, Runs, call, repository, toml_file};

/// The calls that examine something, with each format of the report.
fn reports(words: &str) -> Vec<Call> {
    let doctor =
        |form, format: &str| call(form, &format!("doctor {words} --fail-on never --format {format}"));
    vec![
        doctor(Form::Text, "text"),
        doctor(Form::Text, "text -v --color always").without_styles(),
        doctor(Form::Json, "json"),
        doctor(Form::Markdown, "markdown"),
        doctor(Form::Github, "github").writes("summary.md", Form::Markdown),
        doctor(Form::Sarif, "sarif"),
        doctor(Form::Junit, "junit"),
        call(
            Form::Text,
            &format!(
                "doctor {words} --output a.txt --output a.json --output a.md --output a.sarif --output a.xml"
            ),
        )
        .writes("a.txt", Form::Text)
        .writes("a.json", Form::Json)
        .writes("a.md", Form::Markdown)
        .writes("a.sarif", Form::Sarif)
        .writes("a.xml", Form::Junit),
    ]
}

fn write_toml(runs: &Runs, name: &str, document: &Value) {
    runs.write(name, &toml::to_string(document).unwrap());
}

fn recorded_hosts(extent: Extent) {
    let mut calls = reports("--host host.toml");
    calls.extend([
        call(Form::Text, "detect --host host.toml"),
        call(Form::Text, "detect --host host.toml -v --color always").without_styles(),
        call(Form::Json, "detect --host host.toml --json"),
        call(Form::Report, "report --host host.toml"),
        call(Form::Text, "report --host host.toml a.html --html").writes("a.html", Form::Html),
        call(Form::Text, "doctor --host host.toml --resolvers"),
        call(Form::Text, "doctor --host host.toml --packages"),
        call(Form::Text, "plan --host host.toml"),
        call(Form::Json, "plan --host host.toml --json"),
        call(Form::Text, "resolve --manifest release --host host.toml --explain"),
        call(Form::Text, "resolve --python --host host.toml"),
        call(Form::Text, "setup --host host.toml --dry-run"),
        call(Form::Text, "estimate 8B --host host.toml"),
    ]);
    let mut runs = Runs::new("recorded hosts");
    runs.set("GITHUB_STEP_SUMMARY", &runs.path("summary.md").display().to_string());
    runs.write("release/manifest.json", &repository("tests/release/manifest.json"));
    runs.write("gpubuild.toml", PROJECT);
    runs.write("vendor/CMakeLists.txt", "cmake_minimum_required(VERSION 3.24)\nproject(x C)\n");
    let hosts = [
        "ubuntu-24.04-nouveau",
        "windows-11-rtx4070",
        "debian-12-own-cuda",
        "ubuntu-22.04-mi300x",
        "macos-15-m3",
    ];
    for host in hosts {
        let document = toml_file(&format!("tests/hosts/{host}.toml"));
        runs.plant(extent, &spots(&document), &calls, &|runs, spot, payload| {
            write_toml(runs, "host.toml", &plant(&document, spot, payload));
        });
    }
    runs.finish(10);
}

/// A project with every table and most keys.
const PROJECT: &str = r#"schema = 1
[project]
name = "demo"
source = "vendor"
profile = "cmake"
backends = ["cpu"]
headers = ["a.h"]
targets = ["demo"]
options = { DEMO = "ON" }
patches = [{ file = "a.diff", optional = true }]
[audit]
allow = ["audit.rpath.*"]
cpu = "haswell"
glibc = "2.28"
max_size = "200MiB"
[backends.cpu]
options = { DEMO_CPU = "ON" }
[backends.cuda]
archs = ["90"]
toolkit = ">=12"
[binary]
package = "demo"
bench = ["bench"]
[cache]
launcher = "none"
remote = "redis://build-cache:6379"
[ci]
command = "gpubuild"
ignore = ["docs/**"]
install = "cargo install gpubuild"
[pack]
check = ["check", "{backend}"]
default = "cpu"
include = ["models/*.gguf"]
[[variants]]
name = "cpu"
backends = ["cpu"]
images = ["debian-12"]
"#;

fn project_files(extent: Extent) {
    let calls = [
        call(Form::Text, "plan --host host.toml"),
        call(Form::Json, "plan --host host.toml --json"),
        call(Form::Text, "plan --host host.toml -v"),
        call(Form::Text, "ci matrix"),
        call(Form::Json, "ci matrix --format github"),
        call(Form::Text, "ci matrix --format gitlab"),
        call(Form::Text, "ci matrix --format slurm --platform linux-x86_64"),
        call(Form::Text, "ci matrix --format kubernetes --platform linux-x86_64"),
        call(Form::Text, "ci preflight"),
        call(Form::Text, "ci run cpu-debian-12 --dry-run"),
        call(Form::Text, "ci verify"),
        call(Form::Text, "build --dry-run"),
        call(Form::Lines, "build --message-format json"),
        call(Form::Text, "link"),
        call(Form::Json, "audit --json"),
        call(Form::Text, "pack --out release"),
        call(Form::Text, "run"),
        call(Form::Text, "bench"),
        call(Form::Text, "clean"),
    ];
    let mut runs = Runs::new("gpubuild.toml");
    runs.write("vendor/CMakeLists.txt", "cmake_minimum_required(VERSION 3.24)\nproject(demo C)\n");
    runs.write("host.toml", &repository("tests/hosts/ubuntu-22.04-rtx4090.toml"));
    let document: Value = toml::from_str(PROJECT).unwrap();
    runs.plant(extent, &spots(&document), &calls, &|runs, spot, payload| {
        write_toml(runs, "gpubuild.toml", &plant(&document, spot, payload));
    });
    runs.finish(1);
}

fn releases(extent: Extent) {
    let mut runs = Runs::new("manifests of releases");
    let host = "tests/hosts/ubuntu-22.04-h200.toml";
    runs.write("host.toml", &repository(host));
    let calls = [
        call(Form::Text, "resolve --manifest release --host host.toml --explain"),
        call(Form::Json, "resolve --manifest release --host host.toml --json"),
        call(Form::Text, "resolve --manifest release --explain"),
        call(Form::Text, "resolve --manifest release --strict --backend cuda"),
        call(Form::Text, "install --manifest release --unsigned --no-start --to installed"),
        call(Form::Json, "install --manifest release --unsigned --no-start --to installed --json"),
    ];
    let document: Value = serde_json::from_str(&repository("tests/release/manifest.json")).unwrap();
    let is_relevant = |spot: &Spot| !matches!(spot, Spot::Value(path) | Spot::End(path) if path.contains("/layers/") && path.len() % 7 != 0);
    let spots: Vec<Spot> = spots(&document).into_iter().filter(is_relevant).collect();
    runs.plant(extent, &spots, &calls, &|runs, spot, payload| {
        runs.write("release/manifest.json", &plant(&document, spot, payload).to_string());
    });
    runs.finish(1);
}

fn toolkit_descriptions(extent: Extent) {
    let mut runs = Runs::new("toolkit descriptions");
    runs.write("host.toml", &repository("tests/hosts/ubuntu-22.04-h200.toml"));
    let calls = [
        call(Form::Text, "detect --host host.toml --toolkits descriptions"),
        call(Form::Text, "detect --host host.toml --toolkits descriptions -v"),
        call(Form::Json, "doctor --host host.toml --toolkits descriptions --json"),
        call(Form::Text, "doctor --host host.toml --toolkits descriptions -v"),
        call(Form::Text, "explain cuda --toolkits descriptions"),
    ];
    let document = toml_file("toolkits/ccache.toml");
    let cuda = toml_file("toolkits/cuda.toml");
    for document in [document, cuda] {
        runs.plant(extent, &spots(&document), &calls, &|runs, spot, payload| {
            write_toml(runs, "descriptions/a.toml", &plant(&document, spot, payload));
        });
    }
    runs.finish(1);
}

fn container_and_ci_files(extent: Extent) {
    let mut runs = Runs::new("files of `doctor --file`");
    runs.set("GITHUB_STEP_SUMMARY", &runs.path("summary.md").display().to_string());
    let names = [
        "healthy/llama.Dockerfile",
        "healthy/compose.yaml",
        "healthy/.github/workflows/cuda.yml",
        "healthy/.gitlab/jobs.yml",
        "healthy/.devcontainer/devcontainer.json",
        "healthy/deployment.yaml",
        "healthy/both-headings.sh",
        "faulty/cuda.arch.dropped-by-toolkit/CMakeLists.txt",
        "faulty/cuda.arch.too-new-for-toolkit/Dockerfile",
        "faulty/file.action-unpinned/.github/workflows/branch.yml",
        "faulty/ctr.caps-graphics/compose.yaml",
        "faulty/file.gpu-at-build/smi.Dockerfile",
        "faulty/file.smi-text/.gitlab-ci.yml",
    ];
    for name in names.iter().step_by(if extent == Extent::Full { 1 } else { 3 }) {
        let text = repository(&format!("tests/files/{name}"));
        let file = name.split_once('/').unwrap().1;
        let calls = reports(&format!("--file {file}"));
        let spots: Vec<(usize, usize)> =
            (0..text.lines().count()).flat_map(|line| [0, 1, 2].map(|kind| (line, kind))).collect();
        runs.plant(extent, &spots, &calls, &|runs, (line, kind), payload| {
            runs.write(file, &in_line(&text, *line, payload)[*kind]);
        });
    }
    runs.finish(5);
}

fn logs(extent: Extent) {
    let mut runs = Runs::new("files of `doctor --log`");
    runs.set("GITHUB_STEP_SUMMARY", &runs.path("summary.md").display().to_string());
    let calls = reports("--log build.log");
    for name in ["cmake", "cuda", "rocm", "link", "runtime", "toolchain"] {
        let signatures = toml_file(&format!("findings/logs/{name}.toml"));
        let step = if extent == Extent::Full { 1 } else { 9 };
        for signature in signatures["signature"].as_array().unwrap().iter().step_by(step) {
            let Some(sample) = signature["sample"].as_str() else { continue };
            let lines = sample.lines().count();
            let spots: Vec<(usize, usize)> =
                (0..lines).flat_map(|line| [0, 1, 2].map(|kind| (line, kind))).collect();
            let spots = if extent == Extent::Full { &spots[..] } else { &spots[spots.len() / 2..][..1] };
            runs.plant(extent, spots, &calls, &|runs, (line, kind), payload| {
                runs.write("build.log", &in_line(sample, *line, payload)[*kind]);
            });
        }
    }
    runs.finish(10);
}

macro_rules! quick_and_full {
    ($($name:ident: $quick:ident, $full:ident;)*) => {$(
        #[test]
        fn $quick() {
            $name(Extent::Quick);
        }

        #[test]
        #[ignore = "takes minutes"]
        fn $full() {
            $name(Extent::Full);
        }
    )*};
}

quick_and_full! {
    recorded_hosts: recorded_host_with_hostile_text, all_recorded_hosts_with_hostile_text;
    project_files: project_file_with_hostile_text, all_project_files_with_hostile_text;
    releases: release_with_hostile_text, all_releases_with_hostile_text;
    toolkit_descriptions: description_with_hostile_text, all_descriptions_with_hostile_text;
    container_and_ci_files: file_with_hostile_text, all_files_with_hostile_text;
    logs: log_with_hostile_text, all_logs_with_hostile_text;
}
