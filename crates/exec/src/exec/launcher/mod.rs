//! Compiler launchers: tests each one with its compiler before configuring.

pub(super) mod farm;
pub mod statistics;

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_host::{Command, CommandOutput, Host, HostPath, RunError, find_program};
use gpubuild_plan::plan::PlannedTree;
use gpubuild_plan::plan::launchers::{LANGUAGES, entry};
use serde::{Deserialize, Serialize};

use crate::cmake;
use crate::event::{BuildEvent, Sink};
use crate::store::sha256;

use self::statistics::{LauncherOutcome, parse_log, with_env};

/// Time limit for compiling the test file. The first call of a launcher may start a server or package the compiler.
const TRIAL_DEADLINE: Duration = Duration::from_secs(120);
/// How often a client of sccache is started if it does not wait long enough for its server, which takes more than ten seconds to start
/// on a busy machine.
const STARTS: u32 = 3;
/// The beginning of that client's message.
const STARTING: &str = "Timed out waiting for server startup";

/// The result of testing a launcher with a compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LauncherTrial {
    /// Hash of the launcher, the compiler and the plan's variables.
    key: String,
    /// Why the launcher cannot be used; `None` if it can.
    fault: Option<String>,
}

/// Tests every launcher of a tree with its compiler, and removes unusable ones from the plan. Results are kept in
/// `launchers.json` and reused while the pair is unchanged.
pub(super) fn remove_unusable(host: &dyn Host, sink: Sink<'_>, tree: &mut PlannedTree) {
    let path = cmake::own_folder(tree).join("launchers.json");
    let known: BTreeMap<String, LauncherTrial> = crate::store::read_json(host, &path).unwrap_or_default();
    let mut trials = BTreeMap::new();
    for language in LANGUAGES {
        let name = entry(language);
        let Some(value) = tree.cache.get(&name).filter(|value| !value.is_empty()).cloned() else { continue };
        let pair = LauncherPair { host, tree, language, launcher: value.split(';').collect() };
        let key = pair.key();
        let trial = match known.get(language).filter(|trial| trial.key == key) {
            Some(trial) => trial.clone(),
            None => LauncherTrial { key, fault: pair.fault() },
        };
        if let Some(why) = &trial.fault {
            let (tree_id, language) = (tree.id.clone(), language.to_owned());
            let event =
                BuildEvent::LauncherDropped { tree: tree_id, language, launcher: value, why: why.clone() };
            tree.cache.insert(name, String::new());
            sink(&event);
        }
        trials.insert(language.to_owned(), trial);
    }
    if trials != known
        && !(trials.is_empty() && known.is_empty())
        && let Err(error) = crate::store::write_json(host, &path, &trials)
    {
        // The next build tests the launchers again.
        log::debug!("failed to save the results of the launcher tests in `{path}`: {error}");
    }
}

/// A launcher and the compiler that it runs.
struct LauncherPair<'a> {
    host: &'a dyn Host,
    tree: &'a PlannedTree,
    language: &'a str,
    launcher: Vec<&'a str>,
}

impl LauncherPair<'_> {
    /// Hash of the paths, sizes and times of the programs, and of the plan's variables.
    fn key(&self) -> String {
        let mut parts: Vec<String> = self.launcher.iter().map(|part| self.identity(part)).collect();
        parts.extend(self.compiler().map(|compiler| self.identity(compiler.as_str())));
        parts.extend(self.tree.cache.get("CMAKE_CUDA_HOST_COMPILER").cloned());
        parts.extend(self.tree.env.iter().map(|(name, value)| format!("{name}={value}")));
        sha256(parts.join("\n").as_bytes())
    }

    fn identity(&self, program: &str) -> String {
        let stat = self.host.stat(&self.host.path(program)).ok();
        format!("{program} {:?}", stat.map(|stat| (stat.size, stat.modified)))
    }

    /// The compiler that CMake will select, as far as it is known before CMake runs.
    fn compiler(&self) -> Option<HostPath> {
        let (variable, names): (&str, &[&str]) = match self.language {
            "C" => ("CC", &["cc", "gcc", "clang", "cl"]),
            "CXX" => ("CXX", &["c++", "g++", "clang++", "cl"]),
            "CUDA" => ("CUDACXX", &["nvcc"]),
            _ => ("HIPCXX", &[]),
        };
        if let Some(path) = self.tree.cache.get(&format!("CMAKE_{}_COMPILER", self.language)) {
            return Some(self.host.path(path));
        }
        let requested = self.host.env().get(variable).and_then(|value| value.split_whitespace().next());
        let found = |name: &str| match self.host.path(name) {
            path if path.is_absolute() => Some(path),
            _ => find_program(self.host, name).into_iter().next(),
        };
        requested.and_then(found).or_else(|| names.iter().find_map(|name| found(name)))
    }

    /// Why this launcher cannot run this compiler; `None` if it can.
    fn fault(&self) -> Option<String> {
        let Some(compiler) = self.compiler() else {
            return Some(
                "its compiler is not known before configuring, so it could not be tested".to_owned(),
            );
        };
        let real = self.host.canonical(&compiler).unwrap_or_else(|_| compiler.clone());
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| stem(real.as_str()) == **wrapper) {
            return Some(format!("the compiler `{compiler}` is already `{wrapper}`, which cannot be nested"));
        }
        match self.in_folder(|folder| self.fault_in(folder, &compiler)) {
            Ok(fault) => fault,
            Err(error) => Some(format!("it could not be tested: {error}")),
        }
    }

    /// Does something in a temporary folder.
    fn in_folder<T>(&self, work: impl FnOnce(&HostPath) -> std::io::Result<T>) -> std::io::Result<T> {
        let folder = self.host.temporary_dir(&cmake::own_folder(self.tree))?;
        let result = work(&folder);
        // A leftover temporary folder does no harm.
        let _ = self.host.remove(&folder);
        result
    }

    fn fault_in(&self, folder: &HostPath, compiler: &HostPath) -> std::io::Result<Option<String>> {
        let trial = Trial::new(self, folder, compiler)?;
        let message = match trial.started() {
            Ok(output) if output.success() => return Ok(self.uncached(folder)),
            Ok(output) => message(&output),
            Err(error) => error.to_string(),
        };
        // If the compiler also fails without the launcher, CMake reports the error.
        let alone = trial.run(&[]).is_ok_and(|output| output.success());
        Ok(alone.then(|| format!("`{compiler}` works alone but fails with it: {message}")))
    }

    /// Why the launcher does not cache this compiler's output. Such a launcher only costs time.
    fn uncached(&self, folder: &HostPath) -> Option<String> {
        let log = self.host.read_text(&folder.join("log")).ok()?;
        let calls = parse_log(&log);
        let why = calls.iter().find_map(|call| match call.outcome {
            LauncherOutcome::Hit | LauncherOutcome::Miss => None,
            LauncherOutcome::Other => Some(call.results.join(", ")),
        })?;
        Some(format!("it does not cache the output of this compiler ({why})"))
    }
}

