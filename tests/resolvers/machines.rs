//! Hosts on which build systems disagree, and what each of them selects.

use gpubuild_doctor::resolvers::line_text;
use gpubuild_host::{Arch, Host, Os, RecordedHost};

use super::machine::Machine;
use super::recorded::{check_lines, check_text};
use super::{outcome, resolve};

/// Compares the selections, applies the suggested lines, and returns them.
fn check(name: &str, host: &dyn Host, expected: &[(&str, &str)]) -> Vec<String> {
    let resolutions = resolve(host);
    for (id, wanted) in expected {
        let one = resolutions.get(id).unwrap_or_else(|| panic!("{name}: no {id}"));
        assert_eq!(outcome(one), *wanted, "{name}: {id} by {}", one.rule);
    }
    check_lines(name, host);
    check_text(name, host);
    let os = host.platform().os;
    resolutions
        .agreements
        .values()
        .flat_map(|agreement| agreement.lines.iter().map(|line| line_text(line, os).unwrap()))
        .collect()
}

const OLD: &str = "/usr/local/cuda-11.8";
const NEW: &str = "/usr/local/cuda-12.4";

fn two_copies() -> Machine {
    Machine::ubuntu("22.04")
        .cuda_at(OLD, "11.8.0")
        .cuda_at(NEW, "12.4.1")
        .link("/usr/local/cuda", NEW)
        .program("/usr/bin/c++")
        .program("/usr/bin/cc")
}

#[test]
fn path_and_cuda_home_name_different_copies() {
    let machine = two_copies().path_first(&format!("{OLD}/bin")).env("CUDA_HOME", NEW);
    let lines = check(
        "path-vs-home",
        &machine.host(),
        &[
            ("gpubuild-cuda", NEW),
            ("cmake-cuda-language", OLD),
            ("cmake-cuda-package", OLD),
            ("ggml-cuda", OLD),
            ("pytorch-cuda", NEW),
            ("cuda-pathfinder", NEW),
            ("find-cuda-helper", NEW),
            ("cudarc", "/usr/local/cuda-12.4 with the compiler of /usr/local/cuda-11.8"),
            ("bindgen-cuda", "/usr/local/cuda-12.4 with the compiler of /usr/local/cuda-11.8"),
            ("cudaforge", OLD),
            ("rust-cuda", NEW),
            ("llama-cpp-sys-2-cuda", "/usr/local/cuda-12.4 with the compiler of /usr/local/cuda-11.8"),
            ("whisper-rs-sys-cuda", "/usr/local/cuda-12.4 with the compiler of /usr/local/cuda-11.8"),
        ],
    );
    assert_eq!(lines, ["export PATH=/usr/local/cuda-12.4/bin:\"$PATH\""]);
}

#[test]
fn variable_and_default_link_name_different_copies() {
    let machine = two_copies().path_first("/usr/local/cuda/bin").env("CUDA_PATH", OLD);
    let resolutions = resolve(&machine.host());
    let lines = check(
        "path-vs-cuda-path",
        &machine.host(),
        &[
            ("gpubuild-cuda", OLD),
            ("cmake-cuda-language", NEW),
            ("cmake-cuda-package", NEW),
            ("pytorch-cuda", OLD),
            ("cuda-pathfinder", OLD),
            ("find-cuda-helper", NEW),
            ("rust-cuda", OLD),
            ("whisper-rs-sys-cuda", NEW),
        ],
    );
    assert_eq!(
        lines,
        ["export PATH=/usr/local/cuda-11.8/bin:\"$PATH\"", "export CUDA_LIBRARY_PATH=/usr/local/cuda-11.8",]
    );
    // A build system that reads no variable is listed with a workaround.
    let exceptions = &resolutions.agreements["cuda"].exceptions;
    assert_eq!(exceptions.len(), 1);
    assert_eq!(exceptions[0].id, "whisper-rs-sys-cuda");
    assert!(exceptions[0].reason.contains("does not read variables"), "{}", exceptions[0].reason);
    assert_eq!(exceptions[0].remedy.as_deref(), Some("RUSTFLAGS=\"-L native=/usr/local/cuda-11.8/lib64\""));
}

