//! Derives the jobs of a matrix from variants and images. Each row is planned on its image like on any other machine; a row without a
//! plan is dropped and reported with the planner's reasons.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::VersionRequirement;
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::store::sha256;
use gpubuild_host::Os;
use gpubuild_plan::machine;
use gpubuild_plan::plan::make::MissingBackend;
use gpubuild_plan::plan::request::{BackendRequest, BackendSelection};
use gpubuild_plan::plan::{Plan, bytes};
use gpubuild_plan::planning::{self, PlanRequest};
use gpubuild_plan::project::Project;
use gpubuild_plan::project::variant::{self, VariantTable};
use gpubuild_plan::wheels::WheelLock;
use gpubuild_toolchain::provision;
use serde::Serialize;

use super::image::{CiImage, Images, Setup};
use super::pack;

/// The minimum time limit of a job.
const MIN_TIMEOUT_MINUTES: u64 = 20;

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CiRow {
    /// The unique name: `cuda-ubuntu-24.04`, `cuda13.0-ubuntu-24.04`.
    pub name: String,
    /// The variant to build.
    pub variant: String,
    /// The id of the image.
    pub image: String,
    /// The platform, `linux-x86_64`.
    pub platform: String,
    /// The GitHub runner, for `runs-on`; `None` if GitHub has no such runner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// The container of the job, for `container`; empty if the job runs on the machine itself.
    pub container: String,
    /// The job at GitLab; `None` if GitLab has no such machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<GitlabJob>,
    /// The backends, separated by commas.
    pub backends: String,
    /// The requested toolkit versions by backend.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub toolkits: BTreeMap<Backend, String>,
    /// The architectures by backend, in CMake's notation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub archs: BTreeMap<Backend, String>,
    /// Commands that prepare a container for the installation of gpubuild.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub prepare: Vec<String>,
    /// Commands that install what the backends need.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub setup: Vec<String>,
    /// The arguments of each gpubuild call, in order.
    pub run: Vec<Vec<String>>,
    /// The arguments of `gpubuild pack`; `None` if the project has no program or another row of the platform packs the same label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<Vec<String>>,
    /// The key under which the CI service caches the build store.
    pub cache_key: String,
    /// The resources that the job needs.
    pub needs: RowNeeds,
    /// Warnings about the job.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub warnings: Vec<String>,
}

/// The container and machine of a job at GitLab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GitlabJob {
    /// The container.
    pub image: String,
    /// The tag of the machine.
    pub tag: String,
}

/// The known resource needs of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RowNeeds {
    /// The download size of toolkits in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub download_bytes: u64,
    /// The disk space for toolkits and the container in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub disk_bytes: u64,
    /// The number of parallel compiler processes that fit into the machine's memory.
    pub jobs: u32,
    /// The CPU time of a clean build in seconds, if it was measured for all backends; otherwise 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_seconds: u64,
    /// The time limit in minutes: four times the expected time, and at least 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_minutes: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

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
    /// Rows that cannot be built.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub dropped: Vec<DroppedRow>,
}

/// The inputs of a matrix.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    /// The project.
    pub project: &'a Project,
    /// The descriptions of toolkits.
    pub catalogue: &'a Catalogue,
    /// The locks of toolkits that can be installed.
    pub locks: &'a [WheelLock],
    /// The machines and containers on which jobs can run.
    pub images: &'a Images,
}

/// A variant on an image, with requested toolkit versions.
struct RowCase<'a> {
    variant: &'a VariantTable,
    image: &'a CiImage,
    versions: BTreeMap<Backend, String>,
    named: bool,
}

impl RowCase<'_> {
    fn name(&self) -> String {
        let name = self.variant.label(&self.versions);
        // `rocm` on the image `rocm-7.0-ubuntu-24.04` is named like the image, without a repeated prefix.
        match self.image.id.strip_prefix(&name).filter(|rest| rest.starts_with('-')) {
            Some(_) => self.image.id.clone(),
            None => format!("{name}-{}", self.image.id),
        }
    }
}

/// Creates the matrix of a project.
#[must_use]
pub fn rows(context: &RowContext<'_>) -> Rows {
    let mut rows = Rows::default();
    let variants = variant::variants(context.project);
    for variant in &variants {
        let combinations = combinations(variant);
        for id in &variant.images {
            add_named(context, variant, id, &combinations, &mut rows);
        }
        if variant.images.is_empty() {
            for versions in &combinations {
                add_default(context, variant, versions, &mut rows);
            }
        }
    }
    drop_same_names(&mut rows);
    if context.project.file.binary.is_some() {
        pack::assign(&mut rows, &variants);
    }
    rows
}

