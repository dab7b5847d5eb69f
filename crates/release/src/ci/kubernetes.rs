//! The Jobs that run a matrix in Kubernetes: an Indexed Job for each group of rows or tests, and one that merges the packages.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_plan::project::variant::CiTable;
use serde_json::Value;

use super::farm::{self, FarmGroup, FarmResources};
use super::image::{CiImage, Images};
use super::row::{CiRow, GitlabJob};
use super::test_row::CiTestRow;

/// The largest number of indexes that Kubernetes accepts with a retry per index (`backoffLimitPerIndex`, API reference of Job).
pub const LARGEST_JOB: usize = 10_000;

/// The manifest of a run.
#[derive(Debug)]
pub struct KubernetesFarm<'a> {
    /// A name for this run: part of the names of the Jobs and of its folder.
    pub run: &'a str,
    /// The folder of gpubuild.toml in the repository; empty or `.` for the repository itself.
    pub folder: &'a str,
    /// `[ci]` of gpubuild.toml.
    pub table: &'a CiTable,
    /// The images.
    pub images: &'a Images,
}

/// The container in which a job runs: its own, or the one that replaces its machine at GitLab.
fn container_or<'a>(own: &'a str, gitlab: Option<&'a GitlabJob>) -> Option<&'a str> {
    if own.is_empty() { gitlab.map(|job| job.image.as_str()) } else { Some(own) }
}

fn container(row: &CiRow) -> Option<&str> {
    container_or(&row.container, row.gitlab.as_ref())
}

fn container_of_test(test: &CiTestRow) -> Option<&str> {
    container_or(&test.container, test.gitlab.as_ref())
}

/// Jobs for which a container is known, and the names of the others.
type Placed<'a, T> = (Vec<&'a T>, Vec<&'a str>);

/// The rows of a platform.
#[must_use]
pub fn rows<'a>(rows: &'a [CiRow], platform: &str) -> Placed<'a, CiRow> {
    let (with, without): (Vec<&CiRow>, Vec<&CiRow>) =
        rows.iter().filter(|row| row.platform == platform).partition(|row| container(row).is_some());
    (with, without.into_iter().map(|row| row.name.as_str()).collect())
}

/// The tests of a platform.
#[must_use]
pub fn tests<'a>(tests: &'a [CiTestRow], platform: &str) -> Placed<'a, CiTestRow> {
    let (with, without): (Vec<&CiTestRow>, Vec<&CiTestRow>) = tests
        .iter()
        .filter(|test| test.platform == platform)
        .partition(|test| container_of_test(test).is_some());
    (with, without.into_iter().map(|test| test.name.as_str()).collect())
}

/// What an Indexed Job runs.
struct IndexedJob<'a> {
    kind: &'static str,
    index: usize,
    script: &'static str,
    /// The names of the jobs, by index.
    jobs: Vec<&'a str>,
    /// The rows that pack: of the whole run for rows, by index for tests.
    packing: Vec<&'a str>,
    image: &'a str,
    container: &'a str,
    resources: FarmResources,
    limits: BTreeMap<String, String>,
}

