//! The table of names: which component a header, a library, a package of a build system or an error code belongs to.

use std::collections::{BTreeMap, HashMap};

use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::DiagnosticId;
use serde::Deserialize;

use super::symbol;

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NameKind {
    /// A header as an include names it: `opencv2/core.hpp`.
    Header,
    /// A library that the linker does not find, without `lib`, folder, version and ending: `cudart`.
    Library,
    /// A library that the loader does not find. The names are those of `Library`.
    Loaded,
    /// A package of CMake, Meson or pkg-config.
    Package,
    /// An error code of a GPU runtime: `cudaErrorNoDevice`.
    Code,
    /// A program.
    Tool,
    /// A module of Python.
    Module,
    /// A function, type or constant of a programming interface.
    Identifier,
    /// A symbol of a linker, or a name of C or C++ with its scopes, by the library that has it: `cv::imread`.
    Symbol,
}

/// Names that have the same cause and remedy.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NameRow {
    /// The names by kind. A `*` at the end stands for any text; case matters for headers and codes only.
    #[serde(default)]
    pub(super) header: Vec<String>,
    #[serde(default)]
    pub(super) library: Vec<String>,
    /// Libraries that the loader does not find, instead of the rows of `library`: with the version, such as `libtinfo.so.5`, or without.
    #[serde(default)]
    pub(super) runtime: Vec<String>,
    #[serde(default)]
    pub(super) package: Vec<String>,
    #[serde(default)]
    pub(super) code: Vec<String>,
    #[serde(default)]
    pub(super) tool: Vec<String>,
    #[serde(default)]
    pub(super) module: Vec<String>,
    #[serde(default)]
    pub(super) identifier: Vec<String>,
    #[serde(default)]
    pub(super) symbol: Vec<String>,
    /// Id of the finding, if it is not that of the signature.
    pub(super) id: Option<DiagnosticId>,
    /// Id of the finding if the loader does not find the library.
    pub(super) loaded: Option<DiagnosticId>,
    /// The packages that have it, by package manager.
    #[serde(default)]
    pub(super) packages: BTreeMap<String, String>,
    /// The component as users know it. It is the value `component` in texts.
    pub(super) component: Option<String>,
    /// Replaces the summary of the finding.
    pub(super) summary: Option<String>,
    /// Replaces the remedy of the finding.
    pub(super) fix: Option<String>,
    /// The same if all its placeholders have values; used before `fix`.
    pub(super) fix_of_release: Option<String>,
    /// Replaces the commands of the finding.
    #[serde(default)]
    pub(super) commands: BTreeMap<String, Vec<String>>,
    /// The commands for a library that the loader does not find. Set by `complete`.
    #[serde(skip)]
    pub(super) loaded_commands: BTreeMap<String, Vec<String>>,
}

/// Package managers, the key of their commands, and how they install packages.
const MANAGERS: [(&str, &str, &str); 9] = [
    ("apt", "apt", "sudo apt install "),
    ("dnf", "dnf", "sudo dnf install "),
    ("pacman", "pacman", "sudo pacman -S "),
    ("zypper", "zypper", "sudo zypper install "),
    ("apk", "apk", "sudo apk add "),
    ("brew", "brew", "brew install "),
    ("vcpkg", "windows", "vcpkg install "),
    ("winget", "winget", "winget install --id "),
    ("pip", "any", "python3 -m pip install "),
];

impl NameRow {
    /// Id of the finding for a name of a kind, unless it is that of the signature.
    pub(super) fn id(&self, kind: NameKind) -> Option<DiagnosticId> {
        if kind == NameKind::Loaded { self.loaded } else { self.id }
    }

