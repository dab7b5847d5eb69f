//! The known failures P1 to P60 of building GPU projects (findings/docs/known-failures.toml): each has tests, and build output
//! that the doctor recognises.
#![expect(clippy::disallowed_methods, reason = "it reads the sources of this repository")]

use std::collections::BTreeSet;
use std::path::Path;

use gpubuild_exec::log::Signatures;

use crate::support::{Sandbox, recorded};

/// Number of known failures.
const COUNT: usize = 60;

fn text(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The names of all functions in sources and tests.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["src", "crates", "tests"] {
        let files = walkdir::WalkDir::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
        for file in files.into_iter().map(Result::unwrap) {
            if file.path().extension().is_some_and(|ending| ending == "rs") {
                let source = std::fs::read_to_string(file.path()).unwrap();
                let lines: Vec<&str> = source.lines().map(str::trim).collect();
                for (at, line) in lines.iter().enumerate() {
                    let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once("()"));
                    let is_test = lines[at.saturating_sub(4)..at].contains(&"#[test]");
                    names.extend(name.filter(|_| is_test).map(|(name, _)| name.to_owned()));
                }
            }
        }
    }
    names
}

/// `findings/docs/known-failures.toml`.
#[derive(serde::Deserialize)]
struct KnownFailures {
    failure: Vec<KnownFailure>,
}

#[derive(serde::Deserialize)]
struct KnownFailure {
    id: String,
    limit: Option<String>,
    tests: Vec<String>,
}

#[test]
fn every_known_failure_has_tests_that_exist() {
    let known: KnownFailures = toml::from_str(&text("findings/docs/known-failures.toml")).unwrap();
    let ids: Vec<&str> = known.failure.iter().map(|failure| failure.id.as_str()).collect();
    let expected: Vec<String> = (1..=COUNT).map(|number| format!("P{number}")).collect();
    assert_eq!(ids, expected);
    let functions = functions();
    for failure in &known.failure {
        let missing: Vec<&String> = failure.tests.iter().filter(|name| !functions.contains(*name)).collect();
        assert!(missing.is_empty(), "{}: no test is called {missing:?}", failure.id);
        let is_shown = !failure.tests.is_empty() || failure.limit.is_some();
        assert!(is_shown, "{}: neither a test nor a reason", failure.id);
    }
}