#[test]
fn toolkit_outside_path_is_found_by_some_resolvers() {
    let machine = two_copies();
    let lines = check(
        "not-on-path",
        &machine.host(),
        &[
            ("cmake-cuda-language", "failed: No CMAKE_CUDA_COMPILER could be found."),
            ("cmake-cuda-package", NEW),
            ("ggml-cuda", "failed: No CMAKE_CUDA_COMPILER could be found."),
            ("pytorch-cuda", NEW),
            ("cudaforge", NEW),
            ("cudarc", "failed: `nvcc --version` failed."),
        ],
    );
    assert!(lines.contains(&"export PATH=/usr/local/cuda-12.4/bin:\"$PATH\"".to_owned()), "{lines:?}");
}

#[test]
fn cmake_uses_the_newest_and_find_cuda_helper_the_first_copy() {
    let machine = two_copies().without("/usr/local/cuda").cuda_at("/usr/local/cuda-9.2", "9.2.148");
    check(
        "no-link",
        &machine.host(),
        &[
            ("cmake-cuda-package", NEW),
            // Sorted by name, not by version.
            ("find-cuda-helper", OLD),
            (
                "pytorch-cuda",
                "failed: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.",
            ),
            ("rust-cuda", "failed: CUDA SDK cannot be found."),
        ],
    );
}

#[test]
fn distribution_nvcc_beside_the_compiler_precedes_path() {
    // A well-known case: PATH starts with NVIDIA's toolkit, and CMake still selects /usr/bin/nvcc.
    let machine = Machine::ubuntu("22.04")
        .cuda_debian("11.5.119")
        .cuda("12.4.1")
        .program("/usr/bin/c++")
        .program("/usr/bin/cc");
    let lines = check(
        "beside",
        &machine.host(),
        &[
            ("gpubuild-cuda", NEW),
            ("cmake-cuda-language", "/usr"),
            ("cmake-cuda-package", NEW),
            ("ggml-cuda", "/usr/local/cuda-12.4 with the compiler of /usr"),
            ("bindgen-cuda", "/usr with the compiler of /usr/local/cuda-12.4"),
            ("cudarc", "/usr with the compiler of /usr/local/cuda-12.4"),
        ],
    );
    assert!(lines.contains(&"export CUDACXX=/usr/local/cuda-12.4/bin/nvcc".to_owned()), "{lines:?}");
}

#[test]
fn debian_split_package_is_missed_by_some_resolvers() {
    let machine = Machine::debian("12").cuda_debian("11.8.89").program("/usr/bin/c++").program("/usr/bin/cc");
    let host = machine.host();
    check(
        "debian-split",
        &host,
        &[
            ("cmake-cuda-language", "/usr"),
            ("cmake-cuda-package", "/usr"),
            ("pytorch-cuda", "/usr"),
            ("cudarc", "/usr"),
            ("bindgen-cuda", "/usr"),
            ("find-cuda-helper", "failed: Could not find a cuda installation"),
            (
                "llama-cpp-sys-2-cuda",
                "failed: could not find native static library `cudart_static`, perhaps an -L flag is missing?",
            ),
            ("whisper-rs-sys-cuda", "/usr"),
        ],
    );
    let exceptions = &resolve(&host).agreements["cuda"].exceptions;
    let ids: Vec<&str> = exceptions.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["find-cuda-helper", "llama-cpp-sys-2-cuda"]);
    let remedy = exceptions[1].remedy.as_deref().unwrap();
    assert!(remedy.contains("-L native=/usr/lib/x86_64-linux-gnu"), "{remedy}");
}

