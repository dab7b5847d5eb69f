//! A job of a matrix: what it runs and needs, derived from a plan.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::store::sha256;
use gpubuild_plan::plan::jobs::memory_per_device_job;
use gpubuild_plan::plan::{Plan, PlannedTree, bytes};
use gpubuild_plan::project::Project;
use gpubuild_plan::project::variant::VariantTable;
use gpubuild_plan::wheels::WheelLock;
use gpubuild_toolchain::provision;
use serde::Serialize;

use super::image::{CiImage, Images, Setup};

/// The minimum time limit of a job.
pub(super) const MIN_TIMEOUT_MINUTES: u64 = 20;

/// The memory that is assumed for a compiler of the host. It is not measured: a C++ compiler rarely takes more.
pub const HOST_COMPILER_BYTES: u64 = 1 << 30;

/// A job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
    /// All labels of the runner, if it has several.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub labels: Vec<String>,
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
    /// The arguments of `gpubuild pack`; `None` if the project packs nothing or another row of the platform packs the same label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pack: Option<Vec<String>>,
    /// A hash of the plan, which detects changes of options.
    #[serde(skip)]
    pub plan_hash: String,
    /// Whether it starts after the rows without this mark: `--changed-first` sets it for rows without changes.
    #[serde(skip)]
    pub is_last: bool,
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
    /// An estimate of the memory in bytes: 1 GiB for each compiler, or what `[limits]`, the profile or a default
    /// of 2 GiB says for each CUDA and HIP compiler, whichever sum is larger.
    pub memory_bytes: u64,
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
pub(super) struct RowCase<'a> {
    pub variant: &'a VariantTable,
    pub image: &'a CiImage,
    pub versions: BTreeMap<Backend, String>,
    pub named: bool,
}

impl RowCase<'_> {
    pub(super) fn name(&self) -> String {
        let name = self.variant.label(&self.versions);
        // `rocm` on the image `rocm-7.0-ubuntu-24.04` is named like the image, without a repeated prefix.
        match self.image.id.strip_prefix(&name).filter(|rest| rest.starts_with('-')) {
            Some(_) => self.image.id.clone(),
            None => format!("{name}-{}", self.image.id),
        }
    }
}

pub(super) fn row(context: &RowContext<'_>, case: &RowCase<'_>, setups: &[&Setup], plan: &Plan) -> CiRow {
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
        labels: if image.labels.len() > 1 { image.labels.clone() } else { Vec::new() },
        container: image.container.clone().unwrap_or_default(),
        gitlab: image.gitlab().map(|(image, tag)| GitlabJob { image: image.to_owned(), tag: tag.to_owned() }),
        backends,
        toolkits: case.versions.clone(),
        archs,
        prepare: context.images.prepare(image).to_vec(),
        setup,
        run: commands(context, case, setups, plan),
        pack: None,
        plan_hash: sha256(format!("{plan:?}").as_bytes()),
        is_last: false,
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
        memory_bytes: memory(context.project, plan),
        cpu_seconds,
        timeout_minutes: (cpu_seconds > 0).then(|| (4 * minutes).max(MIN_TIMEOUT_MINUTES)),
    }
}

/// The estimated memory of the tree that takes most. Trees are built one after the other with the same limits.
fn memory(project: &Project, plan: &Plan) -> u64 {
    let each = memory_per_device_job(project);
    let of = |tree: &PlannedTree| {
        let compiles_for_devices =
            tree.backends.iter().any(|backend| matches!(backend, Backend::Cuda | Backend::Rocm));
        let device = if compiles_for_devices { u64::from(tree.jobs.device) * each } else { 0 };
        device.max(u64::from(tree.jobs.total) * HOST_COMPILER_BYTES)
    };
    plan.trees.iter().map(of).max().unwrap_or(HOST_COMPILER_BYTES)
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
