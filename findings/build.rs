//! Encodes the TOML files for embedding, and generates the list of ids (`IDS`).
#![expect(clippy::disallowed_methods, reason = "a build script reads the folder of its crate")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    gpubuild_toml::embed(&["", "logs"])?;
    gpubuild_toml::embed_without("logs", &["sample", "also", "source"])?;
    let folder = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let mut ids = BTreeSet::new();
    for entry in fs::read_dir(folder("CARGO_MANIFEST_DIR"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            for table in ["findings", "errors"] {
                for id in gpubuild_toml::keys(&path, table)? {
                    if !ids.insert(id.clone()) {
                        return Err(io::Error::other(format!("`{id}` is defined twice")));
                    }
                }
            }
        }
    }
    fs::write(folder("OUT_DIR").join("ids.rs"), format!("&{:?}", ids.iter().collect::<Vec<_>>()))
}
