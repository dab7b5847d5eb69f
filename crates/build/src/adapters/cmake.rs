//! For crates that use the `cmake` crate.

use gpubuild_core::backend::Backend;
use gpubuild_plan::plan::PlannedTree;

use crate::Planned;

impl Planned {
    /// Applies the plan of a backend to a `cmake::Config`: cache entries, environment, generator. Defines that the crate sets
    /// later override them.
    pub fn apply_to_cmake<'a>(
        &self,
        backend: Backend,
        config: &'a mut cmake::Config,
    ) -> &'a mut cmake::Config {
        match self.tree(backend) {
            Some(tree) => apply_to_cmake(tree, config),
            None => config,
        }
    }
}

/// Applies the cache entries and environment of a tree to a crate's `cmake::Config`. Defines that the crate sets later
/// override them.
fn apply_to_cmake<'a>(tree: &PlannedTree, config: &'a mut cmake::Config) -> &'a mut cmake::Config {
    for (name, value) in &tree.cache {
        match name.as_str() {
            "CMAKE_BUILD_TYPE" => {
                config.profile(value);
            }
            _ => {
                config.define(name, value);
            }
        }
    }
    for (name, value) in &tree.env {
        config.env(name, value);
    }
    config.generator(&tree.generator)
}
