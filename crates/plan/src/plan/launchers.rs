//! Selects compiler launchers (caches and distributors) per language.
//!
//! Pure. The build tests each launcher with its compiler before it configures, and drops launchers that do not work.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::diagnostic::{Diagnostic, DiagnosticId};
use gpubuild_detect::facts::Facts;
use gpubuild_detect::id;
use gpubuild_detect::matrix::install_command;
use gpubuild_detect::toolkit::description::LauncherDescription;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{Environment, HostPath};

use super::{Plan, PlannedFarm, PlannedQuestion, PlannedTree};
use crate::project::CacheTable;

/// A compiler launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    /// Id of its description.
    pub id: String,
    /// Its path; `None` if it is not installed.
    pub program: Option<HostPath>,
    /// Its properties from the description.
    pub description: LauncherDescription,
    /// Whether a configuration file lists the machines that it distributes to.
    pub has_hosts: bool,
    /// Whether a configuration file exists that can name a scheduler.
    pub has_config: bool,
    /// The address of its scheduler in a configuration file.
    pub scheduler: Option<String>,
    /// The command that installs it.
    pub install: Option<String>,
}

impl Launcher {
    fn supports(&self, language: &str) -> bool {
        self.description.languages.iter().any(|one| one == language)
    }

    /// Whether this name requests it with distribution: `sccache-dist`.
    fn is_named_as_farm(&self, name: &str) -> bool {
        self.description.farm.as_ref().is_some_and(|farm| farm.name.as_deref() == Some(name))
    }
}

/// The inputs of the selection.
#[derive(Debug, Clone, Copy)]
pub struct LauncherContext<'a> {
    /// The known launchers, preferred ones first.
    pub launchers: &'a [Launcher],
    /// `--launcher`.
    pub flag: Option<&'a str>,
    /// The environment.
    pub env: &'a Environment,
    /// `[cache]` of gpubuild.toml.
    pub table: &'a CacheTable,
    /// The project's folder.
    pub root: &'a HostPath,
}

impl LauncherContext<'_> {
    fn unknown(&self, origin: &str, name: &str) -> LauncherError {
        let all = self.launchers.iter();
        let mut known: Vec<String> = all.clone().map(|launcher| launcher.id.clone()).collect();
        known.extend(all.clone().filter_map(|launcher| launcher.description.farm.as_ref()?.name.clone()));
        for first in all.clone().filter(|launcher| launcher.description.prefix.is_some()) {
            let distributors = all.clone().filter(|launcher| !launcher.description.caches);
            known.extend(distributors.map(|second| format!("{}+{}", first.id, second.id)));
        }
        LauncherError::Unknown { origin: origin.to_owned(), name: name.to_owned(), known }
    }
}

/// A launcher that is unknown or not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LauncherError {
    /// No description defines it.
    #[error("{origin} names the unknown launcher `{name}`")]
    Unknown {
        /// The flag, variable or file that names it.
        origin: String,
        /// The name as written.
        name: String,
        /// The names that are known.
        known: Vec<String>,
    },
    /// It is not installed.
    #[error("{origin} requests `{name}`, which is not installed")]
    Missing {
        /// The flag or variable that names it.
        origin: String,
        /// Its id.
        name: String,
        /// The command that installs it.
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
            Self::Unknown { known, .. } => {
                format!("use `auto`, `none`, one of {}, or a path", known.join(", "))
            }
            Self::Missing { install: Some(install), .. } => format!("{install}, or `--launcher none`"),
            Self::Missing { install: None, .. } => "install it, or build with `--launcher none`".to_owned(),
        })
    }
}

