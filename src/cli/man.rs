//! `gpubuild man`: the manual pages.

use std::fmt::Write as _;

use clap::Command;
use clap_mangen::Man;
use gpubuild_detect::id;

use super::failure::similar;
use super::{CommandContext, Exit, Failure, absolute, command_line};
use crate::report::man::ManReport;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub struct ManArguments {
    /// Command whose page to print: `build`, `ci matrix` [default: gpubuild itself]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write all pages into this folder instead: gpubuild.1, gpubuild-build.1, …
    #[arg(long, value_name = "DIR")]
    out: Option<String>,
    /// With `--out`: print one JSON document that lists the files
    #[arg(long, requires = "out", conflicts_with = "command")]
    pub json: bool,
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
        let mut files = Vec::new();
        for page in &pages {
            let file = format!("{}.1", page.name);
            context.host.write(&folder.join(&file), &page.roff)?;
            files.push(file);
        }
        let document = ManReport::new(folder.to_string(), files);
        if arguments.json {
            context.printer.json(&document)?;
        } else {
            context.printer.status(&document.text());
        }
        return Ok(Exit::Done);
    }
    let name = std::iter::once("gpubuild").chain(arguments.command.iter().map(String::as_str));
    let name = name.collect::<Vec<_>>().join("-");
    let Some(page) = pages.iter().find(|page| page.name == name) else {
        let message = format!("unknown command `{}`", arguments.command.join(" "));
        let known: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        let near = similar(&name, &known).map(|near| near.trim_start_matches("gpubuild-"));
        let near = near.map(|near| format!("did you mean `gpubuild man {near}`? ")).unwrap_or_default();
        return Err(Failure::usage(id!("usage.command"), message)
            .hint(format!("{near}`gpubuild help` lists the commands")));
    };
    context.printer.print_input(&String::from_utf8_lossy(&page.roff))?;
    Ok(Exit::Done)
}

fn pages() -> Result<Vec<ManualPage>, Failure> {
    let mut command = command_line().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_page(&command, None, &mut pages)?;
    Ok(pages)
}

/// Adds the pages of a command and its subcommands.
fn add_page(command: &Command, parent: Option<&str>, pages: &mut Vec<ManualPage>) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    pages.push(ManualPage { roff: page(command, &name, parent)?, name: name.clone() });
    let mut visible = command.get_subcommands().filter(|one| !one.is_hide_set());
    visible.try_for_each(|one| add_page(one, Some(&name), pages))
}

/// One page. The library's synopsis omits the values of options, and its sections for examples and exit codes are named `EXTRA`.
fn page(command: &Command, name: &str, parent: Option<&str>) -> Result<Vec<u8>, Failure> {
    let source = concat!("gpubuild ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command.clone()).title(name).source(source).manual("gpubuild manual");
    let mut roff = Vec::new();
    page.render_title(&mut roff)?;
    page.render_name_section(&mut roff)?;
    let usage = command.clone().render_usage().to_string();
    roff.extend(section("SYNOPSIS", usage.trim_start_matches("Usage: ")).into_bytes());
    page.render_description_section(&mut roff)?;
    page.render_options_section(&mut roff)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut roff)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if let Some((title, body)) = after.split_once(':') {
        roff.extend(section(&title.to_uppercase(), body.trim()).into_bytes());
    }
    if let Some(parent) = parent {
        roff.extend(section("SEE ALSO", &format!("{parent}(1)")).into_bytes());
    }
    Ok(portable(&String::from_utf8_lossy(&roff)).into_bytes())
}

fn section(title: &str, text: &str) -> String {
    format!(".SH \"{title}\"\n{}\n", text.replace('\\', "\\e").replace('-', "\\-"))
}

/// The page with literals in bold instead of backticks, and in ASCII, which every roff program reads.
fn portable(roff: &str) -> String {
    let mut text = String::new();
    let mut is_bold = false;
    for character in roff.chars() {
        match character {
            '`' => {
                is_bold = !is_bold;
                text += if is_bold { "\\fB" } else { "\\fR" };
            }
            _ if character.is_ascii() => text.push(character),
            _ => {
                let _ = write!(text, "\\[u{:04X}]", u32::from(character));
            }
        }
    }
    text
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

    #[test]
    fn pages_are_portable_and_refer_to_pages_that_exist() {
        let pages = pages().unwrap_or_default();
        assert!(pages.iter().any(|page| page.name == "gpubuild-toolkit-install"), "{}", pages.len());
        for page in &pages {
            let text = String::from_utf8_lossy(&page.roff);
            assert!(text.is_ascii() && !text.contains('`'), "{}", page.name);
            assert!(!text.contains("EXTRA"), "{}", page.name);
            for reference in text.lines().filter_map(|line| line.strip_suffix("(1)")) {
                let name = reference.replace("\\-", "-");
                assert!(pages.iter().any(|page| page.name == name), "{}: {name}", page.name);
            }
        }
        assert!(!pages.iter().any(|page| page.name == "gpubuild-help"));
    }
}
