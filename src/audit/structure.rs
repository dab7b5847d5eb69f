//! Reads segments, relocations and symbol versions of ELF files, and the C runtime of Windows object files.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_linker::archive::{is_archive, members};
use object::elf;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{
    BinaryFormat, Endianness, Object, ObjectSection, ObjectSymbol, ReadRef, RelocationFlags,
    RelocationTarget, SectionKind, SymbolIndex,
};

/// The least size of a relocation in bytes.
const RELOCATION: u64 = 8;

/// The properties of a file, or of all members of an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Structure {
    /// Whether the file requests an executable stack.
    pub executable_stack: bool,
    /// Addresses of segments that are writable and executable.
    pub writable_code: Vec<u64>,
    /// Whether the loader must modify code (`DT_TEXTREL`).
    pub text_relocations: bool,
    /// Code that works only at a fixed address: the archive member or section, and the symbol that it refers to.
    pub fixed: Vec<(String, String)>,
    /// Whether the file contains debug information.
    pub debug_info: bool,
    /// C runtimes that Windows object files request, with the archive members that request them.
    pub runtimes: BTreeMap<MsvcRuntime, BTreeSet<String>>,
    /// The required symbols by kind and version: `GLIBC` -> `2.38` -> symbols.
    pub versions: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

/// A C runtime of Microsoft's compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MsvcRuntime {
    /// `/MT`.
    Static,
    /// `/MTd`.
    StaticDebug,
    /// `/MD`.
    Dynamic,
    /// `/MDd`.
    DynamicDebug,
}

impl MsvcRuntime {
    /// The compiler flag that selects the runtime.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Static => "/MT",
            Self::StaticDebug => "/MTd",
            Self::Dynamic => "/MD",
            Self::DynamicDebug => "/MDd",
        }
    }

    /// The runtime that a value of `CMAKE_MSVC_RUNTIME_LIBRARY` selects in release builds.
    #[must_use]
    pub fn of_setting(value: &str) -> Option<Self> {
        let is_debug = value.contains("Debug") && !value.contains("$<");
        match (value.starts_with("MultiThreaded"), value.ends_with("DLL"), is_debug) {
            (false, ..) => None,
            (_, false, false) => Some(Self::Static),
            (_, false, true) => Some(Self::StaticDebug),
            (_, true, false) => Some(Self::Dynamic),
            (_, true, true) => Some(Self::DynamicDebug),
        }
    }

    fn of_library(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        match name.strip_suffix(".lib").unwrap_or(&name) {
            "libcmt" => Some(Self::Static),
            "libcmtd" => Some(Self::StaticDebug),
            "msvcrt" => Some(Self::Dynamic),
            "msvcrtd" => Some(Self::DynamicDebug),
            _ => None,
        }
    }
}

/// Examines a file, or every member of an archive. Members that are not object files are skipped.
#[must_use]
pub fn read<'data>(data: impl ReadRef<'data>) -> Structure {
    let mut structure = Structure::default();
    if is_archive(data) {
        for member in members(data).into_iter().flatten().filter_map(Result::ok) {
            add(member.data, &String::from_utf8_lossy(member.name), &mut structure);
        }
    } else {
        add(data, "", &mut structure);
    }
    structure
}

fn add<'data>(data: impl ReadRef<'data>, member: &str, structure: &mut Structure) {
    let Ok(file) = object::File::parse(data) else { return };
    structure.debug_info |= [".debug_info", ".zdebug_info", ".debug_line"]
        .iter()
        .any(|name| file.section_by_name(name).is_some_and(|section| section.size() > 0));
    match file.format() {
        BinaryFormat::Coff => runtimes(&file, member, structure),
        BinaryFormat::Elf => {
            if file.kind() == object::ObjectKind::Relocatable {
                fixed(&file, data.len().unwrap_or_default() / RELOCATION, member, structure);
            } else if let Ok(file) = ElfFile64::<Endianness, _>::parse(data) {
                linked(&file, structure);
            }
        }
        _ => {}
    }
}

/// Reads the runtimes from linker options such as `/DEFAULTLIB:"LIBCMT"`, which the section `.drectve` contains.
fn runtimes<'data>(file: &object::File<'data, impl ReadRef<'data>>, member: &str, structure: &mut Structure) {
    let Some(text) = file.section_by_name(".drectve").and_then(|section| section.data().ok()) else { return };
    for option in String::from_utf8_lossy(text).split([' ', '\0']) {
        let Some((flag, value)) = option.split_once(':') else { continue };
        if !flag.trim_start_matches(['/', '-']).eq_ignore_ascii_case("defaultlib") {
            continue;
        }
        if let Some(runtime) = MsvcRuntime::of_library(value.trim_matches('"')) {
            structure.runtimes.entry(runtime).or_default().insert(member.to_owned());
        }
    }
}

