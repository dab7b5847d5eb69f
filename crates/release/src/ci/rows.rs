//! Derives the jobs of a matrix from variants and images. Each row is planned on its image like on any other machine; a row without a
//! plan is dropped and reported with the planner's reasons.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::VersionRequirement;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{Os, RecordedHost};
use gpubuild_plan::machine::{self, MachineState};
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request::{BackendRequest, BackendSelection};
use gpubuild_plan::planning::{self, PlanRequest};
use gpubuild_plan::project::Project;
use gpubuild_plan::project::variant::{self, VariantTable};
use serde::Serialize;

use super::image::{CiImage, Images, Setup};
use super::pack;
use super::row::{CiRow, RowCase, RowContext, row};
use super::test_row::{self, CiTestRow};

/// A row that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DroppedRow {
    /// The name of the row.
    pub name: String,
    /// The reasons, the root cause first; each line ends with the id of its finding.
    pub reasons: Vec<String>,
    /// Whether gpubuild.toml names the image or version, which makes the row an error in that file.
    pub named: bool,
}

/// All rows of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// The jobs, in the order of variants, images and versions in gpubuild.toml.
    pub include: Vec<CiRow>,
    /// The jobs that test packages of other jobs, in the order of gpubuild.toml.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tests: Vec<CiTestRow>,
    /// Rows that cannot be built.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub dropped: Vec<DroppedRow>,
}

/// An image with the setups of some backends, as examined.
struct ExaminedImage {
    host: RecordedHost,
    machine: MachineState,
}

/// The id of an image and the backends that are set up in it.
type ImageKey<'a> = (&'a str, Vec<Backend>);

/// Plans rows. Examines each image once per set of setups.
struct RowPlanner<'a> {
    context: &'a RowContext<'a>,
    /// The project without its variants and images: each row is planned with a copy, and plans depend on neither.
    project: Project,
    examined: RefCell<BTreeMap<ImageKey<'a>, Rc<ExaminedImage>>>,
}

impl<'a> RowPlanner<'a> {
    fn examine(&self, image: &'a CiImage, setups: &[&Setup]) -> Rc<ExaminedImage> {
        let key = (image.id.as_str(), setups.iter().map(|setup| setup.backend).collect());
        let examine = || {
            let host = self.context.images.host(image, setups);
            let machine = machine::inspect(&host, self.context.catalogue.clone());
            Rc::new(ExaminedImage { host, machine })
        };
        self.examined.borrow_mut().entry(key).or_insert_with(examine).clone()
    }
}

/// Creates the matrix of a project.
#[must_use]
pub fn rows(context: &RowContext<'_>) -> Rows {
    let planner =
        RowPlanner { context, project: without_variants(context.project), examined: RefCell::default() };
    let mut rows = Rows::default();
    let variants = variant::variants(context.project);
    for variant in &variants {
        let combinations = combinations(variant);
        for id in listed_once(&variant.name, &variant.images, &mut rows.dropped) {
            add_named(&planner, variant, id, &combinations, &mut rows);
        }
        if variant.images.is_empty() {
            for versions in &combinations {
                add_default(&planner, variant, versions, &mut rows);
            }
        }
    }
    drop_same_names(&mut rows);
    pack::assign(&mut rows, &variants, context.project);
    test_row::add(&mut rows, &variants, context.images);
    rows
}

/// The images without those that are listed again, which is an error in gpubuild.toml.
pub(super) fn listed_once<'a>(
    variant: &str,
    images: &'a [String],
    dropped: &mut Vec<DroppedRow>,
) -> Vec<&'a str> {
    let mut seen = BTreeMap::new();
    for image in images {
        *seen.entry(image.as_str()).or_insert(0) += 1;
    }
    dropped.extend(seen.iter().filter(|(_, count)| **count > 1).map(|(image, _)| DroppedRow {
        name: format!("{variant}-{image}"),
        reasons: vec!["the image is listed twice [ci.same-name]".to_owned()],
        named: true,
    }));
    images.iter().map(String::as_str).filter(|image| seen.remove(image).is_some()).collect()
}

