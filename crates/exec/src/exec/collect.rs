//! Collects the artifacts of a built tree through the file API, and checks that they match the plan.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use gpubuild_core::isa::{self, is_machine_flag};
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_host::{HostPath, ReadFiles};
use gpubuild_linker::symbols;
use gpubuild_object::{KernelKind, ObjectBytes, embedded};
use gpubuild_plan::artifacts::{Artifact, BuiltInterface, BuiltTree, CompileGroup, DeviceCode, LinkItem};
use gpubuild_plan::plan::PlannedTree;

use super::abi;
use super::error::{self, BuildError};
use crate::cmake::file_api::{CmakeTarget, FileApiReply};
use crate::cmake::fragments::{self, FragmentContext};
use crate::cmake::inject::PROBE;

/// The targets to build: the plan's targets that produce files, its modules, and the project's libraries on the link line.
#[must_use]
pub fn targets_to_build(tree: &PlannedTree, reply: &FileApiReply) -> Vec<String> {
    let on_line = linked_targets(tree, reply);
    let planned = planned_targets(tree, reply);
    let wanted = reply.targets.iter().filter(|target| {
        let is_planned = planned.contains(target.name.as_str());
        let named = is_planned && !target.artifacts.is_empty();
        let module = is_module_of(tree, target);
        let utility = is_planned && target.kind == "UTILITY";
        named || module || utility || on_line.contains(target.name.as_str())
    });
    let mut names: Vec<String> = wanted.map(|target| target.name.clone()).collect();
    names.sort_indirect();
    names.dedup();
    names
}

/// Whether a target is one of the tree's modules: `ggml-cuda`, or `ggml-cpu-haswell` for `ggml-cpu`.
fn is_module_of(tree: &PlannedTree, target: &CmakeTarget) -> bool {
    let is_one = |module: &String| {
        target.name.strip_prefix(module.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    target.kind == "MODULE_LIBRARY" && tree.modules.iter().any(is_one)
}

/// The names of the plan's targets in this version of the project.
fn planned_targets<'a>(tree: &'a PlannedTree, reply: &FileApiReply) -> BTreeSet<&'a str> {
    let exists = |name: &&String| reply.target(name).is_some();
    let chosen = tree.choices.iter().filter_map(|choice| choice.any.iter().find(exists));
    tree.targets.iter().chain(chosen).map(String::as_str).collect_set()
}

fn link_line(tree: &PlannedTree, reply: &FileApiReply, os: gpubuild_host::Os) -> Vec<LinkItem> {
    if tree.targets.is_empty() {
        return Vec::new();
    }
    let context = FragmentContext { build: &tree.build, os };
    reply.target(PROBE).map(|probe| fragments::link_items(context, reply, probe)).unwrap_or_default()
}

/// The include folders and definitions that the probe target inherits from the libraries that it links.
fn interface(reply: &FileApiReply) -> BuiltInterface {
    let probe = reply.target(PROBE);
    probe
        .map(|probe| BuiltInterface { includes: probe.includes.clone(), defines: probe.defines.clone() })
        .unwrap_or_default()
}

/// Names of the project's libraries on the probe's link line.
fn linked_targets<'a>(tree: &PlannedTree, reply: &'a FileApiReply) -> BTreeSet<&'a str> {
    // Only the path rules matter for recognising paths, so any operating system with the same rules will do.
    let os = match tree.build.rules() {
        gpubuild_host::PathRules::Windows => gpubuild_host::Os::Windows,
        gpubuild_host::PathRules::Unix => gpubuild_host::Os::Linux,
    };
    let items = link_line(tree, reply, os);
    let paths: BTreeSet<&str> = items.iter().filter_map(path_of).collect_set();
    let is_linked =
        |target: &&CmakeTarget| target.artifacts.iter().any(|artifact| paths.contains(artifact.as_str()));
    reply.targets.iter().filter(is_linked).map(|target| target.name.as_str()).collect_set()
}

fn path_of(item: &LinkItem) -> Option<&str> {
    match item {
        LinkItem::Static { path } | LinkItem::Shared { path } => Some(path),
        _ => None,
    }
}

