//! Runs the command on hostile input and checks everything that it writes.
#![expect(clippy::disallowed_methods, reason = "tests start the program and write its files")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::check::{self, Form};
use crate::payloads::{bundle, payloads};

/// How much is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One run for a part of the places.
    Quick,
    /// Every place with every command, and several payloads.
    Full,
}

/// The number of places of a document that are tested by default.
const QUICK: usize = 16;

/// A command line, the format of its standard output, and the files that it writes.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    arguments: Vec<String>,
    form: Form,
    files: Vec<(&'static str, Form)>,
    is_styled: bool,
    may_fail_before: bool,
}

/// A call without files. Words are separated by spaces.
pub(crate) fn call(form: Form, words: &str) -> Call {
    Call {
        arguments: words.split(' ').map(str::to_owned).collect(),
        form,
        files: Vec::new(),
        is_styled: false,
        may_fail_before: false,
    }
}

impl Call {
    /// Adds an argument, which may contain spaces.
    pub(crate) fn with(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Removes all arguments.
    pub(crate) fn cut(mut self) -> Self {
        self.arguments.clear();
        self
    }

    /// Accepts text on standard output if the command fails.
    pub(crate) fn or_text(mut self) -> Self {
        self.may_fail_before = true;
        self
    }

    /// The output has colours, which are removed before it is checked.
    pub(crate) fn without_styles(mut self) -> Self {
        self.is_styled = true;
        self
    }

    /// Adds a file that the command writes.
    pub(crate) fn writes(mut self, file: &'static str, form: Form) -> Self {
        self.files.push((file, form));
        self
    }
}

/// A temporary folder in which commands run, and the result of all runs.
pub(crate) struct Runs {
    folder: tempfile::TempDir,
    what: &'static str,
    variables: Vec<(String, String)>,
    payloads: Vec<String>,
    next: usize,
    count: usize,
    succeeded: usize,
    problems: Vec<String>,
}

impl Runs {
    /// `what` names the input in the summary.
    pub(crate) fn new(what: &'static str) -> Self {
        let mut payloads = payloads();
        payloads.dedup();
        assert!(payloads.len() >= 60);
        Self {
            folder: tempfile::tempdir().unwrap(),
            what,
            variables: Vec::new(),
            payloads,
            next: 0,
            count: 0,
            succeeded: 0,
            problems: Vec::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Sets a variable for the following runs.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(old, _)| old != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// The payloads of a place: all in one text, and with [`Extent::Full`] the next single ones.
    pub(crate) fn payloads(&mut self, extent: Extent) -> Vec<String> {
        let singles = if extent == Extent::Full { 6 } else { 1 };
        let mut list = vec![bundle()];
        for _ in 0..singles {
            // 37 and the number of payloads have no common divisor, so every payload has its turn.
            self.next = (self.next + 37) % self.payloads.len();
            list.push(self.payloads[self.next].clone());
        }
        list
    }

    /// A number below `count`, which differs from run to run.
    pub(crate) fn turn(&self, count: usize) -> usize {
        self.count % count
    }

    /// Runs the calls on an input that `plant` writes with a payload at a place. By default one call and payload per place.
    pub(crate) fn plant<S>(
        &mut self,
        extent: Extent,
        spots: &[S],
        calls: &[Call],
        plant: &dyn Fn(&Self, &S, &str),
    ) {
        let step = if extent == Extent::Full { 1 } else { spots.len().div_ceil(QUICK).max(1) };
        for (index, spot) in spots.iter().enumerate().step_by(step) {
            for (turn, payload) in self.payloads(extent).iter().enumerate() {
                if extent == Extent::Quick && (index / step + turn) % 2 == 1 {
                    continue;
                }
                plant(self, spot, payload);
                let all = extent == Extent::Full && turn == 0;
                let first = if all { 0 } else { self.count % calls.len() };
                let last = if all { calls.len() } else { first + 1 };
                for call in &calls[first..last] {
                    self.run(call);
                }
            }
        }
    }

    /// Runs one call.
    pub(crate) fn run(&mut self, call: &Call) {
        for (file, _) in &call.files {
            let _ = std::fs::remove_file(self.path(file));
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpubuild"));
        command.args(&call.arguments).current_dir(self.folder.path()).stdin(Stdio::null()).env_clear();
        command
            .env("GPUBUILD_CACHE", self.path("cache"))
            .env("GPUBUILD_STORE", "off")
            .env("HOME", self.path("home"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let output = command.output().unwrap_or_else(|error| panic!("{call:?}: {error}"));
        self.count += 1;
        self.succeeded += usize::from(output.status.success());
        let mut problems = Vec::new();
        if !matches!(output.status.code(), Some(0..=2)) {
            problems.push(format!("exit status {:?}", output.status));
        }
        let is_document = matches!(call.form, Form::Json | Form::Lines) && !call.may_fail_before;
        let is_expected = output.status.success() || is_document;
        if is_expected || !output.stdout.is_empty() {
            problems
                .extend(checked(call, call.form, &output.stdout).err().map(|why| format!("stdout: {why}")));
        }
        problems.extend(checked(call, Form::Text, &output.stderr).err().map(|why| format!("stderr: {why}")));
        let messages = String::from_utf8_lossy(&output.stderr);
        problems.extend(check::messages(&messages).err().map(|why| format!("stderr: {why}")));
        for (file, form) in &call.files {
            if let Ok(content) = std::fs::read(self.path(file)) {
                problems.extend(checked(call, *form, &content).err().map(|why| format!("{file}: {why}")));
            }
        }
        let words: String = call.arguments.join(" ").escape_debug().take(400).collect();
        self.problems.extend(problems.iter().map(|problem| format!("gpubuild {words}\n  {problem}")));
    }

    /// Prints what was run. Fails if an output was wrong, or if too few commands succeeded to test more than errors.
    #[track_caller]
    pub(crate) fn finish(self, minimum: usize) {
        let Self { what, count, succeeded, payloads, problems, .. } = self;
        println!(
            "{what}: {count} runs ({succeeded} succeeded), {} payloads, {} problems",
            payloads.len(),
            problems.len()
        );
        let first: Vec<&str> = problems.iter().map(String::as_str).take(12).collect();
        assert!(problems.is_empty(), "{} problems in {count} runs:\n{}", problems.len(), first.join("\n"));
        assert!(succeeded >= minimum, "{succeeded} of {count} runs succeeded");
    }
}

fn checked(call: &Call, form: Form, bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    if !call.is_styled {
        return check::output(form, text);
    }
    // The styles of gpubuild: bold, dim and four colours.
    let mut plain = text.to_owned();
    for style in ["0", "1", "2", "31", "32", "33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{style}m"), "");
    }
    check::output(form, &plain)
}

/// A file of this repository.
pub(crate) fn repository(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A file of this repository in TOML.
pub(crate) fn toml_file(name: &str) -> serde_json::Value {
    toml::from_str(&repository(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}
