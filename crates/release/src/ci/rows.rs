//! Derives the jobs of a matrix from variants and images. Each row is planned on its image like on any other machine; a row without a
//! plan is reported with the planner's reasons.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::backend::Backend;
use gpubuild_core::version::VersionRequirement;
use gpubuild_detect::matrix::Reason;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::store::sha256;
use gpubuild_host::Os;
use gpubuild_plan::look;
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

/// A job that takes longer than this hangs, however little it has to do.
const LEAST_MINUTES: u64 = 20;

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CiRow {
    /// `cuda-ubuntu-24.04`, `cuda13.0-ubuntu-24.04`: its name everywhere.
    pub name: String,
    /// The variant that it builds.
    pub variant: String,
    /// Id of its image.
    pub image: String,
    /// `linux-x86_64`.
    pub platform: String,
    /// Label of the machine at GitHub, as `runs-on` takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// Container of the job; empty for none, as `container` takes it.
    pub container: String,
    /// The same at GitLab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<GitlabJob>,
    /// Backends, separated by commas.
    pub backends: String,
    /// Versions that were asked for, by backend.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub toolkits: BTreeMap<Backend, String>,
    /// The targets by backend in CMake's notation: `sm_90`, `compute_90`, `gfx942`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub archs: BTreeMap<Backend, String>,
    /// What a container lacks before gpubuild can be there.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub prepare: Vec<String>,
    /// What gives the image its backends.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub setup: Vec<String>,
    /// What gpubuild is called with, in this order.
    pub run: Vec<Vec<String>>,
    /// What gpubuild is called with to pack what was built; only where the project has a program, once for each label of a platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<Vec<String>>,
    /// Under which the build store is kept between runs.
    pub cache_key: String,
    /// What it takes.
    pub needs: RowNeeds,
    /// What may go wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub warnings: Vec<String>,
}

/// The place of a job at GitLab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GitlabJob {
    /// The container.
    pub image: String,
    /// Tag of the machine.
    pub tag: String,
}

/// What a job takes, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RowNeeds {
    /// Bytes that are fetched: wheels of toolkits.
    #[serde(skip_serializing_if = "is_zero")]
    pub download_bytes: u64,
    /// Bytes of disk for toolkits and containers.
    #[serde(skip_serializing_if = "is_zero")]
    pub disk_bytes: u64,
    /// Compilers at once that the memory of the machine is enough for.
    pub jobs: u32,
    /// Seconds of one core that a build from clean took where it was measured, for the backends of which that is known.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_seconds: u64,
    /// After how many minutes a job hangs: four times what it takes on these processors, at least 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_minutes: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// A row that there can't be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Impossible {
    /// Its name.
    pub name: String,
    /// Why, the root cause first; each line ends in the id of its finding.
    pub reasons: Vec<String>,
    /// Whether its image was named in gpubuild.toml: then it is a mistake there.
    pub named: bool,
}

/// All rows of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Rows {
    /// The jobs, in the order of variants, images and versions as they are written.
    pub include: Vec<CiRow>,
    /// What was left out.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub dropped: Vec<Impossible>,
}

/// What rows are made of.
#[derive(Clone, Copy)]
pub struct RowContext<'a> {
    /// The project.
    pub project: &'a Project,
    /// Descriptions of toolkits.
    pub catalogue: &'a Catalogue,
    /// Toolkits that can be installed.
    pub locks: &'a [WheelLock],
    /// What jobs run on.
    pub images: &'a Images,
}

/// A variant on an image with versions of toolkits.
struct RowCase<'a> {
    variant: &'a VariantTable,
    image: &'a CiImage,
    versions: BTreeMap<Backend, String>,
    named: bool,
}

impl RowCase<'_> {
    fn name(&self) -> String {
        let name = self.variant.label(&self.versions);
        // `rocm` in the container `rocm-7.0-ubuntu-24.04` does not say it twice.
        match self.image.id.strip_prefix(&name).filter(|rest| rest.starts_with('-')) {
            Some(_) => self.image.id.clone(),
            None => format!("{name}-{}", self.image.id),
        }
    }
}

/// Makes all rows.
#[must_use]
pub fn rows(scene: &RowContext<'_>) -> Rows {
    let mut rows = Rows::default();
    let variants = variant::variants(scene.project);
    for variant in &variants {
        let combinations = combinations(variant);
        for id in &variant.images {
            named(scene, variant, id, &combinations, &mut rows);
        }
        if variant.images.is_empty() {
            for versions in &combinations {
                unnamed(scene, variant, versions, &mut rows);
            }
        }
    }
    refuse_same_names(&mut rows);
    if scene.project.file.binary.is_some() {
        pack::assign(&mut rows, &variants);
    }
    rows
}

