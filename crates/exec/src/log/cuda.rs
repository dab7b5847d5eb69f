//! Values of remedies that depend on a release of CUDA: that of a missing library, or that of the toolkit in the log.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::Os;
use gpubuild_core::arch::CudaArch;
use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{Catalogue, Description};
use serde::Deserialize;

use super::names::{self, NameKind, NameRow};
use super::platform::LogPlatform;

/// Texts before the release of the toolkit.
const RELEASES: [&str; 7] = [
    "/cuda-",
    "/cuda/",
    r"\CUDA\v",
    "/CUDA/v",
    TOOLKIT,
    "compiler identification is NVIDIA ",
    "tools, release ",
];
/// The package of CMake, after which the release is quoted.
const TOOLKIT: &str = "CUDAToolkit";

/// The libraries of the CUDA Toolkit, and the texts about missing ones.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CudaLibraries {
    /// The folder of the toolkit, if the log does not name another one.
    root: String,
    /// The release that remedies name for a major version; the first if the log shows none.
    releases: Vec<Version>,
    /// The gcc that remedies name if the log does not show the release.
    gcc: u64,
    /// The oldest gcc that distributions still have.
    oldest_gcc: u64,
    /// The major release since which wheels have the release as their version, and not in their name.
    plain_wheels: u64,
    /// Builds of PyTorch that need this driver are not recommended, because a log does not show the driver.
    newest_driver: u64,
    summary: String,
    fix: String,
    fix_of_release: String,
    commands: BTreeMap<String, Vec<String>>,
    link_commands: BTreeMap<String, Vec<String>>,
    /// An architecture that is newer than the toolkit in the log.
    newer_arch: ArchCause,
    library: Vec<CudaLibrary>,
}

/// Why a toolkit does not know an architecture.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArchCause {
    pub(super) id: Option<DiagnosticId>,
    pub(super) summary: String,
    pub(super) fix: String,
}

/// A library of the toolkit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CudaLibrary {
    /// As in `NameRow`.
    names: Vec<String>,
    component: String,
    /// The name of the package without `-dev` and the release.
    package: String,
    /// The name of the wheel without the suffix for the release.
    wheel: String,
    /// The major version of CUDA by that of the library, where they differ.
    majors: Option<BTreeMap<String, u64>>,
}

impl CudaLibraries {
    /// The rows of the table of names.
    pub(super) fn rows(&self) -> impl Iterator<Item = NameRow> {
        self.library.iter().flat_map(|library| {
            let filled = |commands: &BTreeMap<String, Vec<String>>| {
                let fill = |text: &String| {
                    text.replace("{package}", &library.package).replace("{wheel}", &library.wheel)
                };
                let entries = commands.iter();
                entries.map(|(key, list)| (key.clone(), list.iter().map(fill).collect())).collect()
            };
            let component = Some(library.component.clone());
            let linked = NameRow {
                library: library.names.clone(),
                id: Some(id!("cuda.toolkit.component-missing")),
                component: component.clone(),
                commands: filled(&self.link_commands),
                ..NameRow::default()
            };
            let loaded = NameRow {
                runtime: library.names.clone(),
                loaded: Some(id!("cuda.runtime-library-missing")),
                component,
                summary: Some(self.summary.clone()),
                fix: Some(self.fix.clone()),
                fix_of_release: Some(self.fix_of_release.clone()),
                commands: filled(&self.commands),
                ..NameRow::default()
            };
            [linked, loaded]
        })
    }

