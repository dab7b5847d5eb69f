//! Plans for recorded machines.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ran, Sandbox, recorded};

/// A project that has kernels for every backend, in the names of the profile.
fn complete(profile: &str) -> Sandbox {
    let sandbox = Sandbox::with_project(profile);
    for backend in ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    sandbox
}

#[track_caller]
fn planned(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let plan = ran.json();
    assert_eq!(plan["schema"], json!({"name": "plan", "version": 1}));
    plan
}

#[track_caller]
fn plan(sandbox: &Sandbox, host: &str, arguments: &[&str]) -> Value {
    let host = recorded(host);
    let mut all = vec!["plan", "--json", "--host", &host];
    all.extend(arguments);
    planned(&sandbox.run(&all))
}

fn backends(plan: &Value) -> Vec<&str> {
    plan["backends"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect()
}

fn cache<'a>(plan: &'a Value, name: &str) -> Option<&'a str> {
    plan["trees"].as_array().unwrap().iter().find_map(|tree| tree["cache"][name].as_str())
}

#[test]
fn auto_takes_cpu_and_what_is_ready() {
    let sandbox = complete("gk");
    let found = plan(&sandbox, "ubuntu-22.04-rtx4090", &[]);
    assert_eq!(found["origin"], "auto");
    assert!(backends(&found).starts_with(&["cpu", "cuda"]), "{found:#}");
    assert_eq!(cache(&found, "GK_CUDA"), Some("ON"));
    assert_eq!(cache(&found, "GK_METAL"), Some("OFF"));
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), Some("89-real;89-virtual"));
}

#[test]
fn what_nvcc_was_recorded_to_know_is_planned_and_what_no_table_knows_is_warned_of() {
    let sandbox = complete("gk");
    let known = plan(&sandbox, "doctor/healthy-ubuntu-24.04-cuda-13.5", &["--backends", "cuda"]);
    assert_eq!(cache(&known, "CMAKE_CUDA_ARCHITECTURES"), Some("90;130"));
    assert_eq!(known.get("warnings"), None);
    let unknown = plan(&sandbox, "doctor/cuda.arch.not-in-table", &["--backends", "cuda"]);
    assert_eq!(cache(&unknown, "CMAKE_CUDA_ARCHITECTURES"), Some("90;130"));
    let warning = "cuda: no table tells whether CUDA Toolkit 13.5 compiles for sm_130 (CUDAARCHS=90;130); `nvcc --list-gpu-arch` does [cuda.arch.not-in-table]";
    assert_eq!(unknown["warnings"], json!([warning]));
    let host = recorded("doctor/cuda.arch.too-new-for-toolkit-named");
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host]);
    ran.fails(2, "plan.refused").says(&["[cuda.arch.too-new-for-toolkit]"]);
}

