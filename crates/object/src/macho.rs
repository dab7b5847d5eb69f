//! Reads Mach-O files: dependencies and search paths, from the load commands.

use gpubuild_host::Arch;
use object::Endianness;
use object::macho::{self, FatArch32, FatArch64, MachHeader32, MachHeader64};
use object::read::macho::{FatArch, LoadCommandVariant, MachHeader, MachOFatFile};

use super::bytes::Data;
use super::{NeededObject, ObjectFile, ObjectFormat, ObjectKind, ObjectMachine, UnreadableObject, When};

/// Parses a file for a single architecture.
pub(super) fn parse(data: Data<'_, '_>) -> Result<ObjectFile, UnreadableObject> {
    match data.bytes(0, 1) {
        Some([0xcf]) => parse_as::<MachHeader64<Endianness>>(data),
        _ => parse_as::<MachHeader32<Endianness>>(data),
    }
}

/// Parses a universal file: the slice for `arch`, or else the first slice.
pub(super) fn parse_universal(data: Data<'_, '_>, arch: Arch) -> Result<ObjectFile, UnreadableObject> {
    match data.bytes(3, 1) {
        Some([0xbf]) => choose::<FatArch64>(data, arch),
        _ => choose::<FatArch32>(data, arch),
    }
}

fn choose<Fat: FatArch>(data: Data<'_, '_>, arch: Arch) -> Result<ObjectFile, UnreadableObject> {
    let file = MachOFatFile::<Fat>::parse(data)?;
    let name = |one: &Fat| machine(one.cputype()).name;
    let chosen = file.arches().iter().find(|one| name(one) == arch.id()).or(file.arches().first());
    let Some(chosen) = chosen else {
        return Err(UnreadableObject::damaged("the universal file contains no slices"));
    };
    let (start, size) = chosen.file_range();
    let part = data.part(start, size);
    let part = part.ok_or_else(|| UnreadableObject::damaged("a slice is outside the universal file"))?;
    let mut binary = parse(part)?;
    binary.also = file.arches().iter().map(name).filter(|other| *other != name(chosen)).collect();
    binary.also.dedup();
    Ok(binary)
}

fn parse_as<Mach: MachHeader<Endian = Endianness>>(
    data: Data<'_, '_>,
) -> Result<ObjectFile, UnreadableObject> {
    let header = Mach::parse(data, 0)?;
    let endian = header.endian()?;
    let kind = match header.filetype(endian) {
        macho::MH_EXECUTE => ObjectKind::Program,
        macho::MH_DYLIB | macho::MH_BUNDLE => ObjectKind::Library,
        macho::MH_OBJECT => {
            return Err(UnreadableObject::Foreign(
                "an object file: inspect the program that it is linked into",
            ));
        }
        _ => return Err(UnreadableObject::Foreign("a Mach-O file that no loader accepts")),
    };
    let mut binary = ObjectFile::new(ObjectFormat::MachO, machine(header.cputype(endian)), kind);
    let mut commands = header.load_commands(endian, data, 0)?;
    while let Some(command) = commands.next()? {
        let text = |at| command.string(endian, at).map(|text| String::from_utf8_lossy(text).into_owned());
        match command.variant()? {
            LoadCommandVariant::Dylib(library) => {
                let when = match command.cmd() {
                    macho::LC_LOAD_WEAK_DYLIB => When::IfThere,
                    macho::LC_LAZY_LOAD_DYLIB => When::FirstCall,
                    _ => When::Start,
                };
                binary
                    .needed
                    .push(NeededObject { when, ..NeededObject::at_start(text(library.dylib.name)?) });
            }
            LoadCommandVariant::IdDylib(library) => binary.name = Some(text(library.dylib.name)?),
            LoadCommandVariant::Rpath(path) => binary.rpath.push(text(path.path)?),
            LoadCommandVariant::BuildVersion(version, _) => {
                if version.platform.get(endian) != macho::PLATFORM_MACOS {
                    return Err(UnreadableObject::Foreign("made for an Apple platform other than macOS"));
                }
                binary.system = dotted(version.minos.get(endian));
            }
            LoadCommandVariant::VersionMin(version) => binary.system = dotted(version.version.get(endian)),
            _ => {}
        }
    }
    Ok(binary)
}

/// A version such as `15.1`; the third number is omitted if it is zero.
fn dotted(version: macho::Version) -> Option<gpubuild_core::version::Version> {
    let text = format!("{}.{}", version.major(), version.minor());
    match version.update() {
        0 => text.parse().ok(),
        update => format!("{text}.{update}").parse().ok(),
    }
}

fn machine(number: macho::CpuType) -> ObjectMachine {
    let (name, wide) = match number {
        macho::CPU_TYPE_X86_64 => ("x86_64", true),
        macho::CPU_TYPE_ARM64 => ("aarch64", true),
        macho::CPU_TYPE_X86 => ("i386", false),
        macho::CPU_TYPE_POWERPC => ("powerpc", false),
        _ => ("another processor", true),
    };
    ObjectMachine { name, wide, number: number.0 }
}
