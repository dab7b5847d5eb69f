//! Observations that depend on a dependency graph: copies of missing libraries, rocBLAS' kernel files, Apple's Rosetta.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_detect::toolkit::Inventory;
use gpubuild_detect::toolkit::libraries::{self, LibraryRole};
use gpubuild_host::{HostPath, Os, ReadFiles, glob};
use gpubuild_object::ObjectFormat;
use gpubuild_object::graph::{EdgeTarget, Graph};

use super::verdicts::GraphObservations;

/// Makes the observations for a graph.
#[must_use]
pub(super) fn gather(host: &dyn ReadFiles, inventory: &Inventory, graph: &Graph) -> GraphObservations {
    GraphObservations {
        elsewhere: elsewhere(host, inventory, graph),
        rocblas: rocblas(host, graph),
        translates: host.platform().os == Os::Macos
            && host.exists(&host.path("/Library/Apple/usr/share/rosetta")),
    }
}

/// Folders that contain a missing library, by the library's name.
fn elsewhere(host: &dyn ReadFiles, inventory: &Inventory, graph: &Graph) -> BTreeMap<String, HostPath> {
    let mut found = BTreeMap::new();
    let missing = graph.links.iter().filter(|link| link.target == EdgeTarget::Missing);
    let mut folders: Option<Vec<HostPath>> = None;
    for link in missing {
        let name = &link.needed.name;
        let leaf = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let is_driver = libraries::find(leaf).is_some_and(|library| library.role == LibraryRole::Driver);
        let folder = if is_driver {
            // Toolkits have stubs with the driver's name, so only the detected driver library counts.
            let mut known = inventory.runtimes.values().filter_map(|runtime| runtime.loader.as_ref());
            let known = known.find(|fact| fact.value.file_name() == Some(leaf));
            known.and_then(|fact| fact.value.parent())
        } else {
            let folders = folders.get_or_insert_with(|| candidates(host, inventory));
            folders.iter().find(|folder| host.is_file(&folder.join(leaf))).cloned()
        };
        if let Some(folder) = folder {
            found.insert(name.clone(), folder);
        }
    }
    found
}

/// Library folders of toolkits and of Python environments.
fn candidates(host: &dyn ReadFiles, inventory: &Inventory) -> Vec<HostPath> {
    const BELOW: [&str; 7] =
        ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "bin", "bin/x64", "lib/x64"];
    let mut folders = Vec::new();
    for installation in inventory.installations.values().flatten().filter(|one| is_sdk(&one.toolkit)) {
        folders.extend(BELOW.iter().map(|below| installation.root.join(below)));
    }
    let env = host.env();
    let prefix = |name: &str| env.get(name).filter(|value| !value.is_empty()).map(|value| host.path(value));
    for root in ["CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH", "VULKAN_SDK"]
        .iter()
        .filter_map(|name| prefix(name))
    {
        folders.extend(BELOW.iter().map(|below| root.join(below)));
    }
    for prefix in ["CONDA_PREFIX", "VIRTUAL_ENV"].iter().filter_map(|name| prefix(name)) {
        folders.extend(["lib", "Library/bin"].map(|below| prefix.join(below)));
        for wheels in [
            "lib/python3.*/site-packages/nvidia/*/lib",
            "Lib/site-packages/nvidia/*/bin",
            "Lib/site-packages/nvidia/*/bin/x86_64",
        ] {
            folders.extend(glob(host, prefix.join(wheels).as_str()));
        }
    }
    folders
}

/// Whether programs load libraries of a toolkit.
fn is_sdk(toolkit: &str) -> bool {
    matches!(toolkit, "cuda" | "rocm" | "oneapi" | "vulkan" | "opencl")
}

/// Architectures of the kernel files (`TensileLibrary_lazy_gfx1100.dat`) next to each loaded rocBLAS, by the library's path.
fn rocblas(host: &dyn ReadFiles, graph: &Graph) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for object in &graph.objects {
        let is_rocblas = object.name().starts_with("librocblas.so") || object.name() == "rocblas.dll";
        let is_known = graph
            .objects
            .first()
            .and_then(|file| file.binary())
            .is_some_and(|binary| matches!(binary.format, ObjectFormat::Elf | ObjectFormat::Pe));
        let folder = [&object.path, &object.real].iter().find_map(|path| {
            let folder = path.parent()?.join("rocblas/library");
            host.list(&folder).ok()
        });
        if let Some(names) = folder.filter(|_| is_rocblas && is_known) {
            let archs = names.iter().filter_map(|name| arch(name)).collect();
            found.insert(object.path.to_string(), archs);
        }
    }
    found
}

/// The architecture in the name of a kernel file of rocBLAS.
fn arch(name: &str) -> Option<String> {
    let rest = name.strip_prefix("TensileLibrary_")?;
    let digits = &rest[rest.find("gfx")? + 3..];
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    (end > 2).then(|| format!("gfx{}", &digits[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architecture_is_parsed_from_the_file_name() {
        assert_eq!(arch("TensileLibrary_lazy_gfx90a.dat").as_deref(), Some("gfx90a"));
        assert_eq!(
            arch("TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx1100.co").as_deref(),
            Some("gfx1100")
        );
        assert_eq!(arch("TensileManifest.txt"), None);
        assert_eq!(arch("TensileLibrary_gfx.dat"), None);
    }
}
