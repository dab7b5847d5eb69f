//! Several projects in one program: their libraries may define the same symbols, as two copies of ggml do.
//!
//! That is found before anything is linked. On request the symbols of the other project get a prefix, or its libraries go
//! into a shared one that keeps them to itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::id;
use gpubuild_host::{Command, HostPath, Os, find_program};
use gpubuild_linker::symbols;
use gpubuild_plan::artifacts::{Artifact, BuiltTree, LinkItem, Manifest, ManifestError};
use gpubuild_plan::project::together::{InterfaceDifference, SameSymbols, With};

use super::BuildJob;
use super::error::BuildError;
use crate::store::{self, sha256};

/// How long one archive or one link may take.
const DEADLINE: Duration = Duration::from_secs(30 * 60);

/// Programs that rename symbols in archives.
const OBJCOPY: [&str; 2] = ["objcopy", "llvm-objcopy"];

/// The file with the new names beside the libraries that have them.
pub const TABLE: &str = "symbols.json";

/// Why two projects do not go into one program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TogetherError {
    /// The other one was not built, or its manifest cannot be read.
    #[error("`{name}` is to go into the same program, and {why}")]
    NotBuilt {
        /// The other project.
        name: String,
        /// What is wrong.
        why: String,
        /// Its folder.
        folder: String,
    },
    /// Both define the same symbols, and nothing was said about them.
    #[error("`{project}` and `{name}` both define `{symbol}` and {more} further symbols{}", told(.differences))]
    SameSymbols {
        /// This project.
        project: String,
        /// The other one.
        name: String,
        /// The first symbol.
        symbol: String,
        /// How many more.
        more: usize,
        /// How their interfaces differ.
        differences: Vec<InterfaceDifference>,
    },
    /// There is no program that renames symbols.
    #[error("renaming the symbols of `{name}` takes objcopy, and there is none")]
    NoObjcopy {
        /// The other project.
        name: String,
    },
    /// A program failed.
    #[error("`{program}` failed on `{file}`: {message}")]
    Tool {
        /// The program.
        program: String,
        /// What it worked on.
        file: String,
        /// What it said.
        message: String,
    },
    /// Not on this system.
    #[error("keeping the symbols of `{name}` in a shared library of their own is known for Linux only")]
    Unsupported {
        /// The other project.
        name: String,
    },
}

fn told(differences: &[InterfaceDifference]) -> String {
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
            Self::NotBuilt { folder, .. } => format!("build it first: `gpubuild build --project {folder}`"),
            Self::SameSymbols { name, .. } => format!(
                "say in gpubuild.toml, under `[[with]]` of `{name}`, what to do: `same_symbols = \"prefix\"` renames its \
                 symbols, `\"dynamic\"` keeps them inside a shared library (docs/guide/several-projects.md)"
            ),
            Self::NoObjcopy { .. } => {
                "install binutils or LLVM, name the program in OBJCOPY, or use `same_symbols = \"dynamic\"`"
                    .to_owned()
            }
            Self::Tool { .. } => "run the command by hand to see more".to_owned(),
            Self::Unsupported { .. } => "use `same_symbols = \"prefix\"`".to_owned(),
        })
    }
}

/// Adds what other projects built to a manifest, so that one program links all of it.
///
/// # Errors
/// A project is not built, the same symbols stand in two and nothing may be done about it, or a tool fails.
pub(super) fn add(job: &BuildJob<'_>, with: &[With], manifest: &mut Manifest) -> Result<(), BuildError> {
    for one in with {
        let mut trees = Other { job, with: one, manifest }.trees()?;
        if one.same_symbols == SameSymbols::Shared {
            manifest.forget(&trees);
        }
        manifest.backends.extend(trees.iter().flat_map(|tree| tree.backends.clone()));
        manifest.trees.append(&mut trees);
    }
    manifest.backends.sort();
    manifest.backends.dedup();
    Ok(())
}

struct Other<'a> {
    job: &'a BuildJob<'a>,
    with: &'a With,
    manifest: &'a Manifest,
}

