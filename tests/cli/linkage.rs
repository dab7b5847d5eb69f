//! Plans with static, shared and dynamic linkage for recorded hosts.

use serde_json::{Value, json};

use crate::support::{Sandbox, recorded};

fn sandbox(profile: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::with_project(profile);
    sandbox.write(
        "gpubuild.toml",
        &format!(
            "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"{profile}\"\n{more}"
        ),
    );
    sandbox
}

#[track_caller]
fn plan(sandbox: &Sandbox, host: &str, arguments: &[&str]) -> Value {
    let mut all = vec!["plan", "--json", "--host", host];
    all.extend(arguments);
    let ran = sandbox.run(&all);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    ran.json()
}

/// Merges two recordings into a host with the toolkits of both.
fn machine_of_both(sandbox: &Sandbox, one: &str, other: &str) -> String {
    let read = |name: &str| {
        let text = sandbox.read(&recorded(name));
        text.parse::<toml::Table>().unwrap()
    };
    let (mut one, other) = (read(one), read(other));
    for list in ["file", "command"] {
        let more = other.get(list).and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let known = one.entry(list).or_insert_with(|| toml::Value::Array(Vec::new())).as_array_mut().unwrap();
        let key = |entry: &toml::Value| entry.get("path").or_else(|| entry.get("argv")).cloned();
        let new: Vec<toml::Value> =
            more.into_iter().filter(|entry| known.iter().all(|old| key(old) != key(entry))).collect();
        known.extend(new);
    }
    sandbox.write("both.toml", &toml::to_string(&one).unwrap());
    sandbox.path("both.toml").to_str().unwrap().to_owned()
}

#[test]
fn conflicting_backends_become_modules() {
    let ggml = sandbox("llama", "");
    let host = machine_of_both(&ggml, "ubuntu-22.04-rtx4090", "ubuntu-22.04-mi300x");
    let request = ["--backends", "cuda,rocm"];
    let refused = ggml.run(&["plan", "--host", &host, "--backends", "cuda,rocm"]);
    refused.fails(2, "plan.refused").says(&["plan.backends-conflict", "same symbols", "--linkage dynamic"]);
    let shared = ggml.run(&["plan", "--host", &host, "--backends", "cuda,rocm", "--linkage", "shared"]);
    shared.fails(2, "plan.refused").says(&["plan.backends-conflict"]);

    let found = plan(&ggml, &host, &[&request[..], &["--linkage", "dynamic"]].concat());
    assert_eq!(found["linkage"], "dynamic");
    assert_eq!(found["dropped"], json!([]));
    let trees = found["trees"].as_array().unwrap();
    let ids: Vec<&str> = trees.iter().map(|tree| tree["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cpu-cuda", "rocm"]);
    assert_eq!(trees[0]["modules"], json!(["ggml-cpu", "ggml-cuda"]));
    assert_eq!(trees[0]["targets"], json!(["llama", "ggml"]));
    assert_eq!(trees[0]["choices"], json!(["ggml-base?"]));
    assert_eq!(trees[1]["modules"], json!(["ggml-hip"]));
    assert_eq!(trees[1]["targets"], json!([]));
    assert!(trees[1]["apart"].as_str().unwrap().contains("same symbols"));
    for (name, value) in [
        ("GGML_BACKEND_DL", "ON"),
        ("BUILD_SHARED_LIBS", "ON"),
        ("GGML_CPU", "OFF"),
        ("GGML_CUDA", "OFF"),
        ("GGML_HIP", "ON"),
    ] {
        assert_eq!(trees[1]["cache"][name], value, "{name}");
    }
    assert!(trees[0]["cache"]["CMAKE_INSTALL_RPATH"].as_str().unwrap().starts_with("$ORIGIN"));
}

