//! `gpubuild clean`: removes the build folder of a project. Downloaded tools and the build store are kept.

use gpubuild_detect::id;
use gpubuild_exec::exec::folder::{self, FolderContent};
use gpubuild_host::Wait;

use super::project::open_project;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure, check_listable};
use crate::report::clean::CleanReport;

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
pub struct CleanArguments {
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    #[command(flatten)]
    target: TargetArgument,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Removes the project's build folder. The folder is renamed first, so that the next build starts from scratch even if the removal is
/// interrupted.
pub fn run(arguments: &CleanArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let mut project = open_project(context, arguments.project.as_deref())?;
    arguments.target.apply_to(&mut project)?;
    let (host, root) = (context.host, &project.build_root);
    let (lock_path, removed) = (folder::lock_path(root), folder::removed_path(root));
    let refuse_links =
        || folder::refuse_links(host, &lock_path, root).map_err(|error| Failure::of(&error, Exit::Negative));
    refuse_links()?;
    let done = |removed: Option<FolderContent>| {
        let document = CleanReport::new(root.to_string(), removed);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            context.printer.status(&document.text());
        }
        Ok(Exit::Done)
    };
    check_listable(host, root)?;
    if !host.exists(root) && !host.exists(&removed) {
        return done(None);
    }
    let Some(_lock) = host.lock(&lock_path, Wait::No)? else {
        let message = format!("`{root}` is in use by a build or another `gpubuild clean`");
        return Err(
            Failure::negative(id!("build.running"), message).hint("wait until it finishes, or stop it")
        );
    };
    refuse_links()?;
    let failed = |error: std::io::Error| Failure::file(id!("file.failed"), "remove", root, &error);
    // The rest of an interrupted `clean`.
    let rest = folder::content(host, &removed);
    host.remove(&removed).map_err(failed)?;
    let built = folder::content(host, root);
    match host.rename(root, &removed) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return done((rest.files > 0).then_some(rest));
        }
        // Windows cannot rename a folder that contains an open file.
        Err(_) => host.remove(root).map_err(failed)?,
        Ok(()) => host.remove(&removed).map_err(failed)?,
    }
    done(Some(FolderContent { files: rest.files + built.files, bytes: rest.bytes + built.bytes }))
}
