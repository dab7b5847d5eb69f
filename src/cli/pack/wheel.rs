//! `gpubuild pack --format wheel`: builds variants and writes a Python wheel for each. `--format sdist`: packs the sources.

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_detect::id;
use gpubuild_exec::environment::VenvRecord;
use gpubuild_exec::exec::BuildOutcome;
use gpubuild_host::HostPath;
use gpubuild_plan::project::source::{Source, locate};
use gpubuild_plan::project::{Project, PythonTable, WheelVariants, python_version};
use gpubuild_release::manifest;
use gpubuild_release::wheel::contents::WheelInputs;
use gpubuild_release::wheel::info::{self, PackedWheel, WheelRequest};
use gpubuild_release::wheel::interface::UnpinnedInterface;
use gpubuild_release::wheel::project::{self, Distinction, PythonProject};
use gpubuild_release::wheel::variant::{self, LabelledVariant, VariantProperties};
use gpubuild_release::wheel::{WheelError, WrittenWheel, sdist};
use gpubuild_sources::LockPolicy;

use super::super::build::PlannedBuild;
use super::super::plan::SelectionArguments;
use super::super::project::{load_project, open_project};
use super::super::{CommandContext, Exit, Failure, absolute, audit, sources};
use super::packing::{check_instructions, label_of};
use super::requirements::requirements;
use super::{PackArguments, PackedOutput, build_variant, of_variants};
use crate::report::wheels::WheelsReport;

/// Builds the variants and writes the wheels.
pub(super) fn run(arguments: &PackArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    check(arguments)?;
    let folder = absolute(context, &arguments.out)?.normalized();
    let (project, python, selections) = inputs(arguments, context)?;
    let mut wheels: Vec<WrittenWheel> = Vec::new();
    let mut index = None;
    let target = arguments.target.of(&project)?;
    if let Some(triple) = target.triple() {
        let message = format!("a wheel is for the platform of this machine, not for {triple}");
        return Err(Failure::usage(id!("pack.target"), message)
            .hint("build it on that platform, or pass `--target host`"));
    }
    for selection in &selections {
        let (planned, outcome) = build_variant(selection, arguments, PackedOutput::Wheel, context)?;
        let packed = pack(arguments, context, (&planned, &outcome), &python)?;
        if wheels.iter().any(|other| other.file == packed.wheel.file) {
            let message = format!("two variants have the wheel `{}`", packed.wheel.file);
            return Err(Failure::usage(id!("pack.label-twice"), message)
                .hint("select one with `--variant`; variants without a GPU have no name in their wheels"));
        }
        if let Some(variant) = &packed.variant {
            index = Some(list_variant(context, &folder, &python, variant)?);
        }
        write(context, &folder, &packed.wheel.file, &packed.bytes)?;
        warn_of_interfaces(context, &packed.unpinned);
        if arguments.wheel.single {
            warn_of_static_keys(context, &python, &packed.wheel);
        }
        wheels.push(packed.wheel);
    }
    let document = WheelsReport::new(folder.as_str(), &project.file.project.name, wheels, index);
    print_result(arguments, context, &document)
}

/// Writes the source distribution.
pub(super) fn write_sdist(arguments: &PackArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    check(arguments)?;
    let folder = absolute(context, &arguments.out)?.normalized();
    let project = open_project(context, arguments.selection.project.as_deref())?;
    let python = metadata(&project, context)?;
    let runtime = project.file.python.as_ref().map(|python| python.runtime).unwrap_or_default();
    let packed = sdist::pack(context.host, &project.root, (&python, runtime), &folder);
    let (written, bytes) = packed.map_err(|error| Failure::of(&error, Exit::Negative))?;
    write(context, &folder, &written.file, &bytes)?;
    let document = WheelsReport::of_sdist(folder.as_str(), &project.file.project.name, written);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}

/// Rejects the options of releases.
fn check(arguments: &PackArguments) -> Result<(), Failure> {
    let release_only = [
        ("--from", !arguments.from.is_empty()),
        ("--program", !arguments.program.is_empty()),
        ("--libraries", arguments.libraries),
        ("--release-version", arguments.release_version.is_some()),
        ("--serial", arguments.serial.is_some()),
        ("--expires", arguments.expires.is_some()),
        ("--sign", arguments.sign.is_some()),
    ];
    match release_only.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("`{name}` applies to releases, not to `--format wheel`");
            Err(Failure::usage(id!("usage.conflict"), message).hint("omit one of the two"))
        }
    }
}

