//! Disassembles machine code and collects the instruction sets that each function uses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::OnceLock;

use gpubuild_core::isa::{self, Processor};
use gpubuild_core::order::SortIndirect as _;
use gpubuild_linker::archive::{ArchiveMember, is_archive, members};
use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind,
};
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, ReadRef, SectionIndex, SectionKind, SymbolFlags,
    SymbolKind,
};

/// How many times its size a section is disassembled if its functions overlap.
const MAX_OVERLAP: usize = 4;
/// `STT_GNU_IFUNC`: the ELF symbol type of a function whose implementation is selected when the program starts.
const IFUNC: u8 = 10;

/// The machine code of an object file, library or program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// The member of the archive that contains the code; `None` outside of archives.
    pub member: Option<String>,
    /// The processor architecture, `x86_64` or `aarch64`; `None` for any other, whose code is not disassembled.
    pub machine: Option<&'static str>,
    /// Functions that use instruction sets beyond the baseline.
    pub functions: Vec<Function>,
    /// Number of functions that use vector registers, which includes scalar floating-point code on x86.
    pub vector: usize,
    /// The first query of the processor's features: a `cpuid` instruction or a symbol.
    pub cpu_query: Option<String>,
    /// Names of the global functions.
    pub global: BTreeSet<String>,
}

/// A function that uses instruction sets beyond the baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// The symbol, or the name of the section if the section has no symbols.
    pub name: String,
    /// The first instruction of each instruction set, by the id of the set.
    pub features: BTreeMap<String, FirstUse>,
    /// Whether the function uses vector registers.
    pub vector: bool,
}

/// The first instruction of a function that uses an instruction set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstUse {
    /// The address; in an object file, the offset in the section.
    pub address: u64,
    /// The instruction in assembler syntax.
    pub text: String,
}

/// Disassembles a file. Returns one entry, or one per object file in an archive.
///
/// # Errors
/// The file is not an archive, object file, library or program.
pub fn read<'data, R: ReadRef<'data>>(data: R) -> Result<Vec<Code>, String> {
    if !is_archive(data) {
        let file = object::File::parse(data).map_err(|error| error.to_string())?;
        return Ok(vec![of_file(&file, data.len().unwrap_or_default(), None)]);
    }
    let mut list = Vec::new();
    for member in members(data)? {
        let ArchiveMember { name, data: part } = member?;
        // Members that are not object files (LTO bytecode, import stubs) contain no machine code yet.
        if let Ok(file) = object::File::parse(part) {
            let name = String::from_utf8_lossy(name).into_owned();
            list.push(of_file(&file, part.size(), Some(name)));
        }
    }
    Ok(list)
}

fn of_file<'data, R: ReadRef<'data>>(
    file: &object::File<'data, R>,
    size: u64,
    member: Option<String>,
) -> Code {
    let machine = match file.architecture() {
        Architecture::X86_64 => Some("x86_64"),
        Architecture::Aarch64 => Some("aarch64"),
        _ => None,
    };
    let mut code = Code { member, machine, ..Code::default() };
    let mut symbols: Vec<_> = file.symbols().collect();
    if symbols.is_empty() {
        symbols = file.dynamic_symbols().collect();
    }
    for symbol in &symbols {
        let Ok(name) = symbol.name() else { continue };
        let is_function = symbol.kind() == SymbolKind::Text;
        let is_ifunc = matches!(symbol.flags(), SymbolFlags::Elf { st_info, .. } if st_info.0 & 15 == IFUNC);
        if is_ifunc || isa::table().is_cpu_query(name.trim_start_matches("__imp_")) {
            code.cpu_query.get_or_insert_with(|| name.to_owned());
        }
        if is_function && symbol.is_global() && symbol.is_definition() {
            code.global.insert(name.to_owned());
        }
    }
    let Some(processor) = machine.and_then(|name| isa::table().processor(name)) else { return code };
    let encodings: Vec<_> = encodings(processor).collect();
    let mut by_section = by_section(&symbols);
    // Sections of a valid file do not overlap. Thousands of overlapping ones would be disassembled again and again.
    let mut left = size;
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        let Ok(bytes) = section.data() else { continue };
        let Some(rest) = left.checked_sub(bytes.len() as u64) else { break };
        left = rest;
        let symbols = by_section.remove(&section.index()).unwrap_or_default();
        let name = section.name().unwrap_or_default();
        let part = CodePart { bytes, start: section.address(), name, encodings: &encodings };
        part.read(machine == Some("x86_64"), symbols, &mut code);
    }
    code
}

