//! What gpubuild knows of linkers: the symbols that static libraries define, a library with which any linker prints an error
//! message, and the words that put a folder into a program's search path.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

pub mod message;
pub mod symbols;

/// The words for a C compiler that put a folder into a program's search path. A list of `-Wl` would end a word at each comma.
#[must_use]
pub fn search_path_words(folder: &str) -> Vec<String> {
    if folder.contains(',') {
        ["-Xlinker", "-rpath", "-Xlinker", folder].map(str::to_owned).to_vec()
    } else {
        vec![format!("-Wl,-rpath,{folder}")]
    }
}
