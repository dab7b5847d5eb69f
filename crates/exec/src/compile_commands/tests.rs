//! The commands of recorded trees with several compilers.

use gpubuild_host::{Arch, Os, RecordedHost};
use serde_json::{Value, json};

use super::{UnknownSources, database};

fn tree(id: &str, backends: &[&str], compilers: &Value, cache: &Value) -> Value {
    json!({
        "id": id, "backends": backends, "key": "k", "source": "/p", "build": format!("/b/{id}"), "generator": "Ninja",
        "cmake": "3.30", "cache": cache, "files": [], "link": [], "compilers": compilers,
    })
}

fn compiler(id: &str, version: &str, path: &str) -> Value {
    json!({ "id": id, "version": version, "path": path })
}

fn group(language: &str, flags: &[&str], source: &str) -> Value {
    json!({ "target": "t", "language": language, "flags": flags, "includes": [{ "path": "/p/include" }],
        "defines": ["A=1"], "sources": [source] })
}

/// The commands of trees with these groups, one line each.
fn commands(trees: &[(Value, Value)]) -> Result<Vec<String>, UnknownSources> {
    let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64);
    for (tree, editor) in trees {
        let build = tree["build"].as_str().unwrap();
        host = host.file(&format!("{build}/gpubuild/editor.json"), &editor.to_string());
    }
    let all: Vec<&Value> = trees.iter().map(|(tree, _)| tree).collect();
    let manifest = json!({ "schema": 1, "gpubuild": "0", "project": "p", "backends": [], "trees": all });
    let manifest = serde_json::from_value(manifest).unwrap();
    let found = database(&host.build(), &manifest)?;
    Ok(found.iter().map(|one| format!("{}: {}", one.directory, one.arguments.join(" "))).collect())
}

#[test]
fn each_source_is_listed_once_for_its_preferred_tree() {
    let gnu = compiler("GNU", "12.2.0", "/usr/bin/g++");
    let nvcc = compiler("NVIDIA", "13.0.1", "/cuda/bin/nvcc");
    let hip = compiler("Clang", "19.0.0", "/rocm/clang++");
    let cuda = tree("cpu-cuda", &["cpu", "cuda"], &json!({ "CXX": gnu, "CUDA": nvcc }), &json!({}));
    let rocm = tree("rocm", &["rocm"], &json!({ "HIP": hip }), &json!({}));
    let cpu = tree("cpu", &["cpu"], &json!({ "CXX": gnu }), &json!({}));
    let found = commands(&[
        (rocm, json!({ "groups": [group("HIP", &["-parallel-jobs=4"], "/p/k.cu")] })),
        (
            cuda,
            json!({ "groups": [
            group("CXX", &["-O2"], "/p/a.cpp"),
            group("CUDA", &["--generate-code=arch=compute_90a,code=[sm_90a]", "-lineinfo"], "/p/k.cu"),
            group("ASM", &[], "/p/a.S"),
        ] }),
        ),
        (cpu, json!({ "groups": [group("CXX", &["-O3", "-flto=auto", "-std=c++20"], "/p/a.cpp")] })),
    ]);
    assert_eq!(
        found.unwrap(),
        [
            "/b/cpu: /usr/bin/g++ -O3 -std=c++20 -Wno-unknown-warning-option -DA=1 -I/p/include -c /p/a.cpp",
            "/b/cpu-cuda: clang++ -x cuda --cuda-path=/cuda --cuda-gpu-arch=sm_86 --no-cuda-version-check \
         -Wno-unknown-cuda-version -Wno-unknown-warning-option -std=gnu++17 -DA=1 -I/p/include -c /p/k.cu",
        ]
    );
}

