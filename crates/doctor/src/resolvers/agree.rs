//! Finds the shell lines that make build systems agree with gpubuild's choice. Each candidate is tested by resolving again with
//! its changes to the environment, so every line that is shown has been verified.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::description::is_on;
use gpubuild_detect::toolkit::{self, Installation};
use gpubuild_host::{Environment, HostPath, Os, Overlay};

use super::description::{LineDescription, ResolverFamily};
use super::{Resolution, ResolverContext, resolve};

/// Whether the build systems agree on a copy of a toolkit, and the lines that make them agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// The copy that gpubuild uses.
    pub chosen: HostPath,
    /// Its version, if a file states it.
    pub version: Option<Version>,
    /// Why gpubuild uses it.
    pub reason: String,
    /// Whether all build systems use it without any line.
    pub agree: bool,
    /// The fewest lines with which as many build systems as possible use it; empty if no line helps.
    pub lines: Vec<AgreementLine>,
    /// CMake cache entries with the same effect for one build.
    pub cmake: BTreeMap<String, String>,
    /// Build systems that do not use it even with the lines.
    pub exceptions: Vec<Exception>,
}

/// A shell line, described by its effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgreementLine {
    /// A script to source that has these effects.
    pub source: Option<HostPath>,
    /// Changes to the environment, in order.
    pub changes: Vec<ResolverChange>,
}

/// A change to the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolverChange {
    /// Sets a variable.
    Set {
        /// Name of the variable.
        name: String,
        /// New value.
        value: String,
    },
    /// Prepends a folder to a list that is not empty.
    Prepend {
        /// Name of the variable.
        name: String,
        /// Folder to prepend.
        value: String,
    },
    /// Removes a variable.
    Unset {
        /// Name of the variable.
        name: String,
    },
}

impl ResolverChange {
    /// Name of the changed variable.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Set { name, .. } | Self::Prepend { name, .. } | Self::Unset { name } => name,
        }
    }
}

/// A build system that does not use gpubuild's choice even with the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// Id of the resolver.
    pub id: String,
    /// Display name of the resolver.
    pub name: String,
    /// What it does instead, and why.
    pub reason: String,
    /// What the user can do, if anything.
    pub remedy: Option<String>,
}

/// Whether a resolver uses exactly this copy, for the compiler too, without an error.
#[must_use]
pub fn takes(resolution: &Resolution, copy: &HostPath) -> bool {
    resolution.error.is_none()
        && resolution
            .takes
            .as_ref()
            .is_some_and(|takes| takes.compiler_copy.is_none() && takes.copy.key() == copy.key())
}

/// The agreement on a family's toolkit; `None` if gpubuild found no copy to use.
pub(super) fn agree(
    context: ResolverContext<'_>,
    family: &ResolverFamily,
    now: &[Resolution],
) -> Option<Agreement> {
    let chosen = context.inventory.chosen(&family.toolkit)?;
    let trial = ResolverTrial { context, family, chosen };
    let mut agreement = Agreement {
        chosen: chosen.root.clone(),
        version: chosen.version().cloned(),
        reason: chosen.reason.clone(),
        agree: now.iter().all(|one| takes(one, &chosen.root)),
        lines: Vec::new(),
        cmake: BTreeMap::new(),
        exceptions: Vec::new(),
    };
    if agreement.agree {
        return Some(agreement);
    }
    agreement.cmake = cmake_entries(context, family, chosen);
    let mut lines: Vec<AgreementLine> = family.lines.iter().filter_map(|line| trial.line(line)).collect();
    let mut then = trial.with(&lines);
    if trial.is_as_good(now, &then) {
        lines.clear();
        then = now.to_vec();
    }
    for index in (0..lines.len()).rev() {
        // Without any line the result is `now`, which is not as good.
        if lines.len() == 1 {
            break;
        }
        let mut fewer = lines.clone();
        fewer.remove(index);
        let without = trial.with(&fewer);
        if trial.is_as_good(&without, &then) {
            (lines, then) = (fewer, without);
        }
    }
    agreement.exceptions =
        then.iter().filter(|one| !takes(one, &chosen.root)).map(|one| trial.exception(one)).collect();
    agreement.lines = lines;
    Some(agreement)
}

/// Tries out lines on a host.
struct ResolverTrial<'a> {
    context: ResolverContext<'a>,
    family: &'a ResolverFamily,
    chosen: &'a Installation,
}