    /// Adds the values that follow from the captured ones and from the log.
    pub(super) fn complete(
        &self,
        values: &mut BTreeMap<String, String>,
        platform: &LogPlatform,
        id: DiagnosticId,
    ) {
        let mut add = Vec::new();
        let files = ["library", "name", "dll"].into_iter().filter_map(|name| values.get(name));
        let named = files.clone().find_map(|file| self.release_of(file));
        let major = named
            .as_ref()
            .map(Version::major)
            .or_else(|| files.into_iter().find_map(|file| self.major_of(file)));
        let shown = named.as_ref().or(platform.cuda.as_ref());
        let release = match major {
            Some(major) => shown.filter(|shown| shown.major() == major).or_else(|| self.of_major(major)),
            None => shown.or_else(|| self.releases.first()),
        };
        if let Some(release) = release {
            add.push(("cuda_named", release.to_string()));
            add.push(("cuda_package", package(release)));
            add.push(("cuda_major", release.major().to_string()));
            let wheel = if release.major() < self.plain_wheels {
                format!("-cu{}", release.major())
            } else {
                format!("~={}.0", release.major())
            };
            add.push(("cuda_wheel", wheel));
        }
        if let (Some(major), Some(release)) = (major, release) {
            let exact = named.as_ref().map(ToString::to_string);
            add.push(("cuda_release", exact.unwrap_or_else(|| major.to_string())));
            let os = platform.os.unwrap_or(Os::Linux);
            let driver = toolkit().and_then(|toolkit| toolkit.driver_floor(release, os));
            add.extend(driver.map(|driver| ("cuda_driver", driver.to_string())));
        }
        add.push(("cuda_root", platform.cuda_root.clone().unwrap_or_else(|| self.root.clone())));
        if let Some(arch) = values.get("arch") {
            let arch = arch.trim_start_matches("compute_").replace('.', "");
            match id.as_str() {
                "nv.no-kernel-image" => {
                    add.extend(self.torch_build(&arch).map(|build| ("torch_build", build)));
                }
                id if id.starts_with("cuda.arch.") => add.extend(self.of_arch(&arch).into_iter().flatten()),
                _ => {}
            }
        }
        if id == "cuda.host.gcc-too-new" {
            add.extend(self.newest_gcc(shown).map(|gcc| ("gcc_max", gcc.to_string())));
        }
        for (name, value) in add {
            values.entry(name.to_owned()).or_insert(value);
        }
    }

    /// The cause of an architecture that a toolkit does not know, if the toolkit in the log is older than the architecture. Without the
    /// log, old architectures count as dropped.
    pub(super) fn of_newer_arch(
        &self,
        values: &BTreeMap<String, String>,
        platform: &LogPlatform,
    ) -> Option<&ArchCause> {
        let arch = values.get("arch")?.trim_start_matches("compute_").replace('.', "");
        let (first, _) = toolkit()?.releases_for(&arch)?;
        (platform.cuda.as_ref()? < first).then_some(&self.newer_arch)
    }

    /// The releases between which an architecture is supported.
    fn of_arch(&self, arch: &str) -> Option<Vec<(&'static str, String)>> {
        let toolkit = toolkit()?;
        let newest = &toolkit.compatibility.arch.last()?.since;
        let Some((first, last)) = toolkit.releases_for(arch) else {
            return Some(vec![("arch_release", format!("newer than {newest}"))]);
        };
        let last = self.of_major(last.major()).filter(|named| *named > last).unwrap_or(last);
        Some(vec![
            ("arch_release", format!("{first} or newer")),
            ("arch_first", first.to_string()),
            ("arch_package", package(first)),
            ("arch_last", last.to_string()),
        ])
    }

    /// The newest gcc that a release accepts and that distributions still have.
    fn newest_gcc(&self, release: Option<&Version>) -> Option<u64> {
        let Some(release) = release else { return Some(self.gcc) };
        toolkit()?.compiler_row(release, "gcc")?.max.filter(|newest| *newest >= self.oldest_gcc)
    }

    /// The build of PyTorch that has code for an architecture, such as `cu128`, which is also the name of its index.
    fn torch_build(&self, arch: &str) -> Option<String> {
        #[derive(Deserialize)]
        struct Packages {
            torch: Vec<TorchBuild>,
        }
        #[derive(Deserialize)]
        struct TorchBuild {
            id: String,
            vendor: String,
            #[serde(default)]
            archs: Vec<String>,
            #[serde(default)]
            driver: BTreeMap<Os, Version>,
        }
        let gpu: CudaArch = arch.parse().ok()?;
        let packages: Packages = gpubuild_toml::from_static(gpubuild_toolkits::tables::PACKAGES).ok()?;
        let mut builds = packages.torch.into_iter().filter(|build| {
            let mut archs = build.archs.iter().filter_map(|arch| arch.parse::<CudaArch>().ok());
            build.vendor == "nvidia"
                && archs.any(|arch| arch.runs_on(&gpu))
                && build.driver.values().all(|driver| driver.major() < self.newest_driver)
        });
        builds.next().map(|build| build.id)
    }

