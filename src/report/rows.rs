//! Text for people, row by row.

use std::fmt;

use gpubuild_core::clean;

/// A text that consists of rows. A value with line breaks stays in its row: the next one could look like a message of gpubuild.
#[derive(Debug, Default)]
pub(super) struct Rows(String);

impl Rows {
    /// Adds a row.
    pub(super) fn row(&mut self, row: fmt::Arguments<'_>) {
        self.0.push_str(&clean::line(&row.to_string()));
        self.blank();
    }

    /// Adds an empty row.
    pub(super) fn blank(&mut self) {
        self.0.push('\n');
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn values_stay_in_their_row() {
        let mut rows = Rows::default();
        rows.row(format_args!("name  {}", "x\nerror: forged\r\n::error::y\u{85}z"));
        rows.blank();
        rows.row(format_args!("next"));
        let text = rows.into_text();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.starts_with("name  x error: forged ::error::y"), "{text}");
    }
}
