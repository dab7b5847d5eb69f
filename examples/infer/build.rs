//! Links the kernel libraries found in `GK_LIB_DIR` and tells the program which ones there are.

use std::path::Path;

const BACKENDS: [&str; 8] = ["cuda", "rocm", "metal", "vulkan", "sycl", "opencl", "cpu", "ref"];

fn main() {
    println!("cargo::rerun-if-env-changed=GK_LIB_DIR");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=model");
    println!("cargo::rustc-check-cfg=cfg(embedded_model)");
    if Path::new("model/default.gguf").is_file() && Path::new("model/reference.json").is_file() {
        println!("cargo::rustc-cfg=embedded_model");
    }
    let values: Vec<String> = BACKENDS.iter().map(|id| format!("\"{id}\"")).collect();
    println!("cargo::rustc-check-cfg=cfg(gpubuild_backend, values({}))", values.join(", "));
    let Some(folder) = std::env::var_os("GK_LIB_DIR") else { return };
    let folder = Path::new(&folder);
    let library = |name: &str| {
        let path = folder.join(format!("lib{name}.a"));
        println!("cargo::rerun-if-changed={}", path.display());
        path.is_file()
    };
    let found: Vec<&str> =
        BACKENDS.into_iter().filter(|id| *id != "ref" && library(&format!("gk-{id}"))).collect();
    if !library("gk-core") {
        return;
    }
    println!("cargo::rustc-link-search=native={}", folder.display());
    for id in found {
        println!("cargo::rustc-link-lib=static=gk-{id}");
        println!("cargo::rustc-cfg=gpubuild_backend=\"{id}\"");
    }
    println!("cargo::rustc-link-lib=static=gk-core");
    println!("cargo::rustc-cfg=gpubuild_backend=\"ref\"");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "unix") {
        println!("cargo::rustc-link-lib=dylib=m");
        println!("cargo::rustc-link-lib=dylib=pthread");
    }
}
