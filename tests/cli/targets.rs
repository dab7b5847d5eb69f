//! `--target`: builds for other platforms, with a stand-in for Zig and with the real one.
#![expect(clippy::disallowed_methods, reason = "tests start programs and write their own files")]

use std::path::Path;
use std::process::Command;

use crate::support::{RunResult, Sandbox, requires, skip};

/// A C library and a Rust program that links it.
fn project() -> Option<Sandbox> {
    let sandbox = Sandbox::with_library()?;
    sandbox.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"adder\"\nsource = \"vendor\"\ntargets = [\"adder\"]\n[binary]\npackage = \"program\"\n",
    );
    sandbox.write(
        "program/Cargo.toml",
        "[package]\nname = \"program\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    // The lines of the manifest, so that the program depends on no crate.
    sandbox.write(
        "program/build.rs",
        r#"fn main() {
    let manifest = std::fs::read_to_string(std::env::var("GPUBUILD_MANIFEST").unwrap()).unwrap();
    for line in manifest.split('"').filter(|text| text.starts_with("rustc-link")) {
        println!("cargo::{line}");
    }
}
"#,
    );
    sandbox.write(
        "program/src/main.rs",
        "unsafe extern \"C\" { fn add(x: f64) -> f64; }\nfn main() { println!(\"{}\", unsafe { add(27.0) }); }\n",
    );
    Some(sandbox)
}

/// The folder of Zig in the cache of a sandbox.
fn zig_folder(sandbox: &Sandbox) -> String {
    let plan = sandbox.run(&["plan", "--json", "--target", "aarch64-unknown-linux-gnu"]).json();
    let fetch = plan["fetch"].as_array().unwrap().iter().find(|fetch| fetch["tool"] == "zig").unwrap();
    format!("cache/tools/zig-{}", fetch["version"].as_str().unwrap())
}

#[test]
fn plan_names_the_target_and_its_compilers() {
    let Some(sandbox) = project() else { return };
    let name = "x86_64-unknown-linux-gnu.2.28";
    let plan = sandbox.run(&["plan", "--json", "--target", name]).json();
    assert_eq!(plan["target"]["name"], name);
    assert_eq!(plan["target"]["compilers"], "zig");
    assert_eq!(plan["backends"], serde_json::json!(["cpu"]));
    let tree = &plan["trees"][0];
    assert!(tree["build"].as_str().unwrap().contains(name), "{tree:#}");
    assert_eq!(tree["cache"]["CMAKE_SYSTEM_NAME"], "Linux");
    let compiler = tree["cache"]["CMAKE_C_COMPILER"].as_str().unwrap();
    assert!(compiler.ends_with("x86_64-linux-gnu.2.28/cc"), "{compiler}");

    // Compilers of the user have precedence.
    let mut command = sandbox.command();
    command.args(["plan", "--json", "--target", name]);
    command.env("CC_x86_64_unknown_linux_gnu", "own-cc").env("CXX_x86_64_unknown_linux_gnu", "own-c++");
    let plan = RunResult::from(command.output().unwrap()).json();
    assert_eq!(plan["target"]["compilers"], "variables");
    assert_eq!(plan["trees"][0]["cache"]["CMAKE_C_COMPILER"], "own-cc");
    assert!(plan["fetch"].as_array().unwrap().iter().all(|fetch| fetch["tool"] != "zig"), "{plan:#}");
}