impl KubernetesFarm<'_> {
    /// The documents that build and merge, as one YAML stream. `tests` are those that the merge waits for.
    #[must_use]
    pub fn manifest(&self, rows: &[&CiRow], tests: &[&CiTestRow]) -> String {
        let key =
            |row: &CiRow| (container(row).unwrap_or_default().to_owned(), self.own(&row.image).cloned());
        let groups = farm::groups(rows.iter().copied(), LARGEST_JOB, key);
        let packing: Vec<&str> =
            rows_of(&groups).filter(|row| row.pack.is_some()).map(|row| row.name.as_str()).collect();
        let mut text = gpubuild_templates::KUBERNETES_HEAD.to_owned();
        for (index, group) in groups.iter().enumerate() {
            let Some(first) = group.rows.first() else { continue };
            text += &self.indexed(&IndexedJob {
                kind: "rows",
                index,
                script: gpubuild_templates::KUBERNETES_ROW,
                jobs: group.rows.iter().map(|row| row.name.as_str()).collect(),
                packing: packing.clone(),
                image: &first.image,
                container: container(first).unwrap_or_default(),
                resources: group.resources,
                limits: self.own(&first.image).map(|image| image.requests.limits()).unwrap_or_default(),
            });
        }
        if let Some(row) = rows_of(&groups).find(|row| row.pack.is_some()) {
            text += &self.merge(row, &packing, tests);
        }
        text
    }

    /// The documents that test what the rows of the run packed.
    #[must_use]
    pub fn tests(&self, tests: &[&CiTestRow]) -> String {
        let mut by_image: Vec<(&str, Vec<&CiTestRow>)> = Vec::new();
        for test in tests {
            match by_image.iter_mut().find(|(image, _)| *image == test.image) {
                Some((_, same)) => same.push(test),
                None => by_image.push((&test.image, vec![test])),
            }
        }
        let mut text = gpubuild_templates::KUBERNETES_HEAD.to_owned();
        let parts = by_image.iter().flat_map(|(image, tests)| {
            tests
                .chunks(LARGEST_JOB)
                .filter_map(|part| Some((*image, part, container_of_test(part.first()?)?)))
        });
        for (index, (image, part, container)) in parts.enumerate() {
            text += &self.indexed(&IndexedJob {
                kind: "tests",
                index,
                script: gpubuild_templates::KUBERNETES_TEST,
                jobs: part.iter().map(|test| test.name.as_str()).collect(),
                packing: part.iter().map(|test| test.of.as_str()).collect(),
                image,
                container,
                resources: farm::TEST,
                limits: self.own(image).map(|image| image.requests.limits_of_test()).unwrap_or_default(),
            });
        }
        text
    }

    /// An image, if it is one of the project.
    fn own(&self, image: &str) -> Option<&CiImage> {
        self.images.get(image).filter(|image| image.is_own())
    }

    fn indexed(&self, job: &IndexedJob<'_>) -> String {
        let resources = job.resources;
        let mut limits = job.limits.clone();
        let memory =
            limits.entry("memory".to_owned()).or_insert(format!("{}Mi", resources.memory_mib)).clone();
        let selector = self.own(job.image).map(|image| image.requests.node_selector.clone());
        gpubuild_templates::KUBERNETES_JOBS
            .replace("@kind@", job.kind)
            .replace("@index@", &job.index.to_string())
            .replace("@count@", &job.jobs.len().to_string())
            .replace("@jobs@", &quoted(&job.jobs.join("\n")))
            .replace("@packing@", &quoted(&job.packing.join("\n")))
            .replace("@seconds@", &(60 * resources.minutes).to_string())
            .replace("@cpus@", &resources.cpus.to_string())
            .replace("@memory@", &quoted(&memory))
            .replace("@limits@\n", &map_lines(14, &limits))
            .replace("@labels@\n", &map_lines(8, &selector.unwrap_or_default()))
            .replace("@script@\n", &self.script(job.script, job.image))
            .replace("@image@", &quoted(job.container))
            .replace("@arch@", self.arch(job.image))
            .replace("@run@", self.run)
            .replace("@folder@", &quoted(self.folder))
    }

    /// The Job that merges, in the container of a row that packs.
    fn merge(&self, row: &CiRow, packing: &[&str], tests: &[&CiTestRow]) -> String {
        let packed = packing.iter().map(|row| format!("packed/{row}"));
        let tested = tests.iter().map(|test| format!("tested/{}", test.name));
        let awaited: Vec<String> = packed.chain(tested).collect();
        gpubuild_templates::KUBERNETES_MERGE
            .replace("@packing@", &quoted(&packing.join("\n")))
            .replace("@awaited@", &quoted(&awaited.join("\n")))
            .replace("@script@\n", &self.script(gpubuild_templates::KUBERNETES_MERGE_SCRIPT, &row.image))
            .replace("@image@", &quoted(container(row).unwrap_or_default()))
            .replace("@arch@", self.arch(&row.image))
            .replace("@run@", self.run)
            .replace("@folder@", &quoted(self.folder))
    }

    fn arch(&self, image: &str) -> &'static str {
        match self.images.get(image).map(CiImage::platform).as_deref() {
            Some("linux-aarch64") => "arm64",
            _ => "amd64",
        }
    }

    /// A script with the lines that make gpubuild's installation possible in the container, indented for the block in its document.
    fn script(&self, script: &str, image: &str) -> String {
        let lines = self.images.get(image).and_then(|image| self.images.prepare_always(image));
        let prepare = lines.unwrap_or_default().iter().fold(String::new(), |text, line| text + line + "\n");
        let install = self.table.install.clone().unwrap_or_else(super::workflow::default_install);
        let command = self.table.command.as_deref().unwrap_or("gpubuild");
        let script = script
            .replace("@prepare@\n", &prepare)
            .replace("@install@", &install)
            .replace("@gpubuild@", command);
        script.lines().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{:14}{line}", "");
            text
        })
    }
}

fn rows_of<'a>(groups: &[FarmGroup<'a>]) -> impl Iterator<Item = &'a CiRow> {
    groups.iter().flat_map(|group| group.rows.iter().copied())
}

/// The lines of a map of strings.
fn map_lines(indentation: usize, map: &BTreeMap<String, String>) -> String {
    map.iter().fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{:indentation$}{}: {}", "", quoted(key), quoted(value));
        text
    })
}

/// A string of JSON, which is one of YAML too.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
