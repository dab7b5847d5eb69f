//! `gpubuild detect`: which hardware is present, what can be built, what can run, and why not.

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::toolkit;
use gpubuild_host::Host;
use gpubuild_plan::plan::request::BackendSelection;

use super::look::{self, HostArguments};
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
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

impl DetectArguments {
    /// Whether child processes are started.
    #[must_use]
    pub fn asks_drivers(&self) -> bool {
        self.probe
    }
}

/// Looks and tells.
pub fn run(arguments: &DetectArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let backends = selected(arguments.backends.as_deref())?;
    let recorded = arguments.host.recorded(context)?;
    let host: &dyn Host = recorded.as_ref().map_or(context.host, |recorded| recorded);
    look::check_overrides(host)?;
    let mut sight = look::look(host, arguments.host.catalogue(context)?);
    if arguments.probe {
        toolkit::ask_programs(host, &sight.catalogue, &mut sight.inventory);
        let probes = toolkit::ask_drivers(host, &backends);
        sight.matrix =
            gpubuild_plan::offer::evaluate(&sight.facts, &sight.inventory, &sight.catalogue, &probes);
    }
    if arguments.json {
        let document =
            DetectReport::new(&sight.facts, &sight.inventory, &sight.catalogue, &sight.matrix, &backends);
        context.printer.json(&document)?;
        return Ok(Exit::Done);
    }
    let verbose = context.printer.verbosity() >= Verbosity::Verbose;
    let subject = DetectSubject {
        facts: &sight.facts,
        inventory: &sight.inventory,
        catalogue: &sight.catalogue,
        matrix: &sight.matrix,
        backends: &backends,
        detail: if verbose { Detail::Everything } else { Detail::Relevant },
    };
    context.printer.answer(&text(&subject, &|tone, piece| context.printer.paint(role(tone), piece)))?;
    if verbose {
        let counts = host.counts();
        context
            .printer
            .detail(&format!("{} files opened, {} processes started", counts.files, counts.processes));
    }
    Ok(Exit::Done)
}

/// Everything unless some are named: `detect` shows what `auto` would leave out.
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

/// The colour of a tone.
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