    /// The release that remedies name for a major version.
    fn of_major(&self, major: u64) -> Option<&Version> {
        self.releases.iter().find(|release| release.major() == major)
    }

    /// The release in the name of a library's file, such as `libcudart.so.9.2`, which has both numbers up to CUDA 10.2.
    fn release_of(&self, file: &str) -> Option<Version> {
        let (_, number) = file.split_once(".so.")?;
        let (major, minor) = number.split_once('.')?;
        let is_old = matches!(major, "7" | "8" | "9" | "10") && matches!(minor, "0" | "1" | "2" | "5");
        let is_of_toolkit = || {
            let names = self.library.iter().flat_map(|library| &library.names);
            names.into_iter().any(|name| names::is_name(NameKind::Library, name, file))
        };
        (is_old && is_of_toolkit()).then(|| number.parse().ok())?
    }

    /// The major version of CUDA in the name of a library's file, such as `libcufft.so.11` or `cudart64_110.dll`.
    fn major_of(&self, file: &str) -> Option<u64> {
        let library = self
            .library
            .iter()
            .find(|library| library.names.iter().any(|name| names::is_name(NameKind::Library, name, file)))?;
        let file = file.to_ascii_lowercase();
        let (is_windows, number) = match file.split_once(".so.") {
            Some((_, version)) => (false, version),
            None => (true, file.strip_suffix(".dll")?.split_once("64_")?.1),
        };
        let number = &number[..number.bytes().take_while(u8::is_ascii_digit).count()];
        // `cudart64_110.dll` is of CUDA 11.0, `cudart64_80.dll` of 8.0, `cudart64_12.dll` of 12.
        let digits = match number.len() {
            3 if is_windows => 2,
            2 if is_windows && number > "20" => 1,
            length => length,
        };
        let number = &number[..digits];
        match &library.majors {
            Some(majors) => majors.get(number).copied(),
            None => number.parse().ok(),
        }
    }
}

/// The release as it is part of the names of packages: `12-9`.
fn package(release: &Version) -> String {
    format!("{}-{}", release.major(), release.minor())
}

/// Texts of which a line with a release has at least one: only the digits with which a release begins.
pub(super) fn release_triggers() -> Vec<String> {
    let texts = RELEASES.into_iter().filter(|text| *text != TOOLKIT);
    let numbered = texts.flat_map(|text| ['1', '7', '8', '9'].map(|digit| format!("{text}{digit}")));
    numbered.chain([TOOLKIT.to_owned()]).collect()
}

/// The release of the toolkit that a line names, such as `/usr/local/cuda-11.8/bin/nvcc`.
pub(super) fn release(line: &[u8]) -> Option<Version> {
    let line = std::str::from_utf8(line).ok()?;
    RELEASES.iter().find_map(|word| {
        let (_, rest) = line.split_once(word)?;
        let rest = if *word == TOOLKIT { rest.split_once("version \"")?.1 } else { rest };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let version: Version = rest[..end].trim_end_matches('.').parse().ok()?;
        let is_release =
            rest[..end].contains('.') && (7..20).contains(&version.major()) && version.minor() < 10;
        is_release.then(|| format!("{}.{}", version.major(), version.minor()).parse().ok())?
    })
}

