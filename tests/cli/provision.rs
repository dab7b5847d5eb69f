//! Toolkits that a build installs first, and the arguments of nvcc, on recorded hosts.

use serde_json::Value;

use crate::support::{RunResult, Sandbox, recorded};

fn project() -> Sandbox {
    let sandbox = Sandbox::with_project("gk");
    for backend in ["cpu", "cuda", "vulkan"] {
        sandbox.write(&format!("vendor/src/{backend}/CMakeLists.txt"), "");
    }
    sandbox
}

fn plan(sandbox: &Sandbox, host: &str, arguments: &[&str]) -> RunResult {
    let mut all = vec!["plan", "--json", "--backends", "cuda", "--host", host];
    all.extend(arguments);
    sandbox.run(&all)
}

#[track_caller]
fn planned(ran: &RunResult) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    ran.json()
}

fn cache(plan: &Value, name: &str) -> String {
    plan["trees"][0]["cache"][name].as_str().unwrap_or_default().to_owned()
}

/// A recording with some text replaced, and more text appended.
fn variation(sandbox: &Sandbox, name: &str, changes: &[(&str, &str)], more: &str) -> String {
    let mut text = sandbox.read(&recorded(name));
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no `{from}`");
        text = text.replace(from, to);
    }
    let file = "machine.toml";
    sandbox.write(file, &format!("{text}\n{more}"));
    sandbox.path(file).to_str().unwrap().to_owned()
}

/// The recorded files of an installed toolkit.
fn installed(release: &str, number: u32, gcc: u32) -> String {
    installed_in("toolkits", release, number, gcc)
}

fn installed_in(folder: &str, release: &str, number: u32, gcc: u32) -> String {
    let root = format!("/home/user/.cache/gpubuild/{folder}/cuda-{release}");
    let file = |path: &str, rest: &str| format!("[[file]]\npath = '{root}/{path}'\n{rest}\n");
    [
        file("installed.json", "text = '{}'"),
        file("prefix/bin/nvcc", "kind = \"executable\""),
        file("prefix/include/cuda_runtime.h", ""),
        file("prefix/include/cuda_runtime_api.h", &format!("text = '#define CUDART_VERSION {number}'")),
        file("prefix/include/crt/host_config.h", &format!("text = '#if __GNUC__ > {gcc}'")),
        file("prefix/lib/libcudart_static.a", ""),
        file("prefix/lib64", "link = 'lib'"),
    ]
    .concat()
}

#[test]
fn provisioning_plan_has_the_flags_of_the_plan_after_installation() {
    let sandbox = project();
    let before = planned(&plan(&sandbox, &recorded("debian-12-llvmpipe"), &["--provision"]));
    let install = &before["provision"][0];
    assert_eq!(install["toolkit"], "cuda");
    assert_eq!(install["release"], "13.5");
    assert_eq!(install["backend"], "cuda");
    assert_eq!(install["root"], "/home/user/.cache/gpubuild/toolkits/cuda-13.5/prefix");
    assert!(install["download_bytes"].as_u64().unwrap() > 100_000_000, "{install}");
    assert!(install["because"].as_str().unwrap().contains("newest"), "{install}");

    let host = variation(&sandbox, "debian-12-llvmpipe", &[], &installed("13.5", 13050, 16));
    for arguments in [&[][..], &["--provision"]] {
        let after = planned(&plan(&sandbox, &host, arguments));
        assert!(after.get("provision").is_none(), "nothing needs to be installed: {after:#}");
        assert_eq!(after["trees"][0]["cache"], before["trees"][0]["cache"], "{arguments:?}");
    }
}