#[test]
fn impossible_requests_are_refused() {
    let Some(sandbox) = project() else { return };
    for (arguments, id) in [
        (&["--target", "nothing"][..], "cross.target-unknown"),
        (&["--target", "x86_64-unknown-linux-musl.2.28"], "cross.target-unknown"),
        (&["--target", "riscv64gc-unknown-linux-gnu"], "cross.toolchain-missing"),
        (&["--target", "aarch64-unknown-linux-gnu", "--backends", "cpu,rocm"], "cross.backend-unsupported"),
        (&["--target", "x86_64-pc-windows-gnu", "--run"], "cross.runner-missing"),
    ] {
        let all = [&["build", "--offline"], arguments].concat();
        sandbox.run(&all).fails(2, id);
    }
    let arguments = [
        "plan",
        "--json",
        "--target",
        "aarch64-unknown-linux-gnu",
        "--backends",
        "cpu,rocm",
        "--allow-missing",
    ];
    let plan = sandbox.run(&arguments).json();
    assert_eq!(plan["dropped"][0]["id"], "rocm", "{plan:#}");
    // Zig is not in the cache, and nothing may be downloaded.
    let target = ["build", "--offline", "--no-binary", "--target", "x86_64-unknown-linux-gnu"];
    let offline = sandbox.run(&target);
    offline.fails(1, "fetch.offline").says(&[&zig_folder(&sandbox), "`CC_<target>`"]);
    assert!(!offline.stderr.contains("pip"), "{offline:#?}");
}

/// The bundled kernels open OpenCL at run time, so that no library for the other platform is needed.
#[test]
fn backends_that_link_nothing_are_built_for_other_platforms() {
    let Some(sandbox) = project() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("vendor/gk");
    sandbox.write(
        "gpubuild.toml",
        &format!("schema = 1\n[project]\nname = \"k\"\nsource = {source:?}\nprofile = \"gk\"\n"),
    );
    let plan = |target: &str, rest: &[&str]| sandbox.run(&[&["plan", "--target", target][..], rest].concat());
    for target in ["aarch64-unknown-linux-gnu", "x86_64-pc-windows-gnu"] {
        let named = plan(target, &["--json", "--backends", "cpu,opencl"]).json();
        assert_eq!(named["backends"], serde_json::json!(["cpu", "opencl"]));
        let cache = &named["trees"][0]["cache"];
        assert_eq!((&cache["GK_OPENCL"], &cache["GK_METAL"]), (&"ON".into(), &"OFF".into()), "{cache:#}");
        assert!(cache["CMAKE_C_COMPILER"].as_str().unwrap().contains("/zig-"), "{cache:#}");
        // The devices of the other platform are unknown.
        assert_eq!(plan(target, &["--json"]).json()["backends"], serde_json::json!(["cpu"]));
        plan(target, &["--backends", "cpu,metal"]).fails(2, "cross.backend-unsupported");
    }
    plan("aarch64-apple-darwin", &["--backends", "cpu,opencl"]).fails(2, "cross.backend-unsupported");
}

/// With the compiler of this machine as the user's compiler for a target.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn outputs_for_a_target_are_exported_audited_and_looked_up() {
    let Some(sandbox) = project() else { return };
    let name = "x86_64-unknown-linux-gnu.2.99";
    let run = |arguments: &[&str]| {
        let mut command = sandbox.command();
        command.env("CC_x86_64_unknown_linux_gnu", "cc").env("CXX_x86_64_unknown_linux_gnu", "c++");
        RunResult::from(
            command.env("GPUBUILD_STORE", sandbox.path("store")).args(arguments).output().unwrap(),
        )
    };
    let with_target = |arguments: &[&str]| run(&[arguments, &["--target", name]].concat());
    with_target(&["build", "--no-binary"]).succeeds();
    // Nothing was built for this machine.
    run(&["export", "out"]).fails(2, "manifest.missing");
    run(&["audit"]).fails(2, "manifest.missing");
    with_target(&["export", "out", "--compile-commands", "commands.json"]).succeeds();
    assert!(sandbox.exists("out/lib/libadder.a"));
    assert!(sandbox.read("commands.json").contains("\"--target=x86_64-unknown-linux-gnu\""));
    let audited = with_target(&["audit", "--json"]).json();
    let files = audited["files"].to_string();
    assert!(files.contains("libadder.a") && files.contains(name), "{audited:#}");
    let explained = with_target(&["cache", "explain", "--json"]).succeeds().json();
    assert_eq!(explained["trees"][0]["hit"], true, "{explained:#}");
    with_target(&["cache", "push"]).fails(2, "remote.off");
    run(&["cache", "explain", "--target", "nothing"]).fails(2, "cross.target-unknown");
}

