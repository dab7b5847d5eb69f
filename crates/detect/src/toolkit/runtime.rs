//! Finds what backends require at run time: loader, drivers behind it, device nodes. Only reads files, folders and the registry; loads
//! no library.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::library::LibraryLoader;
use gpubuild_host::{HostPath, InspectHost, Os, ReadFiles, ReadRegistry};

use super::description::{DriverDescription, ManifestForm, NodeDescription, RuntimeDescription};
use super::pattern::{extract, fill};
use super::places::{expand, programs};
use super::{Catalogue, DeviceNode, NodeState, RuntimeDriver, ToolkitRuntime};
use crate::facts::Fact;
use crate::finding::Evidence;

/// Largest manifest of a driver in bytes. Larger ones are ignored.
const MAX_MANIFEST: usize = 1 << 20;
/// The registry key of Windows display adapters.
const ADAPTERS: &str = r"HKLM\SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}";

/// The runtimes of all described backends.
pub(super) fn probe(
    host: &dyn InspectHost,
    catalogue: &Catalogue,
    path: &[HostPath],
) -> BTreeMap<Backend, ToolkitRuntime> {
    let mut runtimes = BTreeMap::new();
    let loader = LibraryLoader::new(host);
    for backend in Backend::ALL {
        let description = catalogue.for_backend(backend).and_then(|one| one.runtime.as_ref());
        if let Some(description) = description {
            runtimes.insert(backend, one(host, &loader, backend, description, path));
        }
    }
    runtimes
}

fn one(
    host: &dyn InspectHost,
    libraries: &LibraryLoader<'_>,
    backend: Backend,
    description: &RuntimeDescription,
    path: &[HostPath],
) -> ToolkitRuntime {
    let os = host.platform().os;
    let names = description.loader.get(&os).map_or(&[][..], Vec::as_slice);
    let folders = folders(host, description.folders.get(&os));
    let loader = names.iter().find_map(|name| find_library(host, libraries, name, &folders));
    let version = loader.as_ref().and_then(|loader| library_version(host, description, &loader.value));
    let drivers = description.drivers.as_ref();
    let drivers = drivers.map(|drivers| self::drivers(host, libraries, drivers)).unwrap_or_default();
    let nodes = if os == Os::Linux {
        description
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(group, node)| self::nodes(host, node, group, path))
            .collect()
    } else {
        Vec::new()
    };
    ToolkitRuntime { backend, loader, version, drivers, nodes }
}

fn folders(host: &dyn InspectHost, templates: Option<&Vec<String>>) -> Vec<HostPath> {
    templates
        .into_iter()
        .flatten()
        .filter_map(|template| fill(template, host))
        .flat_map(|pattern| expand(host, &pattern))
        .collect()
}

fn find_library(
    host: &dyn ReadFiles,
    libraries: &LibraryLoader<'_>,
    name: &str,
    folders: &[HostPath],
) -> Option<Fact<HostPath>> {
    let by_loader = libraries.find(name);
    let (path, via) = by_loader.map(|path| (path, "loader")).or_else(|| {
        folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| host.is_file(path))
            .map(|path| (path, "folder"))
    })?;
    let evidence = Evidence::file(path.as_str(), "present");
    Some(Fact { value: path, found_via: via.to_owned(), evidence: vec![evidence] })
}

fn library_version(
    host: &dyn ReadFiles,
    description: &RuntimeDescription,
    library: &HostPath,
) -> Option<Fact<Version>> {
    let real = host.canonical(library).ok()?;
    let value = extract(description.version.as_ref()?, real.file_name()?)?;
    // ABI versions (`libcuda.so.1`, in WSL `libcuda.so.1.1`) are not driver versions.
    let is_driver_version = value.as_str().contains('.') && value.major() >= 10;
    let evidence = Evidence::file(real.as_str(), "name");
    is_driver_version.then(|| Fact { value, found_via: "path".to_owned(), evidence: vec![evidence] })
}

