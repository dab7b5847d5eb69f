//! CMake packages in the wheels of a Python environment, such as PyTorch's.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::{HostPath, Os, ReadFiles, search};

use super::profile::{PackageToolkit, WheelPackage};

/// The folders of wheels that the build backend `gpubuild.build` sees: those of an isolated build, which no environment contains.
const FOLDERS: &str = "GPUBUILD_SITE_PACKAGES";
/// Variables that name the active environment.
const ACTIVE: [&str; 2] = ["VIRTUAL_ENV", "CONDA_PREFIX"];

/// The CMake packages in the Python environment of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Packages {
    /// Cache entries: `Torch_DIR`.
    pub(super) entries: BTreeMap<String, String>,
    /// The toolkits that they were built with.
    pub(super) toolkits: Vec<BuiltWith>,
}

/// A toolkit that a package was built with, and that its CMake configuration looks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltWith {
    /// The backend of the toolkit.
    pub backend: Backend,
    /// Folder of the Python package.
    pub package: HostPath,
    /// Version of the toolkit.
    pub version: Version,
    /// Cache entries that locate the toolkit, with `{root}` and `{headers}`.
    pub options: BTreeMap<String, String>,
    /// Variables that locate the toolkit, with `{root}`.
    pub environment: BTreeMap<String, String>,
    /// Folders with headers of the toolkit's libraries.
    pub headers: Vec<HostPath>,
    /// The oldest CMake that compiles for this toolkit.
    pub cmake: Option<Version>,
}

impl BuiltWith {
    /// The requirement on the toolkit: the same major version.
    #[must_use]
    pub fn requirement(&self) -> String {
        self.version.as_str().split('.').next().unwrap_or_default().to_owned()
    }

    /// How to get the toolkit. `gpubuild toolkit install` has several releases of CUDA only.
    #[must_use]
    pub fn hint(&self) -> String {
        let (backend, release) = (self.backend, self.requirement());
        match backend {
            Backend::Cuda => format!("gpubuild toolkit install {backend}@{release}"),
            _ => format!(
                "install {backend} {release} from its vendor, or a build of the package without {backend}"
            ),
        }
    }

    /// The variables for a copy of the toolkit.
    pub(crate) fn variables(&self, root: &HostPath) -> impl Iterator<Item = (String, String)> {
        let root = root.forward_slashes();
        self.environment.iter().map(move |(name, value)| (name.clone(), value.replace("{root}", &root)))
    }

    /// The cache entries for a copy of the toolkit.
    #[must_use]
    pub fn entries(&self, root: &HostPath) -> BTreeMap<String, String> {
        let root = root.forward_slashes();
        let headers: Vec<String> = self.headers.iter().map(HostPath::forward_slashes).collect();
        let usable =
            self.options.iter().filter(|(_, value)| !headers.is_empty() || !value.contains("{headers}"));
        let filled = |value: &str| value.replace("{root}", &root).replace("{headers}", &headers.join(";"));
        usable.map(|(name, value)| (name.clone(), filled(value))).collect()
    }
}

/// The packages that are installed in the project's environment, else in the active one. Packages that a variable of CMake locates are
/// left out.
pub(super) fn find(host: &dyn ReadFiles, venv: Option<&HostPath>, packages: &[WheelPackage]) -> Packages {
    let mut found = Packages::default();
    if packages.is_empty() {
        return found;
    }
    let folders = folders(host, venv);
    let is_located =
        |name: &str| ["_DIR", "_ROOT"].iter().any(|end| host.env().get(&format!("{name}{end}")).is_some());
    for package in packages.iter().filter(|package| !is_located(&package.name)) {
        let config = |site: &HostPath| site.join(&package.wheel).join(&package.config);
        let Some(site) = folders.iter().find(|site| host.is_dir(&config(site))) else { continue };
        found.entries.insert(format!("{}_DIR", package.name), config(site).forward_slashes());
        found.toolkits.extend(package.toolkits.iter().filter_map(|one| built_with(host, site, package, one)));
    }
    found
}

/// The toolkit that a package was built with, if it was.
fn built_with(
    host: &dyn ReadFiles,
    site: &HostPath,
    package: &WheelPackage,
    toolkit: &PackageToolkit,
) -> Option<BuiltWith> {
    let folder = site.join(&package.wheel);
    let text = host.read_text(&folder.join(&toolkit.file)).ok()?;
    let headers = toolkit.headers.iter().flat_map(|pattern| search::glob(host, site.join(pattern).as_str()));
    Some(BuiltWith {
        backend: toolkit.backend,
        version: text.lines().find_map(|line| quoted(line, &toolkit.variable))?.parse().ok()?,
        options: toolkit.options.clone(),
        environment: toolkit.environment.clone(),
        headers: headers.collect(),
        cmake: toolkit.cmake.clone(),
        package: folder,
    })
}

/// The text in quotes that a line of Python assigns to a variable: `cuda: Optional[str] = '13.2'`.
fn quoted<'a>(line: &'a str, variable: &str) -> Option<&'a str> {
    let (name, value) = line.split_once('=')?;
    let name = name.split_once(':').map_or(name, |(name, _)| name);
    let value = value.trim();
    let quote = value.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    (name.trim() == variable).then(|| value[1..].strip_suffix(quote))?
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_toolkit_is_in_quotes() {
        assert_eq!(quoted("cuda: Optional[str] = '13.2'", "cuda"), Some("13.2"));
        assert_eq!(quoted("cuda = \"11.8\"", "cuda"), Some("11.8"));
        for line in
            ["cuda: Optional[str] = None", "hip = '6.2'", "cuda", "cuda = '", "cuda = ''x", "cuda = 'é"]
        {
            assert_eq!(quoted(line, "cuda"), None, "{line}");
        }
    }
}
