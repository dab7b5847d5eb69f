//! Crates that build llama.cpp: the example of this repository, and one with bindings of `llama.h` from bindgen. The
//! second restores the libraries of the first from the store.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::sources;
use crate::support::{RunResult, run};

/// A folder that is kept, so that llama.cpp is compiled once.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("places/crates")
}

fn cargo(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> RunResult {
    let mut command = Command::new("cargo");
    command.args(arguments).arg("--offline").current_dir(folder).envs(variables.iter().copied());
    command.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap());
    command.env("GPUBUILD_CACHE", self::folder().join("cache"));
    command.env("LLAMA_CPP_SOURCE", sources::llama());
    for name in ["GPUBUILD_BACKENDS", "GPUBUILD_MANIFEST", "GGML_VULKAN", "GGML_CUDA", "DOCS_RS"] {
        command.env_remove(name);
    }
    let started = Instant::now();
    let ran = run(&mut command);
    println!("cargo {}: {:.1} s", arguments.join(" "), started.elapsed().as_secs_f64());
    assert!(ran.ok, "{}{}", ran.stdout, ran.stderr);
    ran
}

const FILES: [(&str, &str); 5] = [
    (
        "Cargo.toml",
        "[package]\nname = \"bound\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[build-dependencies]\nbindgen = { version = \"0.73\", default-features = false, features = [\"runtime\"] }\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n[profile.dev]\ndebug = \"line-tables-only\"\n",
    ),
    (
        "gpubuild.toml",
        "schema = 1\n[project]\nname = \"llama\"\nsource = \"llama.cpp\"\nprofile = \"llama\"\nbackends = [\"cpu\"]\nheaders = [\"include/llama.h\"]\n",
    ),
    (
        "build.rs",
        "fn main() {\n    let Ok(built) = gpubuild_build::Build::new().source_from_env(\"LLAMA_CPP_SOURCE\").run() else { return };\n    built.bindings().write(|call| {\n        assert!(std::env::var_os(\"X_WITHOUT_LIBCLANG\").is_none(), \"Unable to find libclang\");\n        bindgen::Builder::default()\n            .headers(&call.headers)\n            .clang_args(&call.arguments)\n            .depfile(\"bindings\", &call.depfile)\n            .allowlist_item(\"llama_.*|LLAMA_.*\")\n            .generate()\n            .map(|bindings| bindings.to_string())\n    });\n}\n",
    ),
    (
        "src/lib.rs",
        "#![allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]\ninclude!(concat!(env!(\"OUT_DIR\"), \"/bindings.rs\"));\n",
    ),
    (
        "src/main.rs",
        "fn main() {\n    let parameters = unsafe { bound::llama_context_default_params() };\n    println!(\"n_ctx {} of {}\", parameters.n_ctx, bound::LLAMA_DEFAULT_SEED);\n}\n",
    ),
];

#[test]
fn crates_build_llama_from_a_build_script() {
    if !sources::wanted() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ran = cargo(root, &["run", "-p", "llama-sys"], &[]);
    assert!(ran.stdout.contains("backends: cpu\n") && ran.stdout.contains("CPU : "), "{}", ran.stdout);

    let bound = folder().join("bound");
    std::fs::create_dir_all(bound.join("src")).unwrap();
    for (name, text) in FILES {
        std::fs::write(bound.join(name), text.replace("@GPUBUILD@", env!("CARGO_MANIFEST_DIR"))).unwrap();
    }
    std::fs::copy(root.join("Cargo.lock"), bound.join("Cargo.lock")).unwrap();
    let host = gpubuild_host::RealHost::new();
    if gpubuild_detect::toolkit::libclang::find(&host).0.is_none() {
        crate::requirements::skip("libclang", "no libclang for bindings of llama.h");
        return;
    }
    let ran = cargo(&bound, &["run"], &[]);
    assert_eq!(ran.stdout.trim(), "n_ctx 512 of 4294967295");
    cargo(&bound, &["clean", "-p", "bound"], &[]);
    let ran = cargo(&bound, &["run"], &[("X_WITHOUT_LIBCLANG", "1")]);
    assert_eq!(ran.stdout.trim(), "n_ctx 512 of 4294967295", "from the store, without libclang");
}

