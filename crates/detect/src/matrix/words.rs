//! The texts of reasons: the descriptions contain them by id, and the actual case fills their placeholders.

use gpubuild_host::Os;

use super::Reason;
use crate::diagnostic::DiagnosticId;
use crate::facts::Facts;
use crate::toolkit::description::Description;
use crate::toolkit::{Catalogue, Inventory};

/// The input of every rule.
#[derive(Clone, Copy)]
pub(super) struct WordCase<'a> {
    pub(super) facts: &'a Facts,
    pub(super) inventory: &'a Inventory,
    pub(super) catalogue: &'a Catalogue,
}

impl WordCase<'_> {
    pub(super) fn os(&self) -> Os {
        self.facts.platform.os
    }

    pub(super) fn in_container(&self) -> bool {
        self.facts.container.is_some()
    }

    /// A reason with the text of its id. `values` fill the placeholders; a hint with an unfilled placeholder is omitted.
    pub(super) fn say(&self, id: DiagnosticId, about: &Description, values: &[(&str, String)]) -> Reason {
        let words = self.catalogue.reason(&id);
        let fill = |template: &str| {
            let mut text = template.to_owned();
            for (name, value) in values {
                text = text.replace(&format!("{{{name}}}"), value);
            }
            for (name, table) in [("{install}", &about.install), ("{install_driver}", &about.install_driver)]
            {
                if text.contains(name) {
                    let command =
                        self.for_distribution(table).unwrap_or_else(|| format!("install {}", about.name));
                    text = text.replace(name, &command);
                }
            }
            text
        };
        let text = words.map_or_else(|| format!("{}: {id}", about.name), |words| fill(&words.text));
        let hint = words.and_then(|words| words.hint.as_deref()).map(fill).filter(|hint| !hint.contains('{'));
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Reason { id, text, hint, values, about: Some(about.id.clone()) }
    }

    /// The id of a problem in a description's family, or the general one: a user's description may have a family of its own.
    pub(super) fn id(about: &Description, problem: &str, general: DiagnosticId) -> DiagnosticId {
        DiagnosticId::find(&format!("{}.{problem}", about.family)).unwrap_or(general)
    }

    /// The entry of an install table for this distribution.
    pub(super) fn for_distribution(
        &self,
        table: &std::collections::BTreeMap<String, String>,
    ) -> Option<String> {
        for_distribution(self.facts, table).cloned()
    }
}

/// The entry of a table for a distribution: by release (`ubuntu-22.04`), name, package manager, then by the distributions that
/// it derives from.
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

/// The items separated by commas, each in backticks.
pub(super) fn quoted<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