/// A small source that a launcher and its compiler compile.
struct Trial<'a> {
    pair: &'a LauncherPair<'a>,
    folder: &'a HostPath,
    compiler: &'a HostPath,
    arguments: Vec<String>,
    /// Variables in addition to those of the plan.
    env: Vec<(&'a str, String)>,
}

impl<'a> Trial<'a> {
    /// Writes the source.
    fn new(
        pair: &'a LauncherPair<'_>,
        folder: &'a HostPath,
        compiler: &'a HostPath,
    ) -> std::io::Result<Self> {
        let source = match pair.language {
            "C" => "trial.c",
            "CXX" => "trial.cpp",
            "CUDA" => "trial.cu",
            _ => "trial.hip",
        };
        let text = "int gpubuild_trial(void);\nint gpubuild_trial(void) { return 1; }\n";
        pair.host.write(&folder.join(source), text.as_bytes())?;
        let arguments = arguments(pair, compiler, source);
        Ok(Self { pair, folder, compiler, arguments, env: vec![(STATSLOG, folder.join("log").to_string())] })
    }

    fn run(&self, launcher: &[&str]) -> Result<CommandOutput, RunError> {
        let mut argv = launcher.iter().copied().chain([self.compiler.as_str()]);
        let command = Command::new(argv.next().unwrap_or_default(), TRIAL_DEADLINE)
            .args(argv)
            .args(self.arguments.iter().map(String::as_str))
            .current_dir(self.folder.clone());
        let mut command = with_env(command, self.pair.tree);
        for (name, value) in &self.env {
            command = command.env(*name, value);
        }
        self.pair.host.run(&command)
    }

    /// Runs the launcher again while its client does not wait long enough for its server.
    fn started(&self) -> Result<CommandOutput, RunError> {
        let mut starts = 1;
        loop {
            let output = self.run(&self.pair.launcher)?;
            if starts >= STARTS || output.success() || !output.stderr.contains(STARTING) {
                return Ok(output);
            }
            starts += 1;
        }
    }
}

/// The first error in the output of a launcher.
fn message(output: &CommandOutput) -> String {
    let lines: Vec<&str> = output.stderr.lines().chain(output.stdout.lines()).collect();
    let first = crate::diagnose::first_error(&lines).map(|error| error.message);
    first.unwrap_or_else(|| "it failed without output".to_owned())
}

/// Arguments that compile the source in the same way as CMake.
fn arguments(pair: &LauncherPair<'_>, compiler: &HostPath, source: &str) -> Vec<String> {
    let words: &[&str] = match (pair.language, stem(compiler.as_str()).as_str()) {
        ("C" | "CXX", "cl" | "clang-cl") => &["/nologo", "/c", "/Fotrial.obj", source],
        ("CUDA", _) => {
            &["-MD", "-MT", "trial.o", "-MF", "trial.d", "-x", "cu", "-c", source, "-o", "trial.o"]
        }
        ("HIP", _) => {
            &["-MD", "-MT", "trial.o", "-MF", "trial.d", "-o", "trial.o", "-x", "hip", "-c", source]
        }
        _ => &["-MD", "-MT", "trial.o", "-MF", "trial.d", "-o", "trial.o", "-c", source],
    };
    let mut arguments: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(cxx) = pair.tree.cache.get("CMAKE_CUDA_HOST_COMPILER").filter(|_| pair.language == "CUDA") {
        arguments.insert(0, format!("-ccbin={cxx}"));
    }
    arguments
}

/// Launchers that are often installed as links with the names of compilers.
const WRAPPERS: [&str; 4] = ["ccache", "sccache", "distcc", "icecc"];
/// The variable that sets ccache's statistics log, which [`parse_log`] reads.
const STATSLOG: &str = "CCACHE_STATSLOG";

/// The lowercase name of a program without folder and `.exe`.
fn stem(program: &str) -> String {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program).to_ascii_lowercase();
    name.strip_suffix(".exe").map_or(name.clone(), str::to_owned)
}
