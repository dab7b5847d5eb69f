//! Remedies are computed for the machine: they install nothing that is there, and choose a toolkit by card, driver, compiler and libc.

use std::path::{Path, PathBuf};

use gpubuild_core::Backend;
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_host::{HostInfo, ReadFiles, RecordedHost, glob};

use crate::machine::{self, Machine};
use crate::{diagnose, diagnose_host, ids, lines};

/// What shows that packages are installed.
const SHOWN_BY: [(&str, &[&str]); 14] = [
    ("/usr/bin/cmake", &["cmake"]),
    ("/usr/bin/g++", &["g++", "gcc-c++"]),
    ("/usr/bin/ninja", &["ninja", "ninja-build"]),
    ("/usr/bin/glslc", &["glslc", "shaderc"]),
    ("/usr/bin/hipcc", &["hipcc"]),
    ("/usr/bin/clinfo", &["clinfo"]),
    ("/usr/bin/nvidia-ctk", &["nvidia-container-toolkit"]),
    ("/usr/bin/nvidia-modprobe", &["nvidia-modprobe"]),
    ("/usr/bin/nvcc", &["nvidia-cuda-toolkit"]),
    ("/usr/include/vulkan/vulkan.h", &["libvulkan-dev", "vulkan-headers", "vulkan-devel"]),
    ("/usr/include/CL/cl.h", &["opencl-headers"]),
    ("/usr/lib/*/libvulkan.so.1", &["libvulkan1"]),
    ("/usr/lib64/libvulkan.so.1", &["vulkan-loader"]),
    ("/usr/lib/*/libOpenCL.so.1", &["ocl-icd-libopencl1"]),
];

fn recordings(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            recordings(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml")
            && !path.ends_with("expected.toml")
        {
            found.push(path);
        }
    }
}

/// The packages that a command installs on the examined machine.
fn installed_by(command: &str) -> Vec<&str> {
    let command = command.strip_prefix("sudo ").unwrap_or(command);
    let verbs =
        ["apt install ", "apt-get install ", "dnf install ", "zypper install ", "pacman -S ", "apk add "];
    let Some(rest) = verbs.iter().find_map(|verb| command.strip_prefix(verb)) else { return Vec::new() };
    if ["--reinstall", "--only-upgrade", "# on the host"].iter().any(|sign| rest.contains(sign)) {
        return Vec::new();
    }
    rest.split(' ').filter(|word| !word.starts_with('-')).collect()
}

#[test]
fn nothing_that_is_there_is_installed() {
    let tests = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut paths = Vec::new();
    recordings(&tests.join("hosts"), &mut paths);
    recordings(&tests.join("unseen"), &mut paths);
    assert!(paths.len() > 300, "{}", paths.len());
    let (mut commands, mut needless) = (0, Vec::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy();
        let host = RecordedHost::parse(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let shown: Vec<&str> = SHOWN_BY
            .iter()
            .filter(|(place, _)| !glob(&host, place).is_empty())
            .flat_map(|(_, packages)| packages.iter().copied())
            .collect();
        for finding in diagnose_host(&host, Some(&Backend::ALL)) {
            for command in finding.remedy.commands.iter().flat_map(|command| command.split(" && ")) {
                let packages = installed_by(command);
                commands += usize::from(!packages.is_empty());
                let again = packages.into_iter().filter(|package| is_there(&host, package, &shown));
                needless.extend(again.map(|package| format!("{name} {}: {package}", finding.id)));
            }
        }
    }
    assert!(needless.is_empty(), "{needless:#?}");
    assert!(commands > 500, "{commands}");
}

/// Whether a recording has what a package installs.
fn is_there(host: &RecordedHost, package: &str, shown: &[&str]) -> bool {
    let toolkit = package.strip_prefix("cuda-toolkit-").map(|release| release.replace('-', "."));
    let nvcc = toolkit.map(|release| host.path(&format!("/usr/local/cuda-{release}/bin/nvcc")));
    shown.contains(&package) || nvcc.is_some_and(|nvcc| host.is_file(&nvcc))
}

/// The first error or warning.
fn first<'a>(findings: &'a [Finding], id: &str) -> &'a Finding {
    assert_eq!(ids(findings, Severity::Warning).first(), Some(&id), "{}", lines(findings));
    &findings[0]
}

#[test]
fn driver_alone_does_not_ask_for_cuda() {
    let machine = Machine::fedora("42").nvidia(machine::RTX_4090, "580.95.05");
    let findings = diagnose(&machine, None);
    assert!(ids(&findings, Severity::Warning).is_empty(), "{}", lines(&findings));
    // A request, a variable and a library of CUDA do.
    let asked = diagnose(&machine, Some(&[Backend::Cuda]));
    first(&asked, "cuda.toolkit.runtime-only");
    let variable =
        diagnose(&machine.clone().env("TORCH_CUDA_ARCH_LIST", "8.9").env("NVCC_PREPEND_FLAGS", "-w"), None);
    first(&variable, "cuda.toolkit.runtime-only");
    let library = machine
        .opaque("/home/user/.local/lib/python3.13/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12");
    first(&diagnose(&library, None), "cuda.toolkit.runtime-only");
}

