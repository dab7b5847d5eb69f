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

/// The widest column that other rows are aligned to. A longer cell only moves the rest of its own row. Format strings panic for a width
/// above 65,535, and cells contain texts of others.
const WIDEST: usize = 100;

/// The width of a column with cells of these lengths.
pub(super) fn width(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.max().unwrap_or(0).min(WIDEST)
}

/// The lines of a table whose rows have the same number of cells.
#[must_use]
pub fn table<R: AsRef<[String]>>(rows: &[R]) -> Vec<String> {
    let columns = rows.first().map_or(0, |row| row.as_ref().len());
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
            width(cells.map(|cell| cell.chars().count()))
        })
        .collect();
    let line = |row: &R| {
        let cells = row.as_ref().iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_do_not_widen_other_rows() {
        let rows =
            [["id", "name"], ["a", &"x".repeat(70_000)], ["bb", "y"]].map(|row| row.map(str::to_owned));
        let lines = table(&rows);
        assert_eq!(lines[2], "bb  y");
        assert_eq!(lines[1].len(), 4 + 70_000);
        assert_eq!(width([3, 70_000].into_iter()), WIDEST);
        assert!(table::<[String; 0]>(&[]).is_empty());
    }

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
