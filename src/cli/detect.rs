//! `gpubuild detect`: hardware, toolkits and drivers, and which backends can be built and run.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::summary::summary;
use gpubuild_host::Host;
use gpubuild_plan::plan::request::BackendSelection;

use super::machine::{self, HostArguments};
use super::{CommandContext, Exit, Failure, TextRole, Verbosity};
use crate::report::detect::DetectReport;
use crate::report::detect_text::{Detail, DetectSubject, Tone, text};

/// Show hardware, toolkits and drivers for every backend
#[derive(Debug, Clone, clap::Args)]
pub struct DetectArguments {
    #[command(flatten)]
    host: HostArguments,
    /// Backends to show, separated by commas, or `all`
    #[arg(long, value_name = "LIST")]
    backends: Option<String>,
    /// Also query the drivers, each in a child process
    #[arg(long)]
    probe: bool,
    /// Print one line per backend, and the recommended one
    #[arg(long, conflicts_with = "json")]
    summary: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl DetectArguments {
    /// Whether the command starts child processes.
    #[must_use]
    pub fn starts_processes(&self) -> bool {
        self.probe
    }
}

/// Examines the machine and prints the verdicts.
pub fn run(arguments: &DetectArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let backends = selected(arguments.backends.as_deref())?;
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    let probed = if arguments.probe { backends.as_slice() } else { &[] };
    let machine = machine::inspect_with_states(host, arguments.host.catalogue(context)?, probed)?;
    context.check_interrupt()?;
    if arguments.json {
        let document = DetectReport::new(
            &machine.facts,
            &machine.inventory,
            &machine.catalogue,
            &machine.matrix,
            &backends,
        );
        context.printer.json(&document)?;
        return Ok(Exit::Done);
    }
    if arguments.summary {
        context.printer.print(&summary(&machine.facts, &machine.matrix, &backends).to_string())?;
        return Ok(Exit::Done);
    }
    let verbose = context.printer.verbosity() >= Verbosity::Verbose;
    let subject = DetectSubject {
        facts: &machine.facts,
        inventory: &machine.inventory,
        catalogue: &machine.catalogue,
        matrix: &machine.matrix,
        backends: &backends,
        detail: if verbose { Detail::Everything } else { Detail::Relevant },
    };
    context.printer.print(&text(&subject, &|tone, text| context.printer.paint(role(tone), text)))?;
    if verbose {
        let counts = host.counts();
        context
            .printer
            .detail(&format!("{} files opened, {} processes started", counts.files, counts.processes));
    }
    // The process ends now: to free thousands of texts first would only take time.
    std::mem::forget(machine);
    Ok(Exit::Done)
}

/// The named backends. `auto` selects all of them here, since `detect` also shows backends that cannot be built.
fn selected(text: Option<&str>) -> Result<Vec<Backend>, Failure> {
    let Some(text) = text else { return Ok(Backend::ALL.to_vec()) };
    match BackendSelection::parse(text) {
        Ok(BackendSelection::Auto) => Ok(Backend::ALL.to_vec()),
        Ok(BackendSelection::Named(list)) => Ok(list),
        Err(error) => {
            let known = Backend::ALL.map(Backend::id).join(", ");
            Err(Failure::usage(id!("backend.unknown"), format!("{error} (from --backends)"))
                .hint(format!("backends are {known}; `auto` and `all` are selections")))
        }
    }
}

/// The text role that renders a tone.
#[must_use]
pub fn role(tone: Tone) -> TextRole {
    match tone {
        Tone::Good => TextRole::Good,
        Tone::Bad => TextRole::Bad,
        Tone::Caution => TextRole::Caution,
        Tone::Hint => TextRole::Hint,
        Tone::Dim => TextRole::Dim,
        Tone::Strong => TextRole::Strong,
    }
}
