//! `doctor --binary`: binaries of this machine's compilers, compared with its loader.

#![expect(clippy::disallowed_methods, reason = "tests compare with what the system resolves")]

use serde_json::Value;

use crate::support::{RunResult, Sandbox, is_on_path, recorded, skip};

fn ids(document: &Value) -> Vec<&str> {
    document["findings"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

/// The path from which a library is loaded, or its state.
fn path_of(document: &Value, name: &str) -> String {
    let libraries = document["binary"]["libraries"].as_array().unwrap();
    let found = libraries.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{document:#}"));
    found["path"].as_str().unwrap_or_else(|| found["state"].as_str().unwrap()).to_owned()
}

fn inspect(sandbox: &Sandbox, more: &[&str]) -> RunResult {
    sandbox.run(&[&["doctor", "--offline", "--json", "--binary"], more].concat())
}

/// A folder with C sources on Linux. Prints why and returns `None` elsewhere or without gcc.
fn compiler() -> Option<Sandbox> {
    if !cfg!(target_os = "linux") || !is_on_path("gcc") {
        skip("gcc", "no gcc on Linux");
        return None;
    }
    let sandbox = Sandbox::new();
    sandbox.write("inner.c", "int inner(void) { return 1; }\n");
    sandbox.write("outer.c", "int inner(void);\nint outer(void) { return inner(); }\n");
    sandbox.write("app.c", "int outer(void);\nint main(void) { return outer(); }\n");
    Some(sandbox)
}

fn gcc(sandbox: &Sandbox, arguments: &[&str]) {
    sandbox.start(&[&["gcc"], arguments].concat()).succeeds();
}

/// Builds a program in `bin`, `libouter.so` in `lib`, and `libinner.so` in `lib` and `other`; `tags` selects RPATH or
/// RUNPATH.
fn build(sandbox: &Sandbox, tags: &str, outer: &str) {
    for folder in ["bin", "lib", "other"] {
        sandbox.start(&["mkdir", "-p", folder]).succeeds();
    }
    for folder in ["lib", "other"] {
        let library = format!("{folder}/libinner.so");
        gcc(sandbox, &["-shared", "-fPIC", "inner.c", "-o", &library, "-Wl,-soname,libinner.so"]);
    }
    let mut arguments =
        vec!["-shared", "-fPIC", "outer.c", "-o", "lib/libouter.so", "-Llib", "-linner", tags];
    arguments.extend(Some(outer).filter(|outer| !outer.is_empty()));
    gcc(sandbox, &arguments);
    let here = "-Wl,-rpath,$ORIGIN/../lib";
    let inner = "-Wl,-rpath-link,lib";
    gcc(sandbox, &["app.c", "-o", "bin/app", "-Llib", "-louter", tags, here, inner]);
}

/// What the loader reports: name and path, or `missing`.
fn loader(sandbox: &Sandbox, variable: &str) -> Vec<(String, String)> {
    let ran = sandbox.start(&[
        "env",
        &format!("LD_LIBRARY_PATH={variable}"),
        "LD_TRACE_LOADED_OBJECTS=1",
        "bin/app",
    ]);
    let lines = ran.stdout.lines().filter_map(|line| line.trim().split_once(" => "));
    lines
        .map(|(name, rest)| {
            let path = rest.split(" (").next().unwrap_or_default();
            (name.to_owned(), if path == "not found" { "missing" } else { path }.to_owned())
        })
        .collect()
}

#[test]
fn library_search_matches_the_loader() {
    let Some(sandbox) = compiler() else { return };
    for tags in ["-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"] {
        for outer in ["", "-Wl,-rpath,$ORIGIN", "-Wl,-rpath,$ORIGIN/../other", "-Wl,-rpath,/nonexistent"] {
            build(&sandbox, tags, outer);
            for variable in ["", "other"] {
                let variable = if variable.is_empty() {
                    String::new()
                } else {
                    sandbox.path(variable).display().to_string()
                };
                let mut command = sandbox.command();
                command.env("LD_LIBRARY_PATH", &variable);
                let arguments =
                    ["doctor", "--offline", "--json", "--fail-on", "never", "--binary", "bin/app"];
                let document = RunResult::from(command.args(arguments).output().unwrap()).json();
                let resolved = loader(&sandbox, &variable);
                assert!(resolved.iter().any(|(name, _)| name == "libinner.so"), "{resolved:?}");
                for (name, path) in resolved {
                    let real = |path: &str| std::fs::canonicalize(path).ok();
                    let ours = path_of(&document, &name);
                    assert!(
                        ours == path || (real(&ours).is_some() && real(&ours) == real(&path)),
                        "{name} with {tags} {outer} {variable}: we say {ours}, the loader {path}"
                    );
                }
            }
        }
    }
}

#[test]
fn missing_library_is_reported_with_status_1() {
    let Some(sandbox) = compiler() else { return };
    build(&sandbox, "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN");
    sandbox.remove("lib/libinner.so");
    let ran = inspect(&sandbox, &["bin/app"]);
    assert_eq!((ran.exit, ids(&ran.json())), (Some(1), vec!["binary.library-missing"]), "{ran:#?}");
    let text = sandbox.run(&["doctor", "--offline", "--binary", "bin/app"]).stdout;
    assert!(text.contains("libinner.so  missing, needed by libouter.so"), "{text}");
    assert!(text.contains("error: `libinner.so` is missing [binary.library-missing]"), "{text}");
}

#[test]
fn driver_stub_on_rpath_is_reported() {
    let Some(sandbox) = compiler() else { return };
    sandbox.start(&["mkdir", "-p", "cuda/lib64/stubs"]).succeeds();
    sandbox.write("cuda.c", "int cuInit(unsigned flags) { return 34; }\n");
    sandbox.write("main.c", "int cuInit(unsigned);\nint main(void) { return cuInit(0); }\n");
    let stub = "cuda/lib64/stubs/libcuda.so.1";
    gcc(&sandbox, &["-shared", "-fPIC", "cuda.c", "-o", stub, "-Wl,-soname,libcuda.so.1"]);
    let folder = sandbox.path("cuda/lib64/stubs").display().to_string();
    let rpath = format!("-Wl,-rpath,{folder}");
    gcc(&sandbox, &["main.c", stub, "-o", "app", &rpath]);
    let ran = inspect(&sandbox, &["app"]);
    assert_eq!((ran.exit, ids(&ran.json())), (Some(1), vec!["cuda.stub-at-runtime"]), "{ran:#?}");
}

#[test]
fn program_is_checked_for_a_recorded_host() {
    let Some(sandbox) = compiler() else { return };
    build(&sandbox, "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN");
    let host = recorded("windows-11-rtx4070");
    assert_eq!(ids(&inspect(&sandbox, &["bin/app", "--host", &host]).json()), ["binary.wrong-system"]);
    // Libraries beside the program are found too.
    let host = recorded("ubuntu-22.04-h200");
    let document = inspect(&sandbox, &["bin/app", "--host", &host]).json();
    let expected = if cfg!(target_arch = "x86_64") { vec![] } else { vec!["binary.wrong-processor"] };
    assert_eq!(ids(&document), expected, "{document:#}");
    if cfg!(target_arch = "x86_64") {
        assert!(path_of(&document, "libinner.so").ends_with("/lib/libinner.so"));
    }
}

#[test]
fn windows_program_is_resolved_on_a_recorded_windows() {
    let compiler = "x86_64-w64-mingw32-gcc";
    if !is_on_path(compiler) {
        skip("mingw", "no x86_64-w64-mingw32-gcc");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write("one.c", "__declspec(dllexport) int one(void) { return 1; }\n");
    sandbox.write("app.c", "int one(void);\nint main(void) { return one(); }\n");
    sandbox.start(&[compiler, "-shared", "one.c", "-o", "one.dll"]).succeeds();
    sandbox.start(&[compiler, "app.c", "one.dll", "-o", "app.exe"]).succeeds();
    let host = recorded("windows-11-rtx4070");
    let document = inspect(&sandbox, &["app.exe", "--host", &host]).json();
    assert_eq!(ids(&document), Vec::<&str>::new(), "{document:#}");
    assert!(path_of(&document, "one.dll").ends_with(r"\one.dll"), "{document:#}");
    assert_eq!(document["binary"]["format"], "pe");
    assert_eq!(
        ids(&inspect(&sandbox, &["app.exe", "--host", &recorded("ubuntu-22.04-h200")]).json()),
        ["binary.wrong-system"]
    );
}

#[test]
fn non_executables_are_rejected() {
    let sandbox = Sandbox::new();
    sandbox.write("script", "#!/bin/sh\nexit 0\n");
    sandbox.write("broken", "\u{7f}ELF");
    for (file, message) in
        [("script", "it is a script"), ("broken", "it is damaged"), ("none", "there is no such file")]
    {
        let ran = sandbox.run(&["doctor", "--binary", file]);
        ran.fails(2, "binary.unreadable").says(&[message]);
    }
    assert_eq!(sandbox.run(&["doctor", "--binary", "script", "--fix"]).exit, Some(2));
}
