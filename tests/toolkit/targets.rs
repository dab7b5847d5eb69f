//! Toolkits for another platform: compilers of this machine, and libraries of the target.

use crate::sandbox::{Sandbox, on_path};

const TRIPLE: &str = "aarch64-unknown-linux-gnu";
const NAME: &str = "nvidia_cuda_runtime-1.0-py3-none-any.whl";

/// A lock whose libraries exist for the target only, and their wheel.
fn with_libraries_of_target() -> Option<Sandbox> {
    let sandbox = Sandbox::new()?;
    let name = NAME.replace("any", "manylinux_2_17_aarch64");
    std::fs::rename(sandbox.path("wheels").join(NAME), sandbox.path("wheels").join(&name)).unwrap();
    let lock = std::fs::read_to_string(sandbox.path("lock.toml")).unwrap();
    sandbox.write("lock.toml", &lock.replace(NAME, &name));
    Some(sandbox)
}

#[test]
fn libraries_of_a_target_are_installed_beside_the_toolkits_of_this_machine() {
    let Some(sandbox) = with_libraries_of_target() else { return };
    let installed = sandbox.install(&["--target", TRIPLE, "--json"]);
    let document = installed.succeeds().json();
    assert_eq!(document["installed"]["target"], TRIPLE);
    let prefix = sandbox.path(&format!("cache/toolkits/{TRIPLE}/cuda-13.0/prefix"));
    assert_eq!(document["installed"]["root"], prefix.to_str().unwrap());
    for file in ["bin/nvcc", "include/cuda.h", "lib/libcudart.so", "version.json"] {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    let stub = std::fs::read(prefix.join("lib/stubs/libcuda.so"));
    if on_path("aarch64-linux-gnu-gcc").is_some() {
        // e_machine of the ELF header: EM_AARCH64.
        assert_eq!(stub.unwrap()[18..20], [0xb7, 0]);
    } else {
        assert!(stub.is_err());
        assert!(document["notes"][0].as_str().unwrap().contains(&format!("GCC for {TRIPLE}")));
    }
    // The second call has nothing to do, and adds a component.
    let again = sandbox.install(&["--target", TRIPLE, "--json"]).succeeds().json();
    assert_eq!(again["state"], "unchanged");
    sandbox.install(&["--target", TRIPLE, "--with", "cublas"]).succeeds();
    assert!(prefix.join("lib/libcublas.so").is_file());

    // It is not a toolkit of this machine.
    sandbox.run(&["toolkit", "verify", "cuda"]).fails(2, "toolkit.not-installed").says(&[TRIPLE]);
    sandbox.run(&["toolkit", "verify", "cuda", "--target", TRIPLE]).succeeds();
    sandbox.run(&["toolkit", "verify"]).succeeds();
    for (target, count) in [(TRIPLE, 1), ("host", 0)] {
        let verified = sandbox.run(&["toolkit", "verify", "--target", target, "--json"]).succeeds().json();
        assert_eq!(verified["toolkits"].as_array().unwrap().len(), count, "{verified:#}");
    }
    let variables = sandbox.run(&["toolkit", "env", "--target", TRIPLE, "--format", "sh"]);
    assert!(variables.succeeds().stdout.contains(prefix.to_str().unwrap()), "{variables:#?}");
    let list = sandbox.run(&["toolkit", "list", "--json"]).json();
    assert_eq!(list["installed"][0]["target"], TRIPLE);
    let is_here = |one: &serde_json::Value| one["installed"] == true;
    assert!(!list["offered"].as_array().unwrap().iter().any(is_here), "{list:#}");
    let detected = sandbox.run(&["detect", "--json"]).json().to_string();
    assert!(!detected.contains(prefix.to_str().unwrap()), "{detected}");

    sandbox.run(&["toolkit", "remove", "cuda", "--target", TRIPLE]).succeeds();
    assert!(!prefix.exists());
    sandbox.holds_nothing();
}

#[test]
fn impossible_targets_are_refused() {
    let Some(sandbox) = with_libraries_of_target() else { return };
    for (toolkit, target, id) in [
        ("cuda", "armv7-unknown-linux-gnueabihf", "cross.toolkit-unsupported"),
        ("cuda", "nothing", "cross.target-unknown"),
        ("cuda", "../..", "cross.target-unknown"),
        ("rocm", TRIPLE, "cross.toolkit-unsupported"),
    ] {
        sandbox.run(&["toolkit", "install", toolkit, "--target", target]).fails(2, id);
    }
    // The libraries are for the other platform.
    if cfg!(target_arch = "x86_64") {
        sandbox.install(&[]).fails(2, "toolkit.no-wheels-here");
    }
    sandbox.holds_nothing();
}
