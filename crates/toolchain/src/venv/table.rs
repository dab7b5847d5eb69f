//! The table of run-time wheels and their libraries: `toolkits/tables/runtime-wheels.toml`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_host::{Arch, Os, Platform};
use gpubuild_plan::wheels::lock::{PinnedFile, PinnedWheel};
use gpubuild_plan::wheels::tag::{self, TagFit, WheelLibc};
use gpubuild_toolkits::tables;
use serde::Deserialize;

/// The supported schema.
const SCHEMA: u32 = 1;

/// The known run-time wheels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelTable {
    schema: u32,
    /// The oldest Python version that the wheels support.
    pub python: Version,
    /// Commands that install the parts of Python that are needed to create environments, by distribution or package manager.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Explanations why a backend needs no wheels.
    #[serde(default)]
    pub none: BTreeMap<Backend, String>,
    /// CUDA releases, the oldest first.
    #[serde(default, rename = "release")]
    pub releases: Vec<WheelRelease>,
}

/// The wheels of one CUDA release.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelRelease {
    /// The release: `12.9`.
    pub cuda: Version,
    /// The wheels in load order: a library that another one loads is in an earlier wheel.
    #[serde(rename = "wheel")]
    pub wheels: Vec<WheelRow>,
}

/// A wheel with its libraries.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WheelRow {
    /// Package name in the index.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The folder of its libraries in `site-packages`; `{arch}` is replaced by `x86_64` or `arm64`.
    folder: BTreeMap<Os, String>,
    /// File names of its libraries in load order.
    libraries: BTreeMap<Os, Vec<String>>,
    /// Whether it is installed by default, if the needed libraries are not known.
    #[serde(default)]
    pub usual: bool,
    /// Packages that it requires.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Libraries that its libraries load at run time, which are not in their headers.
    #[serde(default)]
    opens: BTreeMap<Os, Vec<String>>,
    /// How to query the version of its library.
    pub asks: Option<CudaRequest>,
    /// The expected version.
    pub answers: Option<Version>,
    /// One wheel file per platform.
    files: Vec<PinnedFile>,
}

/// A version query of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CudaRequest {
    /// `cudaRuntimeGetVersion`.
    Cudart,
    /// `cublasGetProperty`.
    Cublas,
}

impl CudaRequest {
    /// The key of the result in the probe's answer.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Cudart => "cudart",
            Self::Cublas => "cublas",
        }
    }
}

impl WheelTable {
    /// The embedded table.
    ///
    /// # Panics
    /// Panics if the embedded table is invalid, which tests rule out.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static TABLE: OnceLock<WheelTable> = OnceLock::new();
        TABLE.get_or_init(|| {
            gpubuild_toml::from_static::<Self>(tables::RUNTIME_WHEELS)
                .map_err(|error| error.to_string())
                .and_then(Self::checked)
                .unwrap_or_else(|error| panic!("toolkits/tables/runtime-wheels.toml is tested: {error}"))
        })
    }

    /// Parses and checks a table.
    ///
    /// # Errors
    /// The first problem; for syntax errors with the line and a caret.
    pub fn parse(text: &str) -> Result<Self, String> {
        gpubuild_toml::from_str::<Self>(text).map_err(|error| error.to_string())?.checked()
    }

    fn checked(self) -> Result<Self, String> {
        let mut table = self;
        if table.schema != SCHEMA {
            return Err(format!("`schema` is {}, but this version of gpubuild reads {SCHEMA}", table.schema));
        }
        table.releases.sort_indirect_by(|left, right| left.cuda.cmp(&right.cuda));
        for release in &table.releases {
            release.check()?;
        }
        Ok(table)
    }

    /// The major versions of CUDA that have a library.
    #[must_use]
    pub fn majors_of(&self, os: Os, library: &str) -> BTreeSet<u64> {
        let holds = |release: &&WheelRelease| release.wheel_of(os, library).is_some();
        self.releases.iter().filter(holds).map(|release| release.cuda.major()).collect()
    }

    /// All major versions of CUDA in the table.
    #[must_use]
    pub fn majors(&self) -> BTreeSet<u64> {
        self.releases.iter().map(|release| release.cuda.major()).collect()
    }
}

