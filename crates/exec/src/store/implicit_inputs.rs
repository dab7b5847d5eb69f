//! Implicit inputs of a build: programs on PATH, packages under default prefixes, the state of the git repository, the
//! processor.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_host::{HostPath, Os, ReadFiles, WriteFiles, find_program, glob};
use gpubuild_plan::plan::PlannedTree;
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use super::files;
use super::key::KeyParts;
use super::sha256;
use super::table::{StampTable, has_extension};

/// Returns for each program name in the table the first path on PATH with links resolved.
#[must_use]
pub fn programs(host: &dyn ReadFiles) -> Vec<(String, Option<HostPath>)> {
    let first = |name: &String| {
        let found = find_program(host, name).into_iter().next()?;
        Some(host.canonical(&found).unwrap_or(found))
    };
    StampTable::embedded().programs.iter().map(|name| (name.clone(), first(name))).collect()
}

/// Returns programs that cache entries and environment variables name: compilers, assemblers, launchers. Names of variables
/// start with `$`.
#[must_use]
pub fn named_programs(host: &dyn ReadFiles, tree: &PlannedTree) -> Vec<(String, HostPath)> {
    let named = tree.cache.iter().filter(|(_, value)| host.path(value).is_absolute());
    let mut found = Vec::new();
    for (name, value) in named {
        let path = host.path(value);
        if host.stat(&path).is_ok_and(|stat| stat.executable) {
            found.push((name.clone(), host.canonical(&path).unwrap_or(path)));
        }
    }
    for name in ["CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "HIPCXX", "OBJC", "NVCC_CCBIN"] {
        let word = host.env().get(name).and_then(|value| value.split_whitespace().next());
        if let Some(path) = word.and_then(|word| find_program(host, word).into_iter().next()) {
            found.push((format!("${name}"), host.canonical(&path).unwrap_or(path)));
        }
    }
    found
}

/// The folders where CMake searches for packages. Not all exist.
fn package_folders(host: &dyn ReadFiles, tree: &PlannedTree) -> Vec<HostPath> {
    let table = StampTable::embedded();
    let mut prefixes: Vec<HostPath> =
        table.prefixes(host.platform().os).iter().map(|prefix| host.path(prefix)).collect();
    let separator = if host.platform().os == Os::Windows { &[';'][..] } else { &[';', ':'][..] };
    for name in &table.prefix_entries {
        let values = [tree.cache.get(name).map(String::as_str), host.env().get(name)];
        let folders = values.into_iter().flatten().flat_map(|value| value.split(separator));
        prefixes.extend(folders.map(|folder| host.path(folder)).filter(HostPath::is_absolute));
    }
    prefixes.retain(|prefix| !prefix.is_inside(&tree.source) && !prefix.is_inside(&tree.build));
    let patterns = prefixes.iter().flat_map(|prefix| table.folders.iter().map(|folder| prefix.join(folder)));
    patterns
        .flat_map(
            |pattern| {
                if pattern.as_str().contains('*') { glob(host, pattern.as_str()) } else { vec![pattern] }
            },
        )
        .collect()
}

/// Adds hashes of the names in all folders where CMake searches for packages.
pub fn packages(host: &dyn ReadFiles, tree: &PlannedTree, parts: &mut KeyParts) {
    for folder in package_folders(host, tree) {
        if let Ok(names) = host.list(&folder) {
            parts.set("packages", folder.as_str(), sha256(names.join("\n").as_bytes()));
        }
    }
}

/// Hashes of the names of sources, headers and scripts in folders of the project outside of the source folder. A new name may match a
/// glob, or come before another header.
#[must_use]
pub fn names_beside(host: &dyn ReadFiles, folders: &BTreeSet<String>) -> BTreeMap<String, String> {
    let names = |folder: &String| {
        let mut names = host.list(&host.path(folder)).unwrap_or_default();
        names.retain(|name| {
            files::is_source_name(name) || has_extension(name, &StampTable::embedded().headers)
        });
        sha256(names.join("\n").as_bytes())
    };
    folders.iter().map(|folder| (folder.clone(), names(folder))).collect()
}

/// The first program on PATH of each name that a path in a CMake cache has.
#[must_use]
pub fn found_programs(host: &dyn ReadFiles, values: &[&str]) -> BTreeMap<String, String> {
    let is_first = |value: &&str| {
        let path = host.path(value);
        let name = path.file_name()?.to_owned();
        (path.is_absolute() && find_program(host, &name).first() == Some(&path))
            .then(|| (name, (*value).to_owned()))
    };
    values.iter().filter_map(is_first).collect()
}

/// When the folders changed in which CMake searches for programs and packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedFolders {
    /// Hash of `PATH`.
    path: String,
    /// Modification times of the folders in nanoseconds since 1970; zero for a missing folder.
    folders: BTreeMap<String, u128>,
}

impl SearchedFolders {
    /// The current state.
    #[must_use]
    pub fn of(host: &dyn ReadFiles, tree: &PlannedTree) -> Self {
        let path = host.env().get("PATH").unwrap_or_default();
        let separator = if host.platform().os == Os::Windows { ';' } else { ':' };
        let programs = path.split(separator).map(|folder| host.path(folder)).filter(HostPath::is_absolute);
        let all = programs.chain(package_folders(host, tree));
        let folders = all.map(|folder| (folder.to_string(), modified(host, &folder))).collect();
        Self { path: sha256(path.as_bytes()), folders }
    }