fn drivers(
    host: &dyn InspectHost,
    libraries: &LibraryLoader<'_>,
    description: &DriverDescription,
) -> Vec<RuntimeDriver> {
    let os = host.platform().os;
    let named = description.library_env.as_ref().and_then(|name| host.env().get(name)).unwrap_or_default();
    let mut found: Vec<RuntimeDriver> = paths_in(host, named)
        .map(|path| {
            let is_found = is_present(host, libraries, None, path.as_str());
            driver(description, path.clone(), path.to_string(), is_found)
        })
        .collect();
    for manifest in manifests(host, description) {
        let known = found.iter().any(|driver| driver.manifest.key() == manifest.key());
        if !known && let Some(driver) = read_manifest(host, libraries, description, &manifest) {
            found.push(driver);
        }
    }
    for name in description.libraries.get(&os).into_iter().flatten() {
        if let Some(library) = find_library(host, libraries, name, &[]) {
            found.push(driver(description, library.value, name.clone(), true));
        }
    }
    found
}

fn manifests(host: &dyn InspectHost, description: &DriverDescription) -> Vec<HostPath> {
    let os = host.platform().os;
    let list = |name: &String| host.env().get(name).map(|value| listed(host, description, value));
    let added: Vec<HostPath> = description.add_env.iter().filter_map(list).flatten().collect();
    if let Some(replaced) = description.env.iter().find_map(list) {
        return replaced.into_iter().chain(added).collect();
    }
    if let Some(only) = description.folder_env.as_ref().and_then(|name| host.env().get(name)) {
        return listed(host, description, only);
    }
    let mut manifests = added;
    for folder in folders(host, description.folders.get(&os)) {
        manifests.extend(in_folder(host, description, &folder));
    }
    if os == Os::Windows {
        manifests.extend(registered(host, description));
    }
    manifests
}

/// The manifests in a variable: files, or folders with manifests.
fn listed(host: &dyn ReadFiles, description: &DriverDescription, value: &str) -> Vec<HostPath> {
    paths_in(host, value)
        .flat_map(|path| if host.is_dir(&path) { in_folder(host, description, &path) } else { vec![path] })
        .collect()
}

fn paths_in<'a>(host: &'a dyn ReadFiles, value: &'a str) -> impl Iterator<Item = HostPath> + 'a {
    let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
    value.split(separator).filter(|text| !text.is_empty()).map(|text| host.path(text))
}

fn in_folder(host: &dyn ReadFiles, description: &DriverDescription, folder: &HostPath) -> Vec<HostPath> {
    let ending = format!(".{}", description.extension);
    let names = host.list(folder).unwrap_or_default();
    names.iter().filter(|name| name.ends_with(&ending)).map(|name| folder.join(name)).collect()
}

fn registered(host: &dyn ReadRegistry, description: &DriverDescription) -> Vec<HostPath> {
    let mut manifests = Vec::new();
    if let Some(value) = &description.adapter_value {
        for adapter in host.registry_keys(ADAPTERS) {
            if let Some(entry) = host.registry_value(&format!("{ADAPTERS}\\{adapter}"), value) {
                manifests.extend(entry.text.lines().map(|line| host.path(line.trim())));
            }
        }
    }
    for key in &description.registry {
        // The name of the value is the manifest's path. The data is 0 if it is enabled.
        let enabled = host.registry_values(key).into_iter().filter(|(_, value)| value.text == "0");
        manifests.extend(enabled.map(|(name, _)| host.path(&name)));
    }
    manifests
}

