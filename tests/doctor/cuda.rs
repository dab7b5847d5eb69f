//! CUDA: toolkit detection and compilation.

use gpubuild_core::Backend;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_host::{Arch, Os};

use super::machine::{self, Machine};
use super::{check, check_asked, check_recording, diagnose, healthy, ids, lines};

/// Checks a healthy host whose first finding is a note.
fn check_note(name: &str, machine: &Machine, id: &str) -> Vec<Finding> {
    let findings = healthy(name, machine);
    let first = ids(&findings, Severity::Info).first().map(|id| (*id).to_owned());
    assert_eq!(first.as_deref(), Some(id), "{name}:\n{}", lines(&findings));
    findings
}

/// The commands of the first finding.
fn commands(findings: &[Finding]) -> Vec<&str> {
    findings[0].remedy.commands.iter().map(String::as_str).collect()
}

fn folded(findings: &[Finding]) -> Vec<&str> {
    findings[0].consequences.iter().map(|one| one.id.as_str()).collect()
}

#[test]
fn cudacxx_accepts_names_and_other_compilers() {
    let machine = Machine::ubuntu("24.04")
        .nvidia(machine::RTX_4070, "570.133.07")
        .cuda("12.8.1")
        .program("/usr/lib/llvm-18/bin/clang++")
        .link("/usr/bin/clang++-18", "/usr/lib/llvm-18/bin/clang++");
    for value in ["nvcc", "/usr/bin/clang++-18", "clang++-18", "/usr/local/cuda/bin/nvcc -ccbin g++-13"] {
        let findings = diagnose(&machine.clone().env("CUDACXX", value), None);
        assert!(ids(&findings, Severity::Warning).is_empty(), "{value}:\n{}", lines(&findings));
    }
    let gone = diagnose(&machine.env("CUDACXX", "/usr/local/cuda-12.4/bin/nvcc"), None);
    assert_eq!(ids(&gone, Severity::Warning), ["cuda.toolkit.root-invalid"]);
}

#[test]
fn installed_toolkit_is_not_a_fault() {
    const INSTALLED: &str = "/home/user/.cache/gpubuild/toolkits/cuda-12.8";
    let seal = &format!("{INSTALLED}/installed.json");
    let own = |machine: Machine| {
        machine.env("HOME", "/home/user").cuda_at(&format!("{INSTALLED}/prefix"), "12.8.1").file(seal, "{}")
    };
    let machine = own(Machine::ubuntu("24.04").nvidia(machine::RTX_4070, "570.133.07"));
    let findings = check_note("cuda-own", &machine, "cuda.toolkit.not-on-path");
    assert_eq!(commands(&findings), ["eval \"$(gpubuild toolkit env cuda)\""]);
    // Beside a system toolkit it is a choice, not a fault; a partial installation is ignored.
    let beside = diagnose(&machine.clone().cuda("12.4.1"), None);
    assert!(ids(&beside, Severity::Warning).is_empty(), "{}", lines(&beside));
    let half = diagnose(&machine.without(seal), Some(&[Backend::Cuda]));
    assert_eq!(ids(&half, Severity::Error), ["cuda.toolkit.runtime-only"]);
}

/// The host after running the commands of the first finding in its shell.
fn after_fix(machine: Machine, findings: &[Finding]) -> Machine {
    commands(findings).iter().fold(machine, |machine, line| {
        let assignments = line.split(' ').filter_map(|part| part.split_once('='));
        match line.split_once(' ') {
            Some(("export", _)) => assignments.fold(machine, |machine, (name, value)| {
                let value = value.replace(['"', '\''], "");
                match (name, value.strip_suffix(":$PATH")) {
                    ("PATH", Some(folder)) => machine.path_first(folder),
                    _ => machine.env(name, &value.replace(":$LIBRARY_PATH", "")),
                }
            }),
            Some(("unset", name)) => machine.without_env(name),
            _ => panic!("not a shell command: {line}"),
        }
    })
}

/// Checks that the remedy works: the finding disappears and no other appears.
fn fix_works(machine: Machine, findings: &[Finding]) {
    let after = diagnose(&after_fix(machine, findings), None);
    assert!(ids(&after, Severity::Warning).is_empty(), "{:?}\n{}", commands(findings), lines(&after));
}

/// An ARM server with an NVIDIA GPU: Ubuntu, driver, GCC.
fn arm_server() -> Machine {
    let mut machine = Machine::new(Os::Linux, Arch::Aarch64)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/home/user")
        .file(
            "/etc/os-release",
            "PRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n",
        )
        .file("/usr/include/features.h", "#define\t__GLIBC__\t2\n#define\t__GLIBC_MINOR__\t35\n")
        .opaque("/lib/aarch64-linux-gnu/libc.so.6")
        .kernel("6.5.0-1019-nvidia-64k")
        .program("/usr/bin/aarch64-linux-gnu-gcc-11")
        .program("/usr/bin/aarch64-linux-gnu-g++-11")
        .link("/usr/bin/gcc", "aarch64-linux-gnu-gcc-11")
        .link("/usr/bin/g++", "aarch64-linux-gnu-g++-11")
        .program("/usr/bin/cmake")
        .folder("/usr/share/cmake-3.22/Modules")
        .program("/usr/bin/ninja");
    "/usr/lib/aarch64-linux-gnu".clone_into(&mut machine.lib);
    machine.nvidia(machine::H100, "550.144.03")
}

/// WSL 2 with Ubuntu and an NVIDIA GPU: Windows provides the driver libraries.
fn wsl() -> Machine {
    Machine::ubuntu("22.04")
        .wsl()
        .opaque("/usr/lib/wsl/lib/libcuda.so.1.1")
        .link("/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1.1")
        .program("/usr/lib/wsl/lib/nvidia-smi")
        .nvidia_answers(machine::RTX_4070, "572.83")
}

