//! The document of `gpubuild plan`, and its text.

use gpubuild_core::backend::Backend;
use gpubuild_plan::plan::extra::PlannedExtra;
use gpubuild_plan::plan::provision::Provision;
use gpubuild_plan::plan::{Dropped, Fetch, Plan, PlannedBinary, PlannedEnvironment, PlannedTree, bytes};
use gpubuild_plan::project::together::With;
use gpubuild_plan::project::{Linkage, SourceCopy};
use gpubuild_plan::target::PlannedTarget;
use serde::Serialize;

use super::Schema;
use super::rows::{self, Rows};

/// The document of `plan --json` and `build --dry-run --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlanReport<'a> {
    schema: Schema,
    /// Origin of the backend request: `--backends`, `GPUBUILD_BACKENDS`, `GGML_CUDA`, `gpubuild.toml`, `auto`.
    origin: &'a str,
    /// The backends that will be built.
    backends: &'a [Backend],
    /// How a program links the libraries.
    linkage: Linkage,
    /// The platform to build for; absent for the build machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a PlannedTarget>,
    /// Backends that were requested, or are candidates of `auto`, and will not be built.
    dropped: &'a [Dropped],
    /// Missing toolkits that are installed first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    provision: &'a [Provision],
    /// Missing tools that are downloaded into gpubuild's cache.
    fetch: &'a [Fetch],
    /// Extra backends: those of the project that gpubuild has no toolkit for.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    extra: &'a [PlannedExtra],
    /// The copy of the sources to build from; absent if the sources are built in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<&'a SourceCopy>,
    /// The CMake trees, which are independent of each other.
    trees: &'a [PlannedTree],
    /// Other projects whose libraries are linked into the same program.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    with: &'a [With],
    /// The Rust program that links the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<&'a PlannedBinary>,
    /// The Python environment into which the build installs run-time libraries as wheels. Which ones is known only after the libraries
    /// are built.
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'a PlannedEnvironment>,
    /// Notes for the user, one line each.
    notes: &'a [String],
    /// Possible problems that the planner cannot rule out, one line each, ending with the finding's id.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

impl<'a> PlanReport<'a> {
    /// The document of a plan.
    #[must_use]
    pub fn new(plan: &'a Plan) -> Self {
        Self {
            schema: Schema { name: "plan", version: 1 },
            origin: &plan.origin,
            backends: &plan.backends,
            linkage: plan.linkage,
            target: plan.target.as_ref(),
            dropped: &plan.dropped,
            provision: &plan.provision,
            fetch: &plan.fetch,
            extra: &plan.extra,
            copy: plan.copy.as_ref(),
            trees: &plan.trees,
            with: &plan.with,
            binary: plan.binary.as_ref(),
            environment: plan.environment.as_ref(),
            notes: &plan.notes,
            warnings: &plan.warnings,
        }
    }
}

/// The plan as text.
#[must_use]
pub fn text(plan: &Plan) -> String {
    let mut out = Rows::default();
    let ids =
        |backends: &[Backend]| backends.iter().map(|backend| backend.id()).collect::<Vec<_>>().join(", ");
    out.row(format_args!("backends    {}  (requested by {})", ids(&plan.backends), plan.origin));
    if plan.linkage != Linkage::Static {
        out.row(format_args!("linkage     {}", plan.linkage.id()));
    }
    if let Some(target) = &plan.target {
        out.row(format_args!("target      {}  (compilers: {})", target.name, target.compilers.id()));
    }
    for dropped in &plan.dropped {
        for (index, reason) in dropped.reasons.iter().enumerate() {
            let label = if index == 0 { format!("not {}", dropped.id.id()) } else { String::new() };
            out.row(format_args!("{label:<12}{reason}"));
        }
    }
    for one in &plan.provision {
        let size = bytes::show_if_known(one.download_bytes);
        let with = if one.with.is_empty() { String::new() } else { format!(" with {}", one.with.join(", ")) };
        out.row(format_args!("install     {} {}{with}, {size} to download", one.toolkit, one.choice.version));
        out.row(format_args!("            into {}", one.root));
        for line in one.choice.lines() {
            out.row(format_args!("            {line}"));
        }
    }
    for fetch in &plan.fetch {
        out.row(format_args!("fetch       {} {}, into gpubuild's cache", fetch.tool, fetch.version));
    }
    if let Some(copy) = &plan.copy {
        out.row(format_args!("copy        {} to {}", copy.from, copy.to));
        for patch in &copy.patches {
            let optional = if patch.optional { " (optional)" } else { "" };
            out.row(format_args!("            patched with {}{optional}", patch.path));
        }
    }
    for extra in &plan.extra {
        out.row(format_args!("extra       {}", extra.id));
        let needs = extra.needs.iter().map(|need| format!("needs {need}"));
        let link = (!extra.link.is_empty()).then(|| format!("links {}", extra.link.join(", ")));
        let network = extra.network.iter().map(|what| format!("downloads {what}"));
        for line in needs.chain(link).chain(network).chain(extra.note.clone()) {
            out.row(format_args!("            {line}"));
        }
    }
    for tree in &plan.trees {
        out.blank();
        out.row(format_args!(
            "tree {}  ({}, {} jobs: {})",
            tree.id, tree.generator, tree.jobs.total, tree.jobs.reason
        ));
        out.row(format_args!("  source   {}", tree.source));
        out.row(format_args!("  build    {}", tree.build));
        let choices = tree.choices.iter().map(ToString::to_string);
        let targets: Vec<String> = tree.targets.iter().cloned().chain(choices).collect();
        if !targets.is_empty() {
            out.row(format_args!("  targets  {}", targets.join("  ")));
        }
        if !tree.modules.is_empty() {
            let folder = tree.folder.as_ref().map(|folder| format!("  (in {folder}/)")).unwrap_or_default();
            out.row(format_args!("  modules  {}{folder}", tree.modules.join(" ")));
        }
        let width = rows::width(tree.cache.keys().map(String::len));
        for (name, value) in &tree.cache {
            out.row(format_args!("  -D {name:<width$} = {value}"));
        }
    }
    for with in &plan.with {
        out.blank();
        out.row(format_args!(
            "with        {} ({}), same symbols: {}",
            with.name,
            with.folder,
            with.same_symbols.id()
        ));
        for difference in &with.differences {
            out.row(format_args!("            {difference}"));
        }
    }
    if let Some(binary) = &plan.binary {
        out.blank();
        out.row(format_args!("binary      {} ({} profile)", binary.package, binary.profile));
        if !binary.features.is_empty() {
            out.row(format_args!("            cargo gets {}", binary.features.join(" ")));
        }
    }
    if let Some(environment) = &plan.environment {
        out.blank();
        out.row(format_args!("venv        {}", environment.path));
        out.row(format_args!(
            "            receives the wheels of the run-time libraries that the build needs"
        ));
    }
    for warning in &plan.warnings {
        out.row(format_args!("warning     {warning}"));
    }
    for note in &plan.notes {
        out.row(format_args!("note        {note}"));
    }
    out.into_text()
}
