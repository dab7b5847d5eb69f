//! Snapshots for `doctor --diff`: the state of a machine as a flat list of values, and the difference of two snapshots.

use std::collections::BTreeMap;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::Finding;
use gpubuild_detect::matrix::{Matrix, Presence, Readiness};
use gpubuild_detect::toolkit::{Catalogue, Inventory};
use gpubuild_host::Environment;
use serde::{Deserialize, Serialize};

/// Schema id of a saved snapshot.
pub const SCHEMA: &str = "gpubuild.snapshot/1";

/// The state of a machine at one time, as sorted names with values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorSnapshot {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Creation time in seconds since 1970.
    pub taken: u64,
    /// Value by name; for example, `driver.nvidia` is `550.144.03`.
    pub values: BTreeMap<String, String>,
}

/// Input of a snapshot.
#[derive(Clone, Copy)]
pub struct SnapshotSubject<'a> {
    /// Observed facts about the machine.
    pub facts: &'a Facts,
    /// Detected toolkits, tools and runtimes.
    pub inventory: &'a Inventory,
    /// Toolkit descriptions; they name the variables to record.
    pub catalogue: &'a Catalogue,
    /// The verdict of each backend.
    pub matrix: &'a Matrix,
    /// The host's environment variables.
    pub env: &'a Environment,
    /// Findings of the doctor.
    pub findings: &'a [Finding],
}

impl DoctorSnapshot {
    /// Creates the snapshot of a machine; `taken` is in seconds since 1970.
    #[must_use]
    pub fn take(subject: &SnapshotSubject<'_>, taken: u64) -> Self {
        let mut values = BTreeMap::new();
        system(subject.facts, &mut values);
        toolkits(subject.inventory, &mut values);
        verdicts(subject.matrix, &mut values);
        environment(subject.catalogue, subject.env, &mut values);
        for finding in subject.findings {
            values.insert(format!("finding.{}", finding.id), finding.summary.clone());
        }
        Self { schema: SCHEMA.to_owned(), taken, values }
    }
}

type SnapshotValues = BTreeMap<String, String>;

fn system(facts: &Facts, values: &mut SnapshotValues) {
    let mut insert = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            values.insert(name.to_owned(), value);
        }
    };
    insert("system.distro", facts.distro.as_ref().map(|fact| fact.value.label()));
    insert("system.kernel", facts.kernel.as_ref().map(|fact| fact.value.clone()));
    insert("system.libc", facts.libc.as_ref().map(|fact| fact.value.label()));
    insert("system.container", facts.container.as_ref().map(|fact| fact.value.clone()));
    insert("system.wsl", facts.wsl.as_ref().map(|fact| fact.value.to_string()));
    insert("system.cpu", facts.cpu.name.clone());
    for driver in &facts.drivers {
        let version =
            driver.version.as_ref().map_or_else(|| "loaded".to_owned(), |fact| fact.value.to_string());
        let flavour = driver.flavour.as_ref().map(|flavour| format!(" ({flavour})")).unwrap_or_default();
        values.insert(format!("driver.{}", driver.module), format!("{version}{flavour}"));
    }
    for (index, gpu) in facts.gpus.iter().enumerate() {
        let place = gpu.pci.clone().unwrap_or_else(|| index.to_string());
        let driver =
            gpu.kernel_driver.as_ref().map(|driver| format!(", driven by {driver}")).unwrap_or_default();
        values.insert(format!("gpu.{place}"), format!("{}{driver}", gpu.name));
    }
}

fn toolkits(inventory: &Inventory, values: &mut SnapshotValues) {
    for (id, copies) in &inventory.installations {
        for copy in copies {
            let version = copy.version().map_or_else(|| "unknown version".to_owned(), ToString::to_string);
            let place = copy.part("program").unwrap_or(&copy.root);
            values.insert(format!("toolkit.{id}.{place}"), version);
            if copy.chosen {
                values.insert(format!("chosen.{id}"), place.to_string());
            }
        }
    }
    for (backend, runtime) in &inventory.runtimes {
        if let Some(version) = &runtime.version {
            values.insert(format!("library.{backend}"), version.value.to_string());
        }
        for driver in &runtime.drivers {
            let state = if driver.found { "" } else { " (missing)" };
            values.insert(format!("icd.{backend}.{}", driver.manifest), format!("{}{state}", driver.library));
        }
    }
}

