//! Plans the CMake trees with all their cache entries.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::arch::cmake_list;
use gpubuild_core::arch::torch::torch_list;
use gpubuild_core::backend::Backend;
use gpubuild_core::version::VersionRequirement;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::Os;

use super::archs::{self, ArchPlan, ArchSelection};
use super::entries::{CacheEntries, entries};
use super::groups::TreePart;
use super::make::{BuildKit, HostCompiler, PlanInputs, Remarks, is_self_contained};
use super::{Jobs, PlannedTree, Shim, linkage, msvc};
use crate::project::profile::ShimRow;
use crate::project::{BuiltWith, Linkage};
use crate::target::HOST_COMPILER_VARIABLES;

type Blocked = (Backend, Vec<Reason>);
/// Cache entries or variables by name.
type Entries = BTreeMap<String, String>;

/// Divides the backends into trees and computes the cache entries of each.
pub(super) fn group(
    inputs: &PlanInputs<'_>,
    backends: &[Backend],
    extra: &[String],
    named: &BTreeSet<Backend>,
    jobs: &Jobs,
    remarks: &mut Remarks,
) -> Result<Vec<PlannedTree>, Blocked> {
    let parts = super::groups::divide(inputs, backends);
    let mut trees = Vec::new();
    for part in &parts {
        if let (Some(why), false) = (&part.why, trees.is_empty()) {
            remarks.notes.push(format!("{} has a separate CMake tree: {why}", part.id));
        }
        // Extra backends are built with the base libraries.
        let extra = if trees.is_empty() { extra } else { &[] };
        trees.push(tree(inputs, (part, extra), named, jobs, remarks)?);
    }
    if inputs.linkage == Linkage::Dynamic {
        remarks.notes.push(
            "backends are built as modules: the program loads them from its own folder at run time"
                .to_owned(),
        );
    }
    Ok(trees)
}

/// The entry that is a list: each toolkit adds its folder, after those of gpubuild.toml.
const PREFIX_PATH: &str = "CMAKE_PREFIX_PATH";

fn tree(
    inputs: &PlanInputs<'_>,
    (part, extra): (&TreePart, &[String]),
    named: &BTreeSet<Backend>,
    jobs: &Jobs,
    remarks: &mut Remarks,
) -> Result<PlannedTree, Blocked> {
    let (project, backends) = (inputs.project, part.backends.as_slice());
    let requirement = part.requirement.as_deref();
    let mut entries = entries(inputs, part, extra);
    let mut cache = common(inputs);
    let (of_msvc, in_prompt) = msvc::settings(inputs);
    cache.extend(of_msvc);
    cache.extend(linkage::entries(inputs, part));
    let mut prefixes: Vec<String> = entries.cache.get(PREFIX_PATH).cloned().into_iter().collect();
    for backend in backends {
        let settings =
            settings(inputs, *backend, requirement, remarks).map_err(|reasons| (*backend, reasons))?;
        prefixes.extend(settings.get(PREFIX_PATH).filter(|one| !prefixes.contains(one)).cloned());
        cache.extend(settings);
    }
    let (located, mut env) = built_with(inputs, backends, requirement)?;
    env.extend(in_prompt);
    entries.may_be_unknown.extend(located.keys().cloned());
    cache.extend(located);
    // PyTorch reads the architectures of ROCm from a variable only.
    if let (Some(name), Some(list)) =
        (&project.profile.rocm_arch_variable, cache.get("CMAKE_HIP_ARCHITECTURES"))
    {
        env.insert(name.clone(), list.clone());
    }
    // Options of gpubuild.toml have precedence over those of toolkits.
    cache.append(&mut entries.cache);
    if !prefixes.is_empty() {
        cache.insert(PREFIX_PATH.to_owned(), prefixes.join(";"));
    }
    let (targets, choices) = CacheEntries::split_targets(entries.targets);
    Ok(PlannedTree {
        farms: BTreeMap::new(),
        build: project.build_root.join(&part.id),
        id: part.id.clone(),
        backends: backends.to_vec(),
        generator: "Ninja".to_owned(),
        source: project.copy().map_or_else(|| project.source.clone(), |copy| copy.to),
        cache,
        targets,
        choices,
        linkage: inputs.linkage,
        modules: entries.modules,
        folder: part.folder.clone(),
        apart: part.why.clone(),
        extra: extra.to_vec(),
        target: None,
        may_be_unknown: entries.may_be_unknown,
        abi: project.profile.abi.clone(),
        shims: shims(inputs, part, &mut remarks.notes),
        env,
        jobs: jobs.clone(),
        named: backends.iter().copied().filter(|backend| named.contains(backend)).collect(),
    })
}

