//! Small functions for messages.

use std::fmt::Display;

/// The items separated by commas, each in backticks.
#[must_use]
pub fn quoted<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