/// The description of the toolkit, which only few logs need.
fn toolkit() -> Option<&'static Description> {
    static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
    CATALOGUE.get_or_init(Catalogue::embedded).get("cuda")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Signatures;

    #[test]
    fn names_of_old_libraries_show_the_exact_release() {
        for (file, expected) in [
            ("libcudart.so.9.0", Some("9.0")),
            ("/opt/x/libcublas.so.9.2", Some("9.2")),
            ("libcudart.so.10.1", Some("10.1")),
            ("libcudart.so.11.0", None),
            ("libcublas.so.10", None),
            ("libcurand.so.10.3.5", None),
            ("libcusolver.so.10.6.0.245", None),
            ("libnvinfer.so.8.6", None),
            ("cudart64_101.dll", None),
        ] {
            assert_eq!(
                Signatures::embedded().cuda.release_of(file).map(|release| release.to_string()).as_deref(),
                expected,
                "{file}"
            );
        }
    }

    #[test]
    fn names_of_libraries_show_the_release_of_cuda() {
        for (file, expected) in [
            ("libcudart.so.11.0", Some(11)),
            ("libcublasLt.so.12", Some(12)),
            ("/opt/x/libcufft.so.11", Some(12)),
            ("libcufft.so.12", Some(13)),
            ("libcusolver.so.11", None),
            ("libcurand.so.10", None),
            ("cudart64_110.dll", Some(11)),
            ("cudart64_101.dll", Some(10)),
            ("cudart64_80.dll", Some(8)),
            ("cublas64_12.dll", Some(12)),
            ("cufft64_10.dll", Some(11)),
            ("libcudart.so", None),
            ("libz.so.1", None),
            ("cudart", None),
        ] {
            assert_eq!(Signatures::embedded().cuda.major_of(file), expected, "{file}");
        }
    }

    #[test]
    fn release_of_the_toolkit_is_read_from_paths_and_versions() {
        for (line, expected) in [
            ("/usr/local/cuda-11.8/bin/nvcc -c a.cu", Some("11.8")),
            (r"C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.4\include\cuda.h", Some("12.4")),
            (r#"-- Found CUDAToolkit: /usr/local/cuda/include (found version "12.6.85")"#, Some("12.6")),
            ("-- The CUDA compiler identification is NVIDIA 11.5.119", Some("11.5")),
            ("Cuda compilation tools, release 12.8, V12.8.93", Some("12.8")),
            ("/usr/local/cuda-12/bin/nvcc", None),
            ("/usr/local/cuda-samples/x", None),
            ("-- Found CUDAToolkit: /usr/local/cuda", None),
        ] {
            let expected = expected.map(|text| text.parse::<Version>().unwrap());
            assert_eq!(release(line.as_bytes()), expected, "{line}");
            let has_trigger = release_triggers().iter().any(|text| line.contains(text));
            assert!(has_trigger || expected.is_none(), "{line}");
        }
    }

    #[test]
    fn pytorch_is_installed_from_an_index_with_code_for_the_card() {
        for (arch, expected) in
            [("120", Some("cu128")), ("61", Some("cu126")), ("89", Some("cu128")), ("35", None)]
        {
            assert_eq!(Signatures::embedded().cuda.torch_build(arch).as_deref(), expected, "{arch}");
        }
    }

    #[test]
    fn gcc_is_the_newest_that_the_toolkit_accepts() {
        for (release, expected) in
            [(None, Some(12)), (Some("11.8"), Some(11)), (Some("12.9"), Some(14)), (Some("8.0"), None)]
        {
            let release = release.map(|text| text.parse::<Version>().unwrap());
            assert_eq!(Signatures::embedded().cuda.newest_gcc(release.as_ref()), expected, "{release:?}");
        }
    }

    #[test]
    fn remedies_name_the_release_that_the_log_shows() {
        for (log, commands) in [
            (
                "/usr/local/cuda-11.8/bin/nvcc -c a.cu\n/usr/bin/ld: cannot find -lcufft\ncollect2: error: ld returned 1 exit status\n",
                "libcufft-dev-11-8",
            ),
            (
                "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory\n",
                "libcublas-11-8",
            ),
            (
                "ImportError: libcufft.so.12: cannot open shared object file: No such file or directory\n",
                "libcufft-13-0",
            ),
            ("nvcc fatal   : Unsupported gpu architecture 'compute_87'\n", "cuda-toolkit-11-4"),
        ] {
            let reading = Signatures::embedded().read(log.as_bytes());
            let cause = &reading.causes[0];
            let text = gpubuild_core::template::fill(&cause.commands["apt"][0], |name| {
                cause.values.get(name).cloned()
            });
            assert!(text.as_ref().is_some_and(|text| text.contains(commands)), "{log}: {text:?}");
        }
    }
}
