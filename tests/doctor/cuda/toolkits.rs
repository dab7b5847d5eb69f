//! Toolkits that are missing, incomplete, or not found.

use gpubuild_core::Backend;
use gpubuild_detect::finding::Severity;

use super::{arm_server, check_note, commands, fix_works, folded, windows_11};
use crate::machine::{self, Machine};
use crate::{check, check_asked, healthy};

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

#[test]
fn stub_behind_the_answer_of_the_driver_is_not_the_cause() {
    let stubs = "/usr/local/cuda/lib64/stubs";
    let machine = Machine::ubuntu("22.04")
        .nvidia(machine::T4, "550.144.03")
        .cuda("12.4.1")
        .without_probe("cuda")
        .probe_fails("cuda", "cuInit answered 100: no CUDA device is visible (driver version 12040)")
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("LD_LIBRARY_PATH", &format!("{stubs}:/usr/local/cuda/lib64"));
    check("two-hidden-and-stubs", &machine, &["nv.device-hidden", "cuda.stub-at-runtime"]);
}

// Compilers.
