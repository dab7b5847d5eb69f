//! `gpubuild clean`: removes everything that was built for a project. The cache of fetched tools stays.

use super::look;
use super::{Context, Exit, Failure};
use crate::host::Wait;

/// Arguments of `clean`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the project [default: the nearest gpubuild.toml from here up]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
}

/// Removes the project's build folder.
pub fn run(arguments: &Arguments, context: &Context<'_>) -> Result<Exit, Failure> {
    let project = look::project(context, arguments.project.as_deref())?;
    let (host, root) = (context.host, &project.build_root);
    if !host.exists(root) {
        context.printer.say(&format!("nothing to remove: there is no {root}"));
        return Ok(Exit::Done);
    }
    let lock = host.lock(&root.join(".lock"), Wait::No)?;
    if lock.is_none() {
        let message = format!("a build of this project is running in `{root}`");
        return Err(Failure::negative("build.running", message).hint("wait for it, or stop it"));
    }
    host.remove(root)
        .map_err(|error| Failure::negative("file.failed", format!("failed to remove `{root}`: {error}")))?;
    context.printer.say(&format!("removed {root}"));
    Ok(Exit::Done)
}