#[test]
fn metal_is_planned_on_a_mac_and_refused_elsewhere() {
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor/gk/src/metal/CMakeLists.txt").is_file());
    let sandbox = complete("gk");
    let mac = plan(&sandbox, "macos-15-m3", &["--backends", "metal"]);
    assert_eq!(backends(&mac), ["cpu", "metal"]);
    assert_eq!(cache(&mac, "GK_METAL"), Some("ON"));
    let ran = sandbox.run(&["plan", "--backends", "metal", "--host", &recorded("debian-12-bare")]);
    ran.fails(2, "plan.refused").says(&["metal: Metal exists on macOS only", "[metal.platform]"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_profile_may_build_a_backend_with_another_toolkit() {
    let sandbox = complete("gk");
    let ran = sandbox.run(&["plan", "--backends", "sycl", "--host", &recorded("debian-12-bare")]);
    ran.fails(2, "plan.refused").says(&["[plan.toolkit-missing]", "pip install intel-sycl-rt"]);
    for file in ["include/sycl/sycl.hpp", "lib/libsycl.so", "lib/libsycl-jit.so"] {
        sandbox.write(&format!("environment/{file}"), "");
    }
    let environment = sandbox.path("environment");
    let mut command = sandbox.command();
    command.env("VIRTUAL_ENV", &environment).args(["plan", "--json", "--backends", "sycl"]);
    let found = planned(&Ran::from(command.output().unwrap()));
    assert_eq!(backends(&found), ["cpu", "sycl"]);
    assert_eq!(cache(&found, "CMAKE_PREFIX_PATH"), Some(environment.to_str().unwrap()));
    assert_eq!(found["trees"].as_array().unwrap().len(), 1, "it needs no compilers of its own");
}

#[test]
fn one_choice_sets_compiler_and_root() {
    let sandbox = complete("ggml");
    for (host, root) in [
        ("ubuntu-22.04-h200", "/usr/local/cuda"),
        ("arch-cuda", "/opt/cuda"),
        ("windows-11-rtx4070", "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v12.6"),
    ] {
        let found = plan(&sandbox, host, &["--backends", "cuda"]);
        let (compiler, chosen) =
            (cache(&found, "CMAKE_CUDA_COMPILER").unwrap(), cache(&found, "CUDAToolkit_ROOT").unwrap());
        assert!(chosen.starts_with(root), "{host}: {chosen}");
        assert!(compiler.starts_with(chosen) && compiler.contains("/bin/nvcc"), "{host}: {compiler}");
        assert_eq!(cache(&found, "GGML_CUDA"), Some("ON"));
        assert!(!cache(&found, "CMAKE_CUDA_ARCHITECTURES").unwrap().contains("native"));
        assert_eq!(backends(&found), ["cpu", "cuda"], "ggml always has its CPU backend");
    }
}

#[test]
fn a_named_backend_is_refused_or_dropped_by_wish_never_in_silence() {
    let sandbox = complete("gk");
    let host = recorded("debian-12-llvmpipe");
    sandbox
        .run(&["plan", "--host", &host, "--backends", "cpu,cuda"])
        .fails(2, "plan.refused")
        .says(&["cuda:", "--allow-missing"]);
    let ran = sandbox.run(&["plan", "--json", "--host", &host, "--backends", "cpu,cuda", "--allow-missing"]);
    ran.says(&["warning: cuda is left out"]);
    let found = planned(&ran);
    assert_eq!(backends(&found), ["cpu"]);
    assert_eq!(found["dropped"][0]["id"], "cuda");
    assert!(found["dropped"][0]["reasons"][0].as_str().unwrap().ends_with(']'));
}

#[test]
fn the_ecosystems_words_are_honoured_and_shown() {
    let sandbox = complete("ggml");
    let host = recorded("ubuntu-22.04-rtx4090");
    // The variables of a recorded machine are part of its recording, so these are asked of the real one.
    let ran = Ran::from(sandbox.command().args(["plan", "--json"]).env("GGML_METAL", "0").output().unwrap());
    assert_eq!(planned(&ran)["origin"], "auto");
    let ran = Ran::from(
        sandbox
            .command()
            .args(["plan", "--json", "--allow-missing"])
            .env("GGML_METAL", "1")
            .output()
            .unwrap(),
    );
    assert_eq!(planned(&ran)["origin"], "GGML_METAL=1");
    let ran = sandbox.run(&["plan", "--json", "--host", &host, "--backends", "cuda"]);
    assert_eq!(planned(&ran)["origin"], "--backends");
}

#[test]
fn ggml_never_has_cuda_and_rocm_in_one_binary() {
    let ggml = complete("ggml");
    let conflict = ggml.run(&[
        "plan",
        "--host",
        &recorded("ubuntu-22.04-rtx4090"),
        "--backends",
        "cuda,rocm",
        "--allow-missing",
    ]);
    assert_eq!(conflict.exit, Some(0), "{conflict:#?}");
    assert!(conflict.stdout.contains("not rocm"), "{conflict:#?}");
}

#[test]
fn kernels_that_declare_what_they_use_are_built_without_the_toolkit() {
    let host = recorded("ubuntu-22.04-h200");
    let gk = complete("gk");
    let found = plan(&gk, "ubuntu-22.04-h200", &["--backends", "cpu,opencl"]);
    assert_eq!(backends(&found), ["cpu", "opencl"]);
    assert_eq!(cache(&found, "GK_OPENCL"), Some("ON"));
    assert_eq!(cache(&found, "OpenCL_LIBRARY"), None);
    // Nobody asked for it and nothing here could run it.
    assert_eq!(cache(&plan(&gk, "ubuntu-22.04-h200", &[]), "GK_OPENCL"), Some("OFF"));
    // Other projects include OpenCL's headers, and one that asks for a version has a use for it.
    let missing = ["plan", "--host", &host, "--backends", "opencl"];
    complete("ggml").run(&missing).fails(2, "plan.refused").says(&["ocl."]);
    gk.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"gk\"\n[backends.opencl]\ntoolkit = \">=3\"\n",
    );
    gk.run(&missing).fails(2, "plan.refused").says(&["ocl."]);
    // A compiler is needed all the same.
    let bare = recorded("debian-12-bare");
    let ran = complete("gk").run(&["plan", "--host", &bare, "--backends", "opencl"]);
    ran.fails(2, "plan.refused").says(&["cpu.compiler-missing"]);
}

#[test]
fn rocm_gets_the_architecture_of_the_card() {
    let sandbox = complete("gk");
    let found = plan(&sandbox, "ubuntu-22.04-mi300x", &["--backends", "cpu,rocm"]);
    assert_eq!(cache(&found, "GK_ROCM"), Some("ON"));
    assert_eq!(cache(&found, "CMAKE_HIP_ARCHITECTURES"), Some("gfx942"));
}

#[test]
fn device_compilers_are_as_many_as_fit_into_the_free_memory() {
    let sandbox = complete("ggml");
    let text = sandbox.read(&recorded("ubuntu-22.04-rtx4090"));
    let device = |free_kib: u64, limits: &str| {
        assert!(text.contains("MemAvailable:   50331648 kB"));
        let free = format!("MemAvailable: {free_kib} kB");
        sandbox.write("host.toml", &text.replace("MemAvailable:   50331648 kB", &free));
        let project = "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"ggml\"\n";
        sandbox.write("gpubuild.toml", &format!("{project}{limits}"));
        let host = sandbox.path("host.toml").to_str().unwrap().to_owned();
        let arguments = ["plan", "--json", "--host", &host, "--backends", "cuda", "--jobs", "12"];
        let found = planned(&sandbox.run(&arguments));
        let jobs = &found["trees"][0]["jobs"];
        assert_eq!(jobs["total"], 12, "{jobs}");
        jobs["device"].as_u64().unwrap()
    };
    // The profile says 2 GiB each.
    assert_eq!(device(50 << 20, ""), 12);
    assert_eq!(device(7 << 20, ""), 3);
    assert_eq!(device(1 << 20, ""), 1, "one is always tried");
    assert_eq!(device(7 << 20, "[limits]\nmemory_per_cuda_job = \"1GiB\"\n"), 7);
}

#[test]
fn a_rocm_that_is_too_old_for_the_project_is_refused_by_name_and_passed_over_by_auto() {
    let sandbox = complete("ggml");
    let text = sandbox.read(&recorded("ubuntu-22.04-mi300x"));
    // As Debian 12 has it.
    sandbox.write("old.toml", &text.replace("6.3.0", "5.2.3"));
    let host = sandbox.path("old.toml").to_str().unwrap().to_owned();
    let named = sandbox.run(&["plan", "--host", &host, "--backends", "cpu,rocm"]);
    named.fails(2, "plan.refused").says(&["toolkit.too-old-for-project", "6.1 or newer", "5.2.3"]);
    let found = planned(&sandbox.run(&["plan", "--json", "--host", &host]));
    assert!(!backends(&found).contains(&"rocm"), "{found:#}");
    let found = plan(&sandbox, "ubuntu-22.04-mi300x", &[]);
    assert!(backends(&found).contains(&"rocm"), "a newer one is taken: {found:#}");
}

#[test]
fn native_is_refused_without_a_gpu_and_lists_are_checked() {
    let sandbox = complete("gk");
    let add = |archs: &str| {
        sandbox.write(
            "gpubuild.toml",
            &format!(
                "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"gk\"\n\
                 [backends.cuda]\narchs = {archs}\n"
            ),
        );
    };
    let host = recorded("ci-cuda-no-gpu");
    add("\"native\"");
    sandbox.run(&["plan", "--host", &host, "--backends", "cuda"]).fails(2, "plan.refused").says(&["native"]);
    add("[\"35\"]");
    sandbox
        .run(&["plan", "--host", &host, "--backends", "cuda"])
        .fails(2, "plan.refused")
        .says(&["cuda.arch.dropped-by-toolkit", "sm_35"]);
    add("[\"80\", \"90\"]");
    let found = plan(&sandbox, "ci-cuda-no-gpu", &["--backends", "cuda"]);
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), Some("80;90"));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let sandbox = complete("gk");
    let once = || sandbox.run(&["plan", "--json", "--host", &recorded("windows-11-rtx4070")]).stdout;
    assert_eq!(once(), once());
}

#[test]
fn a_plan_for_people_names_everything() {
    let sandbox = complete("gk");
    let ran = sandbox.run(&["plan", "--host", &recorded("ubuntu-22.04-rtx4090"), "--backends", "cpu,cuda"]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    for text in
        ["backends", "asked for by --backends", "tree cpu-cuda", "CMAKE_CUDA_HOST_COMPILER", "targets"]
    {
        assert!(ran.stdout.contains(text), "{text} is missing in {}", ran.stdout);
    }
}
