//! `gpubuild link`: the link line of a program that uses the built libraries, for a build system.

use gpubuild_detect::id;
use gpubuild_exec::exec::changed_files;
use gpubuild_plan::artifacts::manifest_path;
use gpubuild_plan::artifacts::{Manifest, ManifestError};
use gpubuild_plan::link;

use super::project::open_project;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure};
use crate::report::link::LinkDocument;

/// The values of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum LinkFormat {
    /// `cargo::` lines for a build script.
    Cargo,
    /// One JSON document.
    Json,
    /// A `.pc` file.
    PkgConfig,
    /// A CMake script that defines the target `gpubuild::<project>`.
    Cmake,
    /// One line of arguments for a C compiler that links, quoted for a shell.
    Plain,
}

/// Arguments of `link`.
#[derive(Debug, clap::Args)]
pub struct LinkArguments {
    /// Output format
    #[arg(long, value_enum, value_name = "FORM", default_value = "plain")]
    format: LinkFormat,
    /// Same as `--format json`
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    #[command(flatten)]
    target: TargetArgument,
}

impl LinkArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json || self.format == LinkFormat::Json
    }
}

/// Prints the link line.
pub fn run(arguments: &LinkArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let mut project = open_project(context, arguments.project.as_deref())?;
    arguments.target.apply_to(&mut project)?;
    let path = manifest_path(&project.build_root);
    let manifest = Manifest::read(context.host, &path).map_err(|error| unreadable(&error))?;
    if let Some(file) = changed_files(context.host, &manifest).first() {
        return Err(changed(file));
    }
    let (folders, why) = gpubuild_exec::environment::search_path(context.host, &project.build_root);
    if let Some(why) = why {
        context.printer.warning(&why);
    }
    let directives =
        link::directives(&manifest, manifest.os(context.host.platform().os)).with_search_path(folders);
    let text = match arguments.format {
        _ if arguments.is_json() => {
            context.printer.json(&LinkDocument::new(&directives))?;
            return Ok(Exit::Done);
        }
        LinkFormat::Cargo => link::cargo_lines(&directives).join("\n"),
        LinkFormat::PkgConfig => link::pkg_config(&directives, &manifest, None),
        LinkFormat::Cmake => link::cmake(&directives, &manifest),
        LinkFormat::Plain | LinkFormat::Json => link::plain(&directives),
    };
    context.printer.print_input(&text)?;
    Ok(Exit::Done)
}

/// The failure if a built file is missing or was changed.
pub(super) fn changed(file: &str) -> Failure {
    let message = format!("`{file}` is missing or was changed after the build");
    Failure::negative(id!("manifest.stale"), message).hint("run `gpubuild build` again")
}

/// The failure if there is no manifest.
pub(super) fn unreadable(error: &ManifestError) -> Failure {
    Failure::of(error, Exit::Usage).hint("run `gpubuild build`")
}
