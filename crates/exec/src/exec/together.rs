//! Combines several projects in one program. Their libraries may define the same symbols, as two copies of ggml do.
//!
//! Conflicts are detected before linking. On request the symbols of the other project get a prefix, or its libraries are
//! linked into a shared library that hides them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::shell::word;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{Command, HostPath, Os, find_program};
use gpubuild_linker::symbols;
use gpubuild_object::ObjectBytes;
use gpubuild_plan::artifacts::{Artifact, BuiltTree, LinkItem, Manifest, ManifestError};
use gpubuild_plan::project::together::{InterfaceDifference, SameSymbols, With};

use super::BuildJob;
use super::error::BuildError;
use crate::store::{self, sha256};

/// Time limit for processing one archive or linking one library.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Programs that rename symbols in archives.
const OBJCOPY: [&str; 2] = ["objcopy", "llvm-objcopy"];

/// Name of the file that maps symbols to their new names, next to the renamed libraries.
pub const TABLE: &str = "symbols.json";

/// Why two projects cannot be combined in one program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TogetherError {
    /// The other project is not built, or its build is unusable.
    #[error("`{name}` cannot be linked into the program: {why}")]
    NotBuilt {
        /// The other project.
        name: String,
        /// The reason.
        why: String,
        /// Folder of the other project.
        folder: String,
    },
    /// Both projects define the same symbols, and `same_symbols` does not allow it.
    #[error("`{project}` and `{name}` both define `{symbol}` and {more} more symbols{}", difference_list(.differences))]
    SameSymbols {
        /// This project.
        project: String,
        /// The other project.
        name: String,
        /// The first symbol.
        symbol: String,
        /// Number of other shared symbols.
        more: usize,
        /// Differences of the interfaces of the two copies.
        differences: Vec<InterfaceDifference>,
    },
    /// objcopy is missing.
    #[error("renaming the symbols of `{name}` requires objcopy, which was not found")]
    NoObjcopy {
        /// The other project.
        name: String,
    },
    /// objcopy or the linker failed.
    #[error("`{program}` failed on `{file}`: {message}")]
    Tool {
        /// The program.
        program: String,
        /// The processed file.
        file: String,
        /// The first line of its error output.
        message: String,
    },
    /// The operating system is not supported.
    #[error("hiding the symbols of `{name}` in a separate shared library is supported on Linux only")]
    Unsupported {
        /// The other project.
        name: String,
    },
}

fn difference_list(differences: &[InterfaceDifference]) -> String {
    let list: Vec<String> = differences.iter().map(ToString::to_string).collect();
    if list.is_empty() { String::new() } else { format!("; the two copies differ: {}", list.join(", ")) }
}

impl Diagnostic for TogetherError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::NotBuilt { .. } => id!("symbols.other-not-built"),
            Self::SameSymbols { .. } => id!("symbols.same"),
            Self::NoObjcopy { .. } => id!("symbols.no-objcopy"),
            Self::Tool { .. } => id!("symbols.tool-failed"),
            Self::Unsupported { .. } => id!("symbols.unsupported"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotBuilt { folder, .. } => {
                format!("build it first: `gpubuild build --project {}`", word(folder, "DIR"))
            }
            Self::SameSymbols { name, .. } => format!(
                "set `same_symbols` for `{name}` under `[[with]]` in gpubuild.toml: `\"prefix\"` renames its symbols, \
                 `\"dynamic\"` hides them in a shared library (docs/guide/several-projects.md)"
            ),
            Self::NoObjcopy { .. } => {
                "install binutils or LLVM, set OBJCOPY to its path, or use `same_symbols = \"dynamic\"`"
                    .to_owned()
            }
            Self::Tool { .. } => "run the command manually to see its full output".to_owned(),
            Self::Unsupported { .. } => "use `same_symbols = \"prefix\"`".to_owned(),
        })
    }
}

