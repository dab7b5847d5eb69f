//! Renders drafts of findings: adds texts and commands for a specific machine.

use std::collections::BTreeMap;

use gpubuild_core::{Os, shell, template};

use crate::facts::Facts;
use crate::finding::{Affects, Finding, FindingDraft, FindingEntry, Findings, Remedy, Severity};
use crate::matrix::{driver_commands, for_distribution};
use crate::toolkit::{Catalogue, Description};

/// Renders findings with the texts of the catalogue for a specific machine.
#[derive(Clone, Copy)]
pub struct FindingRenderer<'a> {
    facts: &'a Facts,
    catalogue: &'a Catalogue,
    findings: &'a Findings,
    is_root: bool,
    candidates: &'a [CandidateMachine],
}

/// A machine for which commands are rendered if the examined machine is not known.
#[derive(Debug, Clone)]
pub struct CandidateMachine {
    /// Its name beside its commands, such as `Fedora`.
    pub label: String,
    /// Its platform and distribution.
    pub facts: Facts,
}

impl<'a> FindingRenderer<'a> {
    /// Creates a renderer. If `is_root` is true, commands are rendered without `sudo`.
    #[must_use]
    pub fn new(facts: &'a Facts, catalogue: &'a Catalogue, findings: &'a Findings, is_root: bool) -> Self {
        Self { facts, catalogue, findings, is_root, candidates: &[] }
    }

    /// Renders the commands for each of several machines, labelled, because the examined machine is not known.
    #[must_use]
    pub fn for_candidates(self, candidates: &'a [CandidateMachine]) -> Self {
        Self { candidates, ..self }
    }

    /// Renders a draft. If the catalogue has no entry for its id, only the draft's own texts are used.
    #[must_use]
    pub fn render(&self, draft: &FindingDraft, severity: Severity) -> Finding {
        let entry = self.findings.get(&draft.id).map(|entry| entry.for_case(draft.case.as_deref()));
        let entry = entry.as_ref();
        let texts = DraftText { renderer: self, draft, about: self.about(draft, entry) };
        let backend = draft.backends.first().copied().or_else(|| entry.and_then(|entry| entry.backend));
        let affects = match (draft.affects.is_empty(), entry) {
            (true, Some(entry)) => entry.affects.clone(),
            _ => draft.affects.clone(),
        };
        Finding {
            id: draft.id,
            severity,
            backend,
            affects,
            summary: texts.summary(entry),
            evidence: draft.evidence.clone(),
            remedy: texts.remedy(entry),
            links: entry.map(|entry| entry.links.clone()).unwrap_or_default(),
            consequences: Vec::new(),
        }
    }

    fn about(&self, draft: &FindingDraft, entry: Option<&FindingEntry>) -> Option<&'a Description> {
        let backend = draft.backends.first().copied().or_else(|| entry.and_then(|entry| entry.backend));
        let named = draft.about.as_deref().and_then(|id| self.catalogue.get(id));
        named.or_else(|| self.catalogue.for_backend(backend?))
    }

    /// Selects the table entry for this machine: by kind of container, `wsl`, distribution, package manager or system, in this order.
    #[must_use]
    pub fn choose<'t, T>(&self, table: &'t BTreeMap<String, T>) -> Option<&'t T> {
        if let Some(container) = &self.facts.container
            && let Some(found) = table.get(&container.value).or_else(|| table.get("container"))
        {
            return Some(found);
        }
        if self.facts.wsl.is_some()
            && let Some(found) = table.get("wsl")
        {
            return Some(found);
        }
        let system = match self.facts.platform.os {
            Os::Linux => "linux",
            Os::Windows => "windows",
            Os::Macos => "macos",
        };
        for_distribution(self.facts, table).or_else(|| table.get(system)).or_else(|| table.get("any"))
    }
}

/// Renders the texts of one draft.
struct DraftText<'a> {
    renderer: &'a FindingRenderer<'a>,
    draft: &'a FindingDraft,
    about: Option<&'a Description>,
}

