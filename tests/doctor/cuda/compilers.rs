//! Host compilers and C libraries that nvcc does not accept.

use gpubuild_detect::finding::Severity;
use gpubuild_host::{Arch, Os};

use super::{check_note, commands, fix_works, folded, windows_11};
use crate::machine::{self, Machine};
use crate::{check, diagnose, healthy, ids, lines};

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
    // The distribution's own package has the headers in /usr/include.
    let package =
        Machine::debian("13").nvidia(machine::RTX_3060, "550.163.01").gcc_beside(13).cuda_debian("12.4.1");
    let profile = "/usr/lib/nvidia-cuda-toolkit/bin/nvcc.profile";
    let package = package.file(profile, "NVVMIR_LIBRARY_DIR = /usr/lib/nvidia-cuda-toolkit/libdevice\n");
    let findings = diagnose(&package, None);
    assert!(findings.iter().all(|finding| finding.severity > Severity::Warning), "{findings:?}");
    let newer = Machine::ubuntu("25.10").nvidia(machine::RTX_5070, "580.95.05").cuda("13.0.2");
    check("cuda.host.glibc-2.42", &newer, &["cuda.host.glibc"]);
    healthy(
        "healthy-debian-13-cuda-13",
        &Machine::debian("13").nvidia(machine::RTX_5070, "580.95.05").cuda("13.0.2"),
    );
}

// Architectures.

#[test]
fn machine_without_any_tool_gets_a_warning_only() {
    let machine = Machine::fedora("42").nvidia(machine::RTX_3060, "580.95.05").without_compiler();
    let machine = machine.without("/usr/bin/cmake").without("/usr/bin/ninja");
    let findings = check("cpu.compiler-missing-run-only", &machine, &["cpu.compiler-missing"]);
    assert_eq!(findings[0].severity, Severity::Warning);
    let built = machine.program("/usr/bin/cmake").folder("/usr/share/cmake-3.31/Modules");
    assert_eq!(diagnose(&built, None)[0].severity, Severity::Error);
}
