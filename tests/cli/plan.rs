//! Plans for recorded hosts.
#![expect(clippy::disallowed_methods, reason = "a test reads its own files")]

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{RunResult, Sandbox, recorded};

/// A project with kernels for every backend, in the folders that the profile expects.
pub(crate) fn complete(profile: &str) -> Sandbox {
    let sandbox = Sandbox::with_project(profile);
    for backend in ["cpu", "cuda", "rocm", "metal", "vulkan", "sycl", "opencl"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    sandbox
}

#[track_caller]
pub(crate) fn planned(ran: &RunResult) -> Value {
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
fn auto_selects_cpu_and_ready_backends() {
    let sandbox = complete("gk");
    let found = plan(&sandbox, "ubuntu-22.04-rtx4090", &[]);
    assert_eq!(found["origin"], "auto");
    assert!(backends(&found).starts_with(&["cpu", "cuda"]), "{found:#}");
    assert_eq!(cache(&found, "GK_CUDA"), Some("ON"));
    assert_eq!(cache(&found, "GK_METAL"), Some("OFF"));
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), Some("89-real;89-virtual"));
}

/// `plan` lists the pinned libclang if the program's build script generates bindings and the machine has no libclang.
#[test]
fn libclang_for_bindings_is_fetched_where_it_is_missing() {
    let sandbox = complete("gk");
    let table = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{table}[binary]\npackage = \"program\"\n"));
    let bare = std::fs::read_to_string(recorded("ubuntu-22.04-rtx4090")).unwrap();
    let file = "[[file]]\npath = \"/usr/lib/llvm-14/lib/libclang-14.so.1\"\ntext = \"\"\n";
    sandbox.write("with.toml", &format!("{bare}\n{file}"));
    sandbox.write("without.toml", &bare);
    let bindgen = "bindgen = \"0.73\"\n";
    let gpubuild = "gpubuild-build = \"0.1\"\n";
    for (host, crates, expected) in [
        ("without.toml", [bindgen, gpubuild].concat(), true),
        ("with.toml", [bindgen, gpubuild].concat(), false),
        ("without.toml", gpubuild.to_owned(), false),
        ("without.toml", bindgen.to_owned(), false),
    ] {
        let package = "[package]\nname = \"program\"\nversion = \"0.1.0\"\n[build-dependencies]\n";
        sandbox.write("program/Cargo.toml", &format!("{package}{crates}"));
        let plan = planned(&sandbox.run(&["plan", "--json", "--backends", "cpu", "--host", host]));
        let fetch = plan["fetch"].as_array().unwrap().iter().find(|fetch| fetch["tool"] == "libclang");
        assert_eq!(fetch.is_some(), expected, "{host} {crates}: {plan:#}");
        assert!(fetch.is_none_or(|fetch| fetch["version"] == "18.1.1"), "{plan:#}");
    }
}

#[test]
fn list_of_a_pytorch_user_selects_the_architectures() {
    let sandbox = complete("torch-extension");
    let table = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{table}[backends.cuda]\narchs = [\"90\"]\n"));
    let machine = std::fs::read_to_string(recorded("ubuntu-22.04-rtx4090")).unwrap();
    let run = |list: &str, more: &[&str]| {
        let machine = machine.replace("[env]\n", &format!("[env]\nTORCH_CUDA_ARCH_LIST = '{list}'\n"));
        sandbox.write("machine.toml", &machine);
        sandbox.run(&[&["plan", "--backends", "cuda", "--host", "machine.toml"], more].concat())
    };
    let found = planned(&run("Ampere", &["--json"]));
    assert_eq!(cache(&found, "TORCH_CUDA_ARCH_LIST"), Some("8.0;8.6+PTX"));
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), Some("80-real;86"));
    let text = run("8.0;8.6+PTX", &[]).stdout;
    let note = "architectures are those of TORCH_CUDA_ARCH_LIST=8.0;8.6+PTX, which replaces `archs` of gpubuild.toml";
    assert!(text.contains(note), "{text}");
    let found = planned(&run("8.0", &["--json", "--cuda-archs", "89-real"]));
    assert_eq!(cache(&found, "TORCH_CUDA_ARCH_LIST"), Some("8.9"));
    run("8.0;Amper", &[]).fails(2, "cuda.arch.invalid").says(&["`Amper`", "TORCH_CUDA_ARCH_LIST=8.0;Amper"]);
}