/// ggml links CUDA's libraries, so those of the target and GCC for it are needed.
#[test]
fn libraries_of_a_target_are_planned_and_found() {
    const TRIPLE: &str = "aarch64-unknown-linux-gnu";
    let sandbox = Sandbox::with_project("cmake");
    let file = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{file}[backends.cuda]\noptions = {{ USE_CUDA = \"ON\" }}\n"));
    let plan = |host: &str, more: &[&str]| plan(&sandbox, host, &[&["--target", TRIPLE], more].concat());
    // A toolkit for the build machine does not help.
    let here = installed("13.5", 13050, 16);
    let host = variation(&sandbox, "debian-12-llvmpipe", &[], &here);
    let refused =
        |host: &str| sandbox.run(&["plan", "--backends", "cuda", "--target", TRIPLE, "--host", host]);
    refused(&host).fails(2, "cross.gcc-missing").says(&["g++-aarch64-linux-gnu"]);

    let program =
        |name: &str| format!("[[file]]\npath = '/usr/bin/aarch64-linux-gnu-{name}'\nkind = \"executable\"\n");
    let gcc = format!("{here}{}{}", program("gcc"), program("g++"));
    let host = variation(&sandbox, "debian-12-llvmpipe", &[], &gcc);
    refused(&host)
        .fails(2, "cross.toolkit-missing")
        .says(&[&format!("gpubuild toolkit install cuda --target {TRIPLE}")]);
    // GCC has the C library of the distribution.
    let floor = format!("{TRIPLE}.2.28");
    let old = sandbox.run(&["plan", "--backends", "cuda", "--target", &floor, "--host", &host]);
    old.fails(2, "cross.gcc-missing").says(&["leave out the version"]);
    let before = planned(&plan(&host, &["--provision"]));
    let (install, folder) = (&before["provision"][0], format!("toolkits/{TRIPLE}"));
    assert_eq!(install["target"], TRIPLE);
    assert_eq!(install["root"], format!("/home/user/.cache/gpubuild/{folder}/cuda-13.5/prefix"));
    assert_eq!(before["target"]["compilers"], "gcc");
    assert_eq!(cache(&before, "CMAKE_CUDA_HOST_COMPILER"), "/usr/bin/aarch64-linux-gnu-g++");
    assert!(cache(&before, "CUDAToolkit_ROOT").contains(&folder), "{before:#}");

    let both = format!("{gcc}{}", installed_in(&folder, "13.5", 13050, 16));
    let host = variation(&sandbox, "debian-12-llvmpipe", &[], &both);
    let after = planned(&plan(&host, &["--provision"]));
    assert!(after.get("provision").is_none(), "{after:#}");
    assert_eq!(after["trees"][0]["cache"], before["trees"][0]["cache"]);
    // A variable names the host compiler of nvcc: one for the target is used, any other is refused.
    let named = |platform: &str| {
        let compiler = "[[command]]\nargv = [\"/opt/c++\", \"-dumpmachine\"]\n";
        let output = format!("{compiler}stdout = \"{platform}\\n\"\nexit = 0\n");
        let more = format!("{both}[[file]]\npath = '/opt/c++'\nkind = \"executable\"\n{output}");
        variation(&sandbox, "debian-12-llvmpipe", &[("[env]", "[env]\nCUDAHOSTCXX = \"/opt/c++\"")], &more)
    };
    let own = planned(&plan(&named("aarch64-none-linux-gnu"), &[]));
    assert_eq!(cache(&own, "CMAKE_CUDA_HOST_COMPILER"), "/opt/c++");
    assert_eq!(cache(&own, "CMAKE_CXX_COMPILER"), "/usr/bin/aarch64-linux-gnu-g++");
    let text = "nvcc's host compiler `/opt/c++` (CUDAHOSTCXX) compiles for x86_64-linux-gnu";
    refused(&named("x86_64-linux-gnu"))
        .fails(2, "cross.host-compiler")
        .says(&[text, "`aarch64-linux-gnu-g++`"]);
    refused(&named("")).fails(2, "cross.host-compiler").says(&["does not print its platform"]);
    let host = variation(&sandbox, "debian-12-llvmpipe", &[], &both);
    let for_this_machine = planned(&sandbox.run(&["plan", "--json", "--backends", "cuda", "--host", &host]));
    assert!(!cache(&for_this_machine, "CUDAToolkit_ROOT").contains(TRIPLE), "{for_this_machine:#}");
}

#[test]
fn missing_toolkit_hint_names_the_provision_command() {
    let sandbox = project();
    let host = recorded("debian-12-llvmpipe");
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host]);
    ran.fails(2, "plan.refused").says(&["gpubuild toolkit install cuda"]);
}

