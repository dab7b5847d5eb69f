//! Renders `inject.cmake`, the script that is injected when a project is configured, with the names of a plan.

use gpubuild_core::shell::cmake_bracket;
use gpubuild_plan::plan::PlannedTree;

use super::initial_cache::MARK;
use super::unused;

/// Name of the probe target.
pub const PROBE: &str = "gpubuild_probe";

/// The script with `@NAME@` placeholders.
pub const TEMPLATE: &str = include_str!("inject.cmake");

/// Renders the script for a tree.
#[must_use]
pub fn script(tree: &PlannedTree) -> String {
    let list = |names: &mut dyn Iterator<Item = &str>| {
        let joined: Vec<&str> = names.collect();
        cmake_bracket(&joined.join(";"))
    };
    // `a|b`, or `a|b?` if the target is optional. Target names cannot contain these characters.
    let choices: Vec<String> = tree
        .choices
        .iter()
        .map(|choice| format!("{}{}", choice.any.join("|"), if choice.optional { "?" } else { "" }))
        .collect();
    let shims =
        if tree.shims.is_empty() { String::new() } else { super::shim_folder(tree).forward_slashes() };
    TEMPLATE
        .replace("@TARGETS@", &list(&mut tree.targets.iter().map(String::as_str)))
        .replace("@CHOICES@", &list(&mut choices.iter().map(String::as_str)))
        .replace("@WATCHED@", &list(&mut unused::watched(&tree.cache)))
        .replace("@SWITCHES@", &list(&mut unused::switches(&tree.cache)))
        .replace("@DEVICE_JOBS@", &cmake_bracket(&tree.jobs.device.to_string()))
        .replace("@SHIMS@", &cmake_bracket(&shims))
        .replace("@MARK@", MARK)
}
