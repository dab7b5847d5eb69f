//! `gpubuild build`: plans, downloads missing tools, builds, and runs cargo to link the program.

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::finding::Finding;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_exec::exec::timings::TimingRecorder;
use gpubuild_exec::exec::{
    self, BuildBinary, BuildError, BuildEvent, BuildJob, BuildOutcome, InstalledTools, Printed,
    RuntimeErrorKind, TreeState, known,
};
use gpubuild_exec::python::Network;
use gpubuild_exec::store::remote::RemoteLevel;
use gpubuild_exec::store::settings::Store;
use gpubuild_host::HostInfo;
use gpubuild_plan::artifacts::DeviceCode;
use gpubuild_plan::plan::{Plan, bytes};
use gpubuild_plan::project::Project;
use gpubuild_remote::RemoteStore;
use gpubuild_sources::LockPolicy;
use serde::Serialize;

use super::audit;
use super::cache;
use super::events::{Events, ExplainMode, MessageFormat};
use super::machine::{self, HostArguments, MachineState};
use super::plan::{self, SelectionArguments};
use super::provision;
use super::run;
use super::sources;
use super::target::TargetArgument;
use super::timings;
use super::toolkit::archives::archive_place;
use super::venv::AfterBuild;
use super::{CommandContext, Exit, Failure};
use crate::report;

/// Maximum length of a printed sentence, in characters.
const SENTENCE: usize = 400;

/// Arguments of `build`.
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
#[derive(Debug, clap::Args)]
pub struct BuildArguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    network: NetworkArguments,
    /// Fail if gpubuild.lock is missing or out of date
    #[arg(long)]
    locked: bool,
    /// Folder with wheels to install; may be repeated
    #[arg(long, value_name = "DIR")]
    find_links: Vec<String>,
    /// Folder or URL of a mirror of NVIDIA's archives (CUDA 12), from which missing toolkits are installed
    #[arg(long, value_name = "DIR|URL")]
    from: Option<String>,
    /// Do not install run-time libraries into the environment of `[python]` in gpubuild.toml
    #[arg(long)]
    no_venv: bool,
    /// Folder with additional toolkit descriptions; a known id replaces the built-in one
    #[arg(long, value_name = "DIR")]
    toolkits: Option<String>,
    /// Print the plan without running it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    store: StoreArguments,
    /// Format of progress messages
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    message_format: MessageFormat,
    /// Print a JSON document per event, one per line (same as `--message-format json`)
    #[arg(long, conflicts_with = "message_format")]
    json: bool,
    /// Build the libraries only, not the Rust program
    #[arg(long, conflicts_with = "run")]
    no_binary: bool,
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
    /// The arguments for commands that build first and define only some of the options.
    pub(super) fn of(
        (selection, target): (SelectionArguments, TargetArgument),
        network: NetworkArguments,
        find_links: Vec<String>,
        toolkits: Option<String>,
    ) -> Self {
        Self {
            selection,
            target,
            network,
            locked: false,
            find_links,
            from: None,
            toolkits,
            no_venv: true,
            dry_run: false,
            message_format: MessageFormat::Human,
            json: false,
            no_binary: false,
            store: StoreArguments { no_store: false, explain: false },
            timings: None,
            run: false,
            forwarded: Vec::new(),
        }
    }

    /// The same without the Rust program of the project.
    pub(super) fn without_program(self) -> Self {
        Self { no_binary: true, ..self }
    }

    fn format(&self) -> MessageFormat {
        if self.json { MessageFormat::Json } else { self.message_format }
    }

    /// Whether standard output is a stream of JSON lines.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.format() == MessageFormat::Json
    }
}

/// `--offline`, shared by the commands that build.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct NetworkArguments {
    /// Download nothing: no tools, crates or sources
    #[arg(long)]
    offline: bool,
}

impl NetworkArguments {
    /// The network policy of the flag, else of the environment.
    pub fn network(self, host: &dyn HostInfo) -> Network {
        if self.offline { Network::Offline } else { Network::from_env(host.env()) }
    }
}

