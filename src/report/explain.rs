//! The documents of `gpubuild explain`: the requirements of a backend compared with this machine, and the meaning of a finding or an error.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::ErrorEntry;
use gpubuild_detect::facts::{Facts, Vendor};
use gpubuild_detect::finding::{Affects, FindingEntry, catalogue::FindingFamily};
use gpubuild_detect::matrix::{Matrix, Presence, Readiness, Verdict, driver_command, toolkit_commands};
use gpubuild_detect::toolkit::description::{Description, Root, ToolkitAbout, is_on};
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_doctor::signs::packages::{PackageSigns, available};
use gpubuild_host::Environment;
use serde::Serialize;

use super::Schema;

/// The document of `explain BACKEND --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BackendDocument {
    schema: Schema,
    /// Id of the backend.
    backend: Backend,
    /// Name of its toolkit.
    pub name: String,
    /// Purpose of the backend.
    pub summary: String,
    /// Download page of the vendor.
    pub download: String,
    /// The requirements.
    pub requirements: Vec<ExplainedRequirement>,
    /// How to install it on this machine.
    pub install: Vec<String>,
    /// Commands that verify the installation.
    pub verify: Vec<String>,
    /// Links to documentation.
    pub links: Vec<String>,
}

/// A requirement of a backend.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedRequirement {
    /// Kind of requirement: `toolkit`, `hardware`, `driver`, `variables`, `paths`, `python`, `platform`, `build`, `run`.
    pub id: &'static str,
    /// What is needed.
    pub needed: Vec<String>,
    /// What was found on this machine.
    pub here: Vec<String>,
    /// Whether the requirement is met; absent if that cannot be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// The machine to compare with.
#[derive(Clone, Copy)]
pub struct ExplainedMachine<'a> {
    /// Facts about the machine.
    pub facts: &'a Facts,
    /// Installed toolkits.
    pub inventory: &'a Inventory,
    /// Descriptions of toolkits.
    pub catalogue: &'a Catalogue,
    /// Verdicts by backend.
    pub matrix: &'a Matrix,
    /// The environment.
    pub env: &'a Environment,
    /// Packages that are installed, or that this release of the distribution does not have.
    pub packages: &'a PackageSigns,
}

/// The description that explains a backend: that of its SDK, or for `cpu` the first host compiler with an explanation.
#[must_use]
pub fn description(catalogue: &Catalogue, backend: Backend) -> Option<(&Description, &ToolkitAbout)> {
    let described = |one: &&Description| one.about.is_some();
    let found = match backend {
        Backend::Cpu => catalogue.with_role("host-compiler").find(described),
        _ => catalogue.for_backend(backend),
    };
    found.and_then(|one| Some((one, &**one.about.as_ref()?)))
}

impl BackendDocument {
    /// Compares the requirements of a backend with a machine. `None` if no description explains the backend.
    #[must_use]
    pub fn new(catalogue: &Catalogue, backend: Backend, machine: ExplainedMachine<'_>) -> Option<Self> {
        let (description, about) = description(catalogue, backend)?;
        let page = ExplainPage { description, about, machine, verdict: machine.matrix.verdict(backend) };
        Some(Self {
            schema: Schema { name: "explain", version: 1 },
            backend,
            name: description.name.clone(),
            summary: about.summary.clone(),
            download: about.download.clone(),
            requirements: page.requirements(),
            install: page.install(),
            verify: about.verify.clone(),
            links: description.links.to_vec(),
        })
    }
}

struct ExplainPage<'a> {
    description: &'a Description,
    about: &'a ToolkitAbout,
    machine: ExplainedMachine<'a>,
    verdict: &'a Verdict,
}