/// With the compiler of this machine in place of Zig.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn program_is_linked_and_checked_for_its_glibc() {
    let Some(sandbox) = project() else { return };
    let zig = zig_folder(&sandbox);
    sandbox.write(
        &format!("{zig}/verified.json"),
        r#"{"package": "ziglang", "version": "0", "program": "ziglang/zig"}"#,
    );
    let stand_in = r#"#!/bin/sh
command=$1
shift
case $command in ar|ranlib) exec $command "$@" ;; esac
[ "$1" = -target ] || exit 9
shift 2
for word; do
  shift
  [ "$word" = -lunwind ] && word=-lgcc_s
  set -- "$@" "$word"
done
exec cc "$@"
"#;
    sandbox.write(&format!("{zig}/ziglang/zig"), stand_in);
    sandbox.start(&["chmod", "+x", &format!("{zig}/ziglang/zig")]).succeeds();

    // The C library of this machine is older than 2.99, and newer than 2.2.
    let name = "x86_64-unknown-linux-gnu.2.99";
    let ran = sandbox.run(&["build", "--offline", "--run", "--target", name]);
    assert_eq!((ran.exit, ran.stdout.trim()), (Some(0), "4"), "{ran:#?}");
    let manifest = sandbox.read(&format!(".gpubuild/adder.{name}/manifest.json"));
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["target"]["name"], name);
    // A runner of cargo's configuration starts it, also for `run` and `bench`.
    let config = "[target.x86_64-unknown-linux-gnu]\nrunner = [\"bin/runner\", \"--flag\"]\n";
    sandbox.write("program/.cargo/config.toml", config);
    sandbox.write(
        "program/bin/runner",
        "#!/bin/sh\necho \"runner $1 $(basename \"$2\")\"\nshift\nexec \"$@\"\n",
    );
    sandbox.start(&["chmod", "+x", "program/bin/runner"]).succeeds();
    let ran = sandbox.run(&["run", "--target", name]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(0), "runner --flag program\n4\n"), "{ran:#?}");
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}bench = [\"bench\"]\n"));
    let bench =
        RunResult::from(sandbox.command().args(["bench", "--json", "--target", name]).output().unwrap());
    assert_eq!(bench.exit, Some(1), "the program prints no measurements");
    let reason = bench.json()["backends"][0]["reason"].to_string();
    assert!(reason.contains("invalid output"), "{reason}");
    sandbox.run(&["run"]).fails(2, "run.nothing-built");

    let line = sandbox.run(&["link", "--target", name]);
    assert!(line.stdout.contains(&format!("adder.{name}/cpu/libadder.a")), "{line:#?}");
    // The folder of this machine's build is another one.
    sandbox.run(&["link"]).fails(2, "manifest.missing");

    let old = "x86_64-unknown-linux-gnu.2.2";
    let ran = sandbox.run(&["build", "--offline", "--target", old]);
    ran.fails(1, "cross.glibc-newer").says(&["the target has glibc 2.2"]);
    sandbox.run(&["clean", "--target", name]).succeeds();
    assert!(!sandbox.exists(&format!(".gpubuild/adder.{name}")));
    assert!(sandbox.exists(&format!(".gpubuild/adder.{old}")));
}

