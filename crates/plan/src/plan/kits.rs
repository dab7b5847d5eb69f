//! Converts the inventory into planner inputs: toolkits per backend, host compilers, build tools.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_detect::matrix::{Reason, install_command};
use gpubuild_detect::toolkit::description::{ArchRow, WheelName};
use gpubuild_detect::toolkit::{Catalogue, Description, Installation, Inventory};
use gpubuild_host::Platform;

use super::Fetch;
use super::make::{BuildKit, BuildTools, HostCompiler};
use crate::project::profile::Profile;

/// Role of compiler descriptions.
const HOST_COMPILER: &str = "host-compiler";

/// Ids of the tools that every build needs.
pub const BUILD_TOOLS: [&str; 2] = ["cmake", "ninja"];

/// The complete toolkit copies of each backend, the selected copy first.
#[must_use]
pub fn kits(
    inventory: &Inventory,
    catalogue: &Catalogue,
    platform: Platform,
) -> BTreeMap<Backend, Vec<BuildKit>> {
    let mut kits = BTreeMap::new();
    for backend in Backend::ALL {
        let Some(description) = catalogue.for_backend(backend) else { continue };
        let usable = usable(inventory, description, platform);
        if !usable.is_empty() {
            kits.insert(backend, usable);
        }
    }
    kits
}

/// Like [`kits`], but uses the toolkits that the project's profile requires. Also returns the reason for each of these
/// that is missing.
#[must_use]
pub fn kits_of_project(
    inventory: &Inventory,
    catalogue: &Catalogue,
    facts: &Facts,
    profile: &Profile,
) -> (BTreeMap<Backend, Vec<BuildKit>>, BTreeMap<Backend, Reason>) {
    let mut kits = kits(inventory, catalogue, facts.platform);
    let mut lacking = BTreeMap::new();
    for (backend, row) in &profile.backends {
        let Some(description) = row.toolkit.as_deref().and_then(|id| catalogue.get(id)) else { continue };
        let usable = usable(inventory, description, facts.platform);
        if usable.is_empty() {
            kits.remove(backend);
            let reason = Reason {
                hint: install_command(facts, &description.install),
                ..Reason::new(
                    id!("plan.toolkit-missing"),
                    format!(
                        "building the {backend} backend of {} requires the {}, which was not found",
                        profile.name, description.name
                    ),
                )
            };
            lacking.insert(*backend, reason);
        } else {
            kits.insert(*backend, usable);
        }
    }
    (kits, lacking)
}

/// The complete copies of one toolkit, the selected one first.
fn usable(inventory: &Inventory, description: &Description, platform: Platform) -> Vec<BuildKit> {
    let found = inventory.of(&description.id);
    let mut complete: Vec<&Installation> = found.iter().filter(|copy| copy.is_complete()).collect();
    complete.sort_indirect_by_key(|copy| !copy.chosen);
    complete.into_iter().map(|copy| kit(copy, description, platform)).collect()
}

fn kit(copy: &Installation, description: &Description, platform: Platform) -> BuildKit {
    let tables = &description.compatibility;
    // A copy of unknown version is most likely newer than every table row.
    let row = |rows: &[ArchRow]| match copy.version() {
        Some(version) => rows.iter().rfind(|row| row.since <= *version).cloned(),
        None => rows.last().cloned(),
    };
    let distributed = row(&tables.distribution).map(|row| row.archs).unwrap_or_default();
    BuildKit {
        installation: copy.clone(),
        settings: description.cmake_entries(copy, platform),
        archs: description.cuda_range(copy),
        default_cuda: distributed.iter().filter_map(|arch| arch.parse().ok()).collect(),
        default_gfx: distributed.into_iter().filter(|arch| arch.starts_with("gfx")).collect(),
        host_compilers: ["gcc", "clang"]
            .into_iter()
            .filter_map(|family| Some((family.to_owned(), description.host_compiler_window(copy, family)?)))
            .collect(),
    }
}

/// C and C++ compilers, ordered by the preference of their family; the selected copy of each family is first.
#[must_use]
pub fn compilers(inventory: &Inventory, catalogue: &Catalogue) -> Vec<HostCompiler> {
    let mut families: Vec<&Description> = catalogue.with_role(HOST_COMPILER).collect();
    families.sort_indirect_by_key(|family| family.preference);
    let mut compilers = Vec::new();
    for family in families {
        let mut copies: Vec<&Installation> =
            inventory.of(&family.id).iter().filter(|copy| copy.is_complete()).collect();
        copies.sort_indirect_by_key(|copy| !copy.chosen);
        compilers.extend(copies.into_iter().map(|copy| HostCompiler {
            family: family.id.clone(),
            version: copy.version().cloned(),
            c: copy.part("program").cloned(),
            cxx: copy.part("cxx").cloned(),
        }));
    }
    compilers
}

/// The wheel of a tool, if its description pins one.
#[must_use]
pub fn fetch(description: &Description) -> Option<Fetch> {
    description.wheel.as_ref().map(|wheel| of_wheel(&description.id, wheel))
}

/// Converts a pinned wheel of a description.
#[must_use]
pub fn of_wheel(tool: &str, wheel: &WheelName) -> Fetch {
    Fetch {
        tool: tool.to_owned(),
        version: wheel.version.to_string(),
        package: wheel.package.clone(),
        sha256: wheel.files.iter().map(|file| file.sha256.clone()).collect(),
        instead: wheel.instead.clone(),
        wheels: wheel.files.iter().map(|file| file.name.clone()).collect(),
        file: BTreeMap::new(),
    }
}

/// CMake and Ninja: the installed ones if their versions are supported, otherwise the pinned wheels. `cmake` is the oldest version of
/// CMake that the project needs.
#[must_use]
pub fn tools(inventory: &Inventory, catalogue: &Catalogue, cmake: Option<&Version>) -> BuildTools {
    let mut tools = BuildTools::default();
    for id in BUILD_TOOLS {
        let Some(description) = catalogue.get(id) else { continue };
        let minimum = description.minimum.as_ref().max(cmake.filter(|_| id == "cmake"));
        let new_enough = |version: Option<&Version>| match (minimum, version) {
            (Some(minimum), Some(version)) => version >= minimum,
            _ => true,
        };
        let program = inventory
            .chosen(id)
            .filter(|copy| new_enough(copy.version()))
            .and_then(|copy| copy.part("program").cloned());
        if program.is_none() {
            tools.fetch.extend(fetch(description));
        }
        match id {
            "cmake" => tools.cmake = program,
            _ => tools.ninja = program,
        }
    }
    tools
}
