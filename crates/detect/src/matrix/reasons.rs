//! Creates reasons from the texts in toolkit descriptions, and selects table entries by distribution.

use gpubuild_core::template;
use gpubuild_host::Os;

use super::Reason;
use crate::diagnostic::DiagnosticId;
use crate::facts::Facts;
use crate::finding::Findings;
use crate::toolkit::description::Description;
use crate::toolkit::{Catalogue, Inventory};

/// The input of every rule.
#[derive(Clone, Copy)]
pub(super) struct RuleInput<'a> {
    pub(super) facts: &'a Facts,
    pub(super) inventory: &'a Inventory,
    pub(super) catalogue: &'a Catalogue,
}

impl RuleInput<'_> {
    pub(super) fn os(&self) -> Os {
        self.facts.platform.os
    }

    pub(super) fn in_container(&self) -> bool {
        self.facts.container.is_some()
    }

    /// Creates a reason with the text that a description has for its id. `values` replace the placeholders. A hint is omitted if one
    /// of its placeholders has no value.
    pub(super) fn reason(&self, id: DiagnosticId, about: &Description, values: &[(&str, String)]) -> Reason {
        let texts = about.reasons.get(id.as_str()).or_else(|| self.catalogue.reason(&id));
        let value = |name: &str| {
            let value = values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            value.or_else(|| {
                let commands = match name {
                    "install" => match self.package_command(id, about) {
                        Some(command) => return Some(command),
                        None => &about.install,
                    },
                    "install_driver" => driver_commands(self.facts, about),
                    _ => return None,
                };
                let command =
                    self.for_distribution(commands).map(|one| self.on_system(one, name == "install"));
                // The name of the backend does not say which driver WSL needs.
                let has_name = name == "install" || !has_driver_for_wsl(self.facts, about);
                command.or_else(|| has_name.then(|| format!("install {}", about.name)))
            })
        };
        let fill = |text: &str| template::fill(text, value);
        let text =
            texts.and_then(|texts| fill(&texts.text)).unwrap_or_else(|| format!("{}: {id}", about.name));
        let hint = texts.and_then(|texts| fill(texts.hint.as_deref()?));
        let hint = hint.map(|hint| as_user(self.facts, hint));
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Reason { id, text, hint, values, about: Some(about.id.clone()) }
    }

    /// The command of the finding with this id, if it is about the packages of this distribution. It names less than the complete
    /// toolkit, because the rest is there.
    fn package_command(&self, id: DiagnosticId, about: &Description) -> Option<String> {
        let entry = Findings::shared().get(id.as_str())?;
        let commands = for_distribution(self.facts, &entry.commands)?;
        match commands.as_slice() {
            [command] if !command.contains('{') => Some(self.on_system(command.clone(), true)),
            [] | [_] => None,
            several => {
                let (count, backend) = (several.len(), about.backends.first()?);
                Some(format!("run the {count} commands that `gpubuild doctor --backends {backend}` prints"))
            }
        }
    }

    /// The id of a problem in the family of a description. Falls back to a general id, because descriptions of users can have
    /// families without findings.
    pub(super) fn id(about: &Description, problem: &str, general: DiagnosticId) -> DiagnosticId {
        DiagnosticId::find(&format!("{}.{problem}", about.family)).unwrap_or(general)
    }

    pub(super) fn on_system(&self, command: String, build: bool) -> String {
        on_system(self.facts, command, build)
    }

    /// Selects the entry of an install table for this distribution.
    pub(super) fn for_distribution(
        &self,
        table: &std::collections::BTreeMap<String, String>,
    ) -> Option<String> {
        for_distribution(self.facts, table).cloned()
    }
}

/// The command in the way of a system that is an image, or its advice if it has no equivalent; without `sudo` for root.
fn on_system(facts: &Facts, command: String, build: bool) -> String {
    let Some(system) = facts.system.filter(|_| facts.container.is_none()) else {
        return as_user(facts, command);
    };
    let translated = system.translate(&[command], build);
    if translated.omitted { system.advice.clone() } else { as_user(facts, translated.commands.join(" && ")) }
}

/// Removes `sudo` for root, who rarely has it in a container. Commands for outside of the container keep it.
fn as_user(facts: &Facts, text: String) -> String {
    if facts.is_root && !text.contains("on the host") { text.replace("sudo ", "") } else { text }
}

/// The command of an install table for this system and user.
#[must_use]
pub fn install_command(facts: &Facts, table: &std::collections::BTreeMap<String, String>) -> Option<String> {
    for_distribution(facts, table).map(|command| on_system(facts, command.clone(), true))
}

/// The command that installs a backend's driver, for this system and user.
#[must_use]
pub fn driver_command(facts: &Facts, about: &Description) -> Option<String> {
    let command = for_distribution(facts, driver_commands(facts, about))?;
    Some(on_system(facts, command.clone(), false))
}

/// The commands that install a toolkit on this system: those of the finding that it is missing, which also add a vendor's repository,
/// else that of its description.
#[must_use]
pub fn toolkit_commands(facts: &Facts, about: &Description) -> Vec<String> {
    let entry = Findings::shared().get(&format!("{}.toolkit.missing", about.family));
    let commands = entry.and_then(|entry| for_distribution(facts, &entry.commands));
    match commands.filter(|commands| !commands.is_empty() && !commands.iter().any(|one| one.contains('{'))) {
        Some(commands) => commands.iter().map(|command| on_system(facts, command.clone(), true)).collect(),
        None => install_command(facts, &about.install).into_iter().collect(),
    }
}

/// Whether this machine is a WSL that needs another driver for the backend than the same distribution on hardware.
fn has_driver_for_wsl(facts: &Facts, about: &Description) -> bool {
    facts.wsl.is_some() && facts.container.is_none() && !about.install_driver_wsl.is_empty()
}

/// The commands that install a backend's driver, by distribution.
pub(crate) fn driver_commands<'d>(
    facts: &Facts,
    about: &'d Description,
) -> &'d std::collections::BTreeMap<String, String> {
    if has_driver_for_wsl(facts, about) { &about.install_driver_wsl } else { &about.install_driver }
}

/// Selects the entry of a table for the host's distribution: by release (`ubuntu-22.04`), name, package manager, then by the
/// distributions that it derives from.
#[must_use]
pub fn for_distribution<'t, T>(
    facts: &Facts,
    table: &'t std::collections::BTreeMap<String, T>,
) -> Option<&'t T> {
    let distro = facts.distro.as_ref().map(|fact| &fact.value);
    if let Some(found) = distro.and_then(|distro| table.get(&distro.label())) {
        return Some(found);
    }
    let names = distro.into_iter().flat_map(|distro| std::iter::once(&distro.id).chain(&distro.like));
    let fallback = match facts.platform.os {
        Os::Windows => Some("winget"),
        Os::Macos => Some("brew"),
        Os::Linux => None,
    };
    names
        .flat_map(|name| [Some(name.as_str()), package_manager(name)])
        .chain([fallback])
        .flatten()
        .find_map(|key| table.get(key))
}

/// The package manager of a distribution by its `ID`.
fn package_manager(id: &str) -> Option<&'static str> {
    Some(match id {
        "debian" | "ubuntu" | "linuxmint" | "pop" | "raspbian" | "kali" | "elementary" | "zorin" => "apt",
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" | "ol" | "amzn" => "dnf",
        "arch" | "manjaro" | "endeavouros" | "cachyos" => "pacman",
        "suse" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" | "sles" => "zypper",
        "alpine" => "apk",
        "windows" => "winget",
        "macos" => "brew",
        _ => return None,
    })
}
