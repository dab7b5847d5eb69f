//! The cache entries and targets of a tree that the profile and gpubuild.toml define.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{TreePart, TreeRole};
use super::linkage;
use super::make::PlanInputs;
use crate::project::Linkage;
use crate::project::profile::WantedOption;

/// The cache entries and targets of one tree.
#[derive(Debug, Default)]
pub(super) struct CacheEntries {
    /// Cache entries by name.
    pub(super) cache: BTreeMap<String, String>,
    /// Names of entries that a version of the project may lack: their value matches the behaviour of such a version.
    pub(super) may_be_unknown: BTreeSet<String>,
    /// Targets that a program links.
    pub(super) targets: Vec<WantedOption>,
    /// Targets that a program loads at run time.
    pub(super) modules: Vec<String>,
}

impl CacheEntries {
    fn soft(&mut self, entries: &BTreeMap<String, String>) {
        self.may_be_unknown.extend(entries.keys().cloned());
        self.cache.extend(entries.clone());
    }

    fn switch<'a>(&mut self, names: impl Iterator<Item = &'a String>, on: bool) {
        for name in names {
            self.cache.insert(name.clone(), if on { "ON" } else { "OFF" }.to_owned());
            // A version without the option does not have the feature either.
            if on {
                self.may_be_unknown.remove(name);
            } else {
                self.may_be_unknown.insert(name.clone());
            }
        }
    }

    /// Adds the libraries of a backend as link targets or as modules.
    fn backend(&mut self, targets: &[WantedOption], dynamic: bool) {
        if dynamic {
            self.modules.extend(targets.iter().flat_map(|target| target.any.clone()));
        } else {
            self.targets.extend(targets.to_vec());
        }
    }

    fn user(&mut self, entries: &BTreeMap<String, String>) {
        for (name, value) in entries {
            self.may_be_unknown.remove(name);
            self.cache.insert(name.clone(), value.clone());
        }
    }

    /// Splits targets into those that have one name in every version of the project, and all others.
    pub(super) fn split_targets(targets: Vec<WantedOption>) -> (Vec<String>, Vec<WantedOption>) {
        let (mut plain, mut choices) = (Vec::new(), Vec::new());
        let mut known = BTreeSet::new();
        for target in targets {
            match target.plain() {
                Some(name) if known.insert(name.to_owned()) => plain.push(name.to_owned()),
                None if !choices.contains(&target) => choices.push(target),
                Some(_) | None => {}
            }
        }
        (plain, choices)
    }
}

/// The entries of a tree with the given extra backends.
pub(super) fn entries(inputs: &PlanInputs<'_>, part: &TreePart, extra: &[String]) -> CacheEntries {
    let (profile, file) = (&inputs.project.profile, &inputs.project.file);
    let backends = part.backends.as_slice();
    let dynamic = inputs.linkage == Linkage::Dynamic;
    let mut entries = CacheEntries::default();
    if part.role == TreeRole::Base {
        entries.targets.clone_from(&profile.targets);
    }
    entries.soft(&profile.options);
    entries.soft(&inputs.project.packages);
    if let (Some(name), true) = (&profile.native, inputs.native) {
        entries.cache.insert(name.clone(), "ON".to_owned());
        entries.may_be_unknown.remove(name);
    }
    for (backend, row) in &profile.backends {
        let on = backends.contains(backend);
        entries.switch(std::iter::once(&row.option).chain(&row.also), on);
        if on {
            entries.soft(&row.options);
            entries.backend(&row.targets, dynamic);
        }
    }
    for (id, row) in profile.extra.iter().filter(|(_, row)| row.removed.is_none()) {
        let on = extra.contains(id);
        entries.switch(std::iter::once(&row.option).chain(&row.also), on);
        if on {
            entries.soft(&row.options);
            entries.backend(&row.targets, dynamic);
        }
    }
    let named = if part.role == TreeRole::Base { file.project.targets.as_slice() } else { &[] };
    for target in named {
        let part = target.plain().and_then(|name| profile.part(name));
        match part {
            Some(part) => {
                entries.soft(&part.options);
                entries.targets.push(WantedOption { any: part.names.clone(), optional: false });
            }
            None => entries.targets.push(target.clone()),
        }
    }
    entries.cache.extend(linkage::variants(inputs, backends));
    entries.user(&file.project.options);
    for table in backends.iter().filter_map(|backend| file.backends.get(backend)) {
        entries.user(&table.options);
    }
    entries
}