#[test]
fn conda_environment_shadows_the_system() {
    let prefix = "/home/user/miniforge3/envs/gpu";
    let machine = two_copies().path_first("/usr/local/cuda/bin").cuda_conda(prefix, "12.6.2");
    check(
        "conda-shadow",
        &machine.host(),
        &[
            ("gpubuild-cuda", prefix),
            ("cmake-cuda-language", prefix),
            ("cmake-cuda-package", prefix),
            ("cuda-pathfinder", prefix),
            ("pytorch-cuda", prefix),
            ("find-cuda-helper", NEW),
            (
                "whisper-rs-sys-cuda",
                "/usr/local/cuda-12.4 with the compiler of /home/user/miniforge3/envs/gpu",
            ),
        ],
    );
    // The compiler in the environment makes CMake use its nvcc, whatever is first on PATH.
    let pinned = two_copies()
        .cuda_conda(prefix, "12.6.2")
        .program(&format!("{prefix}/bin/x86_64-conda-linux-gnu-c++"))
        .env("CXX", &format!("{prefix}/bin/x86_64-conda-linux-gnu-c++"))
        .env("CUDA_HOME", NEW)
        .path_first(&format!("{NEW}/bin"));
    let lines = check(
        "conda-compiler",
        &pinned.host(),
        &[
            ("gpubuild-cuda", NEW),
            ("cmake-cuda-language", prefix),
            ("cmake-cuda-package", NEW),
            ("cuda-pathfinder", prefix),
        ],
    );
    assert!(lines.contains(&"export CUDACXX=/usr/local/cuda-12.4/bin/nvcc".to_owned()), "{lines:?}");
    let exceptions = &resolve(&pinned.host()).agreements["cuda"].exceptions;
    assert_eq!(exceptions.len(), 1, "{exceptions:?}");
    assert!(
        exceptions[0].id == "cuda-pathfinder" && exceptions[0].reason.contains("conda"),
        "{exceptions:?}"
    );
}

#[test]
fn invalid_variables_are_reported() {
    let machine = two_copies().path_first("/usr/local/cuda/bin").env("CUDA_PATH", "/usr/local/cuda-11.2");
    let host = machine.host();
    let resolutions = resolve(&host);
    check(
        "stale",
        &host,
        &[
            ("gpubuild-cuda", NEW),
            ("cmake-cuda-package", NEW),
            ("pytorch-cuda", "failed: [Errno 2] No such file or directory: '/usr/local/cuda-11.2/bin/nvcc'"),
            ("rust-cuda", NEW),
        ],
    );
    let passed = &resolutions.get("rust-cuda").unwrap().passed;
    assert_eq!(passed.len(), 1);
    assert_eq!(
        (passed[0].variable.as_str(), passed[0].value.as_str()),
        ("CUDA_PATH", "/usr/local/cuda-11.2")
    );
    assert_eq!(
        resolutions.get("pytorch-cuda").unwrap().takes.as_ref().unwrap().root.as_str(),
        "/usr/local/cuda-11.2"
    );
}

#[test]
fn cmake_before_4_2_skips_an_invalid_root_and_later_versions_fail() {
    let root = two_copies().path_first("/usr/local/cuda/bin").env("CUDAToolkit_ROOT", "/opt/gone");
    let old = root.clone().folder("/usr/share/cmake-3.28/Modules").program("/usr/bin/cmake");
    let new = root
        .folder("/usr/share/cmake-4.2/Modules")
        .without("/usr/share/cmake-3.22")
        .program("/usr/bin/cmake");
    assert_eq!(outcome(resolve(&old.host()).get("cmake-cuda-package").unwrap()), NEW);
    let failed = "failed: Could not find `nvcc` executable in path specified by environment variable CUDAToolkit_ROOT=/opt/gone";
    assert_eq!(outcome(resolve(&new.host()).get("cmake-cuda-package").unwrap()), failed);
}

