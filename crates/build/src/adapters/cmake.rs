//! For crates that use the `cmake` crate.

use gpubuild_core::backend::Backend;
use gpubuild_plan::plan::Tree;

use crate::Planned;

impl Planned {
    /// Puts what the plan says of a backend into a `cmake::Config`: cache entries, environment, generator. Defines that the
    /// crate sets later win.
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

/// Puts the cache entries and environment of a tree into the `cmake::Config` that a crate has already. Its own defines
/// that come later win.
fn apply_to_cmake<'a>(tree: &Tree, config: &'a mut cmake::Config) -> &'a mut cmake::Config {
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