fn without_variants(project: &Project) -> Project {
    let mut project = project.clone();
    project.file.variants = Vec::new();
    project.file.ci.images = BTreeMap::new();
    project
}

/// Drops rows with the name of an earlier row, which is an error in gpubuild.toml.
fn drop_same_names(rows: &mut Rows) {
    let mut seen = BTreeSet::new();
    let (unique, repeated): (Vec<CiRow>, Vec<CiRow>) =
        std::mem::take(&mut rows.include).into_iter().partition(|row| seen.insert(row.name.clone()));
    rows.include = unique;
    rows.dropped.extend(repeated.into_iter().map(|row| DroppedRow {
        reasons: vec!["a version is listed twice [ci.same-name]".to_owned()],
        name: row.name,
        named: true,
    }));
}

/// All combinations of one version per backend, in the order of gpubuild.toml.
fn combinations(variant: &VariantTable) -> Vec<BTreeMap<Backend, String>> {
    let mut all = vec![BTreeMap::new()];
    for (backend, versions) in variant.toolkits.iter().filter(|(_, versions)| !versions.is_empty()) {
        all = all
            .into_iter()
            .flat_map(|one: BTreeMap<Backend, String>| {
                versions.iter().map(move |version| {
                    let mut one = one.clone();
                    one.insert(*backend, version.clone());
                    one
                })
            })
            .collect();
    }
    all
}

/// Adds the rows for an image that gpubuild.toml names.
fn add_named<'a>(
    planner: &RowPlanner<'a>,
    variant: &'a VariantTable,
    id: &str,
    combinations: &[BTreeMap<Backend, String>],
    rows: &mut Rows,
) {
    let images = planner.context.images;
    let Some(image) = images.get(id) else {
        rows.dropped.push(unknown_image(&variant.name, id, images));
        return;
    };
    let case = |versions: &BTreeMap<Backend, String>| RowCase {
        variant,
        image,
        versions: versions.clone(),
        named: true,
    };
    let mut others = Vec::new();
    for case in combinations.iter().map(case) {
        match version_mismatch(&case) {
            Some(reason) => others.push((case.name(), reason)),
            None => match plan_row(planner, &case) {
                Ok(row) => rows.include.push(row),
                Err(dropped) => rows.dropped.push(dropped),
            },
        }
    }
    // If one of the listed versions is the container's, the other versions are valid for other images. Otherwise the image is an error.
    let has_match = others.len() < combinations.len();
    rows.dropped.extend(others.into_iter().map(|(name, reason)| DroppedRow {
        name,
        reasons: vec![reason],
        named: !has_match,
    }));
}

/// The row for an image that does not exist, which is an error in gpubuild.toml.
pub(super) fn unknown_image(variant: &str, id: &str, images: &Images) -> DroppedRow {
    let known: Vec<&str> = images.iter().map(|image| image.id.as_str()).collect();
    DroppedRow {
        name: format!("{variant}-{id}"),
        reasons: vec![format!(
            "unknown image `{id}`; known images are {} [ci.image-unknown]",
            known.join(", ")
        )],
        named: true,
    }
}