/// PyTorch ignores CMAKE_CUDA_ARCHITECTURES, and its CMake package is in the wheel of the environment.
#[test]
fn extensions_of_pytorch_get_its_list_of_architectures_and_its_package() {
    let sandbox = complete("torch-extension");
    let table = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{table}[backends.cuda]\noptions = {{ WITH_CUDA = \"ON\" }}\n"));
    let found = plan(&sandbox, "ubuntu-22.04-rtx4090", &["--backends", "cpu,cuda"]);
    assert_eq!(cache(&found, "TORCH_CUDA_ARCH_LIST"), Some("8.9+PTX"));
    assert_eq!((cache(&found, "WITH_CUDA"), cache(&found, "Torch_DIR")), (Some("ON"), None));
    let list = ["--backends", "cuda", "--cuda-archs", "80-real;90a-real;90"];
    let found = plan(&sandbox, "ubuntu-22.04-rtx4090", &list);
    assert_eq!(cache(&found, "TORCH_CUDA_ARCH_LIST"), Some("8.0;9.0+PTX;9.0a"));
    let config = "env/lib/python3.11/site-packages/torch/share/cmake/Torch";
    sandbox.write(&format!("{config}/TorchConfig.cmake"), "");
    let located = |name: &str, folder: &str| {
        let mut command = sandbox.command();
        command.env(name, sandbox.path(folder)).args(["plan", "--json", "--backends", "cpu"]);
        planned(&RunResult::from(command.output().unwrap()))
    };
    let here = sandbox.path(config);
    assert_eq!(cache(&located("VIRTUAL_ENV", "env"), "Torch_DIR"), here.to_str());
    let folders = "env/lib/python3.11/site-packages";
    assert_eq!(cache(&located("GPUBUILD_SITE_PACKAGES", folders), "Torch_DIR"), here.to_str());
    assert_eq!(cache(&located("Torch_DIR", "other"), "Torch_DIR"), None);
}

/// A PyTorch with CUDA looks for the toolkit that it was built with, also for an extension without CUDA code.
#[test]
fn extensions_of_pytorch_get_the_toolkit_that_it_was_built_with() {
    let sandbox = complete("torch-extension");
    let table = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{table}[backends.cuda]\noptions = {{ WITH_CUDA = true }}\n"));
    let site = "env/lib/python3.11/site-packages";
    sandbox.write(&format!("{site}/torch/share/cmake/Torch/TorchConfig.cmake"), "");
    sandbox.write(&format!("{site}/nvidia/cu13/include/cusparse.h"), "");
    let run = |host: &str, cuda: &str, backends: &str, more: &[&str]| {
        sandbox.write(
            &format!("{site}/torch/version.py"),
            &format!("hip = None\ncuda: Optional[str] = {cuda}\n"),
        );
        let mut command = sandbox.command();
        command.env("VIRTUAL_ENV", sandbox.path("env"));
        command.args(["plan", "--backends", backends, "--host", &recorded(host)]).args(more);
        RunResult::from(command.output().unwrap())
    };
    let headers = sandbox.path(&format!("{site}/nvidia/cu13/include"));
    for backends in ["cpu", "cuda"] {
        let found = planned(&run("ubuntu-22.04-rtx4090", "'12.4'", backends, &["--json"]));
        let root = cache(&found, "CUDA_TOOLKIT_ROOT_DIR");
        assert!(root.is_some() && root == cache(&found, "CUDAToolkit_ROOT"), "{found:#}");
        assert!(cache(&found, "CMAKE_CUDA_COMPILER").unwrap().starts_with(root.unwrap()), "{found:#}");
        assert!(cache(&found, "CMAKE_CUDA_HOST_COMPILER").is_some(), "{found:#}");
        for language in ["CXX", "CUDA"] {
            let name = format!("CMAKE_{language}_STANDARD_INCLUDE_DIRECTORIES");
            assert_eq!(cache(&found, &name), headers.to_str());
        }
        // CMake 3.22 has no option of nvcc for C++20.
        assert_eq!(found["fetch"][0]["tool"], "cmake");
        assert_eq!(cache(&found, "WITH_CUDA").is_some(), backends == "cuda");
        // Another major version is none.
        let ran = run("ubuntu-22.04-rtx4090", "'13.0'", backends, &[]);
        ran.fails(2, "plan.refused").says(&[
            "[toolkit.version-unmet]",
            "site-packages/torch`, built with cuda 13.0, requires cuda toolkit 13, found 12.",
            "gpubuild toolkit install cuda@13",
        ]);
    }
    let ran = run("ubuntu-22.04-mi300x", "'13.2'", "cpu", &[]);
    ran.fails(2, "plan.refused").says(&["[toolkit.of-package-missing]", "gpubuild toolkit install cuda@13"]);
    let ran = run("ubuntu-22.04-mi300x", "'13.2'", "cuda", &[]);
    ran.fails(2, "plan.refused").says(&["gpubuild toolkit install cuda@13 (without root)"]);
    let found = planned(&run("ubuntu-22.04-mi300x", "None", "cpu", &["--json"]));
    assert_eq!((cache(&found, "CUDA_TOOLKIT_ROOT_DIR"), cache(&found, "WITH_CUDA")), (None, None));
}

