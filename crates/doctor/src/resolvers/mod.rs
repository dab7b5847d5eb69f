//! Determines which copy of a toolkit each build system uses, and the lines that make them agree.
//!
//! The search orders of build systems are data (`toolkits/resolvers/*.toml`), derived from their public sources. `steps` follows
//! them on a real or recorded host without starting a process. [`agree`] finds the lines by resolving again with them.

pub mod agree;
pub mod description;
mod identify;
mod steps;
#[cfg(test)]
mod tests;
mod typed;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::toolkit::description::is_on;
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::{HostPath, InspectHost};
use gpubuild_toolkits::RESOLVERS;
use serde::Serialize;

pub use agree::{Agreement, AgreementLine, Exception};
use description::{Resolver, ResolverCheck, ResolverFamily};
use identify::Identifier;
use steps::{Aim, StepOutcome, Walker};
pub use typed::line_text;

/// The embedded resolver files.
///
/// # Panics
/// If an embedded file is invalid, which a test rules out.
#[must_use]
pub fn families() -> &'static [ResolverFamily] {
    static FAMILIES: OnceLock<Vec<ResolverFamily>> = OnceLock::new();
    FAMILIES.get_or_init(|| {
        let read = |(name, bytes): &(&str, &[u8])| {
            description::read(bytes).unwrap_or_else(|error| panic!("toolkits/resolvers/{name}.toml: {error}"))
        };
        RESOLVERS.iter().map(read).collect()
    })
}

/// The copy that a build system uses on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Stable id of the resolver: `cmake-cuda-language`.
    pub id: String,
    /// Display name of the resolver.
    pub name: String,
    /// Id of the toolkit in `toolkits/`.
    pub toolkit: String,
    /// Backend of the toolkit.
    pub backend: Backend,
    /// The copy that it uses; with an `error`, the copy that it finds and rejects.
    pub takes: Option<TakenPath>,
    /// The step that found the copy; empty if nothing was found.
    pub rule: String,
    /// The error message, if it fails.
    pub error: Option<String>,
    /// Variables that are set but are skipped, because nothing usable is found through them.
    pub passed: Vec<PassedOver>,
}

/// A copy of a toolkit as a build system sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenPath {
    /// Folder with headers and libraries, as the path by which it was reached.
    pub root: HostPath,
    /// The compiler, if the build system searches for one or the folder contains one.
    pub compiler: Option<HostPath>,
    /// The version, if a file states it.
    pub version: Option<Version>,
    /// Real path of the copy; equal for different paths to the same copy.
    pub copy: HostPath,
    /// Real path of the copy that the compiler belongs to, if it is another one.
    pub compiler_copy: Option<HostPath>,
}

/// A variable that a resolver read and could not use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassedOver {
    /// Name of the variable.
    pub variable: String,
    /// Its value.
    pub value: String,
}

/// The copies that all build systems use on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolutions {
    /// One resolution per resolver, in the order of the files.
    pub list: Vec<Resolution>,
    /// Agreements by toolkit, for toolkits of which gpubuild found a copy.
    pub agreements: BTreeMap<String, Agreement>,
}

impl Resolutions {
    /// The resolution of the resolver with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Resolution> {
        self.list.iter().find(|one| one.id == id)
    }

    /// The resolutions for a toolkit.
    pub fn of<'a>(&'a self, toolkit: &'a str) -> impl Iterator<Item = &'a Resolution> {
        self.list.iter().filter(move |one| one.toolkit == toolkit)
    }

    /// Whether the resolvers of all toolkits in `agreements` use gpubuild's choice.
    #[must_use]
    pub fn agree(&self) -> bool {
        self.agreements.values().all(|agreement| agreement.agree)
    }

    /// The copies of a toolkit in use, by their real paths, each with the ids of the resolvers that use it.
    #[must_use]
    pub fn copies<'a>(&'a self, toolkit: &'a str) -> BTreeMap<&'a HostPath, Vec<&'a str>> {
        let mut copies: BTreeMap<&HostPath, Vec<&str>> = BTreeMap::new();
        for one in self.of(toolkit).filter(|one| one.error.is_none()) {
            if let Some(takes) = &one.takes {
                copies.entry(&takes.copy).or_default().push(&one.id);
            }
        }
        copies
    }
}

/// Resolves every build system on this host, and finds the lines that make them agree with gpubuild's choice.
#[must_use]
pub fn resolve_all(host: &dyn InspectHost, inventory: &Inventory, catalogue: &Catalogue) -> Resolutions {
    let mut resolutions = Resolutions::default();
    for family in families() {
        let context = ResolverContext { host, inventory, catalogue };
        let list = resolve(context, family);
        if let Some(agreement) = agree::agree(context, family, &list) {
            resolutions.agreements.insert(family.toolkit.clone(), agreement);
        }
        resolutions.list.extend(list);
    }
    resolutions
}

/// Input of all resolvers.
#[derive(Clone, Copy)]
struct ResolverContext<'a> {
    host: &'a dyn InspectHost,
    inventory: &'a Inventory,
    catalogue: &'a Catalogue,
}