    /// Adds the commands that install the packages, or, without packages, those of the finding.
    pub(super) fn complete(&mut self, of_findings: &BTreeMap<String, BTreeMap<String, Vec<String>>>) {
        for (manager, packages) in &self.packages {
            let known = MANAGERS.iter().find(|(name, _, _)| name == manager);
            let Some((_, key, install)) = known else { panic!("unknown package manager `{manager}`") };
            self.commands.entry((*key).to_owned()).or_insert_with(|| vec![format!("{install}{packages}")]);
        }
        if self.commands.is_empty() {
            let of = |id: Option<DiagnosticId>| {
                id.and_then(|id| of_findings.get(id.as_str())).cloned().unwrap_or_default()
            };
            (self.commands, self.loaded_commands) = (of(self.id), of(self.loaded));
        } else {
            self.loaded_commands.clone_from(&self.commands);
        }
    }

    /// The commands for a name of a kind; empty for those of the finding.
    pub(super) fn commands(&self, kind: NameKind) -> &BTreeMap<String, Vec<String>> {
        if kind == NameKind::Loaded { &self.loaded_commands } else { &self.commands }
    }

    /// All names with their kinds.
    pub(super) fn names(&self) -> impl Iterator<Item = (NameKind, &str)> {
        let lists = [
            (NameKind::Header, &self.header),
            (NameKind::Library, &self.library),
            (NameKind::Loaded, &self.runtime),
            (NameKind::Package, &self.package),
            (NameKind::Code, &self.code),
            (NameKind::Tool, &self.tool),
            (NameKind::Module, &self.module),
            (NameKind::Identifier, &self.identifier),
            (NameKind::Symbol, &self.symbol),
        ];
        lists.into_iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.as_str())))
    }
}

/// The rows, indexed by name.
#[derive(Default)]
pub(super) struct NameTable {
    pub(super) rows: Vec<NameRow>,
    exact: HashMap<(NameKind, String), usize>,
    /// Starts of names, the longest first.
    starts: Vec<(NameKind, String, usize)>,
}

impl NameTable {
    pub(super) fn new(rows: Vec<NameRow>) -> Self {
        let mut table = Self::default();
        for (at, row) in rows.iter().enumerate() {
            for (kind, name) in row.names() {
                let name = folded(kind, name);
                match name.strip_suffix('*') {
                    Some(start) => table.starts.push((kind, start.to_owned(), at)),
                    None => {
                        table.exact.insert((kind, name), at);
                    }
                }
            }
        }
        table.starts.sort_indirect_by_key(|(_, start, _)| std::cmp::Reverse(start.len()));
        table.rows = rows;
        table
    }

    /// The index of the row of a name as a message has it. Exact names precede starts, and long starts precede short ones.
    pub(super) fn find(&self, kind: NameKind, name: &str) -> Option<usize> {
        let known = |kind: NameKind, name: &str| self.find_as(kind, &folded(kind, name));
        match kind {
            NameKind::Loaded => known(kind, file(name))
                .or_else(|| known(kind, library(name)))
                .or_else(|| known(NameKind::Library, library(name))),
            // A name may be that of a scope, and Apple's linker writes an underscore before each name.
            NameKind::Symbol => {
                let name = symbol::readable(name);
                known(kind, &name)
                    .or_else(|| known(kind, &format!("{name}::")))
                    .or_else(|| known(kind, name.strip_prefix('_')?))
            }
            _ => known(kind, bare(kind, name)),
        }
    }

    fn find_as(&self, kind: NameKind, name: &str) -> Option<usize> {
        let exact = self.exact.get(&(kind, name.to_owned())).copied();
        exact.or_else(|| {
            let mut starts = self.starts.iter();
            let found = starts.find(|(of, start, _)| *of == kind && name.starts_with(start.as_str()));
            found.map(|(_, _, row)| *row)
        })
    }
}

fn folded(kind: NameKind, name: &str) -> String {
    match kind {
        NameKind::Header | NameKind::Code | NameKind::Module | NameKind::Identifier | NameKind::Symbol => {
            name.to_owned()
        }
        _ => name.to_ascii_lowercase(),
    }
}

