//! What the profiles know of real projects: options, renamed options, versions.

use std::collections::BTreeSet;

use gpubuild_plan::project::profile::Profile;

use crate::sources;
use crate::support::ProjectFolder;

/// The options that the CMake scripts below a folder declare.
fn declared(source: &std::path::Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![source.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.file_name().is_some_and(|name| name == "CMakeLists.txt") {
                found.extend(gpubuild_plan::project::profile::declared(
                    &std::fs::read_to_string(path).unwrap(),
                ));
            }
        }
    }
    found
}

/// The profile matches the project: options that it sets exist, and renamed or removed ones do not.
#[test]
fn newest_llama_declares_all_profile_options() {
    if !sources::wanted() {
        return;
    }
    let profile = Profile::builtin("llama").unwrap();
    let known = declared(&sources::llama());
    let gone = ["LLAMA_CURL"];
    for name in profile.options.keys().filter(|name| !gone.contains(&name.as_str())) {
        assert!(known.contains(name), "{name} is not an option of llama.cpp");
    }
    let switches = profile.backends.values().map(|row| &row.option);
    let extra = profile.extra.values().filter(|row| row.removed.is_none()).map(|row| &row.option);
    for name in switches.chain(extra) {
        assert!(known.contains(name), "{name} is not an option of llama.cpp");
    }
    for name in profile.renamed.keys().chain(profile.removed.keys()) {
        assert!(!known.contains(name), "{name} is an option of llama.cpp");
    }
    for new in profile.renamed.values() {
        assert!(known.contains(new), "{new} is not an option of llama.cpp");
    }
}

#[test]
fn plan_uses_the_option_names_of_the_project_version() {
    if !sources::wanted() {
        return;
    }
    let project = ProjectFolder::new(
        "old-names",
        "llama",
        &sources::llama(),
        "options.LLAMA_AVX2 = \"OFF\"\noptions.LLAMA_CUDA_F16 = \"1\"\n",
    );
    let ran = project.gpubuild(&["plan", "--backends", "cpu", "--native"]);
    assert!(ran.ok, "{}", ran.stderr);
    for line in ["GGML_AVX2", "LLAMA_AVX2 is named GGML_AVX2", "LLAMA_CUDA_F16 is ignored"] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    let native = ran.stdout.lines().find(|line| line.contains("GGML_NATIVE ")).unwrap();
    assert!(native.ends_with("= ON"), "{native}");

    // whisper.cpp has an older ggml without OpenVINO; llama.cpp's ggml has it.
    project.describe("whisper", &sources::whisper(), "extra = [\"openvino\"]\n");
    let ran = project.gpubuild(&["plan", "--backends", "cpu"]);
    assert!(!ran.ok && ran.stderr.contains("no option `GGML_OPENVINO`"), "{}", ran.stderr);
    project.describe("llama", &sources::llama(), "extra = [\"openvino\", \"kompute\", \"rcp\"]\n");
    let ran = project.gpubuild(&["plan", "--backends", "cpu"]);
    for line in [
        "none of OpenVINO_DIR, INTEL_OPENVINO_DIR is set",
        "no longer has the backend `kompute`",
        "did you mean `rpc`?",
    ] {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
}

/// CMake reports unknown options of the user; unknown options that only the profile sets are fine.
#[test]
fn unknown_option_suggests_the_nearest_one() {
    if !sources::wanted() {
        return;
    }
    let project =
        ProjectFolder::new("wrong-option", "whisper", &sources::whisper(), "options.GGML_OPENPM = \"OFF\"\n");
    let ran = project.gpubuild(&["build", "--backends", "cpu", "--no-binary"]);
    assert!(!ran.ok, "{}", ran.stdout);
    for line in ["does not know `GGML_OPENPM`", "`GGML_OPENMP` for `GGML_OPENPM`", "project.option-unused"] {
        assert!(ran.stderr.contains(line), "{line}: {}", ran.stderr);
    }
}
