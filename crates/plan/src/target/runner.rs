//! Finds the program that starts programs of a target: what cargo is configured with, else an emulator on PATH.

use std::collections::BTreeMap;

use gpubuild_core::template;
use gpubuild_detect::id;
use gpubuild_detect::matrix::Reason;
use gpubuild_host::{HostPath, ReadFiles, search};
use serde::Deserialize;

use super::{Target, table};
use crate::cargo;

/// An emulator for programs of other platforms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmulatorRow {
    /// Operating system of the programs.
    os: String,
    /// Operating systems of the machine.
    on: Vec<String>,
    /// Whether the programs must be for the processor architecture of the machine.
    #[serde(default)]
    same_arch: bool,
    /// The programs on PATH, best first. `{arch}` is the emulator's name of the architecture.
    programs: Vec<String>,
    /// Its names of architectures that differ from Rust's.
    #[serde(default)]
    archs: BTreeMap<String, String>,
    libraries: Option<LibraryFolder>,
    /// How to install it.
    hint: String,
}

/// The folder with the libraries of dynamically linked programs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LibraryFolder {
    /// The option that sets it.
    option: String,
    /// The variable that sets it instead.
    variable: String,
    /// Where a distribution installs the libraries. `{system}` is the target without the vendor.
    folder: String,
}

/// The part of cargo's configuration that is read.
#[derive(Debug, Default, Deserialize)]
struct CargoConfig {
    #[serde(default)]
    target: BTreeMap<String, CargoTarget>,
}

#[derive(Debug, Default, Deserialize)]
struct CargoTarget {
    runner: Option<RunnerForm>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RunnerForm {
    Line(String),
    Words(Vec<String>),
}

/// Whether an expression such as `cfg(target_os = "linux")` applies to a target.
pub type AppliesTo<'a> = &'a dyn Fn(&str, &Target) -> bool;

/// The command that starts programs of a target, without the program: empty if this machine runs them itself. Order: the variable and the
/// configuration of cargo in `folder`, this machine, an emulator on PATH.
///
/// # Errors
/// This machine cannot run them, or a configuration file of cargo is invalid.
pub fn runner(
    host: &dyn ReadFiles,
    target: &Target,
    folder: &HostPath,
    applies: AppliesTo<'_>,
) -> Result<Vec<String>, Reason> {
    let variable = target.cargo_variable("RUNNER");
    if let Some(line) = host.env().get(&variable) {
        return Ok(words(line));
    }
    if let Some(words) = configured(host, target, folder, applies)? {
        return Ok(words);
    }
    if target.runs_on(host.platform()) {
        return Ok(Vec::new());
    }
    let rows: Vec<&EmulatorRow> = table().emulator.iter().filter(|row| row.is_for(host, target)).collect();
    if let Some(words) = rows.iter().find_map(|row| row.find(host, target)) {
        return Ok(words);
    }
    let hints = rows.iter().map(|row| row.hint.clone());
    let hints = hints.chain([format!("set `{variable}` to a program that starts them")]);
    let hints: Vec<String> = hints.collect();
    Err(Reason::new(
        id!("cross.runner-missing"),
        format!("this machine cannot run programs for {}", target.triple),
    )
    .hint(hints.join(", or ")))
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

/// A runner in cargo's configuration, and the file that sets it.
struct ConfiguredRunner {
    form: RunnerForm,
    file: HostPath,
}

impl ConfiguredRunner {
    /// The words of the command. A relative path is relative to the folder of `.cargo`, as in cargo. `None` if it is empty.
    fn words(self, host: &dyn ReadFiles) -> Option<Vec<String>> {
        let mut found = match self.form {
            RunnerForm::Line(line) => words(&line),
            RunnerForm::Words(words) => words,
        };
        let program = found.first_mut()?;
        let is_relative = program.contains(['/', '\\']) && !host.path(program).is_absolute();
        if let Some(root) = self.file.parent().and_then(|folder| folder.parent()).filter(|_| is_relative) {
            *program = root.join(program).normalized().to_string();
        }
        Some(found)
    }
}

/// The runner of a target in cargo's configuration: of its own table in any file, else of the only `cfg(…)` table that applies to it. The
/// same table of a nearer file has precedence.
fn configured(
    host: &dyn ReadFiles,
    target: &Target,
    folder: &HostPath,
    applies: AppliesTo<'_>,
) -> Result<Option<Vec<String>>, Reason> {
    let mut by_condition: BTreeMap<String, ConfiguredRunner> = BTreeMap::new();
    for file in cargo::config_files(host, folder) {
        let invalid = |why: String| {
            Reason::new(id!("cross.cargo-config"), format!("failed to read `{file}`: {why}"))
                .hint("correct the file: cargo reads it too")
        };
        let text = host.read_text(&file).map_err(|error| invalid(error.to_string()))?;
        let config: CargoConfig =
            gpubuild_toml::from_str(&text).map_err(|error| invalid(error.message().to_owned()))?;
        for (name, table) in config.target {
            let Some(form) = table.runner else { continue };
            let runner = ConfiguredRunner { form, file: file.clone() };
            if name == target.triple {
                if let Some(words) = runner.words(host) {
                    return Ok(Some(words));
                }
            } else if name.starts_with("cfg(") && applies(&name, target) {
                by_condition.entry(name).or_insert(runner);
            }
        }
    }
    if by_condition.len() > 1 {
        let names: Vec<String> =
            by_condition.keys().map(|name| format!("`target.'{name}'.runner`")).collect();
        let message = format!("several runners apply to {}: {}", target.triple, names.join(", "));
        return Err(Reason::new(id!("cross.cargo-config"), message)
            .hint(format!("set `runner` in `[target.{}]`, which has precedence", target.triple)));
    }
    Ok(by_condition.into_values().next().and_then(|runner| runner.words(host)))
}

impl EmulatorRow {
    fn is_for(&self, host: &dyn ReadFiles, target: &Target) -> bool {
        let here = host.platform();
        target.os.is_some_and(|os| os.id() == self.os)
            && self.on.iter().any(|os| os == here.os.id())
            && (!self.same_arch || target.arch == here.arch.id())
    }

    /// The first of the programs on PATH, with the folder of the target's libraries if this machine has them.
    fn find(&self, host: &dyn ReadFiles, target: &Target) -> Option<Vec<String>> {
        let arch = self.archs.get(&target.arch).unwrap_or(&target.arch);
        let fill = |text: &str, value: &str| template::fill(text, |_| Some(value.to_owned()));
        let programs = self.programs.iter().filter_map(|name| fill(name, arch));
        let program =
            programs.into_iter().find_map(|name| search::find_program(host, &name).into_iter().next())?;
        let mut words = vec![program.to_string()];
        if let Some(libraries) = &self.libraries
            && host.env().get(&libraries.variable).is_none()
        {
            let folder = host.path(&fill(&libraries.folder, &target.system())?);
            if host.is_dir(&folder) {
                words.extend([libraries.option.clone(), folder.to_string()]);
            }
        }
        Some(words)
    }
}

/// Whether each operating system in the rows of emulators exists, for the test of the table.
#[cfg(test)]
pub(super) fn has_known_systems(row: &EmulatorRow) -> bool {
    use gpubuild_core::Os;
    let known = |id: &String| [Os::Linux, Os::Macos, Os::Windows].iter().any(|os| os.id() == id);
    known(&row.os) && row.on.iter().all(known)
}
