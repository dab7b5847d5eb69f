//! Compiler launchers: which caches and distributors stand in front of which compiler, and why.
//!
//! Pure. Whether a launcher really goes with a compiler is tried before configuring; what does not is left out then.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_detect::toolkit::description::LauncherDescription;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{Environment, HostPath};

use super::{Plan, PlannedTree};
use crate::project::CacheTable;

/// A program that can stand in front of compilers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// Id of its description.
    pub id: String,
    /// Where it is; `None` if it is not here.
    pub program: Option<HostPath>,
    /// What it does.
    pub description: LauncherDescription,
    /// Whether some file lists the machines that it compiles on.
    pub has_hosts: bool,
    /// How to get it.
    pub install: Option<String>,
}

/// Everything that the choice follows from.
#[derive(Debug, Clone, Copy)]
pub struct LauncherContext<'a> {
    /// What is known, the preferred ones first.
    pub launchers: &'a [Launcher],
    /// `--launcher`.
    pub flag: Option<&'a str>,
    /// The environment.
    pub env: &'a Environment,
    /// `[cache]` of gpubuild.toml.
    pub table: &'a CacheTable,
    /// Folder of the project.
    pub root: &'a HostPath,
}

/// A launcher that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LauncherError {
    /// No such thing.
    #[error("{origin} names the launcher `{name}`, which is not known")]
    Unknown {
        /// Where it was named.
        origin: String,
        /// As written.
        name: String,
    },
    /// It is not here.
    #[error("{origin} asks for `{name}`, which is not on this machine")]
    Missing {
        /// Where it was named.
        origin: String,
        /// Its id.
        name: String,
        /// How to get it.
        install: Option<String>,
    },
}

impl Diagnostic for LauncherError {
    fn id(&self) -> DiagnosticId {
        match self {
            Self::Unknown { .. } => id!("launcher.unknown"),
            Self::Missing { .. } => id!("launcher.missing"),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { .. } => {
                "use `auto`, `ccache`, `sccache`, `distcc`, `icecream`, `ccache+distcc` or `none`".to_owned()
            }
            Self::Missing { install: Some(install), .. } => format!("{install}, or `--launcher none`"),
            Self::Missing { install: None, .. } => "install it, or build with `--launcher none`".to_owned(),
        })
    }
}

/// The launchers that the catalogue knows.
#[must_use]
pub fn launchers(
    inventory: &Inventory,
    catalogue: &Catalogue,
    facts: &Facts,
    exists: &dyn Fn(&str) -> bool,
) -> Vec<Launcher> {
    let mut known: Vec<_> = catalogue.iter().filter(|description| description.launcher.is_some()).collect();
    // Caches first: only they have an order among themselves.
    known.sort_by_key(|description| (description.preference == 0, description.preference, &description.id));
    let launcher = |description: &&gpubuild_detect::toolkit::Description| {
        let table = description.launcher.clone()?;
        Some(Launcher {
            id: description.id.clone(),
            program: inventory.chosen(&description.id).and_then(|copy| copy.part("program")).cloned(),
            has_hosts: table.hosts_files.iter().any(|file| exists(file)),
            description: table,
            install: for_distribution(facts, &description.install).cloned(),
        })
    };
    known.iter().filter_map(launcher).collect()
}

/// The name of the cache entry that puts a launcher in front of a language's compiler.
#[must_use]
pub fn entry(language: &str) -> String {
    format!("CMAKE_{language}_COMPILER_LAUNCHER")
}

/// Languages that may have a launcher.
pub const LANGUAGES: [&str; 4] = ["C", "CXX", "CUDA", "HIP"];

