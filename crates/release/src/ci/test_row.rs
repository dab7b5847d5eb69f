//! Jobs that test what other jobs packed: `test_images` of `[[variants]]`. They compile nothing.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_plan::project::variant::VariantTable;
use serde::Serialize;

use super::image::{CiImage, Images};
use super::pack;
use super::row::{CiRow, GitlabJob, MIN_TIMEOUT_MINUTES};
use super::rows::{DroppedRow, Rows, listed_once, unknown_image};

/// The folder into which a job installs what it tests.
const INSTALLED: &str = ".gpubuild/tested";

/// A job that installs the packed variant of another job and runs its smoke test on each backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CiTestRow {
    /// The unique name: `cuda-ubuntu-24.04-on-gpu-box`.
    pub name: String,
    /// The name of the job that packs what this one tests.
    pub of: String,
    /// The id of the image.
    pub image: String,
    /// The platform, `linux-x86_64`.
    pub platform: String,
    /// The GitHub runner, for `runs-on`; `None` if GitHub has no such runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// All labels of the runner, if it has several.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub labels: Vec<String>,
    /// The container of the job; empty if the job runs on the machine itself.
    pub container: String,
    /// The job at GitLab; `None` if GitLab has no such machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<GitlabJob>,
    /// The backends that are tested, separated by commas.
    pub backends: String,
    /// Commands that prepare a container for the installation of gpubuild.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub prepare: Vec<String>,
    /// The arguments of each gpubuild call, in order. The packed variant is in the folder `release`.
    pub run: Vec<Vec<String>>,
    /// The time limit in minutes.
    pub timeout_minutes: u64,
}

/// Adds the test jobs of all variants. Every job that packs a variant for the platform of a test image is tested there.
pub fn add(rows: &mut Rows, variants: &[VariantTable], images: &Images) {
    let Rows { include, tests, dropped } = rows;
    let mut packed: BTreeMap<&str, Vec<&CiRow>> = BTreeMap::new();
    for row in include.iter().filter(|row| row.pack.is_some()) {
        packed.entry(&row.variant).or_default().push(row);
    }
    for variant in variants {
        let packed = packed.get(variant.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        for id in listed_once(&variant.name, &variant.test_images, dropped) {
            let Some(image) = images.get(id) else {
                dropped.push(unknown_image(&variant.name, id, images));
                continue;
            };
            let count = tests.len();
            tests.extend(
                packed
                    .iter()
                    .filter(|row| row.platform == image.platform())
                    .map(|row| test_row(row, variant, image, images)),
            );
            if tests.len() == count {
                dropped.push(DroppedRow {
                    name: format!("{}-on-{id}", variant.name),
                    reasons: vec![format!(
                        "no job packs the variant `{}` for {} [ci.no-pack]",
                        variant.name,
                        image.platform()
                    )],
                    named: true,
                });
            }
        }
    }
}

/// Keeps the tests of the jobs that are left.
pub fn retain(rows: &mut Rows) {
    let Rows { include, tests, .. } = rows;
    let names: BTreeSet<&str> = include.iter().map(|row| row.name.as_str()).collect_set();
    tests.retain(|test| names.contains(test.of.as_str()));
}

fn test_row(row: &CiRow, variant: &VariantTable, image: &CiImage, images: &Images) -> CiTestRow {
    let backends = tested(&variant.backends);
    CiTestRow {
        name: format!("{}-on-{}", row.name, image.id),
        of: row.name.clone(),
        image: image.id.clone(),
        platform: image.platform(),
        os: image.runner().map(str::to_owned),
        labels: if image.labels.len() > 1 { image.labels.clone() } else { Vec::new() },
        container: image.container.clone().unwrap_or_default(),
        gitlab: image.gitlab().map(|(image, tag)| GitlabJob { image: image.to_owned(), tag: tag.to_owned() }),
        backends: backends.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(","),
        prepare: images.prepare(image).to_vec(),
        run: backends.iter().map(|backend| install(&variant.label(&row.toolkits), *backend)).collect(),
        timeout_minutes: MIN_TIMEOUT_MINUTES,
    }
}

/// The backends that need a device; all if none does.
fn tested(backends: &[Backend]) -> Vec<Backend> {
    let devices: Vec<Backend> = backends.iter().copied().filter(|backend| *backend != Backend::Cpu).collect();
    if devices.is_empty() { backends.to_vec() } else { devices }
}

/// The call that installs a variant and fails unless its smoke test passes on the backend.
fn install(label: &str, backend: Backend) -> Vec<String> {
    ["install", "--manifest", pack::FOLDER, "--variant", label, "--backend", backend.id(), "--to", INSTALLED]
        .map(str::to_owned)
        .to_vec()
}
