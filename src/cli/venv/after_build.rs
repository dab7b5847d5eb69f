//! The environment of `[python]` in gpubuild.toml: `gpubuild build` installs the wheels into it that the build needs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_exec::event::Sink;
use gpubuild_exec::exec::{BuildEvent, RuntimeError, RuntimeErrorKind};
use gpubuild_exec::python::Network;
use gpubuild_host::HostPath;
use gpubuild_plan::project::Project;
use gpubuild_toolchain::venv::provide::{Mode, WheelOutcome};
use gpubuild_toolchain::venv::{VenvProblem, WheelTable};

use super::output::VenvResult;
use super::work::{VenvRequest, VenvWork};
use super::{failure, project_folder, project_table};
use crate::cli::machine::MachineState;
use crate::cli::{CommandContext, Exit, Failure};

/// The environment of a project that is built.
pub(in crate::cli) struct AfterBuild<'a> {
    context: &'a CommandContext<'a>,
    project: &'a Project,
    machine: &'a MachineState,
    network: Network,
    find_links: &'a [HostPath],
    /// Whether the environment was reported: a build checks it before and after it links the program.
    reported: AtomicBool,
}

impl<'a> AfterBuild<'a> {
    /// The environment of a project; `None` if its file names none.
    pub(in crate::cli) fn new(
        context: &'a CommandContext<'a>,
        (project, machine): (&'a Project, &'a MachineState),
        network: Network,
        find_links: &'a [HostPath],
    ) -> Option<Self> {
        project.file.python.as_ref()?.venv.as_ref()?;
        Some(Self { context, project, machine, network, find_links, reported: AtomicBool::new(false) })
    }

    /// Installs the wheels that the last build needs, and reports them as an event. Does nothing if none is needed.
    pub(in crate::cli) fn provide(&self, sink: Sink<'_>) -> Result<(), RuntimeError> {
        let table = project_table(self.project, self.context).map_err(|problem| self.problem(&problem))?;
        self.install(&table, sink).map_err(Self::error)
    }

    fn install(&self, table: &WheelTable, sink: Sink<'_>) -> Result<(), Failure> {
        let work = VenvWork {
            request: VenvRequest {
                is_named: false,
                python: None,
                backends: None,
                cuda: None,
                network: self.network,
                find_links: self.find_links.to_vec(),
                mode: Mode::Install,
                lock: None,
                copy_to: None,
            },
            context: self.context,
            project: Some(self.project),
            folder: project_folder(self.project),
            machine: self.machine,
            table,
            sink,
        };
        let result = work.run()?;
        let is_first = !self.reported.swap(true, Ordering::Relaxed);
        let event = event(&result);
        let is_news = |event: &BuildEvent| matches!(event, BuildEvent::Environment { installed, .. } if !installed.is_empty());
        if is_first || event.as_ref().is_some_and(is_news) {
            result.print_findings(self.context);
            event.iter().for_each(sink);
        }
        Ok(())
    }

    fn problem(&self, problem: &VenvProblem) -> RuntimeError {
        Self::error(failure(self.machine, problem))
    }

    fn error(failure: Failure) -> RuntimeError {
        let without = "`--no-venv` builds without the environment";
        let hint = failure.hint.map_or_else(|| without.to_owned(), |hint| format!("{hint}; {without}"));
        RuntimeError {
            id: failure.id,
            message: failure.message,
            hint: Some(hint),
            findings: failure.findings,
            kind: match failure.exit {
                Exit::Usage => RuntimeErrorKind::Refused,
                Exit::Interrupted => RuntimeErrorKind::Interrupted,
                _ => RuntimeErrorKind::Failed,
            },
        }
    }
}

/// The event of an environment; `None` if the build needs none.
fn event(result: &VenvResult<'_>) -> Option<BuildEvent> {
    let (provided, choice) = (result.provided.as_ref()?, result.choice.as_ref()?);
    let versions: BTreeMap<String, String> =
        provided.wheels.iter().map(|(wheel, _)| (wheel.package.clone(), wheel.version.clone())).collect_map();
    let installed = provided.wheels.iter().filter(|(_, outcome)| *outcome != WheelOutcome::Present);
    Some(BuildEvent::Environment {
        path: provided.environment.folder.to_string(),
        cuda: choice.release.cuda.as_str().to_owned(),
        wheels: versions,
        installed: installed.map(|(wheel, _)| wheel.package.clone()).collect(),
    })
}
