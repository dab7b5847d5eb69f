//! The texts of gpubuild's findings and the messages that it knows, as TOML that is parsed when the crate is
//! compiled: `(name, bytes)` of the files in this folder, for `gpubuild_toml::from_bytes`.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable. A new file has to be named here: a test
//! fails until it is.

/// `(name, bytes)` of files in a folder.
macro_rules! files {
    ($folder:literal, $($name:literal)*) => {
        &[$(($name, include_bytes!(concat!(env!("OUT_DIR"), "/", $folder, $name, ".bin")).as_slice())),*]
    };
}

/// What findings mean and how they are remedied, by subject.
pub const FINDINGS: &[(&str, &[u8])] = files!("",
    "general" "cuda-toolkit" "cuda-build" "nvidia" "container" "rocm" "graphics" "binary" "build" "files" "plan" "venv" "audit"
);

/// Messages of programs that failed, and what they tell.
pub const LOG_SIGNATURES: &[(&str, &[u8])] =
    files!("logs/", "cuda" "rocm" "graphics" "link" "languages" "cmake" "general");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The names of the TOML files in a folder.
    #[expect(clippy::disallowed_methods, reason = "a test reads the folder of its crate")]
    fn names(folder: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_file_is_named() {
        for (folder, files) in [("", super::FINDINGS), ("logs", super::LOG_SIGNATURES)] {
            let listed: BTreeSet<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
            let mut there = names(folder);
            there.remove("Cargo");
            assert_eq!(listed, there, "{folder}");
        }
    }
}