#[test]
fn project_file_can_enable_provisioning() {
    let sandbox = project();
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[toolkits]\nprovision = true\n"));
    let auto = |host: &str| planned(&sandbox.run(&["plan", "--json", "--host", &recorded(host)]));
    let with_card = auto("ubuntu-22.04-h200");
    assert!(with_card.get("provision").is_none(), "the host has a toolkit: {with_card:#}");
    // `auto` installs nothing for missing hardware.
    let without_card = auto("debian-12-llvmpipe");
    assert!(without_card.get("provision").is_none(), "{without_card:#}");
    let named = planned(&plan(&sandbox, &recorded("debian-12-llvmpipe"), &[]));
    assert_eq!(named["provision"][0]["release"], "13.5");

    let changes = [("/bin/nvcc", "/bin/other")];
    let bare = variation(&sandbox, "ubuntu-22.04-h200", &changes, "");
    let found = planned(&sandbox.run(&["plan", "--json", "--host", &bare]));
    assert_eq!(found["provision"][0]["release"], "13.0", "the driver is 580: {found:#}");
    assert_eq!(found["provision"][0]["passed_over"][0]["reasons"][0]["id"], "nv.ptx.too-new");
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), "90-real;90-virtual");
}

#[test]
fn unsuitable_toolkit_is_rejected_with_a_reason() {
    let sandbox = project();
    let refused = |host: &str, arguments: &[&str], id: &str| {
        let mut all = vec!["plan", "--backends", "cuda", "--provision", "--host", host];
        all.extend(arguments);
        let ran = sandbox.run(&all);
        ran.fails(2, "plan.refused").says(&[id]);
        assert!(!ran.stderr.contains("toolkit install"), "that command would fail too: {}", ran.stderr);
    };
    let bare = recorded("debian-12-llvmpipe");
    refused(&recorded("fedora-41-hybrid"), &[], "nv.driver.too-old");
    refused(&bare, &["--cuda-archs", "35"], "cuda.arch.dropped-by-toolkit");
    refused(&bare, &["--cuda-archs", "999"], "cuda.arch.too-new-for-toolkit");
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\ntoolkit = \">=11, <12\"\n"));
    refused(&bare, &[], "toolkit.version-unmet");
}

#[test]
fn old_card_gets_cuda_12() {
    let sandbox = project();
    let found =
        planned(&plan(&sandbox, &recorded("debian-12-llvmpipe"), &["--provision", "--cuda-archs", "70"]));
    assert_eq!(found["provision"][0]["release"], "12.9");
    assert_eq!(cache(&found, "CMAKE_CUDA_ARCHITECTURES"), "70");
}

#[test]
fn unmet_version_requirement_counts_as_missing_toolkit() {
    let sandbox = project();
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\ntoolkit = \">=13.1\"\n"));
    let host = recorded("debian-12-own-cuda");
    sandbox
        .run(&["plan", "--backends", "cuda", "--host", &host])
        .fails(2, "plan.refused")
        .says(&["toolkit.version-unmet"]);
    let found = planned(&plan(&sandbox, &host, &["--provision"]));
    assert_eq!(found["provision"][0]["release"], "13.5");
    assert!(cache(&found, "CMAKE_CUDA_COMPILER").contains("cuda-13.5"), "{found:#}");
}

