//! Executables and libraries: what ELF, PE and Mach-O files, archives and fat binaries contain, and what they need.
//!
//! [`read`] looks into a file, [`graph`] finds what it needs as the loader of its platform would. The file itself is never
//! started and never loaded.

pub mod bytes;
mod elf;
mod embedded;
mod fatbin;
pub mod graph;
mod macho;
mod offload;
mod pe;

use gpubuild_core::version::Version;
use gpubuild_host::{Arch, HostPath, Os, ReadFiles};
use serde::Serialize;

pub use bytes::UnreadableObject;
pub use embedded::embedded;
pub use fatbin::{DeviceKernel, FatbinCode, KernelKind};
pub use offload::HipCode;

/// Formats of executables and libraries, one per platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ObjectFormat {
    /// Linux.
    Elf,
    /// Windows.
    Pe,
    /// macOS.
    MachO,
}

impl ObjectFormat {
    /// The platform whose loader takes it.
    #[must_use]
    pub fn os(self) -> Os {
        match self {
            Self::Elf => Os::Linux,
            Self::Pe => Os::Windows,
            Self::MachO => Os::Macos,
        }
    }

    /// Its name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Elf => "ELF",
            Self::Pe => "PE",
            Self::MachO => "Mach-O",
        }
    }
}

/// The processor that a file is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMachine {
    /// Its name: `x86_64`, `aarch64`, `i386`, `riscv64`.
    pub name: &'static str,
    /// Whether addresses have 64 bits.
    pub wide: bool,
    /// Number of the processor in the header of the format.
    pub number: u32,
}

impl ObjectMachine {
    /// Whether it is the processor of a machine.
    #[must_use]
    pub fn is(&self, arch: Arch) -> bool {
        self.name == arch.id()
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ObjectKind {
    /// It can be started.
    Program,
    /// It is loaded by programs.
    Library,
}

impl ObjectKind {
    /// In one word.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Library => "library",
        }
    }
}

/// When a library is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum When {
    /// Before anything runs: without it nothing starts.
    Start,
    /// When something of it is called for the first time (Windows' delayed imports).
    FirstCall,
    /// Before anything runs, and its absence is forgiven (weak libraries of macOS).
    IfThere,
    /// By the program itself while it runs: `dlopen`, `LoadLibrary`.
    Opened,
}

/// A library that a file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededObject {
    /// As it is named: `libcudart.so.12`, `cudart64_12.dll`, `@rpath/libggml.dylib`.
    pub name: String,
    /// When it is looked for.
    pub when: When,
    /// The versions of its symbols that are needed (ELF): `GLIBC_2.38`.
    pub versions: Vec<String>,
    /// Names of functions that are imported from it; kept for GPU drivers only.
    pub functions: Vec<String>,
}

impl NeededObject {
    /// A library that is needed at the start.
    fn at_start(name: impl Into<String>) -> Self {
        Self { name: name.into(), when: When::Start, versions: Vec::new(), functions: Vec::new() }
    }
}

/// What an executable or library says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFile {
    /// Format.
    pub format: ObjectFormat,
    /// Processor.
    pub machine: ObjectMachine,
    /// Further processors that a universal file has code for.
    pub also: Vec<&'static str>,
    /// Program or library.
    pub kind: ObjectKind,
    /// The program that loads it (ELF): `/lib64/ld-linux-x86-64.so.2`.
    pub interpreter: Option<String>,
    /// Its own name among libraries: soname, install name, name of the DLL.
    pub name: Option<String>,
    /// What it needs, in the order of the file.
    pub needed: Vec<NeededObject>,
    /// Folders that are searched for what it and its libraries need (ELF `DT_RPATH`, Mach-O `LC_RPATH`), as written.
    pub rpath: Vec<String>,
    /// Folders that are searched for what it needs itself (ELF `DT_RUNPATH`), as written.
    pub runpath: Vec<String>,
    /// Versions of symbols that it offers (ELF).
    pub offers: Vec<String>,
    /// Functions of a GPU driver that it offers; kept for drivers only.
    pub functions: Vec<String>,
    /// The oldest system that it is made for (Mach-O).
    pub system: Option<Version>,
    /// Device code for CUDA.
    pub cuda: FatbinCode,
    /// Device code for HIP.
    pub hip: HipCode,
}

impl ObjectFile {
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

/// Looks into a file. Of a universal one, the part for `arch` is taken if there is one.
///
/// # Errors
/// It can't be read, is something else, or is damaged.
pub fn read(host: &dyn ReadFiles, path: &HostPath, arch: Arch) -> Result<ObjectFile, UnreadableObject> {
    let file = bytes::ObjectBytes::open(host, path)?;
    parse(file.data(), arch).map_err(|error| file.explain(error))
}

fn parse(data: bytes::Data<'_, '_>, arch: Arch) -> Result<ObjectFile, UnreadableObject> {
    let Some(start) = data.bytes(0, data.size().min(8)) else {
        return Err(UnreadableObject::damaged("it ends before its first bytes"));
    };
    match start {
        [] => Err(UnreadableObject::Foreign("empty")),
        [0x7f, b'E', b'L', b'F', ..] => elf::parse(data),
        [b'M', b'Z', ..] => pe::parse(data),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => macho::parse(data),
        // Java's class files begin alike; their next number is a version, which no universal file has as count.
        [0xca, 0xfe, 0xba, 0xbe | 0xbf, 0, 0, 0, 0..=20, ..] => macho::parse_universal(data, arch),
        _ => Err(UnreadableObject::Foreign(foreign(start))),
    }
}

/// What a file is that no loader takes.
fn foreign(start: &[u8]) -> &'static str {
    let known: [(&[u8], &str); 10] = [
        (b"!<arch>\n", "a static library, which no loader sees: look into the program that links it"),
        (b"!<thin>\n", "a static library, which no loader sees: look into the program that links it"),
        (b"#!", "a script: look into the program that it starts"),
        (b"PK\x03\x04", "a ZIP archive (a wheel, an APK): unpack it and look into the libraries in it"),
        (b"\x1f\x8b", "a compressed file: unpack it first"),
        (b"(\xb5/\xfd", "a compressed file: unpack it first"),
        (b"\xca\xfe\xba\xbe", "a Java class"),
        (b"/* GNU l", "a linker script: look into the library that it names"),
        (b"\x50\xed\x55\xba", "a CUDA fat binary of its own: programs open it, no loader does"),
        (b"__CLANG_", "an offload bundle of its own: programs open it, no loader does"),
    ];
    let known = known.iter().find(|(magic, _)| start.starts_with(&magic[..magic.len().min(8)]));
    known.map_or("no executable or library", |(_, what)| what)
}

/// What stands in the sections that hold device code, whatever the format. Names are cut to eight letters in PE.
fn device_code(binary: &mut ObjectFile, data: bytes::Data<'_, '_>, sections: &[(String, u64, u64)]) {
    for (name, start, size) in sections {
        let part = data.part(*start, *size);
        match (name.as_str(), part) {
            (".nv_fatbin" | ".nv_fatb", Some(part)) => binary.cuda.read(part),
            (".nv_fatbin" | ".nv_fatb", None) => binary.cuda.incomplete = true,
            (".nvFatBinSegment" | ".nvFatBi", _) => binary.cuda.registers = true,
            (".hip_fatbin" | ".hip_fat", Some(part)) => binary.hip.read(part),
            (".hip_fatbin" | ".hip_fat", None) => binary.hip.incomplete = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