/// NixOS: everything is below `/nix/store`, the driver in `/run/opengl-driver`.
fn nixos() -> Machine {
    let store = "/nix/store/3jh2ab0c-cuda-merged-12.8";
    let gcc = "/nix/store/9xk1p0aa-gcc-wrapper-13.3.0";
    Machine::new(Os::Linux, Arch::X86_64)
        .env("PATH", "/run/current-system/sw/bin")
        .env("HOME", "/home/user")
        .env("CUDA_PATH", store)
        .file("/etc/os-release", "PRETTY_NAME=\"NixOS 25.05 (Warbler)\"\nID=nixos\nVERSION_ID=\"25.05\"\n")
        .kernel("6.12.30")
        .nvidia_card(machine::RTX_4090, Some("nvidia"))
        .nvidia_module("570.153.02", true)
        .nvidia_libraries_in("/run/opengl-driver/lib", "570.153.02")
        .program("/run/current-system/sw/bin/nvidia-smi")
        .nvidia_nodes()
        .nvidia_answers(machine::RTX_4090, "570.153.02")
        .cuda_at(store, "12.8.1")
        .link("/run/current-system/sw/bin/nvcc", &format!("{store}/bin/nvcc"))
        .program(&format!("{gcc}/bin/gcc"))
        .program(&format!("{gcc}/bin/g++"))
        .link("/run/current-system/sw/bin/gcc", &format!("{gcc}/bin/gcc"))
        .link("/run/current-system/sw/bin/g++", &format!("{gcc}/bin/g++"))
        .command(
            &["gcc", "--version"],
            "gcc (GCC) 13.3.0\nCopyright (C) 2023 Free Software Foundation, Inc.\n",
        )
        .program("/run/current-system/sw/bin/cmake")
        .program("/run/current-system/sw/bin/ninja")
}

/// A CI job without a GPU, in NVIDIA's development image.
fn builder(version: &str) -> Machine {
    Machine::ubuntu("22.04").docker().cuda(version).env("CUDA_VERSION", version).env("CI", "true")
}

fn windows_11() -> Machine {
    Machine::windows("26100").nvidia_windows(machine::RTX_4070, "572.83").visual_studio("14.43.34808")
}

// Toolkit detection.

#[test]
fn toolkit_not_on_path_is_diagnosed() {
    let machine = Machine::ubuntu("24.04")
        .nvidia(machine::RTX_4070, "560.35.05")
        .cuda_at("/usr/local/cuda-12.6", "12.6.3")
        .link("/usr/local/cuda", "/usr/local/cuda-12.6");
    let findings = check("cuda.toolkit.not-on-path", &machine, &["cuda.toolkit.not-on-path"]);
    assert_eq!(folded(&findings), ["cuda.language-vs-package"]);
    assert_eq!(
        commands(&findings),
        [
            "export CUDA_HOME=/usr/local/cuda CUDA_PATH=/usr/local/cuda",
            "export PATH=/usr/local/cuda/bin:$PATH"
        ]
    );
    fix_works(machine, &findings);
}

#[test]
fn unread_login_profile_is_diagnosed() {
    let machine = Machine::arch_linux()
        .nvidia(machine::RTX_4090, "575.57.08")
        .cuda_at("/opt/cuda", "12.9.1")
        .file("/etc/profile.d/cuda.sh", "export CUDA_PATH=/opt/cuda\n");
    let findings = check("cuda.toolkit.not-on-path-login", &machine, &["cuda.toolkit.not-on-path"]);
    assert_eq!(commands(&findings), ["source /etc/profile.d/cuda.sh"]);
    assert_eq!(findings[0].remedy.needs, ["relogin"]);
}

#[test]
fn cmake_package_without_language_is_diagnosed() {
    let root = "/opt/nvidia/cuda-12.4";
    let machine = Machine::rhel_like("rocky", "9")
        .nvidia(machine::A100, "550.144.03")
        .cuda_at(root, "12.4.1")
        .env("CUDAToolkit_ROOT", root);
    let findings = check("cuda.language-vs-package", &machine, &["cuda.language-vs-package"]);
    assert_eq!(commands(&findings), [format!("export CUDACXX={root}/bin/nvcc")]);
    fix_works(machine, &findings);
}

#[test]
fn driver_and_pip_runtime_are_not_a_toolkit() {
    let site = "/home/user/.local/lib/python3.12/site-packages";
    let machine = Machine::fedora("41")
        .nvidia(machine::RTX_3060, "570.133.07")
        .opaque(&format!("{site}/nvidia/cuda_runtime/lib/libcudart.so.12"));
    let findings = check("cuda.toolkit.runtime-only", &machine, &["cuda.toolkit.runtime-only"]);
    assert!(findings[0].summary.contains("runs CUDA up to 12.8"), "{}", findings[0].summary);
    assert_eq!(folded(&findings), ["cuda.toolkit.missing"]);
    assert_eq!(
        commands(&findings),
        [
            "sudo dnf config-manager addrepo --from-repofile=https://developer.download.nvidia.com/compute/cuda/repos/fedora41/x86_64/cuda-fedora41.repo",
            "sudo dnf install cuda-toolkit-12-8"
        ]
    );
}

#[test]
fn runtime_image_is_not_a_toolkit() {
    let machine = Machine::ubuntu("22.04")
        .docker()
        .nvidia(machine::L4, "535.216.01")
        .opaque("/usr/local/cuda-12.2/lib64/libcudart.so.12")
        .link("/usr/local/cuda", "cuda-12.2");
    let findings = check("cuda.toolkit.runtime-only-image", &machine, &["cuda.toolkit.runtime-only"]);
    let commands = commands(&findings);
    assert_eq!(commands.last(), Some(&"apt-get install cuda-toolkit-12-2"), "{commands:?}");
}

