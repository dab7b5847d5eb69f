//! Reads import libraries of Windows: archives that a program is linked with in the place of DLLs.

use std::collections::BTreeSet;

use gpubuild_host::{HostPath, ReadFiles};
use object::read::archive::ArchiveFile;
use object::read::coff::{CoffFile, ImportFile};
use object::{Object as _, ObjectSection as _};

use super::UnreadableObject;
use super::bytes::{Data, ObjectBytes};

/// The start of a member that describes an imported function, in Microsoft's format.
const SHORT_IMPORT: [u8; 4] = [0, 0, 0xff, 0xff];

/// The section with the name of the DLL in the format of GNU's tools.
const NAME_SECTION: &str = ".idata$7";

/// The limit of members of an import library in bytes. Objects with code can be larger, and name no DLL.
const MAX_MEMBER: u64 = 16 << 10;

/// The names of the DLLs that an import library stands for; empty for other static libraries.
///
/// # Errors
/// The file can't be read, or is not an archive.
pub fn imported(host: &dyn ReadFiles, path: &HostPath) -> Result<BTreeSet<String>, UnreadableObject> {
    let file = ObjectBytes::open(host, path)?;
    names(file.data()).map_err(|error| file.explain(error))
}

fn names(data: Data<'_, '_>) -> Result<BTreeSet<String>, UnreadableObject> {
    let mut found = BTreeSet::new();
    for member in ArchiveFile::parse(data)?.members() {
        let (start, size) = member?.file_range();
        if size <= MAX_MEMBER
            && let Some(name) = data.bytes(start, size).and_then(dll)
        {
            found.insert(name);
        }
    }
    Ok(found)
}

/// The DLL that a member of an archive names.
fn dll(member: &[u8]) -> Option<String> {
    if member.starts_with(&SHORT_IMPORT) {
        let import = ImportFile::parse(member).ok()?;
        return Some(String::from_utf8_lossy(import.dll()).into_owned());
    }
    let object = CoffFile::<&[u8]>::parse(member).ok()?;
    let section = object.section_by_name(NAME_SECTION)?.data().ok()?;
    let name = std::str::from_utf8(section.split(|byte| *byte == 0).next()?).ok()?;
    // The same section of other members is filled by the linker.
    let is_name = name.len() > 4 && name.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    is_name.then(|| name.to_owned())
}
