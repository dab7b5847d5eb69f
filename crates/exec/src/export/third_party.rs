//! Libraries that a project links and did not build, as part of an export.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_plan::artifacts::{LinkItem, Manifest};

use super::{LIB, PREFIX};

/// The folder for the DLLs of Windows.
const BIN: &str = "bin";

/// The third-party libraries of an export.
#[derive(Debug, Default)]
pub(super) struct ThirdParty {
    /// The libraries by their path in the export.
    pub(super) files: BTreeMap<String, HostPath>,
    /// Names of libraries that the machine of the user provides.
    pub(super) left: BTreeSet<String>,
    /// Whether any of the files is a shared library.
    pub(super) has_shared: bool,
    /// DLLs that were not found, with the import library that stands for each.
    pub(super) missing: BTreeMap<String, HostPath>,
}

impl ThirdParty {
    /// A manifest that links third-party libraries at their place in the export, and those that `is_provided` names by name. The libraries
    /// that the project built are at their place already.
    pub(super) fn moved(
        &mut self,
        host: &dyn ReadFiles,
        manifest: &Manifest,
        is_provided: &dyn Fn(&str) -> bool,
    ) -> Manifest {
        let (mut moved, os) = (manifest.clone(), manifest.os(host.platform().os));
        for tree in &mut moved.trees {
            let folder = |item: &LinkItem| match item {
                LinkItem::Search { path } => Some(host.path(path)),
                _ => None,
            };
            let folders: Vec<HostPath> = tree.link.iter().filter_map(folder).collect();
            let items = std::mem::take(&mut tree.link);
            tree.link = items
                .into_iter()
                .flat_map(|item| {
                    let path = match &item {
                        LinkItem::Shared { path } if path.starts_with(PREFIX) => {
                            return self.shared(os, path.clone());
                        }
                        LinkItem::Static { path } | LinkItem::Shared { path }
                            if !path.starts_with(PREFIX) =>
                        {
                            Some(host.path(path))
                        }
                        LinkItem::System { name } => find(host, os, &folders, name),
                        _ => None,
                    };
                    path.map_or_else(|| vec![item], |path| self.items(host, os, &path, is_provided))
                })
                .collect();
        }
        moved
    }

    fn items(
        &mut self,
        host: &dyn ReadFiles,
        os: Os,
        path: &HostPath,
        is_provided: &dyn Fn(&str) -> bool,
    ) -> Vec<LinkItem> {
        let file = path.file_name().unwrap_or_default();
        if is_archive(file) {
            if os == Os::Windows {
                self.dlls(host, path, is_provided);
            }
            let place = format!("{LIB}/{file}");
            let item = LinkItem::Static { path: format!("{PREFIX}/{place}") };
            self.files.insert(place, path.clone());
            return vec![item];
        }
        if is_provided(file) {
            self.left.insert(file.to_owned());
            return vec![LinkItem::System { name: linker_name(os, file).to_owned() }];
        }
        let inner = gpubuild_object::read(host, path, host.platform().arch).ok();
        let loaded = inner.and_then(|library| library.name).unwrap_or_else(|| file.to_owned());
        let place = format!("{LIB}/{}", loaded.rsplit('/').next().unwrap_or(file));
        let items = self.shared(os, format!("{PREFIX}/{place}"));
        self.files.insert(place, path.clone());
        items
    }

    /// Adds the DLLs that an import library stands for.
    fn dlls(&mut self, host: &dyn ReadFiles, import: &HostPath, is_provided: &dyn Fn(&str) -> bool) {
        for name in gpubuild_object::imported(host, import).unwrap_or_default() {
            if is_provided(&name) {
                self.left.insert(name);
            } else if let Some(path) = find_dll(host, import, &name) {
                self.files.insert(format!("{BIN}/{name}"), path);
            } else {
                self.missing.insert(name, import.clone());
            }
        }
    }

    /// Links a shared library of the export. A release contains no links, so the linker of Linux gets the complete name of a library with a
    /// version: `-l:libllama.so.0`.
    fn shared(&mut self, os: Os, path: String) -> Vec<LinkItem> {
        self.has_shared = true;
        match path.rsplit_once('/') {
            Some((folder, file)) if os == Os::Linux => vec![
                LinkItem::Search { path: folder.to_owned() },
                LinkItem::System { name: format!(":{file}") },
            ],
            _ => vec![LinkItem::Shared { path }],
        }
    }
}

/// Whether a file is a static library; also whether it is an import library of Windows, which is linked in the same way.
#[must_use]
pub fn is_archive(file: &str) -> bool {
    let extension = file.rsplit('.').next().unwrap_or_default();
    ["a", "lib"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// A library that is linked by name, in the folders of the link line.
fn find(host: &dyn ReadFiles, os: Os, folders: &[HostPath], name: &str) -> Option<HostPath> {
    let files = match os {
        Os::Windows => [format!("{name}.lib"), format!("lib{name}.a")],
        Os::Macos => [format!("lib{name}.dylib"), format!("lib{name}.a")],
        Os::Linux => [format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let mut paths = folders.iter().flat_map(|folder| files.iter().map(|file| folder.join(file)));
    paths.find(|path| host.is_file(path))
}

/// A DLL beside its import library or in `bin` beside or above its folder: CUDA has `lib/x64/cublas.lib` and `bin/x64/cublas64_13.dll`, or
/// the DLL in `bin`.
fn find_dll(host: &dyn ReadFiles, import: &HostPath, name: &str) -> Option<HostPath> {
    let folder = import.parent()?;
    let above = folder.parent();
    let top = above.as_ref().and_then(HostPath::parent);
    let mut folders = vec![folder.clone()];
    for bin in above.iter().chain(&top).map(|folder| folder.join(BIN)) {
        folders.extend(folder.file_name().map(|arch| bin.join(arch)));
        folders.push(bin);
    }
    folders.into_iter().map(|folder| folder.join(name)).find(|path| host.is_file(path))
}

/// The name for `-l` of a shared library: `cuda` of `libcuda.so.1`.
fn linker_name(os: Os, file: &str) -> &str {
    let stem = match os {
        Os::Linux => file.split(".so").next(),
        Os::Macos => file.split(".dylib").next(),
        Os::Windows => file.split('.').next(),
    };
    let stem = stem.unwrap_or(file);
    if os == Os::Windows { stem } else { stem.strip_prefix("lib").unwrap_or(stem) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_linker_have_no_version() {
        for (os, file, name) in [
            (Os::Linux, "libcuda.so.1", "cuda"),
            (Os::Linux, "libvulkan.so", "vulkan"),
            (Os::Macos, "libMoltenVK.dylib", "MoltenVK"),
            (Os::Windows, "OpenCL.dll", "OpenCL"),
        ] {
            assert_eq!(linker_name(os, file), name);
        }
        assert!(is_archive("libcudart_static.a") && is_archive("cudart.LIB") && !is_archive("liba.so"));
    }
}
