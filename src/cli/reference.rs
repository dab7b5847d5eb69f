//! `docs/reference/command-line.md`: every command with its options, from the definitions that the parser uses.

use std::fmt::Write as _;

use clap::{Arg, Command};
use gpubuild_core::order::SortIndirect as _;

use super::command_line;
use super::help::GROUPS;
use crate::report::reference::GENERATED;

/// The page of all commands.
#[must_use]
pub fn page() -> String {
    let mut command = command_line();
    command.build();
    let mut text = format!("{GENERATED}\n# Command line\n\n");
    text += "`gpubuild help COMMAND` prints the same for one command, `gpubuild man COMMAND` its manual page.\n\n";
    text += "| task | commands |\n|---|---|\n";
    for (group, names) in GROUPS {
        let links: Vec<String> = names.iter().map(|name| format!("[`{name}`](#gpubuild-{name})")).collect();
        let _ = writeln!(text, "| {} | {} |", group.to_lowercase(), links.join(" "));
    }
    text += "\nEvery command also accepts these options:\n\n| option | |\n|---|---|\n";
    command.get_arguments().filter(|one| one.is_global_set()).for_each(|one| text += &row(one));
    text += "\n[Exit codes](exit-codes.md) and [JSON documents](json.md) are the same for all commands.\n";
    for name in GROUPS.iter().flat_map(|(_, names)| names.iter()) {
        if let Some(one) = command.find_subcommand(name) {
            text += &section(one, "gpubuild");
        }
    }
    text
}

/// The section of a command, followed by those of its subcommands.
fn section(command: &Command, parent: &str) -> String {
    let path = format!("{parent} {}", command.get_name());
    let mut text = format!("\n## {path}\n\n");
    if let Some(about) = command.get_about() {
        let _ = writeln!(text, "{}.", escaped(&about.to_string()));
    }
    if !command.has_subcommands() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let example = example.lines().nth(1).map(str::trim).unwrap_or_default();
        let _ = write!(text, "\n```console\n$ {usage}\n$ {example}\n```\n");
    }
    let shown = |one: &&Arg| {
        !one.is_hide_set() && !one.is_global_set() && !matches!(one.get_id().as_str(), "help" | "version")
    };
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in command.get_arguments().filter(shown) {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    headings.sort_indirect_by_key(Option::is_some);
    for heading in headings {
        let _ = write!(
            text,
            "\n| {} | |\n|---|---|\n",
            heading.unwrap_or("Arguments and options").to_lowercase()
        );
        let of_heading =
            command.get_arguments().filter(shown).filter(|one| one.get_help_heading() == heading);
        of_heading.for_each(|one| text += &row(one));
    }
    for one in command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
        text += &section(one, &path);
    }
    text
}

fn row(argument: &Arg) -> String {
    let mut names: Vec<String> = Vec::new();
    let values = argument.get_value_names().unwrap_or_default();
    let takes_values = argument.get_num_args().is_some_and(|range| range.takes_values());
    let value = values.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    if let Some(short) = argument.get_short() {
        names.push(format!("`-{short}`"));
    }
    match argument.get_long() {
        Some(long) if takes_values && !value.is_empty() => names.push(format!("`--{long} {value}`")),
        Some(long) => names.push(format!("`--{long}`")),
        None => names.push(format!("`{}`", value.replace('|', "\\|"))),
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let mut help = escaped(&help);
    if takes_values && !argument.is_hide_possible_values_set() {
        let known = argument.get_possible_values();
        let known: Vec<String> = known.iter().map(|value| format!("`{}`", value.get_name())).collect();
        if !known.is_empty() {
            let _ = write!(help, ": {}", known.join(", "));
        }
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_values && !defaults.is_empty() {
        let _ = write!(help, " [default: {}]", defaults.join(","));
    }
    format!("| {} | {help} |\n", names.join(" "))
}

/// Text of a table cell.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}