/// Finds 32-bit absolute relocations in code: such an object cannot be linked into a position-independent executable (PIE).
///
/// `limit` is the number of relocations that are examined: in a damaged file, many sections can have the same ones.
fn fixed<'data>(
    file: &object::File<'data, impl ReadRef<'data>>,
    limit: u64,
    member: &str,
    structure: &mut Structure,
) {
    if file.architecture() != object::Architecture::X86_64 {
        return;
    }
    let mut left = limit;
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        for (_, relocation) in section.relocations() {
            let Some(rest) = left.checked_sub(1) else { return };
            left = rest;
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            if ![elf::R_X86_64_32, elf::R_X86_64_32S].contains(&r_type) {
                continue;
            }
            let name = match relocation.target() {
                RelocationTarget::Symbol(index) => file.symbol_by_index(index).ok(),
                _ => None,
            };
            let name = name.and_then(|symbol| symbol.name().ok().map(str::to_owned)).unwrap_or_default();
            let place = if member.is_empty() { section.name().unwrap_or_default() } else { member };
            structure.fixed.push((place.to_owned(), name));
            break;
        }
    }
}

fn linked<'data>(file: &ElfFile64<'data, Endianness, impl ReadRef<'data>>, structure: &mut Structure) {
    let endian = file.endian();
    let mut has_dynamic = false;
    for segment in file.elf_program_headers() {
        let flags = segment.p_flags(endian);
        let (writable, executable) = (flags.0 & elf::PF_W.0 != 0, flags.0 & elf::PF_X.0 != 0);
        match segment.p_type(endian) {
            elf::PT_GNU_STACK => structure.executable_stack |= executable,
            elf::PT_LOAD if writable && executable => structure.writable_code.push(segment.p_vaddr(endian)),
            _ => {}
        }
        // A damaged file can have thousands of segments with the same megabytes.
        if !has_dynamic && let Ok(Some(dynamic)) = segment.dynamic(endian, file.data()) {
            has_dynamic = true;
            structure.text_relocations |= dynamic.iter().any(|entry| {
                let tag = entry.tag(endian);
                tag == elf::DT_TEXTREL || (tag == elf::DT_FLAGS && entry.val(endian) & elf::DF_TEXTREL.0 != 0)
            });
        }
    }
    versions(file, structure);
}

/// Collects the versions of the C and C++ libraries that symbols require.
fn versions<'data>(file: &ElfFile64<'data, Endianness, impl ReadRef<'data>>, structure: &mut Structure) {
    let endian = file.endian();
    let Ok(Some(table)) = file.elf_section_table().versions(endian, file.data()) else { return };
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_undefined) {
        let SymbolIndex(index) = symbol.index();
        let version = table.version(table.version_index(endian, SymbolIndex(index)).index());
        let (Ok(Some(version)), Ok(name)) = (version, symbol.name()) else { continue };
        let version = String::from_utf8_lossy(version.name()).into_owned();
        let Some((kind, number)) = version.split_once('_') else { continue };
        let kinds = structure.versions.entry(kind.to_owned()).or_default();
        kinds.entry(number.to_owned()).or_default().insert(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmake_settings_select_a_runtime() {
        let check =
            |value: &str, expected: Option<MsvcRuntime>| assert_eq!(MsvcRuntime::of_setting(value), expected);
        check("MultiThreaded", Some(MsvcRuntime::Static));
        check("MultiThreadedDLL", Some(MsvcRuntime::Dynamic));
        check("MultiThreadedDebugDLL", Some(MsvcRuntime::DynamicDebug));
        check("MultiThreaded$<$<CONFIG:Debug>:Debug>DLL", Some(MsvcRuntime::Dynamic));
        check("", None);
    }

    #[test]
    fn runtime_names_are_case_insensitive() {
        assert_eq!(MsvcRuntime::of_library("LIBCMT"), Some(MsvcRuntime::Static));
        assert_eq!(MsvcRuntime::of_library("msvcrtd.lib"), Some(MsvcRuntime::DynamicDebug));
        assert_eq!(MsvcRuntime::of_library("OLDNAMES"), None);
    }
}
