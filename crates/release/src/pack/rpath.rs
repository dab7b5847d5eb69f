//! The library search path of an ELF file in a release: which folders it needs, and how they are set in `DT_RPATH`. Pure.
//!
//! `DT_RPATH` is used instead of `DT_RUNPATH` because it also applies to the dependencies of libraries, so that vendor libraries can be
//! packed unchanged, and because it takes precedence over `LD_LIBRARY_PATH`.
//!
//! If the file already has an entry, as programs linked by gpubuild do, it is changed in place and nothing moves. Otherwise the file is
//! rewritten, which requires that the linker left enough space.

use std::collections::BTreeSet;

use gpubuild_object::{ObjectFile, ObjectFormat};
use object::Endianness;
use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRTAB, DynamicTag, PT_DYNAMIC, PT_LOAD,
};
use object::endian::Endian as _;
use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _, Sym as _};
use object_rewrite::Rewriter;

use super::layer::{LayerKind, LayerPiece};

/// The library search path that an ELF file needs; `None` if it need not be changed.
pub(super) fn search_path(
    piece: &LayerPiece,
    contents: &ObjectFile,
    is_main: bool,
    has_libraries: bool,
    packed: &BTreeSet<String>,
) -> Option<Vec<&'static str>> {
    if contents.format != ObjectFormat::Elf {
        return None;
    }
    let has: Vec<&str> = contents.rpath.iter().chain(&contents.runpath).map(String::as_str).collect();
    if let LayerKind::Library(_) = piece.part {
        // Libraries in the same folder are found through the program's RUNPATH, unless the library has its own.
        let finds = has.is_empty() || has.iter().any(|folder| is_here(folder));
        return (!finds).then(|| vec!["$ORIGIN"]);
    }
    // The program's search path also applies to its libraries and modules.
    if has.is_empty() && !is_main {
        return None;
    }
    // Modules may be in a subfolder of their tree.
    let depth = piece.path.matches('/').count();
    let mut folders = vec!["$ORIGIN"];
    if depth > 1 {
        folders.push("$ORIGIN/..");
    }
    if has_libraries {
        folders.push(if depth > 1 { "$ORIGIN/../../lib" } else { "$ORIGIN/../lib" });
    }
    // A file that needs no library of the copy needs no search path. An existing one contains folders of the build machine.
    let names_packed = contents.needed.iter().any(|one| packed.contains(&one.name));
    let folders = if names_packed || (!has.is_empty() && !packed.is_empty()) { folders } else { Vec::new() };
    (has != folders || !contents.runpath.is_empty()).then_some(folders)
}

fn is_here(folder: &str) -> bool {
    matches!(folder.trim_end_matches(['/', '.']), "$ORIGIN" | "${ORIGIN}")
}

/// Returns the file with exactly these folders in its search path.
///
/// # Errors
/// The file cannot be parsed or rewritten.
pub fn set(file: &[u8], folders: &[&str]) -> Result<Vec<u8>, String> {
    let wanted = folders.join(":");
    if let Some(changed) = in_place(file, &wanted) {
        return Ok(changed);
    }
    let message = |error: object_rewrite::Error| error.to_string();
    let mut rewriter = Rewriter::read(file).map_err(message)?;
    if folders.is_empty() {
        rewriter.elf_delete_runpath().map_err(message)?;
    } else {
        rewriter.elf_set_runpath(wanted.into_bytes()).map_err(message)?;
        rewriter.elf_use_rpath().map_err(message)?;
    }
    let mut written = Vec::with_capacity(file.len() + 4096);
    rewriter.write(&mut written).map_err(message)?;
    Ok(written)
}

/// An entry of the dynamic section.
#[derive(Clone, Copy)]
pub(crate) struct DynamicEntry {
    /// The offset in the file.
    offset: usize,
    pub(crate) tag: DynamicTag,
    pub(crate) value: u64,
}

/// The size of an entry in bytes.
const ENTRY: usize = 16;

