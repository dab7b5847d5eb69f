//! Functions for build scripts of crates that embed data.
#![expect(clippy::disallowed_methods, reason = "only build scripts of gpubuild's own crates call this")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use toml::de::DeTable;

/// Encodes the `*.toml` files in folders of the current package for [`from_bytes`](crate::from_bytes): writes `FOLDER/NAME.toml` to
/// `FOLDER/NAME.bin` in `OUT_DIR`.
///
/// # Errors
/// A folder cannot be read or written, or a file is not TOML.
pub fn embed(folders: &[&str]) -> io::Result<()> {
    folders.iter().try_for_each(|folder| encode_folder(folder, "bin", &[]))
}

/// As [`embed`], without the keys that only tests read, in all tables: writes `FOLDER/NAME.toml` to `FOLDER/NAME.short.bin`.
///
/// # Errors
/// The folder cannot be read or written, or a file is not TOML.
pub fn embed_without(folder: &str, keys: &[&str]) -> io::Result<()> {
    encode_folder(folder, "short.bin", keys)
}

fn encode_folder(folder: &str, extension: &str, without: &[&str]) -> io::Result<()> {
    let variable = |name: &str| {
        env::var_os(name).map(PathBuf::from).ok_or_else(|| io::Error::other(format!("{name} is not set")))
    };
    let (package, out) = (variable("CARGO_MANIFEST_DIR")?, variable("OUT_DIR")?);
    fs::create_dir_all(out.join(folder))?;
    for entry in fs::read_dir(package.join(folder))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = Path::new(path.file_name().unwrap_or_default()).with_extension(extension);
            fs::write(out.join(folder).join(name), encode(&path, without)?)?;
        }
    }
    Ok(())
}

/// Returns the keys of a table in a document, sorted. Empty if the document has no such table.
///
/// # Errors
/// The file cannot be read, or is not TOML.
pub fn keys(path: &Path, table: &str) -> io::Result<BTreeSet<String>> {
    let text = fs::read_to_string(path)?;
    let document = DeTable::parse(&text)
        .map_err(|error| io::Error::other(format!("{}: {}", path.display(), error.message())))?;
    let found = document.get_ref().get(table).and_then(|value| value.get_ref().as_table());
    Ok(found.into_iter().flat_map(|table| table.keys().map(|key| key.get_ref().to_string())).collect())
}

fn encode(path: &Path, without: &[&str]) -> io::Result<Vec<u8>> {
    let text = fs::read_to_string(path)?;
    crate::encode_without(&text, without)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}