/// The project, its Python metadata, and the builds to run. Everything that needs no build is checked here.
fn inputs(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
) -> Result<(Project, PythonProject, Vec<SelectionArguments>), Failure> {
    let folder = arguments.selection.project.as_deref();
    sources::ensure(context, folder, arguments.network.network(context.host), LockPolicy::Keep)?;
    let project = load_project(context, folder)?;
    let python = metadata(&project, context)?;
    let selections = of_variants(arguments, &project)?;
    Ok((project, python, selections))
}

/// The metadata of the project's Python package.
fn metadata(project: &Project, context: &CommandContext<'_>) -> Result<PythonProject, Failure> {
    let Some(package) = project.file.python.as_ref().and_then(|table| table.package.as_deref()) else {
        return Err(Failure::of(&WheelError::NoPackage, Exit::Usage));
    };
    let path = project.root.join(project::FILE_NAME);
    let text = context.host.read_text(&path).map_err(|error| {
        let error = WheelError::Metadata { path: path.to_string(), what: error.to_string() };
        Failure::of(&error, Exit::Usage)
    })?;
    let version = python_version::read(context.host, &project.root, Some(package), &text)
        .map_err(|what| Failure::of(&WheelError::Version { path: path.to_string(), what }, Exit::Usage))?;
    project::parse(&text, path.as_str(), version).map_err(|error| Failure::of(&error, Exit::Usage))
}

/// Packs the outputs of one build.
fn pack(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    (planned, outcome): (&PlannedBuild, &BuildOutcome),
    metadata: &PythonProject,
) -> Result<PackedWheel, Failure> {
    let host = context.host;
    let PlannedBuild { project, machine, .. } = planned;
    check_instructions(audit::after_build(context, project, machine, outcome))?;
    let environment =
        VenvRecord::read(host, &project.build_root).map(|record| record.folders).unwrap_or_default();
    let locked = match project.file.project.source {
        Source::Fetched(_) => {
            locate::read_lock(host, &project.root).map_err(|error| Failure::of(&error, Exit::Usage))?
        }
        Source::Folder(_) => None,
    };
    let python = project.file.python.clone().unwrap_or_default();
    let variant = if arguments.wheel.wheel_variants || python.variants == WheelVariants::Label {
        labelled(arguments, context, (planned, outcome))?
    } else {
        distinction(arguments, planned, &outcome.manifest.backends, &python)?
    };
    let stem = metadata.file_stem(variant.as_ref());
    let leave = [project.file.pack.leave.as_slice(), project.profile.leave.as_slice()].concat();
    let request = WheelRequest {
        inputs: WheelInputs {
            root: &project.root,
            python: &python,
            name: stem.split('-').next().unwrap_or_default(),
            manifest: &outcome.manifest,
            environment: &environment,
            leave: &leave,
            cuda: cuda_release(outcome),
            libc: machine.facts.libc.as_ref().map(|libc| &libc.value),
        },
        project: metadata,
        variant,
        source: &project.source,
        packages: &project.profile.packages,
        locked: locked.as_ref(),
    };
    info::pack(host, &request).map_err(|error| Failure::of(&error, Exit::Negative))
}

/// Installers that read requirements from pyproject.toml do not see those that a build adds, unless it says so.
fn warn_of_static_keys(context: &CommandContext<'_>, python: &PythonProject, wheel: &WrittenWheel) {
    let key = if wheel.extra.is_some() { "optional-dependencies" } else { "dependencies" };
    if wheel.requires.is_empty() || python.is_dynamic(key) {
        return;
    }
    let requires = wheel.requires.join(", ");
    context.printer.warning(&format!("uv does not install what the wheel requires: {requires}"));
    context.printer.hint(&format!("add `dynamic = [\"{key}\"]` to [project] of pyproject.toml"));
}

/// A library with the C++ interface of another package fails to load, or crashes, with other releases of that package.
fn warn_of_interfaces(context: &CommandContext<'_>, found: &[UnpinnedInterface]) {
    for UnpinnedInterface { library, package } in found {
        context.printer.warning(&format!(
            "`{library}` uses the C++ interface of {package}, which changes with every release, but the wheel does not require one release"
        ));
        context.printer.hint(&format!(
            "add the release that it was built with to `dependencies` in pyproject.toml, such as `{package}==2.9.*`, or use the stable interface"
        ));
    }
}

