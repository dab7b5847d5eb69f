//! Divides backends into CMake trees.
//!
//! Backends whose compilers work together share a tree, and the libraries of one tree can be linked into one program. With
//! modules (`linkage = "dynamic"`), each backend that conflicts with others gets a separate tree that builds only its
//! module; the base libraries and the `cpu` backend come from the first tree.

use gpubuild_core::backend::Backend;

use super::make::{PlanInputs, conflict_rule};
use crate::project::Linkage;

/// The backends of one tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreePart {
    /// Id of the tree.
    pub(super) id: String,
    /// The backends in it.
    pub(super) backends: Vec<Backend>,
    /// Whether the tree builds the project's base libraries.
    pub(super) role: TreeRole,
    /// Why the tree is separate.
    pub(super) why: Option<String>,
    /// The version requirement on its toolkit, if the project builds the backend with several toolkits.
    pub(super) requirement: Option<String>,
    /// Subfolder for its modules, if another tree has modules of the same name.
    pub(super) folder: Option<String>,
}

/// What a tree builds in addition to its backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeRole {
    /// The project's base libraries.
    Base,
    /// Nothing: the modules use the base libraries of another tree.
    ModuleOnly,
}

impl TreePart {
    fn of(backends: Vec<Backend>, role: TreeRole) -> Self {
        let id = backends.iter().map(|backend| backend.id()).collect::<Vec<_>>().join("-");
        Self { id, backends, role, why: None, requirement: None, folder: None }
    }
}

/// Divides backends into trees. The first tree contains all backends without a reason to be separate.
pub(super) fn divide(inputs: &PlanInputs<'_>, backends: &[Backend]) -> Vec<TreePart> {
    let dynamic = inputs.linkage == Linkage::Dynamic;
    let mut together: Vec<Backend> = Vec::new();
    let mut apart: Vec<TreePart> = Vec::new();
    let role = if dynamic { TreeRole::ModuleOnly } else { TreeRole::Base };
    for &backend in backends {
        let requirements = requirements(inputs, backend);
        if dynamic && requirements.len() > 1 {
            apart.extend(requirements.iter().map(|text| one_of_several(backend, text)));
            continue;
        }
        let why = apart_because(inputs, backend).or_else(|| {
            conflict_rule(inputs, backend, &together).filter(|_| dynamic).map(|(rule, _)| rule.reason.clone())
        });
        match why {
            Some(why) => apart.push(TreePart { why: Some(why), ..TreePart::of(vec![backend], role) }),
            None => together.push(backend),
        }
    }
    let mut parts = apart;
    if !together.is_empty() {
        parts.insert(0, TreePart::of(together, TreeRole::Base));
    }
    // Exactly one tree must build the base libraries.
    if let Some(first) = parts.first_mut() {
        first.role = TreeRole::Base;
    }
    parts
}

fn apart_because(inputs: &PlanInputs<'_>, backend: Backend) -> Option<String> {
    let os = inputs.facts.platform.os;
    let rule = inputs.project.profile.separate.iter().find(|rule| rule.holds(backend, os))?;
    Some(rule.reason.clone())
}

fn requirements<'a>(inputs: &PlanInputs<'a>, backend: Backend) -> &'a [String] {
    inputs.project.file.backends.get(&backend).map_or(&[], |table| table.toolkits.as_slice())
}

/// The tree for one of several toolkits: `cuda-12` for the requirement `12`.
fn one_of_several(backend: Backend, requirement: &str) -> TreePart {
    let plain: String =
        requirement.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    let id = format!("{backend}-{}", plain.trim_matches('_'));
    TreePart {
        folder: Some(id.clone()),
        id,
        why: Some(format!("each {backend} toolkit builds a separate module")),
        requirement: Some(requirement.to_owned()),
        ..TreePart::of(vec![backend], TreeRole::ModuleOnly)
    }
}
