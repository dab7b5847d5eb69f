//! `gpubuild test`: builds the project's test program and runs it for every backend.

use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Installation;
use gpubuild_exec::exec::{BuildBinary, BuildOutcome};
use gpubuild_host::{Command, HostPath, RunError};
use gpubuild_plan::plan::Plan;
use gpubuild_plan::project::Project;
use gpubuild_plan::project::profile::Tests;
use gpubuild_sources::LockPolicy;

use super::build::{BuildWork, NetworkArguments};
use super::cache;
use super::events::{ExplainMode, MessageFormat};
use super::machine::{self, HostArguments, MachineState};
use super::plan::{self, SelectionArguments};
use super::provision;
use super::sources;
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure, TextRole};
use crate::report::test::{BackendTests, TestDocument, TestState};

/// Time limit for the tests of one backend. Software devices are much slower than GPUs.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Exit code of the test program if it finds no device.
const NO_DEVICE: i32 = 3;

/// Folder of the tests' build trees in the build root.
const TEST_FOLDER: &str = "test";

/// Arguments of `test`.
#[derive(Debug, clap::Args)]
pub struct TestArguments {
    #[command(flatten)]
    selection: SelectionArguments,
    #[command(flatten)]
    target: TargetArgument,
    #[command(flatten)]
    network: NetworkArguments,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// Builds and runs the tests.
pub fn run(arguments: &TestArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    machine::check_overrides(context.host)?;
    let catalogue = HostArguments::default().catalogue(context)?;
    let network = arguments.network.network(context.host);
    sources::ensure(context, arguments.selection.project.as_deref(), network, LockPolicy::Keep)?;
    let selection = &arguments.selection.for_target(&arguments.target, context)?;
    let machine = machine::inspect_for(context.host, catalogue.clone(), &selection.target);
    let packages = (network, [].as_slice(), MessageFormat::Human);
    let mut machine = provision::install_packages(context, selection, machine, packages)?;
    let (mut project, mut plan) = plan::make(selection, context, context.host, &machine)?;
    let mode = provision::ProvisionMode {
        mirror: None,
        locks: &plan::locks(context, Some(&project))?,
        network,
        find_links: Vec::new(),
        format: MessageFormat::Human,
    };
    let updated = provision::install_and_replan(context, selection, catalogue, (&machine, &plan), &mode)?;
    if let Some(updated) = updated {
        (machine, project, plan) = updated;
    }
    plan::warn(&plan, context);
    let tests = tests_of(&project)?;
    let runner = selection.target.runner(context.host, &project.root)?;
    let root = project.build_root.join(TEST_FOLDER);
    let plan = with_tests(&plan, &tests, &root);
    let remote = cache::remote(context, Some(&project), network)?;
    let work = BuildWork {
        context,
        project: &project,
        machine: &machine,
        network,
        format: MessageFormat::Human,
        timings: None,
        binary: BuildBinary::No,
        store: cache::open(context, Some(&project))?,
        remote: remote.as_ref(),
        explain: ExplainMode::No,
        environment: None,
    };
    let replan = |without: &[(Backend, String)]| {
        plan::make_without(selection, context, context.host, &machine, without)
            .map(|(_, plan)| with_tests(&plan, &tests, &root))
            .map_err(|failure| failure.message)
    };
    let outcome = work.build_in(&root, &plan, Some(&replan))?;
    let named: Vec<Backend> = plan.trees.iter().flat_map(|tree| tree.named.clone()).collect();
    let mut reports = Vec::new();
    for backend in &outcome.manifest.backends {
        // The toolkits that were found are for this machine.
        let toolkit = toolkit_of(&machine, &outcome, *backend).filter(|_| selection.target.is_host());
        let report = test_backend(context, &outcome, (&tests, &runner), *backend)?;
        reports.push(BackendTests { toolkit, ..report });
    }
    let document = TestDocument::new(reports);
    print(context, &document, arguments.json)?;
    Ok(exit(&document, &named, arguments.selection.allow_missing))
}

/// Whether every backend passed. A backend that was named must also have a device.
fn exit(document: &TestDocument, named: &[Backend], allow_missing: bool) -> Exit {
    let is_negative = document.backends.iter().any(|report| {
        let lacks_device =
            report.state == TestState::NoDevice && named.contains(&report.id) && !allow_missing;
        report.failed > 0 || report.state == TestState::Broken || lacks_device
    });
    if is_negative { Exit::Negative } else { Exit::Done }
}

/// The copy of the backend's toolkit that its tree was configured with.
fn toolkit_of(machine: &MachineState, outcome: &BuildOutcome, backend: Backend) -> Option<String> {
    let description = machine.catalogue.for_backend(backend)?;
    let tree = outcome.manifest.trees.iter().find(|tree| tree.backends.contains(&backend))?;
    let copies = machine.inventory.of(&description.id);
    let configured = |copy: &&Installation| {
        let root = copy.root.to_string();
        tree.cache.values().any(|value| value.starts_with(&root))
    };
    let used = copies.iter().filter(configured).max_by_key(|copy| copy.root.to_string().len());
    let copy = used.or_else(|| machine.inventory.chosen(&description.id))?;
    let version = copy.version().map(|version| format!(" {version}")).unwrap_or_default();
    Some(format!("{}{version}", description.name))
}

fn tests_of(project: &Project) -> Result<Tests, Failure> {
    project.profile.tests.clone().ok_or_else(|| {
        let message = format!("the profile `{}` defines no test program", project.profile.id);
        Failure::usage(id!("test.none"), message)
            .hint("run the project's own tests, for example with `ctest`")
    })
}

/// Adds the test program to a plan and moves its trees to a separate folder, since toggling the option in one folder would rebuild
/// everything.
fn with_tests(plan: &Plan, tests: &Tests, root: &HostPath) -> Plan {
    let mut plan = plan.clone();
    plan.binary = None;
    for tree in &mut plan.trees {
        tree.build = root.join(&tree.id);
        tree.cache.insert(tests.option.clone(), "ON".to_owned());
        tree.targets.push(tests.target.clone());
    }
    plan
}

fn test_backend(
    context: &CommandContext<'_>,
    outcome: &BuildOutcome,
    (tests, runner): (&Tests, &[String]),
    backend: Backend,
) -> Result<BackendTests, Failure> {
    let tree = outcome.manifest.trees.iter().find(|tree| tree.backends.contains(&backend));
    let program = tree.and_then(|tree| tree.files.iter().find(|file| file.target == tests.target));
    let Some(program) = program else {
        return Ok(BackendTests::broken(backend, "the test program was not built"));
    };
    context.printer.status(&format!("testing {backend}"));
    let words: Vec<&str> = runner.iter().chain([&program.path]).map(String::as_str).collect();
    let command = Command::new(words[0], DEADLINE).args(words[1..].iter().copied()).args([
        "--backend",
        backend.id(),
        "--json",
    ]);
    let output = match context.host.run(&command) {
        Ok(output) => output,
        Err(RunError::Interrupted) => {
            return Err(Failure {
                exit: Exit::Interrupted,
                ..Failure::negative(id!("test.interrupted"), "interrupted")
            });
        }
        Err(error) => return Ok(BackendTests::broken(backend, &error.to_string())),
    };
    let report = BackendTests::parse(backend, &output.stdout);
    Ok(match (output.exit, report) {
        (Some(NO_DEVICE), Ok(report)) => BackendTests { state: TestState::NoDevice, ..report },
        (Some(0 | 1), Ok(report)) => report,
        (Some(0 | 1 | NO_DEVICE), Err(error)) => {
            BackendTests::broken(backend, &format!("the test program printed no report: {error}"))
        }
        _ => {
            let how = output.ending();
            let last = output.stderr.lines().last().unwrap_or_default();
            BackendTests::broken(backend, format!("the test program {how}: {last}").trim_end_matches(": "))
        }
    })
}

fn print(context: &CommandContext<'_>, document: &TestDocument, json: bool) -> Result<(), Failure> {
    if json {
        context.printer.json(document)?;
        return Ok(());
    }
    for report in &document.backends {
        let (role, state) = match report.state {
            TestState::Tested if report.failed > 0 => (TextRole::Bad, "FAILED"),
            TestState::Tested => (TextRole::Good, "passed"),
            TestState::NoDevice => (TextRole::Caution, "no device"),
            TestState::Broken => (TextRole::Bad, "BROKEN"),
        };
        let counts =
            format!("{} passed, {} failed, {} skipped", report.passed, report.failed, report.skipped);
        let device = [&report.device, &report.arch, &report.driver, &report.toolkit];
        let device: Vec<&str> = device.into_iter().filter_map(|text| text.as_deref()).collect();
        let remark = report.reason.clone().unwrap_or_else(|| device.join(", "));
        let line = format!(
            "{:<8}{} {counts} {remark}",
            report.id,
            context.printer.paint(role, &format!("{state:<10}"))
        );
        context.printer.print(line.trim_end())?;
        for case in report.failures() {
            context.printer.print(&format!("    {case}"))?;
        }
    }
    Ok(())
}
