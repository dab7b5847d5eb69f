//! `gpubuild venv` with wheels that the test creates: tiny libraries with NVIDIA's names, and a table of their
//! hashes.
#![cfg(target_os = "linux")]

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::support::{RunResult, Sandbox, is_on_path, requires, skip};

const SOURCE: &str = r"
#include <stdlib.h>
#include <unistd.h>
#if defined CRASH
__attribute__((constructor)) static void crash(void) { abort(); }
#endif
#if defined CUDART
int cudaRuntimeGetVersion(int *version) { *version = CUDART; return 0; }
#elif defined CUBLAS
int lt(void);
int cublasGetProperty(int part, int *value) { *value = part == 0 ? 12 : part == 1 ? 9 : lt(); return 0; }
#else
int lt(void) { return 2; }
#endif
";

/// Creates wheels and the table that lists them.
const MAKER: &str = r#"
import base64, hashlib, os, platform, sys, zipfile
arch = platform.machine()
rows = []
def wheel(package, version, folder, names, more):
    stem = package.replace("-", "_") + "-" + version
    name = f"{stem}-py3-none-manylinux_2_17_{arch}.whl"
    files = {f"{folder}/{n}": open("libs/" + n, "rb").read() for n in names}
    info = stem + ".dist-info"
    files[info + "/METADATA"] = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n".encode()
    files[info + "/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-manylinux_2_17_{arch}\n".encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[info + "/RECORD"] = (record + info + "/RECORD,,\n").encode()
    os.makedirs("wheels", exist_ok=True)
    with zipfile.ZipFile("wheels/" + name, "w") as out:
        for path, data in files.items():
            out.writestr(path, data)
    data = open("wheels/" + name, "rb").read()
    libraries = ", ".join(f'"{n}"' for n in names)
    rows.append(f'[[release.wheel]]\npackage = "{package}"\nversion = "{version}"\nusual = true\n'
        f'folder = {{ linux = "{folder}" }}\nlibraries = {{ linux = [{libraries}] }}\n{more}\n'
        f'files = [{{ name = "{name}", sha256 = "{hashlib.sha256(data).hexdigest()}", size = {len(data)} }}]\n')
wheel("nvidia-cuda-runtime-cu12", "12.9.79", "nvidia/cuda_runtime/lib", ["libcudart.so.12"], 'asks = "cudart"\nanswers = "12.9"')
wheel("nvidia-cublas-cu12", "12.9.2.10", "nvidia/cublas/lib", ["libcublasLt.so.12", "libcublas.so.12"], 'asks = "cublas"\nanswers = "12.9.2"')
open("table.toml", "w").write('schema = 1\npython = "3.8"\n[[release]]\ncuda = "12.9"\n' + "".join(rows))
"#;

/// A folder with wheels, their table, and an environment `env` without pip. Prints why and returns `None` if Python
/// with pip or a C compiler is missing.
fn wheels(flags: &[&str]) -> Option<Sandbox> {
    for (program, tool) in [("cc", "cc"), ("python3", "python")] {
        if !is_on_path(program) {
            skip(tool, &format!("no {tool}"));
            return None;
        }
    }
    let sandbox = Sandbox::new();
    if !sandbox.start(&["python3", "-m", "pip", "--version"]).is_success() {
        skip("pip", "no pip");
        return None;
    }
    sandbox.write("lib.c", SOURCE);
    sandbox.write("libs/.keep", "");
    let compile = |name: &str, more: &[&str]| {
        let (output, soname) = (format!("libs/{name}"), format!("-Wl,-soname,{name}"));
        let mut argv = vec!["cc", "-shared", "-fPIC", "lib.c", "-o", &output, &soname];
        argv.extend(more);
        sandbox.start(&argv).succeeds();
    };
    let cudart: Vec<&str> = if flags.is_empty() { vec!["-DCUDART=12090"] } else { flags.to_vec() };
    compile("libcudart.so.12", &cudart);
    compile("libcublasLt.so.12", &[]);
    compile("libcublas.so.12", &["-DCUBLAS", "-Llibs", "-l:libcublasLt.so.12", "-Wl,-rpath,$ORIGIN"]);
    sandbox.write("make.py", MAKER);
    sandbox.start(&["python3", "make.py"]).succeeds();
    sandbox.start(&["python3", "-m", "venv", "--without-pip", "env"]).succeeds();
    Some(sandbox)
}

const VENV: [&str; 8] =
    ["venv", "env", "--cuda", "12", "--wheels", "table.toml", "--offline", "--find-links"];

fn venv(sandbox: &Sandbox, more: &[&str]) -> RunResult {
    sandbox.run(&[&VENV, ["wheels"].as_slice(), more].concat())
}

/// Lists the environment's `site-packages`.
fn site(sandbox: &Sandbox) -> String {
    sandbox.start(&["sh", "-c", "ls env/lib/python3*/site-packages"]).stdout
}

#[test]
fn wheels_are_installed_loaded_checked_and_copied() {
    let Some(sandbox) = wheels(&[]) else { return };
    let first = venv(&sandbox, &["--json"]);
    let document = first.succeeds().json();
    let environment = &document["environment"];
    assert_eq!((&environment["origin"], &environment["cuda"]), (&"adopted".into(), &"12.9".into()));
    assert_eq!(environment["answers"], serde_json::json!({ "cudart": "12.9", "cublas": "12.9.2" }));
    assert_eq!(environment["wheels"][0]["state"], "installed");
    let again = venv(&sandbox, &["--json"]).json();
    assert_eq!(again["environment"]["wheels"][1]["state"], "present");
    assert!(venv(&sandbox, &["--check"]).succeeds().stdout.contains("cublas reports 12.9.2"));
    venv(&sandbox, &["--copy-to", "pack"]).succeeds();
    for name in ["libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12"] {
        assert!(sandbox.exists(&format!("pack/{name}")), "{name}");
    }
    // A deleted file is restored.
    sandbox.start(&["sh", "-c", "rm env/lib/python3*/site-packages/nvidia/cublas/lib/libcublasLt.so.12"]);
    venv(&sandbox, &["--check"]).fails(1, "venv.incomplete").says(&["libcublasLt.so.12` is missing"]);
    assert!(venv(&sandbox, &[]).succeeds().stdout.contains("nvidia-cublas-cu12 12.9.2.10 installed"));
}

/// uv reads the lock file, and installs the wheels with the hashes of the table.
#[test]
fn a_lock_file_installs_the_same_wheels() {
    if !is_on_path("uv") {
        skip("uv", "no uv");
        return;
    }
    let Some(sandbox) = wheels(&[]) else { return };
    venv(&sandbox, &["--lock", "wheels.lock"]).fails(2, "usage.lock-name").says(&["pylock.toml"]);
    let ran = venv(&sandbox, &["--lock", "pylock.cuda.toml", "--json"]);
    let document = ran.succeeds().json();
    assert!(document["lock"].as_str().unwrap().ends_with("/pylock.cuda.toml"), "{document}");
    assert!(document.get("environment").is_none() && site(&sandbox).is_empty(), "{document}");
    let uv =
        ["uv", "pip", "sync", "--no-cache", "--offline", "--python", "env/bin/python", "pylock.cuda.toml"];
    sandbox.start(&uv).succeeds();
    assert!(venv(&sandbox, &["--check"]).succeeds().stdout.contains("cublas reports 12.9.2"));
    let table = sandbox.read("table.toml");
    let at = table.find("sha256 = \"").unwrap() + 10;
    sandbox.write("table.toml", &format!("{}{}{}", &table[..at], "0".repeat(64), &table[at + 64..]));
    sandbox.start(&["rm", "pylock.cuda.toml"]).succeeds();
    venv(&sandbox, &["--lock", "pylock.cuda.toml"]).fails(1, "wheel.hash-mismatch");
    assert!(!sandbox.exists("pylock.cuda.toml"));
}

#[test]
fn mismatched_wheels_install_nothing() {
    let Some(sandbox) = wheels(&[]) else { return };
    let table = sandbox.read("table.toml");
    let at = table.find("sha256 = \"").unwrap() + 10;
    sandbox.write("table.toml", &format!("{}{}{}", &table[..at], "0".repeat(64), &table[at + 64..]));
    venv(&sandbox, &[]).fails(1, "wheel.hash-mismatch");
    assert!(!site(&sandbox).contains("cuda_runtime"), "{}", site(&sandbox));
    sandbox.write("table.toml", &table);
    sandbox
        .start(&["sh", "-c", "for f in wheels/nvidia_cuda_runtime*; do truncate -s 900 $f; done"])
        .succeeds();
    venv(&sandbox, &[]).fails(1, "wheel.damaged").says(&["it has 900 bytes"]);
    assert!(!site(&sandbox).contains("nvidia"), "{}", site(&sandbox));
    sandbox.start(&["python3", "make.py"]).succeeds();
    venv(&sandbox, &[]).succeeds();
}

#[test]
fn installed_but_broken_libraries_are_reported() {
    let Some(wrong) = wheels(&["-DCUDART=12080"]) else { return };
    venv(&wrong, &[])
        .fails(1, "venv.wrong-version")
        .says(&["should report 12.9, but its library reports 12.8"]);
    let Some(crash) = wheels(&["-DCUDART=12090", "-DCRASH"]) else { return };
    venv(&crash, &[]).fails(1, "venv.not-loadable").says(&["crash the program that loads them", "signal 6"]);
}

#[test]
fn newer_runtime_is_kept_unless_forced() {
    let Some(sandbox) = wheels(&[]) else { return };
    let site_packages = sandbox.start(&["sh", "-c", "echo env/lib/python3*/site-packages"]).stdout;
    let site_packages = site_packages.trim();
    let info = format!("{site_packages}/nvidia_cublas_cu12-99.0.dist-info");
    let asks = "Metadata-Version: 2.1\nName: other\nVersion: 2.0\nRequires-Dist: nvidia-cublas-cu12==99.0\n";
    sandbox.write(
        &format!("{info}/METADATA"),
        "Metadata-Version: 2.1\nName: nvidia-cublas-cu12\nVersion: 99.0\n",
    );
    sandbox.write(
        &format!("{info}/RECORD"),
        "nvidia_cublas_cu12-99.0.dist-info/METADATA,,\nnvidia_cublas_cu12-99.0.dist-info/RECORD,,\n",
    );
    sandbox.write(&format!("{site_packages}/other-2.0.dist-info/METADATA"), asks);
    sandbox.write(&format!("{site_packages}/other-2.0.dist-info/RECORD"), "other-2.0.dist-info/RECORD,,\n");
    let ran = venv(&sandbox, &[]);
    ran.fails(2, "venv.conflict").says(&["nvidia-cublas-cu12 99.0", "other 2.0 (==99.0)", "--force"]);
    assert!(!site(&sandbox).contains("cuda_runtime"), "nothing is installed");
    assert!(venv(&sandbox, &["--force"]).succeeds().stdout.contains("nvidia-cublas-cu12 12.9.2.10 replaced"));
    assert!(!site(&sandbox).contains("99.0"));
}

#[test]
fn invalid_requests_fail_before_creating_anything() {
    let sandbox = Sandbox::new();
    let old = sandbox
        .command()
        .env("GPUBUILD_SET", "cuda.driver=470.57.02")
        .args(["venv", "v", "--cuda", "12", "--offline"])
        .output();
    let old = RunResult::from(old.unwrap());
    old.fails(2, "venv.driver-too-old").says(&["470.57.02", "525.60.13"]);
    let newer = sandbox
        .command()
        .env("GPUBUILD_SET", "cuda.driver=550.54")
        .args(["venv", "v", "--cuda", "13", "--offline"])
        .output();
    RunResult::from(newer.unwrap())
        .fails(2, "venv.driver-too-old")
        .says(&["580", "build with a toolkit of CUDA 12"]);
    sandbox.run(&["venv"]).fails(2, "venv.nothing-built").says(&["gpubuild venv --cuda 13"]);
    sandbox.run(&["venv", "v", "--cuda", "11", "--offline"]).fails(2, "venv.no-wheels");
    sandbox.run(&["venv", "--print-env"]).fails(2, "venv.no-environment");
    assert!(!sandbox.exists("v"));
    sandbox.write("theirs/pyvenv.cfg", "home = C:\\Python\nversion = 3.12.1\n");
    sandbox.write("theirs/Scripts/python.exe", "MZ");
    let before = sandbox.files_outside("cache");
    sandbox.run(&["venv", "theirs", "--cuda", "12", "--offline"]).fails(2, "venv.other-platform");
    assert_eq!(sandbox.files_outside("cache"), before);
    let none = sandbox.run(&["venv", "--backends", "vulkan,cpu,rocm"]);
    for text in ["vulkan needs no wheel", "cpu needs no wheel", "rocm needs no wheel"] {
        assert!(none.succeeds().stdout.contains(text), "{none:#?}");
    }
    assert!(!sandbox.exists(".venv"));
}

#[test]
fn next_call_recovers_a_half_created_environment() {
    let Some(sandbox) = wheels(&[]) else { return };
    // A Python that creates part of an environment and then hangs.
    sandbox.write(
        "slow",
        "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\nmkdir -p \"$3/bin\"; echo 'home = /x' > \"$3/pyvenv.cfg\"\necho $$ > pid\nexec sleep 600\n",
    );
    sandbox.start(&["chmod", "+x", "slow"]).succeeds();
    let slow = sandbox.path("slow");
    let arguments =
        ["venv", "fresh", "--cuda", "12", "--wheels", "table.toml", "--offline", "--find-links", "wheels"];
    let mut command = sandbox.command();
    // Without uv: the script replaces Python's venv module.
    #[expect(clippy::disallowed_methods, reason = "a test reads its own PATH")]
    let path = std::env::var_os("PATH").unwrap();
    let without_uv = std::env::split_paths(&path).filter(|folder| !folder.join("uv").is_file());
    command.env("PATH", std::env::join_paths(without_uv).unwrap());
    command.env("UV", "/nonexistent").args(arguments).args(["--python", slow.to_str().unwrap()]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    for _ in 0..3000 {
        if sandbox.exists("pid") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.wait().unwrap();
    sandbox.send("KILL", sandbox.read("pid").trim().parse().unwrap());
    assert!(sandbox.exists("fresh/pyvenv.cfg") && stdout.is_empty());
    let second = sandbox.run(&arguments);
    assert!(second.succeeds().stdout.contains("created)"), "{second:#?}");
    assert!(second.stdout.contains("cudart reports 12.9"), "{second:#?}");
}

/// A project whose library links `libcublas.so` and `libcudart.so` from a folder, as in a toolkit.
fn project(sandbox: &Sandbox) {
    for name in ["cudart", "cublas", "cublasLt"] {
        sandbox.start(&["ln", "-s", &format!("lib{name}.so.12"), &format!("libs/lib{name}.so")]).succeeds();
    }
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(asks C)\nadd_library(asks STATIC asks.c)\n\
         target_link_libraries(asks PUBLIC ${CMAKE_SOURCE_DIR}/../libs/libcublas.so ${CMAKE_SOURCE_DIR}/../libs/libcudart.so)\n",
    );
    sandbox.write(
        "vendor/asks.c",
        "int cudaRuntimeGetVersion(int *); int cublasGetProperty(int, int *);\n\
         int asks(int part) { int v = -1; part < 0 ? cudaRuntimeGetVersion(&v) : cublasGetProperty(part, &v); return v; }\n",
    );
    sandbox.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"asks\"\nsource = \"vendor\"\ntargets = [\"asks\"]\n[python]\nvenv = \"my env, it's v1\"\n",
    );
    sandbox.start(&["mv", "env", "my env, it's v1"]).succeeds();
    sandbox.write(
        "main.c",
        "#include <stdio.h>\nint asks(int);\nint main(void) { printf(\"%d %d.%d.%d\\n\", asks(-1), asks(0), asks(1), asks(2)); return 0; }\n",
    );
}

#[test]
fn programs_find_environment_libraries_from_any_working_directory() {
    if !is_on_path("cmake") || !is_on_path("ninja") {
        skip("cmake", "no CMake or Ninja");
        return;
    }
    let Some(sandbox) = wheels(&[]) else { return };
    project(&sandbox);
    sandbox.run(&["build", "--backends", "cpu", "--no-venv"]).succeeds();
    let arguments = ["venv", "--wheels", "table.toml", "--offline", "--find-links", "wheels"];
    let ran = sandbox.run(&[&arguments, ["--json"].as_slice()].concat());
    let needed = &ran.succeeds().json()["needed"];
    assert_eq!(needed[0]["library"], "libcublas.so.12", "{needed}");
    assert_eq!(needed[1]["package"], "nvidia-cuda-runtime-cu12", "{needed}");
    assert!(sandbox.run(&arguments).succeeds().stdout.contains("unchanged since last loaded"));
    let link_line = sandbox.run(&["link"]).succeeds().stdout.clone();
    assert!(
        link_line.contains("'-Wl,-rpath,$ORIGIN'") && link_line.contains("nvidia/cublas/lib"),
        "{link_line}"
    );
    sandbox.start(&["sh", "-c", &format!("cc main.c -o program {link_line}")]).succeeds();
    sandbox.write("app/asks.cmake", &sandbox.run(&["link", "--format", "cmake"]).succeeds().stdout);
    sandbox.write(
        "app/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(app C)\ninclude(asks.cmake)\n\
         add_executable(app ../main.c)\ntarget_link_libraries(app PRIVATE gpubuild::asks)\n",
    );
    sandbox.start(&["cmake", "-G", "Ninja", "-S", "app", "-B", "app/out"]).succeeds();
    sandbox.start(&["cmake", "--build", "app/out"]).succeeds();
    // Removes the libraries that the linker used: only the environment is left.
    sandbox.start(&["mv", "libs", "away"]).succeeds();
    let program = sandbox.path("program");
    let start =
        |program: &Path| sandbox.start(&["sh", "-c", &format!("cd / && exec env -i {}", program.display())]);
    assert_eq!(start(&program).succeeds().stdout, "12090 12.9.2\n");
    assert_eq!(start(&sandbox.path("app/out/app")).succeeds().stdout, "12090 12.9.2\n");
    // Runs through the loader's variable, as set in a shell.
    let print = sandbox.run(&["venv", "--print-env"]).succeeds().stdout.clone();
    let shown = sandbox.start(&["sh", "-c", &format!("{print}echo \"$LD_LIBRARY_PATH\"")]);
    assert!(shown.succeeds().stdout.contains("/nvidia/cublas/lib"), "{shown:#?}");
    // Packed beside its libraries, the program needs no environment.
    sandbox.run(&[&arguments, ["--copy-to", "pack"].as_slice()].concat()).succeeds();
    sandbox.start(&["cp", "program", "pack/program"]).succeeds();
    sandbox.start(&["mv", "my env, it's v1", "elsewhere"]).succeeds();
    assert!(!start(&program).is_success());
    assert_eq!(start(&sandbox.path("pack/program")).succeeds().stdout, "12090 12.9.2\n");
    sandbox.run(&["link"]).succeeds().says(&["no longer exists: run `gpubuild venv` again"]);
}

/// [`project`] whose environment is created by the build, with the test's table of wheels.
fn project_with_table(sandbox: &Sandbox) {
    project(sandbox);
    let table = sandbox.read("gpubuild.toml") + "wheels = \"table.toml\"\n";
    sandbox.write("gpubuild.toml", &table);
}

const BUILD: [&str; 6] = ["build", "--backends", "cpu", "--offline", "--find-links", "wheels"];

#[test]
fn build_installs_the_wheels_that_it_needs() {
    if !is_on_path("cmake") || !is_on_path("ninja") {
        skip("cmake", "no CMake or Ninja");
        return;
    }
    let Some(sandbox) = wheels(&[]) else { return };
    project_with_table(&sandbox);
    sandbox.run(&[&BUILD, ["--no-venv"].as_slice()].concat()).succeeds();
    assert!(!sandbox.run(&["link"]).succeeds().stdout.contains("-rpath"), "--no-venv leaves it out");
    // Without the wheels, the error names both ways out.
    sandbox
        .run(&["build", "--backends", "cpu", "--offline"])
        .fails(1, "fetch.offline")
        .says(&["--no-venv", "--find-links"]);
    let first = sandbox.run(&BUILD);
    let line = "installed nvidia-cuda-runtime-cu12 12.9.79, nvidia-cublas-cu12 12.9.2.10 (CUDA 12.9) into ";
    first.succeeds().says(&[line, "my env, it's v1"]);
    assert!(sandbox.run(&["link"]).succeeds().stdout.contains("nvidia/cublas/lib"));
    let second = sandbox.run(&BUILD);
    assert!(second.succeeds().stderr.starts_with("up to date:"), "{second:#?}");
    // The event names what the environment has, and that nothing was installed.
    let lines = sandbox.run(&[&BUILD, ["--json"].as_slice()].concat()).succeeds().stdout.clone();
    let events = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let events: Vec<_> = events.filter(|event| event["reason"] == "environment").collect();
    assert_eq!(events.len(), 1, "{lines}");
    assert_eq!((&events[0]["cuda"], &events[0]["installed"]), (&"12.9".into(), &serde_json::json!([])));
    assert_eq!(events[0]["wheels"]["nvidia-cublas-cu12"], "12.9.2.10");
    // What was removed is installed again.
    sandbox
        .start(&[
            "sh",
            "-c",
            "rm \"$1\"/lib/python3*/site-packages/nvidia/cublas/lib/libcublas.so.12",
            "sh",
            "my env, it's v1",
        ])
        .succeeds();
    sandbox.run(&BUILD).succeeds().says(&["installed nvidia-cublas-cu12 12.9.2.10 (CUDA 12.9)"]);
}

#[test]
fn program_of_the_first_build_finds_its_libraries() {
    if !is_on_path("cmake") || !is_on_path("ninja") {
        skip("cmake", "no CMake or Ninja");
        return;
    }
    let Some(sandbox) = wheels(&[]) else { return };
    project_with_table(&sandbox);
    let table = sandbox.read("gpubuild.toml") + "[binary]\npackage = \"app\"\nprofile = \"dev\"\n";
    sandbox.write("gpubuild.toml", &table);
    let link = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/link");
    sandbox.write(
        "app/Cargo.toml",
        &format!("[package]\nname = \"app\"\nedition = \"2024\"\n[build-dependencies]\ngpubuild-link = {{ path = {link:?} }}\n[workspace]\n"),
    );
    sandbox.write("app/build.rs", "fn main() { gpubuild_link::link(); }\n");
    sandbox.write(
        "app/src/main.rs",
        "unsafe extern \"C\" { safe fn asks(part: i32) -> i32; }\nfn main() { println!(\"{}\", asks(-1)); }\n",
    );
    sandbox.run(&BUILD).succeeds().says(&["installed nvidia-cuda-runtime-cu12"]);
    sandbox.start(&["mv", "libs", "away"]).succeeds();
    let started = sandbox.start(&["sh", "-c", "cd / && exec env -i \"$OLDPWD/app/target/debug/app\""]);
    assert_eq!(started.succeeds().stdout, "12090\n");
}

#[test]
fn refused_wheels_fail_the_build_with_their_finding() {
    if !is_on_path("cmake") || !is_on_path("ninja") {
        skip("cmake", "no CMake or Ninja");
        return;
    }
    let Some(sandbox) = wheels(&[]) else { return };
    project_with_table(&sandbox);
    sandbox.write("table.toml", "schema = 7\n");
    sandbox.run(&BUILD).fails(2, "venv.table-invalid").says(&["--no-venv"]);
    let ran = sandbox.run(&[&BUILD, ["--json"].as_slice()].concat());
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    let last: serde_json::Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["reason"], &last["error"]["findings"][0]["id"]),
        (&"error".into(), &"venv.table-invalid".into())
    );
    sandbox.run(&[&BUILD, ["--no-venv"].as_slice()].concat()).succeeds();
}

