//! The form of a file in `toolkits/resolvers/`: how a build system looks for a toolkit, step by step, as its public source has it.
//!
//! Only the form is here; `docs/reference/resolvers-and-profiles.md` explains it to people who write such a file.

use std::collections::BTreeMap;

use gpubuild_core::backend::Backend;
use gpubuild_core::version::Version;
use gpubuild_host::Os;
use serde::Deserialize;

/// One file: the resolvers of a toolkit, and the lines that can make them agree.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolverFamily {
    /// The toolkit that is looked for: an id of `toolkits/`.
    pub toolkit: String,
    /// The backend that it is for.
    pub backend: Backend,
    /// Lines that point build systems to a copy, the most important first.
    #[serde(default, rename = "line")]
    pub lines: Vec<LineDescription>,
    /// How each build system looks.
    #[serde(rename = "resolver")]
    pub resolvers: Vec<Resolver>,
}

/// A line for a shell, as its effects on the environment. `{root}` stands for the folder of the copy, `{PART}` for one of
/// its parts and `{in:PART}` for the folder of a part; a line with a part that is missing is left out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineDescription {
    /// Variables that it sets.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Lists of folders that it puts a folder in front of.
    #[serde(default)]
    pub prepend: BTreeMap<String, String>,
    /// Variables that it takes away.
    #[serde(default)]
    pub unset: Vec<String>,
    /// A script that has these effects: sourced, where it is there.
    pub source: Option<String>,
    /// Copies in these folders only.
    #[serde(default)]
    pub only_for: Vec<String>,
    /// Copies in any but these folders.
    #[serde(default)]
    pub not_for: Vec<String>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// How one build system looks for the toolkit.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolver {
    /// Stable id: `cmake-cuda-language`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The public source that the steps were read from, and when.
    pub source: String,
    /// Operating systems on which it looks at all; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// Only used by other resolvers.
    #[serde(default)]
    pub hidden: bool,
    /// It plays a part only where one of these is.
    #[serde(default)]
    pub present: Vec<String>,
    /// The tool whose version `since` and `before` mean: an id of `toolkits/`.
    pub tool: Option<String>,
    /// Its compiler and its libraries may come from different copies without harm.
    #[serde(default)]
    pub separate: bool,
    /// How it finds the compiler, if it looks for one.
    #[serde(default)]
    pub compiler: Vec<ResolverStep>,
    /// How it finds the folder with headers and libraries; from the compiler, if it does not look.
    #[serde(default)]
    pub root: Vec<ResolverStep>,
    /// What it wants of what it has found.
    #[serde(default, rename = "check")]
    pub checks: Vec<ResolverCheck>,
    /// What to do where no variable can change its mind.
    pub otherwise: Option<Otherwise>,
}

/// One step of a search. Exactly one of `env`, `program`, `folders`, `prefixes`, `beside`, `known`, `library`, `relative`,
/// `like`, `gpubuild`, `fail` is given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "keys of a file")]
pub struct ResolverStep {
    /// A variable that names a folder, or in a search for the compiler perhaps a program.
    pub env: Option<String>,
    /// The variable is a list of folders.
    #[serde(default)]
    pub list: bool,
    /// Names of a program on PATH.
    #[serde(default)]
    pub program: Vec<String>,
    /// The folders of PATH, for programs in `sub`.
    #[serde(default)]
    pub folders: bool,
    /// The folders above the `bin` folders of PATH, as CMake looks for libraries and packages.
    #[serde(default)]
    pub prefixes: bool,
    /// The folders of compilers that were found before.
    #[serde(default)]
    pub beside: Vec<Beside>,
    /// Folders (or programs) by path; may have `*` and placeholders.
    #[serde(default)]
    pub known: Vec<String>,
    /// Libraries by name, where the system's loader finds them.
    #[serde(default)]
    pub library: Vec<String>,
    /// In a search for the root: the compiler that was found before.
    #[serde(default)]
    pub relative: bool,
    /// What another resolver takes.
    pub like: Option<String>,
    /// What gpubuild takes.
    #[serde(default)]
    pub gpubuild: bool,
    /// The end of the search, with this message.
    pub fail: Option<String>,

    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
    /// The first version of the tool that does this.
    pub since: Option<Version>,
    /// The first version of the tool that no longer does this.
    pub before: Option<Version>,
    /// Only if none of these variables is set.
    #[serde(default)]
    pub unless_env: Vec<String>,
    /// Only if none of these variables names a place that is there.
    #[serde(default)]
    pub unless_place: Vec<String>,
    /// Only if one of these programs is on PATH.
    #[serde(default)]
    pub with_program: Vec<String>,
    /// Only if this variable is set.
    pub with_env: Option<String>,

