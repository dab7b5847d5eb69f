//! The document of `gpubuild doctor --resolvers`: the toolkit that each build system selects, and the shell lines that make them agree.

use gpubuild_core::backend::Backend;
use gpubuild_core::shell;
use gpubuild_doctor::resolvers::agree::{ResolverChange, takes};
use gpubuild_doctor::resolvers::line_text;
use gpubuild_doctor::resolvers::{Agreement, AgreementLine, PassedOver, Resolution, Resolutions};
use gpubuild_host::Os;
use serde::Serialize;

use super::Schema;

/// The document of `doctor --resolvers --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResolversReport {
    schema: Schema,
    /// The selection of each build system.
    pub resolvers: Vec<ResolverEntry>,
    /// Whether all of them select the same copies as gpubuild, for every installed toolkit.
    pub agree: bool,
    /// The selection of gpubuild.
    pub chosen: Vec<ChosenEntry>,
    /// Lines for the shell of this platform that make them agree, in order.
    pub lines: Vec<LineEntry>,
    /// CMake cache entries with the same effect on a single build.
    pub cmake: Vec<CmakeArgument>,
    /// Build systems that no line makes agree.
    pub exceptions: Vec<ExceptionEntry>,
}

/// The selection of a build system.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResolverEntry {
    /// Id of the resolver.
    pub id: String,
    /// Name of the build system.
    pub name: String,
    /// The backend that is built.
    pub backend: Backend,
    /// Id of the toolkit.
    pub toolkit: String,
    /// The copy that it selects, or would select without the error.
    pub takes: Option<TakenEntry>,
    /// The rule by which it selects.
    pub rule: String,
    /// The error message with which it fails.
    pub error: Option<String>,
    /// Variables that were skipped because their value is not a usable copy.
    pub passed: Vec<PassedOver>,
    /// Whether gpubuild selects the same copy; `null` if gpubuild selects none.
    pub agrees: Option<bool>,
}

/// A copy of a toolkit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TakenEntry {
    /// Folder with headers and libraries.
    pub root: String,
    /// Path of the compiler.
    pub compiler: Option<String>,
    /// The version.
    pub version: Option<String>,
    /// The folder of the copy, with symbolic links resolved.
    pub copy: String,
    /// The real folder of the copy that the compiler belongs to, if that is another one.
    pub compiler_copy: Option<String>,
}

/// The selection of gpubuild.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChosenEntry {
    /// Id of the toolkit.
    pub toolkit: String,
    /// Its root folder.
    pub root: String,
    /// The version.
    pub version: Option<String>,
    /// Why it is selected.
    pub reason: String,
    /// Whether every build system selects it.
    pub agree: bool,
}

/// A line for a shell.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LineEntry {
    /// Id of the toolkit.
    pub toolkit: String,
    /// The line, for a POSIX shell or, on Windows, PowerShell.
    pub text: String,
    /// The changes that it makes.
    pub changes: Vec<ChangeEntry>,
}

/// A change of the environment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangeEntry {
    /// Name of the variable.
    pub variable: String,
    /// `set`, `prepend` or `unset`.
    pub action: &'static str,
    /// The value to set or prepend.
    pub value: Option<String>,
}

/// A CMake cache entry.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CmakeArgument {
    /// Id of the toolkit.
    pub toolkit: String,
    /// `-DNAME=VALUE`, quoted for the shell.
    pub text: String,
}

/// A build system that no line makes agree.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ExceptionEntry {
    /// Id of the resolver.
    pub id: String,
    /// Name of the build system.
    pub name: String,
    /// What it does in spite of the lines, and why.
    pub reason: String,
    /// How to make it agree.
    pub remedy: Option<String>,
}