#[test]
fn three_windows_copies_are_resolved_per_build_system() {
    let folder = |version: &str| format!(r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v{version}");
    let customizations = |year: &str, toolset: &str| {
        format!(
            r"C:\Program Files\Microsoft Visual Studio\{year}\Community\MSBuild\Microsoft\VC\{toolset}\BuildCustomizations"
        )
    };
    let vs = customizations("2022", "v170");
    let machine = Machine::windows("26100")
        .cuda_windows_files("11.8.0")
        .cuda_windows_files("12.6.2")
        .cuda_windows("12.4.1")
        .env("CUDA_PATH_V11_8", &folder("11.8"))
        .env("CUDA_PATH_V12_6", &folder("12.6"))
        .opaque(&format!(r"{vs}\CUDA 11.8.props"))
        .opaque(&format!(r"{vs}\CUDA 12.4.props"))
        .opaque(&format!(r"{vs}\CUDA 12.6.props"));
    let host = machine.host();
    let lines = check(
        "windows-three",
        &host,
        &[
            ("gpubuild-cuda", &folder("12.4")),
            ("cmake-cuda-language", &folder("12.4")),
            ("cmake-cuda-package", &folder("12.4")),
            ("pytorch-cuda", &folder("12.4")),
            ("visual-studio", &folder("12.6")),
            ("whisper-rs-sys-cuda", &folder("12.4")),
        ],
    );
    assert_eq!(lines, [""; 0], "no variable moves Visual Studio");
    let exceptions = &resolve(&host).agreements["cuda"].exceptions;
    assert_eq!(exceptions.len(), 1);
    assert_eq!(
        exceptions[0].remedy.as_deref(),
        Some(format!("cmake -T cuda={}, or -G Ninja in a developer prompt", folder("12.4")).as_str())
    );

    // Without variables and PATH each build system has its own rule.
    let lost = machine.clone().env("CUDA_PATH", "").env("Path", r"C:\Windows\System32");
    check(
        "windows-lost",
        &lost.host(),
        &[
            ("gpubuild-cuda", &folder("12.6")),
            ("cmake-cuda-language", "failed: No CMAKE_CUDA_COMPILER could be found."),
            ("cmake-cuda-package", &folder("12.6")),
            ("pytorch-cuda", &folder("11.8")),
            ("cudaforge", &folder("11.8")),
            ("rust-cuda", &folder("11.8")),
            ("find-cuda-helper", "failed: Could not find a cuda installation"),
            ("whisper-rs-sys-cuda", "failed: No CMAKE_CUDA_COMPILER could be found."),
        ],
    );

    // A newer Visual Studio without CUDA integration.
    let newer = machine.folder(&customizations("18", "v180"));
    check("windows-new-vs", &newer.host(), &[("visual-studio", "failed: No CUDA toolset found.")]);
}

#[test]
fn windows_programs_on_the_wsl_path_are_ignored() {
    let machine = Machine::ubuntu("24.04")
        .cuda_at(NEW, "12.4.1")
        .program("/usr/bin/c++")
        .program("/mnt/c/CUDA/v12.6/bin/nvcc.exe")
        .env("WSL_DISTRO_NAME", "Ubuntu-24.04")
        .path_first("/mnt/c/CUDA/v12.6/bin");
    // Except for CMake's package: it also searches for nvcc.exe and finds it before /usr/local/cuda-12.4.
    check(
        "wsl",
        &machine.host(),
        &[
            ("gpubuild-cuda", NEW),
            ("cmake-cuda-language", "failed: No CMAKE_CUDA_COMPILER could be found."),
            (
                "cmake-cuda-package",
                "failed: Could NOT find CUDAToolkit (missing: CUDAToolkit_INCLUDE_DIRECTORIES)",
            ),
        ],
    );
}

#[test]
fn ccache_masquerading_as_nvcc_is_skipped() {
    let machine = two_copies()
        .path_first("/usr/local/cuda/bin")
        .program("/usr/bin/ccache")
        .link("/usr/lib/ccache/nvcc", "../../bin/ccache")
        .path_first("/usr/lib/ccache");
    check("ccache", &machine.host(), &[("pytorch-cuda", NEW), ("cmake-cuda-language", NEW)]);
}

/// Adds a ROCm installation in a folder; `Machine` only has a layer for one in `/opt`.
fn rocm(
    host: gpubuild_host::recorded::RecordedHostBuilder,
    root: &str,
    version: &str,
) -> gpubuild_host::recorded::RecordedHostBuilder {
    let mut parts = version.split('.');
    let header = format!(
        "#define HIP_VERSION_MAJOR {}\n#define HIP_VERSION_MINOR {}\n",
        parts.next().unwrap(),
        parts.next().unwrap()
    );
    host.executable(&format!("{root}/bin/hipcc"))
        .executable(&format!("{root}/bin/hipconfig"))
        .executable(&format!("{root}/lib/llvm/bin/clang++"))
        .file(&format!("{root}/.info/version"), &format!("{version}-1\n"))
        .file(&format!("{root}/include/hip/hip_version.h"), &header)
        .file(&format!("{root}/include/hip/hip_runtime.h"), "")
        .opaque(&format!("{root}/lib/libamdhip64.so"))
        .file(&format!("{root}/lib/cmake/hip/hip-config.cmake"), "")
        .file(&format!("{root}/lib/cmake/hip-lang/hip-lang-config.cmake"), "")
}

#[test]
fn two_rocm_installations_are_resolved_per_build_system() {
    let builder = RecordedHost::builder(Os::Linux, Arch::X86_64)
        .env("PATH", "/opt/rocm-6.2.0/bin:/usr/bin")
        .env("HIP_PATH", "/opt/rocm-5.7.0")
        .executable("/usr/bin/c++")
        .executable("/usr/bin/cc")
        .link("/opt/rocm", "rocm-6.2.0");
    let host = rocm(rocm(builder, "/opt/rocm-6.2.0", "6.2.0"), "/opt/rocm-5.7.0", "5.7.0").build();
    let lines = check(
        "two-rocm",
        &host,
        &[
            ("gpubuild-rocm", "/opt/rocm-5.7.0"),
            ("cmake-hip-language", "/opt/rocm-5.7.0"),
            ("ggml-hip", "/opt/rocm-6.2.0 with the compiler of /opt/rocm-5.7.0"),
            ("pytorch-rocm", "/opt/rocm-6.2.0"),
            ("llama-cpp-sys-2-rocm", "/opt/rocm-5.7.0"),
            ("whisper-rs-sys-rocm", "/opt/rocm-5.7.0 with the compiler of /opt/rocm-6.2.0"),
            ("cubecl-hip-sys", "/opt/rocm-5.7.0"),
        ],
    );
    // HIP_PATH makes gpubuild select 5.7; ggml needs 6.1.
    assert!(lines.contains(&"export ROCM_PATH=/opt/rocm-5.7.0".to_owned()), "{lines:?}");
    let exceptions = &resolve(&host).agreements["rocm"].exceptions;
    assert_eq!(exceptions.len(), 1, "{exceptions:?}");
    assert!(exceptions[0].reason.contains("At least ROCM/HIP V6.1"), "{exceptions:?}");
}

#[test]
fn hipcc_is_rejected_as_hipcxx() {
    let builder = RecordedHost::builder(Os::Linux, Arch::X86_64)
        .env("PATH", "/opt/rocm/bin:/usr/bin")
        .env("HIPCXX", "/opt/rocm/bin/hipcc")
        .link("/opt/rocm", "rocm-6.2.0");
    let host = rocm(builder, "/opt/rocm-6.2.0", "6.2.0").build();
    let failed = resolve(&host);
    let error = failed.get("cmake-hip-language").unwrap().error.clone().unwrap();
    assert!(error.starts_with("The HIPCXX environment variable is set to the hipcc wrapper:"), "{error}");
    let lines = check("hipcxx", &host, &[]);
    assert_eq!(lines, ["export HIPCXX=/opt/rocm-6.2.0/lib/llvm/bin/clang++"]);
}

#[test]
fn invalid_vulkan_sdk_is_skipped() {
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
        .env("PATH", "/usr/bin")
        .env("VULKAN_SDK", "/home/user/VulkanSDK/1.3.250.0")
        .directory("/home/user/VulkanSDK/1.3.250.0")
        .file("/usr/include/vulkan/vulkan.h", "")
        .executable("/usr/bin/glslc")
        .opaque("/usr/lib/x86_64-linux-gnu/libvulkan.so")
        .build();
    let resolutions = resolve(&host);
    let cmake = resolutions.get("cmake-vulkan").unwrap();
    assert_eq!(outcome(cmake), "/usr");
    assert_eq!(cmake.passed.len(), 1);
    assert_eq!(cmake.passed[0].variable, "VULKAN_SDK");
    let text = check_text("vulkan-sdk", &host);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("`VULKAN_SDK` names no usable copy"), "{text}");
    check_lines("vulkan-sdk", &host);
}

