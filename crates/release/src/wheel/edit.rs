//! Changes the names by which ELF files find each other, and their search path. Pure.

use std::collections::{BTreeMap, HashMap};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_STRTAB, DT_VERNEED, DT_VERNEEDNUM};
use object::endian::Endian as _;
use object::read::elf::ElfFile64;
use object_rewrite::Rewriter;

use crate::pack::rpath;

/// The changes to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ElfEdit {
    /// The library's own name; `None` to keep it.
    pub name: Option<String>,
    /// New names of needed libraries.
    pub needed: BTreeMap<String, String>,
    /// The folders of the search path.
    pub folders: Vec<String>,
}

/// The file with these changes.
///
/// # Errors
/// The file cannot be parsed or rewritten.
pub fn edit(file: &[u8], changes: &ElfEdit) -> Result<Vec<u8>, String> {
    let folders: Vec<&str> = changes.folders.iter().map(String::as_str).collect();
    if changes.name.is_none() && changes.needed.is_empty() {
        return rpath::set(file, &folders);
    }
    let message = |error: object_rewrite::Error| error.to_string();
    let mut rewriter = Rewriter::read(file).map_err(message)?;
    if let Some(name) = &changes.name {
        rewriter.elf_set_soname(name.clone().into_bytes()).map_err(message)?;
    }
    let bytes = |text: &String| text.clone().into_bytes();
    let needed: HashMap<Vec<u8>, Vec<u8>> =
        changes.needed.iter().map(|(old, new)| (bytes(old), bytes(new))).collect();
    rewriter.elf_replace_needed(&needed).map_err(message)?;
    if folders.is_empty() {
        rewriter.elf_delete_runpath().map_err(message)?;
    } else {
        rewriter.elf_set_runpath(folders.join(":").into_bytes()).map_err(message)?;
        rewriter.elf_use_rpath().map_err(message)?;
    }
    let mut written = Vec::with_capacity(file.len() + 4096);
    rewriter.write(&mut written).map_err(message)?;
    rename_versions(&mut written, &changes.needed)?;
    Ok(written)
}

/// Size of an entry of `.gnu.version_r` in bytes.
const VERNEED: usize = 16;

/// Renames the libraries in the list of required symbol versions, which names them as `DT_NEEDED` does. The loader fails if it does not
/// find one of them.
fn rename_versions(data: &mut [u8], needed: &BTreeMap<String, String>) -> Result<(), String> {
    let damaged = || "its symbol versions cannot be read".to_owned();
    let file: ElfFile64<'_, Endianness> = ElfFile64::parse(&*data).map_err(|error| error.to_string())?;
    let endian = file.endian();
    let entries = rpath::entries(&file, data).ok_or_else(damaged)?;
    let value = |tag| entries.iter().find(|entry| entry.tag == tag).map(|entry| entry.value);
    let (Some(list), Some(count)) = (value(DT_VERNEED), value(DT_VERNEEDNUM)) else { return Ok(()) };
    let strings = value(DT_STRTAB).and_then(|start| rpath::offset(&file, start)).ok_or_else(damaged)?;
    let text = |at: u64| -> Option<&[u8]> {
        let rest = data.get(strings.checked_add(usize::try_from(at).ok()?)?..)?;
        rest.split(|byte| *byte == 0).next()
    };
    let mut new_offsets = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.tag == DT_NEEDED) {
        let offset = u32::try_from(entry.value).map_err(|_| damaged())?;
        new_offsets.insert(text(entry.value).ok_or_else(damaged)?.to_vec(), offset);
    }
    let mut at = rpath::offset(&file, list).ok_or_else(damaged)?;
    let mut changed = Vec::new();
    for _ in 0..count {
        let entry = data.get(at..).and_then(|rest| rest.get(..VERNEED)).ok_or_else(damaged)?;
        let number = |from: usize| [entry[from], entry[from + 1], entry[from + 2], entry[from + 3]];
        let name = text(endian.read_u32(number(4)).into()).ok_or_else(damaged)?;
        let new = std::str::from_utf8(name).ok().and_then(|name| needed.get(name));
        if let Some(offset) = new.and_then(|new| new_offsets.get(new.as_bytes())) {
            changed.push((at + 4, endian.write_u32(*offset)));
        }
        let next = endian.read_u32(number(12));
        at = usize::try_from(next).ok().and_then(|next| at.checked_add(next)).ok_or_else(damaged)?;
    }
    for (at, bytes) in changed {
        data[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    Ok(())
}
