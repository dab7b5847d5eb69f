//! CUDA: toolkit detection and compilation.

mod archs;
mod compilers;
mod toolkits;

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
