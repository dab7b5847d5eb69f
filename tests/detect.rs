//! `detect` on recorded hosts: the three states of every backend, and snapshots of the text.

use std::path::Path;
use std::process::Command;

use gpubuild::report::detect::DetectReport;
use gpubuild::report::detect_text::{Detail, DetectSubject, text};
use gpubuild_core::backend::Backend;
use gpubuild_detect::facts;
use gpubuild_detect::matrix::{Matrix, Probes};
use gpubuild_detect::toolkit;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{HostInfo, RecordedHost};
use serde_json::Value;

struct Detected {
    text: String,
    json: Value,
}

fn recording(name: &str) -> String {
    format!("{}/tests/hosts/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
fn host(name: &str) -> RecordedHost {
    let path = recording(name);
    let text = std::fs::read_to_string(&path).expect("the recording exists");
    RecordedHost::parse(&path, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn detect(host: &RecordedHost, probe: bool, detail: Detail) -> Detected {
    let catalogue = Catalogue::embedded();
    let facts = facts::gather(host);
    let inventory: Inventory = toolkit::probe(host, &catalogue);
    let probes = if probe { toolkit::probe_drivers(host, &Backend::ALL) } else { Probes::new() };
    let matrix: Matrix = gpubuild_plan::offer::evaluate(&facts, &inventory, &catalogue, &probes);
    assert_eq!(host.counts().processes, 0, "detect starts no process");
    let document = DetectReport::new(&facts, &inventory, &catalogue, &matrix, &Backend::ALL);
    let subject = DetectSubject {
        facts: &facts,
        inventory: &inventory,
        catalogue: &catalogue,
        matrix: &matrix,
        backends: &Backend::ALL,
        detail,
    };
    Detected {
        text: text(&subject, &|_, piece| piece.to_owned()),
        json: serde_json::to_value(&document).expect("serde structs serialize"),
    }
}

fn backend<'a>(json: &'a Value, id: &str) -> &'a Value {
    let all = json["backends"].as_array().expect("backends");
    all.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{id}"))
}

/// One line per backend: `cuda present ready blocked nv.driver.nouveau`, with the findings of build and run.
fn states(json: &Value) -> Vec<String> {
    let ids = |value: &Value| {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    Backend::ALL
        .iter()
        .map(|id| {
            let one = backend(json, id.id());
            let mut line = vec![id.id().to_owned()];
            for question in ["hardware", "build", "run"] {
                line.push(one[question]["state"].as_str().unwrap_or("?").to_owned());
            }
            line.extend(ids(&one["build"]["findings"]));
            line.extend(ids(&one["run"]["findings"]));
            line.join(" ")
        })
        .collect()
}

/// Compares the states, the recommendation and the text.
fn check(name: &str, run: &str, expected: &[&str]) -> Detected {
    let host = host(name);
    let detected = detect(&host, false, Detail::Relevant);
    let found = states(&detected.json);
    for line in expected {
        assert!(found.iter().any(|found| found == line), "{name}: no `{line}` in\n{}", found.join("\n"));
    }
    assert_eq!(detected.json["recommended"]["run"], run, "{name}");
    for line in detected.text.lines() {
        assert!(line.chars().count() <= 100, "{name}: {} columns: {line}", line.chars().count());
    }
    insta::with_settings!({ snapshot_path => "snapshots/detect", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, detected.text);
    });
    detected
}

#[test]
fn bare_server_runs_on_cpu_and_builds_nothing() {
    check(
        "debian-12-bare",
        "cpu",
        &[
            "cpu present blocked ready cpu.compiler-missing",
            "cuda absent blocked blocked cuda.toolkit.missing cpu.compiler-missing cuda.hardware.absent",
        ],
    );
}

#[test]
fn software_devices_are_listed_but_not_recommended() {
    let detected = check(
        "debian-12-llvmpipe",
        "cpu",
        &[
            "cpu present ready ready",
            "vulkan absent ready ready vk.software-only",
            "opencl absent ready ready ocl.software-only",
        ],
    );
    assert_eq!(backend(&detected.json, "vulkan")["hardware"]["devices"][0]["vendor"], "software");
    assert_eq!(detected.json["recommended"]["build"], serde_json::json!(["cpu", "vulkan", "opencl"]));
}

#[test]
fn workstation_with_two_toolkits_uses_the_one_in_the_environment() {
    let detected = check(
        "ubuntu-22.04-rtx4090",
        "cuda",
        &["cuda present ready ready", "vulkan present ready ready", "opencl present ready ready"],
    );
    let toolkits = &backend(&detected.json, "cuda")["build"]["toolkits"];
    assert_eq!(toolkits[0]["root"], "/usr/local/cuda-12.4");
    assert_eq!(toolkits[0]["version"], "12.4.1");
    assert_eq!(toolkits[0]["chosen"], true);
    assert_eq!(
        toolkits[0]["found_via"],
        serde_json::json!(["env:CUDA_HOME", "path", "known:/usr/local/cuda", "known:/usr/local/cuda-12.4"])
    );
    assert_eq!(toolkits[1]["version"], "11.8.0");
    assert_eq!(toolkits[1]["chosen"], false);
}

#[test]
fn nouveau_supports_vulkan_but_not_cuda() {
    check(
        "ubuntu-24.04-nouveau",
        "vulkan",
        &[
            "cuda present blocked blocked cuda.toolkit.missing nv.driver.nouveau",
            "vulkan present blocked ready vk.sdk-missing vk.glslc-missing",
        ],
    );
}

#[test]
fn server_with_two_h200_lists_both() {
    let detected = check("ubuntu-22.04-h200", "cuda", &["cuda present ready ready"]);
    let cuda = backend(&detected.json, "cuda");
    let devices = cuda["hardware"]["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 2, "the display chip of the board is not a device");
    assert_eq!(devices[0]["arch"], "sm_90");
    assert_eq!(cuda["run"]["driver"], "580.65.06");
}

#[test]
fn rocm_is_blocked_outside_the_render_group() {
    let detected = check(
        "ubuntu-22.04-rx7900xtx",
        "cpu",
        &[
            "rocm present ready blocked rocm.kfd-permission",
            "vulkan present blocked blocked vk.sdk-missing vk.glslc-missing vk.render-permission",
        ],
    );
    assert_eq!(backend(&detected.json, "rocm")["hardware"]["devices"][0]["arch"], "gfx1100");
}

#[test]
fn mi300x_is_ready() {
    check("ubuntu-22.04-mi300x", "rocm", &["rocm present ready ready"]);
}

#[test]
fn oneapi_works_without_setvars() {
    check(
        "ubuntu-24.04-arc",
        "vulkan",
        &["sycl present ready ready", "vulkan present ready ready", "opencl present ready ready"],
    );
}

#[test]
fn hybrid_laptop_lists_both_gpus() {
    check(
        "fedora-41-hybrid",
        "cuda",
        &[
            "cuda present blocked ready cuda.toolkit.missing",
            "vulkan present blocked ready vk.glslc-missing",
            "sycl present blocked blocked sycl.toolkit.missing sycl.level-zero-missing",
        ],
    );
}

#[test]
fn arch_linux_uses_the_older_host_compiler() {
    check("arch-cuda", "cuda", &["cuda present ready ready"]);
}

#[test]
fn container_without_gpu_builds_but_does_not_run() {
    check("docker-no-gpus", "cpu", &["cuda present ready blocked ctr.no-gpus-flag"]);
}

#[test]
fn wsl_lists_the_gpu_of_windows() {
    check("wsl2-nvidia", "cuda", &["cuda present ready ready"]);
}

#[test]
fn windows_with_driver_and_toolkits_is_ready() {
    let detected = check(
        "windows-11-rtx4070",
        "cuda",
        &[
            "cpu present ready ready",
            "cuda present ready ready",
            "vulkan present ready ready",
            "opencl present ready ready",
        ],
    );
    assert_eq!(backend(&detected.json, "cuda")["run"]["driver"], "572.83");
}

#[test]
fn windows_with_only_a_driver_cannot_build() {
    check(
        "windows-11-bare",
        "cuda",
        &[
            "cpu present blocked ready cpu.compiler-missing",
            "cuda present blocked ready cuda.toolkit.missing cuda.host.cl-missing",
            "vulkan present blocked ready vk.sdk-missing cpu.compiler-missing vk.glslc-missing",
        ],
    );
}

#[test]
fn macos_is_ready_for_metal() {
    check(
        "macos-15-m3",
        "metal",
        &[
            "cpu present ready ready",
            "metal present ready ready",
            "cuda absent blocked blocked cuda.platform cuda.platform",
        ],
    );
}

#[test]
fn active_conda_environment_is_a_toolkit() {
    check("conda-cuda", "cuda", &["cuda present ready ready"]);
}

#[test]
fn jetson_gpu_is_detected_without_pci() {
    check("jetson-orin", "cuda", &["cuda present ready ready"]);
}

#[test]
fn debian_split_toolkit_is_complete() {
    let detected = check("debian-12-split-cuda", "cuda", &["cuda present ready ready"]);
    let toolkit = &backend(&detected.json, "cuda")["build"]["toolkits"][0];
    assert_eq!(toolkit["root"], "/usr");
    assert_eq!(toolkit["version"], "11.8");
}

#[test]
fn installed_toolkit_precedes_the_system_default() {
    let detected = check("debian-12-own-cuda", "cpu", &["cuda absent ready blocked cuda.hardware.absent"]);
    let toolkits = backend(&detected.json, "cuda")["build"]["toolkits"].as_array().expect("toolkits").clone();
    assert_eq!(toolkits.len(), 2, "a partial installation does not count");
    assert_eq!(toolkits[0]["root"], "/home/user/.cache/gpubuild/toolkits/cuda-13.0/prefix");
    assert_eq!(toolkits[0]["version"], "13.0.2");
    assert_eq!(toolkits[0]["found_via"], serde_json::json!(["gpubuild"]));
    assert_eq!(toolkits[0]["reason"], "gpubuild installed it for you");
    assert_eq!(toolkits[1]["root"], "/usr/local/cuda-12.4");
}

/// Changes of the host, and the root that a build then uses.
#[test]
fn installed_toolkit_follows_the_selection_rules() {
    const INSTALLED: &str = "/home/user/.cache/gpubuild/toolkits/cuda-13.0/prefix";
    let path = ("PATH = '", "PATH = '/usr/local/cuda/bin:");
    let home = "HOME = '/home/user'";
    let table: &[(&[(&str, &str)], &str)] = &[
        // A completed installation of a newer release is the newest.
        (
            &[("cuda-13.5/prefix/version.json", "cuda-13.5/installed.json")],
            "/home/user/.cache/gpubuild/toolkits/cuda-13.5/prefix",
        ),
        // Variables of the shell come first.
        (&[path], "/usr/local/cuda-12.4"),
        (&[(home, "HOME = '/home/user'\nCUDA_PATH = '/usr/local/cuda-12.4'")], "/usr/local/cuda-12.4"),
        (&[path, (home, &format!("HOME = '/home/user'\nCUDA_HOME = '{INSTALLED}'"))], INSTALLED),
        // A copy without its compiler does not count.
        (&[("cuda-13.0/prefix/bin/nvcc", "cuda-13.0/prefix/bin/other")], "/usr/local/cuda-12.4"),
        // The location of the cache depends on these variables.
        (&[(home, "HOME = '/home/other'")], "/usr/local/cuda-12.4"),
        (&[(home, "XDG_CACHE_HOME = '/home/user/.cache'")], INSTALLED),
        (&[(home, "GPUBUILD_CACHE = '/home/user/.cache/gpubuild'")], INSTALLED),
        (&[(home, "HOME = '/home/user'\nGPUBUILD_CACHE = '/var/cache'")], "/usr/local/cuda-12.4"),
    ];
    for (changes, root) in table {
        let detected = detect(&variation("debian-12-own-cuda", changes), false, Detail::Relevant);
        let toolkits = &backend(&detected.json, "cuda")["build"]["toolkits"];
        assert_eq!(toolkits[0]["root"], *root, "{changes:?}");
        assert_eq!(toolkits[0]["chosen"], true, "{changes:?}");
    }
}

/// A recorded host with some text replaced, to simulate faults.
#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
fn variation(name: &str, changes: &[(&str, &str)]) -> RecordedHost {
    let mut text = std::fs::read_to_string(recording(name)).expect("the recording exists");
    for (from, to) in changes {
        assert!(text.contains(from), "{name} has no `{from}`");
        text = text.replace(from, to);
    }
    RecordedHost::parse(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

const UVM: &str = "path = '/dev/nvidia-uvm'";
const CTL: &str = "path = '/dev/nvidiactl'\nkind = \"device\"";
const CTL_DENIED: &str = "path = '/dev/nvidiactl'\nkind = \"device\"\nopen_error = \"permission-denied\"";
const KFD: &str = "path = '/dev/kfd'";

/// Host, change, and the resulting state.
const FAULTS: &[(&str, (&str, &str), &str)] = &[
    ("arch-cuda", ("g++-14", "g++-x"), "cuda present blocked ready cuda.host.gcc-too-new"),
    (
        "arch-cuda",
        ("__GLIBC_MINOR__\t40", "__GLIBC_MINOR__\t42"),
        "cuda present blocked ready cuda.host.glibc",
    ),
    (
        "arch-cuda",
        ("UNIX Open Kernel Module for x86_64", "UNIX x86_64 Kernel Module"),
        "cuda present ready blocked nv.driver.open-required",
    ),
    ("ubuntu-22.04-rtx4090", ("550.144.03", "515.65.01"), "cuda present ready blocked nv.driver.too-old"),
    (
        "ubuntu-22.04-rtx4090",
        ("libcuda.so.550.144.03", "libcuda.so.550.163.01"),
        "cuda present ready blocked nv.driver.lib-mismatch",
    ),
    (
        "ubuntu-22.04-rtx4090",
        ("bin/nvcc'", "bin/nvcc-gone'"),
        "cuda present blocked ready cuda.toolkit.runtime-only",
    ),
    (
        "ubuntu-22.04-rtx4090",
        ("libcuda.so.1'", "libcuda.so.gone'"),
        "cuda present ready blocked nv.driver.library-missing",
    ),
    ("ubuntu-22.04-h200", (UVM, "path = '/dev/nvidia-gone'"), "cuda present ready blocked nv.uvm-missing"),
    ("ubuntu-22.04-h200", (CTL, CTL_DENIED), "cuda present ready blocked nv.device-permission"),
    (
        "ubuntu-22.04-h200",
        ("drivers/nvidia", "drivers/vfio-pci"),
        "cuda present ready blocked nv.driver.vfio",
    ),
    (
        "debian-12-split-cuda",
        ("535.216.01", "590.48.01"),
        "cuda present ready blocked nv.driver.branch-dropped",
    ),
    (
        "debian-12-split-cuda",
        ("CUDART_VERSION  11080", "CUDART_VERSION  13000"),
        "cuda present blocked blocked cuda.arch.dropped-by-toolkit nv.driver.too-old",
    ),
    (
        "ubuntu-22.04-mi300x",
        ("lazy_gfx942", "lazy_gfx940"),
        "rocm present ready blocked rocm.gfx-unsupported",
    ),
    (
        "ubuntu-22.04-mi300x",
        ("gfx_target_version 90402", "gfx_target_version 80003"),
        "rocm present ready blocked rocm.gfx803",
    ),
    ("ubuntu-22.04-mi300x", (KFD, "path = '/dev/gone'"), "rocm present ready blocked rocm.kfd-missing"),
    (
        "ubuntu-22.04-mi300x",
        ("drivers/amdgpu", "drivers/radeon"),
        "rocm present ready blocked rocm.driver.radeon",
    ),
    (
        "ubuntu-24.04-arc",
        ("libze_intel_gpu.so.1", "libze_intel_gpu.so.gone"),
        "sycl present ready blocked sycl.level-zero-missing",
    ),
    (
        "ubuntu-24.04-arc",
        ("path = '/usr/lib/x86_64-linux-gnu/libvulkan_intel.so'", "path = '/opt/libvulkan_intel.so'"),
        "vulkan present ready blocked vk.icd-missing",
    ),
    (
        "ubuntu-24.04-arc",
        ("/etc/OpenCL/vendors/intel.icd", "/etc/OpenCL/intel.icd"),
        "opencl present ready blocked ocl.no-icd",
    ),
    (
        "ubuntu-24.04-nouveau",
        ("libvulkan_nouveau.so'", "libvulkan_gone.so'"),
        "vulkan present blocked blocked vk.sdk-missing vk.glslc-missing vk.icd-missing",
    ),
    (
        "windows-11-rtx4070",
        ("14.43.34808", "14.50.35717"),
        "cuda present blocked ready cuda.host.msvc-window",
    ),
];

#[test]
fn each_fault_has_a_finding_id() {
    for (name, change, expected) in FAULTS {
        let detected = detect(&variation(name, &[*change]), false, Detail::Everything);
        let found = states(&detected.json);
        assert!(found.iter().any(|line| line == expected), "{name} {change:?}:\n{}", found.join("\n"));
    }
}

#[test]
fn gpu_with_only_a_software_driver_cannot_run() {
    let changes = [("intel_icd", "lvp_icd"), ("libvulkan_intel", "libvulkan_lvp")];
    let detected = detect(&variation("ubuntu-24.04-arc", &changes), false, Detail::Relevant);
    let expected = "vulkan present ready blocked vk.software-only";
    assert!(states(&detected.json).iter().any(|line| line == expected), "{}", detected.text);
}

#[test]
fn invalid_toolkit_variable_is_reported_and_ignored() {
    let named = "CUDA_HOME = '/usr/local/cuda'";
    let detect_with = |value: &str| {
        let change = format!("CUDA_HOME = '{value}'");
        let detected =
            detect(&variation("ubuntu-22.04-rtx4090", &[(named, &change)]), false, Detail::Relevant);
        let chosen = backend(&detected.json, "cuda")["build"]["toolkits"][0].clone();
        (detected, chosen)
    };
    let (detected, chosen) = detect_with("/usr/local/cuda-13.0");
    assert_eq!(chosen["root"], "/usr/local/cuda-12.4");
    assert_eq!(chosen["reason"], "it is first on PATH");
    let warning = "! `CUDA_HOME` names `/usr/local/cuda-13.0`: it does not exist";
    assert!(detected.text.contains(warning), "{}", detected.text);
    let (_, chosen) = detect_with("/usr/local/cuda-11.8/bin");
    assert_eq!(chosen["root"], "/usr/local/cuda-11.8", "the folder above `bin` is used");
    let none = [("[env]\n", "[env]\nCUDA_PATH = '/opt/cuda'\n")];
    let detected = detect(&variation("debian-12-bare", &none), false, Detail::Relevant);
    assert_eq!(backend(&detected.json, "cuda")["build"]["findings"][0], "cuda.toolkit.root-invalid");
}

#[test]
fn misbehaving_drivers_become_reasons() {
    let status = "status = \"ok\"\nanswer = '''{\"driver_version\": 13000,";
    for (changed, state, id) in [
        ("status = \"crashed\"\nerror = 'signal 11'\nanswer = '''{", "blocked", "probe.crashed"),
        ("status = \"timeout\"\nerror = 'no answer'\nanswer = '''{", "blocked", "probe.timeout"),
        ("status = \"failed\"\nerror = 'error 999'\nanswer = '''{", "blocked", "probe.failed"),
        ("status = \"ok\"\nanswer = '''{\"driver_version\": -3,", "unknown", "probe.invalid"),
        ("status = \"ok\"\nanswer = '''{\"x\": [}", "unknown", "probe.invalid"),
        ("status = \"ok\"\nanswer = '''{\"devices\": [], \"others\":[], ", "unknown", "probe.invalid"),
    ] {
        let detected = detect(&variation("ubuntu-22.04-h200", &[(status, changed)]), true, Detail::Relevant);
        let run = &backend(&detected.json, "cuda")["run"];
        let found = (run["state"].as_str(), run["findings"][0].as_str());
        assert_eq!(found, (Some(state), Some(id)), "{changed}");
        assert_eq!(
            backend(&detected.json, "cuda")["hardware"]["state"],
            "present",
            "files show the hardware"
        );
    }
    let hidden = [(
        "\"devices\": [{\"name\": \"NVIDIA H200\"",
        "\"devices\": [], \"hidden\": [{\"name\": \"NVIDIA H200\"",
    )];
    let detected = detect(&variation("ubuntu-22.04-h200", &hidden), true, Detail::Relevant);
    assert_eq!(backend(&detected.json, "cuda")["run"]["findings"][0], "probe.no-device");
}

#[test]
fn probes_add_details_missing_from_files() {
    let rtx = detect(&host("ubuntu-22.04-rtx4090"), true, Detail::Relevant);
    let device = &backend(&rtx.json, "cuda")["hardware"]["devices"][0];
    assert_eq!(device["memory_bytes"], 25_393_692_672_u64);
    assert_eq!(device["found_via"], serde_json::json!(["sysfs", "procfs", "probe:cuda", "probe:vulkan"]));
    let apple = detect(&host("macos-15-m3"), true, Detail::Relevant);
    let devices = backend(&apple.json, "metal")["hardware"]["devices"].as_array().expect("devices").clone();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0]["name"], "Apple M3");
    let mesa = detect(&host("debian-12-llvmpipe"), true, Detail::Relevant);
    assert_eq!(
        backend(&mesa.json, "vulkan")["hardware"]["devices"][0]["name"],
        "llvmpipe (LLVM 15.0.6, 256 bits)"
    );
    assert_eq!(mesa.json["recommended"]["run"], "cpu");
}

#[test]
fn detection_of_every_recording_is_deterministic() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts");
    #[expect(clippy::disallowed_methods, reason = "a test lists its own files")]
    let entries = std::fs::read_dir(hosts).expect("the folder of recordings exists");
    let names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let toml: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".toml")).collect();
    assert!(toml.len() >= 18, "{names:?}");
    for name in toml {
        let (first, second) =
            (detect(&host(name), true, Detail::Everything), detect(&host(name), true, Detail::Everything));
        assert_eq!(first.text, second.text, "{name}");
        assert_eq!(first.json, second.json, "{name}");
        // Every reason has a text without unfilled placeholders.
        for line in first.text.lines() {
            assert!(!line.contains('{') || line.contains("{4d36e968"), "{name}: {line}");
        }
    }
}