#[test]
fn cublas_from_real_wheels_works_from_any_working_directory() {
    if !requires("cuda-wheels") {
        skip("cuda-wheels", "GPUBUILD_REQUIRE does not name cuda-wheels (620 MB)");
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.write(
        "vendor/CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.24)\nproject(asks C)\noption(ASKS_CUDA \"ask CUDA\" OFF)\nif(ASKS_CUDA)\n\
         find_package(CUDAToolkit REQUIRED)\nadd_library(asks_cuda STATIC asks.c)\n\
         target_link_libraries(asks_cuda PUBLIC CUDA::cublas CUDA::cudart)\nendif()\n",
    );
    sandbox.write(
        "vendor/asks.c",
        "#include <cublas_v2.h>\n#include <cuda_runtime_api.h>\n\
         int asks(int part) { int v = -1; if (part < 0) cudaRuntimeGetVersion(&v); else cublasGetProperty((libraryPropertyType)part, &v); return v; }\n",
    );
    sandbox.write(
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"asks\"\nsource = \"vendor\"\ntargets = [\"asks_cuda\"]\n\
         [backends.cuda]\noptions = { ASKS_CUDA = \"ON\" }\n",
    );
    sandbox.write(
        "main.c",
        "#include <stdio.h>\nint asks(int);\nint main(void) { printf(\"%d %d.%d.%d\\n\", asks(-1), asks(0), asks(1), asks(2)); return 0; }\n",
    );
    sandbox.run_online(&["toolkit", "install", "cuda@13.0", "--with", "cublas"]).succeeds();
    sandbox.run_online(&["build", "--backends", "cuda"]).succeeds();
    assert!(
        sandbox
            .run_online(&["venv"])
            .succeeds()
            .stdout
            .contains("loaded: cublas reports 13.1.1, cudart reports 13.0")
    );
    let link_line = sandbox.run(&["link"]).succeeds().stdout.clone();
    sandbox.start(&["sh", "-c", &format!("cc main.c -o program {link_line}")]).succeeds();
    let program = sandbox.path("program");
    let ran = sandbox.start(&["sh", "-c", &format!("cd / && exec env -i {}", program.display())]);
    assert_eq!(ran.succeeds().stdout, "13000 13.1.1\n");
}
