//! Presets for CMake: each tree of the last build as a configure preset and a build preset, so that editors open the same build.

use gpubuild_core::order::CollectSorted as _;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_plan::artifacts::{BuiltTree, Manifest};
use serde_json::{Map, Value, json};

use crate::cmake;
use crate::cmake::initial_cache::{entry_type, with_include};
use crate::exec::editor::EditorInfo;

/// The key in `vendor` of files that gpubuild wrote.
const VENDOR: &str = "gpubuild/1";

/// The presets of a source folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Presets {
    /// Names of the configure presets. The build presets have the same.
    pub names: Vec<String>,
    /// The content of the file.
    pub text: String,
}

/// Returns the presets of the trees that were built from a source folder; `None` if no tree was.
#[must_use]
pub fn of(host: &dyn ReadFiles, manifest: &Manifest, source: &HostPath) -> Option<Presets> {
    let real = |path: &HostPath| host.canonical(path).unwrap_or_else(|_| path.clone()).key();
    let folder = real(source);
    let is_here = |tree: &&BuiltTree| real(&host.path(&tree.source)) == folder;
    let trees: Vec<&BuiltTree> = manifest.trees.iter().filter(is_here).collect();
    if trees.is_empty() {
        return None;
    }
    let names: Vec<String> = trees.iter().map(|tree| format!("gpubuild-{}", tree.id)).collect();
    let (mut configure, mut build) = (Vec::new(), Vec::new());
    for (tree, name) in trees.into_iter().zip(&names) {
        let editor = EditorInfo::read(host, &host.path(&tree.build)).unwrap_or_default();
        configure.push(configure_preset(host, tree, &editor, name));
        build.push(build_preset(tree, &editor, name));
    }
    let content = json!({
        "version": 3,
        "cmakeMinimumRequired": minimum(),
        "vendor": { VENDOR: { "project": manifest.project } },
        "configurePresets": configure,
        "buildPresets": build,
    });
    let mut text = serde_json::to_string_pretty(&content).ok()?;
    text.push('\n');
    Some(Presets { names, text })
}

/// Whether gpubuild wrote a file with presets.
#[must_use]
pub fn is_own(text: &str) -> bool {
    let content: Option<Value> = serde_json::from_str(text).ok();
    content.is_some_and(|content| content["vendor"].get(VENDOR).is_some())
}

/// The version of CMake that reads the injected script.
fn minimum() -> Value {
    let mut numbers = cmake::OLDEST.split('.').filter_map(|number| number.parse::<u32>().ok());
    json!({ "major": numbers.next(), "minor": numbers.next(), "patch": 0 })
}

fn configure_preset(host: &dyn ReadFiles, tree: &BuiltTree, editor: &EditorInfo, name: &str) -> Value {
    let script = cmake::own_folder_in(&host.path(&tree.build)).join("inject.cmake");
    let cache = with_include(&tree.cache, &script.forward_slashes());
    let entry = |(name, value): (&String, &String)| {
        (name.clone(), json!({ "type": entry_type(name, value), "value": literal(value) }))
    };
    let backends: Vec<&str> = tree.backends.iter().map(|backend| backend.id()).collect();
    let mut preset = json!({
        "name": name,
        "displayName": format!("gpubuild: {}", backends.join(", ")),
        "description": format!("The tree `{}` of gpubuild, in its build folder", tree.id),
        "generator": tree.generator,
        "binaryDir": literal(&tree.build),
        "cacheVariables": cache.iter().map(entry).collect::<Map<_, _>>(),
    });
    if let Some(cmake) = &editor.cmake {
        preset["cmakeExecutable"] = literal(cmake).into();
    }
    if !editor.env.is_empty() {
        let literal = |(name, value): (&String, &String)| (name.clone(), literal(value));
        preset["environment"] = json!(editor.env.iter().map(literal).collect_map());
    }
    preset
}

fn build_preset(tree: &BuiltTree, editor: &EditorInfo, name: &str) -> Value {
    let mut preset = json!({ "name": name, "configurePreset": name });
    if !editor.targets.is_empty() {
        preset["targets"] = json!(editor.targets);
    }
    if cmake::is_multi_config(&tree.generator) {
        preset["configuration"] = json!(editor.configuration);
    }
    preset
}

/// A text in which CMake expands no macros.
fn literal(text: &str) -> String {
    text.replace('$', "${dollar}")
}
