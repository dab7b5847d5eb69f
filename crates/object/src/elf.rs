//! Reads ELF files: dependencies and symbol versions, from the program headers as the loader does.

use gpubuild_detect::toolkit::libraries;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadRef};

use super::bytes::Data;
use super::{
    NeededObject, ObjectFile, ObjectFormat, ObjectKind, ObjectMachine, UnreadableObject, device_code,
};

/// The limit of entries in a version table.
const MAX_VERSIONS: usize = 1 << 16;
/// The limit of libraries that one file depends on.
const MAX_LIBRARIES: usize = 1 << 10;
/// The limit of folders in a search path. Each library is searched in each folder.
const MAX_FOLDERS: usize = 1 << 8;

/// Parses a file that starts with ELF's magic number.
pub(super) fn parse(data: Data<'_, '_>) -> Result<ObjectFile, UnreadableObject> {
    match data.bytes(0, 5).and_then(|start| start.get(4)) {
        Some(1) => ElfFile::<FileHeader32<Endianness>>::open(data)?.binary(),
        Some(2) => ElfFile::<FileHeader64<Endianness>>::open(data)?.binary(),
        _ => Err(UnreadableObject::damaged("the ELF header has no valid class")),
    }
}

struct ElfFile<'a, 'h, Elf: FileHeader> {
    data: Data<'a, 'h>,
    endian: Elf::Endian,
    header: &'a Elf,
    segments: &'a [Elf::ProgramHeader],
    strings: u64,
}

impl<'a, 'h, Elf: FileHeader<Endian = Endianness>> ElfFile<'a, 'h, Elf> {
    fn open(data: Data<'a, 'h>) -> Result<Self, UnreadableObject> {
        let header = Elf::parse(data)?;
        let endian = header.endian()?;
        match header.e_type(endian) {
            elf::ET_EXEC | elf::ET_DYN => {}
            elf::ET_REL => {
                return Err(UnreadableObject::Foreign(
                    "an object file: inspect the program that it is linked into",
                ));
            }
            elf::ET_CORE => return Err(UnreadableObject::Foreign("a core dump")),
            _ => return Err(UnreadableObject::Foreign("an ELF file that no loader accepts")),
        }
        let segments = header.program_headers(endian, data)?;
        Ok(Self { data, endian, header, segments, strings: 0 })
    }

    fn binary(mut self) -> Result<ObjectFile, UnreadableObject> {
        let endian = self.endian;
        let machine = machine(self.header.e_machine(endian), self.header.is_class_64());
        let mut binary = ObjectFile::new(ObjectFormat::Elf, machine, ObjectKind::Library);
        for segment in self.segments {
            // A damaged file can have thousands of segments with the same megabytes.
            if binary.interpreter.is_none()
                && let Some(path) = segment.interpreter(endian, self.data)?
            {
                binary.interpreter = Some(String::from_utf8_lossy(path).into_owned());
            }
        }
        let mut dynamic: &[Elf::Dyn] = &[];
        for segment in self.segments {
            if let Some(table) = segment.dynamic(endian, self.data)? {
                dynamic = table;
            }
        }
        if binary.interpreter.is_some() || self.header.e_type(endian) == elf::ET_EXEC {
            binary.kind = ObjectKind::Program;
        }
        self.read_dynamic(dynamic, &mut binary)?;
        self.read_sections(&mut binary);
        Ok(binary)
    }

