//! The key of a whole tree, before it is configured.

use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::plan::PlannedTree;

use super::contents::Contents;
use super::key::KeyParts;
use super::listened::listened;
use super::places::Places;
use super::surroundings::{self, RelocatedFolders};

/// Version of what is in a key and of what an entry holds. Raised whenever gpubuild makes something else of the same input.
const SCHEMA: &str = "2";

/// Fields of a tree that say where it is built and how fast, not what.
const NOT_IN_KEY: [&str; 5] = ["id", "source", "build", "jobs", "named"];

/// All parts of the key of a tree; `None` if it depends on what cannot be told.
///
/// # Panics
/// Never: plain data always serialises.
#[must_use]
pub fn parts(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    sources: &Contents,
    places: &Places,
    tools: &[(&str, Option<&HostPath>)],
    elsewhere: &mut RelocatedFolders<'_>,
) -> Option<KeyParts> {
    let mut parts = KeyParts::default();
    parts.set("gpubuild", "schema", SCHEMA);
    parts.set("gpubuild", "script", super::sha256(crate::cmake::inject::TEMPLATE.as_bytes()));
    let platform = host.platform();
    parts.set("gpubuild", "platform", format!("{:?} {:?}", platform.os, platform.arch));
    let value = places.take_out_of(serde_json::to_value(tree).expect("plain data serialises"));
    for (name, value) in value.as_object().into_iter().flatten() {
        let part = match name.as_str() {
            name if NOT_IN_KEY.contains(&name) => continue,
            "cache" => "options",
            "env" => "environment",
            _ => "plan",
        };
        match value.as_object() {
            // Which Ninja it is stands among the programs, wherever it lies.
            Some(items) => {
                for (name, value) in items.iter().filter(|(name, _)| *name != "CMAKE_MAKE_PROGRAM") {
                    set(&mut parts, part, name, &text(value));
                }
            }
            None => set(&mut parts, part, name, &text(&sorted(name, value))),
        }
    }
    for (name, value) in listened(host.env()) {
        parts.set_hashed("environment", format!("${name}"), &places.take_out(value));
    }
    add_sources(host, tree, sources, &mut parts)?;
    add_programs(host, tree, places, tools, elsewhere, &mut parts);
    surroundings::packages(host, tree, &mut parts);
    // A device that is asked while compiling is in none of these.
    let asks_device = ["CMAKE_CUDA_ARCHITECTURES", "CMAKE_HIP_ARCHITECTURES"];
    let asks_device =
        asks_device.iter().any(|name| tree.cache.get(*name).is_some_and(|value| value == "native"));
    (!asks_device).then_some(parts)
}

/// Values of variables are stored as hashes only.
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

/// The order of targets means nothing.
fn sorted(name: &str, value: &serde_json::Value) -> serde_json::Value {
    match value.as_array() {
        Some(items) if name == "targets" => {
            let mut items = items.clone();
            items.sort_by_key(ToString::to_string);
            items.into()
        }
        _ => value.clone(),
    }
}

/// Every file below the source folder. `None` if one cannot be read.
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
        asks_git |= known.asks_git;
        let mode = if known.stamp.executable { "+x" } else { "" };
        parts.set("sources", name, format!("{}{mode}", known.sha256));
    }
    if asks_git && let Some(state) = surroundings::git_state(host, &tree.source) {
        parts.set("sources", ".git", state);
    }
    Some(())
}

fn add_programs(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    places: &Places,
    tools: &[(&str, Option<&HostPath>)],
    elsewhere: &mut RelocatedFolders<'_>,
    parts: &mut KeyParts,
) {
    let mut programs: Vec<(String, HostPath)> = Vec::new();
    for (name, path) in tools {
        if let Some(path) = path {
            // Fetched tools lie in the cache, wherever that is: what they are counts.
            let path = host.canonical(path).unwrap_or_else(|_| (*path).clone());
            if let Some(hash) = elsewhere.hash(path.as_str()) {
                parts.set("programs", *name, hash);
            }
        }
    }
    for (name, path) in surroundings::programs(host) {
        match path {
            Some(path) => programs.push((name, path)),
            None => parts.set("programs", name, "absent"),
        }
    }
    programs.extend(surroundings::named_programs(host, tree));
    let paths: Vec<String> = programs.iter().map(|(_, path)| path.to_string()).collect();
    for ((name, path), hash) in programs.iter().zip(elsewhere.hashes(&paths)) {
        if name == "CMAKE_MAKE_PROGRAM" {
            continue;
        }
        let hash = hash.unwrap_or_default();
        parts.set("programs", name, format!("{} {hash}", places.take_out(path.as_str())));
    }
}
