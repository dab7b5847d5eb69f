//! Environment variables, arguments and file names.

use crate::check::Form;
use crate::payloads::payloads;
use crate::runs::{Extent, Runs, call, repository};

const VARIABLES: [&str; 22] = [
    "GPUBUILD_BACKENDS",
    "GPUBUILD_SET",
    "GPUBUILD_CACHE",
    "GPUBUILD_STORE",
    "GPUBUILD_LOG",
    "GPUBUILD_SIGN_KEY",
    "GGML_CUDA",
    "CUDAARCHS",
    "CUDA_PATH",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_COMPUTE_CAP",
    "CONDA_PREFIX",
    "CONDA_OVERRIDE_CUDA",
    "HSA_OVERRIDE_GFX_VERSION",
    "ROCM_PATH",
    "VULKAN_SDK",
    "VK_ICD_FILENAMES",
    "LD_LIBRARY_PATH",
    "CC",
    "PATH",
    "HTTPS_PROXY",
];

/// What neither an argument nor a variable may contain.
fn without_nul(payload: &str) -> String {
    payload.replace('\0', "")
}

fn variables(extent: Extent) {
    let calls = [
        call(Form::Text, "detect"),
        call(Form::Text, "detect -v"),
        call(Form::Json, "detect --json"),
        call(Form::Text, "doctor -v --fail-on never"),
        call(Form::Json, "doctor --json --fail-on never"),
        call(Form::Markdown, "doctor --format markdown --fail-on never"),
        call(Form::Github, "doctor --format github --fail-on never"),
        call(Form::Text, "cache list"),
        call(Form::Text, "toolkit list"),
        call(Form::Text, "plan"),
        call(Form::Report, "report --offline --keep-env CC"),
    ];
    let mut runs = Runs::new("environment variables");
    for name in VARIABLES {
        for payload in
            runs.payloads(extent).iter().skip(usize::from(extent == Extent::Quick && runs.turn(2) == 1))
        {
            runs.set(name, &without_nul(payload));
            for call in
                calls.iter().skip(runs.turn(calls.len())).take(if extent == Extent::Full { 3 } else { 1 })
            {
                runs.run(call);
            }
        }
        runs.set(name, "");
    }
    runs.finish(10);
}

/// Command lines that end in an untrusted argument.
const ARGUMENTS: [&str; 26] = [
    "",
    "detect --backends",
    "detect --host",
    "detect --toolkits",
    "doctor --only",
    "doctor --file",
    "doctor --log",
    "doctor --binary",
    "doctor --diff",
    "doctor --output",
    "doctor --format",
    "explain",
    "plan --backends",
    "plan --project",
    "plan --variant",
    "build --project",
    "build --cuda-archs",
    "estimate",
    "new",
    "ci matrix --variant",
    "resolve --manifest",
    "install --to x --unsigned --manifest",
    "toolkit install",
    "toolkit env",
    "report",
    "link --project",
];

fn arguments(extent: Extent) {
    let mut runs = Runs::new("arguments");
    runs.write("gpubuild.toml", "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\n");
    runs.write("vendor/CMakeLists.txt", "project(x C)\n");
    for (index, words) in ARGUMENTS.iter().enumerate() {
        for (turn, payload) in runs.payloads(extent).iter().enumerate() {
            if extent == Extent::Quick && turn != index % 2 {
                continue;
            }
            // `build` prints a stream of documents.
            let form = if words.starts_with("build") { Form::Lines } else { Form::Json };
            let start = if words.is_empty() { call(Form::Text, "detect").cut() } else { call(form, words) };
            let call = start.with(&without_nul(payload));
            // Errors in the arguments are text, also with `--json`.
            runs.run(&if words.is_empty() { call } else { call.with("--json").or_text() });
            if extent == Extent::Full {
                runs.run(&self::call(Form::Text, words).with(&without_nul(payload)));
            }
        }
    }
    runs.finish(0);
}

/// Files and folders with a payload in their name.
fn names(extent: Extent) {
    let mut runs = Runs::new("names of files and folders");
    let host = repository("tests/hosts/ubuntu-22.04-h200.toml");
    let count = if extent == Extent::Full { payloads().len() } else { 4 };
    let step = payloads().len() / count;
    for (index, payload) in payloads().iter().step_by(step).enumerate() {
        let payload: String = without_nul(payload).replace('/', "_").chars().take(60).collect();
        let folder = format!("{index}{payload}");
        runs.write(
            &format!("{folder}/gpubuild.toml"),
            "schema = 1\n[project]\nname = \"demo\"\nsource = \"v\"\n",
        );
        runs.write(&format!("{folder}/v/CMakeLists.txt"), "project(x C)\n");
        runs.write(&format!("{folder}/{payload}.toml"), &host);
        runs.write(
            &format!("{folder}/Dockerfile"),
            "FROM nvidia/cuda:11.3.1-base-ubuntu20.04\nRUN nvidia-smi\n",
        );
        runs.write(
            &format!("{folder}/build.log"),
            "nvcc fatal   : Unsupported gpu architecture 'compute_20'\n",
        );
        runs.run(&call(Form::Text, "plan --project").with(&folder));
        runs.run(&call(Form::Text, "link --project").with(&folder));
        runs.run(&call(Form::Text, "clean --project").with(&folder));
        runs.run(&call(Form::Text, "detect --host").with(&format!("{folder}/{payload}.toml")));
        runs.run(&call(Form::Text, "doctor --file").with(&format!("{folder}/Dockerfile")));
        runs.run(&call(Form::Github, "doctor --format github --file").with(&format!("{folder}/Dockerfile")));
        runs.run(&call(Form::Sarif, "doctor --format sarif --log").with(&format!("{folder}/build.log")));
        runs.run(
            &call(Form::Markdown, "doctor --format markdown --log").with(&format!("{folder}/build.log")),
        );
        runs.run(&call(Form::Text, "host record").with(&format!("{folder}/x{payload}.toml")));
    }
    runs.finish(10);
}

#[test]
fn variables_with_hostile_text() {
    variables(Extent::Quick);
}

#[test]
#[ignore = "takes minutes"]
fn all_variables_with_hostile_text() {
    variables(Extent::Full);
}

#[test]
fn arguments_with_hostile_text() {
    arguments(Extent::Quick);
}

#[test]
#[ignore = "takes minutes"]
fn all_arguments_with_hostile_text() {
    arguments(Extent::Full);
}

#[cfg(unix)]
#[test]
fn names_with_hostile_text() {
    names(Extent::Quick);
}

#[cfg(unix)]
#[test]
#[ignore = "takes minutes"]
fn all_names_with_hostile_text() {
    names(Extent::Full);
}