/// The symbols of a section with code.
#[derive(Default)]
struct SectionSymbols<'a> {
    /// Address, size and name.
    functions: Vec<(u64, u64, &'a str)>,
    /// Mapping symbols of AArch64: where code (`$x`, true) and data (`$d`) start.
    marks: Vec<(u64, bool)>,
}

/// Objects have as many sections as functions, so all symbols are sorted into their sections at once.
fn by_section<'data, 'a, R: ReadRef<'data>>(
    symbols: &'a [object::Symbol<'data, '_, R>],
) -> HashMap<SectionIndex, SectionSymbols<'a>> {
    let mut sections: HashMap<_, SectionSymbols<'a>> = HashMap::new();
    for symbol in symbols {
        let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) else { continue };
        let section = sections.entry(section).or_default();
        if symbol.kind() == SymbolKind::Text {
            section.functions.push((symbol.address(), symbol.size(), name));
        }
        if name.starts_with("$d") || name.starts_with("$x") {
            section.marks.push((symbol.address(), name.starts_with("$x")));
        }
    }
    sections
}

/// A section with code.
struct CodePart<'a> {
    bytes: &'a [u8],
    start: u64,
    name: &'a str,
    encodings: &'a [(&'a str, u32, u32)],
}

impl<'a> CodePart<'a> {
    fn read(&self, is_x86: bool, symbols: SectionSymbols<'a>, code: &mut Code) {
        let SectionSymbols { mut functions, mut marks } = symbols;
        marks.sort_indirect();
        functions.sort_indirect();
        // Keep one name per address.
        functions.dedup_by_key(|(address, _, _)| *address);
        // Addresses and sizes are those of the file, which may be damaged.
        let end = self.start.saturating_add(self.bytes.len() as u64);
        if functions.is_empty() {
            functions.push((self.start, end - self.start, self.name));
        }
        let mut left = self.bytes.len().saturating_mul(MAX_OVERLAP);
        for (index, (address, size, name)) in functions.iter().enumerate() {
            let next = functions.get(index + 1).map_or(end, |(next, _, _)| *next);
            // COFF symbols have no size, and symbols of assembler files often have size 0.
            let stop = if *size == 0 || left == 0 { next } else { address.saturating_add(*size).min(end) };
            let inside = |at: u64| usize::try_from(at.checked_sub(self.start)?).ok();
            let (Some(from), Some(to)) = (inside(*address), inside(stop)) else { continue };
            let Some(bytes) = self.bytes.get(from..to) else { continue };
            left = left.saturating_sub(bytes.len());
            let mut function =
                Function { name: (*name).to_owned(), features: BTreeMap::new(), vector: false };
            if is_x86 {
                x86(bytes, *address, &mut function, &mut code.cpu_query);
            } else {
                self.aarch64(bytes, *address, &marks, &mut function);
            }
            code.vector += usize::from(function.vector);
            if !function.features.is_empty() {
                code.functions.push(function);
            }
        }
    }

    fn aarch64(&self, bytes: &[u8], address: u64, marks: &[(u64, bool)], function: &mut Function) {
        for (index, word) in bytes.chunks_exact(4).enumerate() {
            let at = address.saturating_add(4 * index as u64);
            let before = marks.partition_point(|(mark, _)| *mark <= at);
            if before > 0 && !marks[before - 1].1 {
                continue;
            }
            let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            for &(id, mask, value) in self.encodings {
                if word & mask == value && !function.features.contains_key(id) {
                    let first = FirstUse { address: at, text: format!(".inst 0x{word:08x}") };
                    function.features.insert(id.to_owned(), first);
                    function.vector = true;
                }
            }
        }
    }
}

/// Encodings of AArch64 instructions: the id of the feature, and the mask and value of the instruction word.
fn encodings(processor: &Processor) -> impl Iterator<Item = (&str, u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    processor.feature.iter().flat_map(move |feature| {
        feature.words.iter().filter_map(move |word| {
            let (mask, value) = word.split_once('/')?;
            Some((feature.id.as_str(), number(mask)?, number(value)?))
        })
    })
}

/// Ids of x86 features, indexed by the feature numbers of the disassembler.
fn feature_ids() -> &'static [Option<&'static str>] {
    static IDS: OnceLock<Vec<Option<&'static str>>> = OnceLock::new();
    IDS.get_or_init(|| {
        let features = isa::table().processor("x86_64").map(|processor| &processor.feature);
        let id = |name: String| {
            features
                .into_iter()
                .flatten()
                .find(|known| known.decoder.contains(&name))
                .map(|known| known.id.as_str())
        };
        CpuidFeature::values().map(|feature| id(format!("{feature:?}"))).collect()
    })
}