#[test]
fn rocm_of_packages_needs_the_release_and_the_part_that_the_profile_links() {
    let sandbox = Sandbox::with_project("llama");
    sandbox.write("vendor/ggml/CMakeLists.txt", "option(GGML_HIP \"\" OFF)\n");
    let release = |version: &str| {
        [("VERSION_ID=12", format!("VERSION_ID={version}")), ("ID=debian", "ID=ubuntu".to_owned())]
    };
    let refused = |version: &str, more: &str, expected: &[&str]| {
        let changes = release(version);
        let changes: Vec<(&str, &str)> = changes.iter().map(|(from, to)| (*from, to.as_str())).collect();
        let host = variation(&sandbox, "debian-12-bare", &changes, more);
        let refused = sandbox.run(&["plan", "--backends", "rocm", "--host", &host]);
        refused.fails(2, "plan.refused").says(expected);
    };
    refused("26.04", "", &["gpubuild toolkit install rocm --with hipblas (without root)"]);
    refused(
        "24.04",
        "",
        &["install rocm 6.1 or newer from its vendor", "the packages of this distribution have 5.7.1"],
    );
    let root = "/home/user/.cache/gpubuild/toolkits/rocm-7.1.1";
    let files = [
        ("installed.json", "text = '{}'"),
        ("prefix/bin/hipcc", "kind = \"executable\""),
        ("prefix/bin/amdclang++", "kind = \"executable\""),
        ("prefix/include/hip/hip_runtime.h", ""),
        ("prefix/lib/llvm-21/lib/clang/21/amdgcn/bitcode/ockl.bc", ""),
        (
            "prefix/include/hip/hip_version.h",
            "text = '''\n#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 1\n'''",
        ),
    ];
    let file = |(path, rest): &(&str, &str)| format!("[[file]]\npath = '{root}/{path}'\n{rest}\n");
    let files = files.iter().map(file).collect::<Vec<_>>().concat();
    // The distribution determines the release, so the command names none.
    let expected = ["llama.cpp links hipblas, which `", "gpubuild toolkit install rocm --with hipblas\n"];
    refused("26.04", &files, &expected);
}

#[test]
fn parts_that_the_profile_links_are_required_of_own_copies_and_installed() {
    let sandbox = Sandbox::with_project("llama");
    sandbox.write("vendor/ggml/CMakeLists.txt", "option(GGML_CUDA \"\" OFF)\n");
    // Without the system's copy, which would be used instead.
    let only_own = [("/usr/local/cuda", "/srv/elsewhere")];
    let host = variation(&sandbox, "debian-12-own-cuda", &only_own, "");
    let refused = sandbox.run(&["plan", "--backends", "cuda", "--host", &host]);
    refused.fails(2, "plan.refused").says(&[
        "[toolkit.component-missing]",
        "llama.cpp links cublas, which `",
        "gpubuild toolkit install cuda@13.0 --with cublas",
    ]);
    // So does the command that installs a missing toolkit.
    let none = recorded("ubuntu-22.04-mi300x");
    let refused = sandbox.run(&["plan", "--backends", "cuda", "--host", &none]);
    refused.fails(2, "plan.refused").says(&["gpubuild toolkit install cuda --with cublas (without root)"]);
    let found = planned(&plan(&sandbox, &host, &["--provision"]));
    assert_eq!(found["provision"][0]["with"], serde_json::json!(["cublas"]));
    assert!(found["provision"][0]["download_bytes"].as_u64().unwrap() > 400_000_000, "{found:#}");
    assert!(cache(&found, "CMAKE_CUDA_COMPILER").contains("toolkits/cuda-"), "{found:#}");
    // Beside the system's complete copy of another release, which the project does not accept.
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\ntoolkit = \">=13\"\n"));
    let both = recorded("debian-12-own-cuda");
    sandbox
        .run(&["plan", "--backends", "cuda", "--host", &both])
        .fails(2, "plan.refused")
        .says(&["[toolkit.component-missing]", "cuda@13.0 --with cublas"]);
    sandbox.write("gpubuild.toml", &text);
    // With the part, nothing is missing.
    let root = "/home/user/.cache/gpubuild/toolkits/cuda-13.0/prefix";
    let library = format!("[[file]]\npath = '{root}/lib/libcublas.so'\n");
    let with = variation(&sandbox, "debian-12-own-cuda", &only_own, &library);
    let found = planned(&plan(&sandbox, &with, &["--provision"]));
    assert!(found["provision"].is_null() || found["provision"] == serde_json::json!([]), "{found:#}");
    // In a copy of the system, CMake also searches folders outside of it.
    let of_system = recorded("arch-cuda");
    assert!(planned(&plan(&sandbox, &of_system, &[]))["trees"][0].is_object());
}

