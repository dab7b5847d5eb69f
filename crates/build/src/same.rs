//! Two crates of one program that each bring a copy of the same known library, as ggml is.
//!
//! A build script sees only those crates that its own depends on; `gpubuild-link` compares them symbol by symbol. For the others
//! there is a mark: a crate that brings a known library also brings an object that defines one symbol, the same in every such
//! crate, whose name is an error message. A second one in a program stops the linker, which prints it.

use gpubuild_host::Host;
use gpubuild_linker::message;
use gpubuild_plan::artifacts::Manifest;

use super::cargo::Crate;
use super::missing;
use super::script::Script;

/// The known library of which a manifest's libraries are a copy: `ggml`.
fn copy(manifest: &Manifest) -> Option<&str> {
    manifest.trees.iter().find_map(|tree| {
        let mut stems: Vec<&str> = tree.abi.keys().filter_map(|name| name.strip_suffix(".h")).collect();
        stems.sort_by_key(|stem| (stem.len(), *stem));
        stems.into_iter().find(|stem| {
            let is_of = |target: &str| {
                target.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            tree.files.iter().any(|file| file.kind == "static" && is_of(&file.target))
        })
    })
}

/// Has the linker stop where another crate brings a copy of the same known library.
///
/// # Errors
/// The mark cannot be written.
pub(super) fn mark(
    host: &dyn Host,
    krate: &Crate,
    manifest: &Manifest,
    script: &mut Script,
) -> std::io::Result<()> {
    let Some(library) = copy(manifest) else { return Ok(()) };
    let help = format!(
        "\n\n  gpubuild: two crates of this program bring a copy of {library} each, and both define the same symbols [symbols.same]\n    \
         fix: let one use the other's: `.share(\"<links key of the other>\")` in its build.rs (docs/symbols.md)\n\n"
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
    fn only_a_copy_of_ones_own_is_marked() {
        assert_eq!(copy(&manifest(GGML, &["llama", "ggml-base", "ggml-cpu"])), Some("ggml"));
        assert_eq!(copy(&manifest(GGML, &["whisper"])), None, "ggml is another crate's");
        assert_eq!(copy(&manifest("", &["ggml"])), None, "no profile knows it");
    }
}
