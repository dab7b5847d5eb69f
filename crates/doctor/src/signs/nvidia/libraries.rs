//! Which copies of the driver's libraries programs load, and which CUDA libraries exist in several versions on one search path.

use std::collections::BTreeSet;

use gpubuild_core::version::Version;
use gpubuild_detect::finding::Evidence;
use gpubuild_detect::matrix::is_compatibility;
use gpubuild_host::library::{self, LibraryLoader};
use gpubuild_host::{HostPath, ReadFiles, glob};

use crate::signs::SignContext;

/// The driver's library that every CUDA program opens.
const DRIVER: &str = "libcuda.so.1";
/// The driver's management library, which NVIDIA's tools open.
const MANAGEMENT: &str = "libnvidia-ml.so.1";
/// CUDA libraries that break programs when two versions are mixed, each with the start of its wheel's name.
const FAMILIES: [(&str, &str); 4] = [
    ("libcudart.so", "nvidia_cuda_runtime"),
    ("libcudnn.so", "nvidia_cudnn"),
    ("libcublas.so", "nvidia_cublas"),
    ("libnvJitLink.so", "nvidia_nvjitlink"),
];
/// The user's library search path.
const VARIABLE: &str = "LD_LIBRARY_PATH";

/// The driver's libraries and CUDA's libraries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Libraries {
    /// The copy that a program loads when it opens `libcuda.so.1`.
    pub driver: Option<DriverLibrary>,
    /// The copy that a program loads when it opens `libnvidia-ml.so.1`.
    pub management: Option<DriverLibrary>,
    /// All copies of `libcuda.so.1` in the loader's folders, in search order.
    pub copies: Vec<DriverLibrary>,
    /// Driver libraries in the loader's folders that no program finds, because their link is missing.
    pub unlinked: Vec<HostPath>,
    /// CUDA libraries that exist in several versions.
    pub collisions: Vec<Collision>,
}

/// A copy of a driver library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverLibrary {
    /// Path at which a program finds it.
    pub path: HostPath,
    /// Path with links resolved.
    pub real: HostPath,
    /// Version of the driver, if it is in the file name.
    pub version: Option<Version>,
    /// Release of the toolkit that contains it.
    pub release: Option<Version>,
    /// Where the copy comes from.
    pub origin: DriverOrigin,
}

/// Where a copy of a driver library comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverOrigin {
    /// The installed driver.
    Driver,
    /// A toolkit's compatibility package for older drivers.
    Compatibility,
    /// A toolkit's stub for linking.
    Stub,
    /// The Windows driver, under WSL.
    Wsl,
}

/// A library that exists in several versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// Name of the library: `libcudnn.so`.
    pub library: String,
    /// Copies with their versions in search order. Programs load the first.
    pub copies: Vec<(HostPath, Version)>,
    /// Whether the first copy hides a newer one in the active Python environment.
    pub hides_newer: bool,
}

pub(super) fn gather(context: &SignContext<'_>) -> Libraries {
    let host = context.host;
    let loader = LibraryLoader::new(host);
    let folders = library::folders(host);
    let driver = loader.find(DRIVER).map(|path| copy(host, path));
    let mut copies: Vec<DriverLibrary> = Vec::new();
    let mut unlinked = Vec::new();
    for folder in &folders {
        let path = folder.join(DRIVER);
        let there = host.is_file(&path);
        if there {
            let copy = copy(host, path);
            if copies.iter().all(|known| known.real.key() != copy.real.key()) {
                copies.push(copy);
            }
        } else {
            let names = host.list_matching(folder, "libcuda.so.*.*").unwrap_or_default();
            let versioned = names.iter().filter(|name| driver_version(name).is_some());
            unlinked.extend(versioned.map(|name| folder.join(name)).filter(|path| host.is_file(path)));
        }
    }
    if let Some(driver) = &driver
        && copies.iter().all(|known| known.real.key() != driver.real.key())
    {
        copies.insert(0, driver.clone());
    }
    Libraries {
        management: loader.find(MANAGEMENT).map(|path| copy(host, path)),
        driver,
        copies,
        unlinked,
        collisions: collisions(host, &folders),
    }
}

fn copy(host: &dyn ReadFiles, path: HostPath) -> DriverLibrary {
    let real = host.canonical(&path).unwrap_or_else(|_| path.clone());
    let version = real.file_name().and_then(driver_version);
    let inside = |text: &str| path.as_str().contains(text) || real.as_str().contains(text);
    let origin = if inside("/stubs/") {
        DriverOrigin::Stub
    } else if is_compatibility(&path) || is_compatibility(&real) {
        DriverOrigin::Compatibility
    } else if inside("/usr/lib/wsl/") {
        DriverOrigin::Wsl
    } else {
        DriverOrigin::Driver
    };
    let release = toolkit_version(&real).or_else(|| toolkit_version(&path));
    DriverLibrary { path, real, version, release, origin }
}

/// The version in `libcuda.so.550.54.14`. The number in the library's own name (`libcuda.so.1.1` under WSL) is not a version.
fn driver_version(name: &str) -> Option<Version> {
    let text = name.split_once(".so.")?.1;
    let version: Version = text.parse().ok()?;
    (text.contains('.') && version.major() >= 100).then_some(version)
}

