//! Which copy of a toolkit each build system will take, and the lines that make them agree.
//!
//! The orders in which build systems look are data (`resolvers/*.toml`), read from their public sources; `steps` walks
//! them on a host, real or recorded, without starting anything. [`agree`] finds the lines, by walking again with them.

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

/// What the embedded files say.
///
/// # Panics
/// If an embedded file is broken, which a test rules out.
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

/// What a build system takes on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// Stable id of the resolver: `cmake-cuda-language`.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The toolkit that it looks for: an id of `toolkits/`.
    pub toolkit: String,
    /// The backend that it is for.
    pub backend: Backend,
    /// What it takes; with an `error` beside it, what it would have taken.
    pub takes: Option<TakenPath>,
    /// Why: the step that led there. Empty if it finds nothing.
    pub rule: String,
    /// The message with which it fails.
    pub error: Option<String>,
    /// Variables that were set and that it passed over, because they lead nowhere.
    pub passed: Vec<PassedOver>,
}

/// A copy of a toolkit as a build system sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenPath {
    /// The folder with headers and libraries, in the spelling in which it was reached.
    pub root: HostPath,
    /// The compiler, if it looks for one or the folder has it.
    pub compiler: Option<HostPath>,
    /// The version, if a file tells.
    pub version: Option<Version>,
    /// The real folder of the copy: equal for two spellings of one.
    pub copy: HostPath,
    /// The real folder of another copy that its compiler is from.
    pub compiler_copy: Option<HostPath>,
}

/// A variable that a resolver looked at in vain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassedOver {
    /// Its name.
    pub variable: String,
    /// What it says.
    pub value: String,
}

/// What every build system takes on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolutions {
    /// In the order of the files.
    pub list: Vec<Resolution>,
    /// By toolkit, those of which there is a copy: whether they agree, and what makes them.
    pub agreements: BTreeMap<String, Agreement>,
}

impl Resolutions {
    /// A resolver's, by its id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Resolution> {
        self.list.iter().find(|one| one.id == id)
    }

    /// Those of a toolkit.
    pub fn of<'a>(&'a self, toolkit: &'a str) -> impl Iterator<Item = &'a Resolution> {
        self.list.iter().filter(move |one| one.toolkit == toolkit)
    }

    /// Whether all that look for any toolkit of which there is a copy take gpubuild's choice.
    #[must_use]
    pub fn agree(&self) -> bool {
        self.agreements.values().all(|agreement| agreement.agree)
    }

    /// The copies of a toolkit that are taken, by their real folders, each with the ids of those that take it.
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

/// What every build system takes on this host, and the lines that make them agree with gpubuild's choice.
#[must_use]
pub fn resolve_all(host: &dyn InspectHost, inventory: &Inventory, catalogue: &Catalogue) -> Resolutions {
    let mut resolutions = Resolutions::default();
    for family in families() {
        let scene = ResolverContext { host, inventory, catalogue };
        let list = resolve(scene, family);
        if let Some(agreement) = agree::agree(scene, family, &list) {
            resolutions.agreements.insert(family.toolkit.clone(), agreement);
        }
        resolutions.list.extend(list);
    }
    resolutions
}

/// What resolvers look at.
#[derive(Clone, Copy)]
struct ResolverContext<'a> {
    host: &'a dyn InspectHost,
    inventory: &'a Inventory,
    catalogue: &'a Catalogue,
}

/// What the build systems of a family take.
fn resolve(scene: ResolverContext<'_>, family: &ResolverFamily) -> Vec<Resolution> {
    let walk = ResolverWalk {
        scene,
        family,
        walker: Walker::new(scene.host),
        identifier: Identifier::new(scene.host, scene.catalogue.get(&family.toolkit), scene.inventory),
    };
    let mut done: BTreeMap<&str, Resolution> = BTreeMap::new();
    let mut list = Vec::new();
    for resolver in &family.resolvers {
        if !is_on(&resolver.on, scene.host.platform().os) || !walk.is_present(resolver) {
            continue;
        }
        let resolution = walk.resolve(resolver, &done);
        if !resolver.hidden {
            list.push(resolution.clone());
        }
        done.insert(&resolver.id, resolution);
    }
    list
}

/// One family on one host.
struct ResolverWalk<'a> {
    scene: ResolverContext<'a>,
    family: &'a ResolverFamily,
    walker: Walker<'a>,
    identifier: Identifier<'a>,
}

/// Half of a search: the compiler's or the root's.
enum Half {
    Found { path: HostPath, rule: String },
    Failed(String),
}

impl ResolverWalk<'_> {
    fn is_present(&self, resolver: &Resolver) -> bool {
        resolver.present.is_empty() || resolver.present.iter().any(|place| self.walker.is_somewhere(place))
    }

    fn resolve(&self, resolver: &Resolver, done: &BTreeMap<&str, Resolution>) -> Resolution {
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
        let compiler = self.half(resolver, Aim::Compiler, None, done, &mut resolution.passed);
        let found = match &compiler {
            Some(Half::Found { path, .. }) => Some(path),
            _ => None,
        };
        let root = self.half(resolver, Aim::Root, found, done, &mut resolution.passed);
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
            |check: &&ResolverCheck| steps::is_meant(tool, check.since.as_ref(), check.before.as_ref());
        let failed = resolver.checks.iter().filter(applies).find(|check| !self.holds(check, &taken));
        resolution.error = failed.map(|check| check.error.replace("{root}", taken.root.as_str()));
        resolution.takes = Some(taken);
        resolution
    }

    fn half(
        &self,
        resolver: &Resolver,
        aim: Aim,
        before: Option<&HostPath>,
        done: &BTreeMap<&str, Resolution>,
        passed: &mut Vec<PassedOver>,
    ) -> Option<Half> {
        let steps = if aim == Aim::Compiler { &resolver.compiler } else { &resolver.root };
        if steps.is_empty() {
            return None;
        }
        Some(match self.walker.search(steps, aim, self.tool(resolver), before, passed) {
            StepOutcome::Found { path, rule } => Half::Found { path, rule },
            StepOutcome::Failed(error) => Half::Failed(error),
            StepOutcome::Gpubuild => match self.scene.inventory.chosen(&self.family.toolkit) {
                Some(chosen) => Half::Found { path: chosen.root.clone(), rule: chosen.reason.clone() },
                None => Half::Failed("no complete copy was found".to_owned()),
            },
            StepOutcome::Like { id, wrong } => {
                let other = done.get(id.as_str());
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
                    (Some(path), None) => Half::Found { path, rule: format!("as {name}") },
                    (_, error) => {
                        Half::Failed(wrong.or(error).unwrap_or_else(|| format!("{name} finds nothing")))
                    }
                }
            }
        })
    }

    /// The version of the tool that a resolver belongs to, where it is known.
    fn tool(&self, resolver: &Resolver) -> Option<&Version> {
        self.scene.inventory.chosen(resolver.tool.as_ref()?)?.version()
    }

    fn holds(&self, check: &ResolverCheck, taken: &TakenPath) -> bool {
        if !is_on(&check.on, self.scene.host.platform().os) {
            return true;
        }
        let old = match (&check.minimum, &taken.version) {
            (Some(minimum), Some(version)) => version < minimum,
            _ => false,
        };
        !old && (check.any.is_empty() || self.walker.has_any(&taken.root, &check.any))
    }
}
