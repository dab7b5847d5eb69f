//! `gpubuild pack --program`: finished programs of a cargo package without native libraries.
#![cfg(target_os = "linux")]

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