/// Adds the rows for the default images. If none of them works and a version is requested, uses the container with the newest matching
/// toolkit.
fn add_default<'a>(
    planner: &RowPlanner<'a>,
    variant: &'a VariantTable,
    versions: &BTreeMap<Backend, String>,
    rows: &mut Rows,
) {
    let case = |image: &'a CiImage| RowCase { variant, image, versions: versions.clone(), named: false };
    let mut included = Vec::new();
    let mut dropped = Vec::new();
    for image in planner.context.images.defaults(&variant.backends) {
        let case = case(image);
        let result = match version_mismatch(&case) {
            Some(reason) => Err(DroppedRow { name: case.name(), reasons: vec![reason], named: false }),
            None => plan_row(planner, &case),
        };
        match result {
            Ok(row) => included.push(row),
            Err(row) => dropped.push(row),
        }
    }
    if included.is_empty() {
        let with_toolkit = |image: &'a CiImage| {
            let holds = image.holds.as_ref().filter(|holds| versions.contains_key(&holds.backend))?;
            let case = case(image);
            version_mismatch(&case).is_none().then_some((&holds.version, case))
        };
        let mut containers: Vec<_> = planner.context.images.iter().filter_map(with_toolkit).collect();
        containers.sort_indirect_by(|left, right| right.0.cmp(left.0));
        included.extend(containers.iter().find_map(|(_, case)| plan_row(planner, case).ok()));
    }
    if included.is_empty() && versions.values().next().is_some() {
        // A requested version that no image provides is an error in gpubuild.toml.
        for row in &mut dropped {
            row.named = true;
        }
    }
    rows.include.append(&mut included);
    rows.dropped.append(&mut dropped);
}

/// Why the toolkit of a container does not match the requested version; `None` if it matches.
fn version_mismatch(case: &RowCase<'_>) -> Option<String> {
    let holds = case.image.holds.as_ref()?;
    let requested = case.versions.get(&holds.backend)?;
    let requirement: VersionRequirement = requested.parse().ok()?;
    (!requirement.holds(&holds.version)).then(|| {
        format!("its container has {} {}, not {requested} [ci.image-version]", holds.backend, holds.version)
    })
}

fn plan_row<'a>(planner: &RowPlanner<'a>, case: &RowCase<'a>) -> Result<CiRow, DroppedRow> {
    let (context, image) = (planner.context, case.image);
    let setups: Vec<&Setup> = case
        .variant
        .backends
        .iter()
        .filter(|backend| image.holds_for(**backend).is_none())
        .filter(|backend| !is_self_contained(context.project, **backend) || image.os == Some(Os::Linux))
        .filter_map(|backend| context.images.setup(image, *backend))
        .collect();
    let examined = planner.examine(image, &setups);
    let mut project = planner.project.clone();
    variant::apply(&mut project.file, case.variant);
    for (backend, version) in &case.versions {
        variant::require(&mut project.file, *backend, version);
    }
    let request = BackendRequest {
        selection: BackendSelection::Named(case.variant.backends.clone()),
        origin: format!("variant `{}`", case.variant.name),
        without: Vec::new(),
    };
    let plan_request = PlanRequest {
        host: &examined.host,
        machine: &examined.machine,
        project: &project,
        request: &request,
        linkage: project.file.project.linkage.unwrap_or_default(),
        missing: MissingBackend::Refuse,
        jobs: Some(image.cpus),
        cross: None,
        cuda_archs: None,
        native: project.file.project.native,
        provision: Some(context.locks),
    };
    let dropped = |reasons: Vec<String>| DroppedRow { name: case.name(), reasons, named: case.named };
    let plan = planning::plan(&plan_request).map_err(|refusal| {
        let line = |backend: Option<&Backend>, reason: &Reason| {
            backend.map_or_else(|| reason.line(), |backend| format!("{backend}: {}", reason.line()))
        };
        let blocked = refusal
            .blocked
            .iter()
            .filter_map(|(backend, reasons)| Some(line(Some(backend), reasons.first()?)));
        dropped(refusal.project.iter().map(|reason| line(None, reason)).chain(blocked).collect())
    })?;
    Ok(row(context, case, &setups, &plan))
}

fn is_self_contained(project: &Project, backend: Backend) -> bool {
    project.profile.backends.get(&backend).is_some_and(|row| row.self_contained)
}

/// Keeps only the jobs of these variants; all jobs if the set is empty.
#[must_use]
pub fn only(mut rows: Rows, variants: &BTreeSet<String>) -> Rows {
    if variants.is_empty() {
        return rows;
    }
    rows.include.retain(|row| variants.contains(&row.variant));
    test_row::retain(&mut rows);
    rows
}
