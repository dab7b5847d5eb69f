//! The Jobs that run a matrix in Kubernetes: an Indexed Job for each group of rows, and one that merges their packages.

use std::fmt::Write as _;

use gpubuild_plan::project::variant::CiTable;
use serde_json::Value;

use super::farm::{self, FarmGroup};
use super::image::Images;
use super::row::CiRow;
use super::rows::Rows;

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

/// The container in which a row runs: its own, or the one that replaces its machine at GitLab.
fn container(row: &CiRow) -> Option<&str> {
    let machine = || row.gitlab.as_ref().map(|job| job.image.as_str());
    if row.container.is_empty() { machine() } else { Some(&row.container) }
}

/// The rows of a platform in groups with the same container and resources, and the rows for which no container is known.
#[must_use]
pub fn groups<'a>(rows: &'a Rows, platform: &str) -> (Vec<FarmGroup<'a>>, Vec<&'a CiRow>) {
    let (with, without): (Vec<&CiRow>, Vec<&CiRow>) =
        rows.include.iter().filter(|row| row.platform == platform).partition(|row| container(row).is_some());
    (farm::groups(with.into_iter(), LARGEST_JOB, |row| container(row).unwrap_or_default()), without)
}

impl KubernetesFarm<'_> {
    /// The documents, as one YAML stream.
    #[must_use]
    pub fn manifest(&self, groups: &[FarmGroup<'_>]) -> String {
        let all = || groups.iter().flat_map(|group| group.rows.iter().copied());
        let packing: Vec<&str> =
            all().filter(|row| row.pack.is_some()).map(|row| row.name.as_str()).collect();
        let mut text = gpubuild_templates::KUBERNETES_HEAD.to_owned();
        for (index, group) in groups.iter().enumerate() {
            text += &self.rows(index, group, &packing);
        }
        let merges = groups.iter().find(|group| group.rows.iter().any(|row| row.pack.is_some()));
        if let Some(group) = merges {
            text += &self.filled(gpubuild_templates::KUBERNETES_MERGE, group, &packing);
        }
        text
    }

    fn rows(&self, index: usize, group: &FarmGroup<'_>, packing: &[&str]) -> String {
        let resources = group.resources;
        let names: Vec<&str> = group.rows.iter().map(|row| row.name.as_str()).collect();
        self.filled(gpubuild_templates::KUBERNETES_ROWS, group, packing)
            .replace("@index@", &index.to_string())
            .replace("@count@", &names.len().to_string())
            .replace("@rows@", &quoted(&names.join("\n")))
            .replace("@seconds@", &(60 * resources.minutes).to_string())
            .replace("@cpus@", &resources.cpus.to_string())
            .replace("@memory@", &resources.memory_mib.to_string())
    }

    /// A template with what all documents have.
    fn filled(&self, template: &str, group: &FarmGroup<'_>, packing: &[&str]) -> String {
        let first = group.rows.first();
        let image = first.and_then(|row| container(row)).unwrap_or_default();
        let arch = match first.map(|row| row.platform.as_str()) {
            Some("linux-aarch64") => "arm64",
            _ => "amd64",
        };
        let install = self.table.install.clone().unwrap_or_else(super::workflow::default_install);
        let command = self.table.command.as_deref().unwrap_or("gpubuild");
        template
            .replace("@run@", self.run)
            .replace("@arch@", arch)
            .replace("@image@", &quoted(image))
            .replace("@folder@", &quoted(self.folder))
            .replace("@packing@", &quoted(&packing.join("\n")))
            .replace("@prepare@\n", &self.prepare(group))
            .replace("@install@", &indented(&install))
            .replace("@gpubuild@", &indented(command))
    }

    /// The lines that make gpubuild's installation possible in the container.
    fn prepare(&self, group: &FarmGroup<'_>) -> String {
        let image = group.rows.first().and_then(|row| self.images.get(&row.image));
        let lines = image.and_then(|image| self.images.prepare_always(image)).unwrap_or_default();
        lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{INDENT}{line}");
            text
        })
    }
}

/// The indentation of scripts in the templates.
const INDENT: &str = "              ";

/// Further lines of a command, inside a block of the templates.
fn indented(command: &str) -> String {
    command.replace('\n', &format!("\n{INDENT}"))
}

/// A string of JSON, which is one of YAML too.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