/// Builds the project and, with `--run`, starts the program.
pub fn run(arguments: &BuildArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    if arguments.run && arguments.format() == MessageFormat::Json {
        let message = "`--message-format json` and `--run` both write to standard output";
        return Err(Failure::usage(id!("usage.conflict"), message)
            .hint("build first, then start the program with `gpubuild run`"));
    }
    let mut planned = planned(arguments, context)?;
    let runner = match &planned.plan.binary {
        Some(binary) if arguments.run => planned.selection.target.runner(context.host, &binary.package)?,
        _ => Vec::new(),
    };
    if arguments.no_venv {
        planned.plan.environment = None;
    }
    if arguments.run && planned.plan.binary.is_none() {
        return Err(
            Failure::usage(id!("run.no-binary"), "this project has no program to run").hint(run::NO_BINARY)
        );
    }
    if arguments.dry_run {
        match arguments.format() {
            MessageFormat::Human => plan::print(&planned.plan, context, false)?,
            MessageFormat::Json => {
                context
                    .printer
                    .json_line(&ProgressLine::Plan(Box::new(report::plan::PlanReport::new(&planned.plan))))?;
            }
        }
        return Ok(Exit::Done);
    }
    let (PlannedBuild { project, machine, .. }, outcome) = execute(planned, arguments, context)?;
    if arguments.format() == MessageFormat::Human {
        summary(context, &outcome);
    }
    // The audit searches the libraries of this machine.
    if outcome.state == TreeState::Built && outcome.manifest.target.is_none() {
        print_findings(
            context,
            arguments.format(),
            &audit::after_build(context, &project, &machine, &outcome),
        )?;
    }
    if !arguments.run {
        return Ok(Exit::Done);
    }
    let Some(program) = &outcome.program else {
        return Err(
            Failure::usage(id!("run.no-binary"), "this project has no program to run").hint(run::NO_BINARY)
        );
    };
    let folders = run::windows_folders(context, &project.build_root);
    let mut words = runner;
    words.push(program.path.clone());
    words.extend_from_slice(&arguments.forwarded);
    run::start(context, &words[0], &words[1..], &folders)
}

/// A plan with the inputs that it was computed from.
pub(super) struct PlannedBuild {
    pub(super) project: Project,
    pub(super) machine: MachineState,
    pub(super) plan: Plan,
    /// The selection, with the target.
    pub(super) selection: SelectionArguments,
    catalogue: Catalogue,
}

/// Plans and builds, for commands that continue with the build outputs.
pub(super) fn make(
    arguments: &BuildArguments,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    execute(planned(arguments, context)?, arguments, context)
}

fn planned(arguments: &BuildArguments, context: &CommandContext<'_>) -> Result<PlannedBuild, Failure> {
    let host_arguments = HostArguments { host: None, toolkits: arguments.toolkits.clone() };
    machine::check_overrides(context.host)?;
    let catalogue = host_arguments.catalogue(context)?;
    if !arguments.dry_run {
        let policy = if arguments.locked { LockPolicy::Locked } else { LockPolicy::Keep };
        let network = arguments.network.network(context.host);
        sources::ensure(context, arguments.selection.project.as_deref(), network, policy)?;
    }
    let selection = arguments.selection.for_target(&arguments.target, context)?;
    let mut machine = machine::inspect_for(context.host, catalogue.clone(), &selection.target);
    if !arguments.dry_run {
        let network = arguments.network.network(context.host);
        let links = provision::folders(context, &arguments.find_links)?;
        let mode = (network, links.as_slice(), arguments.format());
        machine = provision::install_packages(context, &selection, machine, mode)?;
    }
    let (project, plan) = plan::make(&selection, context, context.host, &machine)?;
    Ok(PlannedBuild { project, machine, plan, selection, catalogue })
}

/// Installs missing toolkits, if provisioning is enabled, and builds the plan.
fn execute(
    planned: PlannedBuild,
    arguments: &BuildArguments,
    context: &CommandContext<'_>,
) -> Result<(PlannedBuild, BuildOutcome), Failure> {
    let PlannedBuild { mut project, mut machine, mut plan, selection, catalogue } = planned;
    if plan.binary.is_some() && !arguments.no_binary {
        exec::binary::check_cargo(context.host).map_err(|error| failure(&error))?;
    }
    let network = arguments.network.network(context.host);
    let find_links = provision::folders(context, &arguments.find_links)?;
    let (archives, mirror) = archive_place(arguments.from.as_deref(), context)?;
    let mode = provision::ProvisionMode {
        locks: &plan::locks(context, Some(&project))?,
        network,
        find_links: find_links.iter().cloned().chain(archives).collect(),
        mirror,
        format: arguments.format(),
    };
    let updated =
        provision::install_and_replan(context, &selection, catalogue.clone(), (&machine, &plan), &mode)?;
    if let Some(updated) = updated {
        (machine, project, plan) = updated;
    }
    plan::warn(&plan, context);
    let replan = |without: &[(Backend, String)]| {
        plan::make_without(&selection, context, context.host, &machine, without)
            .map(|(_, plan)| plan)
            .map_err(|failure| failure.message)
    };
    let environment = AfterBuild::new(context, (&project, &machine), network, &find_links);
    let remote =
        if arguments.store.no_store { None } else { cache::remote(context, Some(&project), network)? };
    let work = BuildWork {
        context,
        project: &project,
        machine: &machine,
        network,
        format: arguments.format(),
        binary: if arguments.no_binary { BuildBinary::No } else { BuildBinary::Yes },
        store: if arguments.store.no_store { None } else { cache::open(context, Some(&project))? },
        remote: remote.as_ref(),
        explain: if arguments.store.explain { ExplainMode::Yes } else { ExplainMode::No },
        environment: environment.as_ref().filter(|_| !arguments.no_venv),
        timings: None,
    };
    let outcome = match &arguments.timings {
        Some(file) => timings::recorded(work, file, &|work| work.build(&plan, Some(&replan)))?,
        None => work.build(&plan, Some(&replan))?,
    };
    if arguments.format() == MessageFormat::Human
        && let Some(line) = remote.as_ref().and_then(|remote| report::remote::summary(&remote.usage()))
    {
        context.printer.status(&line);
    }
    Ok((PlannedBuild { project, machine, plan, selection, catalogue }, outcome))
}

