//! GPUs and architectures that a toolkit does not know.

use gpubuild_detect::finding::Severity;

use super::{builder, check_note, commands, fix_works, folded};
use crate::machine::{self, Machine};
use crate::{check, diagnose, healthy, ids, lines};

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