#[test]
fn requested_missing_toolkit_is_diagnosed() {
    let asked = Some(&[Backend::Cuda][..]);
    let machine = Machine::debian("12");
    let findings = check_asked(
        "cuda.toolkit.missing",
        &machine,
        asked,
        &["cuda.toolkit.missing", "cuda.hardware.absent"],
    );
    assert_eq!(commands(&findings), ["sudo apt install nvidia-cuda-toolkit"]);
    let alpine = Machine::alpine();
    let expected = ["cuda.toolkit.missing", "cuda.hardware.absent"];
    let findings = check_asked("cuda.toolkit.missing-musl", &alpine, asked, &expected);
    assert!(findings[0].remedy.text.contains("glibc"), "{}", findings[0].remedy.text);
    let mac = Machine::mac("15.5");
    check_asked("cuda.platform", &mac, asked, &["cuda.platform"]);
}

#[test]
fn compiler_without_headers_is_diagnosed() {
    let machine = Machine::debian("12")
        .nvidia(machine::RTX_3060, "535.216.01")
        .gcc_beside(11)
        .cuda_compiler("/usr", "11.8.0")
        .program("/usr/lib/nvidia-cuda-toolkit/bin/nvcc");
    let findings = check("cuda.toolkit.headers-missing", &machine, &["cuda.toolkit.headers-missing"]);
    assert_eq!(commands(&findings), ["sudo apt install nvidia-cuda-dev"]);
}

#[test]
fn debian_split_package_is_diagnosed() {
    let machine =
        Machine::debian("12").nvidia(machine::RTX_3060, "535.216.01").gcc_beside(11).cuda_debian("11.8.0");
    let findings = healthy("healthy-debian-12-split", &machine);
    assert_eq!(findings[0].id, "cuda.toolkit.debian-split");
    assert_eq!(commands(&findings[..1]), ["export CUDA_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu"]);
    // A variable that names `/usr` as a single folder finds nothing there.
    let folder = machine.env("CUDA_HOME", "/usr/lib/cuda");
    check("cuda.toolkit.debian-split", &folder, &["cuda.toolkit.debian-split"]);
}

#[test]
fn debian_folder_without_headers_is_diagnosed() {
    let machine = Machine::ubuntu("24.04")
        .nvidia(machine::RTX_3060, "550.144.03")
        .gcc_beside(12)
        .cuda_debian("12.0.1")
        .env("CUDA_HOME", "/usr/lib/cuda");
    let findings = check("cuda.toolkit.debian-split-variable", &machine, &["cuda.toolkit.debian-split"]);
    assert_eq!(findings[0].severity, Severity::Error);
    fix_works(machine, &findings);
}

#[test]
fn disagreeing_toolkit_choices_are_diagnosed() {
    let machine = Machine::ubuntu("22.04")
        .nvidia(machine::RTX_3090, "550.144.03")
        .cuda("12.4.1")
        .cuda_at("/usr/local/cuda-11.8", "11.8.0")
        .path_first("/usr/local/cuda-11.8/bin")
        .env("CUDA_HOME", "/usr/local/cuda");
    let findings = check("cuda.toolkit.multiple", &machine, &["cuda.toolkit.multiple"]);
    let summary = &findings[0].summary;
    assert!(summary.contains("PATH leads to CUDA 11.8") && summary.contains("CUDA 12.4"), "{summary}");
    assert_eq!(commands(&findings), ["export PATH=/usr/local/cuda-12.4/bin:\"$PATH\""]);
    fix_works(machine, &findings);
}

#[test]
fn stale_cuda_path_on_windows_is_diagnosed() {
    let machine = windows_11().cuda_windows_files("12.6.2").visual_studio_cuda("12.6");
    let findings = check("cuda.toolkit.win-cuda-path", &machine, &["cuda.toolkit.win-cuda-path"]);
    assert!(folded(&findings).contains(&"cuda.language-vs-package"), "{findings:?}");
    let root = r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.2";
    let gone = windows_11().cuda_windows("12.6.2").visual_studio_cuda("12.6").env("CUDA_PATH", root);
    let findings = check("cuda.toolkit.win-cuda-path-gone", &gone, &["cuda.toolkit.win-cuda-path"]);
    assert_eq!(
        commands(&findings),
        [r"setx CUDA_PATH 'C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.6'"]
    );
    let older = windows_11()
        .cuda_windows("12.8.1")
        .cuda_windows("12.5.1")
        .visual_studio_cuda("12.8")
        .visual_studio_cuda("12.5");
    check("cuda.toolkit.win-cuda-path-newer", &older, &["cuda.toolkit.win-cuda-path"]);
}

#[test]
fn visual_studio_without_cuda_integration_is_diagnosed() {
    let machine = windows_11().cuda_windows("12.6.2");
    let findings = check("cuda.toolkit.vs-integration", &machine, &["cuda.toolkit.vs-integration"]);
    assert!(commands(&findings)[0].starts_with("Copy-Item 'C:"), "{findings:?}");
    healthy("healthy-windows-11-ninja", &machine.env("CMAKE_GENERATOR", "Ninja").path_first(
        r"C:\Program Files\Microsoft Visual Studio\2022\Community\VC\Tools\MSVC\14.43.34808\bin\Hostx64\x64",
    ));
}

#[test]
fn conda_toolkit_without_headers_is_diagnosed() {
    let prefix = "/home/user/miniforge3/envs/build";
    let bare = Machine::opensuse("tumbleweed")
        .nvidia(machine::RTX_4070, "570.133.07")
        .env("CONDA_PREFIX", prefix)
        .path_first(&format!("{prefix}/bin"))
        .cuda_compiler(prefix, "12.8.1");
    let findings = check("cuda.toolkit.conda-layout", &bare, &["cuda.toolkit.conda-layout"]);
    assert_eq!(folded(&findings), ["cuda.toolkit.headers-missing"]);
    let named = Machine::opensuse("tumbleweed")
        .nvidia(machine::RTX_4070, "570.133.07")
        .cuda_conda(prefix, "12.8.1")
        .env("CUDA_HOME", prefix);
    let findings = check("cuda.toolkit.conda-layout-variable", &named, &["cuda.toolkit.conda-layout"]);
    fix_works(named, &findings);
    let plain =
        Machine::opensuse("tumbleweed").nvidia(machine::RTX_4070, "570.133.07").cuda_conda(prefix, "12.8.1");
    check_note("cuda.toolkit.conda-layout-note", &plain, "cuda.toolkit.conda-layout");
}

