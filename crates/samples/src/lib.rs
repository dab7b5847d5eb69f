//! Creates minimal executables and libraries for tests on any machine. They contain the parts of each format that loaders read.
#![expect(missing_docs, reason = "names are those of the file formats")]
#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "only used in tests, with small numbers")]

pub mod random;

/// An ELF file under construction.
#[derive(Debug, Clone)]
pub struct Elf {
    pub wide: bool,
    pub machine: u16,
    pub kind: u16,
    pub interpreter: Option<&'static str>,
    pub name: Option<&'static str>,
    pub needed: Vec<&'static str>,
    pub rpath: Option<&'static str>,
    pub runpath: Option<&'static str>,
    pub version_needs: Vec<(&'static str, Vec<&'static str>)>,
    pub version_definitions: Vec<&'static str>,
    pub imports: Vec<&'static str>,
    pub exports: Vec<&'static str>,
    pub sections: Vec<(&'static str, Vec<u8>)>,
}

impl Elf {
    /// Creates a library for x86-64.
    #[must_use]
    pub fn library(name: &'static str) -> Self {
        Self {
            wide: true,
            machine: 62,
            kind: 3,
            interpreter: None,
            name: Some(name).filter(|name| !name.is_empty()),
            needed: Vec::new(),
            rpath: None,
            runpath: None,
            version_needs: Vec::new(),
            version_definitions: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Creates a program for x86-64 and glibc.
    #[must_use]
    pub fn program() -> Self {
        Self { interpreter: Some("/lib64/ld-linux-x86-64.so.2"), ..Self::library("") }
    }

    #[must_use]
    pub fn needed(mut self, names: &[&'static str]) -> Self {
        self.needed.extend(names);
        self
    }

    #[must_use]
    pub fn runpath(self, folders: &'static str) -> Self {
        Self { runpath: Some(folders), ..self }
    }

    #[must_use]
    pub fn rpath(self, folders: &'static str) -> Self {
        Self { rpath: Some(folders), ..self }
    }

    #[must_use]
    pub fn version_needs(mut self, library: &'static str, versions: &[&'static str]) -> Self {
        self.version_needs.push((library, versions.to_vec()));
        self
    }

    #[must_use]
    pub fn version_definitions(mut self, versions: &[&'static str]) -> Self {
        self.version_definitions.extend(versions);
        self
    }

    #[must_use]
    pub fn section(mut self, name: &'static str, bytes: Vec<u8>) -> Self {
        self.sections.push((name, bytes));
        self
    }

    #[must_use]
    pub fn imports(self, names: &[&'static str]) -> Self {
        Self { imports: names.to_vec(), ..self }
    }

    #[must_use]
    pub fn exports(self, names: &[&'static str]) -> Self {
        Self { exports: names.to_vec(), ..self }
    }

    /// Writes the file: header, segments, tables, sections.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        const BASE: u64 = 0x40_0000;
        let mut names = Strings::default();
        let segments = 2 + u64::from(self.interpreter.is_some());
        let (head, segment, section) = if self.wide { (64, 56, 64) } else { (52, 32, 40) };
        let mut body =
            ElfBody { wide: self.wide, bytes: vec![0; usize::try_from(head + segments * segment).unwrap()] };
        let interpreter = self.interpreter.map(|path| body.append(&[path.as_bytes(), &[0]].concat()));
        let version_needs = self.version_needs_table(&mut names);
        let version_definitions = self.version_definitions_table(&mut names);
        let symbols = self.symbol_table(&mut names);
        let needed: Vec<u64> = self.needed.iter().map(|name| names.add(name)).collect();
        let name = self.name.map(|name| names.add(name));
        let rpath = self.rpath.map(|path| names.add(path));
        let runpath = self.runpath.map(|path| names.add(path));
        let strings = body.append(&names.bytes);
        let version_needs_at = body.append(&version_needs);
        let version_definitions_at = body.append(&version_definitions);
        let symbols_at = body.append(&symbols);
        let mut tags: Vec<(u64, u64)> = needed.iter().map(|at| (1, *at)).collect();
        tags.extend(name.map(|at| (14, at)));
        tags.extend(rpath.map(|at| (15, at)));
        tags.extend(runpath.map(|at| (29, at)));
        tags.extend([(5, BASE + strings), (10, names.bytes.len() as u64)]);
        if !self.version_needs.is_empty() {
            tags.extend([
                (0x6fff_fffe, BASE + version_needs_at),
                (0x6fff_ffff, self.version_needs.len() as u64),
            ]);
        }
        if !self.version_definitions.is_empty() {
            tags.extend([
                (0x6fff_fffc, BASE + version_definitions_at),
                (0x6fff_fffd, self.version_definitions.len() as u64),
            ]);
        }
        tags.push((0, 0));
        let dynamic: Vec<u8> =
            tags.iter().flat_map(|(tag, value)| [body.word(*tag), body.word(*value)].concat()).collect();
        let dynamic_at = body.append(&dynamic);
        let placed: Vec<(&str, u64, u64)> = self
            .sections
            .iter()
            .map(|(name, bytes)| (*name, body.append(bytes), bytes.len() as u64))
            .collect();
        let mut section_names = Strings::default();
        let mut table = vec![0; section];
        let mut add = |name: &str, kind: u32, at: u64, size: u64, link: u32, entry: u64| {
            let name = u32::try_from(section_names.add(name)).unwrap();
            table.extend(body.section_header([name, kind, link], [at, size, entry]));
        };
        add(".dynstr", 3, strings, names.bytes.len() as u64, 0, 0);
        add(".dynsym", 11, symbols_at, symbols.len() as u64, 1, if self.wide { 24 } else { 16 });
        for (name, at, size) in &placed {
            add(name, 1, *at, *size, 0, 0);
        }
        let count = 4 + placed.len();
        let own = section_names.add(".shstrtab");
        let names_at = body.append(&section_names.bytes);
        let header = body.section_header(
            [u32::try_from(own).unwrap(), 3, 0],
            [names_at, section_names.bytes.len() as u64, 0],
        );
        table.extend(header);
        let table_at = body.append(&table);
        let size = body.bytes.len() as u64;
        let mut start = body.elf_header(self, segments, table_at, count);
        start.extend(body.segment(1, 0, BASE, size));
        start.extend(body.segment(2, dynamic_at, BASE + dynamic_at, dynamic.len() as u64));
        if let (Some(at), Some(path)) = (interpreter, self.interpreter) {
            start.extend(body.segment(3, at, BASE + at, path.len() as u64 + 1));
        }
        body.bytes[..start.len()].copy_from_slice(&start);
        body.bytes
    }

    fn version_needs_table(&self, names: &mut Strings) -> Vec<u8> {
        let mut table = Vec::new();
        for (index, (library, versions)) in self.version_needs.iter().enumerate() {
            let size = 16 + 16 * versions.len();
            let next = if index + 1 == self.version_needs.len() { 0 } else { size };
            table.extend(
                [1_u16, u16::try_from(versions.len()).unwrap()].iter().flat_map(|one| one.to_le_bytes()),
            );
            let numbers = [names.add(library), 16, next as u64];
            table.extend(numbers.iter().flat_map(|one| u32::try_from(*one).unwrap().to_le_bytes()));
            for (index, version) in versions.iter().enumerate() {
                let next = if index + 1 == versions.len() { 0_u32 } else { 16 };
                table.extend([0; 8]);
                table.extend(u32::try_from(names.add(version)).unwrap().to_le_bytes());
                table.extend(next.to_le_bytes());
            }
        }
        table
    }

    fn version_definitions_table(&self, names: &mut Strings) -> Vec<u8> {
        let mut table = Vec::new();
        for (index, version) in self.version_definitions.iter().enumerate() {
            let next = if index + 1 == self.version_definitions.len() { 0_u32 } else { 28 };
            // Verdef: version, flags, index, count, hash, offset of the name, next entry. Verdaux: name, next name.
            table.extend([1_u16, 0, 2, 1].iter().flat_map(|one| one.to_le_bytes()));
            table.extend([0, 20, next].iter().flat_map(|one| one.to_le_bytes()));
            table.extend(u32::try_from(names.add(version)).unwrap().to_le_bytes());
            table.extend([0; 4]);
        }
        table
    }

    fn symbol_table(&self, names: &mut Strings) -> Vec<u8> {
        let size = if self.wide { 24 } else { 16 };
        let mut table = vec![0; size];
        let imports = self.imports.iter().map(|name| (*name, 0_u16));
        for (name, section) in imports.chain(self.exports.iter().map(|name| (*name, 1))) {
            let name = u32::try_from(names.add(name)).unwrap().to_le_bytes();
            let kind = [0x12, 0];
            if self.wide {
                table.extend([&name[..], &kind, &section.to_le_bytes(), &[0; 16]].concat());
            } else {
                table.extend([&name[..], &[0; 8], &kind, &section.to_le_bytes()].concat());
            }
        }
        table
    }
}

struct ElfBody {
    wide: bool,
    bytes: Vec<u8>,
}

impl ElfBody {
    fn append(&mut self, bytes: &[u8]) -> u64 {
        while !self.bytes.len().is_multiple_of(16) {
            self.bytes.push(0);
        }
        let at = self.bytes.len() as u64;
        self.bytes.extend(bytes);
        at
    }

    fn word(&self, value: u64) -> Vec<u8> {
        if self.wide {
            value.to_le_bytes().to_vec()
        } else {
            u32::try_from(value).unwrap().to_le_bytes().to_vec()
        }
    }

    fn elf_header(&self, elf: &Elf, segments: u64, table: u64, sections: usize) -> Vec<u8> {
        let (head, segment, section) = if self.wide { (64_u16, 56_u16, 64_u16) } else { (52, 32, 40) };
        let mut header = b"\x7fELF".to_vec();
        header.extend([if self.wide { 2 } else { 1 }, 1, 1]);
        header.resize(16, 0);
        header.extend([elf.kind, elf.machine].iter().flat_map(|one| one.to_le_bytes()));
        header.extend(1_u32.to_le_bytes());
        header.extend([self.word(0), self.word(head.into()), self.word(table)].concat());
        header.extend([0; 4]);
        let count = u16::try_from(sections).unwrap();
        let numbers = [head, segment, u16::try_from(segments).unwrap(), section, count, count - 1];
        header.extend(numbers.iter().flat_map(|one| one.to_le_bytes()));
        header
    }

    fn segment(&self, kind: u32, offset: u64, address: u64, size: u64) -> Vec<u8> {
        let flags = 5_u32.to_le_bytes();
        let kind = kind.to_le_bytes();
        let words = [offset, address, address, size, size].map(|value| self.word(value)).concat();
        let align = self.word(1);
        if self.wide {
            [&kind[..], &flags, &words, &align].concat()
        } else {
            [&kind[..], &words, &flags, &align].concat()
        }
    }

    /// Arguments: name, type and link; offset, size and entry size.
    fn section_header(&self, [name, kind, link]: [u32; 3], [at, size, entry]: [u64; 3]) -> Vec<u8> {
        let mut header = [name.to_le_bytes(), kind.to_le_bytes()].concat();
        header.extend([0, 0, at, size].map(|value| self.word(value)).concat());
        header.extend([link.to_le_bytes(), [0; 4]].concat());
        header.extend([1, entry].map(|value| self.word(value)).concat());
        header
    }
}

/// A string table. The first string is empty.
struct Strings {
    bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { bytes: vec![0] }
    }
}

impl Strings {
    fn add(&mut self, text: &str) -> u64 {
        let at = self.bytes.len() as u64;
        self.bytes.extend(text.as_bytes());
        self.bytes.push(0);
        at
    }
}

/// An entry of a CUDA fat binary: kind, architecture, version, flags.
pub type SampleSection = (u16, u32, (u16, u16), u64);

/// Creates a section with CUDA fat binaries, one container per list.
#[must_use]
pub fn fat_binary(containers: &[&[SampleSection]]) -> Vec<u8> {
    let mut section = Vec::new();
    for entries in containers {
        let mut body = Vec::new();
        for (kind, arch, (major, minor), flags) in *entries {
            let content = [0xaa; 40];
            body.extend([kind.to_le_bytes(), 0x0101_u16.to_le_bytes()].concat());
            body.extend(64_u32.to_le_bytes());
            body.extend((content.len() as u64).to_le_bytes());
            body.extend([0; 8]);
            body.extend([minor.to_le_bytes(), major.to_le_bytes()].concat());
            body.extend(arch.to_le_bytes());
            body.extend([0; 8]);
            body.extend(flags.to_le_bytes());
            body.extend([0; 16]);
            body.extend(content);
        }
        section.extend(0xBA55_ED50_u32.to_le_bytes());
        section.extend([1_u16.to_le_bytes(), 16_u16.to_le_bytes()].concat());
        section.extend((body.len() as u64).to_le_bytes());
        section.extend(body);
        section.extend([0; 24]);
    }
    section
}

/// A fat binary entry with CUDA 12 machine code for an architecture.
#[must_use]
pub fn sass(arch: u32) -> SampleSection {
    (2, arch, (1, 7), 0x11)
}

/// A fat binary entry with PTX of a language version for an architecture.
#[must_use]
pub fn ptx(arch: u32, version: (u16, u16)) -> SampleSection {
    (1, arch, version, 0x8011)
}

/// Creates a section with HIP bundles, one per list of targets.
#[must_use]
pub fn bundles(bundles: &[&[&str]]) -> Vec<u8> {
    let mut section: Vec<u8> = Vec::new();
    for targets in bundles {
        while !section.len().is_multiple_of(4096) {
            section.push(0);
        }
        section.extend(b"__CLANG_OFFLOAD_BUNDLE__");
        section.extend((targets.len() as u64).to_le_bytes());
        for target in *targets {
            section.extend(4096_u64.to_le_bytes());
            section.extend(100_u64.to_le_bytes());
            section.extend((target.len() as u64).to_le_bytes());
            section.extend(target.as_bytes());
        }
        while !section.len().is_multiple_of(4096) {
            section.push(0);
        }
        section.extend([0x55; 100]);
    }
    section
}

/// Creates a 64-bit PE file with imports, delay-loaded imports (libraries and their functions) and sections.
pub fn pe(
    machine: u16,
    is_library: bool,
    imports: &[(&str, &[&str])],
    delayed: &[(&str, &[&str])],
    sections: &[(&str, Vec<u8>)],
) -> Vec<u8> {
    const AT: u32 = 0x1000;
    const FILE: usize = 0x400;
    let mut data: Vec<u8> = vec![0; 20 * (imports.len() + 1)];
    let delay_at = data.len();
    data.resize(delay_at + 32 * (delayed.len() + 1), 0);
    let add = |data: &mut Vec<u8>, bytes: &[u8]| {
        let at = AT + u32::try_from(data.len()).unwrap();
        data.extend(bytes);
        at
    };
    let table = |data: &mut Vec<u8>, functions: &[&str]| {
        let names: Vec<u32> =
            functions.iter().map(|name| add(data, &[&[0, 0], name.as_bytes(), &[0]].concat())).collect();
        let mut entries: Vec<u8> = names.iter().flat_map(|name| u64::from(*name).to_le_bytes()).collect();
        // Every library has an additional import by ordinal.
        entries.extend((1_u64 << 63 | 7).to_le_bytes());
        entries.extend([0; 8]);
        add(data, &entries)
    };
    for (index, (name, functions)) in imports.iter().enumerate() {
        let lookup = table(&mut data, functions);
        let name = add(&mut data, &[name.as_bytes(), &[0]].concat());
        let record = [lookup, 0, 0, name, lookup].map(u32::to_le_bytes).concat();
        data[20 * index..20 * (index + 1)].copy_from_slice(&record);
    }
    for (index, (name, functions)) in delayed.iter().enumerate() {
        let lookup = table(&mut data, functions);
        let name = add(&mut data, &[name.as_bytes(), &[0]].concat());
        let record = [1, name, 0, 0, lookup, 0, 0, 0].map(u32::to_le_bytes).concat();
        data[delay_at + 32 * index..delay_at + 32 * (index + 1)].copy_from_slice(&record);
    }
    let mut file = b"MZ".to_vec();
    file.resize(60, 0);
    file.extend(64_u32.to_le_bytes());
    file.extend(b"PE\0\0");
    let count = u16::try_from(1 + sections.len()).unwrap();
    let characteristics = if is_library { 0x2022_u16 } else { 0x22 };
    file.extend([machine, count].map(u16::to_le_bytes).concat());
    file.extend([0; 12]);
    file.extend([240, characteristics].map(u16::to_le_bytes).concat());
    let mut optional = vec![0; 112];
    optional[..2].copy_from_slice(&0x20b_u16.to_le_bytes());
    optional[24..32].copy_from_slice(&0x1_4000_0000_u64.to_le_bytes());
    optional[108..112].copy_from_slice(&16_u32.to_le_bytes());
    let mut directories = [[0_u32; 2]; 16];
    directories[1] = [AT, u32::try_from(20 * (imports.len() + 1)).unwrap()];
    if !delayed.is_empty() {
        directories[13] = [AT + u32::try_from(delay_at).unwrap(), 32];
    }
    optional.extend(directories.concat().iter().flat_map(|one| one.to_le_bytes()));
    file.extend(optional);
    let mut content: Vec<u8> = Vec::new();
    let mut address = AT;
    for (name, bytes) in [(".rdata", data)].iter().chain(sections) {
        let mut label = name.as_bytes().to_vec();
        label.resize(8, 0);
        let size = u32::try_from(bytes.len()).unwrap();
        let place = u32::try_from(FILE + content.len()).unwrap();
        file.extend(label);
        file.extend([size, address, size, place, 0, 0, 0, 0x4000_0040].map(u32::to_le_bytes).concat());
        content.extend(bytes);
        address += size.next_multiple_of(0x1000);
    }
    file.resize(FILE, 0);
    file.extend(content);
    file
}

/// Creates a Mach-O file with libraries (name, whether weak), rpaths and a minimum macOS version.
pub fn mach_o(
    processor: u32,
    kind: u32,
    libraries: &[(&str, bool)],
    rpaths: &[&str],
    system: (u16, u8),
) -> Vec<u8> {
    let mut commands: Vec<Vec<u8>> = Vec::new();
    let text = |command: u32, fixed: &[u32], text: &str| {
        let start = 8 + 4 * (u32::try_from(fixed.len()).unwrap() + 1);
        let size = (start + u32::try_from(text.len()).unwrap() + 1).next_multiple_of(8);
        let mut bytes = [command, size, start].map(u32::to_le_bytes).concat();
        bytes.extend(fixed.iter().flat_map(|one| one.to_le_bytes()));
        bytes.extend(text.as_bytes());
        bytes.resize(size as usize, 0);
        bytes
    };
    for (name, weak) in libraries {
        commands.push(text(if *weak { 0x8000_0018 } else { 0xc }, &[2, 0x1_0000, 0x1_0000], name));
    }
    for rpath in rpaths {
        commands.push(text(0x8000_001c, &[], rpath));
    }
    let version = u32::from(system.0) << 16 | u32::from(system.1) << 8;
    commands.push([0x32, 24, 1, version, version, 0].map(u32::to_le_bytes).concat());
    let size = u32::try_from(commands.iter().map(Vec::len).sum::<usize>()).unwrap();
    let count = u32::try_from(commands.len()).unwrap();
    let mut file = [0xfeed_facf, processor, 0, kind, count, size, 0, 0].map(u32::to_le_bytes).concat();
    file.extend(commands.concat());
    file
}

/// Creates a universal binary from several Mach-O files (CPU type, content).
pub fn universal(parts: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = [0xcafe_babe, u32::try_from(parts.len()).unwrap()].map(u32::to_be_bytes).concat();
    let mut content = Vec::new();
    for (processor, bytes) in parts {
        let place = 4096 + u32::try_from(content.len()).unwrap();
        let size = u32::try_from(bytes.len()).unwrap();
        file.extend([*processor, 0, place, size, 12].map(u32::to_be_bytes).concat());
        content.extend(bytes);
        content.resize(content.len().next_multiple_of(4096), 0);
    }
    file.resize(4096, 0);
    file.extend(content);
    file
}
