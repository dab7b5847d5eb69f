//! Modules are libraries that a program opens at run time. Linked code must not call their functions by name.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::ReadFiles;
use gpubuild_object::ObjectBytes;
use gpubuild_plan::artifacts::{Artifact, Manifest};
use object::{NameOrOrdinal, Object};

use super::error::BuildError;
use super::stage;

/// Symbols that only modules define.
#[derive(Debug, Default)]
pub struct ModuleSymbols {
    /// File name of the first module that defines each symbol.
    only_in_modules: BTreeMap<String, String>,
}

impl ModuleSymbols {
    /// Reads the exported symbols of a manifest's libraries. The result is empty if the manifest has no modules.
    ///
    /// # Errors
    /// A library that cannot be read.
    pub fn of(host: &dyn ReadFiles, manifest: &Manifest) -> Result<Self, BuildError> {
        let mut only_in_modules = BTreeMap::new();
        for module in files(manifest, "module") {
            let name = file_name(module);
            for symbol in symbols(host, module)?.0 {
                only_in_modules.entry(symbol).or_insert_with(|| name.to_owned());
            }
        }
        if !only_in_modules.is_empty() {
            for library in files(manifest, "shared") {
                for symbol in symbols(host, library)?.0 {
                    only_in_modules.remove(&symbol);
                }
            }
        }
        Ok(Self { only_in_modules })
    }

    /// The first of the `wanted` symbols that only modules define, with its module and the number of other such symbols.
    #[must_use]
    pub fn first_only_in_modules<'a>(
        &self,
        wanted: impl Iterator<Item = &'a str>,
    ) -> Option<(String, String, usize)> {
        let names: BTreeSet<&str> =
            wanted.filter(|name| self.only_in_modules.contains_key(*name)).collect_set();
        let first = names.first()?;
        Some(((*first).to_owned(), self.only_in_modules[*first].clone(), names.len() - 1))
    }
}

/// Rejects a shared library that calls functions of a module by name: a program that links it would not start.
///
/// # Errors
/// The first such function, as [`BuildError::ModuleCalled`].
pub fn refuse_called(host: &dyn ReadFiles, manifest: &Manifest) -> Result<(), BuildError> {
    let module_symbols = ModuleSymbols::of(host, manifest)?;
    if module_symbols.only_in_modules.is_empty() {
        return Ok(());
    }
    for library in files(manifest, "shared") {
        let (_, wanted) = symbols(host, library)?;
        if let Some((symbol, module, more)) =
            module_symbols.first_only_in_modules(wanted.iter().map(String::as_str))
        {
            let caller = file_name(library).to_owned();
            return Err(BuildError::ModuleCalled { symbol, module, caller, more });
        }
    }
    Ok(())
}

/// Parses undefined symbols from the messages of a linker.
#[must_use]
pub fn undefined(lines: &[&str]) -> BTreeSet<String> {
    const STARTS: [&str; 3] =
        ["undefined reference to ", "undefined symbol: ", "unresolved external symbol "];
    let name = |rest: &str| {
        let rest = rest.trim_start_matches(['`', '\'', '"']);
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'))
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let mut found: BTreeSet<String> = lines
        .iter()
        .flat_map(|line| STARTS.iter().flat_map(|start| line.split(start).skip(1)))
        .map(name)
        .collect_set();
    // Apple's linker prints `"_ggml_backend_is_cpu", referenced from:`.
    let referenced = lines.iter().filter_map(|line| line.trim().strip_suffix(", referenced from:"));
    found.extend(referenced.map(|text| text.trim_matches('"').trim_start_matches('_').to_owned()));
    found.remove("");
    found
}

fn files<'a>(manifest: &'a Manifest, kind: &'a str) -> impl Iterator<Item = &'a Artifact> {
    let all = manifest.trees.iter().flat_map(|tree| &tree.files);
    all.filter(move |file| file.kind == kind && !stage::is_import_library(&file.path))
}

fn file_name(file: &Artifact) -> &str {
    file.path.rsplit(['/', '\\']).next().unwrap_or(&file.path)
}

/// The exported and imported symbols of a library; both are empty for an unknown format.
fn symbols(host: &dyn ReadFiles, file: &Artifact) -> Result<(Vec<String>, Vec<String>), BuildError> {
    let bytes = ObjectBytes::open(host, &host.path(&file.path))
        .map_err(|error| BuildError::io("read", &file.path, &error.into()))?;
    let Ok(library) = object::File::parse(bytes.data()) else { return Ok((Vec::new(), Vec::new())) };
    let text = |name: NameOrOrdinal<&[u8]>| match name {
        NameOrOrdinal::Name(name) => Some(String::from_utf8_lossy(name).into_owned()),
        NameOrOrdinal::Ordinal(_) => None,
    };
    let exports = library.exports().into_iter().flatten().flatten();
    let imports = library.imports().into_iter().flatten().flatten();
    Ok((
        exports.filter_map(|export| text(export.name())).collect(),
        imports.filter_map(|import| text(import.name())).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_symbols_are_parsed_from_linker_messages() {
        let lines = [
            "/usr/bin/ld: main.o: in function `main':",
            "main.c:(.text+0x5): undefined reference to `ggml_backend_is_cpu'",
            "rust-lld: error: undefined symbol: ggml_cpu_has_avx",
            "main.obj : error LNK2019: unresolved external symbol ggml_backend_cpu_init referenced in function main",
            "  \"_ggml_numa_init\", referenced from:",
        ];
        let found: Vec<String> = undefined(&lines).into_iter().collect();
        assert_eq!(
            found,
            ["ggml_backend_cpu_init", "ggml_backend_is_cpu", "ggml_cpu_has_avx", "ggml_numa_init"]
        );
        assert!(undefined(&["error: linking with `cc` failed"]).is_empty());
    }
}
