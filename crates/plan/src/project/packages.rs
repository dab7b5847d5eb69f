//! CMake packages in the wheels of a Python environment, such as PyTorch's.

use std::collections::BTreeMap;

use gpubuild_host::{HostPath, Os, ReadFiles, search};

use super::profile::WheelPackage;

/// The folders of wheels that the build backend `gpubuild.build` sees: those of an isolated build, which no environment contains.
const FOLDERS: &str = "GPUBUILD_SITE_PACKAGES";
/// Variables that name the active environment.
const ACTIVE: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// The cache entry `NAME_DIR` of each package that is installed in the project's environment, else in the active one. Packages that a
/// variable of CMake locates are left out.
pub(super) fn find(
    host: &dyn ReadFiles,
    venv: Option<&HostPath>,
    packages: &[WheelPackage],
) -> BTreeMap<String, String> {
    if packages.is_empty() {
        return BTreeMap::new();
    }
    let folders = folders(host, venv);
    let is_located =
        |name: &str| ["_DIR", "_ROOT"].iter().any(|end| host.env().get(&format!("{name}{end}")).is_some());
    let located = |package: &WheelPackage| {
        let config = folders.iter().map(|folder| folder.join(&package.wheel).join(&package.config));
        let found = config.into_iter().find(|config| host.is_dir(config))?;
        Some((format!("{}_DIR", package.name), found.forward_slashes()))
    };
    packages.iter().filter(|package| !is_located(&package.name)).filter_map(located).collect()
}

/// The folders of wheels, in the order of the search.
fn folders(host: &dyn ReadFiles, venv: Option<&HostPath>) -> Vec<HostPath> {
    let (env, os) = (host.env(), host.platform().os);
    if let Some(list) = env.get(FOLDERS) {
        let separator = if os == Os::Windows { ';' } else { ':' };
        return list.split(separator).filter(|one| !one.is_empty()).map(|one| host.path(one)).collect();
    }
    let active = ACTIVE.iter().filter_map(|name| env.get(name)).map(|folder| host.path(folder));
    let inner = if os == Os::Windows { "Lib/site-packages" } else { "lib/python3*/site-packages" };
    venv.cloned()
        .into_iter()
        .chain(active)
        .flat_map(|folder| search::glob(host, folder.join(inner).as_str()))
        .collect()
}