#[test]
fn defaults_of_other_compilers_are_named() {
    let one = |compilers: Value, editor: Value| {
        commands(&[(tree("cpu", &["cpu"], &compilers, &json!({})), editor)]).unwrap().join("\n")
    };
    let openmp = json!({
        "implicit": { "C": ["/usr/lib/gcc/x86_64-linux-gnu/12/include", "/usr/include"] },
        "groups": [group("C", &["-fopenmp"], "/p/a.c")],
    });
    assert_eq!(
        one(json!({ "C": compiler("GNU", "12.2.0", "gcc") }), openmp),
        "/b/cpu: gcc -fopenmp -Wno-unknown-warning-option -std=gnu17 -DA=1 -I/p/include \
         -D__malloc__(...)=__malloc__ -idirafter /usr/lib/gcc/x86_64-linux-gnu/12/include -c /p/a.c"
    );
    let hip = json!({ "groups": [group("HIP", &["--offload-arch=gfx942"], "/p/k.cu")] });
    assert_eq!(
        one(json!({ "HIP": compiler("Clang", "19.0.0", "clang++") }), hip),
        "/b/cpu: clang++ -x hip --offload-arch=gfx942 -DA=1 -I/p/include -c /p/k.cu"
    );
    let mut system = group("CXX", &["-O2", "-std:c++17"], "/p/a.cpp");
    system["includes"][0]["system"] = true.into();
    system["standard"] = "17".into();
    assert_eq!(
        one(json!({ "CXX": compiler("MSVC", "19.40", "cl.exe") }), json!({ "groups": [system] })),
        "/b/cpu: cl.exe -O2 -std:c++17 -DA=1 -imsvc /p/include -c /p/a.cpp"
    );
}

#[test]
fn toolkit_of_the_plan_is_used_and_unknown_sources_are_an_error() {
    let nvcc = json!({ "CUDA": compiler("NVIDIA", "12.8.61", "/usr/bin/nvcc") });
    let planned = tree("cuda", &["cuda"], &nvcc, &json!({ "CUDAToolkit_ROOT": "/opt/cuda-12.8" }));
    let mut kernel = group("CUDA", &["-arch=sm_80"], "/p/k.cu");
    kernel["sysroot"] = "/sys".into();
    kernel["standard"] = "14".into();
    let found = commands(&[(planned.clone(), json!({ "groups": [kernel] }))]).unwrap();
    for word in ["--cuda-path=/opt/cuda-12.8", "--cuda-gpu-arch=sm_80", "--sysroot=/sys", "-std=gnu++14"] {
        assert!(found[0].split(' ').any(|found| found == word), "{word}: {found:?}");
    }
    assert_eq!(commands(&[(planned, json!({}))]), Err(UnknownSources { tree: "cuda".to_owned() }));
}

#[test]
fn custom_commands_are_listed_after_the_languages_of_cmake() {
    let cxx = json!({ "CXX": compiler("GNU", "12.2.0", "/usr/bin/g++") });
    let custom = |language: &str, id: &str, path: &str, source: &str| {
        json!({ "target": "a.o", "language": language, "flags": ["-O3", "-arch=sm_80"], "includes": [], "defines": [],
            "sources": [source], "compiler": compiler(id, "", path), "directory": "/b/cpu/sub" })
    };
    let groups = json!({ "groups": [
        custom("CUDA", "NVIDIA", "/cuda/bin/nvcc", "/p/k.cu"),
        custom("HIP", "Clang", "/opt/rocm/bin/hipcc", "/p/h.cu"),
        custom("CXX", "GNU", "g++-12", "/p/a.cpp"),
        group("CXX", &["-std=c++20"], "/p/a.cpp"),
    ] });
    assert_eq!(
        commands(&[(tree("cpu", &["cpu"], &cxx, &json!({})), groups)]).unwrap(),
        [
            "/b/cpu: /usr/bin/g++ -std=c++20 -Wno-unknown-warning-option -DA=1 -I/p/include -c /p/a.cpp",
            "/b/cpu/sub: /opt/rocm/bin/hipcc -x hip -O3 -arch=sm_80 -c /p/h.cu",
            "/b/cpu/sub: clang++ -x cuda --cuda-path=/cuda --cuda-gpu-arch=sm_80 --no-cuda-version-check \
         -Wno-unknown-cuda-version -O3 -Wno-unknown-warning-option -c /p/k.cu",
        ]
    );
}