fn verdicts(matrix: &Matrix, values: &mut SnapshotValues) {
    let readiness = |state: Readiness| match state {
        Readiness::Ready => "ready",
        Readiness::Limited => "limited",
        Readiness::Blocked => "blocked",
        Readiness::Unknown => "unknown",
    };
    for verdict in &matrix.verdicts {
        let id = verdict.backend;
        let hardware = match verdict.hardware {
            Presence::Present => "present",
            Presence::Absent => "absent",
            Presence::Unknown => "unknown",
        };
        values.insert(format!("backend.{id}.hardware"), hardware.to_owned());
        values.insert(format!("backend.{id}.build"), readiness(verdict.build).to_owned());
        values.insert(format!("backend.{id}.run"), readiness(verdict.run).to_owned());
    }
}

/// Stores the variables that the descriptions name and those that every loader and compiler reads. Secrets are redacted.
fn environment(catalogue: &Catalogue, env: &Environment, values: &mut SnapshotValues) {
    let named = catalogue.iter().flat_map(|one| {
        let roots = one.roots.iter().filter_map(|root| root.env.as_deref().or(root.prefix_env.as_deref()));
        let more = one.about.iter().flat_map(|about| about.run_variables.keys().map(String::as_str));
        roots.chain(more).collect::<Vec<_>>()
    });
    let always = ["PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CFLAGS", "CXXFLAGS", "LDFLAGS"];
    for name in named.chain(always) {
        if let Some(value) = env.get_raw(name) {
            values.insert(format!("env.{name}"), gpubuild_core::secret::redact(value).text.into_owned());
        }
    }
}

/// A value that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SnapshotChange {
    /// Name of the value: `driver.nvidia`.
    pub name: String,
    /// Old value; absent if it did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// New value; absent if it no longer exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Order of name prefixes in a difference: causes before effects.
const ORDER: [&str; 10] =
    ["driver.", "system.", "gpu.", "library.", "icd.", "toolkit.", "chosen.", "env.", "backend.", "finding."];

/// Differences between two snapshots, causes before effects.
#[must_use]
pub fn diff(before: &DoctorSnapshot, after: &DoctorSnapshot) -> Vec<SnapshotChange> {
    let names = before.values.keys().chain(after.values.keys());
    let mut names: Vec<&String> = names.collect();
    names.sort_indirect_by_key(|name| {
        (ORDER.iter().position(|start| name.starts_with(start)).unwrap_or(ORDER.len()), (*name).clone())
    });
    names.dedup();
    names
        .into_iter()
        .filter_map(|name| {
            let (old, new) = (before.values.get(name), after.values.get(name));
            (old != new).then(|| SnapshotChange {
                name: name.clone(),
                before: old.cloned(),
                after: new.cloned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(values: &[(&str, &str)]) -> DoctorSnapshot {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        DoctorSnapshot { schema: SCHEMA.to_owned(), taken: 0, values }
    }

    #[test]
    fn causes_precede_effects_and_equal_values_are_left_out() {
        let before = snapshot(&[
            ("backend.cuda.run", "ready"),
            ("system.kernel", "6.8.0-45"),
            ("driver.nvidia", "550.54"),
            ("chosen.gcc", "/usr/bin/gcc"),
            ("env.CUDA_PATH", "/opt/cuda"),
        ]);
        let after = snapshot(&[
            ("backend.cuda.run", "blocked"),
            ("system.kernel", "6.11.0-9"),
            ("driver.nvidia", "590.44"),
            ("chosen.gcc", "/usr/bin/gcc"),
            ("finding.nv.driver.branch-dropped", "driver 590.44 no longer drives sm_61"),
        ]);
        let changes = diff(&before, &after);
        let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "driver.nvidia",
                "system.kernel",
                "env.CUDA_PATH",
                "backend.cuda.run",
                "finding.nv.driver.branch-dropped"
            ]
        );
        assert_eq!(changes[2].after, None);
        assert_eq!(changes[4].before, None);
        assert_eq!(diff(&after, &after), []);
    }
}
