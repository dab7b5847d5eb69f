//! Generates Rust code that locates and loads backend modules.
//!
//! Pure: generates the code from a manifest. A build script writes it into `OUT_DIR`, and the program includes it:
//!
//! ```ignore
//! mod backends {
//!     include!(env!("GPUBUILD_MODULES_RS"));
//! }
//! // before the first use of the project:
//! backends::load()?;
//! ```
//!
//! The program uses the same code with every linkage: if the backends are linked in, `load` does nothing.

use crate::artifacts::{Manifest, PlacedLibrary};

/// Name of the generated file in `OUT_DIR`.
pub const FILE_NAME: &str = "gpubuild_modules.rs";

/// The environment variable with the path of the generated file, set while the crate is compiled.
pub const VARIABLE: &str = "GPUBUILD_MODULES_RS";

const DYNAMIC: &str = include_str!("dynamic.rs.in");

/// The code that loads the modules of a manifest; `None` if the manifest has no modules. `placed` lists the files that are
/// copied next to the program.
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

/// Groups modules that have the same file name in several folders, the last folder first. The generated code loads the
/// first module of each group that can be opened.
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
    fn modules_of_later_toolkits_are_tried_first() {
        let names = ["cuda-12/libggml-cuda.so", "cuda-13/libggml-cuda.so", "x/liby.so"];
        assert_eq!(
            choices(names.into_iter()),
            r#"&["cuda-13/libggml-cuda.so", "cuda-12/libggml-cuda.so"], &["x/liby.so"]"#
        );
    }
}
