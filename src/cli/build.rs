//! `gpubuild build`: plans, downloads missing tools, builds, and runs cargo to link the program.

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::finding::Finding;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec::timings::TimingRecorder;
use gpubuild_exec::exec::{
    self, BuildBinary, BuildError, BuildEvent, BuildJob, BuildOutcome, InstalledTools, Printed, TreeState,
    known,
};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::HostInfo;
use gpubuild_plan::artifacts::DeviceCode;
use gpubuild_plan::plan::{Plan, bytes};
use gpubuild_plan::project::Project;
use serde::Serialize;

use super::audit;
use super::cache;
use super::events::{Events, ExplainMode, MessageFormat};
use super::look::{self, HostArguments, MachineState};
use super::plan::{self, SelectionArguments};
use super::provision;
use super::run;
use super::timings;
use super::{CommandContext, Exit, Failure};
use crate::report;

/// Maximum length of a printed sentence, in characters.
const SENTENCE: usize = 400;

/// Arguments of `build`.
#[derive(Debug, clap::Args)]
pub struct BuildArguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    network: NetworkArguments,
    /// Folder with wheels of toolkits to install; may be repeated
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Folder with additional toolkit descriptions; a known id replaces the built-in one
    #[arg(long, value_name = "DIR")]
    toolkits: Option<String>,
    /// Print the plan without running it
    #[arg(long)]
    dry_run: bool,
    /// Format of progress messages
    #[arg(long, value_enum, value_name = "FORM", default_value_t)]
    message_format: MessageFormat,
    /// Build the libraries only, not the Rust program
    #[arg(long, conflicts_with = "run")]
    no_binary: bool,
    #[command(flatten)]
    store: StoreArguments,
    /// Write build timings: a page, data (`.json`), or a trace (`.trace.json`) [default file: timings.html in
    /// the build folder]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    timings: Option<String>,
    /// Run the program after the build
    #[arg(long)]
    run: bool,
    /// Arguments for the program, after `--`; with `--run`
    #[arg(last = true, requires = "run", value_name = "ARGS")]
    forwarded: Vec<String>,
}

/// How the build store is used.
#[derive(Debug, Clone, Copy, clap::Args)]
struct StoreArguments {
    /// Do not read or write the build store
    #[arg(long)]
    no_store: bool,
    /// Print for each build tree whether the store has it, and which part of its key changed
    #[arg(long)]
    explain: bool,
}

impl BuildArguments {
    /// What `build` is asked for where another command builds first.
    pub(super) fn of(
        selection: SelectionArguments,
        network: NetworkArguments,
        find_links: Vec<String>,
        toolkits: Option<String>,
    ) -> Self {
        Self {
            selection,
            network,
            find_links,
            toolkits,
            dry_run: false,
            message_format: MessageFormat::Human,
            no_binary: false,
            store: StoreArguments { no_store: false, explain: false },
            timings: None,
            run: false,
            forwarded: Vec::new(),
        }
    }

    /// Whether standard output is a stream of JSON lines.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.message_format == MessageFormat::Json
    }
}

/// `--offline`, shared by the commands that build.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct NetworkArguments {
    /// Download nothing: neither tools nor crates
    #[arg(long)]
    offline: bool,
}

impl NetworkArguments {
    /// What the flag and the environment say together.
    pub fn network(self, host: &dyn HostInfo) -> Network {
        if self.offline { Network::Offline } else { Network::from_env(host.env()) }
    }
}

/// Builds.
pub fn run(arguments: &BuildArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if arguments.run && arguments.message_format == MessageFormat::Json {
        let message = "`--message-format json` and `--run` both want standard output";
        return Err(Failure::usage(id!("usage.conflict"), message)
            .hint("build first, then start the program with `gpubuild run`"));
    }
    let planned = planned(arguments, context)?;
    if arguments.run && planned.plan.binary.is_none() {
        return Err(Failure::usage(id!("run.no-binary"), "this project names no program to start")
            .hint(run::NO_BINARY));
    }
    if arguments.dry_run {
        match arguments.message_format {
            MessageFormat::Human => plan::print(&planned.plan, context, false)?,
            MessageFormat::Json => {
                context
                    .printer
                    .json_line(&ProgressLine::Plan(report::plan::PlanReport::new(&planned.plan)))?;
            }
        }
        return Ok(Exit::Done);
    }
    let (PlannedBuild { project, sight, .. }, outcome) = carried_out(planned, arguments, context)?;
    if arguments.message_format == MessageFormat::Human {
        summary(context, &outcome);
    }
    if outcome.state == TreeState::Built {
        tell_audit(
            context,
            arguments.message_format,
            &audit::after_build(context, &project, &sight, &outcome),
        )?;
    }
    if !arguments.run {
        return Ok(Exit::Done);
    }
    let Some(program) = &outcome.program else {
        return Err(Failure::usage(id!("run.no-binary"), "this project names no program to start")
            .hint(run::NO_BINARY));
    };
    let folders = run::windows_folders(context, &project.build_root);
    run::start(context, &program.path, &arguments.forwarded, &folders)
}

