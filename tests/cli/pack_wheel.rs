//! `gpubuild pack --format wheel`: wheels that pip installs, with libraries that find each other.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start programs and read their files")]

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::pack::pack;
use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// The interface to the library, as users write it.
const INIT: &str = "import ctypes, pathlib\n\
    _library = ctypes.CDLL(str(pathlib.Path(__file__).parent / 'lib' / 'libadder.so'))\n\
    def add(x):\n    return _library.add_one(x)\n";

const PYPROJECT: &str = "[build-system]\nrequires = [\"gpubuild\"]\nbuild-backend = \"gpubuild.build\"\n\
    [project]\nname = \"My-Adder\"\nversion = \"1.0\"\ndescription = \"adds\"\nreadme = \"README.md\"\n\
    requires-python = \">=3.8\"\nlicense = \"MIT\"\n[project.scripts]\nadder = \"adder:main\"\n";

/// A project with a Python package and a shared library of these sources and link lines.
pub(crate) fn project(source: &str, more: &str) -> Option<Sandbox> {
    let project = Sandbox::with_library()?;
    project.write(
        "vendor/CMakeLists.txt",
        &format!(
            "cmake_minimum_required(VERSION 3.24)\nproject(adder C)\nadd_library(adder SHARED adder.c)\n{more}"
        ),
    );
    project.write("vendor/adder.c", source);
    let table = project.read("gpubuild.toml");
    project.write(
        "gpubuild.toml",
        &format!("{table}[python]\npackage = \"python/adder\"\nlibraries = \"lib\"\n"),
    );
    project.write("pyproject.toml", PYPROJECT);
    project.write("README.md", "# Adder\n");
    project.write("LICENSE", "as you like\n");
    project.write("python/adder/__init__.py", INIT);
    project.write("python/adder/py.typed", "");
    project.write("python/adder/__pycache__/x.pyc", "old");
    Some(project)
}

pub(crate) const ADD_ONE: &str = "int add_one(int x) { return x + 1; }\n";

fn wheels(ran: &RunResult) -> Vec<Value> {
    let document = ran.succeeds().json();
    assert_eq!(document["schema"]["name"], "wheels");
    document["wheels"].as_array().unwrap().clone()
}

/// Packs the only wheel. Returns its entry and its path.
fn pack_one(project: &Sandbox) -> (Value, PathBuf) {
    let wheels =
        wheels(&pack(project, &["--format", "wheel", "--out", "dist", "--backends", "cpu", "--json"]));
    let [wheel] = wheels.as_slice() else { panic!("{wheels:?}") };
    (wheel.clone(), project.path("dist").join(wheel["file"].as_str().unwrap()))
}

/// An environment in which pip installed a wheel; `None` without Python or pip.
fn installed(project: &Sandbox, wheel: &Path) -> Option<String> {
    if !is_on_path("python3") {
        skip("python", "no python3");
        return None;
    }
    if project.start(&["python3", "-m", "venv", "venv"]).exit != Some(0) {
        skip("pip", "python3 -m venv fails");
        return None;
    }
    let python = project.path("venv/bin/python").to_str().unwrap().to_owned();
    let wheel = wheel.to_str().unwrap();
    project.start(&[&python, "-m", "pip", "install", "--no-index", "--no-deps", wheel]).succeeds();
    Some(python)
}

fn add(project: &Sandbox, python: &str) -> RunResult {
    project.start(&[python, "-c", "import adder; print(adder.add(41))"])
}

#[test]
fn pip_installs_a_wheel_whose_library_python_loads() {
    let Some(project) = project(ADD_ONE, "") else { return };
    let (wheel, path) = pack_one(&project);
    let file = wheel["file"].as_str().unwrap();
    assert!(file.starts_with("my_adder-1.0-py3-none-manylinux"), "{file}");
    assert_eq!(wheel["libraries"], serde_json::json!(["adder/lib/libadder.so"]));
    assert!(wheel.get("requires").is_none() && wheel.get("variant").is_none(), "{wheel}");
    let Some(python) = installed(&project, &path) else { return };
    std::fs::remove_dir_all(project.path("vendor")).unwrap();
    assert_eq!(add(&project, &python).succeeds().stdout, "42\n");
    let query = "import importlib.metadata as m; d = m.distribution('my-adder'); print(d.version, d.metadata['License-File']); \
        print(sorted(str(f) for f in d.files if 'bin' not in str(f) and 'pycache' not in str(f)))";
    let ran = project.start(&[&python, "-c", query]);
    let files = &ran.succeeds().stdout;
    for name in
        ["1.0 LICENSE", "adder/py.typed", "licenses/LICENSE", "sboms/sbom.cdx.json", "entry_points.txt"]
    {
        assert!(files.contains(name), "{name}: {files}");
    }
    // pip checks the hashes of RECORD only on request.
    project.start(&[&python, "-m", "pip", "check"]).succeeds();
}

