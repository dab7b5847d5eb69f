//! Cache entries and search paths for static, shared and dynamic linkage.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{HostPath, Os};

use super::groups::TreePart;
use super::make::PlanInputs;
use super::tree;
use crate::project::{Linkage, Project};

/// The reason why a project does not support a linkage with any backend.
#[must_use]
pub fn refusal(project: &Project, linkage: Linkage) -> Option<Reason> {
    let profile = &project.profile;
    if linkage == Linkage::Dynamic && profile.modules.is_none() {
        return Some(
            Reason::new(
                id!("plan.linkage-unsupported"),
                format!("the profile `{}` does not define how to build backends as modules", profile.id),
            )
            .hint("use `linkage = \"static\"` or `\"shared\"`"),
        );
    }
    let variants =
        project.file.backends.iter().find(|(_, table)| table.variants).map(|(backend, _)| *backend)?;
    let text = if linkage != Linkage::Dynamic {
        format!("`backends.{variants}.variants` needs modules, but the linkage is {}", linkage.id())
    } else if profile.modules.as_ref().is_some_and(|modules| !modules.variants.contains_key(&variants)) {
        format!("the profile `{}` does not define variants of {variants}", profile.id)
    } else {
        return None;
    };
    Some(
        Reason::new(id!("plan.variants-unsupported"), text)
            .hint("build them as modules (`--linkage dynamic`), or remove `variants`"),
    )
}

/// The cache entries of a tree for the linkage.
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
        // Relative search paths, so that the build folder can be moved.
        set("CMAKE_BUILD_WITH_INSTALL_RPATH", "ON");
        set("CMAKE_INSTALL_RPATH", &search_path(inputs, part).join(";"));
    }
    cache.extend(profile.shared.clone());
    if let (Linkage::Dynamic, Some(modules)) = (inputs.linkage, &profile.modules) {
        cache.extend(modules.options.clone());
    }
    cache
}

/// The options that build a backend once per processor level.
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

/// The token for the folder of the library or program itself in a run-time search path.
#[must_use]
pub fn own_folder(os: Os) -> &'static str {
    match os {
        Os::Macos => "@loader_path",
        Os::Linux | Os::Windows => "$ORIGIN",
    }
}

/// The run-time search path of a tree's libraries: their own folder, the folder of the base libraries, then the library
/// folders of their toolkits, except those that the system searches by default.
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
        let theirs = libraries.filter_map(HostPath::parent).filter(|folder| !is_excluded(folder));
        folders.extend(
            theirs.map(|folder| folder.forward_slashes()).filter(|folder| seen.insert(folder.clone())),
        );
    }
    folders
}

/// Whether to leave a folder out of search paths: the loader's default folders, and folders with stubs, which must never
/// be loaded.
fn is_excluded(folder: &HostPath) -> bool {
    let text = folder.as_str();
    folder.file_name() == Some("stubs") || text.starts_with("/usr/lib") || text.starts_with("/lib")
}