/// What was planned, of what was seen.
pub(super) struct PlannedBuild {
    pub(super) project: Project,
    pub(super) sight: MachineState,
    pub(super) plan: Plan,
    /// The variant of gpubuild.toml that was asked for.
    pub(super) variant: Option<String>,
    catalogue: Catalogue,
}

/// Plans and builds, for commands that use the result.
pub(super) fn make(
    arguments: &BuildArguments,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    carried_out(planned(arguments, context)?, arguments, context)
}

fn planned(arguments: &BuildArguments, context: &CommandContext<'_>) -> Result<PlannedBuild, Failure> {
    let host_arguments = HostArguments { host: None, toolkits: arguments.toolkits.clone() };
    look::check_overrides(context.host)?;
    let catalogue = host_arguments.catalogue(context)?;
    let sight = look::look(context.host, catalogue.clone());
    let (project, plan) = plan::make(&arguments.selection, context, context.host, &sight)?;
    Ok(PlannedBuild { project, sight, plan, variant: arguments.selection.variant.clone(), catalogue })
}

fn carried_out(
    planned: PlannedBuild,
    arguments: &BuildArguments,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    let PlannedBuild { mut project, mut sight, mut plan, variant, catalogue } = planned;
    let network = arguments.network.network(context.host);
    let way = provision::ProvisionMode {
        locks: &plan::locks(context, Some(&project))?,
        network,
        find_links: provision::folders(context, &arguments.find_links)?,
        format: arguments.message_format,
    };
    let selection = &arguments.selection;
    let done = provision::carried_out(context, selection, catalogue.clone(), (&sight, &plan), &way)?;
    if let Some(now) = done {
        (sight, project, plan) = now;
    }
    plan::warn(&plan, context);
    let replan = |without: &[(Backend, String)]| {
        plan::make_without(selection, context, context.host, &sight, without)
            .map(|(_, plan)| plan)
            .map_err(|failure| failure.message)
    };
    let work = BuildWork {
        context,
        project: &project,
        sight: &sight,
        network,
        format: arguments.message_format,
        binary: if arguments.no_binary { BuildBinary::No } else { BuildBinary::Yes },
        store: if arguments.store.no_store { None } else { cache::open(context, Some(&project))? },
        explain: if arguments.store.explain { ExplainMode::Yes } else { ExplainMode::No },
        timings: None,
    };
    let outcome = match &arguments.timings {
        Some(file) => timings::recorded(work, file, &|work| work.build(&plan, Some(&replan)))?,
        None => work.build(&plan, Some(&replan))?,
    };
    Ok((PlannedBuild { project, sight, plan, variant, catalogue }, outcome))
}

/// Lines of `--message-format json` that are not build events.
#[derive(Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum ProgressLine<'a> {
    /// What `--dry-run` answers.
    Plan(report::plan::PlanReport<'a>),
    /// What would keep others from starting what was built.
    Audit {
        /// As in `gpubuild audit`.
        findings: &'a [Finding],
    },
}

/// Warns about what would keep the outputs from starting on other machines. The build itself succeeded.
fn tell_audit(
    context: &CommandContext<'_>,
    format: MessageFormat,
    findings: &[Finding],
) -> Result<(), Failure> {
    if format == MessageFormat::Json {
        if !findings.is_empty() {
            context.printer.json_line(&ProgressLine::Audit { findings })?;
        }
        return Ok(());
    }
    for finding in findings {
        let summary = clean::short(&finding.summary, SENTENCE);
        context.printer.warning(&format!("{summary} [{}]", finding.id));
    }
    if !findings.is_empty() {
        context.printer.hint("`gpubuild audit` shows the evidence and what to do");
    }
    Ok(())
}

