//! `gpubuild export`: writes what the last build produced for other programs: libraries, headers and packages for build systems,
//! compile commands for clangd, presets for CMake.

use gpubuild_detect::id;
use gpubuild_exec::compile_commands;
use gpubuild_exec::exec::changed_files;
use gpubuild_exec::export::{self, Export, LinkedLibraries};
use gpubuild_exec::presets;
use gpubuild_host::HostPath;
use gpubuild_host::folders::cache_folder;
use gpubuild_plan::artifacts::{Manifest, manifest_path};
use gpubuild_plan::project::Project;

use super::document::check_replaceable;
use super::link::{changed, unreadable};
use super::project::open_project;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure, absolute};
use crate::report::export::{ExportReport, ExportedCommands, ExportedPresets};

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub struct ExportArguments {
    /// Folder to write `lib`, `include` and `share` into
    #[arg(value_name = "DIR", required_unless_present_any = ["compile_commands", "presets"])]
    to: Option<String>,
    /// Write the compile commands of all sources for clangd; nvcc's arguments are translated for clang
    #[arg(long, value_name = "FILE")]
    compile_commands: Option<String>,
    /// Write a CMake preset for each tree, which opens the same build in editors: `CMakeUserPresets.json` in the source folder
    #[arg(long, value_name = "FILE")]
    presets: Option<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    #[command(flatten)]
    target: TargetArgument,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Exports the last build.
pub fn run(arguments: &ExportArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let mut project = open_project(context, arguments.project.as_deref())?;
    arguments.target.apply_to(&mut project)?;
    let manifest = Manifest::read(context.host, &manifest_path(&project.build_root))
        .map_err(|error| unreadable(&error))?;
    let exported;
    let mut document = ExportReport::default();
    if let Some(to) = &arguments.to {
        let to = absolute(context, to)?;
        exported = export_folder(context, &project, &manifest, &to)?;
        document.add_folder(&exported, &to);
    }
    if let Some(file) = &arguments.compile_commands {
        let file = absolute(context, file)?;
        document.compile_commands = Some(export_commands(context, &manifest, &file)?);
    }
    if let Some(file) = &arguments.presets {
        let file = absolute(context, file)?;
        document.presets = Some(export_presets(context, &manifest, &file)?);
    }
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}

fn export_folder(
    context: &CommandContext<'_>,
    project: &Project,
    manifest: &Manifest,
    to: &HostPath,
) -> Result<Export, Failure> {
    if let Some(file) = changed_files(context.host, manifest).first() {
        return Err(changed(file));
    }
    if to.key() == project.root.key() || project.root.is_inside(to) {
        let message = format!("`{to}` contains the project");
        return Err(Failure::usage(id!("export.into-project"), message)
            .hint("export into another folder, such as `gpubuild export dist`"));
    }
    let mut export = Export::of(context.host, manifest, &project.headers(), LinkedLibraries::InPlace)
        .map_err(|error| failed_to_write(to, &error))?;
    let source = project.source.file_name().unwrap_or("source");
    let licences = [(export.name.clone(), &project.root), (source.to_owned(), &project.source)];
    export.add_licences(context.host, &licences.each_ref().map(|(name, folder)| (name.as_str(), *folder)));
    export.write(context.host, to).map_err(|error| failed_to_write(to, &error))?;
    for folder in &export.external {
        context
            .printer
            .warning(&format!("`{folder}` is not part of the project: programs need it in the same place"));
    }
    Ok(export)
}

fn export_commands(
    context: &CommandContext<'_>,
    manifest: &Manifest,
    file: &HostPath,
) -> Result<ExportedCommands, Failure> {
    let commands = compile_commands::database(context.host, manifest).map_err(|error| {
        let message = format!("it is unknown how the sources of the tree `{}` are compiled", error.tree);
        Failure::negative(id!("export.sources-unknown"), message)
            .hint("run `gpubuild clean`, then `gpubuild build --no-store`")
    })?;
    check_replaceable(context, file, |text| text.starts_with('['))?;
    let mut text = serde_json::to_string_pretty(&commands).map_err(std::io::Error::other)?;
    text.push('\n');
    export::write(context.host, file, text.as_bytes()).map_err(|error| failed_to_write(file, &error))?;
    Ok(ExportedCommands { file: file.to_string(), sources: commands.len() })
}

fn export_presets(
    context: &CommandContext<'_>,
    manifest: &Manifest,
    file: &HostPath,
) -> Result<ExportedPresets, Failure> {
    let host = context.host;
    let folder = file.parent().unwrap_or_else(|| file.clone());
    let real = |path: &HostPath| host.canonical(path).unwrap_or_else(|_| path.normalized());
    if cache_folder(host).is_some_and(|cache| real(&folder).is_inside(&real(&cache.join("sources")))) {
        let message = format!("`{folder}` has downloaded sources, which other projects use as well");
        return Err(Failure::usage(id!("export.shared-sources"), message).hint(
            "set `copy = true` in [project] of gpubuild.toml and build again: the presets belong into the copy",
        ));
    }
    let Some(presets) = presets::of(host, manifest, &folder) else {
        let message = format!("nothing was built from the sources in `{folder}`");
        let source = manifest.trees.first().map(|tree| host.path(&tree.source).join("CMakeUserPresets.json"));
        let failure = Failure::usage(id!("export.not-the-source"), message);
        return Err(match source {
            Some(source) => {
                failure.hint(format!("CMake reads presets from the source folder: `--presets {source}`"))
            }
            None => failure,
        });
    };
    check_replaceable(context, file, presets::is_own).map_err(|failure| {
        failure.hint("write another file next to it, and add its name to `include` in the existing one")
    })?;
    export::write(host, file, presets.text.as_bytes()).map_err(|error| failed_to_write(file, &error))?;
    Ok(ExportedPresets { file: file.to_string(), names: presets.names })
}

fn failed_to_write(path: &HostPath, error: &std::io::Error) -> Failure {
    Failure::file(id!("export.failed"), "write", path, error)
}
