//! The script that is injected into a project's configuration (`inject.cmake`), with the names of a plan filled in.

use super::initial_cache::{MARK, bracket};
use super::unused;
use crate::plan::Tree;

/// The probe's name among the project's targets.
pub const PROBE: &str = "gpubuild_probe";

/// The script before the names of a plan are filled in.
pub const TEMPLATE: &str = include_str!("inject.cmake");

/// The script for a tree.
#[must_use]
pub fn script(tree: &Tree) -> String {
    let list = |names: &mut dyn Iterator<Item = &str>| {
        let joined: Vec<&str> = names.collect();
        bracket(&joined.join(";"))
    };
    TEMPLATE
        .replace("@TARGETS@", &list(&mut tree.targets.iter().map(String::as_str)))
        .replace("@WATCHED@", &list(&mut unused::watched(&tree.cache)))
        .replace("@SWITCHES@", &list(&mut unused::switches(&tree.cache)))
        .replace("@DEVICE_JOBS@", &bracket(&tree.jobs.device.to_string()))
        .replace("@MARK@", MARK)
}