/// The launchers that the catalogue describes, with their installations.
#[must_use]
pub fn launchers(
    inventory: &Inventory,
    catalogue: &Catalogue,
    facts: &Facts,
    exists: &dyn Fn(&str) -> bool,
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<Launcher> {
    let mut known: Vec<_> = catalogue.iter().filter(|description| description.launcher.is_some()).collect();
    // Caches are first: only they have a preference.
    known.sort_indirect_by_key(|description| {
        (description.preference == 0, description.preference, &description.id)
    });
    let launcher = |description: &&gpubuild_detect::toolkit::Description| {
        let table = description.launcher.as_ref()?;
        Some(Launcher {
            id: description.id.clone(),
            program: inventory.chosen(&description.id).and_then(|copy| copy.part("program")).cloned(),
            has_hosts: table.hosts_files.iter().any(|file| exists(file)),
            has_config: table
                .farm
                .as_ref()
                .is_some_and(|farm| farm.config_files.iter().any(|file| exists(file))),
            scheduler: table.farm.as_ref().and_then(|farm| {
                let mut files = farm.scheduler.as_ref()?.files.iter();
                files.find_map(|(file, name)| assigned(&read(file)?, name))
            }),
            description: LauncherDescription::clone(table),
            install: install_command(facts, &description.install),
        })
    };
    known.iter().filter_map(launcher).collect()
}

/// The value of a line `NAME=value` or `NAME="value"` of a shell script; `None` if it is empty.
fn assigned(text: &str, name: &str) -> Option<String> {
    let mut values =
        text.lines().filter_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
    let value = values.next_back()?.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

/// The name of the cache entry for the launcher of a language's compiler.
#[must_use]
pub fn entry(language: &str) -> String {
    format!("CMAKE_{language}_COMPILER_LAUNCHER")
}

/// Languages for which CMake supports launchers.
pub const LANGUAGES: [&str; 4] = ["C", "CXX", "CUDA", "HIP"];

/// Adds launchers to the cache entries and environments of a plan's trees.
///
/// # Errors
/// The launcher is unknown, or it was selected by the flag or a variable and is not installed.
pub fn apply(plan: &mut Plan, context: &LauncherContext<'_>) -> Result<(), LauncherError> {
    let mut notes: Vec<String> = Vec::new();
    let mut places: Vec<(&str, String)> = Vec::new();
    for tree in &mut plan.trees {
        for language in LANGUAGES {
            if !is_in(tree, language) || tree.cache.contains_key(&entry(language)) {
                continue;
            }
            let Some(choice) = choose(context, language, &mut notes)? else { continue };
            let farm = farm(&choice, context, language);
            let local = farm.as_ref().and_then(|farm| farm.local.clone());
            tree.farms.extend(farm.map(|farm| (language.to_owned(), farm)));
            if !choice.supports(language) {
                let why = local.map(|why| format!(": {why}")).unwrap_or_default();
                places.push((language, format!("not compiled through {}{why}", choice.name)));
                continue;
            }
            let env = environment(&choice, context, tree, &mut notes);
            tree.env.extend(env);
            tree.cache.insert(entry(language), choice.value);
            let local = local.map(|why| format!(", but not distributed: {why}")).unwrap_or_default();
            places.push((
                language,
                format!("compiled through {} (selected by {}){local}", choice.name, choice.origin),
            ));
        }
    }
    notes.extend(by_place(&places));
    let wrapper = context.env.get("RUSTC_WRAPPER").filter(|value| value.contains("cache"));
    if let (Some(wrapper), true) = (wrapper, notes.is_empty()) {
        notes.push(format!(
            "RUSTC_WRAPPER={wrapper} applies to Rust only; use `--launcher auto` to cache native compilers"
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

/// The selected launcher of one language.
struct LauncherChoice<'a> {
    /// The value of the cache entry.
    value: String,
    /// Name for messages: `ccache`, `ccache+distcc`.
    name: String,
    origin: String,
    first: Option<&'a Launcher>,
    behind: Option<&'a Launcher>,
}

impl LauncherChoice<'_> {
    /// A path is used for every language.
    fn supports(&self, language: &str) -> bool {
        self.first.is_none_or(|first| first.supports(language))
    }
}

/// The requested launcher and its origin, in this order: the flag, `GPUBUILD_LAUNCHER`, CMake's variable, gpubuild.toml.
fn requested(context: &LauncherContext<'_>, language: &str) -> Option<(String, String)> {
    if let Some(flag) = context.flag {
        return Some((flag.to_owned(), "--launcher".to_owned()));
    }
    for name in ["GPUBUILD_LAUNCHER".to_owned(), entry(language)] {
        if let Some(value) = context.env.get(&name).filter(|value| !value.is_empty()) {
            return Some((value.to_owned(), name));
        }
    }
    let languages = &context.table.languages;
    let by_language = match language {
        "C" => &languages.c,
        "CXX" => &languages.cxx,
        "CUDA" => &languages.cuda,
        _ => &languages.hip,
    };
    let value = by_language.as_ref().or(context.table.launcher.as_ref())?;
    Some((value.clone(), "gpubuild.toml".to_owned()))
}

fn choose<'a>(
    context: &LauncherContext<'a>,
    language: &str,
    notes: &mut Vec<String>,
) -> Result<Option<LauncherChoice<'a>>, LauncherError> {
    let Some((value, origin)) = requested(context, language) else { return Ok(None) };
    match value.as_str() {
        "none" | "off" | "" => return Ok(None),
        "auto" => {
            let mut here = context
                .launchers
                .iter()
                .filter(|launcher| launcher.description.caches)
                .filter(|launcher| launcher.supports(language));
            let Some(first) = here.clone().find(|launcher| launcher.program.is_some()) else {
                let install = here.find_map(|launcher| launcher.install.as_deref());
                let hint = install.map(|install| format!(": {install}")).unwrap_or_default();
                notes.push(format!("{origin} requests a compiler cache, but none is installed{hint}"));
                return Ok(None);
            };
            return Ok(Some(launcher_choice(first, None, origin)));
        }
        // A path, or a CMake list: use it as is.
        _ if value.contains(['/', '\\', ';', ' ']) => {
            return Ok(Some(LauncherChoice {
                value: value.clone(),
                name: format!("`{value}`"),
                origin,
                first: None,
                behind: None,
            }));
        }
        _ => {}
    }
    let (first, behind) = match value.split_once('+') {
        Some((first, behind)) => (first, Some(behind)),
        None => (value.as_str(), None),
    };
    let Some(first) = find(context, first, &origin, notes)? else { return Ok(None) };
    let behind = match behind {
        Some(behind) if first.description.prefix.is_some() => find(context, behind, &origin, notes)?,
        Some(_) => return Err(context.unknown(&origin, &value)),
        None => None,
    };
    let mut choice = launcher_choice(first, behind, origin);
    if first.is_named_as_farm(&value) {
        choice.name = value;
    }
    Ok(Some(choice))
}

fn launcher_choice<'a>(
    first: &'a Launcher,
    behind: Option<&'a Launcher>,
    origin: String,
) -> LauncherChoice<'a> {
    let value = first.program.as_ref().map(HostPath::forward_slashes).unwrap_or_default();
    let name = behind.map_or_else(|| first.id.clone(), |behind| format!("{}+{}", first.id, behind.id));
    LauncherChoice { value, name, origin, first: Some(first), behind }
}