impl WheelRelease {
    fn check(&self) -> Result<(), String> {
        let is_sum = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for wheel in &self.wheels {
            if let Some(file) = wheel.files.iter().find(|file| !is_sum(&file.sha256)) {
                return Err(format!("`{}` is not a sha256 hash (`{}`)", file.sha256, file.name));
            }
            if let Some(need) =
                wheel.needs.iter().find(|need| self.wheels.iter().all(|other| other.package != **need))
            {
                return Err(format!("`{}` needs `{need}`, which is not in {}", wheel.package, self.cuda));
            }
        }
        Ok(())
    }

    /// The wheel that contains a library.
    #[must_use]
    pub fn wheel_of(&self, os: Os, library: &str) -> Option<&WheelRow> {
        self.wheels.iter().find(|wheel| wheel.libraries(os).iter().any(|name| same(os, name, library)))
    }

    /// These packages and all that they require, in the order of the table.
    #[must_use]
    pub fn with_needs(&self, packages: &BTreeSet<&str>) -> Vec<&WheelRow> {
        let mut wanted: BTreeSet<&str> = packages.clone();
        loop {
            let more: BTreeSet<&str> = self
                .wheels
                .iter()
                .filter(|wheel| wanted.contains(wheel.package.as_str()))
                .flat_map(|wheel| wheel.needs.iter().map(String::as_str))
                .filter(|need| !wanted.contains(need))
                .collect_set();
            if more.is_empty() {
                break;
            }
            wanted.extend(more);
        }
        self.wheels.iter().filter(|wheel| wanted.contains(wheel.package.as_str())).collect()
    }
}

impl WheelRow {
    /// File names of its libraries in load order.
    #[must_use]
    pub fn libraries(&self, os: Os) -> &[String] {
        self.libraries.get(&os).map(Vec::as_slice).unwrap_or_default()
    }

    /// Libraries that its libraries load at run time.
    #[must_use]
    pub fn opens(&self, os: Os) -> &[String] {
        self.opens.get(&os).map(Vec::as_slice).unwrap_or_default()
    }

    /// The folder of its libraries in `site-packages`; `None` on platforms without one.
    #[must_use]
    pub fn folder(&self, platform: Platform) -> Option<String> {
        let arch = match platform.arch {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "arm64",
        };
        Some(self.folder.get(&platform.os)?.replace("{arch}", arch))
    }

    /// The wheel with only the files that a machine supports, for the installer.
    #[must_use]
    pub fn pinned(&self, platform: Platform, libc: &WheelLibc) -> PinnedWheel {
        let fits = |file: &&PinnedFile| tag::fit(&file.name, platform, libc) == TagFit::Yes;
        let files = self.files.iter().filter(fits).cloned().collect();
        PinnedWheel { package: self.package.clone(), version: self.version.clone(), files }
    }

    /// Its wheel files, one per platform.
    #[must_use]
    pub fn files(&self) -> &[PinnedFile] {
        &self.files
    }
}

/// Whether two file names are equal; on Windows ignores case.
#[must_use]
pub fn same(os: Os, left: &str, right: &str) -> bool {
    if os == Os::Windows { left.eq_ignore_ascii_case(right) } else { left == right }
}

