//! Crates of one program that bring the same symbols, as two copies of ggml do.
//!
//! Cargo shows a build script what the crates hand on that its own crate depends on, and nothing of others. Those are compared
//! symbol by symbol. For the rest there is a mark: a crate that brings a known library also brings an object that defines one
//! symbol, the same in every such crate, whose name is the help. A second one in a program stops the linker.

use std::collections::{BTreeMap, BTreeSet};

use super::cargo::Crate;
use super::missing;
use super::script::Script;
use super::share;
use crate::artifacts::{Artifact, Manifest};
use crate::exec::symbols;
use crate::exec::together::TogetherError;
use crate::host::Host;
use crate::project::together::differences;

/// A crate with what it built.
pub(super) struct Brought {
    name: String,
    manifest: Manifest,
}

impl Brought {
    pub(super) fn new(name: &str, manifest: &Manifest) -> Self {
        Self { name: name.to_owned(), manifest: manifest.clone() }
    }

    fn libraries(&self) -> impl Iterator<Item = &Artifact> {
        self.manifest.trees.iter().flat_map(|tree| &tree.files).filter(|file| file.kind == "static")
    }

    /// What structures depend on, without the hashes of headers.
    fn interface(&self) -> BTreeMap<String, String> {
        let all = self.manifest.trees.iter().flat_map(|tree| &tree.abi);
        all.filter(|(name, _)| !name.contains('.'))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}

/// What the crates have built that this one depends on and that have a `links` key.
pub(super) fn dependencies(host: &dyn Host, script: &mut Script) -> Vec<Brought> {
    let end = format!("_{}", share::MANIFEST);
    let mut found = Vec::new();
    for (name, path) in host.env().iter() {
        let Some(links) = name.strip_prefix("DEP_").and_then(|name| name.strip_suffix(&end)) else {
            continue;
        };
        let path = host.path(path);
        script.watch(path.as_str());
        if let Ok(manifest) = Manifest::read(host, &path) {
            found.push(Brought { name: links.to_lowercase(), manifest });
        }
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    found
}

/// The first two crates that define a symbol each. Libraries that several name are one.
pub(super) fn find(host: &dyn Host, crates: &[Brought]) -> Option<TogetherError> {
    if crates.len() < 2 {
        return None;
    }
    let mut before: Vec<(&Brought, BTreeSet<String>)> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for one in crates {
        let mut defined = BTreeSet::new();
        for file in one.libraries().filter(|file| seen.insert(&file.path)) {
            if let Ok(bytes) = host.read(&host.path(&file.path)) {
                defined.extend(symbols::defined(&bytes).unwrap_or_default());
            }
        }
        for (other, theirs) in &before {
            let mut same = theirs.intersection(&defined);
            let Some(symbol) = same.next() else { continue };
            return Some(TogetherError::SameSymbols {
                project: other.name.clone(),
                name: one.name.clone(),
                symbol: symbol.clone(),
                more: same.count(),
                differences: differences(&other.interface(), &one.interface()),
            });
        }
        before.push((one, defined));
    }
    None
}

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
        &missing::archive(&help, 1, krate)?,
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
