//! Detects two crates of one program that each contain a copy of the same known library, such as ggml.
//!
//! A build script sees only its crate's direct dependencies; `gpubuild-link` compares those symbol by symbol. The others are
//! detected with a marker: each crate that contains a known library also contains an object that defines one symbol, the same in
//! every such crate, whose name is an error message. A second definition stops the linker, which prints the name.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::WriteFiles;
use gpubuild_linker::message;
use gpubuild_plan::artifacts::Manifest;

use super::cargo::BuildingCrate;
use super::missing;
use super::script::ScriptEnvironment;

/// The known library that the manifest's libraries are a copy of: `ggml`.
fn copy(manifest: &Manifest) -> Option<&str> {
    manifest.trees.iter().find_map(|tree| {
        let mut stems: Vec<&str> = tree.abi.keys().filter_map(|name| name.strip_suffix(".h")).collect();
        stems.sort_indirect_by_key(|stem| (stem.len(), *stem));
        stems.into_iter().find(|stem| {
            let is_of = |target: &str| {
                target.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            tree.files.iter().any(|file| file.kind == "static" && is_of(&file.target))
        })
    })
}

/// Makes linking fail if another crate contains a copy of the same known library.
///
/// # Errors
/// The marker cannot be written.
pub(super) fn mark(
    host: &dyn WriteFiles,
    krate: &BuildingCrate,
    manifest: &Manifest,
    script: &mut ScriptEnvironment,
) -> std::io::Result<()> {
    let Some(library) = copy(manifest) else { return Ok(()) };
    let help = format!(
        "\n\n  gpubuild: two crates of this program each contain a copy of {library} and define the same symbols [symbols.same]\n    \
         fix: let one crate use the other's copy: `.share(\"<links key of the other>\")` in its build.rs (docs/guide/several-projects.md)\n\n"
    );
    missing::bring(
        host,
        krate,
        &format!("gpubuild_copy_{}", krate.name),
        &message::library(&help, 1, &krate.os, &krate.arch),
        script,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(abi: &str, targets: &[&str]) -> Manifest {
        let files: Vec<String> = targets
            .iter()
            .map(|target| {
                format!(r#"{{"target":"{target}","kind":"static","path":"/b/lib{target}.a","bytes":1,"sha256":"0"}}"#)
            })
            .collect();
        let text = format!(
            r#"{{"schema":1,"gpubuild":"0.1.0","project":"g","backends":["cpu"],"trees":[{{"id":"cpu","backends":["cpu"],"key":"k","source":"/s","build":"/b","generator":"Ninja","cmake":"4","cache":{{}},"files":[{}],"link":[],"compilers":{{}},"abi":{{{abi}}}}}]}}"#,
            files.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    const GGML: &str = r#""ggml-backend.h":"0","ggml.h":"0","gguf.h":"0","GGML_MAX_NAME":"64""#;

    #[test]
    fn only_copies_that_the_crate_builds_are_marked() {
        assert_eq!(copy(&manifest(GGML, &["llama", "ggml-base", "ggml-cpu"])), Some("ggml"));
        assert_eq!(copy(&manifest(GGML, &["whisper"])), None, "ggml is in another crate");
        assert_eq!(copy(&manifest("", &["ggml"])), None, "not a known library");
    }
}