impl Other<'_> {
    fn trees(&self) -> Result<Vec<BuiltTree>, BuildError> {
        let (host, with) = (self.job.host, self.with);
        let not_built = |why: String| TogetherError::NotBuilt {
            name: with.name.clone(),
            why,
            folder: with.folder.to_string(),
        };
        let other = Manifest::read(host, &with.manifest).map_err(|error| {
            not_built(match error {
                ManifestError::Missing { .. } => "it was not built yet".to_owned(),
                error => error.to_string(),
            })
        })?;
        if let Some(path) = super::changed_files(host, &other).first() {
            return Err(not_built(format!("`{path}` is not as it was built")).into());
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

    fn read(&self, path: &str) -> Result<Vec<u8>, BuildError> {
        self.job.host.read(&self.job.host.path(path)).map_err(|error| BuildError::io("read", &path, &error))
    }

    fn same(&self, trees: &[BuiltTree]) -> Result<Same, BuildError> {
        let ours = self.symbols(&self.manifest.trees)?;
        let theirs = self.symbols(trees)?;
        let both = |ours: &BTreeSet<String>, theirs: &BTreeSet<String>| -> BTreeSet<String> {
            ours.intersection(theirs).cloned().collect()
        };
        // What two compilers' copies of one inline function do with the same name is no error to a linker, and may be two
        // different functions: those are renamed as well.
        let all = both(&ours.all, &theirs.all);
        let groups = both(&ours.groups, &theirs.groups);
        Ok(Same {
            strong: ours.strong.intersection(&theirs.strong).cloned().collect(),
            groups: groups.difference(&all).cloned().collect(),
            all,
            own: theirs.all.difference(&ours.all).cloned().collect(),
        })
    }

    fn symbols(&self, trees: &[BuiltTree]) -> Result<Symbols, BuildError> {
        let mut found = Symbols::default();
        for file in Self::libraries(trees) {
            let bytes = self.read(&file.path)?;
            found.strong.extend(symbols::defined(&bytes).unwrap_or_default());
            found.all.extend(symbols::globals(&bytes).unwrap_or_default());
            found.groups.extend(symbols::groups(&bytes).unwrap_or_default());
        }
        Ok(found)
    }

    fn folder(&self) -> HostPath {
        self.job.root.join("with").join(&self.with.name)
    }

    /// Everything that the made files follow from.
    fn key(&self, trees: &[BuiltTree], same: &Same) -> String {
        let theirs: Vec<_> = Self::libraries(trees).map(|file| (&file.path, &file.sha256)).collect();
        let links: Vec<_> = trees.iter().map(|tree| &tree.link).collect();
        let parts =
            (theirs, links, &same.all, &same.groups, self.with.same_symbols, env!("CARGO_PKG_VERSION"));
        sha256(&serde_json::to_vec(&parts).expect("plain data serialises"))
    }

    fn prefixed(&self, mut trees: Vec<BuiltTree>, same: &Same) -> Result<Vec<BuiltTree>, BuildError> {
        let (host, folder) = (self.job.host, self.folder());
        let prefix = prefix(&self.with.name);
        let key = self.key(&trees, same);
        let stamp = folder.join("key.json");
        let current = store::read_json::<String>(host, &stamp).is_some_and(|last| last == key);
        let table: BTreeMap<&str, String> =
            same.all.iter().map(|name| (name.as_str(), format!("{prefix}{name}"))).collect();
        if !current {
            host.remove(&stamp).map_err(|error| BuildError::io("remove", &stamp, &error))?;
            let mut text = String::new();
            for (old, new) in &table {
                writeln!(text, "{old} {new}").expect("writing to a string");
            }
            // A group that kept its name would be dropped for that of the other project, with the new names in it.
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
                let bytes = self.read(to.as_str())?;
                file.path = to.to_string();
                file.bytes = bytes.len() as u64;
                file.sha256 = sha256(&bytes);
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
        let message = lines.map(str::to_owned).next().unwrap_or_else(|| "it said nothing".to_owned());
        Err(TogetherError::Tool { program: program.to_string(), file: file.to_owned(), message }.into())
    }

    /// One shared library of all their archives, which offers what only they define.
    fn isolated(&self, mut trees: Vec<BuiltTree>, same: &Same) -> Result<Vec<BuiltTree>, BuildError> {
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
                let theirs = Manifest { trees: vec![tree.clone()], ..self.manifest.clone() };
                let mut rest = gpubuild_plan::link::directives(&theirs, Os::Linux);
                rest.statics.clear();
                words.extend(gpubuild_plan::link::words(&rest));
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            self.run(&compiler, library.as_str(), &words)?;
            store::write_json(host, &stamp, &key).map_err(|error| BuildError::io("write", &stamp, &error))?;
        }
        let bytes = self.read(library.as_str())?;
        let artifact = Artifact {
            target: format!("{}-apart", self.with.name),
            kind: "shared".to_owned(),
            path: library.to_string(),
            bytes: bytes.len() as u64,
            sha256: sha256(&bytes),
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

/// Symbols of a project.
#[derive(Default)]
struct Symbols {
    strong: BTreeSet<String>,
    all: BTreeSet<String>,
    groups: BTreeSet<String>,
}

/// Symbols of two projects.
struct Same {
    /// Those that both define so that a linker would complain.
    strong: Vec<String>,
    /// All that both define.
    all: BTreeSet<String>,
    /// Names of COMDAT groups that both have and that are no symbols.
    groups: BTreeSet<String>,
    /// Those that only the other one defines.
    own: BTreeSet<String>,
}

/// `whisper_` for the project `whisper`: what stands before its renamed symbols.
#[must_use]
pub fn prefix(name: &str) -> String {
    let plain: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("{plain}_")
}
