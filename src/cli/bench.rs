//! `gpubuild bench`: measures the built program on every backend, interleaved.

use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_detect::id;
use gpubuild_exec::exec::binary;
use gpubuild_host::{Command, RunError};
use gpubuild_plan::artifacts::Manifest;
use gpubuild_plan::artifacts::manifest_path;

use super::document::check_replaceable;
use super::project::open_project;
use super::run::{NO_BINARY, runner, windows_folders, with_folders};
use super::target::TargetArgument;
use super::{CommandContext, Exit, Failure, absolute};
use crate::report::bench::{BackendBench, BenchDocument};
use crate::report::rows;

/// Time limit for one round of one backend. A large model on a slow device takes minutes.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArguments {
    /// Measure only these backends; fail if one has no result
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    backends: Vec<Backend>,
    /// Number of rounds; each measures every backend once, and the best result counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Write a plot of the results
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    /// Folder of the project [default: the nearest parent folder with gpubuild.toml]
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    #[command(flatten)]
    target: TargetArgument,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Additional arguments for the program, after `--`, such as a model
    #[arg(last = true, value_name = "ARGS")]
    more: Vec<String>,
}

/// Measures every backend.
pub fn run(arguments: &BenchArguments, context: &CommandContext<'_>) -> Result<Exit, Failure> {
    let mut project = open_project(context, arguments.project.as_deref())?;
    let target = arguments.target.apply_to(&mut project)?;
    let Some(table) = &project.file.binary else {
        return Err(Failure::usage(id!("bench.no-binary"), "this project has no program to benchmark")
            .hint(NO_BINARY));
    };
    if table.bench.is_empty() {
        return Err(Failure::usage(id!("bench.none"), "gpubuild.toml does not define a benchmark").hint(
            "set `bench = [\"bench\"]` under `[binary]`: with these arguments, `--backend ID` and `--json`, the program must print \
             an `infer-bench` document (docs/reference/json.md)",
        ));
    }
    let nothing_built = || {
        Failure::usage(id!("bench.nothing-built"), "no program has been built yet")
            .hint("run `gpubuild build`")
    };
    let manifest =
        Manifest::read(context.host, &manifest_path(&project.build_root)).map_err(|_| nothing_built())?;
    let program = binary::last_built(context.host, &project.build_root)
        .filter(|program| context.host.is_file(&context.host.path(&program.path)))
        .ok_or_else(nothing_built)?;
    let backends = selected_backends(&arguments.backends, &manifest)?;
    let folders = windows_folders(context, &project.build_root);
    let mut words = runner(context, &project, &target)?;
    words.push(program.path);
    let bench = BenchProgram { context, words: &words, table: &table.bench, more: &arguments.more, folders };

    let plot = arguments.svg.as_deref().map(|file| absolute(context, file)).transpose()?;
    if let Some(path) = &plot {
        check_replaceable(context, path, |text| text.contains("<title id=\"t\">tokens per second"))?;
    }
    let mut results: Vec<Option<BackendBench>> = vec![None; backends.len()];
    for round in 1..=arguments.rounds {
        for (backend, result) in backends.iter().zip(&mut results) {
            if result.as_ref().is_some_and(|before| before.reason.is_some()) {
                continue;
            }
            context.printer.status(&format!("measuring {backend}, round {round} of {}", arguments.rounds));
            let now = bench.run(*backend)?;
            *result = Some(match result.take() {
                Some(before) => before.and(now),
                None => now,
            });
        }
    }
    let document = BenchDocument::new(results.into_iter().flatten().collect());
    if let Some(path) = &plot {
        context.host.write(path, document.svg().as_bytes()).map_err(|error| {
            Failure::negative(
                id!("bench.unwritable"),
                format!("failed to write the plot to `{path}`: {error}"),
            )
            .hint("specify another file with `--svg FILE`")
        })?;
    }
    print(context, &document, arguments.json)?;
    let some_failed = document.backends.iter().any(|report| report.reason.is_some());
    let all_failed = document.backends.iter().all(|report| report.reason.is_some());
    if all_failed || (some_failed && !arguments.backends.is_empty()) {
        Ok(Exit::Negative)
    } else {
        Ok(Exit::Done)
    }
}

/// The named backends, or all backends of the program.
fn selected_backends(named: &[Backend], manifest: &Manifest) -> Result<Vec<Backend>, Failure> {
    if named.is_empty() {
        return Ok(manifest.backends.clone());
    }
    if let Some(missing) = named.iter().find(|backend| !manifest.backends.contains(backend)) {
        return Err(Failure::usage(
            id!("bench.not-built"),
            format!("the program was built without `{missing}`"),
        )
        .hint(format!("run `gpubuild build --backends {missing}`")));
    }
    Ok(named.to_vec())
}

/// The program with the arguments that all backends share.
struct BenchProgram<'a> {
    context: &'a CommandContext<'a>,
    /// The program, after the one that starts it.
    words: &'a [String],
    table: &'a [String],
    more: &'a [String],
    folders: Vec<String>,
}

impl BenchProgram<'_> {
    /// Runs the program once. The result of a failed run contains the reason instead of values.
    fn run(&self, backend: Backend) -> Result<BackendBench, Failure> {
        let all = self.words[1..].iter().chain(self.table).chain(self.more).map(String::as_str);
        let command =
            Command::new(&self.words[0], DEADLINE).args(all).args(["--backend", backend.id(), "--json"]);
        let output = match self.context.host.run(&with_folders(self.context, command, &self.folders)) {
            Ok(output) => output,
            Err(RunError::Interrupted) => {
                return Err(Failure {
                    exit: Exit::Interrupted,
                    ..Failure::negative(id!("bench.interrupted"), "interrupted")
                });
            }
            Err(error) => return Ok(BackendBench::without(backend, error.to_string())),
        };
        if output.exit == Some(0) {
            return Ok(BackendBench::parse(backend, &output.stdout)
                .unwrap_or_else(|error| BackendBench::without(backend, format!("invalid output: {error}"))));
        }
        let last = output.stderr.lines().rfind(|line| !line.trim().is_empty());
        let why = last.map_or_else(|| format!("it {}", output.ending()), |line| line.trim().to_owned());
        Ok(BackendBench::without(backend, why))
    }
}

fn print(context: &CommandContext<'_>, document: &BenchDocument, json: bool) -> Result<(), Failure> {
    if json {
        context.printer.json(document)?;
        return Ok(());
    }
    for line in rows::table(&document.rows()) {
        context.printer.print(&line)?;
    }
    context.printer.print("")?;
    for line in &document.guidance {
        context.printer.print(line)?;
    }
    Ok(())
}