impl DraftText<'_> {
    fn summary(&self, entry: Option<&FindingEntry>) -> String {
        let own = self.draft.summary.clone();
        // The summary of a case takes precedence, because the draft's own summary may come from a general verdict.
        let case = self.draft.case.as_ref().and_then(|case| entry?.cases.get(case)?.summary.as_deref());
        let summary = entry.and_then(|entry| entry.summary.as_deref());
        case.and_then(|text| self.fill(text, &PlainFormat))
            .or(own)
            .or_else(|| summary.and_then(|text| self.fill(text, &PlainFormat)))
            .or_else(|| entry.map(|entry| entry.title.clone()))
            .unwrap_or_else(|| self.draft.id.to_string())
    }

    fn remedy(&self, entry: Option<&FindingEntry>) -> Remedy {
        let Some(entry) = entry else {
            return Remedy { text: self.draft.fix.clone().unwrap_or_default(), ..Remedy::default() };
        };
        let quote = ShellFormat { os: self.renderer.facts.platform.os };
        let table = if self.draft.commands.is_empty() { &entry.commands } else { &self.draft.commands };
        let system = self.renderer.facts.system.filter(|_| self.renderer.facts.container.is_none());
        let system = system.filter(|_| self.renderer.candidates.is_empty());
        let own = system.and_then(|system| entry.systems.get(&system.id));
        let mut commands = match own {
            Some(own) => self.rendered(&own.commands),
            None => self.commands(table),
        };
        let mut needs = own.map_or(&entry.needs, |own| &own.needs).clone();
        let mut advice = None;
        if let (Some(system), None) = (system, own) {
            let translated = system.translate(&commands, self.is_build_only(entry));
            commands = translated.commands;
            advice = translated.omitted.then(|| format!("{}: {}", system.name, system.advice));
            if translated.reboot && needs.iter().all(|need| need != "reboot") {
                needs.push("reboot".to_owned());
            }
        }
        let derived = [
            ("host", commands.iter().any(|command| command.ends_with(ON_THE_HOST))),
            ("windows", commands.iter().any(|command| command.ends_with(IN_WINDOWS))),
            ("sudo", commands.iter().any(|command| command.contains("sudo "))),
        ];
        for (need, is_needed) in derived {
            if is_needed && needs.iter().all(|known| known != need) {
                needs.insert(0, need.to_owned());
            }
        }
        let fix = own.map_or(&entry.fix, |own| &own.fix);
        let exact = self.draft.exact_fix.clone().filter(|_| own.is_none());
        let text = exact.or_else(|| self.fill(fix, &PlainFormat)).or_else(|| self.draft.fix.clone());
        let text = text.unwrap_or_else(|| self.fill_in_general(fix));
        let text = match advice {
            Some(advice) => format!("{text}; on {advice}"),
            None => text,
        };
        let verify = entry.verify.as_deref().and_then(|text| self.fill(text, &quote));
        Remedy { text, safe: false, commands, needs, verify }
    }

    /// Whether the finding concerns builds only, whose tools can be in a container.
    fn is_build_only(&self, entry: &FindingEntry) -> bool {
        let affects = if self.draft.affects.is_empty() { &entry.affects } else { &self.draft.affects };
        *affects == [Affects::Build]
    }

    /// The commands for the examined machine, or for each machine that it may be.
    fn commands(&self, table: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let candidates = self.renderer.candidates;
        if candidates.is_empty() {
            return self.commands_here(table);
        }
        let mut groups: Vec<(Vec<String>, Vec<&CandidateMachine>)> = Vec::new();
        for candidate in candidates {
            let renderer = FindingRenderer { facts: &candidate.facts, candidates: &[], ..*self.renderer };
            let commands = DraftText { renderer: &renderer, ..*self }.commands_here(table);
            match groups.iter_mut().find(|(known, _)| *known == commands) {
                Some((_, machines)) => machines.push(candidate),
                None => groups.push((commands, vec![candidate])),
            }
        }
        if groups.len() == 1 {
            return groups.remove(0).0;
        }
        let labelled = |(commands, machines): &(Vec<String>, Vec<&CandidateMachine>)| {
            let labels = labels(machines, candidates);
            commands.iter().map(|command| label(command, &labels)).collect::<Vec<_>>()
        };
        groups.iter().flat_map(labelled).collect()
    }

    /// The commands for the machine of the renderer.
    fn commands_here(&self, table: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        self.renderer.choose(table).map(|commands| self.rendered(commands)).unwrap_or_default()
    }

    /// Fills the placeholders of commands.
    fn rendered(&self, commands: &[String]) -> Vec<String> {
        let quote = ShellFormat { os: self.renderer.facts.platform.os };
        commands
            .iter()
            .flat_map(|command| match self.steps(command) {
                Some(steps) => steps.clone(),
                None => self.fill(command, &quote).into_iter().collect(),
            })
            .map(|command| self.as_user(&command))
            .collect()
    }

    /// Replaces placeholders, and the unknown ones by general words.
    fn fill_in_general(&self, template: &str) -> String {
        let general = |name: &str| {
            let about = self.about.filter(|_| name.starts_with("install"));
            about.map_or_else(|| format!("<{name}>"), |about| format!("install {}", about.name))
        };
        let text = template::fill(template, |name| {
            Some(self.value(name, &PlainFormat).unwrap_or_else(|| general(name)))
        });
        text.unwrap_or_else(|| template.to_owned())
    }

    /// The commands that replace a line consisting of a single placeholder.
    fn steps(&self, command: &str) -> Option<&Vec<String>> {
        self.draft.steps.get(command.strip_prefix('{')?.strip_suffix('}')?)
    }

    /// Removes `sudo` for root; containers rarely have it. Commands for outside of the container keep it, because the user there is
    /// unknown.
    fn as_user(&self, command: &str) -> String {
        if self.renderer.is_root && !is_outside(command) {
            command.replace("sudo ", "")
        } else {
            command.to_owned()
        }
    }

    /// Replaces all placeholders of a text. `None` if one has no value.
    fn fill(&self, template: &str, format: &dyn ValueFormat) -> Option<String> {
        template::fill(template, |name| self.value(name, format))
    }

    fn value(&self, name: &str, format: &dyn ValueFormat) -> Option<String> {
        if let Some(value) = self.draft.values.get(name) {
            return format.value(value);
        }
        let about = self.about?;
        let table = match name {
            "install" => &about.install,
            "install_driver" => driver_commands(self.renderer.facts, about),
            _ => return None,
        };
        self.renderer.choose(table).cloned()
    }
}