#[test]
fn documented_toolkit_description_is_valid() {
    #[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
    let page = std::fs::read_to_string(format!("{}/docs/reference/toolkits.md", env!("CARGO_MANIFEST_DIR")))
        .expect("docs");
    let example =
        page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let mut catalogue = Catalogue::embedded();
    catalogue.add("docs/reference/toolkits.md", example).unwrap_or_else(|error| panic!("{error}"));
    let linux = "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"x86_64\"\n[env]\nPATH = \"/bin\"\n\
        [[file]]\npath = \"/opt/mold-2.34.1/bin/mold\"\nkind = \"executable\"\n\
        [[file]]\npath = \"/bin/mold\"\nlink = \"/opt/mold-2.34.1/bin/mold\"\n";
    let host = RecordedHost::parse("linux", linux).expect("a recording");
    let inventory = toolkit::probe(&host, &catalogue);
    let mold = inventory.chosen("mold").expect("mold is found");
    assert_eq!(mold.version().map(ToString::to_string).as_deref(), Some("2.34.1"));
    assert_eq!(mold.part("program").map(ToString::to_string).as_deref(), Some("/bin/mold"));
}

#[test]
fn detect_prints_one_document_and_suggests_backend_names() {
    #[expect(clippy::disallowed_methods, reason = "the test starts the program itself")]
    let detect = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_gpubuild"))
            .arg("detect")
            .args(arguments)
            .output()
            .expect("the command starts")
    };
    let file = recording("ubuntu-22.04-h200");
    let done = detect(&["--json", "--host", &file, "--backends", "cuda"]);
    assert!(done.status.success());
    let document: Value = serde_json::from_slice(&done.stdout).expect("one JSON document");
    assert_eq!(document["schema"], serde_json::json!({"name": "detect", "version": 1}));
    assert_eq!(document["backends"].as_array().map(Vec::len), Some(1));
    let wrong = detect(&["--backends", "vulcan"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean `vulkan`?"));
    let missing = detect(&["--host", "/nonexistent/host.toml"]);
    assert_eq!(missing.status.code(), Some(2));
}
