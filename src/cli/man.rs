//! `gpubuild man`: the manual pages.

use clap::Command;
use clap_mangen::Man;
use gpubuild_detect::id;

use super::{CommandContext, Exit, Failure, absolute, command_line};

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArguments {
    /// Command whose page to print: `build`, `ci matrix` [default: gpubuild itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write all pages into this folder instead: gpubuild.1, gpubuild-build.1, …
    #[arg(long, value_name = "DIR")]
    out: Option<String>,
}

/// A page of section 1.
struct ManualPage {
    /// Name of the page: `gpubuild-ci-matrix`.
    name: String,
    roff: Vec<u8>,
}

/// Prints one page, or writes all of them.
pub fn run(arguments: &ManArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let pages = pages()?;
    if let Some(folder) = &arguments.out {
        let folder = absolute(context, folder)?;
        context.host.create_dir_all(&folder)?;
        for page in &pages {
            context.host.write(&folder.join(&format!("{}.1", page.name)), &page.roff)?;
        }
        context.printer.status(&format!("wrote {} pages to {folder}", pages.len()));
        return Ok(Exit::Done);
    }
    let name = std::iter::once("gpubuild").chain(arguments.command.iter().map(String::as_str));
    let name = name.collect::<Vec<_>>().join("-");
    let Some(page) = pages.iter().find(|page| page.name == name) else {
        let message = format!("there is no command `{}`", arguments.command.join(" "));
        return Err(Failure::usage(id!("usage.command"), message).hint("`gpubuild help` lists the commands"));
    };
    context.printer.print(&String::from_utf8_lossy(&page.roff))?;
    Ok(Exit::Done)
}

fn pages() -> Result<Vec<ManualPage>, Failure> {
    let mut command = command_line();
    command.build();
    let mut pages = Vec::new();
    add_page(&command, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command and its subcommands.
fn add_page(command: &Command, pages: &mut Vec<ManualPage>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let page = Man::new(command.clone()).title(name.as_str());
    let mut roff = Vec::new();
    page.render(&mut roff)?;
    pages.push(ManualPage { name, roff });
    let visible = |one: &&Command| !one.is_hide_set() && one.get_name() != "help";
    command.get_subcommands().filter(visible).try_for_each(|one| add_page(one, pages))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages().unwrap_or_default();
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        for name in ["gpubuild", "gpubuild-build", "gpubuild-ci-matrix", "gpubuild-toolkit-install"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("__probe")));
        let build = pages.iter().find(|page| page.name == "gpubuild-build").map(|page| &page.roff);
        let text = String::from_utf8_lossy(build.map_or(&[], Vec::as_slice));
        assert!(text.contains("\\-\\-backends"), "{text}");
        assert!(text.contains("gpubuild build \\-\\-backends cuda,vulkan \\-\\-run"), "{text}");
    }
}