/// What `build` and `test` need to have a plan built.
pub(super) struct BuildWork<'a> {
    pub(super) context: &'a CommandContext<'a>,
    pub(super) project: &'a Project,
    pub(super) sight: &'a MachineState,
    pub(super) network: Network,
    pub(super) format: MessageFormat,
    pub(super) binary: BuildBinary,
    pub(super) store: Option<Store>,
    pub(super) explain: ExplainMode,
    /// Who records how long everything takes.
    pub(super) timings: Option<&'a TimingRecorder<'a>>,
}

impl BuildWork<'_> {
    /// Builds a plan in the project's own folder.
    pub(super) fn build(
        &self,
        plan: &Plan,
        replan: Option<exec::Replan<'_>>,
    ) -> Result<BuildOutcome, Failure> {
        self.build_in(&self.project.build_root, plan, replan)
    }

    /// Builds a plan whose trees are in another folder.
    pub(super) fn build_in(
        &self,
        root: &gpubuild_host::HostPath,
        plan: &Plan,
        replan: Option<exec::Replan<'_>>,
    ) -> Result<BuildOutcome, Failure> {
        let events = Events::new(self.context.printer, self.format).explaining(self.explain);
        let sink = |event: &BuildEvent| {
            if let Some(recorder) = self.timings {
                recorder.event(event);
            }
            events.show(event);
        };
        let explain = |printed: Printed<'_>| {
            known::explain(self.context.host, &self.sight.facts, &self.sight.catalogue, printed)
        };
        let job = BuildJob {
            host: self.context.host,
            project: self.project.file.project.name.clone(),
            root: root.clone(),
            lock: exec::folder::lock_path(&self.project.build_root),
            tools: InstalledTools::of(&self.sight.inventory),
            network: self.network,
            binary: self.binary,
            replan,
            explain: Some(&explain),
            store: self.store.clone(),
            sink: &sink,
        };
        let result = exec::build(&job, plan);
        drop(events);
        result.map_err(|error| failure(&error))
    }
}

/// A failed build in the words of the command line.
pub(super) fn failure(error: &BuildError) -> Failure {
    let mut failure = Failure::of(error, Exit::Negative);
    failure.findings = error.causes().to_vec();
    failure.notes = notes(error.causes()).into();
    if matches!(
        error,
        BuildError::Interrupted | BuildError::Fetch(gpubuild_exec::python::WheelFetchError::Interrupted)
    ) {
        failure.exit = Exit::Interrupted;
    }
    if matches!(error, BuildError::UnusedEntries { .. }) {
        failure.exit = Exit::Usage;
    }
    failure
}

/// The root cause with its fix, and a line for each further one.
fn notes(causes: &[Finding]) -> Vec<String> {
    let cause =
        |finding: &Finding| format!("cause: {} [{}]", clean::short(&finding.summary, SENTENCE), finding.id);
    let Some((root, others)) = causes.split_first() else { return Vec::new() };
    let mut notes = vec![cause(root), format!("fix: {}", clean::short(&root.remedy.text, SENTENCE))];
    notes.extend(
        root.remedy
            .commands
            .iter()
            .filter_map(|command| clean::command(command))
            .map(|command| format!("  {command}")),
    );
    notes.extend(others.iter().map(cause));
    notes
}

fn summary(context: &CommandContext<'_>, outcome: &BuildOutcome) {
    let built: Vec<&str> = outcome.manifest.backends.iter().map(|backend| backend.id()).collect();
    let done = match outcome.state {
        TreeState::Unchanged => "nothing changed, built already:",
        TreeState::Built => "built",
        TreeState::Taken => "taken from the store:",
    };
    let program =
        outcome.program.as_ref().map(|program| format!(", program {}", program.path)).unwrap_or_default();
    context.printer.say(&format!("{done} {} ({}{program})", built.join(", "), outcome.path));
    if outcome.state != TreeState::Unchanged {
        for (library, code) in outcome.manifest.device_code() {
            context.printer.say(&code_of(&library, &code));
        }
    }
}

/// `code in gk-cuda: sm_90 120.3 KiB, compute_90 (PTX) 80.1 KiB`.
fn code_of(library: &str, code: &[DeviceCode]) -> String {
    let part = |code: &DeviceCode| {
        let remark = match code.kind.as_str() {
            "ptx" => " (PTX)",
            "lto" => " (LTO)",
            _ => "",
        };
        format!("{}{remark} {}", code.arch, bytes::show(code.bytes))
    };
    let parts: Vec<String> = code.iter().map(part).collect();
    format!("code in {library}: {}", parts.join(", "))
}