/// Suffix of commands that are run outside of the container.
const ON_THE_HOST: &str = "# on the host";
/// Suffix of commands that are run in Windows, outside of WSL.
const IN_WINDOWS: &str = "# in Windows";

/// The names of machines: `Linux` if all distributions are among them.
fn labels(machines: &[&CandidateMachine], all: &[CandidateMachine]) -> String {
    let is_linux = |machine: &CandidateMachine| machine.facts.platform.os == Os::Linux;
    let distributions = all.iter().filter(|machine| is_linux(machine)).count();
    let covers_linux =
        distributions > 1 && machines.iter().filter(|machine| is_linux(machine)).count() == distributions;
    let named = machines.iter().filter(|machine| !covers_linux || !is_linux(machine));
    let named = named.map(|machine| machine.label.as_str());
    covers_linux.then_some("Linux").into_iter().chain(named).collect::<Vec<_>>().join(", ")
}

/// Adds the name of a platform to a command as a comment, before the place where it is run.
fn label(command: &str, label: &str) -> String {
    match [ON_THE_HOST, IN_WINDOWS].into_iter().find_map(|end| Some((command.strip_suffix(end)?, end))) {
        Some((command, end)) => format!("{command}# {label}, {}", end.trim_start_matches("# ")),
        None => format!("{command}  # {label}"),
    }
}

/// Whether a command is run outside of the examined machine.
fn is_outside(command: &str) -> bool {
    command.ends_with(ON_THE_HOST) || command.ends_with(IN_WINDOWS)
}

/// How a value is inserted into a text. `None` if it must not be inserted.
trait ValueFormat {
    fn value(&self, value: &str) -> Option<String>;
}

struct PlainFormat;

impl ValueFormat for PlainFormat {
    fn value(&self, value: &str) -> Option<String> {
        Some(value.to_owned())
    }
}

/// Quotes a value as one argument of a command.
struct ShellFormat {
    os: Os,
}

impl ValueFormat for ShellFormat {
    fn value(&self, value: &str) -> Option<String> {
        shell::quote(self.os, value)
    }
}