impl ResolversReport {
    /// The document of these backends.
    #[must_use]
    pub fn new(resolutions: &Resolutions, backends: &[Backend], os: Os) -> Self {
        let shown: Vec<&Resolution> =
            resolutions.list.iter().filter(|one| backends.contains(&one.backend)).collect();
        let is_shown = |toolkit: &str| shown.iter().any(|one| one.toolkit == toolkit);
        let agreements: Vec<(&String, &Agreement)> =
            resolutions.agreements.iter().filter(|(toolkit, _)| is_shown(toolkit)).collect();
        // The lines have an effect only together. If one of them cannot be quoted, all are omitted.
        let lines = agreements.iter().flat_map(|(toolkit, agreement)| {
            let lines = agreement.lines.iter().map(|line| line_entry(toolkit, line, os));
            lines.collect::<Option<Vec<LineEntry>>>().unwrap_or_default()
        });
        let cmake = agreements.iter().flat_map(|(toolkit, agreement)| {
            agreement.cmake.iter().filter_map(|(name, value)| {
                Some(CmakeArgument { toolkit: (*toolkit).clone(), text: definition(os, name, value)? })
            })
        });
        let exceptions = agreements.iter().flat_map(|(_, agreement)| &agreement.exceptions);
        Self {
            schema: Schema { name: "resolvers", version: 1 },
            agree: agreements.iter().all(|(_, agreement)| agreement.agree),
            lines: lines.collect(),
            cmake: cmake.collect(),
            exceptions: exceptions
                .map(|one| ExceptionEntry {
                    id: one.id.clone(),
                    name: one.name.clone(),
                    reason: one.reason.clone(),
                    remedy: one.remedy.clone(),
                })
                .collect(),
            chosen: agreements.iter().map(|(toolkit, agreement)| chosen_entry(toolkit, agreement)).collect(),
            resolvers: shown.into_iter().map(|one| resolver_entry(one, resolutions)).collect(),
        }
    }
}

fn resolver_entry(one: &Resolution, resolutions: &Resolutions) -> ResolverEntry {
    let text = |path: &gpubuild_host::HostPath| path.as_str().to_owned();
    ResolverEntry {
        id: one.id.clone(),
        name: one.name.clone(),
        backend: one.backend,
        toolkit: one.toolkit.clone(),
        takes: one.takes.as_ref().map(|takes| TakenEntry {
            root: text(&takes.root),
            compiler: takes.compiler.as_ref().map(text),
            version: takes.version.as_ref().map(|version| version.as_str().to_owned()),
            copy: text(&takes.copy),
            compiler_copy: takes.compiler_copy.as_ref().map(text),
        }),
        rule: one.rule.clone(),
        error: one.error.clone(),
        passed: one.passed.clone(),
        agrees: resolutions.agreements.get(&one.toolkit).map(|agreement| takes(one, &agreement.chosen)),
    }
}

fn chosen_entry(toolkit: &str, agreement: &Agreement) -> ChosenEntry {
    ChosenEntry {
        toolkit: toolkit.to_owned(),
        root: agreement.chosen.as_str().to_owned(),
        version: agreement.version.as_ref().map(|version| version.as_str().to_owned()),
        reason: agreement.reason.clone(),
        agree: agreement.agree,
    }
}

fn line_entry(toolkit: &str, line: &AgreementLine, os: Os) -> Option<LineEntry> {
    let change = |change: &ResolverChange| {
        let (action, value) = match change {
            ResolverChange::Set { value, .. } => ("set", Some(value.clone())),
            ResolverChange::Prepend { value, .. } => ("prepend", Some(value.clone())),
            ResolverChange::Unset { .. } => ("unset", None),
        };
        ChangeEntry { variable: change.name().to_owned(), action, value }
    };
    Some(LineEntry {
        toolkit: toolkit.to_owned(),
        text: line_text(line, os)?,
        changes: line.changes.iter().map(change).collect(),
    })
}

/// The command-line argument of a CMake cache entry, quoted for the shell.
fn definition(os: Os, name: &str, value: &str) -> Option<String> {
    let quoted = shell::quote(os, &format!("D{name}={value}"))?;
    Some(match quoted.strip_prefix('\'') {
        Some(rest) => format!("'-{rest}"),
        None => format!("-{quoted}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_entry_is_one_word() {
        let define = |os, value: &str| definition(os, "CUDAToolkit_ROOT", value).unwrap();
        assert_eq!(define(Os::Linux, "/opt/cuda"), "-DCUDAToolkit_ROOT=/opt/cuda");
        assert_eq!(define(Os::Linux, "/opt/a b"), "'-DCUDAToolkit_ROOT=/opt/a b'");
        assert_eq!(define(Os::Windows, "C:/Program Files/x"), "'-DCUDAToolkit_ROOT=C:/Program Files/x'");
    }
}