/// PyTorch reads the architectures of ROCm from the environment only.
#[test]
fn extensions_of_pytorch_get_the_architectures_of_rocm_in_its_variable() {
    let sandbox = complete("torch-extension");
    let table = sandbox.read("gpubuild.toml");
    let planned_for = |archs: &str, variable: Option<&str>| {
        sandbox.write("gpubuild.toml", &format!("{table}[backends.rocm]\n{archs}"));
        let host = std::fs::read_to_string(recorded("ubuntu-22.04-mi300x")).unwrap();
        let variable = variable.map(|value| format!("PYTORCH_ROCM_ARCH = \"{value}\"\n")).unwrap_or_default();
        assert!(host.contains("[env]\n"));
        sandbox.write("host.toml", &host.replacen("[env]\n", &format!("[env]\n{variable}"), 1));
        let host = sandbox.path("host.toml");
        let arguments = ["plan", "--json", "--backends", "cpu,rocm", "--host", host.to_str().unwrap()];
        let found = planned(&sandbox.run(&arguments));
        let tree = &found["trees"][0];
        assert_eq!(tree["env"]["PYTORCH_ROCM_ARCH"], tree["cache"]["CMAKE_HIP_ARCHITECTURES"], "{found:#}");
        tree["env"]["PYTORCH_ROCM_ARCH"].as_str().map(str::to_owned)
    };
    assert_eq!(planned_for("", None).as_deref(), Some("gfx942"));
    let list = "archs = [\"gfx90a\", \"gfx1100\"]\n";
    assert_eq!(planned_for(list, None).as_deref(), Some("gfx1100;gfx90a"));
    assert_eq!(planned_for(list, Some("gfx942 gfx1201")).as_deref(), Some("gfx1201;gfx942"));
    let found = plan(&sandbox, "ubuntu-22.04-rtx4090", &["--backends", "cpu"]);
    assert_eq!(found["trees"][0]["env"]["PYTORCH_ROCM_ARCH"], Value::Null);
}

/// A PyTorch with ROCm looks for it, also for an extension without ROCm code, and reads its folder from the environment only.
#[test]
fn extensions_of_pytorch_for_rocm_get_its_folder_and_architectures() {
    let sandbox = complete("torch-extension");
    let table = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{table}[backends.rocm]\noptions = {{ WITH_ROCM = \"ON\" }}\n"));
    let site = "env/lib/python3.11/site-packages/torch";
    sandbox.write(&format!("{site}/share/cmake/Torch/TorchConfig.cmake"), "");
    let run = |host: &str, hip: &str, backends: &str, more: &[&str]| {
        let version = format!("cuda: Optional[str] = None\nhip: Optional[str] = {hip}\n");
        sandbox.write(&format!("{site}/version.py"), &version);
        let mut command = sandbox.command();
        command.env("VIRTUAL_ENV", sandbox.path("env"));
        command.args(["plan", "--backends", backends, "--host", &recorded(host)]).args(more);
        RunResult::from(command.output().unwrap())
    };
    for backends in ["cpu", "rocm"] {
        let found = planned(&run("ubuntu-22.04-mi300x", "'6.3.42131-fa1d09cbd'", backends, &["--json"]));
        let tree = &found["trees"][0];
        assert_eq!(
            cache(&found, "CMAKE_HIP_COMPILER_ROCM_ROOT"),
            tree["env"]["ROCM_PATH"].as_str(),
            "{found:#}"
        );
        assert_eq!(tree["env"]["PYTORCH_ROCM_ARCH"], "gfx942");
        let ran = run("ubuntu-22.04-mi300x", "'7.0.51831'", backends, &[]);
        ran.fails(2, "plan.refused")
            .says(&["built with rocm 7.0.51831, requires rocm toolkit 7, found 6.3", "install rocm 7"]);
        let ran = run("ubuntu-22.04-rtx4090", "'6.3.42131'", backends, &[]);
        ran.fails(2, "plan.refused")
            .says(&["install rocm 6 from its vendor, or a build of the package without rocm"]);
    }
    let found = planned(&run("ubuntu-22.04-mi300x", "None", "cpu", &["--json"]));
    assert_eq!((&found["trees"][0]["env"]["ROCM_PATH"], cache(&found, "ROCM_PATH")), (&Value::Null, None));
}