#[test]
fn conda_toolkit_shadowing_the_system_is_diagnosed() {
    let machine = Machine::ubuntu("22.04")
        .nvidia(machine::RTX_3090, "570.133.07")
        .cuda("11.8.0")
        .cuda_conda("/home/user/miniforge3/envs/ml", "12.6.2");
    let findings = check("cuda.toolkit.conda-shadow", &machine, &["cuda.toolkit.conda-shadow"]);
    assert!(
        findings[0].summary.contains("12.6") && findings[0].summary.contains("11.8"),
        "{}",
        findings[0].summary
    );
    fix_works(machine, &findings);
}

#[test]
fn variables_without_a_toolkit_are_diagnosed() {
    let machine = Machine::fedora("41")
        .nvidia(machine::RTX_4070, "570.133.07")
        .cuda("12.8.1")
        .env("CUDA_HOME", "/usr/local/cuda-12.4");
    let findings = check("cuda.toolkit.root-invalid", &machine, &["cuda.toolkit.root-invalid"]);
    assert_eq!(commands(&findings), ["export CUDA_HOME=/usr/local/cuda"]);
    fix_works(machine, &findings);
    let bin = Machine::arch_linux()
        .nvidia(machine::RTX_4090, "575.57.08")
        .cuda_at("/opt/cuda", "12.9.1")
        .path_first("/opt/cuda/bin")
        .env("CUDA_PATH", "/opt/cuda/bin");
    let findings = check("cuda.toolkit.root-invalid-bin", &bin, &["cuda.toolkit.root-invalid"]);
    assert_eq!(commands(&findings), ["export CUDA_PATH=/opt/cuda"]);
    fix_works(bin, &findings);
    // A runfile installation of which only the headers are left.
    let half = Machine::ubuntu("22.04")
        .nvidia(machine::RTX_3090, "550.144.03")
        .cuda("12.4.1")
        .cuda_headers("/opt/cuda-12.2/include", "12.2.2")
        .env("CUDA_HOME", "/opt/cuda-12.2");
    let findings = check("cuda.toolkit.root-invalid-half", &half, &["cuda.toolkit.root-invalid"]);
    assert!(findings[0].summary.ends_with("it has no compiler"), "{}", findings[0].summary);
    fix_works(half, &findings);
    let none =
        Machine::debian("12").nvidia(machine::RTX_3060, "535.216.01").env("CUDA_PATH", "/opt/cuda-11.2");
    let findings = check("cuda.toolkit.root-invalid-none", &none, &["cuda.toolkit.root-invalid"]);
    assert_eq!(commands(&findings), ["unset CUDA_PATH", "sudo apt install nvidia-cuda-toolkit"]);
}

#[test]
fn arm_server_target_folders_are_diagnosed() {
    let root = "/usr/local/cuda-12.4";
    let machine = arm_server()
        .cuda_headers(&format!("{root}/targets/sbsa-linux/include"), "12.4.1")
        .link(&format!("{root}/include"), "targets/sbsa-linux/include")
        .cuda_compiler(root, "12.4.1")
        .opaque(&format!("{root}/targets/sbsa-linux/lib/libcudart_static.a"))
        .opaque(&format!("{root}/targets/sbsa-linux/lib/libcublas.so"))
        .opaque(&format!("{root}/targets/sbsa-linux/lib/stubs/libcuda.so"))
        .link("/usr/local/cuda", "cuda-12.4")
        .path_first("/usr/local/cuda/bin");
    let findings = check("cuda.toolkit.sbsa", &machine, &["cuda.toolkit.sbsa"]);
    fix_works(machine.clone(), &findings);
    healthy("healthy-ubuntu-22.04-gh200", &machine.link(&format!("{root}/lib64"), "targets/sbsa-linux/lib"));
}

#[test]
fn missing_driver_stub_is_diagnosed() {
    let machine = Machine::rhel_like("almalinux", "9")
        .podman()
        .cuda("12.4.1")
        .without("/usr/local/cuda-12.4/lib64/stubs");
    let findings = check("cuda.stub-missing", &machine, &["cuda.stub-missing"]);
    assert_eq!(commands(&findings), ["dnf install cuda-driver-devel-12-4"]);
}

#[test]
fn driver_stub_at_run_time_is_diagnosed() {
    let stubs = "/usr/local/cuda/lib64/stubs";
    let machine = Machine::ubuntu("20.04")
        .nvidia(machine::T4, "525.147.05")
        .cuda("11.8.0")
        .link("/usr/local/cuda-11.8/lib64/stubs/libcuda.so.1", "libcuda.so")
        .env("LD_LIBRARY_PATH", &format!("/usr/local/cuda/lib64:{stubs}"));
    let findings = check("cuda.stub-at-runtime", &machine, &["cuda.stub-at-runtime"]);
    assert_eq!(commands(&findings), ["export LD_LIBRARY_PATH=/usr/local/cuda/lib64"]);
    fix_works(machine, &findings);
}

// Compilers.