impl ExplainPage<'_> {
    fn requirements(&self) -> Vec<ExplainedRequirement> {
        vec![
            self.platform(),
            self.hardware(),
            self.driver(),
            self.toolkit(),
            self.variables(),
            self.paths(),
            self.python(),
            state("build", self.verdict.build, &self.verdict.build_reasons),
            state("run", self.verdict.run, &self.verdict.run_reasons),
        ]
    }

    fn platform(&self) -> ExplainedRequirement {
        let facts = self.machine.facts;
        let needed =
            self.about.platforms.iter().map(|(os, words)| format!("{}: {words}", os.label())).collect();
        let distro = facts.distro.as_ref().map(|fact| fact.value.name.clone());
        let here = vec![format!(
            "{} on {}",
            distro.unwrap_or_else(|| facts.platform.os.label().to_owned()),
            facts.platform.arch.id()
        )];
        ExplainedRequirement {
            id: "platform",
            needed,
            here,
            met: Some(is_on(&self.description.build.on, facts.platform.os)),
        }
    }

    fn hardware(&self) -> ExplainedRequirement {
        let verdict = self.verdict;
        let cpu = self.machine.facts.cpu.name.clone().filter(|_| verdict.backend == Backend::Cpu);
        let devices = verdict.devices.iter().map(|gpu| {
            let arch = gpu.arch.as_ref().map(|arch| format!(" ({arch})")).unwrap_or_default();
            let software = if gpu.vendor == Vendor::Software { ", runs on the processor" } else { "" };
            format!("{}{arch}{software}", gpu.name)
        });
        let here: Vec<String> = cpu.into_iter().chain(devices).collect();
        let met = match verdict.hardware {
            Presence::Present => Some(true),
            Presence::Absent => Some(false),
            Presence::Unknown => None,
        };
        ExplainedRequirement { id: "hardware", needed: vec![self.about.hardware.clone()], here, met }
    }

    fn driver(&self) -> ExplainedRequirement {
        let verdict = self.verdict;
        let here: Vec<String> = verdict.driver.iter().map(ToString::to_string).collect();
        ExplainedRequirement { id: "driver", needed: vec![self.about.driver.clone()], here, met: None }
    }

    fn toolkit(&self) -> ExplainedRequirement {
        let copies = self.machine.inventory.of(&self.description.id);
        let here: Vec<String> = copies
            .iter()
            .map(|copy| {
                let version = copy.version().map(|version| format!("{version} ")).unwrap_or_default();
                let chosen = if copy.chosen { ", chosen" } else { "" };
                format!("{version}in {} ({}{chosen})", copy.root, copy.found_via.join(", "))
            })
            .collect();
        let needed = vec![format!("{} ({})", self.description.name, self.about.download)];
        let met = copies.iter().any(|copy| copy.chosen);
        ExplainedRequirement { id: "toolkit", needed, here, met: Some(met) }
    }

    fn variables(&self) -> ExplainedRequirement {
        let os = self.machine.facts.platform.os;
        let roots = self.description.roots.iter().filter(|root| is_on(&root.on, os));
        let mut names: Vec<(String, String)> = Vec::new();
        for root in roots {
            let Some(name) = &root.env else { continue };
            if !names.iter().any(|(known, _)| known == name) {
                // The root is above a file: `CUDACXX` is the path of nvcc.
                let meaning = if root.up > 0 { "its compiler" } else { "its folder" };
                names.push((name.clone(), format!("names {meaning}")));
            }
        }
        names.extend(self.about.run_variables.iter().map(|(name, words)| (name.clone(), words.clone())));
        let here = names.iter().filter_map(|(name, _)| {
            let value = self.machine.env.get_raw(name)?;
            Some(format!("{name}={value}"))
        });
        let here = here.collect();
        let needed = names.iter().map(|(name, words)| format!("{name}: {words}")).collect();
        ExplainedRequirement { id: "variables", needed, here, met: None }
    }

    fn paths(&self) -> ExplainedRequirement {
        let os = self.machine.facts.platform.os;
        let roots = self.description.roots.iter().filter(|root| is_on(&root.on, os));
        let needed = roots.filter_map(place).collect();
        let copies = self.machine.inventory.of(&self.description.id);
        let parts = copies.iter().filter(|copy| copy.chosen).flat_map(|copy| &copy.parts);
        let here = parts
            .filter_map(|(id, part)| {
                let path = part.path.as_ref().map(ToString::to_string);
                let missing = part.required.then(|| "missing".to_owned());
                Some(format!("{id}: {}", path.or(missing)?))
            })
            .collect();
        ExplainedRequirement { id: "paths", needed, here, met: None }
    }

    fn python(&self) -> ExplainedRequirement {
        let mut needed = self.about.python.clone();
        needed.push(self.about.python_note.clone());
        ExplainedRequirement { id: "python", needed, here: Vec::new(), met: None }
    }

    fn install(&self) -> Vec<String> {
        let facts = self.machine.facts;
        let driver = driver_command(facts, self.description);
        let mut steps = available(&Vec::from_iter(driver), self.machine.packages);
        // Together: packages of a repository that the first command adds are not those of the distribution.
        steps.extend(available(&toolkit_commands(facts, self.description), self.machine.packages));
        let machine = gpubuild_plan::offer::OfferMachine {
            facts,
            inventory: self.machine.inventory,
            catalogue: self.machine.catalogue,
            driver: self.verdict.driver.as_ref(),
            devices: &self.verdict.devices,
        };
        let own = gpubuild_plan::offer::which::command(&machine, self.description);
        steps.extend(own.map(|command| format!("{command}  (without root)")));
        steps.dedup();
        steps
    }
}

