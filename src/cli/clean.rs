//! `gpubuild clean`: removes everything that was built for a project. The cache of fetched tools stays.

use super::look;
use super::test::TEST_FOLDER;
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
    let mut held = Vec::new();
    // `gpubuild test` builds in a folder of its own below this one, with its own lock.
    for folder in [root.clone(), root.join(TEST_FOLDER)].iter().filter(|folder| host.is_dir(folder)) {
        let Some(lock) = host.lock(&folder.join(".lock"), Wait::No)? else {
            let message = format!("a build of this project is running in `{folder}`");
            return Err(Failure::negative("build.running", message).hint("wait for it, or stop it"));
        };
        held.push(lock);
    }
    host.remove(root)
        .map_err(|error| Failure::negative("file.failed", format!("failed to remove `{root}`: {error}")))?;
    context.printer.say(&format!("removed {root}"));
    Ok(Exit::Done)
}
