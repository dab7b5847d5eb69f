//! The command line as clap parses and prints it: commands grouped by task, rare options under headings, an example for each
//! command, and the values that shells complete.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory, ValueHint};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_detect::diagnostic;
use gpubuild_detect::finding::Findings;
use gpubuild_host::RealHost;
use gpubuild_plan::wheels::lock;
use gpubuild_toolchain::provision;

use super::Arguments;
use crate::new::Template;

/// The commands by task, in the order of the help.
pub(super) const GROUPS: [(&str, &[&str]); 4] = [
    ("Inspect", &["detect", "doctor", "setup", "explain", "estimate", "report", "host", "mcp"]),
    (
        "Build",
        &[
            "new", "plan", "fetch", "update", "build", "run", "test", "bench", "link", "export", "audit",
            "clean",
        ],
    ),
    ("Release", &["ci", "pack", "resolve", "install"]),
    ("Maintain", &["toolkit", "venv", "cache", "self", "completions", "man"]),
];

/// Headings, the commands that use them (none means all), and the options below them. All others come first, as `Options`.
const HEADINGS: [(&str, &[&str], &[&str]); 14] = [
    ("Toolkits", &[], &["provision", "toolkit", "toolkits", "find_links", "lock", "wheels"]),
    ("Toolkits", &["build"], &["from"]),
    ("Project", &["plan", "build", "test", "pack"], &["variant", "project", "no_binary"]),
    ("Manifest", &["pack"], &["label", "release_version", "serial", "expires", "sign"]),
    ("Selection", &["resolve", "install"], &["variant", "backend", "devices", "strict", "explain"]),
    ("Compilation", &[], &["cuda_archs", "linkage", "native", "launcher"]),
    ("Compilation", &["build"], &["timings"]),
    ("Build store", &["build"], &["explain", "no_store"]),
    ("Checks", &["doctor"], &["only", "skip", "list_checks"]),
    (
        "What to examine instead",
        &["doctor"],
        &["file", "binary", "log", "resolvers", "packages", "self_check"],
    ),
    ("Snapshots", &["doctor"], &["save", "diff"]),
    ("Trust", &["resolve", "install", "self"], &["key", "name", "unsigned", "insecure_http"]),
    ("Output", &[], &["json", "format", "message_format", "output"]),
    ("Output", &["doctor", "audit"], &["fail_on"]),
];

/// An example for each command; a test parses all of them.
pub(super) const EXAMPLES: [(&[&str], &str); 46] = [
    (&["detect"], "gpubuild detect --backends cuda,vulkan"),
    (&["doctor"], "gpubuild doctor --backends cuda"),
    (&["setup"], "gpubuild setup --backends cuda --dry-run"),
    (&["explain"], "gpubuild explain cuda.toolkit.missing"),
    (&["estimate"], "gpubuild estimate 8B --type q4_k --context 8192"),
    (&["report"], "gpubuild report issue.md"),
    (&["host", "record"], "gpubuild host record laptop.toml"),
    (&["mcp"], "gpubuild mcp"),
    (&["new"], "gpubuild new my-kernels --template own-kernels"),
    (&["plan"], "gpubuild plan --backends cuda --json"),
    (&["fetch"], "gpubuild fetch --vendor third_party"),
    (&["update"], "gpubuild update"),
    (&["build"], "gpubuild build --backends cuda,vulkan --run"),
    (&["run"], "gpubuild run -- --help"),
    (&["test"], "gpubuild test --backends cpu,vulkan"),
    (&["bench"], "gpubuild bench --rounds 5 --svg bench.svg"),
    (&["link"], "gpubuild link --format pkg-config"),
    (&["export"], "gpubuild export dist"),
    (&["audit"], "gpubuild audit --glibc 2.28 --cpu x86-64-v3"),
    (&["clean"], "gpubuild clean --project examples/infer"),
    (&["ci", "matrix"], "gpubuild ci matrix --format github"),
    (&["ci", "init"], "gpubuild ci init --format gitlab"),
    (&["ci", "verify"], "gpubuild ci verify --format github"),
    (&["ci", "run"], "gpubuild ci run cpu-ubuntu-24.04 --dry-run"),
    (&["ci", "preflight"], "gpubuild ci preflight --backends cuda"),
    (&["ci", "images"], "gpubuild ci images"),
    (&["pack"], "gpubuild pack --out release --backends cpu,cuda"),
    (&["resolve"], "gpubuild resolve --manifest release --explain"),
    (&["install"], "gpubuild install --manifest release --to ~/.local/opt/infer"),
    (&["toolkit", "install"], "gpubuild toolkit install cuda@13.0"),
    (&["toolkit", "list"], "gpubuild toolkit list"),
    (&["toolkit", "verify"], "gpubuild toolkit verify cuda"),
    (&["toolkit", "remove"], "gpubuild toolkit remove cuda@13.0"),
    (&["toolkit", "env"], "gpubuild toolkit env cuda"),
    (&["toolkit", "lock"], "gpubuild toolkit lock cuda@13.2"),
    (&["venv"], "gpubuild venv .venv --check"),
    (&["cache", "list"], "gpubuild cache list"),
    (&["cache", "size"], "gpubuild cache size"),
    (&["cache", "prune"], "gpubuild cache prune --older-than 30d"),
    (&["cache", "explain"], "gpubuild cache explain"),
    (&["cache", "push"], "gpubuild cache push --backends cpu"),
    (&["cache", "pull"], "gpubuild cache pull"),
    (&["cache", "stat"], "gpubuild cache stat --json"),
    (&["self", "update"], "gpubuild self update"),
    (&["completions"], "gpubuild completions bash"),
    (&["man"], "gpubuild man --out man1"),
];

