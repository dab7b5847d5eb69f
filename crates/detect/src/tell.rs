//! Turns a draft into a finding with text and commands for this machine.

use std::collections::BTreeMap;

use gpubuild_core::Os;
use gpubuild_core::shell;

use crate::facts::Facts;
use crate::finding::{Finding, FindingDraft, FindingEntry, Findings, Remedy, Severity};
use crate::matrix::for_distribution;
use crate::toolkit::{Catalogue, Description};

/// The texts of all findings, and the machine that they are filled for.
#[derive(Clone, Copy)]
pub struct Teller<'a> {
    facts: &'a Facts,
    catalogue: &'a Catalogue,
    findings: &'a Findings,
    is_root: bool,
}

impl<'a> Teller<'a> {
    /// A teller for a machine. With `is_root`, commands get no `sudo`.
    #[must_use]
    pub fn new(facts: &'a Facts, catalogue: &'a Catalogue, findings: &'a Findings, is_root: bool) -> Self {
        Self { facts, catalogue, findings, is_root }
    }

    /// The finding of a draft. If the catalogue has no entry for the id, the draft's texts are used.
    #[must_use]
    pub fn tell(&self, draft: &FindingDraft, severity: Severity) -> Finding {
        let entry = self.findings.get(&draft.id).map(|entry| entry.for_case(draft.case.as_deref()));
        let entry = entry.as_ref();
        let words = PhraseWords { teller: self, draft, about: self.about(draft, entry) };
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
            summary: words.summary(entry),
            evidence: draft.evidence.clone(),
            remedy: words.remedy(entry),
            links: entry.map(|entry| entry.links.clone()).unwrap_or_default(),
            consequences: Vec::new(),
        }
    }

    fn about(&self, draft: &FindingDraft, entry: Option<&FindingEntry>) -> Option<&'a Description> {
        let backend = draft.backends.first().copied().or_else(|| entry.and_then(|entry| entry.backend));
        let named = draft.about.as_deref().and_then(|id| self.catalogue.get(id));
        named.or_else(|| self.catalogue.for_backend(backend?))
    }

    /// The entry of a table by kind of container, `wsl`, distribution, package manager or system, in this order.
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

/// The texts of one draft.
struct PhraseWords<'a> {
    teller: &'a Teller<'a>,
    draft: &'a FindingDraft,
    about: Option<&'a Description>,
}

impl PhraseWords<'_> {
    fn summary(&self, entry: Option<&FindingEntry>) -> String {
        let own = self.draft.summary.clone();
        // A case is more specific than the verdict that the summary may come from.
        let case = self.draft.case.as_ref().and_then(|case| entry?.cases.get(case)?.summary.as_deref());
        let summary = entry.and_then(|entry| entry.summary.as_deref());
        case.and_then(|text| self.fill(text, &PlainForm))
            .or(own)
            .or_else(|| summary.and_then(|text| self.fill(text, &PlainForm)))
            .or_else(|| entry.map(|entry| entry.title.clone()))
            .unwrap_or_else(|| self.draft.id.to_string())
    }

    fn remedy(&self, entry: Option<&FindingEntry>) -> Remedy {
        let Some(entry) = entry else {
            return Remedy { text: self.draft.fix.clone().unwrap_or_default(), ..Remedy::default() };
        };
        let quote = Quoted { os: self.teller.facts.platform.os };
        let commands: Vec<String> = self
            .teller
            .choose(&entry.commands)
            .into_iter()
            .flatten()
            .flat_map(|command| match self.steps(command) {
                Some(steps) => steps.clone(),
                None => self.fill(command, &quote).into_iter().collect(),
            })
            .map(|command| self.as_user(&command))
            .collect();
        let mut needs = entry.needs.clone();
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
        let text = self.fill(&entry.fix, &PlainForm).or_else(|| self.draft.fix.clone());
        let verify = entry.verify.as_deref().and_then(|text| self.fill(text, &quote));
        Remedy {
            text: text.unwrap_or_else(|| entry.title.clone()),
            safe: entry.safe && !commands.is_empty(),
            commands,
            needs,
            verify,
        }
    }

    /// The commands for a line that consists of a single placeholder.
    fn steps(&self, command: &str) -> Option<&Vec<String>> {
        self.draft.steps.get(command.strip_prefix('{')?.strip_suffix('}')?)
    }

    /// Removes `sudo` for root, who does not need it; containers rarely have it. The user outside of the container is unknown.
    fn as_user(&self, command: &str) -> String {
        if self.teller.is_root && !is_outside(command) {
            command.replace("sudo ", "")
        } else {
            command.to_owned()
        }
    }

    /// The text with every placeholder filled; `None` if one has no value.
    fn fill(&self, template: &str, form: &dyn PhraseForm) -> Option<String> {
        let mut text = String::with_capacity(template.len());
        let mut rest = template;
        while let Some(start) = rest.find('{') {
            let Some(length) = rest[start..].find('}') else { break };
            let name = &rest[start + 1..start + length];
            text.push_str(&rest[..start]);
            if is_name(name) {
                text.push_str(&self.value(name, form)?);
            } else {
                text.push_str(&rest[start..=start + length]);
            }
            rest = &rest[start + length + 1..];
        }
        text.push_str(rest);
        Some(text)
    }

    fn value(&self, name: &str, form: &dyn PhraseForm) -> Option<String> {
        if let Some(value) = self.draft.values.get(name) {
            return form.value(value);
        }
        let about = self.about?;
        let table = match name {
            "install" => &about.install,
            "install_driver" => &about.install_driver,
            _ => return None,
        };
        self.teller.choose(table).cloned()
    }
}

/// The suffix of commands that are run outside of a container.
const ON_THE_HOST: &str = "# on the host";
/// The suffix of commands that are run in Windows, outside of WSL.
const IN_WINDOWS: &str = "# in Windows";

/// Whether a command is run outside of the examined machine.
fn is_outside(command: &str) -> bool {
    command.ends_with(ON_THE_HOST) || command.ends_with(IN_WINDOWS)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
}

/// The form in which a value is inserted into a text; `None` if it must not be inserted.
trait PhraseForm {
    fn value(&self, value: &str) -> Option<String>;
}

struct PlainForm;

impl PhraseForm for PlainForm {
    fn value(&self, value: &str) -> Option<String> {
        Some(value.to_owned())
    }
}

/// Quoted as one word of a command.
struct Quoted {
    os: Os,
}

impl PhraseForm for Quoted {
    fn value(&self, value: &str) -> Option<String> {
        shell::quote(self.os, value)
    }
}