/// The cache entries of every tree.
fn common(inputs: &PlanInputs<'_>) -> BTreeMap<String, String> {
    let mut cache = BTreeMap::from(
        [("CMAKE_BUILD_TYPE", "Release"), ("CMAKE_POSITION_INDEPENDENT_CODE", "ON")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if let Some(ninja) = &inputs.tools.ninja {
        cache.insert("CMAKE_MAKE_PROGRAM".to_owned(), ninja.forward_slashes());
    }
    // CMake itself finds Apple's compilers through xcrun, and Microsoft's in a developer prompt.
    if inputs.facts.platform.os == Os::Linux
        && inputs.env.get("CC").is_none()
        && inputs.env.get("CXX").is_none()
        && let Some(compiler) = inputs.compilers.first()
    {
        let entries = [("CMAKE_C_COMPILER", &compiler.c), ("CMAKE_CXX_COMPILER", &compiler.cxx)];
        for (name, path) in entries {
            if let Some(path) = path {
                cache.insert(name.to_owned(), path.forward_slashes());
            }
        }
    }
    cache
}

/// The cache entries for a backend's toolkit and architectures.
fn settings(
    inputs: &PlanInputs<'_>,
    backend: Backend,
    requirement: Option<&str>,
    remarks: &mut Remarks,
) -> Result<BTreeMap<String, String>, Vec<Reason>> {
    if is_self_contained(inputs, backend) {
        return Ok(BTreeMap::new());
    }
    let Some(kit) = kit(inputs, backend, requirement)? else { return Ok(BTreeMap::new()) };
    let mut cache = kit.settings.clone();
    let of_project = Some(&inputs.project.file);
    let own = inputs.project.file.backends.get(&backend).and_then(|table| table.archs.as_ref());
    match backend {
        Backend::Cuda => {
            let selection = ArchSelection::cuda(inputs.cuda_archs, inputs.env, of_project);
            remarks.notes.extend(selection.note(own).map(|note| format!("cuda: {note}")));
            let devices: Vec<_> = inputs
                .matrix
                .verdict(backend)
                .devices
                .iter()
                .filter_map(|gpu| gpu.arch.as_deref()?.parse().ok())
                .collect();
            let plan = archs::cuda(&selection, &devices, &kit.archs, &kit.default_cuda)
                .map_err(|reason| vec![reason])?;
            remarks.notes.extend(plan.notes.iter().map(|note| format!("cuda: {note}")));
            remarks.warnings.extend(plan.warnings.iter().map(|warning| format!("cuda: {}", warning.line())));
            let rule = inputs.project.profile.backends.get(&backend).and_then(|row| row.arch_suffix.as_ref());
            let (list, changed) = archs::with_suffix(plan.list, rule);
            remarks.notes.extend(
                changed.map(|changed| format!("cuda: {} builds {changed}", inputs.project.profile.name)),
            );
            cache.insert("CMAKE_CUDA_ARCHITECTURES".to_owned(), cmake_list(&list));
            let entry = inputs.project.profile.cuda_arch_list.as_ref();
            cache.extend(entry.map(|name| (name.clone(), torch_list(&archs::joined(&list)))));
            if let Some((name, value)) = named_host_compiler(inputs) {
                remarks.notes.push(format!("cuda: {name} sets the host compiler to `{value}`"));
            }
            cache.extend(host_compiler_entry(inputs, kit));
        }
        Backend::Rocm => {
            let selection = ArchSelection::rocm(inputs.env, of_project);
            remarks.notes.extend(selection.note(own).map(|note| format!("rocm: {note}")));
            let plan = rocm_archs(inputs, kit).map_err(|reason| vec![reason])?;
            remarks.notes.extend(plan.notes.iter().map(|note| format!("rocm: {note}")));
            cache.insert("CMAKE_HIP_ARCHITECTURES".to_owned(), cmake_list(&plan.list));
        }
        _ => {}
    }
    Ok(cache)
}

/// The architectures for ROCm.
fn rocm_archs(inputs: &PlanInputs<'_>, kit: &BuildKit) -> Result<ArchPlan<String>, Reason> {
    let selection = ArchSelection::rocm(inputs.env, Some(&inputs.project.file));
    let devices: Vec<String> =
        inputs.matrix.verdict(Backend::Rocm).devices.iter().filter_map(|gpu| gpu.arch.clone()).collect();
    archs::rocm(&selection, &devices, &kit.default_gfx)
}

/// The cache entries and variables for the toolkits that the project's CMake packages were built with. Those packages look for them also
/// in trees of other backends.
fn built_with(
    inputs: &PlanInputs<'_>,
    backends: &[Backend],
    requirement: Option<&str>,
) -> Result<(Entries, Entries), Blocked> {
    let (mut cache, mut env) = (Entries::new(), Entries::new());
    for package in &inputs.project.built_with {
        let is_own = backends.contains(&package.backend);
        let found = kit(inputs, package.backend, requirement.filter(|_| is_own));
        let Some(kit) = found.map_err(|reasons| (backends[0], reasons))? else {
            return Err((backends[0], vec![missing(package)]));
        };
        if !is_own {
            cache.extend(kit.settings.clone());
            match package.backend {
                Backend::Cuda => cache.extend(host_compiler_entry(inputs, kit)),
                Backend::Rocm => {
                    let list = rocm_archs(inputs, kit).map_err(|reason| (backends[0], vec![reason]))?.list;
                    cache.insert("CMAKE_HIP_ARCHITECTURES".to_owned(), cmake_list(&list));
                }
                _ => {}
            }
        }
        cache.extend(package.entries(&kit.installation.root));
        env.extend(package.variables(&kit.installation.root));
    }
    Ok((cache, env))
}

/// The reason if the toolkit that a package was built with is missing.
fn missing(package: &BuiltWith) -> Reason {
    let (backend, version) = (package.backend, &package.version);
    Reason::new(
        id!("toolkit.of-package-missing"),
        format!(
            "`{}` was built with {backend} {version}, and its CMake files look for that toolkit, also for code without {backend}",
            package.package
        ),
    )
    .hint(package.hint())
}

/// The shims that the project needs for the versions of its toolkits.
fn shims(inputs: &PlanInputs<'_>, part: &TreePart, notes: &mut Vec<String>) -> Vec<Shim> {
    let mut shims = Vec::new();
    for backend in &part.backends {
        let Some(row) = inputs.project.profile.backends.get(backend) else { continue };
        let Ok(Some(kit)) = kit(inputs, *backend, part.requirement.as_deref()) else { continue };
        let Some(version) = kit.installation.version() else { continue };
        let os = inputs.facts.platform.os.id();
        let needed = |shim: &&ShimRow| *version < shim.below && shim.os.iter().any(|name| name == os);
        for shim in row.shims.iter().filter(needed) {
            let Some(text) = shim.text() else { continue };
            notes.push(format!(
                "{backend}: a shim extends `{}` of version {version}: {}",
                shim.header, shim.reason
            ));
            shims.push(Shim { header: shim.header.clone(), text: text.to_owned() });
        }
    }
    shims
}

/// The toolkit copy to build with: the first that satisfies the version requirement of the tree or the project.
pub(super) fn kit<'a>(
    inputs: &PlanInputs<'a>,
    backend: Backend,
    requirement: Option<&str>,
) -> Result<Option<&'a BuildKit>, Vec<Reason>> {
    let Some(kits) = inputs.kits.get(&backend) else { return Ok(None) };
    let lacking = |kit: &BuildKit| lacking_components(inputs, backend, kit);
    let (kits, incomplete): (Vec<&BuildKit>, Vec<&BuildKit>) =
        kits.iter().filter(|kit| is_new_enough(inputs, backend, kit)).partition(|kit| lacking(kit).is_none());
    let table = inputs.project.file.backends.get(&backend);
    let package = inputs.project.built_with.iter().find(|package| package.backend == backend);
    let of_package = package.map(BuiltWith::requirement);
    let of_file =
        requirement.or_else(|| table?.toolkit.as_deref().or(table?.toolkits.first().map(String::as_str)));
    let Some(text) = of_file.or(of_package.as_deref()) else {
        return Ok(kits.first().copied());
    };
    let requirement: VersionRequirement = text.parse().map_err(|error| {
        vec![Reason::new(
            id!("project.invalid"),
            format!("`backends.{backend}.toolkit` in gpubuild.toml: {error}"),
        )]
    })?;
    let version = |kit: &BuildKit| kit.installation.version.as_ref().map(|fact| fact.value.clone());
    let fits = |kit: &&BuildKit| version(kit).is_some_and(|version| requirement.holds(&version));
    if let Some(kit) = kits.iter().copied().find(fits) {
        return Ok(Some(kit));
    }
    if let Some(reason) = incomplete.into_iter().find(fits).and_then(lacking) {
        return Err(vec![reason]);
    }
    let found = kits
        .iter()
        .map(|kit| match version(kit) {
            Some(version) => format!("{version} at {}", kit.installation.root),
            None => format!("an unknown version at {}", kit.installation.root),
        })
        .collect::<Vec<_>>()
        .join(", ");
    let (who, hint) = match package.filter(|_| of_file.is_none()) {
        Some(package) => {
            (format!("`{}`, built with {backend} {},", package.package, package.version), package.hint())
        }
        None => {
            ("gpubuild.toml".to_owned(), "install a version in that range, or relax `toolkit`".to_owned())
        }
    };
    let text = format!("{who} requires {backend} toolkit {text}, found {found}");
    Err(vec![Reason::new(id!("toolkit.version-unmet"), text).hint(hint)])
}

