//! Reads executables and libraries: ELF, PE and Mach-O files, archives and fat binaries.
//!
//! [`read`] parses a file. [`graph`] finds the libraries that it needs, in the same way as the loader of its platform. Files are
//! never executed or loaded.

pub mod bytes;
mod elf;
mod embedded;
mod fatbin;
pub mod graph;
mod imports;
mod macho;
mod offload;
mod pe;
mod scan;

use gpubuild_core::version::Version;
use gpubuild_host::{Arch, HostPath, Os, ReadFiles};
use serde::Serialize;

pub use bytes::{ObjectBytes, UnreadableObject};
pub use embedded::embedded;
pub use fatbin::{DeviceKernel, FatbinCode, KernelKind};
pub use imports::imported;
pub use offload::HipCode;
pub use scan::{PieceSearch, scan};

/// The formats of executables and libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ObjectFormat {
    /// ELF, used on Linux.
    Elf,
    /// PE, used on Windows.
    Pe,
    /// Mach-O, used on macOS.
    MachO,
}

impl ObjectFormat {
    /// The operating system that uses this format.
    #[must_use]
    pub fn os(self) -> Os {
        match self {
            Self::Elf => Os::Linux,
            Self::Pe => Os::Windows,
            Self::MachO => Os::Macos,
        }
    }

    /// The name of the format in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Elf => "ELF",
            Self::Pe => "PE",
            Self::MachO => "Mach-O",
        }
    }
}

/// The processor architecture of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMachine {
    /// The name: `x86_64`, `aarch64`, `i386`, `riscv64`.
    pub name: &'static str,
    /// Whether the file uses the 64-bit variant of its format.
    pub wide: bool,
    /// The machine number in the file's header.
    pub number: u32,
}

impl ObjectMachine {
    /// Whether this is the given architecture.
    #[must_use]
    pub fn is(&self, arch: Arch) -> bool {
        self.name == arch.id()
    }
}

/// Program or library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ObjectKind {
    /// An executable.
    Program,
    /// A library that programs load.
    Library,
}

impl ObjectKind {
    /// The name of the kind in messages.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Library => "library",
        }
    }
}

/// When a library is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum When {
    /// At program start. The program does not start without it.
    Start,
    /// At the first call of one of its functions (delay-loaded imports on Windows).
    FirstCall,
    /// At program start if present (weak libraries on macOS).
    IfThere,
    /// By the program at run time: `dlopen`, `LoadLibrary`.
    Opened,
}

/// A library that a file depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededObject {
    /// The name in the file: `libcudart.so.12`, `cudart64_12.dll`, `@rpath/libggml.dylib`.
    pub name: String,
    /// When it is loaded.
    pub when: When,
    /// The required symbol versions (ELF): `GLIBC_2.38`.
    pub versions: Vec<String>,
    /// The names of imported functions, for GPU drivers only.
    pub functions: Vec<String>,
}

impl NeededObject {
    fn at_start(name: impl Into<String>) -> Self {
        Self { name: name.into(), when: When::Start, versions: Vec::new(), functions: Vec::new() }
    }
}

/// The parsed content of an executable or library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFile {
    /// The file format.
    pub format: ObjectFormat,
    /// The processor architecture.
    pub machine: ObjectMachine,
    /// The other architectures in a universal file.
    pub also: Vec<&'static str>,
    /// Whether it is a program or a library.
    pub kind: ObjectKind,
    /// The path of the loader (ELF): `/lib64/ld-linux-x86-64.so.2`.
    pub interpreter: Option<String>,
    /// The library's own name: soname, install name, or DLL name.
    pub name: Option<String>,
    /// The libraries that it depends on, in the order of the file.
    pub needed: Vec<NeededObject>,
    /// Search paths for the dependencies of the file and of its libraries (ELF `DT_RPATH`, Mach-O `LC_RPATH`), as written.
    pub rpath: Vec<String>,
    /// Search paths for the file's own dependencies (ELF `DT_RUNPATH`), as written.
    pub runpath: Vec<String>,
    /// The symbol versions that it defines (ELF).
    pub offers: Vec<String>,
    /// The exported functions, for GPU drivers only.
    pub functions: Vec<String>,
    /// The minimum version of macOS (Mach-O).
    pub system: Option<Version>,
    /// The CUDA device code.
    pub cuda: FatbinCode,
    /// The HIP device code.
    pub hip: HipCode,
}