#[test]
fn architectures_come_from_flag_variable_or_project() {
    let sandbox = project();
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}\n[backends.cuda]\narchs = [\"86\"]\n"));
    let env = |line: &str| {
        let home = "HOME = '/home/user'";
        variation(&sandbox, "debian-12-own-cuda", &[(home, &format!("{home}\n{line}"))], "")
    };
    let archs = |host: &str, arguments: &[&str]| {
        cache(&planned(&plan(&sandbox, host, arguments)), "CMAKE_CUDA_ARCHITECTURES")
    };
    let plain = env("");
    assert_eq!(archs(&plain, &[]), "86");
    assert_eq!(archs(&plain, &["--cuda-archs", "sm_90a,8.0-real"]), "80-real;90a");
    assert_eq!(
        archs(&plain, &["--cuda-archs", "all-major"]),
        "75-real;80-real;90-real;100-real;110-real;120-real;120-virtual"
    );
    let named = env("CUDAARCHS = '89-real;90'");
    assert_eq!(archs(&named, &[]), "89-real;90");
    assert_eq!(archs(&named, &["--cuda-archs", "75"]), "75");
}

#[test]
fn unknown_architecture_lists_the_known_ones() {
    let sandbox = project();
    let host = recorded("debian-12-own-cuda");
    for (list, id) in [
        ("999", "cuda.arch.too-new-for-toolkit"),
        ("101", "cuda.arch.too-new-for-toolkit"),
        ("70", "cuda.arch.dropped-by-toolkit"),
        ("sm_9x", "cuda.arch.invalid"),
        ("gfx90a", "cuda.arch.invalid"),
        ("", "cuda.arch.invalid"),
        (",;", "cuda.arch.invalid"),
    ] {
        let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host, "--cuda-archs", list]);
        ran.fails(2, "plan.refused").says(&[id, "supports 75, 80, 86", "120, 121"]);
    }
}

#[test]
fn nvcc_uses_the_newest_supported_host_compiler() {
    let sandbox = project();
    let gcc = |major: u32| {
        format!(
            "[[file]]\npath = '/usr/bin/gcc-{major}'\nkind = \"executable\"\n\
             [[file]]\npath = '/usr/bin/g++-{major}'\nkind = \"executable\"\n\
             [[file]]\npath = '/usr/lib/gcc/x86_64-linux-gnu/{major}'\nkind = \"directory\"\n"
        )
    };
    let host = |limit: &str, more: &str| {
        variation(&sandbox, "debian-12-own-cuda", &[("__GNUC__ > 15", limit)], more)
    };
    let compiler = |host: &str| cache(&planned(&plan(&sandbox, host, &[])), "CMAKE_CUDA_HOST_COMPILER");
    // The host compiler of the project, if nvcc supports it.
    assert_eq!(compiler(&host("__GNUC__ > 15", &gcc(13))), "/usr/bin/g++");
    // The project's compiler is GCC 12 and the toolkit supports up to 11: of 9, 10 and 13 it uses the newest
    // supported one.
    let several = [gcc(9), gcc(10), gcc(13)].concat();
    assert_eq!(compiler(&host("__GNUC__ > 11", &several)), "/usr/bin/g++-10");
    // No supported compiler: the error has the supported range and its source.
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &host("__GNUC__ > 11", &gcc(13))]);
    ran.fails(2, "plan.refused").says(&["cuda.host.gcc-too-new", "up to 11", "host_config.h", "GCC 11"]);
    // The variables of CMake and nvcc select a host compiler.
    let home = "HOME = '/home/user'";
    let named = [(home, "HOME = '/home/user'\nCUDAHOSTCXX = '/opt/bin/g++-11'")];
    let program = "[[file]]\npath = '/opt/bin/g++-11'\nkind = \"executable\"\n";
    let there = variation(&sandbox, "debian-12-own-cuda", &named, program);
    let found = planned(&plan(&sandbox, &there, &[]));
    assert_eq!(cache(&found, "CMAKE_CUDA_HOST_COMPILER"), "/opt/bin/g++-11");
    // One that does not exist is refused before anything is configured.
    let gone = variation(&sandbox, "debian-12-own-cuda", &named, "");
    let ran = sandbox.run(&["plan", "--backends", "cuda", "--host", &gone]);
    ran.fails(2, "plan.refused").says(&["env.program-missing", "CUDAHOSTCXX"]);
    assert!(found["notes"].to_string().contains("CUDAHOSTCXX"), "{found:#}");
}