/// Collects the artifacts, link line and compilers of a built tree.
///
/// # Errors
/// A file that CMake lists is missing or unreadable, or a static library is invalid.
pub fn built_tree(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    key: &str,
    reply: &FileApiReply,
) -> Result<BuiltTree, BuildError> {
    let built: BTreeSet<String> = targets_to_build(tree, reply).into_iter().collect_set();
    let mut files = Vec::new();
    for target in reply.targets.iter().filter(|target| built.contains(&target.name)) {
        for path in &target.artifacts {
            files.push(artifact(host, tree, target, path)?);
        }
    }
    files.sort_indirect_by(|left, right| left.path.cmp(&right.path));
    let compilers =
        reply.compilers.iter().map(|(language, toolchain)| (language.clone(), toolchain.compiler.clone()));
    Ok(BuiltTree {
        id: tree.id.clone(),
        backends: tree.backends.clone(),
        folder: tree.folder.clone(),
        key: key.to_owned(),
        source: tree.source.to_string(),
        build: tree.build.to_string(),
        generator: tree.generator.clone(),
        cmake: reply.cmake_version.clone(),
        cache: tree.cache.clone(),
        files,
        link: link_line(tree, reply, tree.target.as_ref().map_or(host.platform().os, |target| target.os)),
        extra: tree.extra.clone(),
        abi: tree.abi.as_ref().map(|abi| abi::read(host, tree, abi, reply)).unwrap_or_default(),
        compilers: compilers.collect(),
        compile: compile_groups(reply, &built),
        interface: interface(reply),
        promises: reply
            .cache
            .iter()
            .filter(|(name, value)| isa::table().is_option(name) && !value.is_empty())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    })
}

/// How the sources of the built targets were compiled. Object libraries are included because they become part of other targets.
fn compile_groups(reply: &FileApiReply, built: &BTreeSet<String>) -> Vec<CompileGroup> {
    let is_in = |target: &&CmakeTarget| target.kind == "OBJECT_LIBRARY" || built.contains(&target.name);
    let mut groups: Vec<CompileGroup> = Vec::new();
    for target in reply.targets.iter().filter(is_in) {
        for group in &target.compile {
            let pieces = group.flags.iter().flat_map(|piece| piece.split_ascii_whitespace());
            let flags: Vec<String> = pieces.filter(|flag| is_machine_flag(flag)).map(str::to_owned).collect();
            let name = |path: &String| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
            let sources = group.sources.iter().map(name);
            // Groups that differ only in definitions are merged.
            let same = |known: &&mut CompileGroup| {
                known.target == target.name && known.language == group.language && known.flags == flags
            };
            match groups.iter_mut().find(same) {
                Some(known) => known.sources.extend(sources),
                None => groups.push(CompileGroup {
                    target: target.name.clone(),
                    language: group.language.clone(),
                    flags,
                    sources: sources.collect(),
                }),
            }
        }
    }
    groups
}

fn artifact(
    host: &dyn ReadFiles,
    tree: &PlannedTree,
    target: &CmakeTarget,
    path: &str,
) -> Result<Artifact, BuildError> {
    let incomplete = |what: String| BuildError::Incomplete { tree: tree.id.clone(), what };
    let file = host.path(path);
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            incomplete(format!("`{path}` of target `{}` is missing", target.name))
        }
        _ => BuildError::io("read", &path, &error),
    };
    let (sha256, bytes) = crate::store::hash_file(host, &file).map_err(unreadable)?;
    let kind = kind_of(&target.kind);
    let device_code = device_code(host, &file);
    let symbols = if kind == "static" {
        let library = ObjectBytes::open(host, &file).map_err(|error| unreadable(error.into()))?;
        let defined = symbols::defined(library.data())
            .map_err(|error| incomplete(format!("`{path}` is not a library: {error}")))?;
        u64::try_from(defined.len()).ok()
    } else {
        None
    };
    Ok(Artifact {
        target: target.name.clone(),
        kind: kind.to_owned(),
        path: path.to_owned(),
        bytes,
        sha256,
        symbols,
        device_code,
    })
}

/// The GPU code in a file; empty if the file contains no code in a known format, which is not an error.
fn device_code(host: &dyn ReadFiles, path: &HostPath) -> Vec<DeviceCode> {
    let Ok((cuda, hip)) = embedded(host, path) else { return Vec::new() };
    let cuda = cuda.bytes.iter().map(|(kernel, bytes)| {
        let (arch, kind) = match kernel.kind {
            KernelKind::Sass => (kernel.arch.sm(), "sass"),
            KernelKind::Ptx => (kernel.arch.sm().replace("sm_", "compute_"), "ptx"),
            KernelKind::Lto => (kernel.arch.sm(), "lto"),
        };
        (arch, kind, *bytes)
    });
    let hip = hip.bytes.iter().map(|(arch, bytes)| (arch.clone(), "code-object", *bytes));
    let mut found: Vec<DeviceCode> = Vec::new();
    for (arch, kind, bytes) in cuda.chain(hip) {
        // Sums up code of object files that were built with different toolkits.
        match found.iter_mut().find(|code| code.arch == arch && code.kind == kind) {
            Some(code) => code.bytes += bytes,
            None => found.push(DeviceCode { arch, kind: kind.to_owned(), bytes }),
        }
    }
    found
}

