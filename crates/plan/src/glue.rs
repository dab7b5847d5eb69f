//! Rust code for programs whose backends are modules: it finds them and has the project open them.
//!
//! Pure: a manifest gives a text. A build script writes it into `OUT_DIR`, and a program includes it:
//!
//! ```ignore
//! mod backends {
//!     include!(env!("GPUBUILD_MODULES_RS"));
//! }
//! // before the first use of the project:
//! backends::load()?;
//! ```
//!
//! It is the same with every linkage: where backends are linked in, `load` has nothing to do.

use crate::artifacts::{Manifest, PlacedLibrary};

/// Name of the file in `OUT_DIR`.
pub const FILE_NAME: &str = "gpubuild_modules.rs";

/// The variable that holds its path while the crate is compiled.
pub const VARIABLE: &str = "GPUBUILD_MODULES_RS";

const DYNAMIC: &str = include_str!("glue/dynamic.rs.in");

/// The code that opens the modules of a manifest, where it has any; `placed` is what a program needs beside it.
#[must_use]
pub fn modules(manifest: &Manifest, placed: &[PlacedLibrary]) -> Option<String> {
    let loader = manifest.loader.as_ref()?;
    let kinds = manifest.trees.iter().flat_map(|tree| &tree.files).filter(|file| file.kind == "module");
    let built: Vec<&str> = kinds.map(|file| file.path.as_str()).collect();
    let names: Vec<&str> = placed
        .iter()
        .filter(|file| built.contains(&file.from.as_str()))
        .map(|file| file.name.as_str())
        .collect();
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let code = DYNAMIC
        .replace("@FOLDER@", &loader.folder)
        .replace("@FILE@", &loader.file)
        .replace("@COUNT@", &loader.count)
        .replace("@MODULES@", &quoted.join(", "))
        .replace("@CHOICES@", &choices(names.into_iter().filter(|name| name.contains('/'))));
    Some(code)
}

/// Modules of one name in several folders, the last folder first: of these the first that opens is taken.
fn choices<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        let file = name.rsplit('/').next().unwrap_or(name);
        match groups.iter_mut().find(|(known, _)| *known == file) {
            Some((_, list)) => list.insert(0, name),
            None => groups.push((file, vec![name])),
        }
    }
    let group = |(_, list): &(&str, Vec<&str>)| {
        format!("&[{}]", list.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_toolkits_the_later_is_tried_first() {
        let names = ["cuda-12/libggml-cuda.so", "cuda-13/libggml-cuda.so", "x/liby.so"];
        assert_eq!(
            choices(names.into_iter()),
            r#"&["cuda-13/libggml-cuda.so", "cuda-12/libggml-cuda.so"], &["x/liby.so"]"#
        );
    }
}
