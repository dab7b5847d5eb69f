use gpubuild_host::{Arch, Os, RecordedHost};

use super::super::cargo::tests::host as cargo_host;
use super::*;
use crate::Build;
use crate::cargo::BuildingCrate;

/// A crate with built libraries.
fn built(host: &dyn WriteFiles, manifest: &str) -> Built {
    let krate = BuildingCrate::read(host).unwrap();
    Built {
        manifest: Some(serde_json::from_str(manifest).unwrap()),
        place: Some(Build::new().source("native").place(host, krate)),
        ..Built::default()
    }
}

const MANIFEST: &str = r#"{"schema":1,"gpubuild":"0.1.0","project":"p","backends":["cpu"],"trees":[{"id":"cpu","backends":["cpu"],"key":"k","source":"/c/native","build":"/t/p/cpu","generator":"Ninja","cmake":"4","cache":{},"files":[],"link":[],"compilers":{},"interface":{"includes":["/c/native/include"],"defines":["X_SHARED","X_NAME=32"]},"abi":{"x.h":"0","version":"1","X_NAME":"32","X_DIMS":"4","X_WIDE":"128"}}]}"#;

const HEADER: &str = "#define X_DIMS 4\n#ifndef X_WIDE\n#define X_WIDE 64\n#endif\n";

fn machine(more: &[(&str, &str)]) -> RecordedHost {
    let mut host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/c/Cargo.toml", "");
    let usual = [
        ("CARGO_MANIFEST_DIR", "/c"),
        ("CARGO_PKG_NAME", "x-sys"),
        ("OUT_DIR", "/t/out"),
        ("TARGET", "x86_64-unknown-linux-gnu"),
        ("HOST", "x86_64-unknown-linux-gnu"),
    ];
    for (name, value) in usual {
        host = host.env(name, value);
    }
    for (path, text) in more {
        host = host.file(path, text);
    }
    host.build()
}

#[test]
fn bindgen_gets_the_settings_of_the_libraries() {
    let host = machine(&[("/c/native/include/x.h", HEADER)]);
    let bindings = built(&host, MANIFEST).bindings().header("x.h").include("more").include_source("extra");
    let call = bindings.call(&host, bindings.place.as_ref().unwrap()).unwrap();
    assert_eq!(call.headers, ["/c/native/include/x.h"]);
    // Default values of the header are not passed, so that bindgen generates constants for them.
    let expected = [
        "-I/c/more",
        "-I/c/native/extra",
        "-I/c/native/include",
        "-DX_SHARED",
        "-DX_NAME=32",
        "-DX_WIDE=128",
    ];
    assert_eq!(call.arguments, expected);
    assert_eq!(call.depfile, "/t/out/bindings.rs.d");
}

#[test]
fn patched_headers_of_the_copy_are_read() {
    let host = machine(&[("/c/native/include/x.h", ""), ("/t/p/sources/include/x.h", HEADER)]);
    let manifest = MANIFEST
        .replace("\"source\":\"/c/native\"", "\"source\":\"/t/p/sources\"")
        .replace("/c/native/include", "/t/p/sources/include");
    let bindings = built(&host, &manifest).bindings().header("include/x.h").include_source("extra");
    let call = bindings.call(&host, bindings.place.as_ref().unwrap()).unwrap();
    assert_eq!(call.headers, ["/t/p/sources/include/x.h"]);
    assert_eq!(call.arguments[..2], ["-I/t/p/sources/extra", "-I/t/p/sources/include"]);
}

#[test]
fn a_missing_header_is_reported_with_the_searched_folders() {
    let host = machine(&[]);
    let (script, result) =
        built(&host, MANIFEST).bindings().header("y.h").script(&host, |_| Ok::<_, String>(String::new()));
    let error = result.unwrap_err();
    assert_eq!(error.id(), "bindings.header-missing");
    let text = script.text();
    assert!(text.contains("cargo::error=header `y.h` not found [bindings.header-missing]\n"), "{text}");
    assert!(text.contains("searched: /c/native, /c, /c/native/include"), "{text}");

    let (_, result) = built(&host, MANIFEST).bindings().script(&host, |_| Ok::<_, String>(String::new()));
    assert_eq!(result.unwrap_err().id(), "bindings.no-headers");
    let (_, result) = Built::default().bindings().script(&host, |_| Ok::<_, String>(String::new()));
    assert_eq!(result.unwrap_err().id(), "script.no-cargo");
}

#[test]
fn errors_of_bindgen_are_reported() {
    let host = machine(&[("/c/native/include/x.h", HEADER)]);
    let ask = |make: fn(&BindgenCall) -> Result<String, String>| {
        let (script, result) = built(&host, MANIFEST).bindings().header("x.h").script(&host, make);
        (script.text().to_owned(), result.unwrap_err().id().to_owned())
    };
    // A recorded host cannot be written, and `remove` is the first operation that fails.
    let (text, id) = ask(|_| Err("'z.h' file not found".to_owned()));
    assert_eq!(id, "file.failed", "{text}");
    let panicking = |_: &BindgenCall| -> Result<String, String> { panic!("{NO_LIBCLANG}: {}", 1) };
    let call = BindgenCall { headers: Vec::new(), arguments: Vec::new(), depfile: String::new() };
    assert_eq!(generate(&call, panicking), Err(format!("{NO_LIBCLANG}: 1")));
    let missing = no_libclang(&cargo_host("", &[("LIBCLANG_PATH", "/nowhere")]), "bindings.rs");
    let message = ScriptError::Missing(missing).full_message();
    assert!(message.contains("cannot generate `bindings.rs` [cuda.libclang-missing]"), "{message}");
    assert!(message.contains("`LIBCLANG_PATH` names `/nowhere`") && message.contains("\nfix: "), "{message}");
}