/// The name without folder, version and ending.
fn bare(kind: NameKind, name: &str) -> &str {
    match kind {
        NameKind::Header => {
            let mut name = name;
            while let Some(rest) = ["./", "../", "/"].iter().find_map(|start| name.strip_prefix(start)) {
                name = rest;
            }
            name
        }
        NameKind::Library | NameKind::Loaded => library(name),
        NameKind::Tool => {
            let name = file(name);
            name.strip_suffix(".exe").unwrap_or(name)
        }
        NameKind::Package | NameKind::Code | NameKind::Module | NameKind::Identifier | NameKind::Symbol => {
            name
        }
    }
}

/// Whether a name as a message has it is the one of a row, which may end in `*`.
pub(super) fn is_name(kind: NameKind, row: &str, name: &str) -> bool {
    let (row, name) = (folded(kind, row), folded(kind, bare(kind, name)));
    row.strip_suffix('*').map_or(row == name, |start| name.starts_with(start))
}

/// The name without folder.
fn file(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

fn library(name: &str) -> &str {
    let name = file(name);
    let ends = [".so", ".dylib", ".dll", ".lib", ".a", ".pyd"];
    let lower = name.to_ascii_lowercase();
    let end = ends.iter().filter_map(|end| lower.find(end)).min().unwrap_or(name.len());
    let stem = &name[..end];
    let stem = if lower[end..].starts_with(".dylib") {
        stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
    } else {
        stem
    };
    stem.strip_prefix("lib").filter(|rest| !rest.is_empty()).unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_folder_version_and_ending() {
        for (kind, name, expected) in [
            (NameKind::Library, "libcudart.so.12", "cudart"),
            (NameKind::Library, "/usr/lib/libopenblas.so.0", "openblas"),
            (NameKind::Library, "C:\\x\\cudart64_12.dll", "cudart64_12"),
            (NameKind::Library, "@rpath/libomp.5.dylib", "omp"),
            (NameKind::Library, "OpenCL.lib", "OpenCL"),
            (NameKind::Library, "lib", "lib"),
            (NameKind::Header, "../../Eigen/Dense", "Eigen/Dense"),
            (NameKind::Tool, "/usr/bin/nvcc", "nvcc"),
            (NameKind::Package, "Eigen3", "Eigen3"),
        ] {
            assert_eq!(bare(kind, name), expected);
        }
    }

    #[test]
    fn exact_names_precede_starts_and_long_starts_precede_short_ones() {
        let row = |names: &[&str]| NameRow {
            library: names.iter().map(|name| (*name).to_owned()).collect(),
            ..NameRow::default()
        };
        let table = NameTable::new(vec![row(&["cu*"]), row(&["cublas*"]), row(&["cuda"])]);
        let find = |name| table.find(NameKind::Library, name);
        assert_eq!(find("libcublas.so.12"), Some(1));
        assert_eq!(find("libcuda.so.1"), Some(2));
        assert_eq!(find("CUFFT64_11.dll"), Some(0));
        assert_eq!(find("libz.so.1"), None);
        assert_eq!(table.find(NameKind::Header, "cuda"), None);

        let runtime = |name: &str| NameRow { runtime: vec![name.to_owned()], ..NameRow::default() };
        let table = NameTable::new(vec![
            row(&["tinfo"]),
            runtime("libtinfo.so.5"),
            runtime("cufft*"),
            row(&["cufft*"]),
        ]);
        for (kind, name, expected) in [
            (NameKind::Loaded, "/usr/lib/libtinfo.so.5", Some(1)),
            (NameKind::Loaded, "libtinfo.so.6", Some(0)),
            (NameKind::Library, "libtinfo.so.5", Some(0)),
            (NameKind::Loaded, "libcufft.so.11", Some(2)),
            (NameKind::Library, "cufft", Some(3)),
        ] {
            assert_eq!(table.find(kind, name), expected, "{kind:?} {name}");
        }
    }
}