#[test]
fn gcc_too_new_for_nvcc_is_diagnosed() {
    let machine = Machine::ubuntu("24.04").nvidia(machine::RTX_3060, "535.216.01").cuda("12.0.1");
    let findings = check("cuda.host.gcc-too-new", &machine, &["cuda.host.gcc-too-new"]);
    assert_eq!(
        commands(&findings),
        ["sudo apt install gcc-12 g++-12", "export NVCC_CCBIN=/usr/bin/g++-12 CUDAHOSTCXX=/usr/bin/g++-12"]
    );
    assert!(findings[0].evidence.iter().any(|one| one.place.ends_with("host_config.h")), "{findings:?}");
    // The distribution has no older compiler, so the remedy is another toolkit.
    let fedora = Machine::fedora("41").nvidia(machine::RTX_4070, "570.133.07").cuda("12.4.1");
    let findings = check("cuda.host.gcc-too-new-toolkit", &fedora, &["cuda.host.gcc-too-new"]);
    assert_eq!(commands(&findings).last(), Some(&"sudo dnf install cuda-toolkit-12-8"));
}

#[test]
fn supported_gcc_is_suggested() {
    let machine = Machine::debian("12").nvidia(machine::RTX_3060, "535.216.01").gcc_beside(11).cuda("11.8.0");
    let findings = check("cuda.host.gcc-too-new-beside", &machine, &["cuda.host.gcc-too-new"]);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(commands(&findings), ["export NVCC_CCBIN=/usr/bin/g++-11 CUDAHOSTCXX=/usr/bin/g++-11"]);
    fix_works(machine.clone(), &findings);
    healthy("healthy-debian-12-ccbin", &machine.clone().env("NVCC_CCBIN", "/usr/bin/g++-11"));
    let named = machine.gcc(11).gcc_beside(12).env("CUDAHOSTCXX", "/usr/bin/g++-12");
    let findings = check("cuda.host.gcc-too-new-named", &named, &["cuda.host.gcc-too-new"]);
    assert!(findings[0].summary.contains("`CUDAHOSTCXX` names GCC 12"), "{}", findings[0].summary);
    fix_works(named, &findings);
}

#[test]
fn facts_from_programs_are_used() {
    let machine = Machine::new(Os::Linux, Arch::X86_64)
        .env("PATH", "/usr/bin:/opt/gnu/bin:/usr/local/cuda/bin")
        .file("/etc/os-release", "ID=gentoo\nPRETTY_NAME=\"Gentoo Linux\"\n")
        .kernel("6.6.58-gentoo")
        .nvidia(machine::RTX_3090, "550.144.03")
        .program("/usr/local/cuda/bin/nvcc")
        .opaque("/usr/local/cuda/include/cuda_runtime.h")
        .opaque("/usr/local/cuda/lib64/libcudart_static.a")
        .opaque("/usr/local/cuda/lib64/stubs/libcuda.so")
        .command(
            &["nvcc", "--version"],
            "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2024 NVIDIA Corporation\nCuda compilation tools, release 12.4, V12.4.131\n",
        )
        .program("/opt/gnu/bin/gcc")
        .program("/opt/gnu/bin/g++")
        .command(&["gcc", "--version"], "gcc (Gentoo 14.2.1_p20241221 p7) 14.2.1 20241221\n");
    check("cuda.host.gcc-too-new-probed", &machine, &["cuda.host.gcc-too-new"]);
}

#[test]
fn clang_too_new_for_nvcc_is_diagnosed() {
    let machine = Machine::debian("12")
        .without_compiler()
        .nvidia(machine::RTX_4070, "535.216.01")
        .cuda("12.1.1")
        .program("/usr/lib/llvm-16/bin/clang")
        .program("/usr/lib/llvm-16/bin/clang++")
        .opaque("/usr/lib/llvm-16/lib/libclang-16.so.16")
        .link("/usr/bin/clang-16", "/usr/lib/llvm-16/bin/clang")
        .link("/usr/bin/clang++-16", "/usr/lib/llvm-16/bin/clang++");
    check("cuda.host.clang-window", &machine, &["cuda.host.clang-window"]);
}

#[test]
fn visual_studio_too_new_for_nvcc_is_diagnosed() {
    let machine = Machine::windows("19045")
        .nvidia_windows(machine::RTX_3060, "551.61")
        .visual_studio("14.41.34120")
        .cuda_windows("12.2.2")
        .visual_studio_cuda("12.2");
    let findings = check("cuda.host.msvc-window", &machine, &["cuda.host.msvc-window"]);
    assert!(findings[0].summary.contains("1910 to 1939"), "{}", findings[0].summary);
    assert_eq!(commands(&findings), ["winget install --id Nvidia.CUDA --version 12.4"]);
    let beside =
        machine.visual_studio_at(r"C:\Program Files\Microsoft Visual Studio\2022\BuildTools", "14.38.33130");
    let beside = beside.file(
        r"C:\Program Files\Microsoft Visual Studio\2022\BuildTools\MSBuild\Microsoft\VC\v170\BuildCustomizations\CUDA 12.2.props",
        "<Project/>\n",
    );
    let findings = check("cuda.host.msvc-window-beside", &beside, &["cuda.host.msvc-window"]);
    assert_eq!(commands(&findings), ["cmake -T v143,version=14.38 ..."]);
}

#[test]
fn nvcc_without_msvc_is_diagnosed() {
    let machine =
        Machine::windows("22631").nvidia_windows(machine::RTX_4070, "572.83").cuda_windows("12.8.1");
    let findings = check("cuda.host.cl-missing", &machine, &["cuda.host.cl-missing"]);
    assert_eq!(folded(&findings), ["cpu.compiler-missing"]);
    let installed = windows_11().cuda_windows("12.6.2").visual_studio_cuda("12.6");
    check_note("cuda.host.cl-missing-prompt", &installed, "cuda.host.cl-missing");
    let ninja = installed.env("CMAKE_GENERATOR", "Ninja");
    let findings = check("cuda.host.cl-missing-ninja", &ninja, &["cuda.host.cl-missing"]);
    assert!(commands(&findings)[0].ends_with(r"VC\Auxiliary\Build\vcvars64.bat'"), "{findings:?}");
}