/// Finds a launcher by name. A missing launcher is an error unless gpubuild.toml names it: the project builds without it.
fn find<'a>(
    context: &LauncherContext<'a>,
    name: &str,
    origin: &str,
    notes: &mut Vec<String>,
) -> Result<Option<&'a Launcher>, LauncherError> {
    let named = |launcher: &&Launcher| {
        launcher.id == name
            || launcher.is_named_as_farm(name)
            || (name == "icecc" && launcher.id == "icecream")
    };
    let Some(launcher) = context.launchers.iter().find(named) else {
        return Err(context.unknown(origin, name));
    };
    if launcher.program.is_some() {
        return Ok(Some(launcher));
    }
    if origin != "gpubuild.toml" {
        let (origin, install) = (origin.to_owned(), launcher.install.clone());
        return Err(LauncherError::Missing { origin, name: launcher.id.clone(), install });
    }
    let hint = launcher.install.as_deref().map(|install| format!(": {install}")).unwrap_or_default();
    notes.push(format!("{origin} requests {}, which is not installed{hint}", launcher.id));
    Ok(None)
}

/// How the compilations of a language are distributed; `None` if the launcher only caches.
fn farm(choice: &LauncherChoice<'_>, context: &LauncherContext<'_>, language: &str) -> Option<PlannedFarm> {
    let parts = [choice.behind, choice.first];
    let (launcher, farm) =
        parts.into_iter().flatten().find_map(|one| Some((one, one.description.farm.as_ref()?)))?;
    let required = farm.name.as_ref().is_none_or(|name| *name == choice.name);
    let config = farm.config.as_ref().map(|name| (name, context.env.get(name)));
    let is_configured = launcher.has_config || config.is_some_and(|(_, value)| value.is_some());
    if !required && !is_configured {
        return None;
    }
    let hosts = launcher.description.hosts.as_ref().filter(|_| !launcher.has_hosts);
    let local = if !farm.languages.iter().any(|one| one == language) {
        Some(format!("{} distributes only {}", choice.name, names(farm.languages.iter().map(String::as_str))))
    } else if let Some(hosts) = hosts.filter(|name| context.env.get(name).is_none()) {
        Some(format!("{hosts} is not set"))
    } else if let Some((name, Some(value))) = config
        && !HostPath::new(context.root.rules(), value).is_absolute()
    {
        Some(format!("{name} must be an absolute path"))
    } else if !farm.config_files.is_empty() && !is_configured {
        let name = farm.config.as_deref().unwrap_or_default();
        let files = farm.config_files.join(", ").replace("{home}", "~");
        Some(format!("neither {name} nor {files} names a scheduler"))
    } else {
        None
    };
    let program =
        launcher.program.as_ref().map(HostPath::forward_slashes).filter(|_| !farm.status.is_empty());
    let status = program.into_iter().chain(farm.status.iter().cloned()).collect();
    let scheduler = farm.scheduler.as_ref().and_then(|table| {
        let variables = table.variables.iter().filter_map(|name| context.env.get(name));
        let address = variables.chain(launcher.scheduler.as_deref()).find(|value| !value.is_empty())?;
        Some(PlannedQuestion { address: text_port(address, table.port)?, text: table.question.clone() })
    });
    let (launcher, recompile) = (choice.name.clone(), farm.recompile.clone());
    Some(PlannedFarm { launcher, status, scheduler, required, recompile, local })
}

