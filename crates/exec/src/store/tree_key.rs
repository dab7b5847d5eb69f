//! Computes the key of a complete tree before it is configured.

use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::plan::PlannedTree;

use super::contents::{Contents, FileTrait};
use super::implicit_inputs::{self, ExternalHashes};
use super::key::KeyParts;
use super::roots::TreeRoots;
use super::variables::tree_variables;

/// Version of keys and results. Must be incremented whenever gpubuild's output for the same input changes.
const SCHEMA: &str = "3";

/// Fields of a tree that do not affect the result.
const NOT_IN_KEY: [&str; 5] = ["id", "source", "build", "jobs", "named"];

/// Returns all parts of the key of a tree; `None` if the tree has inputs that cannot be determined.
///
/// # Panics
/// Never: plain data always serialises.
#[must_use]
pub fn parts(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    sources: &Contents,
    roots: &TreeRoots,
    tools: &[(&str, Option<&HostPath>)],
    external: &mut ExternalHashes<'_>,
) -> Option<KeyParts> {
    let mut parts = KeyParts::default();
    parts.set("gpubuild", "schema", SCHEMA);
    parts.set("gpubuild", "script", super::sha256(crate::cmake::inject::TEMPLATE.as_bytes()));
    let platform = host.platform();
    parts.set("gpubuild", "platform", format!("{:?} {:?}", platform.os, platform.arch));
    let value = roots.with_placeholders_in(serde_json::to_value(tree).expect("plain data serialises"));
    for (name, value) in value.as_object().into_iter().flatten() {
        let part = match name.as_str() {
            name if NOT_IN_KEY.contains(&name) => continue,
            "cache" => "options",
            "env" => "environment",
            _ => "plan",
        };
        match value.as_object() {
            // Ninja is identified by its hash under `programs`, not by its path.
            Some(items) => {
                for (name, value) in items.iter().filter(|(name, _)| *name != "CMAKE_MAKE_PROGRAM") {
                    set(&mut parts, part, name, &text(value));
                }
            }
            None => set(&mut parts, part, name, &text(&sorted(name, value))),
        }
    }
    let set = sources.variables(host.env()).into_iter().filter(|(_, hash)| !hash.is_empty());
    for (name, hash) in set {
        parts.set("environment", format!("${name}"), hash);
    }
    for (name, value) in tree_variables(host.env(), tree) {
        parts.set_hashed("environment", format!("${name}"), &roots.with_placeholders(value));
    }
    add_sources(host, tree, sources, &mut parts)?;
    add_programs(host, tree, roots, tools, external, &mut parts);
    implicit_inputs::packages(host, tree, &mut parts);
    // With `native` the compiler queries the GPU, which is not part of the key.
    let queries_device = ["CMAKE_CUDA_ARCHITECTURES", "CMAKE_HIP_ARCHITECTURES"];
    let queries_device =
        queries_device.iter().any(|name| tree.cache.get(*name).is_some_and(|value| value == "native"));
    (!queries_device).then_some(parts)
}

/// Sets an item. Values of environment variables are stored only as hashes.
fn set(parts: &mut KeyParts, part: &str, name: &str, value: &str) {
    if part == "environment" {
        parts.set_hashed(part, name, value);
    } else {
        parts.set_shown(part, name, value);
    }
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sorts the list of targets, whose order is irrelevant.
fn sorted(name: &str, value: &serde_json::Value) -> serde_json::Value {
    match value.as_array() {
        Some(items) if name == "targets" => {
            let mut items = items.clone();
            items.sort_indirect_by_key(ToString::to_string);
            items.into()
        }
        _ => value.clone(),
    }
}

/// Adds all files below the source folder. `None` if a file changed while it was read.
fn add_sources(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    sources: &Contents,
    parts: &mut KeyParts,
) -> Option<()> {
    let root = format!("{}/", tree.source.forward_slashes().trim_end_matches('/'));
    let mut asks_git = false;
    for (path, known) in &sources.files {
        let path = path.replace('\\', if host.platform().os == Os::Windows { "/" } else { "\\" });
        let name = path.strip_prefix(&root).unwrap_or(&path);
        if known.sha256.is_empty() {
            return None;
        }
        asks_git |= known.has(FileTrait::AsksGit);
        let mode = if known.stamp.executable { "+x" } else { "" };
        parts.set("sources", name, format!("{}{mode}", known.sha256));
    }
    if asks_git && let Some(state) = implicit_inputs::git_state(host, &tree.source) {
        parts.set("sources", ".git", state);
    }
    Some(())
}

fn add_programs(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    roots: &TreeRoots,
    tools: &[(&str, Option<&HostPath>)],
    external: &mut ExternalHashes<'_>,
    parts: &mut KeyParts,
) {
    let mut programs: Vec<(String, HostPath)> = Vec::new();
    for (name, path) in tools {
        if let Some(path) = path {
            // Only the hash is used, because the path of downloaded tools depends on the cache folder.
            let path = host.canonical(path).unwrap_or_else(|_| (*path).clone());
            if let Some(hash) = external.hash(path.as_str()) {
                parts.set("programs", *name, hash);
            }
        }
    }
    for (name, path) in implicit_inputs::programs(host) {
        match path {
            Some(path) => programs.push((name, path)),
            None => parts.set("programs", name, "absent"),
        }
    }
    programs.extend(implicit_inputs::named_programs(host, tree));
    let paths: Vec<String> = programs.iter().map(|(_, path)| path.to_string()).collect();
    for ((name, path), hash) in programs.iter().zip(external.hashes(&paths)) {
        if name == "CMAKE_MAKE_PROGRAM" {
            continue;
        }
        let hash = hash.unwrap_or_default();
        parts.set("programs", name, format!("{} {hash}", roots.with_placeholders(path.as_str())));
    }
}