    /// Links are resolved first.
    #[serde(default)]
    pub follow: bool,
    /// Folders to go up from there.
    #[serde(default)]
    pub up: usize,
    /// A last folder of this name is left out as well.
    pub drop_last: Option<String>,
    /// The order in which several places are tried.
    #[serde(default)]
    pub order: PlaceOrder,
    /// Only the first place counts, whatever is in it.
    #[serde(default)]
    pub single: bool,
    /// Only names that end in `X.Y` with a minor version of one digit, as CMake's pattern has it.
    #[serde(default)]
    pub numbered: bool,
    /// Paths below the place to try, in order; may have `*`.
    #[serde(default)]
    pub sub: Vec<String>,
    /// Where the version in the name found leads: `{found}` is `12.6`, `{found_}` is `12_6`.
    #[serde(default)]
    pub leads: Vec<String>,
    /// Of these below the candidate one has to be there.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Whatever is named is taken, there or not.
    #[serde(default)]
    pub trust: bool,
    /// The message when the place was named and is of no use; without it the search goes on.
    pub wrong: Option<String>,
    /// What is found here does not help: the search ends with this message.
    pub still_fails: Option<String>,
    /// A value with this text in it is refused, with `wrong`.
    pub refuse: Option<String>,
    /// What the step is called for people, if not by its place.
    pub rule: Option<String>,
}

/// A compiler whose folder is looked into.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// The variable that names it.
    pub env: String,
    /// Its names on PATH otherwise.
    pub program: Vec<String>,
}

/// In which order several places are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceOrder {
    /// As they are listed; of a pattern as its numbers say, small ones first.
    #[default]
    Listed,
    /// By name, character by character.
    Name,
    /// The greatest number first.
    Newest,
}

/// What has to be true of what was found.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolverCheck {
    /// Of these below the root one has to be there; nothing is looked for if empty.
    #[serde(default)]
    pub any: Vec<String>,
    /// The oldest version that will do.
    pub minimum: Option<Version>,
    /// The message otherwise.
    pub error: String,
    /// The first version of the tool that wants this.
    pub since: Option<Version>,
    /// The first version of the tool that no longer wants this.
    pub before: Option<Version>,
    /// Operating systems; all if empty.
    #[serde(default)]
    pub on: Vec<Os>,
}

/// What to do where no variable can change a resolver's mind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Otherwise {
    /// Why not, in one line.
    pub reason: String,
    /// What to do instead, with the placeholders of a line.
    pub remedy: String,
}

impl ResolverStep {
    /// How many of the kinds of places are given.
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

/// Reads an embedded file.
///
/// # Errors
/// What is wrong with it.
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
                    "a step of `{id}` has exactly one of `env`, `program`, `folders`, `prefixes`, `beside`, `known`, \
                     `library`, `relative`, `like`, `gpubuild`, `fail`"
                ));
            }
            if let Some(other) = &step.like
                && !family.resolvers[..index].iter().any(|known| known.id == *other)
            {
                return Err(format!("`{id}` looks like `{other}`, which does not stand before it"));
            }
            if step.refuse.is_some() && step.wrong.is_none() {
                return Err(format!("a step of `{id}` has `refuse` and not `wrong`, which says why"));
            }
        }
        for steps in [&resolver.compiler, &resolver.root] {
            let ends =
                steps.last().is_none_or(|last| last.fail.is_some() || last.like.is_some() || last.gpubuild);
            if !ends {
                return Err(format!("the last step of `{id}` is neither `fail` nor `like`"));
            }
        }
    }
    Ok(family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told() {
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
            ("[[resolver.root]]\nlike = \"y\"\n", "does not stand before it"),
            ("[[resolver.root]]\nenv = \"A\"\n", "neither `fail` nor `like`"),
            ("[[resolver.root]]\nenv = \"A\"\nrefuse = \"b\"\n", "`refuse` and not `wrong`"),
            ("colour = 1\n", "colour"),
        ] {
            let found = error(steps);
            assert!(found.contains(expected), "{steps}: {found}");
        }
    }
}
