//! Which rows pack, and under which label: a release has each label once on each platform.

use std::collections::BTreeMap;

use gpubuild_plan::project::variant::{MOST_CHARACTERS, VariantTable};

use super::rows::{CiRow, Rows};
use crate::manifest;

/// How a warning begins that says why a row packs nothing.
pub const NOT_PACKED: &str = "not packed: ";

/// The folder that a packing job leaves.
pub const FOLDER: &str = "release";

/// Gives each label of each platform to the first row that has it: the image that is written first, so that of several
/// systems the project chooses the one whose C library its release needs.
pub fn assign(rows: &mut Rows, variants: &[VariantTable]) {
    let mut taken: BTreeMap<(String, String), String> = BTreeMap::new();
    for row in &mut rows.include {
        let Some(variant) = variants.iter().find(|variant| variant.name == row.variant) else { continue };
        let label = variant.label(&row.toolkits);
        if !manifest::is_label(&label) {
            row.warnings.push(format!(
                "{NOT_PACKED}`{label}` is no label of a release, which is up to {MOST_CHARACTERS} of a to z, digits, `_` and `.`; \
                 a shorter name, or one that ends in its backend, makes one [ci.pack-label]"
            ));
            continue;
        }
        match taken.get(&(row.platform.clone(), label.clone())) {
            None => {
                row.pack = arguments(row, &label);
                taken.insert((row.platform.clone(), label), row.variant.clone());
            }
            Some(other) if *other != row.variant => row.warnings.push(format!(
                "{NOT_PACKED}variant `{other}` is packed as `{label}` already [ci.pack-label]"
            )),
            Some(_) => {}
        }
    }
}

/// The build of a row with what makes a release of it.
fn arguments(row: &CiRow, label: &str) -> Option<Vec<String>> {
    let build = row.run.first()?.iter().skip(1).map(String::as_str);
    let words = std::iter::once("pack").chain(build).chain(["--label", label, "--out", FOLDER]);
    Some(words.map(str::to_owned).collect())
}
