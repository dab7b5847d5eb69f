//! `gpubuild clean`: removes everything that was built for a project. The cache of fetched tools stays.

use gpubuild_detect::id;
use gpubuild_exec::exec::folder;
use gpubuild_host::Wait;

use super::look;
use super::{CommandContext, Exit, Failure};

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
pub struct CleanArguments {
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// Removes the project's build folder. It is renamed first: from then on a build starts anew, whatever becomes of the rest.
pub fn run(arguments: &CleanArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let project = look::project(context, arguments.project.as_deref())?;
    let (host, root) = (context.host, &project.build_root);
    let (lock_path, removed) = (folder::lock_path(root), folder::removed_path(root));
    let refuse_links =
        || folder::refuse_links(host, &lock_path, root).map_err(|error| Failure::of(&error, Exit::Negative));
    refuse_links()?;
    let nothing = || {
        context.printer.say(&format!("nothing to remove: {root} does not exist"));
        Ok(Exit::Done)
    };
    if !host.exists(root) && !host.exists(&removed) {
        return nothing();
    }
    let Some(_lock) = host.lock(&lock_path, Wait::No)? else {
        let message = format!("`{root}` is in use by a build or another `gpubuild clean`");
        return Err(Failure::negative(id!("build.running"), message).hint("wait for it, or stop it"));
    };
    refuse_links()?;
    let failed = |error: std::io::Error| {
        Failure::negative(id!("file.failed"), format!("failed to remove `{root}`: {error}"))
    };
    host.remove(&removed).map_err(failed)?;
    match host.rename(root, &removed) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return nothing(),
        // Windows does not rename a folder in which a program has a file open.
        Err(_) => host.remove(root).map_err(failed)?,
        Ok(()) => host.remove(&removed).map_err(failed)?,
    }
    context.printer.say(&format!("removed {root}"));
    Ok(Exit::Done)
}