/// Libraries that exist in several versions on the search path.
fn collisions(host: &dyn ReadFiles, folders: &[HostPath]) -> Vec<Collision> {
    let set = host.env().get(VARIABLE).unwrap_or_default();
    let named: Vec<HostPath> =
        set.split([':', ';']).map(|text| host.path(text)).filter(HostPath::is_absolute).collect();
    let is_named = |folder: &HostPath| named.iter().any(|one| one.key() == folder.key());
    let mut found = Vec::new();
    for (library, wheel) in FAMILIES {
        // All folders of the user's own path count. In the system's folders only several copies of one major version of cuDNN count,
        // because two toolkits side by side are valid.
        let candidates = folders.iter().filter(|folder| is_named(folder) || library == "libcudnn.so");
        let mut copies: Vec<(HostPath, Version, bool)> = Vec::new();
        let mut seen = BTreeSet::new();
        for folder in candidates {
            let real = host.canonical(folder).unwrap_or_else(|_| folder.clone());
            if seen.insert(real.key()) {
                let versions = in_folder(host, &real, library);
                copies.extend(versions.into_iter().map(|(path, version)| (path, version, is_named(folder))));
            }
        }
        if let Some(collision) = against_wheel(host, library, wheel, &copies) {
            found.push(collision);
            continue;
        }
        let on_path: Vec<_> = copies.iter().filter(|(_, _, named)| *named).cloned().collect();
        let differ = |list: &[(HostPath, Version, bool)]| list.windows(2).any(|pair| pair[0].1 != pair[1].1);
        let chosen = if differ(&on_path) {
            on_path
        } else {
            let first = copies.first().map(|(_, version, _)| version.major());
            let same: Vec<_> =
                copies.into_iter().filter(|(_, version, _)| Some(version.major()) == first).collect();
            if differ(&same) { same } else { continue }
        };
        let copies = chosen.into_iter().map(|(path, version, _)| (path, version)).collect();
        found.push(Collision { library: library.to_owned(), copies, hides_newer: false });
    }
    found
}

/// The version of a library in a folder, from its longest versioned name.
fn in_folder(host: &dyn ReadFiles, folder: &HostPath, library: &str) -> Option<(HostPath, Version)> {
    let names = host.list_matching(folder, &format!("{library}*")).ok()?;
    let mut best: Option<(HostPath, Version)> = None;
    for name in names {
        let path = folder.join(&name);
        if !host.is_file(&path) {
            continue;
        }
        let real = host.canonical(&path).unwrap_or_else(|_| path.clone());
        let Some(version) = library_version(&real, library) else { continue };
        // The longest name has the most complete version: `libcudnn.so.9.1.0`, not `libcudnn.so.9`.
        if best.as_ref().is_none_or(|(_, known)| version.as_str().len() > known.as_str().len()) {
            best = Some((path, version));
        }
    }
    best
}

/// The version in the file name; for a name with only a major version, the version of the toolkit's folder.
fn library_version(real: &HostPath, library: &str) -> Option<Version> {
    let name = real.file_name()?;
    let rest = name.strip_prefix(library)?.trim_start_matches('.');
    let own: Option<Version> = rest.parse().ok();
    if rest.matches('.').count() >= 2 || library == "libcudnn.so" {
        return own;
    }
    toolkit_version(real).or(own)
}

/// The version in the name of a toolkit's folder: `/usr/local/cuda-12.4/…`.
fn toolkit_version(path: &HostPath) -> Option<Version> {
    path.as_str().split('/').find_map(|name| {
        let text = name.strip_prefix("cuda-").or_else(|| name.strip_prefix("cuda_"))?;
        text.contains('.').then(|| text.parse().ok()).flatten()
    })
}

/// A newer library in the active Python environment that the user's search path hides. Wheels find their libraries by a path that
/// the loader searches after the variable.
fn against_wheel(
    host: &dyn ReadFiles,
    library: &str,
    wheel: &str,
    copies: &[(HostPath, Version, bool)],
) -> Option<Collision> {
    let (path, version, _) = copies.iter().find(|(_, _, named)| *named)?;
    let environment = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().find_map(|name| host.env().get(name))?;
    let infos = glob(host, &format!("{environment}/lib/python3*/site-packages/{wheel}*.dist-info"));
    let bundled = infos.iter().find_map(|info| {
        let version = info.file_name()?.strip_suffix(".dist-info")?.rsplit_once('-')?.1;
        Some((info.clone(), version.parse::<Version>().ok()?))
    })?;
    let hidden = bundled.1.major() == version.major() && *version < bundled.1;
    hidden.then(|| Collision {
        library: library.to_owned(),
        copies: vec![(path.clone(), version.clone()), bundled],
        hides_newer: true,
    })
}