fn kind_of(kind: &str) -> &'static str {
    match kind {
        "STATIC_LIBRARY" => "static",
        "SHARED_LIBRARY" => "shared",
        "MODULE_LIBRARY" => "module",
        "EXECUTABLE" => "executable",
        _ => "other",
    }
}

/// Rejects a tree that lacks a target of the plan, or in which no file or library name mentions a backend of the plan.
///
/// # Errors
/// `BuildError::Incomplete` describes what the tree lacks.
pub fn refuse_incomplete(
    tree: &PlannedTree,
    reply: &FileApiReply,
    built: &BuiltTree,
) -> Result<(), BuildError> {
    let incomplete = |what: String| BuildError::Incomplete { tree: tree.id.clone(), what };
    if reply.target(PROBE).is_none() {
        let (version, oldest) = (&reply.cmake_version, crate::cmake::OLDEST);
        return Err(incomplete(format!(
            "CMake {version} did not report the probe's link line: CMake {oldest} or newer is required"
        )));
    }
    let exists = |name: &String| reply.target(name).is_some();
    let missing = tree.choices.iter().find(|choice| !choice.optional && !choice.any.iter().any(exists));
    if let Some(choice) = missing {
        return Err(incomplete(format!("the project has no target `{choice}`")));
    }
    // The file API does not list aliases and imported libraries. The injected script has already checked that they exist.
    let is_own = |name: &&String| !name.contains("::");
    if let Some(name) = tree.targets.iter().filter(is_own).find(|name| reply.target(name).is_none()) {
        return Err(incomplete(format!("the project has no target `{name}`")));
    }
    let is_there = |module: &&String| {
        let of_this = PlannedTree { modules: vec![(*module).clone()], ..tree.clone() };
        reply.targets.iter().any(|target| is_module_of(&of_this, target))
    };
    if let Some(name) = tree.modules.iter().find(|module| !is_there(module)) {
        return Err(incomplete(match reply.target(name) {
            Some(target) => {
                format!("its target `{name}` has the type `{}` instead of `module`", kind_of(&target.kind))
            }
            None => format!("it has no module `{name}`"),
        }));
    }
    let parts = names(reply, built);
    // Not every project builds CPU code into a separate library.
    let missing = tree.backends.iter().find(|backend| {
        **backend != Backend::Cpu && !parts.iter().any(|part| error::mentions(part, **backend))
    });
    match missing {
        Some(backend) => Err(incomplete(format!("none of its libraries belongs to the backend `{backend}`"))),
        None => Ok(()),
    }
}

/// The names that may mention a backend: the built files, what they and a program link, and the languages of their sources. A project
/// may put all backends into one library whose name mentions none.
fn names(reply: &FileApiReply, built: &BuiltTree) -> Vec<String> {
    let name = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let files = built.files.iter().map(|file| format!("{} {}", file.target, name(&file.path)));
    let link = built.link.iter().map(|item| match item {
        LinkItem::Static { path } | LinkItem::Shared { path } => name(path),
        LinkItem::System { name } | LinkItem::Framework { name } => name.clone(),
        LinkItem::Argument { text } => text.clone(),
        LinkItem::Search { .. } => String::new(),
    });
    let own = built.files.iter().filter_map(|file| reply.target(&file.target));
    let of_own = own.flat_map(|target| {
        let languages = target.compile.iter().map(|group| group.language.clone());
        let libraries = target.link.iter().filter(|fragment| fragment.role == "libraries");
        languages.chain(libraries.map(|fragment| name(&fragment.fragment))).collect::<Vec<_>>()
    });
    files.chain(link).chain(of_own).collect()
}

/// Rejects static libraries that define the same symbol.
///
/// # Errors
/// The first duplicate symbol with both libraries.
pub fn refuse_duplicates(host: &dyn ReadFiles, trees: &[BuiltTree]) -> Result<(), BuildError> {
    let mut seen = BTreeSet::new();
    let mut libraries = Vec::new();
    for file in trees.iter().flat_map(|tree| &tree.files) {
        // A library that is identical in two trees is linked only once.
        if file.kind != "static" || !seen.insert((file.target.as_str(), file.sha256.as_str())) {
            continue;
        }
        let library = ObjectBytes::open(host, &host.path(&file.path))
            .map_err(|error| BuildError::io("read", &file.path, &error.into()))?;
        libraries.push((file.path.clone(), symbols::defined(library.data()).unwrap_or_default()));
    }
    let mut found = symbols::duplicates(&libraries).into_iter();
    let Some(first) = found.next() else { return Ok(()) };
    Err(BuildError::Duplicate {
        symbol: first.symbol,
        first: first.first,
        second: first.second,
        more: found.count(),
    })
}
