//! Where the loader looks for the libraries of a packed program: folders from the file itself, in `DT_RPATH`. Pure.
//!
//! `DT_RPATH` and not `DT_RUNPATH`: it also holds for the libraries of libraries, so that those of vendors stay as they were
//! published, byte by byte, and `LD_LIBRARY_PATH` of a user does not put other ones before them.

use object_rewrite::Rewriter;

/// The file with these folders and no others.
///
/// # Errors
/// What cannot be read or written of it, in words.
pub fn set(file: &[u8], folders: &[&str]) -> Result<Vec<u8>, String> {
    let words = |error: object_rewrite::Error| error.to_string();
    let mut rewriter = Rewriter::read(file).map_err(words)?;
    if folders.is_empty() {
        rewriter.elf_delete_runpath().map_err(words)?;
    } else {
        rewriter.elf_set_runpath(folders.join(":").into_bytes()).map_err(words)?;
        rewriter.elf_use_rpath().map_err(words)?;
    }
    let mut written = Vec::with_capacity(file.len() + 4096);
    rewriter.write(&mut written).map_err(words)?;
    Ok(written)
}