/// Where a toolkit is searched for: a common folder, the program on `PATH`, or the registry key.
#[must_use]
pub fn place(root: &Root) -> Option<String> {
    let program = root.program.first().map(|name| format!("`{name}` on PATH"));
    let known = root.known.as_ref().map(|place| place.replace("{program_files}", "%ProgramFiles%"));
    let own =
        root.own.as_ref().map(|place| format!("{place} among the toolkits that gpubuild installed itself"));
    known.or(own).or(program).or_else(|| root.registry.clone())
}

fn state(
    id: &'static str,
    state: Readiness,
    reasons: &[gpubuild_detect::matrix::Reason],
) -> ExplainedRequirement {
    let met = match state {
        Readiness::Ready | Readiness::Limited => Some(true),
        Readiness::Blocked => Some(false),
        Readiness::Unknown => None,
    };
    let mut here: Vec<String> = reasons.iter().map(gpubuild_detect::matrix::Reason::line).collect();
    if here.is_empty() {
        here.push(if met == Some(true) { "ready" } else { "cannot be determined here" }.to_owned());
    }
    ExplainedRequirement { id, needed: Vec::new(), here, met }
}

/// The document of `explain ID --json` for a finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FindingDocument {
    schema: Schema,
    /// Id of the finding.
    pub id: String,
    /// Title of its family.
    pub family: String,
    /// Title of the finding.
    pub title: String,
    /// The backend that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<Backend>,
    /// What it affects.
    affects: Vec<Affects>,
    /// Its meaning.
    pub meaning: String,
    /// How gpubuild recognises it.
    pub recognised: String,
    /// How to fix it.
    pub fix: String,
    /// Commands that fix it, by distribution, package manager or operating system.
    pub commands: BTreeMap<String, Vec<String>>,
    /// What the commands need in addition to `sudo`.
    pub needs: Vec<String>,
    /// A command that verifies the fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<String>,
    /// Cases with a different fix.
    pub cases: BTreeMap<String, ExplainedCase>,
    /// Ids of the findings that cause it. If one of them is found, this finding is listed as its consequence.
    pub follows: Vec<String>,
    /// Links to documentation and issues.
    pub links: Vec<String>,
}

/// A case of a finding with a different fix.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExplainedCase {
    /// How to fix it.
    pub fix: String,
    /// Commands that fix it, by distribution, package manager or operating system.
    pub commands: BTreeMap<String, Vec<String>>,
}

impl FindingDocument {
    /// The document of a finding.
    #[must_use]
    pub fn new(family: &FindingFamily, id: &str, entry: &FindingEntry) -> Self {
        Self {
            schema: Schema { name: "explain", version: 1 },
            id: id.to_owned(),
            family: family.title.clone(),
            title: entry.title.clone(),
            backend: entry.backend,
            affects: entry.affects.clone(),
            meaning: entry.meaning.trim().to_owned(),
            recognised: entry.recognised.trim().to_owned(),
            fix: entry.fix.clone(),
            commands: entry.commands.clone(),
            needs: entry.needs.clone(),
            verify: entry.verify.clone(),
            cases: entry
                .cases
                .keys()
                .map(|name| {
                    let case = entry.for_case(Some(name));
                    (name.clone(), ExplainedCase { fix: case.fix, commands: case.commands })
                })
                .collect(),
            follows: entry.follows.clone(),
            links: entry.links.clone(),
        }
    }
}

/// The document of `explain ID --json` for an error that is not a finding.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorDocument {
    schema: Schema,
    /// Id of the error.
    pub id: String,
    /// Its meaning.
    pub meaning: String,
    /// How to fix it.
    pub fix: String,
}

impl ErrorDocument {
    /// The document of an error.
    #[must_use]
    pub fn new(id: &str, entry: ErrorEntry) -> Self {
        let schema = Schema { name: "explain", version: 1 };
        Self { schema, id: id.to_owned(), meaning: entry.meaning, fix: entry.fix }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_has_an_explanation() {
        let catalogue = Catalogue::embedded();
        for backend in Backend::ALL {
            let (_, about) = description(&catalogue, backend).unwrap_or_else(|| panic!("{backend}"));
            assert_eq!(about.platforms.len(), 3, "{backend}");
            assert!(about.download.starts_with("https://"), "{backend}");
        }
    }
}