/// The functions of PyTorch's stable interface are C functions.
#[test]
fn libraries_with_the_interface_of_pytorch_need_one_release_of_it() {
    let source = "int SYMBOL(int);\nint add_one(int x) { return SYMBOL(x); }\n";
    let Some(project) = project(ADD_ONE, "") else { return };
    let table = project.read("gpubuild.toml");
    project.write(
        "gpubuild.toml",
        &table.replacen("[project]\n", "[project]\nprofile = \"torch-extension\"\n", 1),
    );
    let packed = |symbol: &str, requirement: &str| {
        project.write("vendor/adder.c", &source.replace("SYMBOL", symbol));
        let requirement = format!("[project]\ndependencies = [\"{requirement}\"]\n");
        project.write("pyproject.toml", &PYPROJECT.replacen("[project]\n", &requirement, 1));
        let ran = pack(&project, &["--format", "wheel", "--out", "dist", "--backends", "cpu"]);
        ran.succeeds().stderr.contains("uses the C++ interface of torch")
    };
    let unstable = "_ZN2at4_ops3mulEi";
    assert!(packed(unstable, "torch>=2.10"));
    assert!(!packed(unstable, "torch==2.10.*"));
    assert!(!packed("aoti_torch_get_dtype", "torch>=2.10"));
}

#[test]
fn wheels_are_reproducible() {
    let Some(project) = project(ADD_ONE, "") else { return };
    let (first, path) = pack_one(&project);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    project.write("python/adder/py.typed", "");
    let (second, path) = pack_one(&project);
    assert_eq!((&first, bytes), (&second, std::fs::read(path).unwrap()));
}

