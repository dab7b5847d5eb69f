//! Environment variables as a value that is read once and never written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::order::SortIndirect as _;

use super::Os;

/// The environment variables of a host. Names are case-insensitive on Windows.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    fold_case: bool,
    values: BTreeMap<String, (String, String)>,
    /// The names of variables whose values are not UTF-8, sorted. They have no value here.
    not_utf8: Vec<String>,
    /// The names queried since [`Self::record_queries`], shared with clones; `None` before that call.
    queried: Arc<Mutex<Option<BTreeSet<String>>>>,
}

/// Compares only the variables, not the recorded queries.
impl PartialEq for Environment {
    fn eq(&self, other: &Self) -> bool {
        self.fold_case == other.fold_case && self.values == other.values
    }
}

impl Eq for Environment {}

impl Environment {
    /// Creates an environment that compares names by the rules of `os`.
    pub fn new<N: Into<String>, V: Into<String>>(
        os: Os,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut environment = Self { fold_case: os == Os::Windows, ..Self::default() };
        for (name, value) in variables {
            let name = name.into();
            environment.values.insert(environment.key(&name), (name, value.into()));
        }
        environment
    }

    /// Adds the names of variables whose values are not UTF-8.
    #[must_use]
    pub(crate) fn with_not_utf8(mut self, mut names: Vec<String>) -> Self {
        names.sort_indirect();
        self.not_utf8 = names;
        self
    }

    /// The names of variables that are set, but omitted here because their values are not UTF-8; sorted.
    #[must_use]
    pub fn not_utf8(&self) -> &[String] {
        &self.not_utf8
    }

    /// The value of a variable that is set and not empty.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_raw(name).filter(|value| !value.is_empty())
    }

    /// The value of a variable that is set, even if it is empty.
    #[must_use]
    pub fn get_raw(&self, name: &str) -> Option<&str> {
        self.note(name);
        let found = if self.fold_case { self.values.get(&self.key(name)) } else { self.values.get(name) };
        found.map(|(_, value)| value.as_str())
    }

    /// All variables that are set and that either are listed in `names` or start with one of `starts`, sorted by name.
    #[must_use]
    pub fn select<'a>(&'a self, names: &[&'a str], starts: &[&str]) -> Vec<(&'a str, &'a str)> {
        let mut found: BTreeMap<&str, &str> =
            names.iter().filter_map(|name| Some((*name, self.get_raw(name)?))).collect_map();
        for (name, value) in
            self.iter().filter(|(name, _)| starts.iter().any(|start| name.starts_with(start)))
        {
            self.note(name);
            found.insert(name, value);
        }
        found.into_iter().collect()
    }

    /// Starts recording the names of queried variables, including queries through clones. [`Self::iter`] is not recorded.
    pub fn record_queries(&self) {
        *self.queried.lock().unwrap_or_else(PoisonError::into_inner) = Some(BTreeSet::new());
    }

    /// The names queried since [`Self::record_queries`], sorted, including variables that are not set.
    #[must_use]
    pub fn queried_names(&self) -> Vec<String> {
        let queried = self.queried.lock().unwrap_or_else(PoisonError::into_inner);
        queried.iter().flatten().cloned().collect()
    }

    fn note(&self, name: &str) {
        let mut queried = self.queried.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queried) = queried.as_mut().filter(|queried| !queried.contains(name)) {
            queried.insert(name.to_owned());
        }
    }

    /// Names and values of all variables, sorted by name. Names keep their original case.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.values().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a copy with one variable set to a value, or removed if `value` is `None`.
    #[must_use]
    pub fn with(&self, name: &str, value: Option<&str>) -> Self {
        let mut other = self.clone();
        let key = other.key(name);
        match value {
            Some(value) => {
                let name = other.values.get(&key).map_or_else(|| name.to_owned(), |(name, _)| name.clone());
                other.values.insert(key, (name, value.to_owned()));
            }
            None => {
                other.values.remove(&key);
            }
        }
        other
    }

    fn key(&self, name: &str) -> String {
        if self.fold_case { name.to_uppercase() } else { name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_insensitive_on_windows_only() {
        let windows = Environment::new(Os::Windows, [("Path", "C:\\bin")]);
        assert_eq!(windows.get("PATH"), Some("C:\\bin"));
        assert_eq!(windows.iter().next(), Some(("Path", "C:\\bin")));
        let linux = Environment::new(Os::Linux, [("Path", "/bin")]);
        assert_eq!(linux.get("PATH"), None);
    }

    #[test]
    fn a_modified_copy_keeps_the_case_of_names() {
        let windows = Environment::new(Os::Windows, [("Path", "C:\\bin")]);
        let changed = windows.with("PATH", Some("C:\\cuda")).with("CUDA_PATH", Some("C:\\cuda"));
        assert_eq!(changed.iter().collect::<Vec<_>>(), [("CUDA_PATH", "C:\\cuda"), ("Path", "C:\\cuda")]);
        assert_eq!(changed.with("path", None).get("Path"), None);
        assert_eq!(windows.get("Path"), Some("C:\\bin"));
    }

    #[test]
    fn queried_names_are_recorded_whether_set_or_not() {
        let linux = Environment::new(Os::Linux, [("CC", "gcc"), ("CMAKE_X", "1"), ("HOME", "/h")]);
        assert!(linux.queried_names().is_empty());
        linux.record_queries();
        let copy = linux.with("CC", Some("clang"));
        assert_eq!((copy.get("CC"), copy.get("CXX")), (Some("clang"), None));
        assert_eq!(linux.select(&["CFLAGS", "CC"], &["CMAKE_"]), [("CC", "gcc"), ("CMAKE_X", "1")]);
        assert_eq!(linux.iter().count(), 3);
        assert_eq!(linux.queried_names(), ["CC", "CFLAGS", "CMAKE_X", "CXX"]);
    }

    #[test]
    fn only_get_raw_returns_an_empty_variable() {
        let linux = Environment::new(Os::Linux, [("CUDA_VISIBLE_DEVICES", "")]);
        assert_eq!(linux.get("CUDA_VISIBLE_DEVICES"), None);
        assert_eq!(linux.get_raw("CUDA_VISIBLE_DEVICES"), Some(""));
    }
}
