//! Helpers for linkers: symbols that static libraries define, static libraries that make a linker print an error message, and options
//! for library search paths.
//!
//! Part of gpubuild. The interface is not stable.

pub mod archive;
pub mod message;
pub mod symbols;

/// The C compiler arguments that add a folder to a program's library search path. Does not use `-Wl` for folders with a comma, because
/// `-Wl` splits its value at commas.
#[must_use]
pub fn search_path_arguments(folder: &str) -> Vec<String> {
    if folder.contains(',') {
        ["-Xlinker", "-rpath", "-Xlinker", folder].map(str::to_owned).to_vec()
    } else {
        vec![format!("-Wl,-rpath,{folder}")]
    }
}