fn x86(bytes: &[u8], address: u64, function: &mut Function, cpu_query: &mut Option<String>) {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let is_vector = |operand: u32| {
            instruction.op_kind(operand) == OpKind::Register
                && instruction.op_register(operand).is_vector_register()
        };
        function.vector |= (0..instruction.op_count()).any(is_vector);
        match instruction.mnemonic() {
            Mnemonic::Cpuid => {
                cpu_query.get_or_insert_with(|| format!("cpuid in {}", function.name));
            }
            // Compilers emit it for the baseline, since processors without it run it as `bsf`.
            Mnemonic::Tzcnt => continue,
            _ => {}
        }
        for feature in instruction.cpuid_features() {
            let Some(id) = feature_ids().get(*feature as usize).copied().flatten() else { continue };
            if !function.features.contains_key(id) {
                let mut text = String::new();
                GasFormatter::new().format(&instruction, &mut text);
                function.features.insert(id.to_owned(), FirstUse { address: instruction.ip(), text });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disassemble(bytes: &[u8]) -> (Vec<String>, Option<String>) {
        let mut function = Function { name: "f".into(), features: BTreeMap::new(), vector: false };
        let mut cpu_query = None;
        x86(bytes, 0x1000, &mut function, &mut cpu_query);
        let features =
            function.features.into_iter().map(|(id, first)| format!("{id}: {}", first.text)).collect();
        (features, cpu_query)
    }

    #[test]
    fn instruction_sets_are_recognized() {
        // vaddps %zmm1,%zmm0,%zmm0 after two bytes of baseline.
        let (features, cpu_query) = disassemble(&[0x31, 0xc0, 0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1]);
        assert_eq!(features, ["avx512f: vaddps %zmm1,%zmm0,%zmm0"]);
        assert_eq!(cpu_query, None);
        // addps, `rep bsf`, cpuid.
        let (features, cpu_query) = disassemble(&[0x0f, 0x58, 0xc1, 0xf3, 0x0f, 0xbc, 0xc1, 0x0f, 0xa2]);
        assert_eq!((features, cpu_query), (Vec::new(), Some("cpuid in f".to_owned())));
    }

    /// A small file with functions that all end at the end of the section.
    #[test]
    fn overlapping_functions_are_disassembled_up_to_a_limit() {
        let bytes = vec![0x90; 1 << 17];
        let part = CodePart { bytes: &bytes, start: 0, name: "text", encodings: &[] };
        let functions = (0..1 << 15).map(|at| (at, (1 << 17) - at, "f"));
        let symbols = SectionSymbols { functions: functions.collect(), marks: Vec::new() };
        let mut code = Code::default();
        part.read(true, symbols, &mut code);
        assert_eq!(code, Code::default());
    }

    /// A damaged symbol table has any address and any size.
    #[test]
    fn functions_with_any_address_and_size_stay_inside_their_section() {
        let bytes = [0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc1, 0x90, 0x90];
        let numbers = [0, 1, 4, 8, 1 << 31, 1 << 63, u64::MAX - 7, u64::MAX - 1, u64::MAX];
        let mut found = 0;
        for start in numbers {
            for address in numbers {
                for size in numbers {
                    for is_x86 in [true, false] {
                        let part =
                            CodePart { bytes: &bytes, start, name: "text", encodings: &[("any", 0, 0)] };
                        let symbols = SectionSymbols {
                            functions: vec![(address, size, "f"), (start, size, "g")],
                            marks: vec![(address, true)],
                        };
                        let mut code = Code::default();
                        part.read(is_x86, symbols, &mut code);
                        found += code.functions.len();
                        for first in code.functions.iter().flat_map(|function| function.features.values()) {
                            assert!(first.address.wrapping_sub(start) < 8, "{start} {address} {size}");
                        }
                    }
                }
            }
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn every_feature_of_x86_is_known_to_the_disassembler() {
        let known: BTreeSet<&str> = feature_ids().iter().copied().flatten().collect();
        for feature in &isa::table().processor("x86_64").unwrap().feature {
            assert!(known.contains(feature.id.as_str()), "{}", feature.id);
        }
    }

    #[test]
    fn file_without_code_is_rejected() {
        assert!(read(&b"hello"[..]).is_err());
        assert_eq!(read(&b"!<arch>\n"[..]).unwrap(), []);
    }
}
