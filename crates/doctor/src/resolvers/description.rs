//! Schema of the files in `toolkits/resolvers/`: how a build system searches for a toolkit, step by step, according to its public
//! source.
//!
//! `docs/reference/resolvers-and-profiles.md` is the guide for authors of such a file.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use serde::Deserialize;

/// One file: the resolvers of a toolkit, and the lines that can make them agree.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolverFamily {
    /// Id of the toolkit in `toolkits/`.
    pub toolkit: String,
    /// Backend of the toolkit.
    pub backend: Backend,
    /// Lines that point build systems to a copy, most important first.
    #[serde(default, rename = "line")]
    pub lines: Vec<LineDescription>,
    /// The search of each build system.
    #[serde(rename = "resolver")]
    pub resolvers: Vec<Resolver>,
}

/// A shell line, described by its effects on the environment.
///
/// In values, `{root}` is the folder of the copy, `{PART}` the path of one of its parts and `{in:PART}` the folder of a part. A line
/// that names a missing part is skipped.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineDescription {
    /// Variables to set.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Lists of folders to prepend a folder to.
    #[serde(default)]
    pub prepend: BTreeMap<String, String>,
    /// Variables to remove.
    #[serde(default)]
    pub unset: Vec<String>,
    /// A script with these effects, to be sourced instead. The line is skipped if it does not exist.
    pub source: Option<String>,
    /// Folders of the copies that the line applies to; all if empty.
    #[serde(default)]
    pub only_for: Vec<String>,
    /// Folders of the copies that the line does not apply to.
    #[serde(default)]
    pub not_for: Vec<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// The search of one build system for the toolkit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// Stable id: `cmake-cuda-language`.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Public source that the steps are derived from, with the date of reading.
    pub source: String,
    /// Operating systems on which it searches; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Whether it is only used by other resolvers.
    #[serde(default)]
    pub hidden: bool,
    /// The resolver applies only if one of these paths exists; always if empty.
    #[serde(default)]
    pub present: Vec<String>,
    /// Id in `toolkits/` of the tool whose version `since` and `before` refer to.
    pub tool: Option<String>,
    /// Whether its compiler and its libraries may come from different copies without problems.
    #[serde(default)]
    pub separate: bool,
    /// Search for the compiler; empty if it does not search for one.
    #[serde(default)]
    pub compiler: Vec<ResolverStep>,
    /// Search for the folder with headers and libraries; if empty, the folder follows from the compiler.
    #[serde(default)]
    pub root: Vec<ResolverStep>,
    /// Requirements on the result.
    #[serde(default, rename = "check")]
    pub checks: Vec<ResolverCheck>,
    /// What to do if no variable changes its choice.
    pub otherwise: Option<Otherwise>,
}

/// One step of a search. Exactly one of `env`, `program`, `folders`, `prefixes`, `beside`, `known`, `library`, `relative`,
/// `like`, `gpubuild`, `fail` must be set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "keys of a file")]
pub struct ResolverStep {
    /// A variable that names a folder, or in a search for the compiler also a program.
    pub env: Option<String>,
    /// Whether the variable is a list of folders.
    #[serde(default)]
    pub list: bool,
    /// Names of a program on PATH.
    #[serde(default)]
    pub program: Vec<String>,
    /// Whether to search the folders of PATH for the paths in `sub`.
    #[serde(default)]
    pub folders: bool,
    /// Whether to search the parents of the `bin` folders of PATH, as CMake does for libraries and packages.
    #[serde(default)]
    pub prefixes: bool,
    /// Compilers whose folders are searched.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// Folders or programs by path; may contain `*` and placeholders.
    #[serde(default)]
    pub known: Vec<String>,
    /// Names of libraries to find with the system's loader.
    #[serde(default)]
    pub library: Vec<String>,
    /// In a search for the root: whether to start from the compiler that was found.
    #[serde(default)]
    pub relative: bool,
    /// Id of another resolver whose result is used.
    pub like: Option<String>,
    /// Whether gpubuild's choice is used.
    #[serde(default)]
    pub gpubuild: bool,
    /// Ends the search with this error message.
    pub fail: Option<String>,

    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// First version of the tool that has this step.
    pub since: Option<Version>,
    /// First version of the tool that no longer has this step.
    pub before: Option<Version>,
    /// Only if none of these variables is set.
    #[serde(default)]
    pub unless_env: Vec<String>,
    /// Only if none of these variables names an existing path.
    #[serde(default)]
    pub unless_place: Vec<String>,
    /// Only if one of these programs is on PATH.
    #[serde(default)]
    pub with_program: Vec<String>,
    /// Only if this variable is set.
    pub with_env: Option<String>,