#[test]
fn unknown_architectures_warn_unless_nvcc_lists_them() {
    let sandbox = complete("gk");
    let known = plan(&sandbox, "doctor/healthy-ubuntu-24.04-cuda-13.5", &["--backends", "cuda"]);
    assert_eq!(cache(&known, "CMAKE_CUDA_ARCHITECTURES"), Some("90;130"));
    assert_eq!(known.get("warnings"), None);
    let unknown = plan(&sandbox, "doctor/cuda.arch.not-in-table", &["--backends", "cuda"]);
    assert_eq!(cache(&unknown, "CMAKE_CUDA_ARCHITECTURES"), Some("90;130"));
    let warning = "cuda: it is not known whether CUDA Toolkit 13.5 supports sm_130 (CUDAARCHS=90;130); `nvcc --list-gpu-arch` lists the supported ones [cuda.arch.not-in-table]";
    assert_eq!(unknown["warnings"], json!([warning]));
    let host = recorded("doctor/cuda.arch.too-new-for-toolkit-named");
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host]);
    ran.fails(2, "plan.refused").says(&["[cuda.arch.too-new-for-toolkit]"]);
}

#[test]
fn metal_is_planned_only_on_macos() {
    assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor/gk/src/metal/CMakeLists.txt").is_file());
    let sandbox = complete("gk");
    let mac = plan(&sandbox, "macos-15-m3", &["--backends", "metal"]);
    assert_eq!(backends(&mac), ["cpu", "metal"]);
    assert_eq!(cache(&mac, "GK_METAL"), Some("ON"));
    let ran = sandbox.run(&["plan", "--backends", "metal", "--host", &recorded("debian-12-bare")]);
    ran.fails(2, "plan.refused").says(&["metal: Metal is available on macOS only", "[metal.platform]"]);
}

#[test]
#[cfg(target_os = "linux")]
fn profile_may_use_another_toolkit_for_a_backend() {
    let sandbox = complete("gk");
    let ran = sandbox.run(&["plan", "--backends", "sycl", "--host", &recorded("debian-12-bare")]);
    ran.fails(2, "plan.refused").says(&["[plan.toolkit-missing]", "pip install intel-sycl-rt"]);
    for file in ["include/sycl/sycl.hpp", "lib/libsycl.so", "lib/libsycl-jit.so"] {
        sandbox.write(&format!("environment/{file}"), "");
    }
    let environment = sandbox.path("environment");
    let mut command = sandbox.command();
    command.env("VIRTUAL_ENV", &environment).args(["plan", "--json", "--backends", "sycl"]);
    let found = planned(&RunResult::from(command.output().unwrap()));
    assert_eq!(backends(&found), ["cpu", "sycl"]);
    assert_eq!(cache(&found, "CMAKE_PREFIX_PATH"), Some(environment.to_str().unwrap()));
    assert_eq!(found["trees"].as_array().unwrap().len(), 1, "it does not need its own compilers");
}

