//! What has to agree before two copies of a library may meet in one program, read from the project as it was configured.

use std::collections::BTreeMap;

use crate::cmake::file_api::Reply;
use crate::host::Host;
use crate::plan::Tree;
use crate::plan::profile::Abi;

/// Definitions with their values, hashes of headers, and the version; what the project does not have is left out.
pub(super) fn read(host: &dyn Host, tree: &Tree, abi: &Abi, reply: &Reply) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut defaults = BTreeMap::new();
    for header in &abi.headers {
        let Ok(text) = host.read_text(&tree.source.join(header)) else { continue };
        let name = header.rsplit('/').next().unwrap_or(header);
        found.insert(name.to_owned(), crate::store::sha256(text.as_bytes()));
        for define in &abi.defines {
            if let Some(value) = default_of(&text, define) {
                defaults.entry(define.clone()).or_insert(value);
            }
        }
    }
    let set = reply.target(&abi.target).map(|target| target.defines.as_slice()).unwrap_or_default();
    for define in &abi.defines {
        let value = set.iter().find_map(|text| match text.split_once('=') {
            Some((name, value)) => (name == define).then(|| value.to_owned()),
            None => (text == define).then(|| "1".to_owned()),
        });
        if let Some(value) = value.or_else(|| defaults.remove(define)) {
            found.insert(define.clone(), value);
        }
    }
    let version = abi
        .version
        .iter()
        .find_map(|place| version(&host.read_text(&tree.source.join(&place.file)).ok()?, &place.prefix));
    found.extend(version.map(|version| ("version".to_owned(), version)));
    found
}

/// The value in a line `#define NAME value`, without a remark behind it.
fn default_of(header: &str, name: &str) -> Option<String> {
    header.lines().find_map(|line| {
        let line = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = line.trim_start().strip_prefix(name)?;
        let value = rest.strip_prefix([' ', '\t'])?.split("//").next()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    })
}

/// `0.25.3` of three lines `set(PREFIX_MAJOR 0)`.
fn version(script: &str, prefix: &str) -> Option<String> {
    let part = |part: &str| {
        let start = format!("set({prefix}_{part} ");
        let (_, rest) = script.split_once(&start)?;
        Some(rest.split(')').next()?.trim().to_owned())
    };
    Some(format!("{}.{}.{}", part("MAJOR")?, part("MINOR")?, part("PATCH")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_stand_in_headers() {
        let header = "#ifndef GGML_MAX_NAME\n#   define GGML_MAX_NAME        64 // bytes\n#endif\n#define GGML_MAX_NAMES 3\n";
        assert_eq!(default_of(header, "GGML_MAX_NAME").as_deref(), Some("64"));
        assert_eq!(default_of(header, "GGML_MAX"), None);
    }

    #[test]
    fn the_version_has_three_parts() {
        let script = "set(GGML_VERSION_MAJOR 0)\nset(GGML_VERSION_MINOR 25)\nset(GGML_VERSION_PATCH 3)\n";
        assert_eq!(version(script, "GGML_VERSION").as_deref(), Some("0.25.3"));
        assert_eq!(version(script, "LLAMA_VERSION"), None);
    }
}