/// The output of a program of a target; `None` if this machine cannot start it.
fn output_of(program: &Path, target: &str) -> Option<String> {
    let mut command = match target {
        "aarch64-unknown-linux-gnu" => {
            let mut command = Command::new("qemu-aarch64-static");
            command.args(["-L", "/usr/aarch64-linux-gnu"]).arg(program);
            command
        }
        "x86_64-pc-windows-gnu" => in_wine(program)?,
        _ => Command::new(program),
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{target}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// Starts a program in Wine, with the library that Wine 8 lacks beside it.
fn in_wine(program: &Path) -> Option<Command> {
    if !requires("wine") {
        skip("wine", "GPUBUILD_REQUIRE does not name wine");
        return None;
    }
    let folder = program.parent().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/wine/bcryptprimitives.c");
    let mut gcc = Command::new("x86_64-w64-mingw32-gcc");
    gcc.args(["-shared", "-o"]).arg(folder.join("bcryptprimitives.dll")).arg(source).arg("-ladvapi32");
    assert!(gcc.status().unwrap().success());
    let mut wine = Command::new("/usr/lib/wine/wine64");
    wine.arg(program).env("WINEPREFIX", folder.join("wine")).env("WINEDEBUG", "-all");
    wine.env("WINEDLLOVERRIDES", "mscoree,mshtml=");
    Some(wine)
}

/// Runs `build --target` with a cache that is kept in cargo's folder for tests, and the settings of pip.
fn build_in_kept_cache(sandbox: &Sandbox, arguments: &[&str]) -> RunResult {
    let is_of_pip = |name: &str| ["UV_", "PIP_", "SSL_CERT"].iter().any(|start| name.starts_with(start));
    let of_pip = std::env::vars().filter(|(name, _)| is_of_pip(name));
    let mut command = sandbox.command();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zig");
    command.args(["build", "--target"]).args(arguments).env("GPUBUILD_CACHE", &cache).envs(of_pip);
    RunResult::from(command.output().unwrap())
}

/// With the real Zig, which is downloaded once into cargo's folder for tests.
#[test]
fn programs_for_other_platforms_run() {
    if !requires("zig") {
        skip("zig", "downloads 90 MB and compiles C libraries for minutes");
        return;
    }
    let Some(sandbox) = project() else { return };
    let build = |arguments: &[&str]| build_in_kept_cache(&sandbox, arguments);
    for (name, format) in [
        ("x86_64-unknown-linux-gnu.2.28", &b"\x7fELF"[..]),
        ("x86_64-unknown-linux-musl", b"\x7fELF"),
        ("aarch64-unknown-linux-gnu", b"\x7fELF"),
        ("x86_64-pc-windows-gnu", b"MZ"),
    ] {
        build(&[name]).succeeds();
        let triple = name.trim_end_matches(".2.28");
        let suffix = if triple.contains("windows") { ".exe" } else { "" };
        let program = sandbox.path(&format!("program/target/{triple}/release/program{suffix}"));
        assert!(std::fs::read(&program).unwrap().starts_with(format), "{name}");
        if let Some(output) = output_of(&program, triple) {
            assert_eq!(output, "4", "{name}");
        }
    }
    // Libraries for macOS can be built; a program needs Apple's SDK.
    build(&["aarch64-apple-darwin"]).fails(1, "cross.program-unlinkable");
    build(&["aarch64-apple-darwin", "--no-binary"]).succeeds();
}

/// With NVIDIA's wheels for both platforms: the program starts, and CUDA's run-time library finds no driver.
#[test]
fn cuda_for_another_platform_is_linked() {
    if !requires("cuda-wheels") || !requires("aarch64") || !requires("cross") {
        skip("cuda-wheels", "GPUBUILD_REQUIRE does not name cuda-wheels, aarch64 and cross");
        return;
    }
    let Some(sandbox) = project() else { return };
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(adder LANGUAGES CXX CUDA)\noption(WITH_CUDA \"\" OFF)\nfind_package(CUDAToolkit REQUIRED)\n\
         add_library(adder STATIC adder.cu)\ntarget_link_libraries(adder PUBLIC CUDA::cudart_static)\n",
    );
    sandbox.write(
        "vendor/adder.cu",
        "#include <cuda_runtime.h>\n__global__ void twice(float *x) { x[threadIdx.x] *= 2; }\n\
         extern \"C\" double add(double x) {\n  int devices = 0;\n  cudaError_t error = cudaGetDeviceCount(&devices);\n\
         if (devices > 0) twice<<<1, 1>>>(nullptr);\n  return x + error;\n}\n",
    );
    let text = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{text}[backends.cuda]\noptions = {{ WITH_CUDA = \"ON\" }}\n"));
    let triple = "aarch64-unknown-linux-gnu";
    let cuda = ["--backends", "cuda", "--cuda-archs", "90", "--provision"];
    build_in_kept_cache(&sandbox, &[&[triple][..], &cuda].concat()).succeeds();
    let program = sandbox.path(&format!("program/target/{triple}/release/program"));
    let code = output_of(&program, triple).unwrap().parse::<u32>().unwrap() - 27;
    // cudaErrorInsufficientDriver or cudaErrorNoDevice.
    assert!([35, 100].contains(&code), "{code}");
}

/// `--native` applies to programs that this machine runs, and is refused for others.
#[test]
fn native_is_applied_or_refused() {
    let sandbox = Sandbox::with_project("ggml");
    let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let other =
        if cfg!(target_arch = "x86_64") { "aarch64-unknown-linux-gnu" } else { "x86_64-unknown-linux-gnu" };
    let plan = |arguments: &[&str]| sandbox.run(&[&["plan", "--json", "--target"], arguments].concat());
    for name in [other, "aarch64-apple-darwin"] {
        sandbox.run(&["plan", "--target", name, "--native"]).fails(2, "cross.native").says(&[name]);
    }
    let native = |name: &str, arguments: &[&str]| {
        let plan = plan(&[&[name], arguments].concat()).json();
        plan["trees"][0]["cache"]["GGML_NATIVE"] == "ON"
    };
    if cfg!(target_os = "linux") {
        assert!(native(&here, &["--native"]));
        assert!(native(&format!("{here}.2.28"), &["--native"]));
    }
    assert!(!native(&here, &[]));

    // The setting of a project that is also built for this machine.
    let file = sandbox.read("gpubuild.toml");
    sandbox.write("gpubuild.toml", &format!("{file}native = true\n"));
    assert!(!native(other, &[]));
    assert_eq!(native(&here, &[]), cfg!(target_os = "linux"));
}

/// `[build] target` is the default of every command with `--target`.
#[test]
fn project_file_names_the_default_target() {
    let sandbox = Sandbox::with_project("ggml");
    let file = sandbox.read("gpubuild.toml");
    let name = "x86_64-unknown-linux-musl";
    sandbox.write("gpubuild.toml", &format!("{file}[build]\ntarget = \"{name}\"\n"));
    let target = |arguments: &[&str]| {
        let plan = sandbox.run(&[&["plan", "--json"], arguments].concat()).json();
        plan["target"]["name"].as_str().unwrap_or("host").to_owned()
    };
    assert_eq!(target(&[]), name);
    assert_eq!(target(&["--target", "aarch64-unknown-linux-gnu"]), "aarch64-unknown-linux-gnu");
    assert_eq!(target(&["--target", "host"]), "host");
    let folder = format!("demo.{name}");
    sandbox.run(&["link"]).fails(2, "manifest.missing").says(&[&folder]);
    sandbox.run(&["clean"]).succeeds().says(&[&folder]);

    sandbox.write("gpubuild.toml", &format!("{file}[build]\ntarget = \"nothing\"\n"));
    sandbox.run(&["plan"]).fails(2, "project.invalid").says(&["`build.target`", "use one of"]);
}

/// `test` needs a runner before it builds anything.
#[test]
fn tests_of_another_platform_need_a_runner() {
    let sandbox = Sandbox::with_project("gk");
    sandbox.write("vendor/src/cpu/CMakeLists.txt", "");
    let ran = sandbox.run(&["test", "--target", "aarch64-apple-darwin"]);
    if cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        return;
    }
    ran.fails(2, "cross.runner-missing").says(&["CARGO_TARGET_AARCH64_APPLE_DARWIN_RUNNER"]);
    sandbox.write(".cargo/config.toml", "[target\n");
    sandbox.run(&["test", "--target", "aarch64-apple-darwin"]).fails(2, "cross.cargo-config");
}