impl ResolverTrial<'_> {
    /// The line for this copy on this host; `None` if it does not apply, changes nothing or names a missing part.
    fn line(&self, line: &LineDescription) -> Option<AgreementLine> {
        let host = self.context.host;
        let in_list =
            |list: &[String]| list.iter().any(|folder| host.path(folder).key() == self.chosen.root.key());
        if !is_on(&line.on, host.platform().os)
            || (!line.only_for.is_empty() && !in_list(&line.only_for))
            || in_list(&line.not_for)
        {
            return None;
        }
        let mut changes = Vec::new();
        for name in &line.unset {
            if host.env().get_raw(name).is_some() {
                changes.push(ResolverChange::Unset { name: name.clone() });
            }
        }
        for (name, template) in &line.set {
            let value = self.fill(template)?;
            if host.env().get(name) != Some(value.as_str()) {
                changes.push(ResolverChange::Set { name: name.clone(), value });
            }
        }
        for (name, template) in &line.prepend {
            let value = self.fill(template)?;
            match host.env().get(name) {
                None => changes.push(ResolverChange::Set { name: name.clone(), value }),
                Some(old) if first_folder(host.platform().os, old) == value => {}
                Some(_) => changes.push(ResolverChange::Prepend { name: name.clone(), value }),
            }
        }
        let source = match &line.source {
            Some(template) => {
                Some(host.path(&self.fill(template)?)).filter(|path| host.is_file(path)).map(Some)?
            }
            None => None,
        };
        (!changes.is_empty()).then_some(AgreementLine { source, changes })
    }

    /// Replaces the placeholders in a template with paths of the copy.
    fn fill(&self, template: &str) -> Option<String> {
        let mut filled = String::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            let close = open + rest[open..].find('}')?;
            filled.push_str(&rest[..open]);
            let name = &rest[open + 1..close];
            let value = match (name, name.strip_prefix("in:")) {
                ("root", _) => self.chosen.root.clone(),
                (_, Some(part)) => self.chosen.part(part)?.parent()?,
                (part, None) => self.chosen.part(part)?.clone(),
            };
            filled.push_str(value.as_str());
            rest = &rest[close + 1..];
        }
        filled.push_str(rest);
        // `{root}/../..` names a folder, so its `..` are resolved.
        let is_path = template.starts_with('{') && template.contains("/..");
        Some(if is_path { self.context.host.path(&filled).normalized().as_str().to_owned() } else { filled })
    }

    /// What the build systems use with these lines.
    fn with(&self, lines: &[AgreementLine]) -> Vec<Resolution> {
        let host = self.context.host;
        let env = changed(host.env(), host.platform().os, lines);
        let overlay = Overlay::new(host, env);
        let mut inventory = self.context.inventory.clone();
        if let Some(description) = self.context.catalogue.get(&self.family.toolkit) {
            let copies = toolkit::probe_again(&overlay, description, inventory.of(&description.id));
            inventory.installations.insert(description.id.clone(), copies);
        }
        resolve(
            ResolverContext { host: &overlay, inventory: &inventory, catalogue: self.context.catalogue },
            self.family,
        )
    }

    /// Whether `this` is as good as `other`: every resolver that uses the chosen copy in `other` also does in `this`, and no
    /// additional one uses another copy.
    fn is_as_good(&self, this: &[Resolution], other: &[Resolution]) -> bool {
        let ids = |list: &[Resolution], matches: &dyn Fn(&Resolution) -> bool| {
            list.iter().filter(|one| matches(one)).map(|one| one.id.clone()).collect_set()
        };
        let uses_chosen = |one: &Resolution| takes(one, &self.chosen.root);
        // Failing is better than building with another copy.
        let uses_other = |one: &Resolution| one.error.is_none() && !uses_chosen(one);
        ids(this, &uses_chosen).is_superset(&ids(other, &uses_chosen))
            && ids(this, &uses_other).is_subset(&ids(other, &uses_other))
    }

    fn exception(&self, one: &Resolution) -> Exception {
        let does = match (&one.error, &one.takes) {
            (Some(error), _) => format!("fails with `{}`", error.lines().next().unwrap_or_default()),
            (None, Some(takes)) => match &takes.compiler_copy {
                Some(other) => format!("compiles with `{other}` and links `{}`", takes.copy),
                None => format!("uses `{}` ({})", takes.root, one.rule),
            },
            (None, None) => "finds nothing".to_owned(),
        };
        let known = self.family.resolvers.iter().find(|known| known.id == one.id);
        let otherwise = known.and_then(|known| known.otherwise.as_ref());
        Exception {
            id: one.id.clone(),
            name: one.name.clone(),
            reason: match otherwise {
                Some(otherwise) => format!("{does}: {}", otherwise.reason),
                None => does,
            },
            remedy: otherwise.and_then(|otherwise| self.fill(&otherwise.remedy)),
        }
    }
}

/// The environment with the changes of these lines.
#[must_use]
pub fn changed(env: &Environment, os: Os, lines: &[AgreementLine]) -> Environment {
    let separator = if os == Os::Windows { ';' } else { ':' };
    lines.iter().flat_map(|line| &line.changes).fold(env.clone(), |env, change| match change {
        ResolverChange::Set { name, value } => env.with(name, Some(value)),
        ResolverChange::Unset { name } => env.with(name, None),
        ResolverChange::Prepend { name, value } => {
            let list = match env.get(name) {
                Some(old) => format!("{value}{separator}{old}"),
                None => value.clone(),
            };
            env.with(name, Some(&list))
        }
    })
}

fn first_folder(os: Os, list: &str) -> &str {
    list.split(if os == Os::Windows { ';' } else { ':' }).next().unwrap_or_default()
}

/// The CMake cache entries for the chosen copy, from its description.
fn cmake_entries(
    context: ResolverContext<'_>,
    family: &ResolverFamily,
    chosen: &Installation,
) -> BTreeMap<String, String> {
    let Some(description) = context.catalogue.get(&family.toolkit) else { return BTreeMap::new() };
    let trial = ResolverTrial { context, family, chosen };
    let value = |entry: &toolkit::description::PlatformText| {
        let template = entry.on(context.host.platform())?;
        Some(context.host.path(&trial.fill(template)?).forward_slashes())
    };
    description.cmake.iter().filter_map(|(name, entry)| Some((name.clone(), value(entry)?))).collect()
}