/// Drops rows with the name of an earlier row, which is an error in gpubuild.toml.
fn drop_same_names(rows: &mut Rows) {
    let mut seen = BTreeSet::new();
    let (unique, repeated): (Vec<CiRow>, Vec<CiRow>) =
        std::mem::take(&mut rows.include).into_iter().partition(|row| seen.insert(row.name.clone()));
    rows.include = unique;
    rows.dropped.extend(repeated.into_iter().map(|row| DroppedRow {
        reasons: vec!["an image or a version is listed twice [ci.same-name]".to_owned()],
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
fn add_named(
    context: &RowContext<'_>,
    variant: &VariantTable,
    id: &str,
    combinations: &[BTreeMap<Backend, String>],
    rows: &mut Rows,
) {
    let Some(image) = context.images.get(id) else {
        let known: Vec<&str> = context.images.iter().map(|image| image.id.as_str()).collect();
        rows.dropped.push(DroppedRow {
            name: format!("{}-{id}", variant.name),
            reasons: vec![format!(
                "unknown image `{id}`; known images are {} [ci.image-unknown]",
                known.join(", ")
            )],
            named: true,
        });
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
            None => match plan_row(context, &case) {
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

/// Adds the rows for the default images. If none of them works and a version is requested, uses the container with the newest matching
/// toolkit.
fn add_default<'a>(
    context: &RowContext<'a>,
    variant: &'a VariantTable,
    versions: &BTreeMap<Backend, String>,
    rows: &mut Rows,
) {
    let case = |image: &'a CiImage| RowCase { variant, image, versions: versions.clone(), named: false };
    let mut planned = Vec::new();
    let mut dropped = Vec::new();
    for image in context.images.defaults(&variant.backends) {
        let case = case(image);
        let result = match version_mismatch(&case) {
            Some(reason) => Err(DroppedRow { name: case.name(), reasons: vec![reason], named: false }),
            None => plan_row(context, &case),
        };
        match result {
            Ok(row) => planned.push(row),
            Err(row) => dropped.push(row),
        }
    }
    if planned.is_empty() {
        let with_toolkit = |image: &'a CiImage| {
            let holds = image.holds.as_ref().filter(|holds| versions.contains_key(&holds.backend))?;
            let case = case(image);
            version_mismatch(&case).is_none().then_some((&holds.version, case))
        };
        let mut containers: Vec<_> = context.images.iter().filter_map(with_toolkit).collect();
        containers.sort_by(|left, right| right.0.cmp(left.0));
        planned.extend(containers.iter().find_map(|(_, case)| plan_row(context, case).ok()));
    }
    if planned.is_empty() && versions.values().next().is_some() {
        // A requested version that no image provides is an error in gpubuild.toml.
        for row in &mut dropped {
            row.named = true;
        }
    }
    rows.include.append(&mut planned);
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

fn plan_row(context: &RowContext<'_>, case: &RowCase<'_>) -> Result<CiRow, DroppedRow> {
    let image = case.image;
    let setups: Vec<&Setup> = case
        .variant
        .backends
        .iter()
        .filter(|backend| image.holds_for(**backend).is_none())
        .filter(|backend| !is_self_contained(context.project, **backend) || image.os == Some(Os::Linux))
        .filter_map(|backend| context.images.setup(image, *backend))
        .collect();
    let host = context.images.host(image, &setups);
    let machine = machine::inspect(&host, context.catalogue.clone());
    let mut project = context.project.clone();
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
        host: &host,
        machine: &machine,
        project: &project,
        request: &request,
        linkage: project.file.project.linkage.unwrap_or_default(),
        missing: MissingBackend::Refuse,
        jobs: Some(image.cpus),
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

fn row(context: &RowContext<'_>, case: &RowCase<'_>, setups: &[&Setup], plan: &Plan) -> CiRow {
    let (image, variant) = (case.image, case.variant);
    let mut setup: Vec<String> = Vec::new();
    for line in setups.iter().flat_map(|setup| setup.commands(image)) {
        if !setup.contains(&line) {
            setup.push(line);
        }
    }
    let backends = variant.backends.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(",");
    let archs = archs(plan);
    let name = case.name();
    let needs = needs(context, image, plan);
    let key = format!("{name}\0{backends}\0{:?}\0{archs:?}\0{setup:?}\0{:?}", case.versions, image.container);
    CiRow {
        variant: variant.name.clone(),
        image: image.id.clone(),
        platform: image.platform(),
        os: image.runner().map(str::to_owned),
        container: image.container.clone().unwrap_or_default(),
        gitlab: image.gitlab().map(|(image, tag)| GitlabJob { image: image.to_owned(), tag: tag.to_owned() }),
        backends,
        toolkits: case.versions.clone(),
        archs,
        prepare: context.images.prepare(image).to_vec(),
        setup,
        run: commands(context, case, setups, plan),
        pack: None,
        cache_key: format!("gpubuild-{}-{name}-{}", env!("CARGO_PKG_VERSION"), &sha256(key.as_bytes())[..12]),
        warnings: warnings(image, &needs),
        needs,
        name,
    }
}

/// The gpubuild calls of a row. They do not depend on the CI service.
fn commands(
    context: &RowContext<'_>,
    case: &RowCase<'_>,
    setups: &[&Setup],
    plan: &Plan,
) -> Vec<Vec<String>> {
    let mut build = vec!["build".to_owned(), "--variant".to_owned(), case.variant.name.clone()];
    for (backend, version) in &case.versions {
        build.extend(["--toolkit".to_owned(), format!("{backend}={version}")]);
    }
    if !plan.provision.is_empty() {
        build.push("--provision".to_owned());
    }
    let mut all = vec![build];
    // Test the backends that run without a GPU: the CPU, and backends whose setup provides a software device.
    let runs_without_gpu = |backend: &&Backend| {
        **backend == Backend::Cpu || setups.iter().any(|setup| setup.backend == **backend && setup.runs)
    };
    let tested: Vec<&str> =
        case.variant.backends.iter().filter(runs_without_gpu).map(|backend| backend.id()).collect();
    if context.project.profile.tests.is_some() && !tested.is_empty() {
        all.push(vec!["test".to_owned(), "--backends".to_owned(), tested.join(",")]);
    }
    all
}

/// The architectures by backend, as the plan passes them to CMake.
fn archs(plan: &Plan) -> BTreeMap<Backend, String> {
    let mut archs = BTreeMap::new();
    for tree in &plan.trees {
        for (backend, entry) in
            [(Backend::Cuda, "CMAKE_CUDA_ARCHITECTURES"), (Backend::Rocm, "CMAKE_HIP_ARCHITECTURES")]
        {
            if let (true, Some(list)) = (tree.backends.contains(&backend), tree.cache.get(entry)) {
                archs.insert(backend, list.clone());
            }
        }
    }
    archs
}

fn needs(context: &RowContext<'_>, image: &CiImage, plan: &Plan) -> RowNeeds {
    let download_bytes = plan.provision.iter().map(|one| one.download_bytes).sum();
    let container = image.unpacked.as_deref().and_then(bytes::parse).unwrap_or_default();
    let cpu_seconds = cost(context, plan);
    let minutes = cpu_seconds.div_ceil(60 * u64::from(image.cpus.max(1)));
    RowNeeds {
        download_bytes,
        disk_bytes: provision::disk_bytes(&plan.provision) + container,
        jobs: plan.trees.iter().map(|tree| tree.jobs.total).max().unwrap_or_default(),
        cpu_seconds,
        timeout_minutes: (cpu_seconds > 0).then(|| (4 * minutes).max(MIN_TIMEOUT_MINUTES)),
    }
}

/// The CPU time of the plan in seconds; 0 unless it is known for every backend.
fn cost(context: &RowContext<'_>, plan: &Plan) -> u64 {
    let archs = archs(plan);
    let of = |backend: &Backend| {
        let cost = context.project.profile.backends.get(backend)?.cost?;
        let count = archs.get(backend).map_or(0, |list| list.split(';').count() as u64);
        Some(cost.seconds + cost.per_arch * count)
    };
    plan.backends.iter().map(of).sum::<Option<u64>>().unwrap_or_default()
}

fn warnings(image: &CiImage, needs: &RowNeeds) -> Vec<String> {
    let disk = bytes::parse(&image.disk).unwrap_or(u64::MAX);
    let short = needs.disk_bytes > disk;
    short
        .then(|| {
            format!(
                "toolkits need {} of disk space, but the machine has {} [disk.full]",
                bytes::show(needs.disk_bytes),
                bytes::show(disk)
            )
        })
        .into_iter()
        .collect()
}

/// Keeps only the jobs of these variants; all jobs if the set is empty.
#[must_use]
pub fn only(rows: Rows, variants: &BTreeSet<String>) -> Rows {
    if variants.is_empty() {
        return rows;
    }
    Rows { include: rows.include.into_iter().filter(|row| variants.contains(&row.variant)).collect(), ..rows }
}