/// The longest name of a host in DNS.
const LONGEST_NAME: usize = 253;

/// The address of the port after that of a scheduler, `host` or `host:port`. `None` if it is not an address.
fn text_port(address: &str, port: u16) -> Option<String> {
    let (name, port) = match address.rsplit_once(':') {
        Some((name, port)) => (name, port.parse::<u16>().ok()?),
        None => (address, port),
    };
    let is_name = (1..=LONGEST_NAME).contains(&name.len())
        && name.chars().all(|sign| sign.is_ascii_alphanumeric() || "-._[]:".contains(sign));
    Some(format!("{name}:{}", port.checked_add(1)?)).filter(|_| is_name)
}

/// One sentence for all languages of which the same is said.
fn by_place(places: &[(&str, String)]) -> Vec<String> {
    let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
    for (language, place) in places {
        match said.iter_mut().find(|(_, known)| known == place) {
            Some((languages, _)) if languages.contains(language) => {}
            Some((languages, _)) => languages.push(language),
            None => said.push((vec![language], place)),
        }
    }
    let sentence = |(languages, place): (Vec<&str>, &str)| {
        let verb = if languages.len() == 1 { "is" } else { "are" };
        format!("{} {verb} {place}", names(languages))
    };
    said.into_iter().map(sentence).collect()
}

/// Languages in a sentence: `C and C++`.
#[must_use]
pub fn names<'a>(languages: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> =
        languages.into_iter().map(|language| if language == "CXX" { "C++" } else { language }).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// The variables that a launcher needs, except those that the user has set.
fn environment(
    choice: &LauncherChoice<'_>,
    context: &LauncherContext<'_>,
    tree: &PlannedTree,
    notes: &mut Vec<String>,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::new();
    let Some(first) = choice.first else { return env };
    let mut set = |name: &str, value: String| {
        if context.env.get(name).is_none() {
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
    if let Some(url) = &context.table.remote {
        let scheme = url.split("://").next().unwrap_or_default();
        match &table.remote {
            Some(remote) if remote.schemes.iter().any(|known| known == scheme) => {
                // The variables are alternative names of one setting; if the user has set any of them, none is added.
                if remote.env.iter().all(|name| context.env.get(name).is_none()) {
                    remote.env.iter().for_each(|name| set(name, url.clone()));
                }
                if let Some(base) = &table.base {
                    set(base, context.root.to_string());
                }
            }
            Some(_) if context.table.shared_store().is_none() => {
                notes.push(format!("{} does not support shared storage with `{scheme}` URLs", first.id));
            }
            _ => {}
        }
    }
    env
}

/// Log file of a tree's launcher, relative to the tree's build folder.
pub const LOG: &str = "gpubuild/launcher.log";

#[cfg(test)]
#[path = "launchers_tests.rs"]
mod tests;