#[test]
fn third_party_libraries_are_copied_under_unique_names() {
    let source = "int ext(int);\nint add_one(int x) { return ext(x); }\n";
    let Some(project) =
        project(source, "target_link_libraries(adder PRIVATE ${CMAKE_SOURCE_DIR}/../ext/libext.so.2)\n")
    else {
        return;
    };
    project.write("ext/deep.c", "int deep(int x) { return x; }\n");
    project.write("ext/ext.c", "int deep(int); int ext(int x) { return deep(x) + 1; }\n");
    let shared = ["cc", "-shared", "-fPIC"];
    project
        .start(&[&shared[..], &["-o", "ext/libdeep.so.1", "-Wl,-soname,libdeep.so.1", "ext/deep.c"]].concat())
        .succeeds();
    let rpath = format!("-Wl,-rpath,{}", project.path("ext").display());
    // The list of required versions also names the library.
    project.write("ext/ext.map", "EXT_1 { global: ext; };\n");
    let ext = [
        "-Wl,--version-script=ext/ext.map",
        "-o",
        "ext/libext.so.2",
        "-Wl,-soname,libext.so.2",
        "ext/ext.c",
        "ext/libdeep.so.1",
        &rpath,
    ];
    project.start(&[&shared[..], &ext].concat()).succeeds();
    let (wheel, path) = pack_one(&project);
    let copied: Vec<&str> = wheel["copied"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let is_unique = |path: &str, start: &str, end: &str| {
        path.starts_with(start) && path.ends_with(end) && path.len() == start.len() + 8 + end.len()
    };
    assert!(is_unique(copied[0], "my_adder.libs/libdeep-", ".so.1"), "{copied:?}");
    assert!(is_unique(copied[1], "my_adder.libs/libext-", ".so.2"), "{copied:?}");
    let Some(python) = installed(&project, &path) else { return };
    std::fs::remove_dir_all(project.path("ext")).unwrap();
    std::fs::remove_dir_all(project.path(".gpubuild")).unwrap();
    assert_eq!(add(&project, &python).succeeds().stdout, "42\n");
}

/// A project whose library links a stand-in for the CUDA runtime 12.4.
pub(crate) fn with_cuda() -> Option<Sandbox> {
    let source = "int cudaRuntimeGetVersion(int *);\nint add_one(int x) { int v; return cudaRuntimeGetVersion(&v) + x + 1; }\n";
    let project = project(
        source,
        "target_link_libraries(adder PRIVATE ${CMAKE_SOURCE_DIR}/../cuda/lib64/libcudart.so)\n",
    )?;
    project.write("cuda/cudart.c", "int cudaRuntimeGetVersion(int *v) { *v = 12040; return 0; }\n");
    std::fs::create_dir(project.path("cuda/lib64")).unwrap();
    project
        .start(&["cc", "-shared", "-fPIC", "-o", CUDART, "-Wl,-soname,libcudart.so.12", "cuda/cudart.c"])
        .succeeds();
    for name in ["libcudart.so.12", "libcudart.so"] {
        std::os::unix::fs::symlink("libcudart.so.12.4.127", project.path("cuda/lib64").join(name)).unwrap();
    }
    Some(project)
}

/// The stand-in.
const CUDART: &str = "cuda/lib64/libcudart.so.12.4.127";

#[test]
fn libraries_of_nvidia_are_required_instead_of_copied() {
    let Some(project) = with_cuda() else { return };
    let (wheel, path) = pack_one(&project);
    assert_eq!(wheel["requires"], serde_json::json!(["nvidia-cuda-runtime-cu12>=12.4,<13"]));
    assert!(wheel.get("copied").is_none(), "{wheel}");
    let Some(python) = installed(&project, &path) else { return };
    let query = "import sysconfig, importlib.metadata as m; print(sysconfig.get_path('purelib')); print(m.requires('my-adder'))";
    let ran = project.start(&[&python, "-c", query]);
    let (site, requires) = ran.succeeds().stdout.split_once('\n').unwrap();
    assert!(
        requires.contains("nvidia-cuda-runtime-cu12<13,>=12.4")
            || requires.contains("nvidia-cuda-runtime-cu12>=12.4,<13"),
        "{requires}"
    );
    // The library is where NVIDIA's wheel has it, and nowhere else.
    let folder = Path::new(site).join("nvidia/cuda_runtime/lib");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::rename(project.path(CUDART), folder.join("libcudart.so.12")).unwrap();
    std::fs::remove_dir_all(project.path("cuda")).unwrap();
    assert_eq!(add(&project, &python).succeeds().stdout, "42\n");
}

/// Writes a wheel with the stand-in, as NVIDIA's wheel has it.
const RUNTIME_WHEEL: &str = r#"
import os, zipfile
os.makedirs("index", exist_ok=True)
stem = "nvidia_cuda_runtime_cu12-12.9.79"
files = {"nvidia/cuda_runtime/lib/libcudart.so.12": open("cuda/lib64/libcudart.so.12", "rb").read(),
    f"{stem}.dist-info/METADATA": "Metadata-Version: 2.1\nName: nvidia-cuda-runtime-cu12\nVersion: 12.9.79\n",
    f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
files[f"{stem}.dist-info/RECORD"] = "".join(path + ",,\n" for path in list(files) + [f"{stem}.dist-info/RECORD"])
with zipfile.ZipFile(f"index/{stem}-py3-none-any.whl", "w") as out:
    for path, data in files.items():
        out.writestr(path, data)
"#;

/// With `runtime = "extra"`, `pip install my-adder` installs no wheel of NVIDIA, and `my-adder[cuda]` does.
#[test]
fn an_extra_installs_the_libraries_of_nvidia() {
    let Some(project) = with_cuda() else { return };
    project.write("gpubuild.toml", &(project.read("gpubuild.toml") + "runtime = \"extra\"\n"));
    let (wheel, path) = pack_one(&project);
    assert_eq!(wheel["requires"], serde_json::json!(["nvidia-cuda-runtime-cu12>=12.4,<13"]));
    assert_eq!(wheel["extra"], "cuda");
    let Some(python) = installed(&project, &path) else { return };
    project.write("wheel.py", RUNTIME_WHEEL);
    project.start(&[&python, "wheel.py"]).succeeds();
    std::fs::remove_dir_all(project.path("cuda")).unwrap();
    let install = |what: &str| {
        let pip = [&python, "-m", "pip", "install", "--no-index"];
        project.start(&[&pip[..], &["--find-links", "index", "--find-links", "dist", what]].concat())
    };
    // Everything that the package requires is installed, but not the library.
    install("my-adder").succeeds();
    project.start(&[&python, "-m", "pip", "check"]).succeeds();
    assert!(!add(&project, &python).is_success());
    install("my-adder[cuda]").succeeds();
    assert_eq!(add(&project, &python).succeeds().stdout, "42\n");
}

#[test]
fn names_of_extension_modules_determine_the_tags() {
    let module = |suffix: &str| {
        format!(
            "add_library(_core MODULE core.c)\nset_target_properties(_core PROPERTIES PREFIX \"\" SUFFIX \"{suffix}\")\n"
        )
    };
    let Some(project) = project(ADD_ONE, &module(".cpython-311-x86_64-linux-gnu.so")) else { return };
    project.write("vendor/core.c", "void *PyInit__core(void) { return 0; }\n");
    let table = project.read("gpubuild.toml").replace("[\"adder\"]", "[\"_core\"]");
    project.write("gpubuild.toml", &table);
    let (wheel, _) = pack_one(&project);
    assert!(wheel["file"].as_str().unwrap().starts_with("my_adder-1.0-cp311-cp311-"), "{wheel}");
    let script = |suffix: &str| {
        let text = project.read("vendor/CMakeLists.txt");
        let (before, _) = text.split_once("add_library(_core").unwrap();
        project.write("vendor/CMakeLists.txt", &format!("{before}{}", module(suffix)));
    };
    script(".abi3.so");
    let (wheel, _) = pack_one(&project);
    assert!(wheel["file"].as_str().unwrap().starts_with("my_adder-1.0-cp38-abi3-"), "{wheel}");
    script(".so");
    let ran = pack(&project, &["--format", "wheel", "--out", "dist", "--backends", "cpu"]);
    ran.fails(1, "wheel.abi").says(&["_core.so", "WITH_SOABI"]);
}

#[test]
fn auditwheel_agrees_with_the_platform_tag() {
    if !is_on_path("auditwheel") {
        skip("auditwheel", "no auditwheel");
        return;
    }
    let source = "#include <math.h>\n#include <string.h>\nint add_one(int x) { char b[9]; memcpy(b, &x, 4); return (int)exp(b[0] * 0.0) + x; }\n";
    let Some(project) = project(source, "target_link_libraries(adder PRIVATE m)\n") else { return };
    let (wheel, path) = pack_one(&project);
    let shown = project.start(&["auditwheel", "show", path.to_str().unwrap()]);
    let file = wheel["file"].as_str().unwrap();
    let tags: Vec<&str> = file.trim_end_matches(".whl").rsplit('-').next().unwrap().split('.').collect();
    assert!(
        tags.iter().any(|tag| shown
            .succeeds()
            .stdout
            .replace('\n', " ")
            .contains(&format!("tag: \"{tag}\""))),
        "{file}: {shown:?}"
    );
}

#[test]
fn projects_without_a_package_are_refused_before_the_build() {
    let project = Sandbox::with_project("cmake");
    let run =
        |arguments: &[&str]| pack(&project, &[&["--format", "wheel", "--out", "dist"], arguments].concat());
    run(&[]).fails(2, "wheel.no-package").says(&["[python]"]);
    let table = project.read("gpubuild.toml");
    project.write("gpubuild.toml", &format!("{table}[python]\npackage = \"demo\"\n"));
    run(&[]).fails(2, "wheel.metadata").says(&["pyproject.toml"]);
    project.write("pyproject.toml", "[project]\nname = \"demo\"\n");
    run(&[]).fails(2, "wheel.metadata").says(&["`version` is missing"]);
    project.write("pyproject.toml", "[project]\nname = \"demo\"\ndynamic = [\"version\"]\n");
    run(&[])
        .fails(2, "wheel.version")
        .says(&["`demo/__init__.py` has no line", "scikit_build_core.metadata.regex"]);
    run(&["--serial", "3"]).fails(2, "usage.conflict").says(&["--serial"]);
    pack(&project, &["--out", "dist", "--single"]).fails(2, "usage.conflict").says(&["--single"]);
    assert!(!project.exists("dist"));
}