/// The command line with everything that derive macros cannot express.
#[must_use]
pub fn command_line() -> Command {
    let command = Arguments::command();
    let template = template(&command);
    customized(command, &mut Vec::new()).help_template(template)
}

/// The layout of the main help: clap does not group commands.
fn template(command: &Command) -> String {
    let (heading, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let mut groups = String::new();
    for (group, names) in GROUPS {
        let _ = write!(groups, "\n\n{heading}{group}:{heading:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = write!(groups, "\n  {literal}{name:<13}{literal:#}{about}");
        }
    }
    format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}{groups}\n\n{{options}}{{after-help}}")
}

/// Adds headings, an example and completions to the command and its subcommands.
fn customized(command: Command, path: &mut Vec<String>) -> Command {
    let mut command = command.mut_args(|argument| customized_argument(argument, path));
    let example = EXAMPLES.iter().find(|(known, _)| known.iter().eq(path.iter()));
    if let Some((_, example)) = example {
        let heading = *command.get_styles().get_header();
        command = command.after_help(format!("{heading}Example:{heading:#}\n  {example}"));
    }
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(&name, |one| {
            path.push(name.clone());
            let one = customized(one, path);
            path.pop();
            one
        });
    }
    command
}

/// The argument of the command `path` with its heading and what shells complete for its value.
fn customized_argument(argument: Arg, path: &[String]) -> Arg {
    let id = argument.get_id().as_str();
    let has_heading = |commands: &[&str]| {
        commands.is_empty() || path.first().is_some_and(|command| commands.contains(&command.as_str()))
    };
    let heading = HEADINGS.iter().find(|(_, commands, ids)| has_heading(commands) && ids.contains(&id));
    let candidates = match id {
        "spec" if path.ends_with(&["install".to_owned()]) => Some(ArgValueCandidates::new(offered_toolkits)),
        "spec" if !path.ends_with(&["lock".to_owned()]) => Some(ArgValueCandidates::new(installed_toolkits)),
        "what" => Some(ArgValueCandidates::new(explainable)),
        "only" | "skip" | "allow" => Some(ArgValueCandidates::new(findings)),
        "template" => Some(ArgValueCandidates::new(templates)),
        "command" => Some(ArgValueCandidates::new(commands)),
        _ => None,
    };
    let is_list_of_backends = id == "backends";
    let is_file_or_folder = argument.get_value_names().is_some_and(|names| {
        names.iter().any(|name| ["FILE", "DIR", "PATH", "PLACE", "SNAPSHOT"].contains(&name.as_str()))
    });
    // `--run` is one of the usual options, but the others come first in the definition.
    let argument = if id == "run" { argument.display_order(0) } else { argument };
    let argument = match heading {
        Some((heading, ..)) if !argument.is_positional() => argument.help_heading(*heading),
        _ => argument,
    };
    if is_list_of_backends {
        return argument.add(ArgValueCompleter::new(backends));
    }
    if is_file_or_folder {
        return argument.value_hint(ValueHint::AnyPath);
    }
    match candidates {
        Some(candidates) => argument.add(candidates),
        None => argument,
    }
}

