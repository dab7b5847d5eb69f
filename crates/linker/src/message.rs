//! Creates static libraries that make a linker print a message. Their object files have one section and one symbol, whose name is the
//! message. The formats follow the ELF specification, Microsoft's PE/COFF specification and Apple's `mach-o/loader.h`.

/// Creates a static library with a number of object files that all define a symbol whose name is the message. A linker that links two
/// of these object files reports a duplicate symbol, and so prints the message, before it reports undefined functions.
///
/// `os` and `arch` are cargo's names for the target: `linux`, `x86_64`. For unknown targets, x86-64 objects are created, about which the
/// linker prints an error as well.
#[must_use]
pub fn library(message: &str, objects: usize, os: &str, arch: &str) -> Vec<u8> {
    let object = object(message.as_bytes(), os, arch);
    let mut bytes = b"!<arch>\n".to_vec();
    for number in 1..=objects {
        // In GNU and Microsoft archives, names end with a slash. Apple's tools treat it as part of the name.
        let name = format!("{number}.o{}", if is_apple(os) { "" } else { "/" });
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, object.len());
        bytes.extend(header.as_bytes());
        bytes.extend(&object);
        if object.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

fn is_apple(os: &str) -> bool {
    matches!(os, "macos" | "ios" | "tvos" | "watchos" | "visionos")
}

/// Creates an object file in which `symbol` is one byte of data.
fn object(symbol: &[u8], os: &str, arch: &str) -> Vec<u8> {
    match os {
        "windows" => coff(symbol, arch),
        os if is_apple(os) => mach_o(symbol, arch),
        _ => elf(symbol, arch),
    }
}

/// A file under construction, with the word size and byte order of the target.
struct MessageImage {
    bytes: Vec<u8>,
    is_big: bool,
    is_64: bool,
}

impl MessageImage {
    fn new(is_big: bool, is_64: bool) -> Self {
        Self { bytes: Vec::new(), is_big, is_64 }
    }

    fn put(&mut self, little: &[u8]) {
        if self.is_big {
            self.bytes.extend(little.iter().rev());
        } else {
            self.bytes.extend(little);
        }
    }

    fn u16s(&mut self, values: &[u16]) {
        for value in values {
            self.put(&value.to_le_bytes());
        }
    }

    fn u32s(&mut self, values: &[u32]) {
        for value in values {
            self.put(&value.to_le_bytes());
        }
    }

    /// Appends numbers with the size of an address.
    fn addresses(&mut self, values: &[u32]) {
        for value in values {
            if self.is_64 { self.put(&u64::from(*value).to_le_bytes()) } else { self.u32s(&[*value]) }
        }
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

/// A length as a 32-bit number. Messages are short, so no offset exceeds 32 bits.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Section names of the ELF file.
const NAMES: &[u8] = b"\0.data\0.symtab\0.strtab\0.shstrtab\0";

fn elf(symbol: &[u8], arch: &str) -> Vec<u8> {
    let (machine, is_64, is_big) = match arch {
        "x86" => (3, false, false),
        "arm" => (40, false, false),
        "powerpc64" => (21, true, true),
        "s390x" => (22, true, true),
        "aarch64" => (183, true, false),
        "riscv64" => (243, true, false),
        "loongarch64" => (258, true, false),
        _ => (62, true, false),
    };
    let mut image = MessageImage::new(is_big, is_64);
    let (header, section, entry): (u16, u16, u32) = if is_64 { (64, 64, 24) } else { (52, 40, 16) };
    let data = u32::from(header);
    let strings = data + 1;
    let strings_size = length(symbol) + 2;
    let names = strings + strings_size;
    let symbols = (names + length(NAMES)).next_multiple_of(8);
    let sections = (symbols + 2 * entry).next_multiple_of(8);

    // File header: class, byte order and version; a relocatable file with five sections, no entry point and no program headers.
    image.bytes.extend([0x7f, b'E', b'L', b'F', if is_64 { 2 } else { 1 }, if is_big { 2 } else { 1 }, 1]);
    image.bytes.extend([0; 9]);
    image.u16s(&[1, machine]);
    image.u32s(&[1]);
    image.addresses(&[0, 0, sections]);
    image.u32s(&[0]);
    image.u16s(&[header, 0, 0, section, 5, 4]);
    image.bytes.push(0);
    image.bytes.push(0);
    image.bytes.extend(symbol);
    image.bytes.push(0);
    image.bytes.extend(NAMES);
    image.align();
    image.bytes.resize(image.bytes.len() + entry as usize, 0);
    // Symbol: a global object of one byte at the start of section 1.
    image.u32s(&[1]);
    if !is_64 {
        image.u32s(&[0, 1]);
    }
    image.bytes.extend([0x11, 0]);
    image.u16s(&[1]);
    if is_64 {
        image.addresses(&[0, 1]);
    }
    image.align();
    // Section header: name, type, flags, address, offset, size, link, info, alignment, entry size.
    let mut row = |head: [u32; 2], middle: [u32; 4], link: [u32; 2], last: [u32; 2]| {
        image.u32s(&head);
        image.addresses(&middle);
        image.u32s(&link);
        image.addresses(&last);
    };
    row([0, 0], [0; 4], [0, 0], [0, 0]);
    row([1, 1], [3, 0, data, 1], [0, 0], [1, 0]);
    row([7, 2], [0, 0, symbols, 2 * entry], [3, 1], [8, entry]);
    row([15, 3], [0, 0, strings, strings_size], [0, 0], [1, 0]);
    row([23, 3], [0, 0, names, length(NAMES)], [0, 0], [1, 0]);
    image.bytes
}

fn coff(symbol: &[u8], arch: &str) -> Vec<u8> {
    let machine = match arch {
        "x86" => 0x14c,
        "arm" => 0x1c4,
        "aarch64" => 0xaa64,
        _ => 0x8664,
    };
    let mut image = MessageImage::new(false, true);
    let data = 20 + 40;
    // File header: one section, no timestamp, the symbol table after the data, one symbol.
    image.u16s(&[machine, 1]);
    image.u32s(&[0, data + 1, 1]);
    image.u16s(&[0, 0]);
    image.bytes.extend(b".data\0\0\0");
    image.u32s(&[0, 0, 1, data, 0, 0, 0]);
    // Section flags: initialized, readable, writable, aligned to one byte.
    image.u32s(&[0xc010_0040]);
    image.bytes.push(0);
    // Symbol: a name in the string table; external, at the start of section 1.
    image.u32s(&[0, 4, 0]);
    image.u16s(&[1, 0]);
    image.bytes.extend([2, 0]);
    image.u32s(&[4 + length(symbol) + 1]);
    image.bytes.extend(symbol);
    image.bytes.push(0);
    image.bytes
}

fn mach_o(symbol: &[u8], arch: &str) -> Vec<u8> {
    let (machine, kind) = if arch == "x86_64" { (0x0100_0007, 3) } else { (0x0100_000c, 0) };
    let mut image = MessageImage::new(false, true);
    let (header, segment, table) = (32, 72 + 80, 24);
    let data = header + segment + table;
    let symbols = data + 8;
    let strings = symbols + 16;
    image.u32s(&[0xfeed_facf, machine, kind, 1, 2, segment + table, 0, 0]);
    // LC_SEGMENT_64 with one section; readable, writable and executable, as compilers write it.
    image.u32s(&[0x19, segment]);
    image.bytes.extend([0; 16]);
    image.addresses(&[0, 1, data, 1]);
    image.u32s(&[7, 7, 1, 0]);
    image.bytes.extend(b"__data\0\0\0\0\0\0\0\0\0\0__DATA\0\0\0\0\0\0\0\0\0\0");
    image.addresses(&[0, 1]);
    image.u32s(&[data, 0, 0, 0, 0, 0, 0, 0]);
    // LC_SYMTAB. Symbol names start with an underscore.
    image.u32s(&[2, table, symbols, 1, strings, length(symbol) + 3]);
    image.bytes.extend([0; 8]);
    // Symbol: global, at the start of section 1.
    image.u32s(&[1]);
    image.bytes.extend([0x0f, 1, 0, 0]);
    image.addresses(&[0]);
    image.bytes.extend(b"\0_");
    image.bytes.extend(symbol);
    image.bytes.push(0);
    image.bytes
}

#[cfg(test)]
mod tests {
    use object::read::archive::ArchiveFile;
    use object::{Object as _, ObjectSymbol};

    use super::*;

    #[test]
    fn every_object_defines_the_message_on_all_targets() {
        for (os, arch) in [
            ("linux", "x86_64"),
            ("linux", "aarch64"),
            ("linux", "arm"),
            ("linux", "x86"),
            ("linux", "s390x"),
            ("linux", "riscv64"),
            ("windows", "x86_64"),
            ("windows", "aarch64"),
            ("macos", "aarch64"),
            ("macos", "x86_64"),
        ] {
            let bytes = library("\n  help: do\n", 2, os, arch);
            let archive = ArchiveFile::parse(bytes.as_slice()).unwrap();
            let mut defined = Vec::new();
            for member in archive.members() {
                let object = object::File::parse(member.unwrap().data(bytes.as_slice()).unwrap()).unwrap();
                let names = object.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition());
                defined.extend(names.map(|symbol| symbol.name().unwrap().trim_start_matches('_').to_owned()));
            }
            assert_eq!(defined, ["\n  help: do\n", "\n  help: do\n"], "{os} {arch}");
        }
    }
}
