//! Which backends share one CMake tree.
//!
//! Backends that share compilers go into one tree, and what is in one tree may go into one program. With modules
//! (`linkage = "dynamic"`) those that clash get a tree each, in which only their module is built: the base libraries and
//! the processor's code come from the first tree.

use gpubuild_core::backend::Backend;

use super::make::{PlanInputs, rule_against};
use crate::project::Linkage;

/// The backends of one tree, and why they are apart from the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreePart {
    /// Id of the tree.
    pub(super) id: String,
    /// The backends.
    pub(super) backends: Vec<Backend>,
    /// What is built of the project itself.
    pub(super) role: TreeRole,
    /// Why it is apart.
    pub(super) why: Option<String>,
    /// The requirement on its toolkit that this tree is for, where there are several.
    pub(super) requirement: Option<String>,
    /// Folder of its modules, where another tree has some of the same name.
    pub(super) folder: Option<String>,
}

/// What a tree builds beside its backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeRole {
    /// The project's own libraries.
    Base,
    /// Nothing: the libraries of another tree are used.
    ModuleOnly,
}

impl TreePart {
    fn of(backends: Vec<Backend>, role: TreeRole) -> Self {
        let id = backends.iter().map(|backend| backend.id()).collect::<Vec<_>>().join("-");
        Self { id, backends, role, why: None, requirement: None, folder: None }
    }
}

/// Divides backends into trees; the first holds those that share everything.
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
            rule_against(inputs, backend, &together).filter(|_| dynamic).map(|(rule, _)| rule.reason.clone())
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
    // Somebody has to build the project's own libraries.
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

/// The tree of one of several toolkits: `cuda-12` for the requirement `12`.
fn one_of_several(backend: Backend, requirement: &str) -> TreePart {
    let plain: String =
        requirement.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' }).collect();
    let id = format!("{backend}-{}", plain.trim_matches('_'));
    TreePart {
        folder: Some(id.clone()),
        id,
        why: Some(format!("each toolkit of {backend} makes a module of its own")),
        requirement: Some(requirement.to_owned()),
        ..TreePart::of(vec![backend], TreeRole::ModuleOnly)
    }
}
