//! ROCm from wheels in the format of AMD's (ROCm/TheRock), from an index that the test creates: AMD's own could not be reached.

use std::fmt::Write as _;
use std::fs;

use crate::sandbox::Sandbox;
use crate::wheels::{self, Entry};

/// Like a nightly release, of which an index has no others.
const VERSION: &str = "7.15.0a20260630";
const CORE: [Entry<'static>; 4] = [
    ("_rocm_sdk_core/lib/llvm/bin/clang", "#!/bin/sh\necho 'AMD clang version 20.0.0git'\n", true),
    ("_rocm_sdk_core/bin/hipcc", "#!/bin/sh\necho 'HIP version: 7.15'\n", true),
    ("_rocm_sdk_core/lib/libamdhip64.so.7", "hip", false),
    ("_rocm_sdk_core/lib/llvm/amdgcn/bitcode/ockl.bc", "code", false),
];
const LIBRARIES: [Entry<'static>; 1] = [("_rocm_sdk_libraries/lib/libhipblas.so.3", "blas", false)];
const KERNELS: [Entry<'static>; 2] = [
    ("_rocm_sdk_libraries/.kpack/blas_lib_gfx1100.kpack", "kernels", false),
    ("_rocm_sdk_libraries/lib/rocblas/library/Kernels_gfx1100.co", "kernels", false),
];
/// Files and links of the archive in the wheel with development files.
const HEADERS: [(&str, &str); 2] = [
    ("_rocm_sdk_devel/include/hip/hip_runtime.h", "#pragma once\n"),
    ("_rocm_sdk_devel/lib/cmake/hip/hip-config.cmake", "set(HIP 1)\n"),
];
const LINKS: [(&str, &str); 5] = [
    ("_rocm_sdk_devel/bin/hipcc", "../../_rocm_sdk_core/bin/hipcc"),
    ("_rocm_sdk_devel/lib/libamdhip64.so.7", "../../_rocm_sdk_core/lib/libamdhip64.so.7"),
    ("_rocm_sdk_devel/lib/libamdhip64.so", "libamdhip64.so.7"),
    ("_rocm_sdk_devel/llvm", "lib/llvm"),
    ("_rocm_sdk_devel/lib/libhipblas.so", "libhipblas.so.3"),
];

/// The archive with development files, as text: it has ASCII and zeros only.
fn archive() -> String {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in HEADERS {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    for (path, target) in LINKS {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        tar.append_link(&mut header, path, target).unwrap();
    }
    String::from_utf8(tar.into_inner().unwrap()).unwrap()
}

/// A sandbox with an index of wheels, and the URL of the index.
fn sandbox() -> Option<(Sandbox, String)> {
    let sandbox = Sandbox::with_uv()?;
    let archive = archive();
    let devel =
        [("rocm_sdk_devel/__init__.py", "", false), ("rocm_sdk_devel/_devel.tar", archive.as_str(), false)];
    let folder = sandbox.path("amd");
    fs::create_dir(&folder).unwrap();
    for (package, entries) in [
        ("rocm-sdk-core", &CORE[..]),
        ("rocm-sdk-devel", &devel[..]),
        ("rocm-sdk-libraries", &LIBRARIES[..]),
        ("rocm-sdk-device-gfx1100", &KERNELS[..]),
    ] {
        let wheel =
            wheels::wheel_of(&folder, package, (VERSION, "py3-none-linux_x86_64"), entries, &|record| record);
        let page = sandbox.path("simple").join(package);
        fs::create_dir_all(&page).unwrap();
        let mut text = String::from("<!DOCTYPE html><html><body>\n");
        let _ = writeln!(text, "<a href=\"../../amd/{0}#sha256={1}\">{0}</a>", wheel.name(), wheel.sha256);
        fs::write(page.join("index.html"), text + "</body></html>\n").unwrap();
    }
    let url = format!("file://{}", sandbox.path("simple").display());
    Some((sandbox, url))
}

#[test]
fn wheels_of_amd_are_locked_and_installed() {
    let Some((sandbox, url)) = sandbox() else { return };
    let lock = ["toolkit", "lock", "rocm@7.15", "--index", &url, "--gpus", "gfx1100", "-o", "rocm.toml"];
    sandbox.run(&lock).succeeds().says(&["--lock"]);
    let install = ["toolkit", "install", "rocm", "--lock", "rocm.toml"];
    sandbox.run(&install).succeeds();
    let prefix = |name: &str| sandbox.path("cache/toolkits/rocm-7.15/prefix").join(name);
    for name in [
        "bin/hipcc",
        "lib/llvm/bin/clang",
        "llvm/bin/clang",
        "lib/llvm/amdgcn/bitcode/ockl.bc",
        "include/hip/hip_runtime.h",
        "lib/cmake/hip/hip-config.cmake",
        "lib/libamdhip64.so",
        // Where libraries of other wheels search.
        "../_rocm_sdk_core/lib/libamdhip64.so.7",
    ] {
        assert!(prefix(name).is_file(), "{name}");
    }
    assert!(!prefix("lib/libhipblas.so").is_file(), "the component was not requested");
    sandbox.run(&["toolkit", "verify", "rocm"]).succeeds();
    let detected = sandbox.run(&["detect", "--json"]).succeeds().json();
    assert!(detected.to_string().contains("toolkits/rocm-7.15/prefix"), "{detected:#}");
    let env = sandbox.run(&["toolkit", "env", "rocm"]);
    assert!(env.succeeds().stdout.contains("/lib/llvm/amdgcn/bitcode"), "{env:#?}");
    sandbox.run(&[&install[..], &["--with", "hipblas"]].concat()).succeeds();
    assert_eq!(fs::read_to_string(prefix("lib/libhipblas.so")).unwrap(), "blas");
    assert!(prefix(".kpack/blas_lib_gfx1100.kpack").is_file());
    // A file that was changed is found: the hashes of the archive's files were recorded.
    fs::remove_file(prefix("include/hip/hip_runtime.h")).unwrap();
    fs::write(prefix("include/hip/hip_runtime.h"), "other").unwrap();
    let verified = sandbox.run(&["toolkit", "verify", "rocm"]);
    assert!(
        verified.exit == Some(1) && verified.stdout.contains("hip_runtime.h: was changed"),
        "{verified:?}"
    );
}

#[test]
fn lock_of_amd_needs_wheels_of_the_release_and_a_safe_index() {
    let Some((sandbox, url)) = sandbox() else { return };
    let lock = |arguments: &[&str]| sandbox.run(&[&["toolkit", "lock"], arguments].concat());
    lock(&["rocm@7.16", "--index", &url]).fails(1, "wheel.not-found");
    lock(&["rocm@7.15", "--index", &url, "--gpus", "gfx942"]).fails(1, "wheel.not-found");
    for wrong in [["--index", "https://user:password@example.com/simple"], ["--gpus", "RX7900"]] {
        let result = lock(&["rocm@7.15", wrong[0], wrong[1]]);
        assert!(result.exit == Some(2) && !result.stderr.contains("password@"), "{result:?}");
    }
    assert!(!sandbox.exists("rocm-7.15.toml"));
    // The index is in the lock.
    let text = lock(&["rocm@7.15", "--index", &url, "-o", "-"]).succeeds().stdout.clone();
    assert!(text.contains(&format!("index = \"{url}\"")) && text.contains("[\"linux-x86_64\"]"), "{text}");
    assert!(!text.contains("rocm-sdk-device"), "no GPU was named, and this machine has none: {text}");
}
