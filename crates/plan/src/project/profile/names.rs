//! Names in CMake projects: targets whose name depends on the version, and declared options.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A target with alternative names: `llama-common | common`. A trailing `?` marks an optional target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedOption {
    /// The alternative names; the project has one of them.
    pub any: Vec<String>,
    /// Whether the target may be missing.
    pub optional: bool,
}

impl WantedOption {
    /// Parses the notation of profiles and gpubuild.toml.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let (names, optional) = match text.trim().strip_suffix('?') {
            Some(names) => (names, true),
            None => (text, false),
        };
        let any =
            names.split('|').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { any, optional }
    }

    /// The name of a target that is required and has only one name.
    #[must_use]
    pub fn plain(&self) -> Option<&str> {
        match self.any.as_slice() {
            [name] if !self.optional => Some(name),
            _ => None,
        }
    }
}

impl fmt::Display for WantedOption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.any.join(" | "))?;
        formatter.write_str(if self.optional { "?" } else { "" })
    }
}

impl<'de> Deserialize<'de> for WantedOption {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wanted = Self::new(&text);
        if wanted.any.is_empty() {
            return Err(serde::de::Error::custom("a target has no name"));
        }
        Ok(wanted)
    }
}

#[cfg(feature = "schema")]
gpubuild_core::string_schema!(WantedOption);

impl Serialize for WantedOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The options and cache entries that a CMake script declares with `option(X …)`, `cmake_dependent_option(X …)` or
/// `set(X … CACHE …)`, and the options of backends that it adds with `PROJECT_add_backend(X)`.
#[must_use]
pub fn declared(script: &str) -> BTreeSet<String> {
    let text: String = script.lines().map(|line| line.split('#').next().unwrap_or_default()).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    );
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices('(') {
        let command = text[..at].trim_end();
        let command =
            command.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let arguments = &text[at + 1..];
        let arguments = &arguments[..arguments.find(')').unwrap_or(arguments.len())];
        let mut words = arguments.split_whitespace();
        let Some(name) = words.next() else { continue };
        let command = command.to_ascii_lowercase();
        // `ggml_add_backend(CANN)` reads GGML_CANN, which the script does not declare.
        if let Some(project) = command.strip_suffix("_add_backend") {
            found.insert(format!("{}_{name}", project.to_ascii_uppercase()));
        }
        let declares = match command.as_str() {
            "option" | "cmake_dependent_option" => true,
            "set" => words.any(|word| word == "CACHE"),
            _ => false,
        };
        if declares {
            found.insert(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_can_have_several_names_or_be_optional() {
        let wanted = WantedOption::new("llama-common | common");
        assert_eq!(
            (wanted.any.as_slice(), wanted.optional),
            (["llama-common", "common"].map(String::from).as_slice(), false)
        );
        assert_eq!(wanted.to_string(), "llama-common | common");
        assert_eq!(WantedOption::new("ggml-base?").to_string(), "ggml-base?");
        assert_eq!((WantedOption::new("a").plain(), WantedOption::new("a?").plain()), (Some("a"), None));
    }

    #[test]
    fn only_declared_options_are_found() {
        let script = "option(GGML_CUDA \"ggml: use CUDA (fast)\" OFF)\nOPTION (A_B \"\" ON) # option(NOT_ME)\n\
                      set(GGML_BLAS_VENDOR ${X} CACHE STRING\n   \"vendor\")\nset(PLAIN 1)\n\
                      llama_option_depr(FATAL_ERROR LLAMA_CUBLAS GGML_CUDA)\n\
                      cmake_dependent_option(DEP \"x\" ON \"A\" OFF)\n";
        let found: Vec<String> = declared(script).into_iter().collect();
        assert_eq!(found, ["A_B", "DEP", "GGML_BLAS_VENDOR", "GGML_CUDA"]);
    }
}
