//! Symbols that static libraries define, and those that two of them define.
//!
//! A program that links both takes whichever the linker meets first, or does not link at all; both are worth a stop.

use std::collections::{BTreeMap, BTreeSet};

use object::read::archive::ArchiveFile;
use object::{Object, ObjectComdat, ObjectSymbol, SymbolKind, SymbolSection};

/// A symbol that two libraries define.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duplicate {
    /// The symbol as the object files spell it.
    pub symbol: String,
    /// The library that comes first on the link line.
    pub first: String,
    /// The other one.
    pub second: String,
}

/// The global symbols that an archive defines so that a second definition is an error: neither weak nor COMDAT nor common.
///
/// # Errors
/// The file is not an archive. Members that are not object files (LTO bytecode, import stubs) are skipped.
pub fn defined(archive: &[u8]) -> Result<BTreeSet<String>, String> {
    collect(archive, strong)
}

/// All global symbols that an archive defines, those among them that linkers merge as well.
///
/// # Errors
/// The file is not an archive.
pub fn globals(archive: &[u8]) -> Result<BTreeSet<String>, String> {
    collect(archive, |file| {
        let global = file.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition());
        let names = global
            .filter(|symbol| !matches!(symbol.kind(), SymbolKind::File | SymbolKind::Section))
            .filter_map(|symbol| symbol.name().ok().map(str::to_owned));
        // References to the personality routine are the compiler's own, the same everywhere.
        names
            .filter(|name| !name.is_empty() && !is_linker_note(name) && !name.starts_with("DW.ref."))
            .collect()
    })
}

/// The names of an archive's COMDAT groups. Mostly that is a symbol in the group; the group of a destructor's variants bears a name
/// that no symbol has. Linkers keep one group of each name.
///
/// # Errors
/// The file is not an archive.
pub fn groups(archive: &[u8]) -> Result<BTreeSet<String>, String> {
    collect(archive, |file| {
        file.comdats().filter_map(|comdat| comdat.name().ok().map(str::to_owned)).collect()
    })
}

/// What there is in the object files of an archive.
fn collect(
    archive: &[u8],
    of: impl Fn(&object::File<'_>) -> Vec<String>,
) -> Result<BTreeSet<String>, String> {
    let archive_file = ArchiveFile::parse(archive).map_err(|error| error.to_string())?;
    let mut found = BTreeSet::new();
    for member in archive_file.members() {
        let member = member.map_err(|error| error.to_string())?;
        let Ok(data) = member.data(archive) else { continue };
        if let Ok(file) = object::File::parse(data) {
            found.extend(of(&file));
        }
    }
    Ok(found)
}

fn strong(file: &object::File<'_>) -> Vec<String> {
    let comdats = file.comdats().flat_map(|comdat| comdat.sections().collect::<Vec<_>>());
    let merged: BTreeSet<usize> = comdats.map(|section| section.0).collect();
    let is_merged = |section: SymbolSection| match section {
        SymbolSection::Section(index) => merged.contains(&index.0),
        SymbolSection::None | SymbolSection::Undefined | SymbolSection::Common => true,
        _ => false,
    };
    file.symbols()
        .filter(|symbol| {
            symbol.is_global() && symbol.is_definition() && !symbol.is_weak() && !symbol.is_common()
        })
        .filter(|symbol| !matches!(symbol.kind(), SymbolKind::File | SymbolKind::Section))
        .filter(|symbol| !is_merged(symbol.section()))
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .filter(|name| !name.is_empty() && !is_linker_note(name))
        .collect()
}

/// Symbols that compilers put into every object for the linker's eyes.
fn is_linker_note(name: &str) -> bool {
    name.starts_with('@')
        || name.starts_with(".weak.")
        || name.starts_with("__real@")
        || name.starts_with("__xmm@")
}

/// The symbols that two libraries define, each once, with the first two libraries that do.
#[must_use]
pub fn duplicates(libraries: &[(String, BTreeSet<String>)]) -> Vec<Duplicate> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut found: BTreeMap<&str, Duplicate> = BTreeMap::new();
    for (library, symbols) in libraries {
        for symbol in symbols {
            match first.get(symbol.as_str()) {
                Some(&owner) if owner != library => {
                    found.entry(symbol).or_insert_with(|| Duplicate {
                        symbol: symbol.clone(),
                        first: owner.to_owned(),
                        second: library.clone(),
                    });
                }
                Some(_) => {}
                None => {
                    first.insert(symbol, library);
                }
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_symbol_of_two_libraries_is_found_once() {
        let libraries = [
            ("a.a".to_owned(), set(&["ggml_init", "a"])),
            ("b.a".to_owned(), set(&["ggml_init", "b"])),
            ("c.a".to_owned(), set(&["ggml_init"])),
        ];
        let expected = Duplicate { symbol: "ggml_init".into(), first: "a.a".into(), second: "b.a".into() };
        assert_eq!(duplicates(&libraries), [expected]);
        assert_eq!(duplicates(&libraries[1..2]), []);
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        assert!(defined(b"not an archive").is_err());
        assert_eq!(defined(b"!<arch>\n").unwrap(), BTreeSet::new());
    }
}