/// Whether a toolkit copy satisfies the minimum version of the project's profile. A copy of unknown version does.
pub(super) fn is_new_enough(inputs: &PlanInputs<'_>, backend: Backend, kit: &BuildKit) -> bool {
    let minimum = inputs.project.profile.backends.get(&backend).and_then(|row| row.minimum.as_ref());
    minimum.is_none_or(|minimum| kit.installation.version().is_none_or(|version| version >= minimum))
}

/// The reason if a copy lacks parts that the project links. gpubuild knows that only of the copies that it installed: in others, CMake
/// also searches folders that are not part of the toolkit.
pub(super) fn lacking_components(
    inputs: &PlanInputs<'_>,
    backend: Backend,
    kit: &BuildKit,
) -> Option<Reason> {
    let copy = &kit.installation;
    let row = inputs.project.profile.backends.get(&backend).filter(|_| copy.is_own())?;
    let lacking: Vec<&str> =
        row.components.iter().map(String::as_str).filter(|id| copy.part(id).is_none()).collect();
    if lacking.is_empty() {
        return None;
    }
    let (lacking, name) = (lacking.join(","), &inputs.project.profile.name);
    let release = match inputs.packaged.get(&backend) {
        // The distribution determines it.
        Some(_) => String::new(),
        None => copy.version().map(|version| format!("@{}", version.release())).unwrap_or_default(),
    };
    let reason = Reason::new(
        id!("toolkit.component-missing"),
        format!("{name} links {lacking}, which `{}` lacks", copy.root),
    );
    let target = inputs.target.map(|triple| format!(" --target {triple}")).unwrap_or_default();
    Some(reason.hint(format!("gpubuild toolkit install {}{release} --with {lacking}{target}", copy.toolkit)))
}