/// Puts launchers in front of the compilers of a plan's trees.
///
/// # Errors
/// A launcher that is not known, or one that a flag or `GPUBUILD_LAUNCHER` names and that is not here.
pub fn apply(plan: &mut Plan, scene: &LauncherContext<'_>) -> Result<(), LauncherError> {
    let mut notes: Vec<String> = Vec::new();
    for tree in &mut plan.trees {
        for language in LANGUAGES {
            if !is_in(tree, language) || tree.cache.contains_key(&entry(language)) {
                continue;
            }
            let Some(choice) = choose(scene, language, &mut notes)? else { continue };
            let env = environment(&choice, scene, tree, &mut notes);
            tree.env.extend(env);
            tree.cache.insert(entry(language), choice.value);
            notes.push(format!("{language} goes through {} (asked for by {})", choice.name, choice.origin));
        }
    }
    let wrapper = scene.env.get("RUSTC_WRAPPER").filter(|value| value.contains("cache"));
    if let (Some(wrapper), true) = (wrapper, notes.is_empty()) {
        notes.push(format!(
            "RUSTC_WRAPPER={wrapper} holds for Rust only; `--launcher auto` caches the native compilers"
        ));
    }
    for note in notes {
        if !plan.notes.contains(&note) {
            plan.notes.push(note);
        }
    }
    Ok(())
}

fn is_in(tree: &PlannedTree, language: &str) -> bool {
    match language {
        "CUDA" => tree.backends.contains(&Backend::Cuda),
        "HIP" => tree.backends.contains(&Backend::Rocm),
        _ => true,
    }
}

/// A launcher for one language.
struct LauncherChoice<'a> {
    /// The value of the cache entry.
    value: String,
    /// For people: `ccache`, `ccache+distcc`.
    name: String,
    origin: String,
    first: Option<&'a Launcher>,
    behind: Option<&'a Launcher>,
}

/// What is asked for, by the nearest that asks: flag, `GPUBUILD_LAUNCHER`, CMake's own variables, gpubuild.toml.
fn wish(scene: &LauncherContext<'_>, language: &str) -> Option<(String, String)> {
    if let Some(flag) = scene.flag {
        return Some((flag.to_owned(), "--launcher".to_owned()));
    }
    for name in ["GPUBUILD_LAUNCHER".to_owned(), entry(language)] {
        if let Some(value) = scene.env.get(&name).filter(|value| !value.is_empty()) {
            return Some((value.to_owned(), name));
        }
    }
    let languages = &scene.table.languages;
    let by_language = match language {
        "C" => &languages.c,
        "CXX" => &languages.cxx,
        "CUDA" => &languages.cuda,
        _ => &languages.hip,
    };
    let word = by_language.as_ref().or(scene.table.launcher.as_ref())?;
    Some((word.clone(), "gpubuild.toml".to_owned()))
}

fn choose<'a>(
    scene: &LauncherContext<'a>,
    language: &str,
    notes: &mut Vec<String>,
) -> Result<Option<LauncherChoice<'a>>, LauncherError> {
    let Some((word, origin)) = wish(scene, language) else { return Ok(None) };
    let takes = |launcher: &&Launcher| launcher.description.languages.iter().any(|one| one == language);
    match word.as_str() {
        "none" | "off" | "" => return Ok(None),
        "auto" => {
            let mut here =
                scene.launchers.iter().filter(|launcher| launcher.description.caches).filter(takes);
            let Some(first) = here.clone().find(|launcher| launcher.program.is_some()) else {
                let install = here.find_map(|launcher| launcher.install.as_deref());
                let hint = install.map(|install| format!(": {install}")).unwrap_or_default();
                notes.push(format!("{origin} asks for a compiler cache, and none is on this machine{hint}"));
                return Ok(None);
            };
            return Ok(Some(of(first, None, origin)));
        }
        // A path, or a list of CMake's: as it is.
        _ if word.contains(['/', '\\', ';', ' ']) => {
            return Ok(Some(LauncherChoice {
                value: word.clone(),
                name: format!("`{word}`"),
                origin,
                first: None,
                behind: None,
            }));
        }
        _ => {}
    }
    let (first, behind) = match word.split_once('+') {
        Some((first, behind)) => (first, Some(behind)),
        None => (word.as_str(), None),
    };
    let Some(first) = find(scene, first, &origin, notes)? else { return Ok(None) };
    let behind = match behind {
        Some(behind) if first.description.prefix.is_some() => find(scene, behind, &origin, notes)?,
        Some(_) => return Err(LauncherError::Unknown { origin, name: word.clone() }),
        None => None,
    };
    if !takes(&first) {
        notes.push(format!("{language} does not go through {}, which is for C and C++", first.id));
        return Ok(None);
    }
    Ok(Some(of(first, behind, origin)))
}