impl Collision {
    /// Each copy with its version, as evidence.
    #[must_use]
    pub fn evidence(&self) -> Vec<Evidence> {
        self.copies.iter().map(|(path, version)| Evidence::file(path.as_str(), version.as_str())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signs::gathered;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn observe(host: RecordedHostBuilder) -> Libraries {
        gathered(&host.build(), gather)
    }

    fn linux() -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
    }

    #[test]
    fn loaded_copy_has_an_origin_and_a_version() {
        for (path, origin) in [
            ("/usr/lib64/libcuda.so.1", DriverOrigin::Driver),
            ("/usr/local/cuda-12.8/compat/libcuda.so.1", DriverOrigin::Compatibility),
            ("/usr/local/cuda/compat/lib.real/libcuda.so.1", DriverOrigin::Compatibility),
            ("/usr/local/cuda-12.8/lib64/stubs/libcuda.so.1", DriverOrigin::Stub),
            ("/usr/lib/wsl/lib/libcuda.so.1", DriverOrigin::Wsl),
        ] {
            let folder = path.rsplit_once('/').unwrap().0;
            let host = linux()
                .env("LD_LIBRARY_PATH", folder)
                .link(path, "libcuda.so.570.86.10")
                .opaque(&format!("{folder}/libcuda.so.570.86.10"));
            let driver = observe(host).driver.expect(path);
            assert_eq!((driver.origin, driver.version.unwrap().as_str()), (origin, "570.86.10"), "{path}");
        }
        assert_eq!(driver_version("libcuda.so.1.1"), None);
        assert_eq!(driver_version("libcuda.so.1"), None);
    }

    #[test]
    fn library_without_its_link_is_reported() {
        let seen = observe(linux().opaque("/usr/lib64/libcuda.so.550.54.14"));
        assert_eq!(seen.driver, None);
        assert_eq!(seen.unlinked[0].as_str(), "/usr/lib64/libcuda.so.550.54.14");
    }

    fn collide(host: RecordedHostBuilder) -> Vec<String> {
        let line = |one: Collision| {
            let versions: Vec<&str> = one.copies.iter().map(|(_, version)| version.as_str()).collect();
            format!("{} {} {}", one.library, versions.join(" "), one.hides_newer)
        };
        observe(host).collisions.into_iter().map(line).collect()
    }

    #[test]
    fn two_versions_on_one_path_collide() {
        let both = linux()
            .env("LD_LIBRARY_PATH", "/usr/local/cuda-11.8/lib64:/usr/local/cuda-12.4/lib64")
            .opaque("/usr/local/cuda-11.8/lib64/libcudart.so.11.0")
            .opaque("/usr/local/cuda-12.4/lib64/libcudart.so.12");
        assert_eq!(collide(both), ["libcudart.so 11.8 12.4 false"]);
        let cudnn = linux()
            .env("LD_LIBRARY_PATH", "/opt/cudnn/lib")
            .opaque("/opt/cudnn/lib/libcudnn.so.8.6.0")
            .link("/opt/cudnn/lib/libcudnn.so.8", "libcudnn.so.8.6.0")
            .opaque("/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7");
        assert_eq!(collide(cudnn), ["libcudnn.so 8.6.0 8.9.7 false"]);
    }

    #[test]
    fn one_version_under_two_paths_does_not_collide() {
        let link = linux()
            .env("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:/usr/local/cuda-12.4/lib64:/opt/none:relative")
            .link("/usr/local/cuda", "cuda-12.4")
            .opaque("/usr/local/cuda-12.4/lib64/libcudart.so.12.4.127")
            .link("/usr/local/cuda-12.4/lib64/libcudart.so.12", "libcudart.so.12.4.127");
        assert_eq!(collide(link), [""; 0]);
        let configured = linux()
            .file("/etc/ld.so.conf", "/usr/local/cuda-11.8/lib64\n/usr/local/cuda-12.4/lib64\n")
            .opaque("/usr/local/cuda-11.8/lib64/libcudart.so.11.8.89")
            .opaque("/usr/local/cuda-12.4/lib64/libcudart.so.12.4.127");
        assert_eq!(collide(configured), [""; 0]);
        let cudnn = linux()
            .opaque("/usr/lib64/libcudnn.so.8.9.7")
            .file("/etc/ld.so.conf", "/opt/cudnn9/lib\n")
            .opaque("/opt/cudnn9/lib/libcudnn.so.9.1.0");
        assert_eq!(collide(cudnn), [""; 0], "two major versions have different file names");
    }

    #[test]
    fn path_that_hides_a_newer_wheel_is_reported() {
        let host = |old: &str| {
            linux()
                .env("VIRTUAL_ENV", "/home/user/venv")
                .env("LD_LIBRARY_PATH", "/usr/local/cuda-12.1/lib64")
                .opaque(&format!("/usr/local/cuda-12.1/lib64/libnvJitLink.so.{old}"))
                .directory(
                    "/home/user/venv/lib/python3.11/site-packages/nvidia_nvjitlink_cu12-12.4.127.dist-info",
                )
        };
        assert_eq!(collide(host("12.1.105")), ["libnvJitLink.so 12.1.105 12.4.127 true"]);
        assert_eq!(
            collide(host("12.6.77")),
            [""; 0],
            "a newer release of the same major version is compatible"
        );
        assert_eq!(collide(host("11.8.89")), [""; 0], "another major version has another file name");
    }
}