#[test]
fn overrides_for_integrated_gpus_are_questioned() {
    // ROCm/legacy-rocm-build#3015 and llama.cpp docs/build.md: it works for some and faults for others.
    let machine = Machine::ubuntu("24.04").amd(machine::RAPHAEL).rocm("6.2.0", &["gfx1030", "gfx1100"]);
    let set = diagnose(&machine.clone().env("HSA_OVERRIDE_GFX_VERSION", "10.3.0"), None);
    let remedy = &first(&set, "rocm.override-dangerous").remedy;
    assert_eq!(remedy.commands, ["unset HSA_OVERRIDE_GFX_VERSION"]);
    assert!(remedy.text.contains("Vulkan"), "{}", remedy.text);
    first(&diagnose(&machine, None), "rocm.gfx-unsupported");
}

#[test]
fn half_upgraded_driver_comes_before_the_container_runtime() {
    let lib = "/usr/lib/x86_64-linux-gnu";
    let machine = Machine::ubuntu("24.04")
        .nvidia_card(machine::RTX_4090, Some("nvidia"))
        .nvidia_module("550.144.03", true)
        .nvidia_nodes()
        .nvidia_libraries_in(lib, "570.133.07")
        .probe_fails("cuda", "cuInit: 803")
        .program("/usr/bin/dockerd")
        .file(
            "/etc/docker/daemon.json",
            "{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}",
        );
    let findings = diagnose(&machine, None);
    assert_eq!(
        ids(&findings, Severity::Error),
        ["nv.driver.lib-mismatch", "ctr.runtime-missing"],
        "{}",
        lines(&findings)
    );
}

#[test]
fn releases_that_drop_the_card_are_no_way_out_of_a_glibc_conflict() {
    let machine = |card| Machine::debian("13").nvidia(card, "580.95.05").cuda("12.8.1");
    let volta = diagnose(&machine(machine::V100), None);
    let remedy = &first(&volta, "cuda.host.glibc").remedy;
    assert!(remedy.text.contains("container") && remedy.text.contains("V100"), "{}", remedy.text);
    assert!(!format!("{} {:?}", remedy.text, remedy.commands).contains("CUDA 13"), "{remedy:?}");
    let ampere = diagnose(&machine(machine::RTX_3090), None);
    let remedy = &first(&ampere, "cuda.host.glibc").remedy;
    assert!(remedy.text.contains("install CUDA 13"), "{}", remedy.text);
}

#[test]
fn blackwell_gets_a_release_that_knows_it_from_nvidias_repository() {
    let machine = Machine::ubuntu("24.04").nvidia(machine::RTX_5090, "570.133.07").cuda_debian("12.0.140");
    let findings = diagnose(&machine, None);
    let remedy = &first(&findings, "cuda.arch.too-new-for-toolkit").remedy;
    assert_eq!(remedy.commands.last().map(String::as_str), Some("sudo apt-get install cuda-toolkit-12-8"));
}

#[test]
fn installed_toolkit_that_fits_is_taken_before_another_is_installed() {
    // NVIDIA/nvbandwidth#25: nvcc on PATH does not know the card, and a newer release is installed.
    let machine = Machine::ubuntu("22.04")
        .nvidia(machine::RTX_4090, "550.144.03")
        .cuda_at("/usr/local/cuda-12.4", "12.4.1")
        .cuda_debian("11.5.119");
    let findings = diagnose(&machine, None);
    let finding = findings.iter().find(|one| one.id == "cuda.arch.too-new-for-toolkit");
    let remedy = &finding.unwrap_or_else(|| panic!("{}", lines(&findings))).remedy;
    assert!(remedy.text.contains("CUDA 12.4 in `/usr/local/cuda-12.4`"), "{}", remedy.text);
    assert!(remedy.commands.iter().all(|command| !command.contains("install")), "{:?}", remedy.commands);
}

#[test]
fn groups_without_a_name_are_joined_by_number() {
    let machine = Machine::ubuntu("24.04")
        .docker()
        .intel(machine::ARC_A770, "0000:03:00.0", "i915")
        .level_zero_loader()
        .level_zero_driver()
        .user(1000, &[1000])
        .file("/etc/group", "root:x:0:\nuser:x:1000:\n")
        .device_of("/dev/dri/renderD128", 993, "permission-denied");
    let findings = diagnose(&machine, Some(&[Backend::Sycl]));
    let named = findings
        .iter()
        .find(|one| one.remedy.commands.iter().any(|command| command.contains("--group-add 993")));
    assert!(named.is_some(), "{findings:#?}");
}

#[test]
fn compiler_that_nvcc_refuses_comes_before_its_integration() {
    // Another release of CUDA brings its own integration.
    let machine = Machine::windows("26100")
        .nvidia_windows(machine::RTX_4090, "572.83")
        .visual_studio("14.44.35207")
        .cuda_windows_files("12.2.2");
    let findings = diagnose(&machine, None);
    let errors = ids(&findings, Severity::Error);
    assert_eq!(errors.first(), Some(&"cuda.host.msvc-window"), "{}", lines(&findings));
}

#[test]
fn container_for_vulkan_without_its_driver_is_an_error() {
    // NVIDIA/nvidia-container-toolkit#811: the manifest of the driver is not in the container.
    let machine = Machine::fedora("41")
        .podman()
        .nvidia(machine::RTX_3060, "565.57.01")
        .vulkan_loader()
        .vulkan_development()
        .without("/usr/bin/glslc")
        .without("/usr/share/vulkan/icd.d/nvidia_icd.json");
    let findings = diagnose(&machine, None);
    let finding = first(&findings, "ctr.caps-graphics");
    assert_eq!(finding.severity, Severity::Error);
}
