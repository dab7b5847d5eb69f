//! Small functions for texts.

use std::fmt::Display;

/// The items separated by commas, each in backticks.
#[must_use]
pub fn quoted<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}

/// The normalized name of a Python package (PEP 503).
#[must_use]
pub fn python_package(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            c => out.push(c.to_ascii_lowercase()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_python_packages_are_normalized() {
        assert_eq!(python_package("Llama._cpp--Python"), "llama-cpp-python");
    }
}
