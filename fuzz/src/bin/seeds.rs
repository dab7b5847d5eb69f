//! Writes the first inputs of the targets whose inputs are not among the files of the tests: `seeds FOLDER TARGET`.

use std::env;
use std::fs;
use std::path::Path;

use gpubuild_samples::{Elf, bundles, fat_binary, mach_o, pe, ptx, sass, universal};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [folder, target] = arguments.as_slice() else { panic!("usage: seeds FOLDER TARGET") };
    write(folder, target);
}

pub fn write(folder: &str, target: &str) {
    let seeds = match target {
        "archive" => archives(),
        "object" => objects(),
        "project" => projects(),
        "settings" => settings(),
        _ => Vec::new(),
    };
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(Path::new(folder).join(number.to_string()), seed).expect("the folder is writable");
    }
}

/// Runners in cargo's configuration, lists of wheels, and lock files.
fn settings() -> Vec<Vec<u8>> {
    let expressions = [
        "cfg(unix)",
        "cfg(not(windows))",
        "cfg(all(target_os = \\\"linux\\\", any(target_arch = \\\"aarch64\\\", feature = \\\"x\\\")))",
        "cfg(target_pointer_width = \\\"64\\\")",
        "aarch64-unknown-linux-gnu",
    ];
    let runners = expressions.map(|one| format!("[target.\"{one}\"]\nrunner = [\"tools/run\", \"-x\"]\n"));
    let hash = "0f".repeat(32);
    let locks = [
        format!(
            "version = 1\n[source]\ncrate = \"x-sys\"\nrequirement = \"0.1\"\nversion = \"0.1.3\"\nsha256 = \"{hash}\"\n"
        ),
        format!(
            "version = 1\n[source]\npypi = \"x\"\nversion = \"1.0\"\nfile = \"x-1.0.tar.gz\"\nsha256 = \"{hash}\"\n"
        ),
        format!("version = 1\n[source]\ngit = \"https://h/x.git\"\nrev = \"{hash}\"\nsubmodules = true\n"),
        format!("version = 1\n[source]\nurl = \"https://h/x-1.tar.gz?a\"\nsha256 = \"{hash}\"\nstrip = 1\n"),
    ];
    let list = format!(
        "lock-version = \"1.0\"\n[[packages]]\nname = \"nvidia-cuda-runtime-cu12\"\nversion = \"12.9.79\"\n\
         wheels = [{{ url = \"https://h/x-1-py3-none-any.whl\", size = 3, hashes = {{ sha256 = \"{hash}\" }} }}]\n"
    );
    runners.into_iter().chain(locks).chain([list]).map(String::into_bytes).collect()
}

/// Tar archives: layers as `pack` writes them, and entries that `install` rejects.
fn archives() -> Vec<Vec<u8>> {
    let long = format!("share/{}/x", "d".repeat(120));
    let layer =
        tar(&[("bin/infer", 0o755, b"program"), ("lib/libgk.so.1", 0o644, b""), (&long, 0o644, b"x")]);
    let compressed = zstd::stream::encode_all(layer.as_slice(), 1).expect("compression works in memory");
    let mut seeds = vec![layer, compressed];
    for kind in [b'1', b'2', b'3', b'5', b'S', b'x', b'g', b'K'] {
        let mut archive = tar(&[("bin/a", 0o644, b"content")]);
        archive[156] = kind;
        archive[157..163].copy_from_slice(b"../../");
        seeds.push(archive);
    }
    for name in ["../../escape", "/tmp/escape", "a/../../b", "c:\\x", "con", "a//b", "A/b"] {
        let mut archive = tar(&[("aaaaaaaaaaaaaaaa", 0o4755, b"content"), ("a", 0o644, b"")]);
        archive[..16].fill(0);
        archive[..name.len()].copy_from_slice(name.as_bytes());
        seeds.push(archive);
    }
    seeds
}

fn tar(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        builder.append_data(&mut header, path, *content).expect("writing works in memory");
    }
    builder.into_inner().expect("writing works in memory")
}

/// Executables and libraries of each format, with device code.
fn objects() -> Vec<Vec<u8>> {
    const ARM: u32 = 0x0100_000c;
    const INTEL: u32 = 0x0100_0007;
    let cuda = fat_binary(&[&[sass(80), ptx(80, (8, 5))], &[(2, 90, (1, 7), 0x10_0011)]]);
    let hip = bundles(&[&["host-x86_64-unknown-linux", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-"]]);
    let mut compressed = b"CCOB\x02\0\x01\0".to_vec();
    compressed.extend(64_u32.to_le_bytes());
    compressed.resize(64, 1);
    let program = Elf::program()
        .needed(&["libcudart.so.12", "libcuda.so.1", "libggml.so", "libc.so.6"])
        .runpath("$ORIGIN/../lib::/opt/x")
        .version_needs("libc.so.6", &["GLIBC_2.38"])
        .imports(&["cuInit", "cuCtxCreate_v4"])
        .section(".nv_fatbin", cuda.clone());
    let library = Elf::library("libx.so.1").version_definitions(&["X_1"]).rpath("/a:/b").exports(&["cuInit"]);
    let small = Elf { wide: false, machine: 3, ..Elf::library("libold.so") }.needed(&["libm.so.6"]);
    let windows: [(&str, &[&str]); 2] = [("nvcuda.dll", &["cuInit"]), ("cudart64_12.dll", &["cudaMalloc"])];
    let mac = |processor| {
        let libraries = [("@rpath/libggml.dylib", false), ("/usr/lib/libSystem.B.dylib", true)];
        mach_o(processor, 2, &libraries, &["@loader_path/../lib"], (14, 4))
    };
    vec![
        program.build(),
        library.build(),
        small.build(),
        Elf::program().section(".hip_fatbin", hip).needed(&["libamdhip64.so.6"]).build(),
        Elf::program().section(".hip_fatbin", compressed).build(),
        pe(0x8664, false, &windows, &[("vulkan-1.dll", &["vkCreateInstance"])], &[(".nv_fatb", cuda)]),
        pe(0xaa64, true, &[("KERNEL32.dll", &["Sleep"])], &[], &[]),
        mac(ARM),
        universal(&[(INTEL, mac(INTEL)), (ARM, mac(ARM))]),
        gpubuild_linker::message::library("message", 2, "linux", "x86_64"),
        gpubuild_linker::message::library("message", 1, "windows", "x86_64"),
        gpubuild_linker::message::library("message", 1, "macos", "aarch64"),
    ]
}

/// Every `gpubuild.toml` of the repository, and the examples of the documentation.
fn projects() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut seeds = Vec::new();
    for folder in ["", "examples", "templates/new", "benches/gpu"] {
        let folder = root.join(folder);
        let below = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = below.chain([folder.clone()]).map(|folder| folder.join("gpubuild.toml"));
        seeds.extend(files.filter_map(|file| fs::read(file).ok()));
    }
    let start = "schema = 1\n[project]\nname = \"p\"\nsource = \"src\"\nprofile = \"ggml\"\n";
    let pages = fs::read_dir(root.join("docs/reference")).into_iter().flatten().flatten();
    for page in pages.filter_map(|page| fs::read_to_string(page.path()).ok()) {
        for block in page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let text = if block.contains("[project]") { block.to_owned() } else { format!("{start}{block}") };
            seeds.push(text.into_bytes());
        }
    }
    seeds
}