/// A job is called by its name: of two with one name the second is a mistake in the file.
fn refuse_same_names(rows: &mut Rows) {
    let mut seen = BTreeSet::new();
    let (first, again): (Vec<CiRow>, Vec<CiRow>) =
        std::mem::take(&mut rows.include).into_iter().partition(|row| seen.insert(row.name.clone()));
    rows.include = first;
    rows.dropped.extend(again.into_iter().map(|row| Impossible {
        reasons: vec!["an image or a version is listed twice [ci.same-name]".to_owned()],
        name: row.name,
        named: true,
    }));
}

/// Every choice of one version per backend, in the order in which they are written.
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

/// An image that gpubuild.toml names, with every version.
fn named(
    scene: &RowContext<'_>,
    variant: &VariantTable,
    id: &str,
    combinations: &[BTreeMap<Backend, String>],
    rows: &mut Rows,
) {
    let Some(image) = scene.images.get(id) else {
        let known: Vec<&str> = scene.images.iter().map(|image| image.id.as_str()).collect();
        rows.dropped.push(Impossible {
            name: format!("{}-{id}", variant.name),
            reasons: vec![format!("unknown image `{id}`; known are {} [ci.image-unknown]", known.join(", "))],
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
        match held_otherwise(&case) {
            Some(reason) => others.push((case.name(), reason)),
            None => match planned(scene, &case) {
                Ok(row) => rows.include.push(row),
                Err(impossible) => rows.dropped.push(impossible),
            },
        }
    }
    // If several versions are listed, one must be the container's; the others are valid. If none is, the image is wrong.
    let no_mistake = others.len() < combinations.len();
    rows.dropped.extend(others.into_iter().map(|(name, reason)| Impossible {
        name,
        reasons: vec![reason],
        named: !no_mistake,
    }));
}

/// The default machines; where none of them can do it and a version was asked for, the newest container that holds it.
fn unnamed<'a>(
    scene: &RowContext<'a>,
    variant: &'a VariantTable,
    versions: &BTreeMap<Backend, String>,
    rows: &mut Rows,
) {
    let case = |image: &'a CiImage| RowCase { variant, image, versions: versions.clone(), named: false };
    let mut made = Vec::new();
    let mut impossible = Vec::new();
    for image in scene.images.defaults(&variant.backends) {
        let case = case(image);
        let result = match held_otherwise(&case) {
            Some(reason) => Err(Impossible { name: case.name(), reasons: vec![reason], named: false }),
            None => planned(scene, &case),
        };
        match result {
            Ok(row) => made.push(row),
            Err(one) => impossible.push(one),
        }
    }
    if made.is_empty() {
        let held = |image: &'a CiImage| {
            let holds = image.holds.as_ref().filter(|holds| versions.contains_key(&holds.backend))?;
            let case = case(image);
            held_otherwise(&case).is_none().then_some((&holds.version, case))
        };
        let mut containers: Vec<_> = scene.images.iter().filter_map(held).collect();
        containers.sort_by(|left, right| right.0.cmp(left.0));
        made.extend(containers.iter().find_map(|(_, case)| planned(scene, case).ok()));
    }
    if made.is_empty() && versions.values().next().is_some() {
        // A version that was written down and that nothing offers is a mistake in the file.
        for one in &mut impossible {
            one.named = true;
        }
    }
    rows.include.append(&mut made);
    rows.dropped.append(&mut impossible);
}

/// Why a container with its own toolkit does not match a version.
fn held_otherwise(case: &RowCase<'_>) -> Option<String> {
    let holds = case.image.holds.as_ref()?;
    let asked = case.versions.get(&holds.backend)?;
    let requirement: VersionRequirement = asked.parse().ok()?;
    (!requirement.holds(&holds.version)).then(|| {
        format!("its container holds {} {}, not {asked} [ci.image-version]", holds.backend, holds.version)
    })
}