#[test]
fn two_toolkit_releases_build_one_module_each() {
    let more = "[backends.cuda]\ntoolkits = [\"11\", \"12\"]\n";
    let llama = sandbox("llama", more);
    let host = recorded("doctor/healthy-rhel-8-two-cudas");
    let refused = llama.run(&["plan", "--host", &host, "--backends", "cuda"]);
    refused.fails(2, "plan.refused").says(&["plan.toolkits-conflict", "11 and 12", "--linkage dynamic"]);

    let found = plan(&llama, &host, &["--backends", "cuda", "--linkage", "dynamic"]);
    let trees = found["trees"].as_array().unwrap();
    let of = |key: &str| trees.iter().map(|tree| tree[key].as_str().unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(of("id"), ["cpu", "cuda-11", "cuda-12"]);
    assert_eq!(of("folder"), ["", "cuda-11", "cuda-12"]);
    let compiler = |index: usize| trees[index]["cache"]["CMAKE_CUDA_COMPILER"].as_str().unwrap();
    assert!(
        compiler(1).contains("cuda-11.8") && compiler(2).contains("cuda-12"),
        "{} {}",
        compiler(1),
        compiler(2)
    );
    assert!(trees[1]["cache"]["CMAKE_INSTALL_RPATH"].as_str().unwrap().starts_with("$ORIGIN;$ORIGIN/..;"));
    assert_eq!(trees[1]["modules"], json!(["ggml-cuda"]));

    let gone = sandbox("llama", "[backends.cuda]\ntoolkits = [\"12\", \"13\"]\n");
    let ran = gone.run(&["plan", "--host", &host, "--backends", "cuda", "--linkage", "dynamic"]);
    ran.fails(2, "plan.refused").says(&["toolkit.version-unmet", "requires cuda toolkit 13"]);
}

#[test]
fn backend_with_its_own_compiler_is_a_separate_module() {
    let llama = sandbox("llama", "linkage = \"dynamic\"\n");
    let host = machine_of_both(&llama, "ubuntu-22.04-rtx4090", "ubuntu-24.04-arc");
    let ran = llama.run(&["plan", "--json", "--host", &host, "--backends", "cuda,sycl"]);
    if ran.exit == Some(0) {
        let found = ran.json();
        assert_eq!(found["trees"][1]["id"], "sycl");
        assert_eq!(found["trees"][1]["cache"]["GGML_CPU"], "OFF");
    } else {
        // Without a compiler for it the error names the compiler, not a conflict of backends.
        ran.fails(2, "plan.refused");
        assert!(!ran.stderr.contains("plan.backends-conflict"), "{ran:#?}");
    }
}

#[test]
fn cpu_variants_are_modules() {
    let host = recorded("ubuntu-22.04-rtx4090");
    let llama = sandbox("llama", "[backends.cpu]\nvariants = true\n");
    let ran = llama.run(&["plan", "--host", &host]);
    ran.fails(2, "plan.variants-unsupported").says(&["needs modules", "--linkage dynamic"]);
    let found = plan(&llama, &host, &["--linkage", "dynamic", "--backends", "cpu"]);
    assert_eq!(found["trees"][0]["cache"]["GGML_CPU_ALL_VARIANTS"], "ON");
    let windows =
        plan(&llama, &recorded("windows-11-rtx4070"), &["--linkage", "dynamic", "--backends", "cpu"]);
    assert_eq!(windows["trees"][0]["cache"].get("CMAKE_INSTALL_RPATH"), None);
}

#[test]
fn profile_without_module_support_is_reported() {
    let gk = sandbox("gk", "linkage = \"dynamic\"\n");
    let ran = gk.run(&["plan", "--host", &recorded("ubuntu-22.04-rtx4090")]);
    ran.fails(2, "plan.linkage-unsupported").says(&["`gk`", "shared"]);
    gk.write("vendor/src/cpu/CMakeLists.txt", "");
    let ran = gk.run(&[
        "plan",
        "--backends",
        "cpu",
        "--linkage",
        "static",
        "--host",
        &recorded("ubuntu-22.04-rtx4090"),
    ]);
    assert_eq!(ran.exit, Some(0), "the flag overrides the file: {ran:#?}");
}