fn of<'a>(first: &'a Launcher, behind: Option<&'a Launcher>, origin: String) -> LauncherChoice<'a> {
    let value = first.program.as_ref().map(HostPath::forward_slashes).unwrap_or_default();
    let name = behind.map_or_else(|| first.id.clone(), |behind| format!("{}+{}", first.id, behind.id));
    LauncherChoice { value, name, origin, first: Some(first), behind }
}

/// A launcher by its name. One that only gpubuild.toml names may be missing: a cache makes builds faster, not possible.
fn find<'a>(
    scene: &LauncherContext<'a>,
    name: &str,
    origin: &str,
    notes: &mut Vec<String>,
) -> Result<Option<&'a Launcher>, LauncherError> {
    let named = |launcher: &&Launcher| launcher.id == name || (name == "icecc" && launcher.id == "icecream");
    let Some(launcher) = scene.launchers.iter().find(named) else {
        return Err(LauncherError::Unknown { origin: origin.to_owned(), name: name.to_owned() });
    };
    if launcher.program.is_some() {
        return Ok(Some(launcher));
    }
    if origin != "gpubuild.toml" {
        let (origin, install) = (origin.to_owned(), launcher.install.clone());
        return Err(LauncherError::Missing { origin, name: launcher.id.clone(), install });
    }
    let hint = launcher.install.as_deref().map(|install| format!(": {install}")).unwrap_or_default();
    notes.push(format!("{origin} asks for {}, which is not on this machine{hint}", launcher.id));
    Ok(None)
}

/// The variables that a launcher needs. What the user has set already stays.
fn environment(
    choice: &LauncherChoice<'_>,
    scene: &LauncherContext<'_>,
    tree: &PlannedTree,
    notes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(first) = choice.first else { return env };
    let mut set = |name: &str, value: String| {
        if scene.env.get(name).is_none() {
            env.insert(name.to_owned(), value);
        }
    };
    let table = &first.description;
    if let Some(log) = &table.log {
        set(log, tree.build.join(LOG).to_string());
    }
    if let (Some(name), Some(program)) = (&table.prefix, choice.behind.and_then(|one| one.program.as_ref())) {
        set(name, program.to_string());
    }
    if let Some(url) = &scene.table.remote {
        let scheme = url.split("://").next().unwrap_or_default();
        match &table.remote {
            Some(remote) if remote.schemes.iter().any(|known| known == scheme) => {
                // One that is set wins over all of them: they are names of one setting.
                if remote.env.iter().all(|name| scene.env.get(name).is_none()) {
                    remote.env.iter().for_each(|name| set(name, url.clone()));
                }
                if let Some(base) = &table.base {
                    set(base, scene.root.to_string());
                }
            }
            Some(_) => notes.push(format!("{} takes no shared storage of the kind `{scheme}`", first.id)),
            None => {}
        }
    }
    for one in [Some(first), choice.behind].into_iter().flatten() {
        if let Some(hosts) = &one.description.hosts
            && scene.env.get(hosts).is_none()
            && !one.has_hosts
        {
            notes.push(format!("{} knows no other machine and compiles here: {hosts} is not set", one.id));
        }
    }
    env
}

/// Where a tree's launcher writes the outcome of its calls, below the build folder.
pub const LOG: &str = "gpubuild/launcher.log";

#[cfg(test)]
#[path = "launchers_tests.rs"]
mod tests;
