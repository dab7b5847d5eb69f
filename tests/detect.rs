//! `detect` on recorded machines: the three states of every backend, and the whole text as a snapshot.

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

struct Seen {
    text: String,
    json: Value,
}

fn recording(name: &str) -> String {
    format!("{}/tests/hosts/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
fn host(name: &str) -> RecordedHost {
    let path = recording(name);
    let text = std::fs::read_to_string(&path).expect("the recording is there");
    RecordedHost::parse(&path, &text).unwrap_or_else(|error| panic!("{error}"))
}

fn see(host: &RecordedHost, ask: bool, detail: Detail) -> Seen {
    let catalogue = Catalogue::embedded();
    let facts = facts::gather(host);
    let inventory: Inventory = toolkit::probe(host, &catalogue);
    let probes = if ask { toolkit::ask_drivers(host, &Backend::ALL) } else { Probes::new() };
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
    Seen {
        text: text(&subject, &|_, piece| piece.to_owned()),
        json: serde_json::to_value(&document).expect("serde structs serialize"),
    }
}

fn backend<'a>(json: &'a Value, id: &str) -> &'a Value {
    let all = json["backends"].as_array().expect("backends");
    all.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{id}"))
}

/// One line a backend: `cuda present ready blocked nv.driver.nouveau`; the findings are those of build and run.
fn states(json: &Value) -> Vec<String> {
    let words = |value: &Value| {
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
            line.extend(words(&one["build"]["findings"]));
            line.extend(words(&one["run"]["findings"]));
            line.join(" ")
        })
        .collect()
}

/// Compares the states, the recommendation and the text.
fn check(name: &str, run: &str, expected: &[&str]) -> Seen {
    let host = host(name);
    let seen = see(&host, false, Detail::Relevant);
    let found = states(&seen.json);
    for line in expected {
        assert!(found.iter().any(|found| found == line), "{name}: no `{line}` in\n{}", found.join("\n"));
    }
    assert_eq!(seen.json["recommended"]["run"], run, "{name}");
    for line in seen.text.lines() {
        assert!(line.chars().count() <= 100, "{name}: {} columns: {line}", line.chars().count());
    }
    insta::with_settings!({ snapshot_path => "snapshots/detect", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, seen.text);
    });
    seen
}

