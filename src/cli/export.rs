//! `gpubuild export`: writes the built libraries, their headers, a file for pkg-config and a CMake package into a folder.

use gpubuild_detect::id;
use gpubuild_exec::exec::changed_files;
use gpubuild_exec::export::Export;
use gpubuild_host::HostPath;
use gpubuild_plan::artifacts::{Manifest, manifest_path};

use super::link::{changed, unreadable};
use super::project::open_project;
use super::{CommandContext, Exit, Failure, absolute};
use crate::report::export::ExportReport;

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
pub struct ExportArguments {
    /// Folder for `lib` and `include`
    #[arg(value_name = "DIR")]
    to: String,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Exports the last build.
pub fn run(arguments: &ExportArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let project = open_project(context, arguments.project.as_deref())?;
    let to = absolute(context, &arguments.to)?;
    let manifest = Manifest::read(context.host, &manifest_path(&project.build_root))
        .map_err(|error| unreadable(&error))?;
    if let Some(file) = changed_files(context.host, &manifest).first() {
        return Err(changed(file));
    }
    if to.key() == project.root.key() || project.root.is_inside(&to) {
        let message = format!("`{to}` contains the project");
        return Err(Failure::usage(id!("export.into-project"), message)
            .hint("export into another folder, such as `gpubuild export dist`"));
    }
    let headers: Vec<HostPath> =
        project.file.project.headers.iter().map(|header| project.root.join(header).normalized()).collect();
    let failed = |error: std::io::Error| {
        Failure::negative(id!("export.failed"), format!("failed to write `{to}`: {error}"))
    };
    let export = Export::of(context.host, &manifest, &headers).map_err(failed)?;
    export.write(context.host, &to).map_err(failed)?;
    for folder in &export.external {
        context
            .printer
            .warning(&format!("`{folder}` is not part of the project: programs need it in the same place"));
    }
    let document = ExportReport::new(&export, &to);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.print(&document.text())?;
    }
    Ok(Exit::Done)
}