/// The backends that continue a list.
fn backends(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (before, start) = current.rsplit_once(',').map_or(("", &*current), |(before, start)| (before, start));
    let before = if before.is_empty() { String::new() } else { format!("{before},") };
    let known = Backend::ALL.iter().map(|backend| backend.id()).chain(["auto", "all"]);
    let known = known.filter(|id| id.starts_with(start));
    known.map(|id| CompletionCandidate::new(format!("{before}{id}"))).collect()
}

fn findings() -> Vec<CompletionCandidate> {
    let findings = Findings::embedded();
    let entries = findings.families().iter().flat_map(|family| &family.findings);
    entries.map(|(id, entry)| CompletionCandidate::new(id).help(Some(entry.title.clone().into()))).collect()
}

/// Backends, findings and errors.
fn explainable() -> Vec<CompletionCandidate> {
    let errors = diagnostic::errors().into_keys().map(CompletionCandidate::new);
    let backends = Backend::ALL.iter().map(|backend| CompletionCandidate::new(backend.id()));
    backends.chain(findings()).chain(errors).collect()
}

/// Commands, or the subcommands of the command that `gpubuild man` already names.
fn commands() -> Vec<CompletionCandidate> {
    // A shell passes the words after `--`; the last one is the word to complete.
    let words: Vec<String> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    let after_man = words.iter().skip_while(|word| *word != "man").skip(1);
    let before: Vec<&str> = after_man.map(String::as_str).collect();
    candidates_of_man(before.split_last().map_or(&[], |(_, before)| before))
}

fn candidates_of_man(before: &[&str]) -> Vec<CompletionCandidate> {
    let Some(name) = before.first() else {
        let names = GROUPS.iter().flat_map(|(_, names)| names.iter());
        return names.map(CompletionCandidate::new).collect();
    };
    let command = Arguments::command();
    let below = command.find_subcommand(name).into_iter().flat_map(Command::get_subcommands);
    below.filter(|one| before.len() == 1 && !one.is_hide_set()).map(candidate_of_command).collect()
}

fn candidate_of_command(command: &Command) -> CompletionCandidate {
    CompletionCandidate::new(command.get_name()).help(command.get_about().cloned())
}

/// The toolkits that gpubuild has installed, with and without their releases.
fn installed_toolkits() -> Vec<CompletionCandidate> {
    let installed = provision::installations(&RealHost::new());
    toolkits(installed.iter().map(|one| (one.record.toolkit.as_str(), one.record.release.to_string())))
}

/// The toolkits that gpubuild can install, with and without their releases.
fn offered_toolkits() -> Vec<CompletionCandidate> {
    let mut offered =
        toolkits(lock::embedded().iter().map(|one| (one.toolkit.as_str(), one.release.to_string())));
    offered.extend(gpubuild_plan::packages::all().iter().map(|set| CompletionCandidate::new(&set.toolkit)));
    offered
}

fn toolkits<'a>(releases: impl Iterator<Item = (&'a str, String)>) -> Vec<CompletionCandidate> {
    let both = releases.flat_map(|(toolkit, release)| [toolkit.to_owned(), format!("{toolkit}@{release}")]);
    let unique: BTreeSet<String> = both.collect_set();
    unique.into_iter().map(CompletionCandidate::new).collect()
}