/// Lines of `--message-format json` that are not build events.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub(crate) enum ProgressLine<'a> {
    /// The output of `--dry-run`.
    Plan(Box<report::plan::PlanReport<'a>>),
    /// Problems that would keep the outputs from starting on other machines.
    Audit {
        /// The same findings as in `gpubuild audit`.
        findings: &'a [Finding],
    },
}

/// Warns about problems that would keep the outputs from starting on other machines. They do not fail the build.
fn print_findings(
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
        context.printer.hint("`gpubuild audit` shows the evidence and the fixes");
    }
    Ok(())
}

/// The inputs of a build, shared by `build` and `test`.
pub(super) struct BuildWork<'a> {
    pub(super) context: &'a CommandContext<'a>,
    pub(super) project: &'a Project,
    pub(super) machine: &'a MachineState,
    pub(super) network: Network,
    pub(super) format: MessageFormat,
    pub(super) binary: BuildBinary,
    pub(super) store: Option<Store>,
    /// The second level of the store.
    pub(super) remote: Option<&'a RemoteStore<'a>>,
    pub(super) explain: ExplainMode,
    /// Receives the libraries that the build needs at run time.
    pub(super) environment: Option<&'a AfterBuild<'a>>,
    /// Records the build timings.
    pub(super) timings: Option<&'a TimingRecorder<'a>>,
}

impl BuildWork<'_> {
    /// Builds a plan in the project's build folder.
    pub(super) fn build(
        &self,
        plan: &Plan,
        replan: Option<exec::Replan<'_>>,
    ) -> Result<BuildOutcome, Failure> {
        self.build_in(&self.project.build_root, plan, replan)
    }

    /// Builds a plan whose trees are in the folder `root`.
    pub(super) fn build_in(
        &self,
        root: &gpubuild_host::HostPath,
        plan: &Plan,
        replan: Option<exec::Replan<'_>>,
    ) -> Result<BuildOutcome, Failure> {
        let events = Events::new(self.context.printer, self.format).with_explain(self.explain);
        let sink = |event: &BuildEvent| {
            if let Some(recorder) = self.timings {
                recorder.event(event);
            }
            events.show(event);
        };
        let environment = self.environment;
        let provide = || environment.map_or(Ok(()), |environment| environment.provide(&sink));
        let explain = |printed: Printed<'_>| {
            known::explain(self.context.host, &self.machine.facts, &self.machine.catalogue, printed)
        };
        let direct = sources::wheels(self.context, &self.machine.facts, self.network);
        let job = BuildJob {
            host: self.context.host,
            project: self.project.file.project.name.clone(),
            root: root.clone(),
            lock: exec::folder::lock_path(&self.project.build_root),
            tools: InstalledTools::of(&self.machine.inventory),
            network: self.network,
            direct: Some(&direct),
            binary: self.binary,
            replan,
            explain: Some(&explain),
            store: self.store.clone(),
            remote: self.remote.map(|remote| remote as &dyn RemoteLevel),
            runtime: environment.is_some().then_some(&provide),
            sink: &sink,
        };
        let result = exec::build(&job, plan);
        drop(events);
        result.map_err(|error| failure(&error))
    }
}

/// Converts a build error into a failure with notes for its causes.
pub(super) fn failure(error: &BuildError) -> Failure {
    let mut failure = Failure::of(error, Exit::Negative);
    failure.findings = error.causes().to_vec();
    failure.notes = notes(error.causes()).into();
    if let BuildError::Runtime(error) = error {
        failure.findings.clone_from(&error.findings);
        failure.exit = match error.kind {
            RuntimeErrorKind::Refused => Exit::Usage,
            RuntimeErrorKind::Failed => Exit::Negative,
            RuntimeErrorKind::Interrupted => Exit::Interrupted,
        };
    }
    if matches!(
        error,
        BuildError::Interrupted | BuildError::Fetch(gpubuild_exec::python::WheelFetchError::Interrupted)
    ) {
        failure.exit = Exit::Interrupted;
    }
    if matches!(error, BuildError::UnusedEntries { .. } | BuildError::NotRegular { .. }) {
        failure.exit = Exit::Usage;
    }
    failure
}

/// The root cause with its fix, and one line per additional cause.
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
        TreeState::Unchanged => "up to date:",
        TreeState::Built => "built",
        TreeState::Taken => "restored from the build store:",
    };
    let program =
        outcome.program.as_ref().map(|program| format!(", program {}", program.path)).unwrap_or_default();
    context.printer.success(done, &format!("{} ({}{program})", built.join(", "), outcome.path));
    if outcome.state != TreeState::Unchanged {
        for (library, code) in outcome.manifest.device_code() {
            context.printer.status(&code_of(&library, &code));
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