/// The host compiler that `CUDAHOSTCXX` (CMake) or `NVCC_CCBIN` (nvcc) sets.
fn named_host_compiler<'a>(inputs: &PlanInputs<'a>) -> Option<(&'static str, &'a str)> {
    HOST_COMPILER_VARIABLES.into_iter().find_map(|name| Some((name, inputs.env.get(name)?)))
}

/// The cache entry with nvcc's host compiler.
fn host_compiler_entry(inputs: &PlanInputs<'_>, kit: &BuildKit) -> Option<(String, String)> {
    let named = named_host_compiler(inputs).map(|(_, value)| value.to_owned());
    let path = named.or_else(|| Some(host_compiler(inputs, kit)?.cxx.as_ref()?.forward_slashes()))?;
    Some(("CMAKE_CUDA_HOST_COMPILER".to_owned(), path))
}

/// The host compiler for nvcc: the selected C++ compiler if the toolkit supports it, otherwise the newest supported one.
fn host_compiler<'a>(inputs: &PlanInputs<'a>, kit: &BuildKit) -> Option<&'a HostCompiler> {
    let fits = |compiler: &&HostCompiler| {
        let window = kit.host_compilers.get(&compiler.family);
        window.is_none_or(|window| window.supports(compiler.version.as_ref(), &compiler.family))
    };
    inputs.compilers.first().filter(fits).or_else(|| {
        inputs.compilers.iter().filter(|compiler| compiler.cxx.is_some()).filter(fits).max_by(
            |left, right| {
                // Prefer gcc: the toolkits are tested with it.
                (left.family == "gcc", &left.version).cmp(&(right.family == "gcc", &right.version))
            },
        )
    })
}