impl ObjectFile {
    /// The newest glibc version that the file needs, from its symbol versions.
    #[must_use]
    pub fn needed_glibc(&self) -> Option<Version> {
        let versions = self.needed.iter().flat_map(|needed| &needed.versions);
        versions.filter_map(|name| name.strip_prefix("GLIBC_")?.parse().ok()).max()
    }

    fn new(format: ObjectFormat, machine: ObjectMachine, kind: ObjectKind) -> Self {
        Self {
            format,
            machine,
            also: Vec::new(),
            kind,
            interpreter: None,
            name: None,
            needed: Vec::new(),
            rpath: Vec::new(),
            runpath: Vec::new(),
            offers: Vec::new(),
            functions: Vec::new(),
            system: None,
            cuda: FatbinCode::default(),
            hip: HipCode::default(),
        }
    }
}

/// Reads an executable or library. For a universal file, reads the slice for `arch`, or else the first slice.
///
/// # Errors
/// If the file can't be read, has another format, or is damaged.
pub fn read(host: &dyn ReadFiles, path: &HostPath, arch: Arch) -> Result<ObjectFile, UnreadableObject> {
    let file = bytes::ObjectBytes::open(host, path)?;
    parse(file.data(), arch).map_err(|error| file.explain(error))
}

fn parse(data: bytes::Data<'_, '_>, arch: Arch) -> Result<ObjectFile, UnreadableObject> {
    let Some(start) = data.bytes(0, data.size().min(8)) else {
        return Err(UnreadableObject::damaged("the first bytes can't be read"));
    };
    match start {
        [] => Err(UnreadableObject::Foreign("empty")),
        [0x7f, b'E', b'L', b'F', ..] => elf::parse(data),
        [b'M', b'Z', ..] => pe::parse(data),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => macho::parse(data),
        // Java class files have the same magic number. Their next number is a version, at least 45; here it is the slice count.
        [0xca, 0xfe, 0xba, 0xbe | 0xbf, 0, 0, 0, 0..=20, ..] => macho::parse_universal(data, arch),
        _ => Err(UnreadableObject::Foreign(foreign(start))),
    }
}

/// Describes a file that is neither an executable nor a library.
fn foreign(start: &[u8]) -> &'static str {
    let known: [(&[u8], &str); 10] = [
        (
            b"!<arch>\n",
            "a static library, which is not loaded at run time: inspect the program that links it",
        ),
        (
            b"!<thin>\n",
            "a static library, which is not loaded at run time: inspect the program that links it",
        ),
        (b"#!", "a script: inspect the program that it starts"),
        (b"PK\x03\x04", "a ZIP archive (a wheel, an APK): unpack it and inspect the libraries in it"),
        (b"\x1f\x8b", "a compressed file: unpack it first"),
        (b"(\xb5/\xfd", "a compressed file: unpack it first"),
        (b"\xca\xfe\xba\xbe", "a Java class"),
        (b"/* GNU l", "a linker script: inspect the library that it names"),
        (b"\x50\xed\x55\xba", "a standalone CUDA fat binary, which programs open at run time"),
        (b"__CLANG_", "a standalone offload bundle, which programs open at run time"),
    ];
    let known = known.iter().find(|(magic, _)| start.starts_with(&magic[..magic.len().min(8)]));
    known.map_or("not an executable or library", |(_, what)| what)
}

/// Reads the sections with device code, for all formats. PE cuts section names to eight characters.
fn device_code(binary: &mut ObjectFile, data: bytes::Data<'_, '_>, sections: &[(String, u64, u64)]) {
    // Sections of a valid file do not overlap. Thousands of overlapping ones would be read again and again.
    let mut left = data.size();
    for (name, start, size) in sections {
        let mut part = || {
            left = left.checked_sub(*size)?;
            data.part(*start, *size)
        };
        match name.as_str() {
            ".nv_fatbin" | ".nv_fatb" => match part() {
                Some(part) => binary.cuda.read(part),
                None => binary.cuda.incomplete = true,
            },
            ".nvFatBinSegment" | ".nvFatBi" => binary.cuda.registers = true,
            ".hip_fatbin" | ".hip_fat" => match part() {
                Some(part) => binary.hip.read(part),
                None => binary.hip.incomplete = true,
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
