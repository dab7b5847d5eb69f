//! Reads PE files: imports of Windows executables and DLLs. Only headers and import directories are read.

use std::cell::Cell;

use gpubuild_detect::toolkit::libraries;
use object::LittleEndian;
use object::pe::{self, ImageDosHeader, ImageNtHeaders32, ImageNtHeaders64};
use object::read::pe::{ImageNtHeaders, ImageOptionalHeader, SectionTable, optional_header_magic};

use super::bytes::Data;
use super::{
    NeededObject, ObjectFile, ObjectFormat, ObjectKind, ObjectMachine, UnreadableObject, When, device_code,
};

/// The limit of libraries per file.
const MAX_LIBRARIES: u64 = 1 << 10;
/// The limit of functions in all import lists of a file. In a damaged file, many libraries can have the same list.
const MAX_FUNCTIONS: u32 = 1 << 16;

/// Parses a file that starts with `MZ`.
pub(super) fn parse(data: Data<'_, '_>) -> Result<ObjectFile, UnreadableObject> {
    let dos = ImageDosHeader::parse(data)?;
    let at: u64 = dos.nt_headers_offset().into();
    if data.bytes(at, 4).is_none_or(|signature| signature != b"PE\0\0") {
        return Err(UnreadableObject::Foreign("a DOS program, or damaged"));
    }
    match optional_header_magic(data)? {
        pe::IMAGE_NT_OPTIONAL_HDR32_MAGIC => parse_as::<ImageNtHeaders32>(data, at),
        pe::IMAGE_NT_OPTIONAL_HDR64_MAGIC => parse_as::<ImageNtHeaders64>(data, at),
        _ => Err(UnreadableObject::damaged("the optional header has an unknown magic number")),
    }
}

fn parse_as<Pe: ImageNtHeaders>(data: Data<'_, '_>, mut at: u64) -> Result<ObjectFile, UnreadableObject> {
    let (headers, directories) = Pe::parse(data, &mut at)?;
    let sections = headers.sections(data, at)?;
    let file = headers.file_header();
    let machine = machine(file.machine.get(LittleEndian), headers.is_type_64());
    let is_library = file.characteristics.get(LittleEndian).0 & pe::IMAGE_FILE_DLL.0 != 0;
    let kind = if is_library { ObjectKind::Library } else { ObjectKind::Program };
    let mut binary = ObjectFile::new(ObjectFormat::Pe, machine, kind);
    let image = PeImage {
        data,
        sections,
        wide: headers.is_type_64(),
        base: headers.optional_header().image_base(),
        functions_left: Cell::new(MAX_FUNCTIONS),
    };
    let directory = |index| {
        let found = directories.get(index)?;
        let address = found.virtual_address.get(LittleEndian);
        (address != 0).then_some(address)
    };
    if let Some(address) = directory(pe::IMAGE_DIRECTORY_ENTRY_EXPORT) {
        binary.name = image.u32(address, 12).and_then(|name| image.text(name));
    }
    if let Some(address) = directory(pe::IMAGE_DIRECTORY_ENTRY_IMPORT) {
        image.imports(address, &mut binary)?;
    }
    if let Some(address) = directory(pe::IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT) {
        image.delayed(address, &mut binary)?;
    }
    let named: Vec<(String, u64, u64)> = sections
        .iter()
        .map(|section| {
            let name = String::from_utf8_lossy(section.raw_name()).into_owned();
            let (start, size) = section.pe_file_range();
            (name, start.into(), size.into())
        })
        .collect();
    device_code(&mut binary, data, &named);
    Ok(binary)
}

struct PeImage<'a, 'h> {
    data: Data<'a, 'h>,
    sections: SectionTable<'a>,
    wide: bool,
    base: u64,
    functions_left: Cell<u32>,
}

impl PeImage<'_, '_> {
    /// The file offset of a relative virtual address plus `inside`.
    fn offset(&self, address: u32, inside: u64) -> Option<u64> {
        let (start, _) = self.sections.pe_file_range_at(address)?;
        u64::from(start).checked_add(inside)
    }

    fn u32(&self, address: u32, inside: u64) -> Option<u32> {
        self.data.u32(self.offset(address, inside)?)
    }