/// How the wheel differs from those of other variants: not at all for the CPU, which every machine has.
fn distinction(
    arguments: &PackArguments,
    planned: &PlannedBuild,
    backends: &[Backend],
    python: &PythonTable,
) -> Result<Option<Distinction>, Failure> {
    let needs_gpu = backends.iter().any(|backend| *backend != Backend::Cpu);
    let of_variant = planned.selection.variant.clone().filter(|_| needs_gpu);
    let Some(label) = arguments.label.clone().or(of_variant).filter(|_| !arguments.wheel.single) else {
        return Ok(None);
    };
    if !manifest::is_label(&label) {
        return Err(invalid_label(&label));
    }
    Ok(Some(match python.variants {
        WheelVariants::Name => Distinction::Name(label),
        WheelVariants::Version | WheelVariants::Label => Distinction::Version(label),
    }))
}

/// The label and the properties of a variant wheel; `None` if it runs on every machine of its platform.
fn labelled(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    (planned, outcome): (&PlannedBuild, &BuildOutcome),
) -> Result<Option<Distinction>, Failure> {
    if arguments.wheel.single {
        return Ok(None);
    }
    let order = variant::backend_order(&planned.project.file.pack.prefer);
    let needs = requirements(arguments, context, (planned, outcome))?;
    let properties = VariantProperties::of(&needs, &order, &planned.machine.catalogue);
    if properties.is_empty() {
        return Ok(None);
    }
    let named = arguments.label.clone().or_else(|| planned.selection.variant.clone());
    let label = named.unwrap_or_else(|| label_of(&outcome.manifest.backends));
    if !manifest::is_label(&label) || label == variant::NULL {
        return Err(invalid_label(&label));
    }
    Ok(Some(Distinction::Label(LabelledVariant { label, properties, order })))
}

/// Adds a variant to the list of all variants of a version.
fn list_variant(
    context: &CommandContext<'_>,
    folder: &HostPath,
    python: &PythonProject,
    variant: &LabelledVariant,
) -> Result<String, Failure> {
    let file = format!("{}-variants.json", python.file_stem(None));
    let path = folder.join(&file);
    let invalid =
        |what: String| Failure::of(&WheelError::Variants { path: path.to_string(), what }, Exit::Negative);
    let mut document = variant.document();
    if context.host.is_file(&path) {
        let older = context.host.read_text(&path).map_err(|error| invalid(error.to_string()))?;
        variant::merge(&mut document, &older).map_err(invalid)?;
    }
    write(context, folder, &file, variant::text(&document).as_bytes())?;
    Ok(file)
}

fn invalid_label(label: &str) -> Failure {
    Failure::usage(id!("pack.label"), format!("`{label}` is not a valid variant name"))
        .hint("set a name with `--label`: characters of a to z, digits, `_` and `.`")
}

/// The CUDA release of the newest compiler of a build: `12.4`.
fn cuda_release(outcome: &BuildOutcome) -> Option<Version> {
    let compilers = outcome.manifest.trees.iter().filter_map(|tree| tree.compilers.get("CUDA"));
    let version = compilers.filter_map(|compiler| compiler.version.parse::<Version>().ok()).max()?;
    format!("{}.{}", version.major(), version.minor()).parse().ok()
}

fn write(context: &CommandContext<'_>, folder: &HostPath, file: &str, bytes: &[u8]) -> Result<(), Failure> {
    let path = folder.join(file);
    let written = context.host.create_dir_all(folder).and_then(|()| context.host.write(&path, bytes));
    written.map_err(|error| Failure::file(id!("pack.io"), "write", &path, &error))
}

fn print_result(
    arguments: &PackArguments,
    context: &CommandContext<'_>,
    document: &WheelsReport<'_>,
) -> Result<Exit, Failure> {
    let printer = context.printer;
    for wheel in document.wheels() {
        if let Some(why) = &wheel.untagged {
            printer.warning(&format!(
                "`{}` has the tag of any Linux, which package indexes reject: {why}",
                wheel.file
            ));
        }
        for name in &wheel.not_found {
            printer.warning(&format!("`{name}`, which a library may load at run time, was not found"));
        }
    }
    if arguments.json {
        printer.json(document)?;
    } else {
        printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}
