//! `gpubuild pack --program`: finished programs of a cargo package without native libraries.
#![cfg(target_os = "linux")]

use gpubuild_samples::{Elf, pe};

use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// A cargo package with a small program that was compiled already, and without a gpubuild.toml.
fn package() -> Option<Sandbox> {
    if !is_on_path("cc") {
        skip("cmake", "no cc");
        return None;
    }
    let package = Sandbox::new();
    package.write(
        "app/Cargo.toml",
        "[package]\nname = \"greeter\"\nversion = \"0.4.2\"\nedition = \"2024\"\n[workspace]\n",
    );
    package.write("app/src/main.rs", "fn main() {}\n");
    package.write("app/LICENSE", "as you like\n");
    package.write("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    package.write("out/.keep", "");
    package.start(&["cc", "-o", "out/greeter", "hello.c"]).succeeds();
    package.start(&["cc", "-o", "out/helper", "hello.c"]).succeeds();
    Some(package)
}

fn pack(package: &Sandbox, arguments: &[&str]) -> RunResult {
    package.run(&[&["pack", "--offline", "--out", "release", "--json"], arguments].concat())
}

#[test]
fn programs_are_packed_with_their_licences_and_can_be_installed() {
    let Some(package) = package() else { return };
    let programs = ["--program", "out/greeter", "--program", "out/helper", "--package", "app"];
    let document = pack(&package, &programs).succeeds().json();
    assert_eq!(
        (&document["manifest"]["name"], &document["manifest"]["version"]),
        (&"greeter".into(), &"0.4.2".into())
    );
    let variant = &document["manifest"]["platforms"]["linux-x86_64"]["variants"][0];
    assert_eq!(variant["backends"], serde_json::json!(["cpu"]), "{variant}");
    assert!(variant["libc"]["version"].is_string(), "{variant}");
    package.run(&["install", "--manifest", "release", "--to", "to"]).succeeds();
    for file in ["bin/greeter", "bin/helper", "share/licences/greeter/LICENSE", "share/licences/crates.txt"] {
        assert!(package.exists(&format!("to/current/{file}")), "{file}");
    }
    assert_eq!(package.start(&["to/current/bin/greeter"]).stdout, "hello\n");
}

#[test]
fn files_that_cannot_run_here_are_refused() {
    let Some(package) = package() else { return };
    package.write("script", "#!/bin/sh\n");
    package.start(&["cc", "-shared", "-fPIC", "-o", "lib.so", "hello.c"]).succeeds();
    for file in ["missing", "script", "lib.so"] {
        let result = pack(&package, &["--program", file, "--package", "app"]);
        assert_eq!(result.exit, Some(2), "{result:?}");
        assert!(
            result.stderr.contains("[pack.program-invalid]") && result.stderr.contains(file),
            "{result:?}"
        );
    }
    let result = pack(&package, &["--program", "out/greeter", "--package", "out"]);
    assert_eq!(result.exit, Some(1), "{result:?}");
    assert!(!package.exists("release"));
    let result = pack(&package, &["--program", "out/greeter", "--variant", "cpu"]);
    assert_eq!(result.exit, Some(2), "{result:?}");
}

#[test]
fn programs_for_other_platforms_are_packed() {
    let Some(package) = package() else { return };
    let arm = Elf { machine: 183, interpreter: Some("/lib/ld-linux-aarch64.so.1"), ..Elf::program() };
    let arm = arm.needed(&["libc.so.6"]).version_needs("libc.so.6", &["GLIBC_2.17", "GLIBC_2.34"]);
    package.write_bytes("out/arm", &arm.build());
    package.write_bytes("out/other.exe", &pe(0x8664, false, &[("KERNEL32.dll", &["ExitProcess"])], &[], &[]));
    let target =
        |file: &str, name: &str| pack(&package, &["--program", file, "--package", "app", "--target", name]);

    let document = target("out/arm", "aarch64-unknown-linux-gnu").succeeds().json();
    let variant = &document["manifest"]["platforms"]["linux-aarch64"]["variants"][0];
    assert_eq!(variant["libc"], serde_json::json!({"family": "glibc", "version": "2.34"}), "{document:#}");
    assert_eq!(variant["start"]["program"], "bin/arm");
    // The release has both platforms.
    let document = target("out/other.exe", "x86_64-pc-windows-gnu").succeeds().json();
    let platforms = &document["manifest"]["platforms"];
    assert!(
        platforms["linux-aarch64"].is_object() && platforms["windows-x86_64"].is_object(),
        "{document:#}"
    );
    assert_eq!(document["variants"][0]["left"], serde_json::json!(["KERNEL32.dll"]), "{document:#}");

    let failed = |result: RunResult, id: &str| {
        assert_eq!(result.exit, Some(2), "{result:?}");
        assert!(result.stderr.contains(&format!("[{id}]")), "{result:?}");
    };
    failed(target("out/arm", "x86_64-pc-windows-gnu"), "pack.program-invalid");
    failed(target("out/arm", "riscv64gc-unknown-linux-gnu"), "pack.target");
    // A library that the system does not have.
    let lacking = Elf { machine: 183, ..Elf::program() }.needed(&["libthird.so.3"]);
    package.write_bytes("out/arm", &lacking.build());
    let result = target("out/arm", "aarch64-unknown-linux-musl");
    assert!(result.stderr.contains("[pack.library-missing]"), "{result:?}");
}