#[test]
fn compilers_of_msys2_are_not_host_compilers() {
    let bin = r"C:\msys64\ucrt64\bin";
    let shell = |machine: Machine| {
        machine
            .env("MSYSTEM", "UCRT64")
            .path_first(bin)
            .program(&format!(r"{bin}\gcc.exe"))
            .program(&format!(r"{bin}\g++.exe"))
    };
    let card = Machine::windows("22631").nvidia_windows(machine::RTX_4070, "572.83").cuda_windows("12.8.1");
    let findings = check("cuda.host.cl-missing-mingw", &shell(card), &["cuda.host.cl-missing"]);
    assert!(findings[0].summary.contains(r"ucrt64\bin\g++.exe"), "{}", findings[0].summary);
    assert!(commands(&findings)[0].contains("BuildTools"), "{findings:?}");
    // With Visual Studio, the shell lacks the PATH of its developer prompt.
    let installed = shell(windows_11().cuda_windows("12.6.2").visual_studio_cuda("12.6"));
    let findings = check("cuda.host.cl-missing-msys2", &installed, &["cuda.host.cl-missing"]);
    assert!(findings[0].summary.contains("MSYS2"), "{}", findings[0].summary);
    assert!(commands(&findings).iter().any(|one| one.contains("MSYS2_PATH_TYPE")), "{findings:?}");
    let named = installed.env("CUDAHOSTCXX", r"C:\msys64\ucrt64\bin\g++.exe");
    let findings = check("cuda.host.cl-missing-named", &named, &["cuda.host.cl-missing"]);
    assert_eq!(commands(&findings), ["Remove-Item Env:CUDAHOSTCXX"]);
}

#[test]
fn glibc_too_new_for_cuda_headers_is_diagnosed() {
    let machine = Machine::debian("13").nvidia(machine::RTX_4090, "580.95.05").cuda("12.8.1");
    let findings = check("cuda.host.glibc", &machine, &["cuda.host.glibc"]);
    assert_eq!(commands(&findings).last(), Some(&"sudo apt-get install cuda-toolkit-13-0"));
    let old = Machine::debian("13")
        .nvidia(machine::RTX_3090, "535.216.01")
        .cuda("12.2.2")
        .gcc_beside(12)
        .env("NVCC_CCBIN", "g++-12");
    let findings = check("cuda.host.glibc-old-driver", &old, &["cuda.host.glibc"]);
    assert!(findings[0].remedy.text.contains("CUDA 13.0 with driver 580 or newer"), "{findings:?}");
    let header = "/usr/local/cuda-12.8/include/crt/math_functions.h";
    let mended = machine.file(header, "extern double cospi(double x) noexcept (true);\n");
    healthy("healthy-debian-13-fixed", &mended);
    let newer = Machine::ubuntu("25.10").nvidia(machine::RTX_5070, "580.95.05").cuda("13.0.2");
    check("cuda.host.glibc-2.42", &newer, &["cuda.host.glibc"]);
    healthy(
        "healthy-debian-13-cuda-13",
        &Machine::debian("13").nvidia(machine::RTX_5070, "580.95.05").cuda("13.0.2"),
    );
}

// Architectures.

#[test]
fn gpu_too_new_for_toolkit_is_diagnosed() {
    let machine = Machine::ubuntu("22.04").nvidia(machine::RTX_5090, "570.133.07").cuda("12.4.1");
    let findings = check("cuda.arch.too-new-for-toolkit", &machine, &["cuda.arch.too-new-for-toolkit"]);
    assert_eq!(commands(&findings).last(), Some(&"sudo apt-get install cuda-toolkit-12-8"));
    // The package of the distribution is too old for the GPU, so the remedy is NVIDIA's package.
    let debian =
        Machine::debian("12").nvidia(machine::RTX_5070, "570.133.07").gcc_beside(11).cuda_debian("11.8.0");
    let findings = check("cuda.arch.too-new-for-toolkit-debian", &debian, &["cuda.arch.too-new-for-toolkit"]);
    assert_eq!(folded(&findings), ["cuda.toolkit.debian-split"]);
    assert!(commands(&findings)[0].contains("/repos/debian12/x86_64/cuda-keyring"), "{findings:?}");
    let named = builder("12.4.1").env("CUDAARCHS", "90;120");
    check("cuda.arch.too-new-for-toolkit-named", &named, &["cuda.arch.too-new-for-toolkit"]);
}

#[test]
fn gpu_dropped_by_toolkit_is_diagnosed() {
    let machine = Machine::rhel_like("rocky", "9").nvidia(machine::V100, "580.95.05").cuda("13.0.2");
    let findings = check("cuda.arch.dropped-by-toolkit", &machine, &["cuda.arch.dropped-by-toolkit"]);
    assert_eq!(commands(&findings).last(), Some(&"sudo dnf install cuda-toolkit-12-9"));
    let two = Machine::ubuntu("24.04")
        .nvidia(machine::RTX_3090, "580.95.05")
        .nvidia_module("580.95.05", false)
        .nvidia_card_at("0000:02:00.0", machine::GTX_1080, Some("nvidia"))
        .nvidia_information("0000:02:00.0", machine::GTX_1080)
        .without_probe("cuda")
        .cuda("13.0.2");
    let findings = check("cuda.arch.dropped-by-toolkit-some", &two, &["cuda.arch.dropped-by-toolkit"]);
    assert_eq!(findings[0].severity, Severity::Warning);
}

#[test]
fn nvcc_architecture_list_overrides_the_table() {
    let listed = "compute_75\ncompute_80\ncompute_86\ncompute_87\ncompute_88\ncompute_89\ncompute_90\ncompute_100\ncompute_103\ncompute_110\ncompute_120\ncompute_121\ncompute_130\n";
    let machine = Machine::ubuntu("24.04")
        .nvidia(machine::H100, "610.43.02")
        .cuda("13.5.0")
        .command(&["/usr/local/cuda-13.5/bin/nvcc", "--list-gpu-arch"], listed)
        .env("CUDAARCHS", "90;130");
    healthy("healthy-ubuntu-24.04-cuda-13.5", &machine);
}