/// Changes the existing entry; `None` if the file has no entry or the new path is longer than the old one.
fn in_place(data: &[u8], wanted: &str) -> Option<Vec<u8>> {
    let file: ElfFile64<'_, Endianness> = ElfFile64::parse(data).ok()?;
    let endian = file.endian();
    let entries = entries(&file, data)?;
    let is_path = |entry: &&DynamicEntry| entry.tag == DT_RPATH || entry.tag == DT_RUNPATH;
    let own = *entries.iter().find(is_path)?;
    let start = entries.iter().find(|entry| entry.tag == DT_STRTAB)?.value;
    let strings = offset(&file, start)?;
    let begin = strings.checked_add(usize::try_from(own.value).ok()?)?;
    let length = data.get(begin..)?.iter().position(|byte| *byte == 0)?;
    let old = &data[begin..begin + length];
    let mut changed = data.to_vec();
    if old != wanted.as_bytes() {
        if wanted.len() > length || is_shared(&file, &entries, own.value, length as u64) {
            return None;
        }
        changed[begin..begin + length].fill(0);
        changed[begin..begin + wanted.len()].copy_from_slice(wanted.as_bytes());
    }
    let mut kept: Vec<DynamicEntry> = entries.iter().filter(|entry| !is_path(entry)).copied().collect();
    if !wanted.is_empty() {
        kept.push(DynamicEntry { tag: DT_RPATH, ..own });
    }
    let mut put = |index: usize, tag: DynamicTag, value: u64| {
        let offset = entries[index].offset;
        changed[offset..offset + 8].copy_from_slice(bytes(tag.0.cast_unsigned(), endian).as_slice());
        changed[offset + 8..offset + ENTRY].copy_from_slice(bytes(value, endian).as_slice());
    };
    for index in 0..entries.len() {
        let (tag, value) = kept.get(index).map_or((DT_NULL, 0), |entry| (entry.tag, entry.value));
        put(index, tag, value);
    }
    Some(changed)
}

fn bytes(value: u64, endian: Endianness) -> [u8; 8] {
    if endian.is_big_endian() { value.to_be_bytes() } else { value.to_le_bytes() }
}

/// The entries of the dynamic section, without the terminating `DT_NULL`.
pub(crate) fn entries(file: &ElfFile64<'_, Endianness>, data: &[u8]) -> Option<Vec<DynamicEntry>> {
    let endian = file.endian();
    let header = file.elf_program_headers().iter().find(|header| header.p_type(endian) == PT_DYNAMIC)?;
    let begin = usize::try_from(header.p_offset(endian)).ok()?;
    let dynamic = header.dynamic(endian, data).ok()??;
    let entries = dynamic.iter().enumerate().map(|(index, entry)| DynamicEntry {
        offset: begin + index * ENTRY,
        tag: entry.d_tag(endian),
        value: entry.d_val(endian),
    });
    Some(entries.take_while(|entry| entry.tag != DT_NULL).collect())
}

/// The file offset of a virtual address.
pub(crate) fn offset(file: &ElfFile64<'_, Endianness>, address: u64) -> Option<usize> {
    let endian = file.endian();
    let loads = file.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD);
    let mut found = loads.filter_map(|header| {
        let inside = address.checked_sub(header.p_vaddr(endian))?;
        (inside < header.p_filesz(endian)).then(|| header.p_offset(endian) + inside)
    });
    usize::try_from(found.next()?).ok()
}

/// Whether another string of the file is stored as the end of this one. Linkers merge such strings.
fn is_shared(file: &ElfFile64<'_, Endianness>, entries: &[DynamicEntry], begin: u64, length: u64) -> bool {
    let endian = file.endian();
    let inside = |value: u64| (begin..begin + length).contains(&value);
    let named = [DT_NEEDED, DT_SONAME];
    entries.iter().any(|entry| named.contains(&entry.tag) && inside(entry.value))
        || file.elf_dynamic_symbol_table().iter().any(|symbol| inside(u64::from(symbol.st_name(endian))))
}

#[cfg(test)]
mod tests {
    use super::set;

    #[test]
    fn files_that_are_not_elf_are_errors() {
        for bad in [b"".as_slice(), b"\x7fELF", b"#!/bin/sh\n", &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]] {
            assert!(set(bad, &["$ORIGIN"]).is_err());
        }
    }
}