/// Output of builds with each failure, and the finding that explains it.
const PRINTED: &[(&str, &str, &str)] = &[
    (
        "P1",
        "error: could not find native static library `culibos`, perhaps an -L flag is missing?",
        "link.culibos",
    ),
    (
        "P2",
        "/usr/bin/ld: ggml-cuda.cu:(.text+0x1): undefined reference to `cublasLtCreate'",
        "link.cuda-runtime-undefined",
    ),
    (
        "P3",
        "ggml-cuda.lib(ggml-cuda.obj) : error LNK2019: unresolved external symbol cuMemCreate referenced in function x",
        "link.cuda-driver-undefined",
    ),
    (
        "P4",
        "/usr/bin/ld: warning: libcuda.so.1, needed by bin/libggml-cuda.so, not found (try using -rpath or -rpath-link)\n\
         /usr/bin/ld: bin/libggml-cuda.so: undefined reference to `cuMemCreate'",
        "cuda.stub-missing",
    ),
    (
        "P7",
        "/usr/bin/ld: libwhisper.a(ggml.c.o): multiple definition of `ggml_init'; libllama.a(ggml.c.o): first defined here",
        "build.duplicate-symbol",
    ),
    (
        "P10",
        "error FTK1011: could not create the new file tracking log file: C:\\a\\b.tlog. The system cannot find the path specified.",
        "build.path-too-long",
    ),
    (
        "P11",
        "nvcc fatal   : Unsupported gpu architecture 'compute_No CUDA devices found.'",
        "cuda.arch.native-no-gpu",
    ),
    ("P12", "nvcc fatal   : Unsupported gpu architecture 'compute_120a'", "cuda.arch.too-new-for-toolkit"),
    (
        "P13",
        "error: static assertion failed with \"Compute capability 121 used, use 121a or 121f for Blackwell specific optimizations\"",
        "cuda.arch.suffix-missing",
    ),
    (
        "P14",
        "thread 'main' panicked at build.rs: `nvidia-smi` failed. Ensure that you have CUDA installed and that `nvidia-smi` is in your PATH.",
        "cuda.arch.needs-smi",
    ),
    (
        "P15",
        "thread 'main' panicked at build.rs: Unsupported cuda toolkit version: `13.1`. Please raise a github issue.",
        "cuda.crate-toolkit-unknown",
    ),
    (
        "P17",
        "#error -- unsupported GNU version! gcc versions later than 13 are not supported!",
        "cuda.host.gcc-too-new",
    ),
    (
        "P18",
        "CMake Error at CMakeDetermineCompilerId.cmake:503 (message):\n  No CUDA toolset found.",
        "cuda.toolkit.vs-integration",
    ),
    (
        "P20",
        "CMake Error: Target \"ggml-cuda\" links to: CUDA::cublas but the target was not found.",
        "cuda.toolkit.component-missing",
    ),
    (
        "P22",
        "CMake Error: Error: generator : Ninja Does not match the generator used previously: Unix Makefiles",
        "cmake.generator-mismatch",
    ),
    ("P23", "sccache: error: failed to execute compile: nvcc", "build.sccache"),
    ("P26", "  LLAMA_CUBLAS is deprecated and will be removed in the future.", "cmake.option-renamed"),
    (
        "P27",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        "cuda.runtime-library-missing",
    ),
    (
        "P29",
        "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory",
        "cuda.runtime-library-missing",
    ),
    (
        "P32",
        "librocprofiler-register.so.0: cannot open shared object file: No such file or directory",
        "rocm.runtime-library-missing",
    ),
    (
        "P33",
        "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory for GPU arch : gfx1036",
        "rocm.gfx-unsupported",
    ),
    ("P34", "nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "build.out-of-memory"),
    (
        "P35",
        "llama_model_load: no backends are loaded. hint: use ggml_backend_load_all()",
        "link.backends-not-loaded",
    ),
    ("P37", "main.cpp:(.text+0x2f): undefined reference to `ggml_backend_is_cpu'", "link.direct-cpu-call"),
    (
        "P38",
        "CMake Error at CMakeLists.txt:10 (message):\n  GGML_BACKEND_DL requires BUILD_SHARED_LIBS",
        "cmake.dl-needs-shared",
    ),
    ("P39", "Illegal instruction (core dumped)", "build.illegal-instruction"),
    (
        "P40",
        "x.lib(y.obj) : error LNK2038: mismatch detected for 'RuntimeLibrary': value 'MT_StaticRelease' doesn't match value 'MD_DynamicRelease' in z.obj",
        "link.crt-mismatch",
    ),
    ("P41", "Failed to GET `https://cdn.pyke.io/0/x.tgz`: http status: 504", "build.network"),
    (
        "P42",
        "CMake Error: Could NOT find Vulkan (missing: glslc) (found version \"1.3.239\")",
        "vk.glslc-missing",
    ),
    ("P42", "fatal error: spirv/unified1/spirv.hpp: No such file or directory", "vk.spirv-headers-missing"),
    ("P43", "/bin/sh: 1: bin/vulkan-shaders-gen: Exec format error", "vk.shaders-gen-cross"),
    (
        "P44",
        "'vulkan-shaders-gen' is not recognized as an internal or external command,",
        "vk.shaders-gen-missing",
    ),
    ("P45", "undefined reference to `ggml_backend_cuda_reg'", "link.backend-registry"),
    (
        "P46",
        "/usr/bin/ld: libggml-base.so: error adding symbols: DSO missing from command line",
        "link.dso-missing",
    ),
    (
        "P48",
        "relocation R_X86_64_32 against `.rodata' can not be used when making a PIE object; recompile with -fPIE",
        "link.not-pic",
    ),
    ("P52", "The input line is too long.", "build.command-line-too-long"),
    (
        "P53",
        "math_functions.h(2556): error: exception specification is incompatible with that of previous function \"cospi\" (declared at line 79)",
        "cuda.host.glibc",
    ),
    (
        "P59",
        "error: cannot execute tool 'metal' due to missing Metal Toolchain; use: xcodebuild -downloadComponent MetalToolchain",
        "metal.toolchain-asset",
    ),
];

#[test]
fn build_output_of_each_pitfall_is_recognised() {
    let signatures = Signatures::embedded();
    let mut wrong = Vec::new();
    for (pitfall, printed, id) in PRINTED {
        let causes = signatures.read(printed.as_bytes()).causes;
        let found: Vec<&str> = causes.iter().map(|cause| cause.id.as_str()).collect();
        if found.first() != Some(id) {
            wrong.push(format!("{pitfall}: {found:?} in place of {id}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The cache entries of the only planned tree on a recorded host.
fn planned(machine: &str, backend: &str, archs: &str) -> serde_json::Value {
    let sandbox = Sandbox::with_project("gk");
    let file = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{file}[backends.{backend}]\narchs = {archs}\n"));
    // The kernels of the profile have one folder per backend.
    for kernels in ["cpu", backend] {
        sandbox.write(&format!("vendor/src/{kernels}/CMakeLists.txt"), "");
    }
    let plan = sandbox.run(&["plan", "--json", "--host", &recorded(machine), "--backends", backend]);
    let plan = plan.succeeds().json();
    let trees = plan["trees"].as_array().unwrap();
    let has = |tree: &&serde_json::Value| tree["backends"].as_array().unwrap().contains(&backend.into());
    trees.iter().find(has).unwrap()["cache"].clone()
}

#[test]
fn architecture_lists_reach_cmake_separated_by_semicolons() {
    for archs in ["\"gfx908,gfx90a\"", "\"gfx908;gfx90a\"", "\"gfx908 gfx90a\"", "[\"gfx90a\", \"gfx908\"]"] {
        let cache = planned("ubuntu-22.04-mi300x", "rocm", archs);
        assert_eq!(cache["CMAKE_HIP_ARCHITECTURES"], "gfx908;gfx90a", "{archs}");
        assert_eq!(cache["CMAKE_POSITION_INDEPENDENT_CODE"], "ON");
    }
    for archs in ["\"80-real,90\"", "\"80-real;90\"", "[\"90\", \"sm_80-real\"]"] {
        let cache = planned("ubuntu-22.04-h200", "cuda", archs);
        assert_eq!(cache["CMAKE_CUDA_ARCHITECTURES"], "80-real;90", "{archs}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn offline_rejects_project_downloads_before_configuring() {
    let Some(sandbox) = Sandbox::with_library() else { return };
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(ggml C)\noption(GGML_VIRTGPU \"\" OFF)\noption(GGML_ZENDNN \"\" OFF)\n\
         file(WRITE \"${CMAKE_SOURCE_DIR}/configured\" \"\")\nmessage(FATAL_ERROR \"it was configured\")\n",
    );
    let with = |extra: &str| {
        sandbox.write(
            "gpubuild.toml",
            &format!("schema = 1\n[project]\nname = \"g\"\nsource = \"vendor\"\nprofile = \"ggml\"\nextra = [{extra:?}]\n"),
        );
    };
    with("virtgpu");
    let refused = sandbox.run(&["build", "--offline", "--backends", "cpu"]);
    refused.fails(1, "build.offline").says(&["`virtgpu`", "virglrenderer", "without `--offline`"]);
    assert!(!sandbox.exists("vendor/configured"), "nothing is started");
    let online = sandbox.run(&["build", "--backends", "cpu"]);
    online.fails(1, "build.configure-failed");
    assert!(sandbox.exists("vendor/configured"));
    // A local copy needs no network.
    if cfg!(target_arch = "x86_64") {
        with("zendnn");
        let plan = |root: Option<&str>| {
            let mut command = sandbox.command();
            root.map(|root| command.env("ZENDNN_ROOT", root));
            let ran = crate::support::RunResult::from(
                command.args(["plan", "--json", "--backends", "cpu"]).output().unwrap(),
            );
            ran.succeeds().json()["extra"][0]["network"].clone()
        };
        assert!(plan(None).as_str().unwrap().contains("ZenDNN"));
        assert_eq!(plan(Some("/opt/zendnn")), serde_json::Value::Null);
    }
}