#[test]
fn architectures_beyond_the_table_are_not_errors() {
    // 13.5 is the last release in the table, and sm_130 is in no row.
    let named = builder("13.5.0").env("CUDAARCHS", "90;130");
    let findings = check("cuda.arch.not-in-table", &named, &["cuda.arch.not-in-table"]);
    assert_eq!(findings[0].severity, Severity::Warning);
    assert_eq!(commands(&findings), ["nvcc --list-gpu-arch"]);
    // Architectures that were removed earlier stay removed.
    let gone = diagnose(&builder("13.9.0").env("CUDAARCHS", "61"), None);
    assert_eq!(ids(&gone, Severity::Error), ["cuda.arch.dropped-by-toolkit"], "{}", lines(&gone));
}

#[test]
fn renamed_architecture_is_diagnosed() {
    // Thor is sm_110 from CUDA 13 on.
    let named = builder("12.9.1").env("CUDAARCHS", "90;110");
    let findings = check("cuda.arch.too-new-for-toolkit-renamed", &named, &["cuda.arch.too-new-for-toolkit"]);
    let text = lines(&findings);
    assert!(text.contains("requests sm_110, but CUDA 12.9 calls that chip sm_101"), "{text}");
    assert!(findings[0].remedy.text.starts_with("write 101 instead"), "{text}");
    assert!(commands(&findings).is_empty(), "{text}");
    // An architecture that is too new under any name is reported first.
    let both = diagnose(&builder("12.9.1").env("CUDAARCHS", "110;130"), None);
    assert!(lines(&both).contains("requests sm_130"), "{}", lines(&both));
}

#[test]
fn native_without_a_gpu_is_diagnosed() {
    let machine = builder("12.4.1").env("CUDAARCHS", "native");
    let findings = check("cuda.arch.native-no-gpu", &machine, &["cuda.arch.native-no-gpu"]);
    assert!(commands(&findings)[0].contains("90-real"), "{findings:?}");
    fix_works(machine, &findings);
    let options = builder("12.8.1").env("CMAKE_ARGS", "-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=native");
    check("cuda.arch.native-no-gpu-options", &options, &["cuda.arch.native-no-gpu"]);
}

#[test]
fn crates_that_need_nvidia_smi_are_diagnosed() {
    let machine = Machine::debian("12").cuda("12.4.1").env("LIBRARY_PATH", "/usr/local/cuda/lib64/stubs");
    let findings = check_note("cuda.arch.needs-smi", &machine, "cuda.arch.needs-smi");
    assert_eq!(commands(&findings), ["export CUDA_COMPUTE_CAP=89"]);
}

// Python and Rust.

#[test]
fn torch_cuda_mismatch_is_diagnosed() {
    let text = "__version__ = '2.9.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n";
    let machine = Machine::ubuntu("22.04")
        .nvidia(machine::RTX_4090, "580.95.05")
        .cuda("12.4.1")
        .env("VIRTUAL_ENV", "/home/user/venv")
        .file("/home/user/venv/lib/python3.11/site-packages/torch/version.py", text);
    let findings = check("cuda.torch-mismatch", &machine, &["cuda.torch-mismatch"]);
    assert!(commands(&findings)[0].ends_with("/whl/cu124"), "{findings:?}");
}

#[test]
fn missing_libclang_for_bindings_is_diagnosed() {
    let machine = Machine::fedora("41").nvidia(machine::RTX_4070, "570.133.07").cuda("12.8.1");
    let findings = check_note("cuda.libclang-missing", &machine, "cuda.libclang-missing");
    assert_eq!(commands(&findings), ["sudo dnf install clang-devel"]);
    let wrong = machine.env("LIBCLANG_PATH", "/usr/lib/llvm-14/lib");
    check("cuda.libclang-missing-variable", &wrong, &["cuda.libclang-missing"]);
}

#[test]
fn conda_build_without_gpu_is_diagnosed() {
    let prefix = "/opt/conda";
    let machine = Machine::debian("12")
        .docker()
        .cuda_conda(prefix, "12.6.2")
        .program("/opt/conda/bin/mamba")
        .opaque("/opt/conda/targets/x86_64-linux/lib/stubs/libcuda.so");
    let findings = check("conda.build-no-gpu", &machine, &["conda.build-no-gpu"]);
    assert_eq!(commands(&findings), ["export CONDA_OVERRIDE_CUDA=12.6"]);
    fix_works(machine.clone(), &findings);
    healthy("healthy-debian-12-conda-image", &machine.env("CONDA_OVERRIDE_CUDA", "12.6"));
}

#[test]
fn wrong_uv_auto_backend_under_wsl_is_diagnosed() {
    let machine =
        wsl().cuda("12.8.1").program("/home/user/.local/bin/uv").path_first("/home/user/.local/bin");
    let findings = check("uv.auto-wrong", &machine, &["uv.auto-wrong"]);
    let bare = check_asked(
        "cuda.toolkit.runtime-only-wsl",
        &wsl(),
        Some(&[Backend::Cuda]),
        &["cuda.toolkit.runtime-only"],
    );
    assert!(bare[0].summary.starts_with("the driver works and runs CUDA up to 12.8"), "{bare:?}");
    assert!(commands(&bare)[0].contains("/repos/wsl-ubuntu/x86_64/"), "{bare:?}");
    let expected = ["export UV_TORCH_BACKEND=cu128", "export PATH=$PATH:/usr/lib/wsl/lib"];
    assert_eq!(commands(&findings), expected);
    healthy("healthy-wsl-uv", &machine.path_first("/usr/lib/wsl/lib"));
}

// Healthy hosts.