    /// Whether nothing was added to the folders or removed from them.
    #[must_use]
    pub fn are_unchanged(&self, host: &dyn ReadFiles) -> bool {
        let path = host.env().get("PATH").unwrap_or_default();
        self.path == sha256(path.as_bytes())
            && self.folders.iter().all(|(folder, time)| modified(host, &host.path(folder)) == *time)
    }
}

fn modified(host: &dyn ReadFiles, folder: &HostPath) -> u128 {
    host.stat(folder).ok().and_then(|stat| stat.modified).unwrap_or_default()
}

/// Hash of the state that git commands such as `git describe` report: commit and tags. `None` outside a repository.
#[must_use]
pub fn git_state(host: &dyn ReadFiles, source: &HostPath) -> Option<String> {
    let mut folder = Some(source.clone());
    let dot_git = loop {
        let here = folder?;
        let candidate = here.join(".git");
        if host.exists(&candidate) {
            break candidate;
        }
        folder = here.parent();
    };
    let text = |path: HostPath| host.read_text(&path).unwrap_or_default();
    let git = match host
        .read_text(&dot_git)
        .ok()
        .and_then(|text| Some(text.strip_prefix("gitdir:")?.trim().to_owned()))
    {
        Some(git_dir) => dot_git.parent()?.join(&git_dir).normalized(),
        None => dot_git,
    };
    let common = match text(git.join("commondir")).trim() {
        "" => git.clone(),
        relative => git.join(relative).normalized(),
    };
    let head = text(git.join("HEAD"));
    let branch = head.strip_prefix("ref:").map(str::trim).unwrap_or_default().to_owned();
    let at = if branch.is_empty() { String::new() } else { text(common.join(&branch)) };
    let tags = host.list(&common.join("refs/tags")).unwrap_or_default().join("\n");
    Some(sha256([head, at, text(common.join("packed-refs")), tags].join("\0").as_bytes()))
}

/// Hash of the processor's properties that compilers can detect; `None` if they are unknown.
#[must_use]
pub fn processor(host: &dyn ReadFiles) -> Option<String> {
    let text = host.read_text(&host.path("/proc/cpuinfo")).ok()?;
    let first = text.split("\n\n").next()?;
    let properties = [
        "vendor_id",
        "cpu family",
        "model",
        "stepping",
        "flags",
        "Features",
        "CPU implementer",
        "CPU part",
        "CPU variant",
    ];
    let lines: Vec<&str> = first
        .lines()
        .filter(|line| line.split(':').next().is_some_and(|name| properties.contains(&name.trim())))
        .collect();
    (!lines.is_empty()).then(|| sha256(lines.join("\n").as_bytes()))
}

/// Hashes of files outside source and build folders. They are cached in a file that all projects share.
pub struct ExternalHashes<'a> {
    host: &'a dyn WriteFiles,
    cache_file: Option<HostPath>,
    cached: Option<Contents>,
    seen: BTreeMap<String, Option<String>>,
    new: Contents,
}

/// Maximum number of cached hashes. A larger cache is cleared.
const MAX_CACHED: usize = 20_000;

impl<'a> ExternalHashes<'a> {
    /// Creates an empty set of hashes, with a cache file if there is one.
    #[must_use]
    pub fn new(host: &'a dyn WriteFiles, cache_file: Option<HostPath>) -> Self {
        let cached = cache_file.as_ref().and_then(|cache_file| Contents::read(host, cache_file));
        Self { host, cache_file, cached, seen: BTreeMap::new(), new: Contents::default() }
    }

    /// Returns the hashes of files; `None` for a missing or unreadable file.
    pub fn hashes(&mut self, paths: &[String]) -> Vec<Option<String>> {
        let unseen = paths.iter().filter(|path| !self.seen.contains_key(*path)).map(String::as_str);
        let snapshot = files::snapshot(self.host, unseen);
        let contents = Contents::of(self.host, &snapshot, self.cached.as_ref());
        for path in paths {
            if !self.seen.contains_key(path) {
                self.seen.insert(path.clone(), contents.files.get(path).map(|known| known.sha256.clone()));
            }
        }
        self.new.files.extend(contents.files);
        paths.iter().map(|path| self.seen.get(path).cloned().flatten()).collect()
    }

    /// Returns the hash of one file; `None` if it is missing or unreadable.
    pub fn hash(&mut self, path: &str) -> Option<String> {
        self.hashes(std::slice::from_ref(&path.to_owned())).pop().flatten()
    }

    /// Saves new hashes in the cache file. Failures are only logged.
    pub fn write(&self) {
        let Some(cache_file) = &self.cache_file else { return };
        let mut all = self.cached.clone().unwrap_or_else(|| Contents::of(self.host, &BTreeMap::new(), None));
        if self.new.files.iter().all(|(path, known)| all.files.get(path) == Some(known)) {
            return;
        }
        if all.files.len() > MAX_CACHED {
            all.files.clear();
        }
        all.files.extend(self.new.files.clone());
        if let Err(error) = all.write(self.host, cache_file) {
            log::debug!("failed to save file hashes in `{cache_file}`: {error}");
        }
    }
}