fn planned(scene: &RowContext<'_>, case: &RowCase<'_>) -> Result<CiRow, Impossible> {
    let image = case.image;
    let setups: Vec<&Setup> = case
        .variant
        .backends
        .iter()
        .filter(|backend| image.holds_for(**backend).is_none())
        .filter(|backend| !is_self_contained(scene.project, **backend) || image.os == Some(Os::Linux))
        .filter_map(|backend| scene.images.setup(image, *backend))
        .collect();
    let host = scene.images.host(image, &setups);
    let sight = look::look(&host, scene.catalogue.clone());
    let mut project = scene.project.clone();
    variant::apply(&mut project.file, case.variant);
    for (backend, version) in &case.versions {
        variant::require(&mut project.file, *backend, version);
    }
    let request = BackendRequest {
        selection: BackendSelection::Named(case.variant.backends.clone()),
        origin: format!("variant `{}`", case.variant.name),
        without: Vec::new(),
    };
    let wish = PlanRequest {
        host: &host,
        sight: &sight,
        project: &project,
        request: &request,
        linkage: project.file.project.linkage.unwrap_or_default(),
        missing: MissingBackend::Refuse,
        jobs: Some(image.cpus),
        cuda_archs: None,
        native: project.file.project.native,
        provision: Some(scene.locks),
    };
    let impossible = |reasons: Vec<String>| Impossible { name: case.name(), reasons, named: case.named };
    let plan = planning::plan(&wish).map_err(|refusal| {
        let line = |backend: Option<&Backend>, reason: &Reason| {
            backend.map_or_else(|| reason.line(), |backend| format!("{backend}: {}", reason.line()))
        };
        let blocked = refusal
            .blocked
            .iter()
            .filter_map(|(backend, reasons)| Some(line(Some(backend), reasons.first()?)));
        impossible(refusal.project.iter().map(|reason| line(None, reason)).chain(blocked).collect())
    })?;
    Ok(row(scene, case, &setups, &plan))
}

fn is_self_contained(project: &Project, backend: Backend) -> bool {
    project.profile.backends.get(&backend).is_some_and(|row| row.self_contained)
}

fn row(scene: &RowContext<'_>, case: &RowCase<'_>, setups: &[&Setup], plan: &Plan) -> CiRow {
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
    let needs = needs(scene, image, plan);
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
        prepare: scene.images.prepare(image).to_vec(),
        setup,
        run: commands(scene, case, setups, plan),
        pack: None,
        cache_key: format!("gpubuild-{}-{name}-{}", env!("CARGO_PKG_VERSION"), &sha256(key.as_bytes())[..12]),
        warnings: warnings(image, &needs),
        needs,
        name,
    }
}

/// The commands of a row. They also work on any other machine.
fn commands(scene: &RowContext<'_>, case: &RowCase<'_>, setups: &[&Setup], plan: &Plan) -> Vec<Vec<String>> {
    let mut build = vec!["build".to_owned(), "--variant".to_owned(), case.variant.name.clone()];
    for (backend, version) in &case.versions {
        build.extend(["--toolkit".to_owned(), format!("{backend}={version}")]);
    }
    if !plan.provision.is_empty() {
        build.push("--provision".to_owned());
    }
    let mut all = vec![build];
    // What runs without a GPU is compared with the reference: the processor, and what runs on it.
    let runs = |backend: &&Backend| {
        **backend == Backend::Cpu || setups.iter().any(|setup| setup.backend == **backend && setup.runs)
    };
    let tested: Vec<&str> = case.variant.backends.iter().filter(runs).map(|backend| backend.id()).collect();
    if scene.project.profile.tests.is_some() && !tested.is_empty() {
        all.push(vec!["test".to_owned(), "--backends".to_owned(), tested.join(",")]);
    }
    all
}

/// Architectures as the plan passes them to CMake.
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

fn needs(scene: &RowContext<'_>, image: &CiImage, plan: &Plan) -> RowNeeds {
    let download_bytes = plan.provision.iter().map(|one| one.download_bytes).sum();
    let container = image.unpacked.as_deref().and_then(bytes::parse).unwrap_or_default();
    let cpu_seconds = cost(scene, plan);
    let minutes = cpu_seconds.div_ceil(60 * u64::from(image.cpus.max(1)));
    RowNeeds {
        download_bytes,
        disk_bytes: provision::disk_bytes(&plan.provision) + container,
        jobs: plan.trees.iter().map(|tree| tree.jobs.total).max().unwrap_or_default(),
        cpu_seconds,
        timeout_minutes: (cpu_seconds > 0).then(|| (4 * minutes).max(LEAST_MINUTES)),
    }
}

/// Seconds of one core, if they are known for every backend of the plan.
fn cost(scene: &RowContext<'_>, plan: &Plan) -> u64 {
    let archs = archs(plan);
    let of = |backend: &Backend| {
        let cost = scene.project.profile.backends.get(backend)?.cost?;
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
                "toolkits take {} of disk, and the machine promises {} [disk.full]",
                bytes::show(needs.disk_bytes),
                bytes::show(disk)
            )
        })
        .into_iter()
        .collect()
}

/// Keeps the rows of the variants that a change affects; other rows become no jobs.
#[must_use]
pub fn only(rows: Rows, variants: &BTreeSet<String>) -> Rows {
    if variants.is_empty() {
        return rows;
    }
    Rows { include: rows.include.into_iter().filter(|row| variants.contains(&row.variant)).collect(), ..rows }
}