#[test]
fn a_bare_server_can_run_on_its_processor_and_build_nothing() {
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
fn software_devices_are_named_and_not_recommended() {
    let seen = check(
        "debian-12-llvmpipe",
        "cpu",
        &[
            "cpu present ready ready",
            "vulkan absent ready ready vk.software-only",
            "opencl absent ready ready ocl.software-only",
        ],
    );
    assert_eq!(backend(&seen.json, "vulkan")["hardware"]["devices"][0]["vendor"], "software");
    assert_eq!(seen.json["recommended"]["build"], serde_json::json!(["cpu", "vulkan", "opencl"]));
}

#[test]
fn a_workstation_with_two_toolkits_takes_the_one_that_is_named() {
    let seen = check(
        "ubuntu-22.04-rtx4090",
        "cuda",
        &["cuda present ready ready", "vulkan present ready ready", "opencl present ready ready"],
    );
    let toolkits = &backend(&seen.json, "cuda")["build"]["toolkits"];
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
fn nouveau_has_vulkan_and_no_cuda() {
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
fn a_server_with_two_h200() {
    let seen = check("ubuntu-22.04-h200", "cuda", &["cuda present ready ready"]);
    let cuda = backend(&seen.json, "cuda");
    let devices = cuda["hardware"]["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 2, "the board's own display is no device");
    assert_eq!(devices[0]["arch"], "sm_90");
    assert_eq!(cuda["run"]["driver"], "580.65.06");
}

#[test]
fn a_user_outside_the_group_render_cannot_run_rocm() {
    let seen = check(
        "ubuntu-22.04-rx7900xtx",
        "cpu",
        &[
            "rocm present ready blocked rocm.kfd-permission",
            "vulkan present blocked blocked vk.sdk-missing vk.glslc-missing vk.render-permission",
        ],
    );
    assert_eq!(backend(&seen.json, "rocm")["hardware"]["devices"][0]["arch"], "gfx1100");
}

#[test]
fn mi300x_is_ready() {
    check("ubuntu-22.04-mi300x", "rocm", &["rocm present ready ready"]);
}

#[test]
fn oneapi_needs_no_setvars() {
    check(
        "ubuntu-24.04-arc",
        "vulkan",
        &["sycl present ready ready", "vulkan present ready ready", "opencl present ready ready"],
    );
}

#[test]
fn a_hybrid_laptop_shows_both_cards() {
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
fn arch_builds_with_the_older_compiler() {
    check("arch-cuda", "cuda", &["cuda present ready ready"]);
}

#[test]
fn a_container_without_its_gpu_builds_and_does_not_run() {
    check("docker-no-gpus", "cpu", &["cuda present ready blocked ctr.no-gpus-flag"]);
}

#[test]
fn wsl_shows_the_card_of_windows() {
    check("wsl2-nvidia", "cuda", &["cuda present ready ready"]);
}

#[test]
fn windows_with_everything() {
    let seen = check(
        "windows-11-rtx4070",
        "cuda",
        &[
            "cpu present ready ready",
            "cuda present ready ready",
            "vulkan present ready ready",
            "opencl present ready ready",
        ],
    );
    assert_eq!(backend(&seen.json, "cuda")["run"]["driver"], "572.83");
}

#[test]
fn windows_with_a_driver_only() {
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
fn macos_has_metal() {
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
fn an_active_conda_environment_is_a_toolkit() {
    check("conda-cuda", "cuda", &["cuda present ready ready"]);
}

#[test]
fn a_jetson_has_no_pci_card() {
    check("jetson-orin", "cuda", &["cuda present ready ready"]);
}

#[test]
fn debian_s_split_toolkit_is_whole() {
    let seen = check("debian-12-split-cuda", "cuda", &["cuda present ready ready"]);
    let toolkit = &backend(&seen.json, "cuda")["build"]["toolkits"][0];
    assert_eq!(toolkit["root"], "/usr");
    assert_eq!(toolkit["version"], "11.8");
}

#[test]
fn a_toolkit_of_our_own_comes_before_the_machine_s_default() {
    let seen = check("debian-12-own-cuda", "cpu", &["cuda absent ready blocked cuda.hardware.absent"]);
    let toolkits = backend(&seen.json, "cuda")["build"]["toolkits"].as_array().expect("toolkits").clone();
    assert_eq!(toolkits.len(), 2, "an unfinished copy is none");
    assert_eq!(toolkits[0]["root"], "/home/user/.cache/gpubuild/toolkits/cuda-13.0/prefix");
    assert_eq!(toolkits[0]["version"], "13.0.2");
    assert_eq!(toolkits[0]["found_via"], serde_json::json!(["gpubuild"]));
    assert_eq!(toolkits[0]["reason"], "gpubuild installed it for you");
    assert_eq!(toolkits[1]["root"], "/usr/local/cuda-12.4");
}

/// What is changed on that machine, and the root that a build takes then.
#[test]
fn a_toolkit_of_our_own_is_chosen_by_the_same_rules() {
    const OWN: &str = "/home/user/.cache/gpubuild/toolkits/cuda-13.0/prefix";
    let path = ("PATH = '", "PATH = '/usr/local/cuda/bin:");
    let home = "HOME = '/home/user'";
    let table: &[(&[(&str, &str)], &str)] = &[
        // An unfinished one that is finished is the newest.
        (
            &[("cuda-13.5/prefix/version.json", "cuda-13.5/installed.json")],
            "/home/user/.cache/gpubuild/toolkits/cuda-13.5/prefix",
        ),
        // What this shell says comes first.
        (&[path], "/usr/local/cuda-12.4"),
        (&[(home, "HOME = '/home/user'\nCUDA_PATH = '/usr/local/cuda-12.4'")], "/usr/local/cuda-12.4"),
        (&[path, (home, &format!("HOME = '/home/user'\nCUDA_HOME = '{OWN}'"))], OWN),
        // A copy that lost its compiler is none.
        (&[("cuda-13.0/prefix/bin/nvcc", "cuda-13.0/prefix/bin/other")], "/usr/local/cuda-12.4"),
        // The folder follows the variables.
        (&[(home, "HOME = '/home/other'")], "/usr/local/cuda-12.4"),
        (&[(home, "XDG_CACHE_HOME = '/home/user/.cache'")], OWN),
        (&[(home, "GPUBUILD_CACHE = '/home/user/.cache/gpubuild'")], OWN),
        (&[(home, "HOME = '/home/user'\nGPUBUILD_CACHE = '/var/cache'")], "/usr/local/cuda-12.4"),
    ];
    for (changes, root) in table {
        let seen = see(&variation("debian-12-own-cuda", changes), false, Detail::Relevant);
        let toolkits = &backend(&seen.json, "cuda")["build"]["toolkits"];
        assert_eq!(toolkits[0]["root"], *root, "{changes:?}");
        assert_eq!(toolkits[0]["chosen"], true, "{changes:?}");
    }
}

/// A recorded machine with some of its text replaced, for what goes wrong with it.
#[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
fn variation(name: &str, changes: &[(&str, &str)]) -> RecordedHost {
    let mut text = std::fs::read_to_string(recording(name)).expect("the recording is there");
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

/// Machine, what is changed on it, and the state that follows.
const WRONG: &[(&str, (&str, &str), &str)] = &[
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
fn what_goes_wrong_has_a_name() {
    for (name, change, expected) in WRONG {
        let seen = see(&variation(name, &[*change]), false, Detail::Everything);
        let found = states(&seen.json);
        assert!(found.iter().any(|line| line == expected), "{name} {change:?}:\n{}", found.join("\n"));
    }
}

#[test]
fn a_card_that_only_a_software_driver_is_for_cannot_run() {
    let changes = [("intel_icd", "lvp_icd"), ("libvulkan_intel", "libvulkan_lvp")];
    let seen = see(&variation("ubuntu-24.04-arc", &changes), false, Detail::Relevant);
    let expected = "vulkan present ready blocked vk.software-only";
    assert!(states(&seen.json).iter().any(|line| line == expected), "{}", seen.text);
}

#[test]
fn a_variable_that_leads_nowhere_is_shown_and_does_not_count() {
    let named = "CUDA_HOME = '/usr/local/cuda'";
    let seen_with = |value: &str| {
        let change = format!("CUDA_HOME = '{value}'");
        let seen = see(&variation("ubuntu-22.04-rtx4090", &[(named, &change)]), false, Detail::Relevant);
        let chosen = backend(&seen.json, "cuda")["build"]["toolkits"][0].clone();
        (seen, chosen)
    };
    let (seen, chosen) = seen_with("/usr/local/cuda-13.0");
    assert_eq!(chosen["root"], "/usr/local/cuda-12.4");
    assert_eq!(chosen["reason"], "it is first on PATH");
    let told = "! `CUDA_HOME` names `/usr/local/cuda-13.0`: it does not exist";
    assert!(seen.text.contains(told), "{}", seen.text);
    let (_, chosen) = seen_with("/usr/local/cuda-11.8/bin");
    assert_eq!(chosen["root"], "/usr/local/cuda-11.8", "the folder above `bin` is meant");
    let none = [("[env]\n", "[env]\nCUDA_PATH = '/opt/cuda'\n")];
    let seen = see(&variation("debian-12-bare", &none), false, Detail::Relevant);
    assert_eq!(backend(&seen.json, "cuda")["build"]["findings"][0], "cuda.toolkit.root-invalid");
}

#[test]
fn drivers_that_misbehave_become_reasons() {
    let status = "status = \"ok\"\nanswer = '''{\"driver_version\": 13000,";
    for (changed, state, id) in [
        ("status = \"crashed\"\nerror = 'signal 11'\nanswer = '''{", "blocked", "probe.crashed"),
        ("status = \"timeout\"\nerror = 'no answer'\nanswer = '''{", "blocked", "probe.timeout"),
        ("status = \"failed\"\nerror = 'error 999'\nanswer = '''{", "blocked", "probe.failed"),
        ("status = \"ok\"\nanswer = '''{\"driver_version\": -3,", "unknown", "probe.invalid"),
        ("status = \"ok\"\nanswer = '''{\"x\": [}", "unknown", "probe.invalid"),
        ("status = \"ok\"\nanswer = '''{\"devices\": [], \"others\":[], ", "unknown", "probe.invalid"),
    ] {
        let seen = see(&variation("ubuntu-22.04-h200", &[(status, changed)]), true, Detail::Relevant);
        let run = &backend(&seen.json, "cuda")["run"];
        let found = (run["state"].as_str(), run["findings"][0].as_str());
        assert_eq!(found, (Some(state), Some(id)), "{changed}");
        assert_eq!(backend(&seen.json, "cuda")["hardware"]["state"], "present", "files told so");
    }
    let hidden = [(
        "\"devices\": [{\"name\": \"NVIDIA H200\"",
        "\"devices\": [], \"hidden\": [{\"name\": \"NVIDIA H200\"",
    )];
    let seen = see(&variation("ubuntu-22.04-h200", &hidden), true, Detail::Relevant);
    assert_eq!(backend(&seen.json, "cuda")["run"]["findings"][0], "probe.no-device");
}

#[test]
fn drivers_that_are_asked_add_what_files_do_not_tell() {
    let rtx = see(&host("ubuntu-22.04-rtx4090"), true, Detail::Relevant);
    let device = &backend(&rtx.json, "cuda")["hardware"]["devices"][0];
    assert_eq!(device["memory_bytes"], 25_393_692_672_u64);
    assert_eq!(device["found_via"], serde_json::json!(["sysfs", "procfs", "probe:cuda", "probe:vulkan"]));
    let apple = see(&host("macos-15-m3"), true, Detail::Relevant);
    let devices = backend(&apple.json, "metal")["hardware"]["devices"].as_array().expect("devices").clone();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0]["name"], "Apple M3");
    let mesa = see(&host("debian-12-llvmpipe"), true, Detail::Relevant);
    assert_eq!(
        backend(&mesa.json, "vulkan")["hardware"]["devices"][0]["name"],
        "llvmpipe (LLVM 15.0.6, 256 bits)"
    );
    assert_eq!(mesa.json["recommended"]["run"], "cpu");
}

#[test]
fn every_recording_is_covered_and_seen_twice_alike() {
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts");
    #[expect(clippy::disallowed_methods, reason = "a test lists its own files")]
    let entries = std::fs::read_dir(hosts).expect("the folder of recordings is there");
    let names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    let toml: Vec<&str> = names.iter().filter_map(|name| name.strip_suffix(".toml")).collect();
    assert!(toml.len() >= 18, "{names:?}");
    for name in toml {
        let (first, second) =
            (see(&host(name), true, Detail::Everything), see(&host(name), true, Detail::Everything));
        assert_eq!(first.text, second.text, "{name}");
        assert_eq!(first.json, second.json, "{name}");
        // Every reason has words of its own, with all of its blanks filled.
        for line in first.text.lines() {
            assert!(!line.contains('{') || line.contains("{4d36e968"), "{name}: {line}");
        }
    }
}

#[test]
fn the_description_in_the_documentation_is_one() {
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
    let mold = inventory.chosen("mold").expect("it is found");
    assert_eq!(mold.version().map(ToString::to_string).as_deref(), Some("2.34.1"));
    assert_eq!(mold.part("program").map(ToString::to_string).as_deref(), Some("/bin/mold"));
}

#[test]
fn the_command_prints_one_document_and_explains_bad_input() {
    #[expect(clippy::disallowed_methods, reason = "the test starts the program itself")]
    let detect = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_gpubuild"))
            .arg("detect")
            .args(arguments)
            .output()
            .expect("it starts")
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
