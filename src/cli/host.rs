//! `gpubuild host record FILE`: records this machine for commands with `--host`.

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::id;
use gpubuild_detect::toolkit;
use gpubuild_doctor as doctor;
use gpubuild_host::recorder;

use super::machine::{self, HostArguments};
use super::{CommandContext, Exit, Failure};
use crate::report::recording::RecordingReport;

/// Arguments of `host`.
#[derive(Debug, clap::Args)]
pub struct HostCommandArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Record what `detect` and `doctor` examine; home, user and host names are replaced, secrets redacted
    Record(RecordArguments),
}

#[derive(Debug, clap::Args)]
struct RecordArguments {
    /// Output file
    file: String,
    /// Also query tools and drivers, each in a child process, and record their answers
    #[arg(long)]
    probe: bool,
    /// Also keep these environment variables; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    keep_env: Vec<String>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    host: HostArguments,
    /// Print one JSON document that describes the file
    #[arg(long)]
    json: bool,
}

impl HostCommandArguments {
    /// Whether standard output is one JSON document.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let Action::Record(arguments) = &self.action;
        arguments.json
    }
}

/// Writes the recording.
pub fn run(arguments: &HostCommandArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let Action::Record(arguments) = &arguments.action;
    let path = super::absolute(context, &arguments.file)?;
    if context.host.exists(&path) && !arguments.force {
        return Err(Failure::usage(id!("host.record-exists"), format!("`{path}` already exists"))
            .hint("specify another file, or replace it with `--force`"));
    }
    // Recording a recorded host shows which of its entries are read.
    let recorded = arguments.host.recorded(context)?;
    let host = recorded.as_ref().map_or(context.host, |host| host);
    let catalogue = arguments.host.catalogue(context)?;
    machine::check_overrides(host)?;
    let (recording, redactions) = recorder::record(host, &arguments.keep_env, |host| {
        let mut machine = machine::inspect(host, catalogue);
        let _ = doctor::observe(host, &machine.facts, &machine.inventory, &machine.catalogue);
        if arguments.probe {
            toolkit::query_programs(host, &machine.catalogue, &mut machine.inventory);
            // The recorder stores the replies, so the result is not needed here.
            let _ = toolkit::probe_drivers(host, &Backend::ALL);
        }
    });
    let lines = redactions.lines().into_iter().map(|line| format!("# redacted: {}\n", clean::line(&line)));
    let text = lines.chain([recording.to_toml()]).collect::<Vec<_>>().concat();
    context
        .host
        .write(&path, text.as_bytes())
        .map_err(|error| Failure::file(id!("host.record-unwritable"), "write", &path, &error))?;
    let document = RecordingReport::new(path.to_string(), recording.files.len(), &redactions);
    if arguments.json {
        context.printer.json(&document)?;
    } else {
        context.printer.status(&document.text());
    }
    if !redactions.is_empty() {
        context.printer.status(&redactions.summary());
    }
    context.printer.hint("review the file before you publish it; it may contain private paths");
    Ok(Exit::Done)
}