fn templates() -> Vec<CompletionCandidate> {
    let candidate =
        |one: &Template| CompletionCandidate::new(one.id).help(Some(one.about.title.clone().into()));
    crate::new::templates().iter().map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_command_once() {
        let command = command_line();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, known);
    }

    #[test]
    fn help_fits_80_columns() {
        fn check(command: &mut Command, path: &str) {
            let help = command.clone().term_width(80).render_long_help().to_string();
            for line in help.lines() {
                assert!(line.chars().count() <= 80, "{path}: {line}");
            }
            for one in command.get_subcommands_mut() {
                let path = format!("{path} {}", one.get_name());
                check(one, &path);
            }
        }
        let mut command = command_line();
        command.build();
        check(&mut command, "gpubuild");
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        fn check(command: &Command, path: &mut Vec<String>) {
            if !command.has_subcommands() {
                let has_example = EXAMPLES.iter().any(|(known, _)| known.iter().eq(path.iter()));
                assert!(has_example, "{path:?} has no example");
            }
            for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
                path.push(one.get_name().to_owned());
                check(one, path);
                path.pop();
            }
        }
        for (path, example) in EXAMPLES {
            let arguments = example.split_whitespace();
            let matches =
                command_line().try_get_matches_from(arguments).unwrap_or_else(|error| panic!("{error}"));
            let mut subcommands = Vec::new();
            let mut current = &matches;
            while let Some((name, below)) = current.subcommand() {
                subcommands.push(name);
                current = below;
            }
            assert_eq!(subcommands, path, "{example}");
        }
        check(&command_line(), &mut Vec::new());
    }

    #[test]
    fn headings_are_limited_to_their_commands() {
        let command = command_line();
        let heading = |path: &[&str], id: &str| {
            let command = path.iter().try_fold(&command, |command, name| command.find_subcommand(name));
            let mut arguments = command.into_iter().flat_map(Command::get_arguments);
            arguments.find(|one| one.get_id() == id).and_then(Arg::get_help_heading)
        };
        assert_eq!(heading(&["install"], "name"), Some("Trust"));
        assert_eq!(heading(&["new"], "name"), None);
        assert_eq!(heading(&["doctor"], "file"), Some("What to examine instead"));
        assert_eq!(heading(&["host", "record"], "file"), None);
        assert_eq!(heading(&["report"], "timings"), None);
    }

    #[test]
    fn shells_complete_files_and_folders() {
        fn check(command: &Command) {
            for argument in command.get_arguments() {
                let names = argument.get_value_names().unwrap_or_default();
                if names.iter().any(|name| name == "FILE" || name == "DIR") {
                    assert_eq!(argument.get_value_hint(), ValueHint::AnyPath, "{}", argument.get_id());
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&command_line());
    }

    #[test]
    fn lists_of_backends_are_completed() {
        let complete = |text: &str| -> Vec<String> {
            let candidates = backends(OsStr::new(text));
            candidates.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(complete("cuda,vu"), ["cuda,vulkan"]);
        assert_eq!(complete("a"), ["auto", "all"]);
        assert!(complete("cpu,x").is_empty());
    }

    #[test]
    fn manual_pages_of_subcommands_are_completed() {
        let complete = |before: &[&str]| -> Vec<String> {
            let candidates = candidates_of_man(before);
            candidates.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        assert!(complete(&[]).contains(&"toolkit".to_owned()));
        assert_eq!(complete(&["host"]), ["record"]);
        assert!(complete(&["ci"]).contains(&"matrix".to_owned()));
        assert!(complete(&["ci", "matrix"]).is_empty());
        assert!(complete(&["detect"]).is_empty());
    }

    #[test]
    fn toolkits_are_completed_with_and_without_releases() {
        let complete = |all: Vec<CompletionCandidate>| -> Vec<String> {
            all.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect()
        };
        let offered = complete(offered_toolkits());
        assert!(
            offered.contains(&"cuda".to_owned()) && offered.contains(&"cuda@13.0".to_owned()),
            "{offered:?}"
        );
        let two = [("cuda", "13.0".to_owned()), ("cuda", "13.5".to_owned())];
        assert_eq!(complete(toolkits(two.into_iter())), ["cuda", "cuda@13.0", "cuda@13.5"]);
    }

    #[test]
    fn every_option_under_a_heading_exists() {
        fn ids(command: &Command, known: &mut Vec<String>) {
            known.extend(command.get_arguments().map(|argument| argument.get_id().to_string()));
            command.get_subcommands().for_each(|one| ids(one, known));
        }
        let mut known = Vec::new();
        ids(&Arguments::command(), &mut known);
        for id in HEADINGS.iter().flat_map(|(_, _, ids)| ids.iter()) {
            assert!(known.iter().any(|one| one == id), "no option `{id}`");
        }
    }
}