#[test]
fn one_toolkit_choice_sets_compiler_and_root() {
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
fn requested_backend_is_never_dropped_silently() {
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
fn ecosystem_variables_are_honoured_and_shown() {
    let sandbox = complete("ggml");
    let host = recorded("ubuntu-22.04-rtx4090");
    // Recorded hosts include their own variables, so this test uses the real host.
    let ran =
        RunResult::from(sandbox.command().args(["plan", "--json"]).env("GGML_METAL", "0").output().unwrap());
    assert_eq!(planned(&ran)["origin"], "auto");
    let ran = RunResult::from(
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
fn ggml_rejects_cuda_and_rocm_in_one_binary() {
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
fn self_contained_kernels_build_without_the_toolkit() {
    let host = recorded("ubuntu-22.04-h200");
    let gk = complete("gk");
    let found = plan(&gk, "ubuntu-22.04-h200", &["--backends", "cpu,opencl"]);
    assert_eq!(backends(&found), ["cpu", "opencl"]);
    assert_eq!(cache(&found, "GK_OPENCL"), Some("ON"));
    assert_eq!(cache(&found, "OpenCL_LIBRARY"), None);
    // Nothing requests the backend, and this host could not run it.
    assert_eq!(cache(&plan(&gk, "ubuntu-22.04-h200", &[]), "GK_OPENCL"), Some("OFF"));
    // Other projects include OpenCL's headers, and a version requirement needs a toolkit.
    let missing = ["plan", "--host", &host, "--backends", "opencl"];
    complete("ggml").run(&missing).fails(2, "plan.refused").says(&["ocl."]);
    gk.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"demo\"\nsource = \"vendor\"\nprofile = \"gk\"\n[backends.opencl]\ntoolkit = \">=3\"\n",
    );
    gk.run(&missing).fails(2, "plan.refused").says(&["ocl."]);
    // A compiler is required regardless.
    let bare = recorded("debian-12-bare");
    let ran = complete("gk").run(&["plan", "--host", &bare, "--backends", "opencl"]);
    ran.fails(2, "plan.refused").says(&["cpu.compiler-missing"]);
}

#[test]
fn rocm_uses_the_architecture_of_the_device() {
    let sandbox = complete("gk");
    let found = plan(&sandbox, "ubuntu-22.04-mi300x", &["--backends", "cpu,rocm"]);
    assert_eq!(cache(&found, "GK_ROCM"), Some("ON"));
    assert_eq!(cache(&found, "CMAKE_HIP_ARCHITECTURES"), Some("gfx942"));
}

#[test]
fn device_compile_jobs_are_limited_by_free_memory() {
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
    // The profile estimates 2 GiB per job.
    assert_eq!(device(50 << 20, ""), 12);
    assert_eq!(device(7 << 20, ""), 3);
    assert_eq!(device(1 << 20, ""), 1, "at least one job");
    assert_eq!(device(7 << 20, "[limits]\nmemory_per_cuda_job = \"1GiB\"\n"), 7);
}

#[test]
fn too_old_rocm_is_rejected_or_skipped_by_auto() {
    let sandbox = complete("ggml");
    let text = sandbox.read(&recorded("ubuntu-22.04-mi300x"));
    // The version of Debian 12.
    sandbox.write("old.toml", &text.replace("6.3.0", "5.2.3"));
    let host = sandbox.path("old.toml").to_str().unwrap().to_owned();
    let named = sandbox.run(&["plan", "--host", &host, "--backends", "cpu,rocm"]);
    named.fails(2, "plan.refused").says(&["toolkit.too-old-for-project", "6.1 or newer", "5.2.3"]);
    let found = planned(&sandbox.run(&["plan", "--json", "--host", &host]));
    assert!(!backends(&found).contains(&"rocm"), "{found:#}");
    let found = plan(&sandbox, "ubuntu-22.04-mi300x", &[]);
    assert!(backends(&found).contains(&"rocm"), "a newer release is used: {found:#}");
}

#[test]
fn native_without_a_gpu_and_invalid_lists_are_rejected() {
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
fn plan_is_deterministic() {
    let sandbox = complete("gk");
    let once = || sandbox.run(&["plan", "--json", "--host", &recorded("windows-11-rtx4070")]).stdout;
    assert_eq!(once(), once());
}

#[test]
fn text_plan_lists_everything() {
    let sandbox = complete("gk");
    let ran = sandbox.run(&["plan", "--host", &recorded("ubuntu-22.04-rtx4090"), "--backends", "cpu,cuda"]);
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    for text in
        ["backends", "requested by --backends", "tree cpu-cuda", "CMAKE_CUDA_HOST_COMPILER", "targets"]
    {
        assert!(ran.stdout.contains(text), "{text} is missing in {}", ran.stdout);
    }
}