    /// The file offset of a virtual address.
    fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().filter(|segment| segment.p_type(self.endian) == elf::PT_LOAD).find_map(
            |segment| {
                let start = segment.p_vaddr(self.endian).into();
                let inside = address.checked_sub(start)?;
                let size: u64 = segment.p_filesz(self.endian).into();
                let offset: u64 = segment.p_offset(self.endian).into();
                (inside < size).then(|| offset.checked_add(inside)).flatten()
            },
        )
    }

    fn string(&self, at: u64) -> Result<String, UnreadableObject> {
        let text = self.strings.checked_add(at).and_then(|at| self.data.text(at));
        text.ok_or_else(|| UnreadableObject::damaged("a name is outside the string table"))
    }

    fn read_dynamic(
        &mut self,
        dynamic: &[Elf::Dyn],
        binary: &mut ObjectFile,
    ) -> Result<(), UnreadableObject> {
        let end = dynamic.iter().position(|entry| entry.tag(self.endian) == elf::DT_NULL);
        let dynamic = &dynamic[..end.unwrap_or(dynamic.len())];
        let find = |wanted| {
            let entry = dynamic.iter().find(|entry| entry.tag(self.endian) == wanted)?;
            Some(entry.val(self.endian))
        };
        let address = |wanted| find(wanted).map(|address| (address, self.offset(address)));
        let (needs, need_count) = (address(elf::DT_VERNEED), find(elf::DT_VERNEEDNUM));
        let (offers, offer_count) = (address(elf::DT_VERDEF), find(elf::DT_VERDEFNUM));
        match address(elf::DT_STRTAB) {
            Some((_, Some(offset))) => self.strings = offset,
            Some((_, None)) => {
                return Err(UnreadableObject::damaged("the string table is outside the file"));
            }
            None => return Ok(()),
        }
        // The last entry counts. A damaged file can have any number of them.
        let (mut name, mut rpath, mut runpath) = (None, None, None);
        for entry in dynamic {
            let value = entry.val(self.endian);
            match entry.tag(self.endian) {
                elf::DT_NEEDED if binary.needed.len() < MAX_LIBRARIES => {
                    binary.needed.push(NeededObject::at_start(self.string(value)?));
                }
                elf::DT_SONAME => name = Some(value),
                elf::DT_RPATH => rpath = Some(value),
                elf::DT_RUNPATH => runpath = Some(value),
                // A static position-independent program has no interpreter.
                elf::DT_FLAGS_1 if value & elf::DF_1_PIE.0 != 0 => binary.kind = ObjectKind::Program,
                _ => {}
            }
        }
        let text = |at: Option<u64>| at.map(|at| self.string(at)).transpose();
        binary.name = text(name)?;
        binary.rpath = text(rpath)?.as_deref().map(folders).unwrap_or_default();
        binary.runpath = text(runpath)?.as_deref().map(folders).unwrap_or_default();
        if !binary.runpath.is_empty() {
            // The loader ignores DT_RPATH if DT_RUNPATH is present.
            binary.rpath.clear();
        }
        if let (Some((_, Some(at))), Some(count)) = (needs, need_count) {
            self.read_needed_versions(at, count, binary);
        }
        if let (Some((_, Some(at))), Some(count)) = (offers, offer_count) {
            self.read_offered_versions(at, count, binary);
        }
        Ok(())
    }

    fn read_needed_versions(&self, mut at: u64, count: u64, binary: &mut ObjectFile) {
        let mut steps = 0;
        for _ in 0..count {
            let Ok(need) = self.data.read_at::<elf::Verneed<Endianness>>(at) else { return };
            let Ok(library) = self.string(need.vn_file.get(self.endian).into()) else { return };
            let mut versions = Vec::new();
            let mut place = at.saturating_add(need.vn_aux.get(self.endian).into());
            for _ in 0..need.vn_cnt.get(self.endian) {
                steps += 1;
                let Ok(one) = self.data.read_at::<elf::Vernaux<Endianness>>(place) else { break };
                let is_weak = one.vna_flags.get(self.endian).0 & elf::VER_FLG_WEAK.0 != 0;
                if let (Ok(name), false) = (self.string(one.vna_name.get(self.endian).into()), is_weak) {
                    versions.push(name);
                }
                let next: u64 = one.vna_next.get(self.endian).into();
                if next == 0 || steps > MAX_VERSIONS {
                    break;
                }
                place = place.saturating_add(next);
            }
            if let Some(needed) = binary.needed.iter_mut().find(|needed| needed.name == library) {
                needed.versions.extend(versions);
            }
            let next: u64 = need.vn_next.get(self.endian).into();
            steps += 1;
            if next == 0 || steps > MAX_VERSIONS {
                return;
            }
            at = at.saturating_add(next);
        }
    }

    fn read_offered_versions(&self, mut at: u64, count: u64, binary: &mut ObjectFile) {
        let most = count.min(MAX_VERSIONS as u64);
        for _ in 0..most {
            let Ok(offer) = self.data.read_at::<elf::Verdef<Endianness>>(at) else { return };
            let name = at.saturating_add(offer.vd_aux.get(self.endian).into());
            let is_base = offer.vd_flags.get(self.endian).0 & elf::VER_FLG_BASE.0 != 0;
            if let (Ok(name), false) = (self.data.read_at::<elf::Verdaux<Endianness>>(name), is_base)
                && let Ok(name) = self.string(name.vda_name.get(self.endian).into())
            {
                binary.offers.push(name);
            }
            let next: u64 = offer.vd_next.get(self.endian).into();
            if next == 0 {
                return;
            }
            at = at.saturating_add(next);
        }
    }

    /// Reads device code and driver functions. Sections are optional, so a file without them is valid.
    fn read_sections(&self, binary: &mut ObjectFile) {
        let Ok(sections) = self.header.sections(self.endian, self.data) else { return };
        let named: Vec<(String, u64, u64)> = sections
            .iter()
            .filter(|section| section.sh_type(self.endian) != elf::SHT_NOBITS)
            .filter_map(|section| {
                let name = sections.section_name(self.endian, section).ok()?;
                let name = String::from_utf8_lossy(name).into_owned();
                Some((name, section.sh_offset(self.endian).into(), section.sh_size(self.endian).into()))
            })
            .collect();
        device_code(binary, self.data, &named);
        let driver = |name: &str| libraries::is_driver(name);
        let is_driver = binary.name.as_deref().is_some_and(driver);
        if !is_driver && !binary.needed.iter().any(|needed| driver(&needed.name)) {
            return;
        }
        let Ok(symbols) = sections.symbols(self.endian, self.data, elf::SHT_DYNSYM) else { return };
        let mut imported = Vec::new();
        for symbol in symbols.iter() {
            use object::read::elf::Sym;
            let Ok(name) = symbol.name(self.endian, symbols.strings()) else { continue };
            let name = String::from_utf8_lossy(name).into_owned();
            if !libraries::is_driver_function(&name) {
                continue;
            }
            match (symbol.is_undefined(self.endian), symbol.st_bind() == elf::STB_WEAK) {
                (true, false) => imported.push(name),
                (false, _) if is_driver => binary.functions.push(name),
                _ => {}
            }
        }
        if let Some(needed) = binary.needed.iter_mut().find(|needed| driver(&needed.name)) {
            needed.functions = imported;
        }
    }
}

/// Splits a search path. Empty entries mean the current folder and are omitted.
fn folders(list: &str) -> Vec<String> {
    list.split(':').filter(|folder| !folder.is_empty()).take(MAX_FOLDERS).map(str::to_owned).collect()
}

fn machine(number: elf::Machine, wide: bool) -> ObjectMachine {
    let name = match (number, wide) {
        (elf::EM_X86_64, true) => "x86_64",
        (elf::EM_X86_64, false) => "x32",
        (elf::EM_AARCH64, _) => "aarch64",
        (elf::EM_386, _) => "i386",
        (elf::EM_ARM, _) => "arm",
        (elf::EM_RISCV, true) => "riscv64",
        (elf::EM_PPC64, _) => "powerpc64",
        (elf::EM_S390, _) => "s390x",
        (elf::EM_LOONGARCH, _) => "loongarch64",
        _ => "another processor",
    };
    ObjectMachine { name, wide, number: u32::from(number.0) }
}
