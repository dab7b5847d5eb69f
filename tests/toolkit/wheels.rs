//! Wheels of a fake toolkit, and the lock that lists them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// A file in a wheel: path, content, whether it is executable.
pub(crate) type Entry<'a> = (&'a str, &'a str, bool);

const NVCC: &str = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n";
const HEADER: &str = "\
#define CUDA_VERSION 13000
#define cuMemAlloc cuMemAlloc_v2
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
";

/// A wheel on disk.
#[derive(Clone)]
pub(crate) struct Wheel {
    pub(crate) package: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

impl Wheel {
    pub(crate) fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }
}

/// Writes the compiler, the headers and libraries, and a component `cublas` into a folder.
pub(crate) fn make(folder: &Path) -> [Wheel; 3] {
    make_with(folder, NVCC)
}

/// Like [`make`], with another compiler.
pub(crate) fn make_with(folder: &Path, nvcc: &str) -> [Wheel; 3] {
    std::fs::create_dir_all(folder).unwrap();
    let in_tree = |path: &str| format!("nvidia/cu13/{path}");
    let write = |package, entries: &[Entry<'_>]| {
        let paths: Vec<String> = entries.iter().map(|(path, ..)| in_tree(path)).collect();
        let entries: Vec<Entry<'_>> =
            entries.iter().zip(&paths).map(|(entry, path)| (path.as_str(), entry.1, entry.2)).collect();
        wheel(folder, package, &entries)
    };
    [
        write(
            "nvidia-cuda-nvcc",
            &[("bin/nvcc", nvcc, true), ("bin/nvcc.profile", "TOP = $(_HERE_)/..\n", false)],
        ),
        write(
            "nvidia-cuda-runtime",
            &[("include/cuda.h", HEADER, false), ("lib/libcudart.so.13", "library", false)],
        ),
        write("nvidia-cublas", &[("lib/libcublas.so.13", "another", false)]),
    ]
}

/// The lock of these wheels.
pub(crate) fn lock(wheels: &[Wheel; 3]) -> String {
    let entry = |wheel: &Wheel| {
        format!(
            "[[components.wheels]]\npackage = \"{}\"\nversion = \"1.0\"\nfiles = [{{ name = \"{}\", sha256 = \"{}\", size = {} }}]\n",
            wheel.package,
            wheel.name(),
            wheel.sha256,
            wheel.size
        )
    };
    let [nvcc, runtime, cublas] = wheels;
    let mut text = String::from(
        "schema = \"gpubuild.lock/1\"\ntoolkit = \"cuda\"\nrelease = \"13.0\"\nversion = \"13.0.3\"\nplatforms = [\"linux-x86_64\"]\n",
    );
    let _ = writeln!(text, "[[components]]\nid = \"base\"\n{}{}", entry(nvcc), entry(runtime));
    let _ = writeln!(text, "[[components]]\nid = \"cublas\"\noptional = true\n{}", entry(cublas));
    text
}

pub(crate) fn wheel(folder: &Path, package: &'static str, entries: &[Entry<'_>]) -> Wheel {
    wheel_of(folder, package, ("1.0", "py3-none-any"), entries, &|record| record)
}

/// Writes a wheel with a version and a tag. `change` returns the RECORD to write instead of the right one.
pub(crate) fn wheel_of(
    folder: &Path,
    package: &'static str,
    (version, tag): (&str, &str),
    entries: &[Entry<'_>],
    change: &dyn Fn(String) -> String,
) -> Wheel {
    let stem = format!("{}-{version}", package.replace('-', "_"));
    let info = format!("{stem}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n");
    let about = format!("Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n");
    let mut files: Vec<(String, Vec<u8>, bool)> = entries
        .iter()
        .map(|(path, content, program)| ((*path).to_owned(), content.as_bytes().to_vec(), *program))
        .collect();
    files.push((format!("{info}/METADATA"), metadata.into_bytes(), false));
    files.push((format!("{info}/WHEEL"), about.as_bytes().to_vec(), false));
    let mut record = String::new();
    for (path, content, _) in &files {
        let sum = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        let _ = writeln!(record, "{path},sha256={sum},{}", content.len());
    }
    let _ = writeln!(record, "{info}/RECORD,,");
    files.push((format!("{info}/RECORD"), change(record).into_bytes(), false));
    let bytes = zip(&files);
    let path = folder.join(format!("{stem}-{tag}.whl"));
    std::fs::write(&path, &bytes).unwrap();
    let sha256 = Sha256::digest(&bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    Wheel { package, path, sha256, size: bytes.len() as u64 }
}

/// A zip archive without compression.
fn zip(files: &[(String, Vec<u8>, bool)]) -> Vec<u8> {
    let (mut body, mut directory) = (Vec::new(), Vec::new());
    for (name, content, program) in files {
        let offset = u32::try_from(body.len()).unwrap();
        let length = u32::try_from(content.len()).unwrap();
        let mut common = Vec::new();
        // Version, flags, method, time, date (1980-01-01).
        for field in [20_u16, 0, 0, 0, 0x21] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc32(content), length, length] {
            common.extend(field.to_le_bytes());
        }
        common.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        body.extend(b"PK\x03\x04");
        body.extend(&common);
        body.extend(name.as_bytes());
        body.extend(content);
        directory.extend(b"PK\x01\x02");
        // Made on Unix: the upper half of the attributes has the mode.
        directory.extend([20, 3]);
        directory.extend(&common);
        // Comment, disk, internal attributes.
        directory.extend([0; 6]);
        let mode: u32 = if *program { 0o100_755 } else { 0o100_644 };
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(files.len()).unwrap();
    let (size, start) = (u32::try_from(directory.len()).unwrap(), u32::try_from(body.len()).unwrap());
    body.extend(directory);
    body.extend(b"PK\x05\x06");
    body.extend([0; 4]);
    body.extend(count.to_le_bytes());
    body.extend(count.to_le_bytes());
    body.extend(size.to_le_bytes());
    body.extend(start.to_le_bytes());
    body.extend([0; 2]);
    body
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 },
        )
    })
}