/// The linker name of a library: `cublas` for `libcublas.so.12` and `cublas64_12.dll`.
#[must_use]
pub fn link_name(os: Os, library: &str) -> Option<&str> {
    match os {
        Os::Windows => {
            let stem = library.strip_suffix(".dll")?;
            Some(stem.split_once("64_").or_else(|| stem.split_once('_')).map_or(stem, |(name, _)| name))
        }
        Os::Linux | Os::Macos => library.strip_prefix("lib")?.split_once(".so").map(|(name, _)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_complete() {
        let table = WheelTable::embedded();
        assert_eq!(table.majors(), BTreeSet::from([12, 13]));
        assert_eq!(table.none.len(), Backend::ALL.len());
        for release in &table.releases {
            for wheel in &release.wheels {
                let what = format!("{} {}", wheel.package, wheel.version);
                for os in [Os::Linux, Os::Windows] {
                    assert!(!wheel.libraries(os).is_empty(), "{what}");
                    for opened in wheel.opens(os) {
                        assert!(release.wheel_of(os, opened).is_some(), "{what} opens {opened}");
                    }
                    let platform = Platform { os, arch: Arch::X86_64 };
                    assert!(
                        wheel.folder(platform).is_some_and(|folder| folder.starts_with("nvidia/")),
                        "{what}"
                    );
                }
                let stem = format!("{}-{}-", wheel.package.replace('-', "_"), wheel.version);
                assert!(
                    wheel.files().iter().all(|file| file.name.starts_with(&stem) && file.size > 0),
                    "{what}"
                );
                for part in ["manylinux", "_aarch64", "_x86_64", "win_amd64"] {
                    assert!(wheel.files().iter().any(|file| file.name.contains(part)), "{what}: {part}");
                }
                assert_eq!(wheel.asks.is_some(), wheel.answers.is_some(), "{what}");
            }
            let usual: Vec<&str> = release
                .wheels
                .iter()
                .filter(|wheel| wheel.usual)
                .map(|wheel| wheel.package.as_str())
                .collect();
            assert_eq!(usual.len(), 2, "{usual:?}");
        }
    }

    #[test]
    fn libraries_are_found_with_their_dependencies() {
        let table = WheelTable::embedded();
        assert_eq!(table.majors_of(Os::Linux, "libcublas.so.12"), BTreeSet::from([12]));
        assert_eq!(table.majors_of(Os::Linux, "libcurand.so.10"), BTreeSet::from([12, 13]));
        assert_eq!(table.majors_of(Os::Windows, "CUBLAS64_13.DLL"), BTreeSet::from([13]));
        assert_eq!(table.majors_of(Os::Linux, "libcudart.so.11.0"), BTreeSet::new());
        let newest = table.releases.last().unwrap();
        let cublas = newest.wheel_of(Os::Linux, "libcublasLt.so.13").unwrap();
        let names: Vec<&str> = newest
            .with_needs(&BTreeSet::from([cublas.package.as_str()]))
            .iter()
            .map(|wheel| wheel.package.as_str())
            .collect();
        assert_eq!(names, ["nvidia-cuda-nvrtc", "nvidia-cublas"]);
        let libraries = cublas.libraries(Os::Linux);
        assert_eq!(libraries[..2], ["libcublasLt.so.13", "libcublas.so.13"], "cublasLt is loaded first");
    }

    #[test]
    fn linker_names_are_derived_from_file_names() {
        for (os, library, name) in [
            (Os::Linux, "libcublas.so.12", "cublas"),
            (Os::Linux, "libnvrtc-builtins.so.12.9", "nvrtc-builtins"),
            (Os::Windows, "cublas64_12.dll", "cublas"),
            (Os::Windows, "nvJitLink_130_0.dll", "nvJitLink"),
        ] {
            assert_eq!(link_name(os, library), Some(name));
        }
    }

    #[test]
    fn invalid_tables_are_reported() {
        let start = "schema = 1\npython = \"3.8\"\n";
        assert!(WheelTable::parse("schema = 2\npython = \"3.8\"\n").unwrap_err().contains("reads 1"));
        assert!(WheelTable::parse(&format!("{start}pyhton = 1\n")).unwrap_err().contains("pyhton"));
        let wheel = "[[release]]\ncuda = \"12.9\"\n[[release.wheel]]\npackage = \"a\"\nversion = \"1\"\nfolder = {}\nlibraries = {}\n";
        let files = "files = [{ name = \"a.whl\", sha256 = \"12\", size = 1 }]\n";
        assert!(WheelTable::parse(&format!("{start}{wheel}{files}")).unwrap_err().contains("not a sha256"));
        let needs = "needs = [\"b\"]\nfiles = []\n";
        assert!(WheelTable::parse(&format!("{start}{wheel}{needs}")).unwrap_err().contains("`a` needs `b`"));
    }
}