/// Adds the trees of other projects to a manifest, so that one program links them all.
///
/// # Errors
/// A project is not built, two projects define the same symbols and `same_symbols` does not allow it, or a tool fails.
pub(super) fn add(job: &BuildJob<'_>, with: &[With], manifest: &mut Manifest) -> Result<(), BuildError> {
    for one in with {
        let mut trees = OtherProject { job, with: one, manifest }.trees()?;
        if one.same_symbols == SameSymbols::Shared {
            manifest.remove_linked_by(&trees);
        }
        manifest.backends.extend(trees.iter().flat_map(|tree| tree.backends.clone()));
        manifest.trees.append(&mut trees);
    }
    manifest.backends.sort_indirect();
    manifest.backends.dedup();
    Ok(())
}

struct OtherProject<'a> {
    job: &'a BuildJob<'a>,
    with: &'a With,
    manifest: &'a Manifest,
}

impl OtherProject<'_> {
    fn trees(&self) -> Result<Vec<BuiltTree>, BuildError> {
        let (host, with) = (self.job.host, self.with);
        let not_built = |why: String| TogetherError::NotBuilt {
            name: with.name.clone(),
            why,
            folder: with.folder.to_string(),
        };
        let other = Manifest::read(host, &with.manifest).map_err(|error| {
            not_built(match error {
                ManifestError::Missing { .. } => "it is not built yet".to_owned(),
                error => error.to_string(),
            })
        })?;
        if let Some(path) = super::changed_files(host, &other).first() {
            return Err(not_built(format!("`{path}` changed since it was built")).into());
        }
        let mut trees = other.trees;
        for tree in &mut trees {
            tree.id = format!("{}/{}", with.name, tree.id);
        }
        let same = self.same(&trees)?;
        let Some(symbol) = same.strong.first().cloned() else { return Ok(trees) };
        match with.same_symbols {
            SameSymbols::Refuse | SameSymbols::Shared => Err(TogetherError::SameSymbols {
                project: self.manifest.project.clone(),
                name: with.name.clone(),
                symbol,
                more: same.strong.len() - 1,
                differences: with.differences.clone(),
            }
            .into()),
            SameSymbols::Prefix => self.prefixed(trees, &same),
            SameSymbols::Dynamic => self.isolated(trees, &same),
        }
    }

    fn libraries(trees: &[BuiltTree]) -> impl Iterator<Item = &Artifact> {
        trees.iter().flat_map(|tree| &tree.files).filter(|file| file.kind == "static")
    }

    /// The hash and size of a file.
    fn hash(&self, path: &str) -> Result<(String, u64), BuildError> {
        let host = self.job.host;
        store::hash_file(host, &host.path(path)).map_err(|error| BuildError::io("read", &path, &error))
    }

    fn same(&self, trees: &[BuiltTree]) -> Result<SharedSymbols, BuildError> {
        let own_symbols = self.symbols(&self.manifest.trees)?;
        let other_symbols = self.symbols(trees)?;
        let both = |own_symbols: &BTreeSet<String>, other_symbols: &BTreeSet<String>| -> BTreeSet<String> {
            own_symbols.intersection(other_symbols).cloned().collect_set()
        };
        // Weak symbols, such as inline functions that both projects compile, cause no linker error. But the two definitions
        // may differ, so they are renamed too.
        let all = both(&own_symbols.all, &other_symbols.all);
        let groups = both(&own_symbols.groups, &other_symbols.groups);
        Ok(SharedSymbols {
            strong: own_symbols.strong.intersection(&other_symbols.strong).cloned().collect(),
            groups: groups.difference(&all).cloned().collect_set(),
            all,
            own: other_symbols.all.difference(&own_symbols.all).cloned().collect_set(),
        })
    }

    fn symbols(&self, trees: &[BuiltTree]) -> Result<Symbols, BuildError> {
        let mut found = Symbols::default();
        for file in Self::libraries(trees) {
            let library = ObjectBytes::open(self.job.host, &self.job.host.path(&file.path))
                .map_err(|error| BuildError::io("read", &file.path, &error.into()))?;
            found.strong.extend(symbols::defined(library.data()).unwrap_or_default());
            found.all.extend(symbols::globals(library.data()).unwrap_or_default());
            found.groups.extend(symbols::groups(library.data()).unwrap_or_default());
        }
        Ok(found)
    }

    fn folder(&self) -> HostPath {
        self.job.root.join("with").join(&self.with.name)
    }

    /// A hash of everything that the renamed or linked libraries depend on.
    fn key(&self, trees: &[BuiltTree], same: &SharedSymbols) -> String {
        let other_symbols: Vec<_> = Self::libraries(trees).map(|file| (&file.path, &file.sha256)).collect();
        let links: Vec<_> = trees.iter().map(|tree| &tree.link).collect();
        let parts = (
            other_symbols,
            links,
            &same.all,
            &same.groups,
            self.with.same_symbols,
            env!("CARGO_PKG_VERSION"),
        );
        sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
    }

    fn prefixed(
        &self,
        mut trees: Vec<BuiltTree>,
        same: &SharedSymbols,
    ) -> Result<Vec<BuiltTree>, BuildError> {
        let (host, folder) = (self.job.host, self.folder());
        let prefix = prefix(&self.with.name);
        let key = self.key(&trees, same);
        let stamp = folder.join("key.json");
        let current = store::read_json::<String>(host, &stamp).is_some_and(|last| last == key);
        let table: BTreeMap<&str, String> =
            same.all.iter().map(|name| (name.as_str(), format!("{prefix}{name}"))).collect_map();
        if !current {
            host.remove(&stamp).map_err(|error| BuildError::io("remove", &stamp, &error))?;
            let mut text = String::new();
            for (old, new) in &table {
                writeln!(text, "{old} {new}").expect("writing to a string");
            }
            // The linker keeps one COMDAT group of each name. Without a new name it would discard this group, including the
            // renamed symbols in it.
            for name in &same.groups {
                writeln!(text, "{name} {prefix}{name}").expect("writing to a string");
            }
            let list = folder.join("symbols.txt");
            host.write(&list, text.as_bytes()).map_err(|error| BuildError::io("write", &list, &error))?;
            let path = folder.join(TABLE);
            store::write_json(host, &path, &table).map_err(|error| BuildError::io("write", &path, &error))?;
        }
        for tree in &mut trees {
            let mut moved = BTreeMap::new();
            for file in tree.files.iter_mut().filter(|file| file.kind == "static") {
                let old = file.path.clone();
                let name = old.rsplit(['/', '\\']).next().unwrap_or(&old);
                let bare = name.strip_prefix("lib").unwrap_or(name);
                let to = folder.join(&format!("lib{}-{bare}", self.with.name));
                if !current || !host.is_file(&to) {
                    self.rename(&old, &to, &folder.join("symbols.txt"))?;
                }
                (file.sha256, file.bytes) = self.hash(to.as_str())?;
                file.path = to.to_string();
                moved.insert(old, to.to_string());
            }
            for item in &mut tree.link {
                if let LinkItem::Static { path } = item
                    && let Some(to) = moved.get(path)
                {
                    path.clone_from(to);
                }
            }
        }
        store::write_json(host, &stamp, &key).map_err(|error| BuildError::io("write", &stamp, &error))?;
        Ok(trees)
    }

    fn rename(&self, from: &str, to: &HostPath, list: &HostPath) -> Result<(), BuildError> {
        let host = self.job.host;
        let named = host.env().get("OBJCOPY").map(|text| host.path(text));
        let found =
            named.or_else(|| OBJCOPY.iter().find_map(|name| find_program(host, name).into_iter().next()));
        let objcopy = found.ok_or_else(|| TogetherError::NoObjcopy { name: self.with.name.clone() })?;
        let option = format!("--redefine-syms={list}");
        self.run(&objcopy, from, &[&option, from, to.as_str()])
    }

    fn run(&self, program: &HostPath, file: &str, arguments: &[&str]) -> Result<(), BuildError> {
        let command = Command::new(program.as_str(), DEADLINE).args(arguments.iter().copied());
        let output = self.job.host.run(&command).map_err(|error| match error {
            gpubuild_host::RunError::Interrupted => BuildError::Interrupted,
            other => BuildError::Run(other),
        })?;
        if output.success() {
            return Ok(());
        }
        let lines = output.stderr.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.map(str::to_owned).next().unwrap_or_else(|| "no error output".to_owned());
        Err(TogetherError::Tool { program: program.to_string(), file: file.to_owned(), message }.into())
    }

    /// Links the archives of the other project into one shared library that exports only the symbols that this project does
    /// not define.
    fn isolated(
        &self,
        mut trees: Vec<BuiltTree>,
        same: &SharedSymbols,
    ) -> Result<Vec<BuiltTree>, BuildError> {
        let (host, folder) = (self.job.host, self.folder());
        if host.platform().os != Os::Linux {
            return Err(TogetherError::Unsupported { name: self.with.name.clone() }.into());
        }
        let key = self.key(&trees, same);
        let stamp = folder.join("key.json");
        let file_name = format!("lib{}-apart.so", self.with.name);
        let library = folder.join(&file_name);
        let is_current = store::read_json::<String>(host, &stamp).is_some_and(|last| last == key);
        if !is_current || !host.is_file(&library) {
            host.remove(&stamp).map_err(|error| BuildError::io("remove", &stamp, &error))?;
            let map = folder.join("exports.map");
            let mut text = "{\n  global:\n".to_owned();
            for name in &same.own {
                writeln!(text, "    {name};").expect("writing to a string");
            }
            text.push_str("  local:\n    *;\n};\n");
            host.write(&map, text.as_bytes()).map_err(|error| BuildError::io("write", &map, &error))?;
            let compiler =
                trees.iter().find_map(|tree| tree.compilers.get("CXX").or(tree.compilers.get("C")));
            let compiler = host.path(compiler.map_or("c++", |compiler| compiler.path.as_str()));
            let mut words = vec![
                "-shared".to_owned(),
                "-o".to_owned(),
                library.to_string(),
                format!("-Wl,-soname,{file_name}"),
                format!("-Wl,--version-script={map}"),
                "-Wl,--no-undefined".to_owned(),
                "-Wl,--whole-archive".to_owned(),
            ];
            words.extend(Self::libraries(&trees).map(|file| file.path.clone()));
            words.push("-Wl,--no-whole-archive".to_owned());
            for tree in &trees {
                let other_symbols = Manifest { trees: vec![tree.clone()], ..self.manifest.clone() };
                let mut rest = gpubuild_plan::link::directives(&other_symbols, Os::Linux);
                rest.statics.clear();
                words.extend(gpubuild_plan::link::words(&rest));
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.run(&compiler, library.as_str(), &words)?;
            store::write_json(host, &stamp, &key).map_err(|error| BuildError::io("write", &stamp, &error))?;
        }
        let (sha256, bytes) = self.hash(library.as_str())?;
        let artifact = Artifact {
            target: format!("{}-apart", self.with.name),
            kind: "shared".to_owned(),
            path: library.to_string(),
            bytes,
            sha256,
            symbols: None,
            device_code: Vec::new(),
        };
        for (index, tree) in trees.iter_mut().enumerate() {
            tree.files.retain(|file| file.kind != "static");
            tree.link = Vec::new();
            if index == 0 {
                tree.link.push(LinkItem::Shared { path: artifact.path.clone() });
                tree.files.push(artifact.clone());
            }
        }
        Ok(trees)
    }
}

/// Symbols that the static libraries of a project define.
#[derive(Default)]
struct Symbols {
    strong: BTreeSet<String>,
    all: BTreeSet<String>,
    groups: BTreeSet<String>,
}

/// Comparison of the symbols of two projects.
struct SharedSymbols {
    /// Symbols that both define strongly, which is a linker error.
    strong: Vec<String>,
    /// All global symbols that both define.
    all: BTreeSet<String>,
    /// Names of COMDAT groups in both that are not symbols.
    groups: BTreeSet<String>,
    /// Symbols that only the other project defines.
    own: BTreeSet<String>,
}

/// The prefix of a project's renamed symbols: `whisper_` for the project `whisper`.
#[must_use]
pub fn prefix(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("{plain}_")
}