    /// Whether links are resolved first.
    #[serde(default)]
    pub follow: bool,
    /// Number of folders to go up from there.
    #[serde(default)]
    pub up: usize,
    /// Name of a last folder that is dropped after going up.
    pub drop_last: Option<String>,
    /// Order in which several places are tried.
    #[serde(default)]
    pub order: PlaceOrder,
    /// Whether only the first place counts, even if nothing is found in it.
    #[serde(default)]
    pub single: bool,
    /// Whether only names that end in `X.Y` with a one-digit minor version count; that is CMake's pattern.
    #[serde(default)]
    pub numbered: bool,
    /// Paths to try below the place, in order; may contain `*`.
    #[serde(default)]
    pub sub: Vec<String>,
    /// Paths that the version in the found name leads to: `{found}` is `12.6`, `{found_}` is `12_6`.
    #[serde(default)]
    pub leads: Vec<String>,
    /// Paths below the candidate, at least one of which must exist.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whether a named path is accepted even if it does not exist.
    #[serde(default)]
    pub trust: bool,
    /// Error message if the place is named but not usable; without it, the search continues.
    pub wrong: Option<String>,
    /// Error message that ends the search although something was found.
    pub still_fails: Option<String>,
    /// A value that contains this text is rejected with the message in `wrong`.
    pub refuse: Option<String>,
    /// Display name of the step; by default its place.
    pub rule: Option<String>,
}

/// A compiler whose folder is searched.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The variable that names it.
    pub env: String,
    /// Its names on PATH, if the variable names no program.
    pub program: Vec<String>,
}

/// Order in which several places are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceOrder {
    /// As listed; the matches of a pattern by number, lowest first.
    #[default]
    Listed,
    /// By name, ignoring case.
    Name,
    /// Highest number first.
    Newest,
}

/// A requirement on the result of a search.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolverCheck {
    /// Paths below the root, at least one of which must exist; not checked if empty.
    #[serde(default)]
    pub any: Vec<String>,
    /// Oldest accepted version.
    pub minimum: Option<Version>,
    /// Error message if the requirement is not met.
    pub error: String,
    /// First version of the tool that has this requirement.
    pub since: Option<Version>,
    /// First version of the tool that no longer has this requirement.
    pub before: Option<Version>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// What to do if no variable changes a resolver's choice.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otherwise {
    /// Why no variable does, in one line.
    pub reason: String,
    /// What to do instead; may contain the placeholders of a line.
    pub remedy: String,
}

impl ResolverStep {
    /// Number of keys that define where to search.
    fn kinds(&self) -> usize {
        let kinds = [
            self.env.is_some(),
            !self.program.is_empty(),
            self.folders,
            self.prefixes,
            !self.beside.is_empty(),
            !self.known.is_empty(),
            !self.library.is_empty(),
            self.relative,
            self.like.is_some(),
            self.gpubuild,
            self.fail.is_some(),
        ];
        kinds.iter().filter(|given| **given).count()
    }
}

/// Parses an embedded file.
///
/// # Errors
/// A message that describes the first problem.
pub fn read(bytes: &[u8]) -> Result<ResolverFamily, String> {
    let family: ResolverFamily = gpubuild_toml::from_bytes(bytes).map_err(|error| error.to_string())?;
    for (index, resolver) in family.resolvers.iter().enumerate() {
        let id = &resolver.id;
        if resolver.compiler.is_empty() && resolver.root.is_empty() {
            return Err(format!("`{id}` has no steps"));
        }
        for step in resolver.compiler.iter().chain(&resolver.root) {
            if step.kinds() != 1 {
                return Err(format!(
                    "a step of `{id}` must have exactly one of `env`, `program`, `folders`, `prefixes`, `beside`, `known`, \
                     `library`, `relative`, `like`, `gpubuild`, `fail`"
                ));
            }
            if let Some(other) = &step.like
                && !family.resolvers[..index].iter().any(|known| known.id == *other)
            {
                return Err(format!("`{id}` refers to `{other}`, which is not defined before it"));
            }
            if step.refuse.is_some() && step.wrong.is_none() {
                return Err(format!("a step of `{id}` has `refuse` without `wrong`, its error message"));
            }
        }
        for steps in [&resolver.compiler, &resolver.root] {
            let ends =
                steps.last().is_none_or(|last| last.fail.is_some() || last.like.is_some() || last.gpubuild);
            if !ends {
                return Err(format!("the last step of `{id}` must be `fail`, `like` or `gpubuild`"));
            }
        }
    }
    Ok(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_files_are_rejected() {
        let head = "toolkit = \"cuda\"\nbackend = \"cuda\"\n";
        let resolver = "[[resolver]]\nid = \"x\"\nname = \"X\"\nsource = \"none\"\n";
        let error = |steps: &str| {
            let bytes = gpubuild_toml::encode(&format!("{head}{resolver}{steps}")).unwrap();
            read(&bytes).unwrap_err()
        };
        for (steps, expected) in [
            ("", "`x` has no steps"),
            ("[[resolver.root]]\nenv = \"A\"\nknown = [\"/b\"]\n", "exactly one of"),
            ("[[resolver.root]]\nup = 1\n", "exactly one of"),
            ("[[resolver.root]]\nlike = \"y\"\n", "not defined before it"),
            ("[[resolver.root]]\nenv = \"A\"\n", "must be `fail`, `like` or `gpubuild`"),
            ("[[resolver.root]]\nenv = \"A\"\nrefuse = \"b\"\n", "`refuse` without `wrong`"),
            ("colour = 1\n", "colour"),
        ] {
            let found = error(steps);
            assert!(found.contains(expected), "{steps}: {found}");
        }
    }
}
