//! Finds the symbols that static libraries define, and symbols that several of them define.
//!
//! If two libraries define the same symbol, the linker either uses the first definition or fails, so duplicates are reported as errors.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object, ObjectComdat, ObjectSymbol, ReadRef, SymbolKind, SymbolSection};

use crate::archive::{FilePart, members};

/// A symbol that two libraries define.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duplicate {
    /// The symbol name, as in the object files.
    pub symbol: String,
    /// The library that is first on the link line.
    pub first: String,
    /// The other library.
    pub second: String,
}

/// The strong global symbols that an archive defines: a second definition of one is an error. Excludes weak, COMDAT and common symbols.
/// Members that are not object files (LTO bytecode, import stubs) are skipped.
///
/// # Errors
/// The file is not an archive.
pub fn defined<'data, R: ReadRef<'data>>(archive: R) -> Result<BTreeSet<String>, String> {
    collect(archive, strong)
}

/// All global symbols that an archive defines, including symbols that linkers merge.
///
/// # Errors
/// The file is not an archive.
pub fn globals<'data, R: ReadRef<'data>>(archive: R) -> Result<BTreeSet<String>, String> {
    collect(archive, |file| {
        let global = file.symbols().filter(|symbol| symbol.is_global() && symbol.is_definition());
        let names = global
            .filter(|symbol| !matches!(symbol.kind(), SymbolKind::File | SymbolKind::Section))
            .filter_map(|symbol| symbol.name().ok().map(str::to_owned));
        // Skip the compiler's references to the personality routine, which are the same in every object file.
        names
            .filter(|name| !name.is_empty() && !is_linker_marker(name) && !name.starts_with("DW.ref."))
            .collect()
    })
}

/// The names of the COMDAT groups in an archive. Linkers keep one group of each name. Usually the name is a symbol in the group, but the
/// name of a group with the variants of a destructor is not a symbol.
///
/// # Errors
/// The file is not an archive.
pub fn groups<'data, R: ReadRef<'data>>(archive: R) -> Result<BTreeSet<String>, String> {
    collect(archive, |file| {
        file.comdats().filter_map(|comdat| comdat.name().ok().map(str::to_owned)).collect()
    })
}

/// Collects names from all object files of an archive.
fn collect<'data, R: ReadRef<'data>>(
    archive: R,
    of: impl Fn(&object::File<'data, FilePart<R>>) -> Vec<String>,
) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    for member in members(archive)? {
        if let Ok(file) = object::File::parse(member?.data) {
            found.extend(of(&file));
        }
    }
    Ok(found)
}

fn strong<'data>(file: &object::File<'data, impl ReadRef<'data>>) -> Vec<String> {
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
        .filter(|name| !name.is_empty() && !is_linker_marker(name))
        .collect()
}

/// Whether a symbol is a marker for the linker, which compilers add to every object file.
fn is_linker_marker(name: &str) -> bool {
    name.starts_with('@')
        || name.starts_with(".weak.")
        || name.starts_with("__real@")
        || name.starts_with("__xmm@")
}

/// Finds symbols that several libraries define. Each is listed once, with the first two libraries that define it.
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
    fn a_symbol_in_several_libraries_is_listed_once() {
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
    fn other_files_than_archives_are_rejected() {
        assert!(defined(&b"not an archive"[..]).is_err());
        assert_eq!(defined(&b"!<arch>\n"[..]).unwrap(), BTreeSet::new());
    }
}