#[test]
fn vulkan_sdk_variable_precedes_the_distribution() {
    let sdk = "/home/user/VulkanSDK/1.3.296.0/x86_64";
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
        .env("PATH", "/usr/bin")
        .env("VULKAN_SDK", sdk)
        .file("/usr/include/vulkan/vulkan.h", "")
        .executable("/usr/bin/glslc")
        .file(&format!("{sdk}/include/vulkan/vulkan.h"), "")
        .executable(&format!("{sdk}/bin/glslc"))
        .opaque(&format!("{sdk}/lib/libvulkan.so"))
        .build();
    let lines = check(
        "vulkan-two",
        &host,
        &[
            ("gpubuild-vulkan", sdk),
            ("cmake-vulkan", sdk),
            ("llama-cpp-sys-2-vulkan", sdk),
            ("whisper-rs-sys-vulkan", sdk),
        ],
    );
    assert_eq!(lines, [""; 0]);
}

#[test]
fn oneapi_needs_setvars() {
    let root = "/opt/intel/oneapi/compiler/2025.1";
    let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
        .env("PATH", "/usr/bin")
        .executable(&format!("{root}/bin/icpx"))
        .executable(&format!("{root}/bin/icx"))
        .file("/opt/intel/oneapi/setvars.sh", "")
        .link("/opt/intel/oneapi/compiler/latest", "2025.1")
        .build();
    let lines = check(
        "oneapi",
        &host,
        &[(
            "cmake-icpx",
            "failed: The CMAKE_CXX_COMPILER:   icpx is not a full path and was not found in the PATH.",
        )],
    );
    assert_eq!(lines, [". /opt/intel/oneapi/setvars.sh"]);
}

#[test]
fn hostile_names_are_escaped_for_terminal_and_shell() {
    let evil = "/opt/cuda$(reboot)`id`'\"";
    let machine =
        two_copies().cuda_at(evil, "12.5.0").env("CUDA_HOME", evil).path_first("/usr/local/cuda/bin");
    let lines = check("hostile", &machine.host(), &[("gpubuild-cuda", evil), ("pytorch-cuda", evil)]);
    assert!(lines.iter().any(|line| line.contains(r#"'/opt/cuda$(reboot)`id`'\''"'"#)), "{lines:?}");
    // Names with invisible characters are not printed at all.
    let evil = "/opt/cuda\u{1b}[2J";
    let machine =
        two_copies().cuda_at(evil, "12.5.0").env("CUDA_HOME", evil).path_first("/usr/local/cuda/bin");
    let text = check_text("invisible", &machine.host());
    assert!(!text.contains('\u{1b}') && !text.contains("export"), "{text:?}");
}
