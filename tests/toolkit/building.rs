//! Builds that install missing toolkits.

use std::fs;

use crate::sandbox::{RunResult, Sandbox, on_path, skip};

/// A project whose CUDA part is C, since these wheels have no real compiler, with its own lock.
pub(crate) fn project() -> Option<Sandbox> {
    let sandbox = Sandbox::new()?;
    if let Some(missing) = ["cmake", "ninja", "cc"].iter().find(|name| on_path(name).is_none()) {
        skip("cmake", &format!("no {missing}"));
        return None;
    }
    fs::create_dir_all(sandbox.path("gpubuild.lock.d")).unwrap();
    fs::create_dir_all(sandbox.path("src")).unwrap();
    fs::rename(sandbox.path("lock.toml"), sandbox.path("gpubuild.lock.d/cuda-13.0.toml")).unwrap();
    sandbox.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"demo\"\nsource = \"src\"\nprofile = \"cmake\"\ntargets = [\"adder-cuda\"]\n\
         [backends.cuda]\ntoolkit = \"13.0\"\narchs = [\"90-real\"]\noptions = { WITH_CUDA = \"ON\" }\n",
    );
    sandbox.write(
        "src/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.20)\nproject(demo C)\noption(WITH_CUDA \"\" OFF)\n\
         foreach(entry CMAKE_CUDA_COMPILER CMAKE_CUDA_HOST_COMPILER CMAKE_CUDA_ARCHITECTURES CUDAToolkit_ROOT)\n\
         if(NOT ${entry})\nmessage(FATAL_ERROR \"no ${entry}\")\nendif()\nendforeach()\n\
         add_library(adder-cuda STATIC adder.c)\n",
    );
    sandbox.write("src/adder.c", "int add(int a, int b) { return a + b; }\n");
    Some(sandbox)
}

fn plan(sandbox: &Sandbox) -> serde_json::Value {
    let ran = sandbox.run(&["plan", "--json", "--backends", "cuda", "--provision"]);
    ran.succeeds().json()
}

const BUILD: [&str; 3] = ["build", "--backends", "cuda"];
const ON_THE_WAY: [&str; 4] = ["--provision", "--find-links", "wheels", "--offline"];

fn build(sandbox: &Sandbox, more: &[&str]) -> RunResult {
    sandbox.run(&[&BUILD, more].concat())
}

#[test]
fn build_provisions_a_missing_toolkit() {
    let Some(sandbox) = project() else { return };
    build(&sandbox, &[])
        .fails(2, "plan.refused")
        .says(&["[cuda.toolkit.missing]", "gpubuild toolkit install cuda"]);
    assert!(!sandbox.exists("cache/toolkits"), "the toolkit was not requested");

    let planned = plan(&sandbox);
    assert_eq!(planned["provision"][0]["version"], "13.0.3");
    assert_eq!(planned["provision"][0]["root"], sandbox.prefix("").to_str().unwrap().trim_end_matches('/'));
    let dry = build(&sandbox, &[&ON_THE_WAY[..], &["--dry-run"]].concat());
    assert!(dry.succeeds().stdout.contains("install     cuda 13.0.3"), "{dry:#?}");
    assert!(!sandbox.exists("cache/toolkits"), "a dry run installs nothing");

    let built = build(&sandbox, &ON_THE_WAY);
    built.succeeds().says(&["installing cuda 13.0.3 into", "to download", "built"]);
    assert!(
        !built.stderr.contains("with the installed toolkit"),
        "the build differs from the plan: {built:#?}"
    );
    assert!(sandbox.prefix("bin/nvcc").is_file());
    let now = plan(&sandbox);
    assert!(now.get("provision").is_none(), "{now:#}");
    assert_eq!(now["trees"][0]["cache"], planned["trees"][0]["cache"], "the same flags before and after");

    // Once the toolkit is installed, neither the flag nor the wheels are needed.
    fs::remove_dir_all(sandbox.path("wheels")).unwrap();
    build(&sandbox, &[]).succeeds().says(&["up to date"]);
    build(&sandbox, &["--provision", "--offline"]).succeeds().says(&["up to date"]);
}

#[test]
fn failed_provisioning_stops_the_build_before_compiling() {
    let Some(sandbox) = project() else { return };
    fs::create_dir_all(sandbox.path("empty")).unwrap();
    let ran = build(&sandbox, &["--provision", "--offline", "--find-links", "empty"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    assert!(!sandbox.exists(".gpubuild/demo/cuda"), "nothing is configured");
    assert!(!sandbox.exists("cache/toolkits/cuda-13.0"), "nothing partial is installed");
    build(&sandbox, &ON_THE_WAY).succeeds();
}

#[test]
fn invalid_project_lock_is_reported() {
    let Some(sandbox) = project() else { return };
    sandbox.write("gpubuild.lock.d/bad.toml", "schema = 1\n");
    build(&sandbox, &ON_THE_WAY).fails(2, "toolkit.lock-invalid").says(&["bad.toml"]);
}

#[test]
fn suitable_release_is_selected_and_reported() {
    let Some(sandbox) = project() else { return };
    let ran = sandbox.run(&["toolkit", "install", "cuda", "--find-links", "wheels", "--offline", "--json"]);
    let document = ran.succeeds().json();
    assert_eq!(document["installed"]["release"], "13.0");
    assert!(document["choice"]["because"].as_str().unwrap().contains("`13.0`"), "{document:#}");
    assert_eq!(document["choice"]["passed_over"][0]["reasons"][0]["id"], "toolkit.version-unmet");
    ran.says(&["cuda not 13.5: the project requires CUDA Toolkit 13.0"]);
    sandbox
        .run(&["toolkit", "install", "cuda", "--cuda-archs", "70", "--dry-run"])
        .fails(2, "toolkit.version-unmet")
        .says(&["13.0: sm_70 (--cuda-archs 70) is not supported by 13.0"]);
}