/// A crate for ggml, and two that build llama.cpp and whisper.cpp with it.
const SHARING: [(&str, &str); 10] = [
    (
        "Cargo.toml",
        "[workspace]\nmembers = [\"app\", \"ggml-sys\", \"hear-sys\", \"talk-sys\"]\nresolver = \"3\"\n[profile.dev]\ndebug = \"line-tables-only\"\n",
    ),
    (
        "ggml-sys/gpubuild.toml",
        "schema = 1\n[project]\nname = \"ggml\"\nsource = \"none\"\nprofile = \"ggml\"\nbackends = [\"cpu\"]\n",
    ),
    (
        "ggml-sys/build.rs",
        "fn main() {\n    gpubuild_build::Build::new().source_from_env(\"GGML_SOURCE\").link();\n}\n",
    ),
    (
        "talk-sys/gpubuild.toml",
        "schema = 1\n[project]\nname = \"llama\"\nsource = \"none\"\nprofile = \"llama\"\n",
    ),
    (
        "talk-sys/build.rs",
        "fn main() {\n    gpubuild_build::Build::new().source_from_env(\"LLAMA_CPP_SOURCE\").share(\"ggml\").link();\n}\n",
    ),
    (
        "hear-sys/gpubuild.toml",
        "schema = 1\n[project]\nname = \"whisper\"\nsource = \"none\"\nprofile = \"whisper\"\ncopy = true\n",
    ),
    (
        "hear-sys/build.rs",
        "fn main() {\n    gpubuild_build::Build::new().source_from_env(\"WHISPER_SOURCE\").share(\"ggml\").link();\n}\n",
    ),
    ("app/build.rs", "fn main() {\n    gpubuild_build::check_symbols();\n}\n"),
    (
        "app/Cargo.toml",
        "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nggml-sys = { path = \"../ggml-sys\" }\ntalk-sys = { path = \"../talk-sys\" }\nhear-sys = { path = \"../hear-sys\" }\n[build-dependencies]\ngpubuild-build = { path = \"@GPUBUILD@/crates/build\" }\n",
    ),
    (
        "app/src/main.rs",
        "use std::ffi::{CStr, c_char, c_int};\nuse {ggml_sys as _, hear_sys as _, talk_sys as _};\n\
         unsafe extern \"C\" {\n    fn ggml_version() -> *const c_char;\n    fn llama_print_system_info() -> *const c_char;\n    \
         fn whisper_print_system_info() -> *const c_char;\n    fn whisper_lang_max_id() -> c_int;\n}\n\
         fn main() {\n    let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_str().unwrap();\n    unsafe {\n        \
         println!(\"ggml {}\", text(ggml_version()));\n        println!(\"talk {}\", text(llama_print_system_info()));\n        \
         println!(\"hear {} {}\", whisper_lang_max_id(), text(whisper_print_system_info()));\n    }\n}\n",
    ),
];

#[test]
fn crates_share_one_ggml() {
    if !sources::wanted() {
        return;
    }
    let root = folder().join("sharing");
    for (name, text) in SHARING {
        write(&root, name, text);
    }
    for (name, links, dependencies) in [
        ("ggml-sys", "ggml", ""),
        ("talk-sys", "llama", "ggml-sys = { path = \"../ggml-sys\" }\n"),
        ("hear-sys", "whisper", "ggml-sys = { path = \"../ggml-sys\" }\n"),
    ] {
        let text = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlinks = \"{links}\"\n[dependencies]\n{dependencies}\
             [build-dependencies]\ngpubuild-build = {{ path = \"@GPUBUILD@/crates/build\" }}\n"
        );
        write(&root, &format!("{name}/Cargo.toml"), &text);
        write(&root, &format!("{name}/src/lib.rs"), "");
    }
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
    let (ggml, whisper) = (sources::ggml(), sources::whisper());
    let sources = [("GGML_SOURCE", ggml.to_str().unwrap()), ("WHISPER_SOURCE", whisper.to_str().unwrap())];
    let output = cargo(&root, &["run", "-p", "app"], &sources).stdout;
    let line = |prefix: &str| {
        output.lines().find(|line| line.starts_with(prefix)).unwrap_or_else(|| panic!("{output}"))
    };
    assert_eq!(line("ggml "), "ggml 0.25.3");
    assert!(line("talk ").contains("AVX2 = 1"), "{output}");
    assert!(line("hear 99 ").contains("AVX2 = 1"), "{output}");
}

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text.replace("@GPUBUILD@", env!("CARGO_MANIFEST_DIR"))).unwrap();
}
