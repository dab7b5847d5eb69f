//! `gpubuild clean`: removes the build folder of a project. Downloaded tools and the build store are kept.

use gpubuild_detect::id;
use gpubuild_exec::exec::folder;
use gpubuild_host::Wait;

use super::project::load_project;
use super::{CommandContext, Exit, Failure};

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
pub struct CleanArguments {
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// Removes the project's build folder. The folder is renamed first, so that the next build starts from scratch even if the removal is
/// interrupted.
pub fn run(arguments: &CleanArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let project = load_project(context, arguments.project.as_deref())?;
    let (host, root) = (context.host, &project.build_root);
    let (lock_path, removed) = (folder::lock_path(root), folder::removed_path(root));
    let refuse_links =
        || folder::refuse_links(host, &lock_path, root).map_err(|error| Failure::of(&error, Exit::Negative));
    refuse_links()?;
    let nothing_to_remove = || {
        context.printer.status(&format!("nothing to remove: {root} does not exist"));
        Ok(Exit::Done)
    };
    if !host.exists(root) && !host.exists(&removed) {
        return nothing_to_remove();
    }
    let Some(_lock) = host.lock(&lock_path, Wait::No)? else {
        let message = format!("`{root}` is in use by a build or another `gpubuild clean`");
        return Err(
            Failure::negative(id!("build.running"), message).hint("wait until it finishes, or stop it")
        );
    };
    refuse_links()?;
    let failed = |error: std::io::Error| {
        Failure::negative(id!("file.failed"), format!("failed to remove `{root}`: {error}"))
    };
    host.remove(&removed).map_err(failed)?;
    match host.rename(root, &removed) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return nothing_to_remove(),
        // Windows cannot rename a folder that contains an open file.
        Err(_) => host.remove(root).map_err(failed)?,
        Ok(()) => host.remove(&removed).map_err(failed)?,
    }
    context.printer.status(&format!("removed {root}"));
    Ok(Exit::Done)
}
