//! Plans applied by crates that call CMake or cc themselves.

use gpubuild_host::{HostInfo, ReadFiles, WriteFiles};

use crate::requirements::skip;
use crate::support::{Workspace, workspace};

const OWN: &[(&str, &str)] = &[
    (
        "own-sys/Cargo.toml",
        "[package]\nname = \"own-sys\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[build-dependencies]\ncc = \"1\"\ncmake = \"0.1\"\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\", features = [\"cc\", \"cmake\"] }\n",
    ),
    (
        "own-sys/build.rs",
        "use gpubuild_build::Backend;\nuse gpubuild_build::Language;\n\nfn main() {\n    let plan = gpubuild_build::Build::new().backends([\"cpu\"]).plan().unwrap();\n    let mut config = cmake::Config::new(\"native\");\n    let folder = plan.apply_to_cmake(Backend::Cpu, &mut config).build_target(\"own\").build();\n    println!(\"cargo::rustc-link-search=native={}/build\", folder.display());\n    println!(\"cargo::rustc-link-lib=static=own\");\n    let mut build = cc::Build::new();\n    plan.apply_to_cc(Backend::Cpu, Language::Cxx, &mut build).file(\"kernel.cpp\").compile(\"kernel\");\n}\n",
    ),
    (
        "own-sys/src/lib.rs",
        "unsafe extern \"C\" {\n    pub fn own() -> i32;\n    pub fn kernel() -> i32;\n}\npub const CPU: bool = cfg!(gpubuild_backend = \"cpu\");\n",
    ),
    (
        "own-sys/native/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.16)\nproject(own C)\nif(NOT CMAKE_BUILD_TYPE STREQUAL \"Release\" OR NOT CMAKE_POSITION_INDEPENDENT_CODE)\n  message(FATAL_ERROR \"the plan did not arrive: ${CMAKE_BUILD_TYPE}\")\nendif()\nadd_library(own STATIC own.c)\n",
    ),
    ("own-sys/native/own.c", "int own(void) { return 3; }\n"),
    (
        "own-sys/kernel.cpp",
        "#include <vector>\nextern \"C\" int kernel() { return (int)std::vector<int>(4).size(); }\n",
    ),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nown-sys = { path = \"../own-sys\" }\n",
    ),
    (
        "app/src/main.rs",
        "fn main() {\n    println!(\"{} {}\", unsafe { own_sys::own() + own_sys::kernel() }, own_sys::CPU);\n}\n",
    ),
];

#[test]
fn plan_is_applied_to_cmake_and_cc() {
    let Some(workspace) = workspace(OWN) else { return };
    workspace.cargo(&["build"], &[]).success();
    assert_eq!(workspace.app(), "7 true");
}

/// A crate with a CUDA file that any compiler accepts.
const WITH_CUDA: &str = "use gpubuild_build::Backend;\nuse gpubuild_build::Language;\n\nfn main() {\n    let plan = gpubuild_build::Build::new().backends([\"cuda\"]).plan().unwrap_or_else(|error| panic!(\"{}\", error.full_message()));\n    let mut build = cc::Build::new();\n    plan.apply_to_cc(Backend::Cuda, Language::Cuda, &mut build).file(\"kernel.cu\").compile(\"kernel\");\n}\n";

/// A fake nvcc that logs its arguments and compiles as C++.
const NVCC: &str = "#!/bin/sh\necho \"$*\" >> \"$(dirname \"$0\")/../calls\"\nleft=$#\nwhile [ \"$left\" -gt 0 ]; do\n  word=$1\n  shift\n  left=$((left - 1))\n  case $word in\n  -gencode | -Xcompiler)\n    shift\n    left=$((left - 1))\n    ;;\n  -ccbin=* | -G | *.a) ;;\n  --device-link)\n    set -- \"$@\" -c \"$(dirname \"$0\")/empty.cpp\"\n    ;;\n  *) set -- \"$@\" \"$word\" ;;\n  esac\ndone\nexec c++ -fPIC -x c++ \"$@\"\n";

#[test]
fn cc_uses_the_nvcc_of_the_plan() {
    let Some(workspace) = workspace(OWN) else { return };
    if workspace.host.platform().os == gpubuild_host::Os::Windows {
        skip("unix", "the fake nvcc is a shell script");
        return;
    }
    workspace.write("own-sys/build.rs", WITH_CUDA);
    workspace.write("own-sys/kernel.cu", "extern \"C\" int kernel() { return 5; }\n");
    workspace.write(
        "own-sys/src/lib.rs",
        "unsafe extern \"C\" {\n    pub fn kernel() -> i32;\n}\npub const CUDA: bool = cfg!(gpubuild_backend = \"cuda\");\n",
    );
    workspace.write(
        "app/src/main.rs",
        "fn main() {\n    println!(\"{} {}\", unsafe { own_sys::kernel() }, own_sys::CUDA);\n}\n",
    );
    workspace.write("cuda/bin/nvcc", NVCC);
    workspace.host.set_executable(&workspace.path("cuda/bin/nvcc")).unwrap();
    workspace.write("cuda/bin/empty.cpp", "\n");
    workspace.write("cuda/version.json", "{\"cuda\": {\"name\": \"CUDA SDK\", \"version\": \"12.8.0\"}}");
    workspace.write("cuda/include/cuda_runtime.h", "\n");
    workspace.write("cuda/include/cuda.h", "#define CUDA_VERSION 12080\n");
    workspace.write("cuda/lib64/libcudart_static.a", "!<arch>\n");
    let toolkit = workspace.path("cuda");
    workspace.cargo(&["build"], &[("CUDA_PATH", toolkit.as_str())]).success();
    assert_eq!(workspace.app(), "5 true");
    let calls = workspace.host.read_text(&workspace.path("cuda/calls")).unwrap();
    let call = calls.lines().find(|call| call.ends_with("-c kernel.cu")).unwrap();
    for option in ["-gencode arch=compute_90,code=sm_90", "-ccbin=", "-Xcompiler -fPIC"] {
        assert!(call.contains(option), "{option} in {call}");
    }
}

fn own_kernels(workspace: &Workspace, variables: &[(&str, &str)]) -> gpubuild_host::CommandOutput {
    let root = workspace.host.path(env!("CARGO_MANIFEST_DIR"));
    let ran = workspace.cargo_in(&root, &["run", "-p", "own-kernels"], variables);
    assert!(ran.output.success(), "{}", ran.output.stderr);
    ran.output
}

#[test]
fn own_kernels_example_runs_with_and_without_cuda() {
    let Some(workspace) = workspace(OWN) else { return };
    let ran = own_kernels(&workspace, &[]);
    assert!(ran.stdout.starts_with("cpu: [2.0, 4.0, 6.0], sum 12\ncuda: "), "{}", ran.stdout);
    if ran.stdout.contains("cuda: skipped: ") {
        assert!(ran.stderr.contains("warning: own-kernels@0.1.0: cuda is left out: "), "{}", ran.stderr);
    }
    let Some(toolkit) = workspace.host.env().get("CUDA_PATH").map(str::to_owned) else {
        skip("nvcc", "CUDA_PATH names no toolkit");
        return;
    };
    let ran = own_kernels(&workspace, &[("CUDA_PATH", &toolkit)]);
    let line = ran.stdout.lines().find(|line| line.starts_with("cuda: ")).unwrap();
    assert!(line == "cuda: [4.0, 8.0, 12.0]" || line.starts_with("cuda: CUDA error "), "{line}");
}