fn read_manifest(
    host: &dyn ReadFiles,
    libraries: &LibraryLoader<'_>,
    description: &DriverDescription,
    manifest: &HostPath,
) -> Option<RuntimeDriver> {
    // In the Windows registry, a library can be listed instead of a manifest.
    let is_library = manifest.file_name().is_some_and(|name| name.to_lowercase().ends_with(".dll"));
    let library = if is_library {
        manifest.to_string()
    } else {
        let text =
            host.read_start(manifest, MAX_MANIFEST + 1).ok().filter(|text| text.len() <= MAX_MANIFEST)?;
        let text = String::from_utf8_lossy(&text);
        match description.form {
            ManifestForm::VulkanJson => {
                crate::json::parse(&text)?.get("ICD")?.get("library_path")?.as_str()?.to_owned()
            }
            ManifestForm::IcdText => text.lines().map(str::trim).find(|line| !line.is_empty())?.to_owned(),
            ManifestForm::Library => return None,
        }
    };
    let found = is_present(host, libraries, manifest.parent().as_ref(), &library);
    Some(driver(description, manifest.clone(), library, found))
}

/// Whether a library exists: a path, absolute or relative to a folder, or a name that the loader finds.
fn is_present(
    host: &dyn ReadFiles,
    libraries: &LibraryLoader<'_>,
    folder: Option<&HostPath>,
    library: &str,
) -> bool {
    let path = host.path(library);
    let has_folder = library.contains('/') || (host.platform().os == Os::Windows && library.contains('\\'));
    if path.is_absolute() {
        host.is_file(&path)
    } else if has_folder {
        folder.is_some_and(|folder| host.is_file(&folder.join(path.as_str()).normalized()))
    } else {
        find_library(host, libraries, library, &[]).is_some()
    }
}

fn driver(
    description: &DriverDescription,
    manifest: HostPath,
    library: String,
    found: bool,
) -> RuntimeDriver {
    let name = manifest.file_name().unwrap_or_default().to_lowercase();
    let library_name = library.rsplit(['/', '\\']).next().unwrap_or_default().to_lowercase();
    let known =
        description.known.iter().find(|one| name.contains(&one.has) || library_name.contains(&one.has));
    RuntimeDriver {
        manifest,
        library,
        found,
        software: known.and_then(|one| one.software.clone()),
        vendors: known.map(|one| one.vendors.clone()).unwrap_or_default(),
        kernel_drivers: known.map(|one| one.kernel_drivers.clone()).unwrap_or_default(),
    }
}

/// The nodes of the first alternative that exists. If none exists, the first alternative is returned as missing.
fn nodes(host: &dyn InspectHost, node: &NodeDescription, group: usize, path: &[HostPath]) -> Vec<DeviceNode> {
    let paths = node.paths.iter().map(|pattern| expand(host, pattern)).find(|found| !found.is_empty());
    let Some(paths) = paths else {
        let made_on_demand =
            node.made_by.as_ref().is_some_and(|program| !programs(host, path, program).is_empty());
        let missing = node.missing.filter(|_| !made_on_demand);
        let first = node.paths.first().map(|first| host.path(first));
        return first
            .map(|path| DeviceNode {
                path,
                state: NodeState::Missing,
                gid: None,
                group,
                missing,
                denied: node.denied,
            })
            .into_iter()
            .collect();
    };
    paths
        .into_iter()
        .map(|path| DeviceNode {
            state: match host.open_device(&path) {
                Ok(()) => NodeState::Opens,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => NodeState::Denied,
                Err(error) if error.kind() == ErrorKind::NotFound => NodeState::Missing,
                Err(_) => NodeState::Failed,
            },
            gid: host.stat(&path).ok().and_then(|stat| stat.owner).map(|owner| owner.gid),
            path,
            group,
            missing: node.missing,
            denied: node.denied,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::{Arch, HostInfo, RecordedHost};

    #[test]
    fn large_manifests_are_ignored() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .file("/a.icd", "/lib/a.so\n")
            .file("/b.icd", &format!("/lib/b.so\n{}", " ".repeat(MAX_MANIFEST)))
            .build();
        let libraries = LibraryLoader::new(&host);
        let description = DriverDescription { form: ManifestForm::IcdText, ..DriverDescription::default() };
        let read = |path: &str| read_manifest(&host, &libraries, &description, &host.path(path));
        assert!(read("/a.icd").is_some() && read("/b.icd").is_none());
    }
}
