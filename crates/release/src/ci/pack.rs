//! Decides which rows pack a release, and under which label. A label is unique per platform.

use std::collections::BTreeMap;

use gpubuild_core::order::CollectSorted as _;
use gpubuild_plan::project::Project;
use gpubuild_plan::project::variant::{MAX_NAME_LENGTH, VariantTable};

use super::row::CiRow;
use super::rows::Rows;
use crate::manifest;

/// The prefix of warnings about rows that do not pack.
pub const NOT_PACKED: &str = "not packed: ";

/// The folder into which a job packs.
pub const FOLDER: &str = "release";

/// Assigns each label of a platform to the first row that has it. The order of images in gpubuild.toml therefore determines which image,
/// and so which C library, the release is built with. A project without a program packs its libraries, if `libraries` in `[pack]` is set.
pub fn assign(rows: &mut Rows, variants: &[VariantTable], project: &Project) {
    let (has_program, table) = (project.file.binary.is_some(), &project.file.pack);
    if !has_program && !table.libraries {
        return;
    }
    if lacks_version(project) {
        let warning =
            format!("{NOT_PACKED}the project has no cargo package with a version [pack.version-missing]");
        rows.include.iter_mut().for_each(|row| row.warnings.push(warning.clone()));
        return;
    }
    let contents: &[&str] = if table.libraries { &["--libraries"] } else { &[] };
    let mut assigned: BTreeMap<(String, String), String> = BTreeMap::new();
    let by_name: BTreeMap<&str, &VariantTable> =
        variants.iter().map(|variant| (variant.name.as_str(), variant)).collect_map();
    for row in &mut rows.include {
        let Some(variant) = by_name.get(row.variant.as_str()) else { continue };
        let label = variant.label(&row.toolkits);
        if !manifest::is_label(&label) {
            row.warnings.push(format!(
                "{NOT_PACKED}`{label}` is not a valid label, which is up to {MAX_NAME_LENGTH} of a to z, digits, `_` and `.`; \
                 use a shorter variant name, or one that ends in its backend [ci.pack-label]"
            ));
            continue;
        }
        match assigned.get(&(row.platform.clone(), label.clone())) {
            None => {
                row.pack = arguments(row, contents, &label);
                assigned.insert((row.platform.clone(), label), row.variant.clone());
            }
            Some(other) if *other != row.variant => row.warnings.push(format!(
                "{NOT_PACKED}variant `{other}` is already packed as `{label}` [ci.pack-label]"
            )),
            Some(_) => {}
        }
    }
}

/// Whether neither a cargo package nor `[pack]` gives the release a version.
#[must_use]
pub fn lacks_version(project: &Project) -> bool {
    project.file.binary.is_none() && project.file.pack.version.is_none()
}

/// The arguments of `gpubuild pack`: those of the row's build, what is packed, the label and the folder.
fn arguments(row: &CiRow, contents: &[&str], label: &str) -> Option<Vec<String>> {
    let build = row.run.first()?.iter().skip(1).map(String::as_str);
    let rest = contents.iter().copied().chain(["--label", label, "--out", FOLDER]);
    Some(std::iter::once("pack").chain(build).chain(rest).map(str::to_owned).collect())
}