/// Resolves all build systems of a family that apply on this host.
fn resolve(context: ResolverContext<'_>, family: &ResolverFamily) -> Vec<Resolution> {
    let walk = ResolverWalk {
        context,
        family,
        walker: Walker::new(context.host),
        identifier: Identifier::new(context.host, context.catalogue.get(&family.toolkit), context.inventory),
    };
    let mut earlier: BTreeMap<&str, Resolution> = BTreeMap::new();
    let mut list = Vec::new();
    for resolver in &family.resolvers {
        if !is_on(&resolver.on, context.host.platform().os) || !walk.is_present(resolver) {
            continue;
        }
        let resolution = walk.resolve(resolver, &earlier);
        if !resolver.hidden {
            list.push(resolution.clone());
        }
        earlier.insert(&resolver.id, resolution);
    }
    list
}

/// The resolvers of one family on one host.
struct ResolverWalk<'a> {
    context: ResolverContext<'a>,
    family: &'a ResolverFamily,
    walker: Walker<'a>,
    identifier: Identifier<'a>,
}

/// Result of one half of a search: the search for the compiler or for the root.
enum Half {
    Found { path: HostPath, rule: String },
    Failed(String),
}

impl ResolverWalk<'_> {
    fn is_present(&self, resolver: &Resolver) -> bool {
        resolver.present.is_empty()
            || resolver.present.iter().any(|place| self.walker.matches_existing(place))
    }

    fn resolve(&self, resolver: &Resolver, earlier: &BTreeMap<&str, Resolution>) -> Resolution {
        let mut resolution = Resolution {
            id: resolver.id.clone(),
            name: resolver.name.clone(),
            toolkit: self.family.toolkit.clone(),
            backend: self.family.backend,
            takes: None,
            rule: String::new(),
            error: None,
            passed: Vec::new(),
        };
        let compiler = self.half(resolver, Aim::Compiler, None, earlier, &mut resolution.passed);
        let found = match &compiler {
            Some(Half::Found { path, .. }) => Some(path),
            _ => None,
        };
        let root = self.half(resolver, Aim::Root, found, earlier, &mut resolution.passed);
        let (compiler, root) = match (compiler, root) {
            (Some(Half::Failed(error)), _) | (_, Some(Half::Failed(error))) => {
                resolution.error = Some(error);
                return resolution;
            }
            (Some(Half::Found { path, rule }), None) => {
                resolution.rule = rule;
                (Some(path.clone()), self.identifier.root_of(&path))
            }
            (compiler, Some(Half::Found { path, rule })) => {
                resolution.rule = rule;
                let compiler = match compiler {
                    Some(Half::Found { path, rule }) => {
                        if rule != resolution.rule {
                            resolution.rule = format!("compiler: {rule}; libraries: {}", resolution.rule);
                        }
                        Some(path)
                    }
                    _ => None,
                };
                (compiler, path)
            }
            (None, None) => return resolution,
        };
        let taken = self.identifier.identify(root, compiler, resolver.separate);
        let tool = self.tool(resolver);
        let applies =
            |check: &&ResolverCheck| steps::is_in_range(tool, check.since.as_ref(), check.before.as_ref());
        let failed = resolver.checks.iter().filter(applies).find(|check| !self.is_met(check, &taken));
        resolution.error = failed.map(|check| check.error.replace("{root}", taken.root.as_str()));
        resolution.takes = Some(taken);
        resolution
    }

    fn half(
        &self,
        resolver: &Resolver,
        aim: Aim,
        before: Option<&HostPath>,
        earlier: &BTreeMap<&str, Resolution>,
        passed: &mut Vec<PassedOver>,
    ) -> Option<Half> {
        let steps = if aim == Aim::Compiler { &resolver.compiler } else { &resolver.root };
        if steps.is_empty() {
            return None;
        }
        Some(match self.walker.search(steps, aim, self.tool(resolver), before, passed) {
            StepOutcome::Found { path, rule } => Half::Found { path, rule },
            StepOutcome::Failed(error) => Half::Failed(error),
            StepOutcome::Gpubuild => match self.context.inventory.chosen(&self.family.toolkit) {
                Some(chosen) => Half::Found { path: chosen.root.clone(), rule: chosen.reason.clone() },
                None => Half::Failed("no complete copy found".to_owned()),
            },
            StepOutcome::Like { id, wrong } => {
                let other = earlier.get(id.as_str());
                for one in other.into_iter().flat_map(|other| &other.passed) {
                    if !passed.contains(one) {
                        passed.push(one.clone());
                    }
                }
                let error = other.and_then(|other| other.error.clone());
                let takes = other.and_then(|other| other.takes.as_ref());
                let path = takes.and_then(|takes| match aim {
                    Aim::Compiler => takes.compiler.clone(),
                    Aim::Root => Some(takes.root.clone()),
                });
                let name = other.map_or(String::new(), |other| other.name.clone());
                match (path, error) {
                    (Some(path), None) => Half::Found { path, rule: format!("same as {name}") },
                    (_, error) => {
                        Half::Failed(wrong.or(error).unwrap_or_else(|| format!("{name} finds nothing")))
                    }
                }
            }
        })
    }

    /// Version of the tool that a resolver belongs to, if known.
    fn tool(&self, resolver: &Resolver) -> Option<&Version> {
        self.context.inventory.chosen(resolver.tool.as_ref()?)?.version()
    }

    fn is_met(&self, check: &ResolverCheck, taken: &TakenPath) -> bool {
        if !is_on(&check.on, self.context.host.platform().os) {
            return true;
        }
        let old = match (&check.minimum, &taken.version) {
            (Some(minimum), Some(version)) => version < minimum,
            _ => false,
        };
        !old && (check.any.is_empty() || self.walker.has_any(&taken.root, &check.any))
    }
}