    fn text(&self, address: u32) -> Option<String> {
        self.data.text(self.offset(address, 0)?)
    }

    /// Reads the import directory: records of five 32-bit fields, with the lookup table first and the name fourth.
    fn imports(&self, address: u32, binary: &mut ObjectFile) -> Result<(), UnreadableObject> {
        let start = self.offset(address, 0).ok_or_else(outside)?;
        for index in 0..MAX_LIBRARIES {
            let record = |field: u64| self.data.u32(start + index * 20 + field * 4);
            let (Some(lookup), Some(name), Some(table)) = (record(0), record(3), record(4)) else {
                return Err(outside());
            };
            if name == 0 || (lookup == 0 && table == 0) {
                return Ok(());
            }
            let name = self.text(name).filter(|name| is_name(name)).ok_or_else(outside)?;
            let functions = self.functions(&name, if lookup == 0 { table } else { lookup });
            binary.needed.push(NeededObject { functions, ..NeededObject::at_start(name) });
        }
        Err(UnreadableObject::damaged("the import directory has no end"))
    }

    /// Reads the delay-load directory: records of eight 32-bit fields. Old linkers wrote absolute virtual addresses.
    fn delayed(&self, address: u32, binary: &mut ObjectFile) -> Result<(), UnreadableObject> {
        let start = self.offset(address, 0).ok_or_else(outside)?;
        for index in 0..MAX_LIBRARIES {
            let record = |field: u64| self.data.u32(start + index * 32 + field * 4);
            let (Some(attributes), Some(name), Some(names)) = (record(0), record(1), record(4)) else {
                return Err(outside());
            };
            if name == 0 {
                return Ok(());
            }
            let relative = |value: u32| match attributes & 1 {
                0 => u64::from(value).checked_sub(self.base).and_then(|value| u32::try_from(value).ok()),
                _ => Some(value),
            };
            let text = relative(name).and_then(|name| self.text(name)).filter(|name| is_name(name));
            let name = text.ok_or_else(outside)?;
            let functions = relative(names).map_or_else(Vec::new, |names| self.functions(&name, names));
            binary.needed.push(NeededObject {
                functions,
                when: When::FirstCall,
                ..NeededObject::at_start(name)
            });
        }
        Err(UnreadableObject::damaged("the delay-load directory has no end"))
    }

    /// The functions imported by name; empty for libraries other than GPU drivers.
    fn functions(&self, library: &str, list: u32) -> Vec<String> {
        let mut functions = Vec::new();
        let Some(start) = self.offset(list, 0).filter(|_| libraries::is_driver(library)) else {
            return functions;
        };
        for index in 0.. {
            let Some(left) = self.functions_left.get().checked_sub(1) else { break };
            self.functions_left.set(left);
            let (entry, by_ordinal) = if self.wide {
                (self.data.u64(start + index * 8), 1 << 63)
            } else {
                (self.data.u32(start + index * 4).map(u64::from), 1 << 31)
            };
            match entry {
                None | Some(0) => break,
                Some(entry) if entry & by_ordinal != 0 => {}
                Some(entry) => {
                    // A two-byte hint precedes the name.
                    let name = u32::try_from(entry).ok().and_then(|at| self.offset(at, 2));
                    functions.extend(name.and_then(|at| self.data.text(at)));
                }
            }
        }
        functions.retain(|name| libraries::is_driver_function(name));
        functions
    }
}

fn outside() -> UnreadableObject {
    UnreadableObject::damaged("the imports are outside the file")
}

/// Whether Windows accepts a text as the name of a library.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 260 && !name.chars().any(char::is_control)
}

fn machine(number: pe::Machine, wide: bool) -> ObjectMachine {
    let name = match number {
        pe::IMAGE_FILE_MACHINE_AMD64 => "x86_64",
        pe::IMAGE_FILE_MACHINE_ARM64 => "aarch64",
        pe::IMAGE_FILE_MACHINE_I386 => "i386",
        pe::IMAGE_FILE_MACHINE_ARMNT => "arm",
        _ => "another processor",
    };
    ObjectMachine { name, wide, number: u32::from(number.0) }
}