#[test]
fn two_toolkits_with_one_choice_are_healthy() {
    let machine = Machine::ubuntu("24.04")
        .nvidia(machine::RTX_4090, "570.133.07")
        .cuda_at("/usr/local/cuda-12.4", "12.4.1")
        .cuda("12.8.1")
        .env("CUDA_HOME", "/usr/local/cuda");
    healthy("healthy-ubuntu-24.04-two-cudas", &machine);
    let pinned = Machine::rhel_like("rhel", "8")
        .nvidia(machine::A100, "550.144.03")
        .cuda_at("/usr/local/cuda-12.4", "12.4.1")
        .cuda("11.8.0")
        .env("CUDA_HOME", "/usr/local/cuda-11.8")
        .env("CUDA_PATH", "/usr/local/cuda-11.8");
    healthy("healthy-rhel-8-two-cudas", &pinned);
    // `module load cuda/12.4` on a cluster whose nodes have another default.
    let module = Machine::rhel_like("rocky", "9")
        .nvidia(machine::H100, "570.133.07")
        .cuda("12.8.1")
        .cuda_at("/apps/cuda/12.4", "12.4.1")
        .path_first("/apps/cuda/12.4/bin")
        .env("CUDA_HOME", "/apps/cuda/12.4");
    healthy("healthy-rocky-9-module", &module);
    // The HPC SDK: a wrapper of nvcc on PATH, the toolkit beside it.
    let sdk = "/opt/nvidia/hpc_sdk/Linux_x86_64/24.5";
    let hpc = Machine::rhel_like("almalinux", "9")
        .nvidia(machine::A100, "550.144.03")
        .cuda_at(&format!("{sdk}/cuda/12.4"), "12.4.1")
        .program(&format!("{sdk}/compilers/bin/nvcc"))
        .path_first(&format!("{sdk}/compilers/bin"));
    healthy("healthy-almalinux-9-hpc-sdk", &hpc);
}

#[test]
fn builders_without_a_gpu_are_healthy() {
    healthy("healthy-builder-cuda-12.4", &builder("12.4.1"));
    healthy("healthy-builder-cuda-13", &builder("13.0.2").env("CUDAARCHS", "80;90;120"));
}

#[test]
fn nixos_is_healthy() {
    healthy("healthy-nixos", &nixos());
}

#[test]
fn windows_with_two_toolkits_is_healthy() {
    let machine = windows_11()
        .cuda_windows("12.4.1")
        .visual_studio_cuda("12.4")
        .cuda_windows("12.8.1")
        .visual_studio_cuda("12.8");
    healthy("healthy-windows-11-two-cudas", &machine);
    let tools = r"C:\Program Files (x86)\Microsoft Visual Studio\2022\BuildTools";
    healthy("healthy-windows-11-build-tools", &machine.visual_studio_at(tools, "14.43.34808"));
}

// Two faults at once: both are reported.

fn both(name: &str, machine: &Machine, expected: [&str; 2]) {
    check_recording(name, machine);
    let findings = diagnose(machine, None);
    let reported = ids(&findings, Severity::Warning);
    assert!(expected.iter().all(|id| reported.contains(id)), "{name}: {reported:?}\n{}", lines(&findings));
    assert_eq!(reported.len(), 2, "{name}: {reported:?}\n{}", lines(&findings));
}

#[test]
fn two_faults_are_both_named() {
    both(
        "two-gcc-and-path",
        &Machine::ubuntu("24.04")
            .nvidia(machine::RTX_3060, "535.216.01")
            .cuda_at("/usr/local/cuda-12.0", "12.0.1")
            .link("/usr/local/cuda", "cuda-12.0"),
        ["cuda.toolkit.not-on-path", "cuda.host.gcc-too-new"],
    );
    both(
        "two-glibc-and-gcc",
        &Machine::fedora("43").nvidia(machine::RTX_4070, "570.133.07").cuda("12.8.1"),
        ["cuda.host.glibc", "cuda.host.gcc-too-new"],
    );
    both(
        "two-root-and-arch",
        &Machine::debian("12")
            .nvidia(machine::RTX_5090, "570.133.07")
            .cuda("12.4.1")
            .env("CUDA_HOME", "/usr/local/cuda-11.8"),
        ["cuda.toolkit.root-invalid", "cuda.arch.too-new-for-toolkit"],
    );
    both(
        "two-stubs-and-several",
        &Machine::ubuntu("22.04")
            .nvidia(machine::RTX_3090, "550.144.03")
            .cuda("12.4.1")
            .cuda_at("/usr/local/cuda-11.8", "11.8.0")
            .env("CUDA_HOME", "/usr/local/cuda-11.8")
            .env("LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs"),
        ["cuda.stub-at-runtime", "cuda.toolkit.multiple"],
    );
    both(
        "two-msvc-and-integration",
        &Machine::windows("22631")
            .nvidia_windows(machine::RTX_4070, "551.61")
            .visual_studio("14.42.34433")
            .cuda_windows("12.3.2"),
        ["cuda.host.msvc-window", "cuda.toolkit.vs-integration"],
    );
    both(
        "two-conda-and-torch",
        &Machine::ubuntu("22.04")
            .nvidia(machine::A100, "550.144.03")
            .cuda("12.4.1")
            .env("LIBCLANG_PATH", "/opt/llvm/lib")
            .env("VIRTUAL_ENV", "/srv/venv")
            .file(
                "/srv/venv/lib/python3.10/site-packages/torch/version.py",
                "cuda: Optional[str] = '11.8'\n__version__ = '2.5.1+cu118'\n",
            ),
        ["cuda.torch-mismatch", "cuda.libclang-missing"],
    );
    both(
        "two-dropped-and-gcc",
        &Machine::arch_linux()
            .gcc_plain(16, "x86_64-pc-linux-gnu")
            .nvidia(machine::GTX_1080, "580.95.05")
            .cuda_at("/opt/cuda", "13.0.2")
            .path_first("/opt/cuda/bin")
            .env("CUDA_PATH", "/opt/cuda"),
        ["cuda.arch.dropped-by-toolkit", "cuda.host.gcc-too-new"],
    );
}
