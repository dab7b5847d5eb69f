//! How a project's libraries come into a program: in it, beside it, or opened by it.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{HostPath, Os};

use super::groups::TreePart;
use super::make::PlanInputs;
use super::tree;
use crate::project::{Linkage, Project};

/// Why a project cannot be linked in this way, whatever the backends.
#[must_use]
pub fn refusal(project: &Project, linkage: Linkage) -> Option<Reason> {
    let profile = &project.profile;
    if linkage == Linkage::Dynamic && profile.modules.is_none() {
        return Some(
            Reason::new(
                id!("plan.linkage-unsupported"),
                format!("the profile `{}` knows no way to build backends as modules", profile.id),
            )
            .hint("use `linkage = \"static\"` or `\"shared\"`"),
        );
    }
    let variants =
        project.file.backends.iter().find(|(_, table)| table.variants).map(|(backend, _)| *backend)?;
    let text = if linkage != Linkage::Dynamic {
        format!("`backends.{variants}.variants` needs modules, and the linkage is {}", linkage.id())
    } else if profile.modules.as_ref().is_some_and(|modules| !modules.variants.contains_key(&variants)) {
        format!("the profile `{}` builds no variants of {variants}", profile.id)
    } else {
        return None;
    };
    Some(
        Reason::new(id!("plan.variants-unsupported"), text)
            .hint("build them as modules (`--linkage dynamic`), or remove `variants`"),
    )
}

/// The cache entries that make a tree's libraries what the linkage says.
pub(super) fn entries(inputs: &PlanInputs<'_>, part: &TreePart) -> BTreeMap<String, String> {
    let profile = &inputs.project.profile;
    let mut cache = BTreeMap::new();
    let mut set = |name: &str, value: &str| cache.insert(name.to_owned(), value.to_owned());
    if inputs.linkage.is_static() {
        set("BUILD_SHARED_LIBS", "OFF");
        return cache;
    }
    set("BUILD_SHARED_LIBS", "ON");
    if inputs.facts.platform.os != Os::Windows {
        // What lies in one folder finds each other there, wherever the folder is.
        set("CMAKE_BUILD_WITH_INSTALL_RPATH", "ON");
        set("CMAKE_INSTALL_RPATH", &search_path(inputs, part).join(";"));
    }
    cache.extend(profile.shared.clone());
    if let (Linkage::Dynamic, Some(modules)) = (inputs.linkage, &profile.modules) {
        cache.extend(modules.options.clone());
    }
    cache
}

/// The options that build a backend once per level of processors.
pub(super) fn variants(inputs: &PlanInputs<'_>, backends: &[Backend]) -> BTreeMap<String, String> {
    let Some(modules) =
        inputs.project.profile.modules.as_ref().filter(|_| inputs.linkage == Linkage::Dynamic)
    else {
        return BTreeMap::new();
    };
    let wanted =
        |backend: &Backend| inputs.project.file.backends.get(backend).is_some_and(|table| table.variants);
    let options =
        modules.variants.iter().filter(|(backend, _)| backends.contains(backend) && wanted(backend));
    options.map(|(_, option)| (option.clone(), "ON".to_owned())).collect()
}

/// The word for the folder of the library itself, in a search path.
#[must_use]
pub fn own_folder(os: Os) -> &'static str {
    match os {
        Os::Macos => "@loader_path",
        Os::Linux | Os::Windows => "$ORIGIN",
    }
}

/// Where the libraries of a tree look for others: in their own folder, in that of the base libraries, and where their
/// toolkits have theirs, unless the system looks there anyway.
fn search_path(inputs: &PlanInputs<'_>, part: &TreePart) -> Vec<String> {
    let own = own_folder(inputs.facts.platform.os);
    let mut folders = vec![own.to_owned()];
    if part.folder.is_some() {
        folders.push(format!("{own}/.."));
    }
    let mut seen = BTreeSet::new();
    for backend in &part.backends {
        let Ok(Some(kit)) = tree::kit(inputs, *backend, part.requirement.as_deref()) else { continue };
        let paths = kit.installation.parts.values().filter_map(|part| part.path.as_ref());
        let libraries = paths.filter(|path| path.file_name().is_some_and(|name| name.contains(".so")));
        let theirs = libraries.filter_map(HostPath::parent).filter(|folder| !is_a_system_folder(folder));
        folders.extend(
            theirs.map(|folder| folder.forward_slashes()).filter(|folder| seen.insert(folder.clone())),
        );
    }
    folders
}

/// A folder that the loader knows, or one of stubs, in which no program may ever look.
fn is_a_system_folder(folder: &HostPath) -> bool {
    let text = folder.as_str();
    folder.file_name() == Some("stubs") || text.starts_with("/usr/lib") || text.starts_with("/lib")
}
