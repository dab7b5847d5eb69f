//! Checks of what the command prints.

use gpubuild::report::doctor::DoctorReport;
use gpubuild::report::doctor_text;
use gpubuild_core::screen::{Colors, screen};
use serde_json::Value;

/// Renders a report as text and as JSON.
pub(crate) fn check_report(report: &DoctorReport) {
    check_text(&doctor_text::plain(report));
    check_json(&serde_json::to_string(report).expect("a report is valid JSON"));
}

/// Screens a text as the command does before it prints it, and asserts that no character controls a terminal.
pub(crate) fn check_text(text: &str) {
    let shown = screen(text, Colors::Remove);
    let hidden = shown.chars().find(|c| is_hidden(*c));
    assert!(hidden.is_none(), "{hidden:?} in {shown:?}");
    assert_eq!(screen(&shown, Colors::Remove), shown, "the text changes if it is screened again");
}

/// Asserts that a document is JSON.
pub(crate) fn check_json(text: &str) {
    serde_json::from_str::<Value>(text).expect("a document is valid JSON");
}

/// Control characters except line breaks and tabs, and characters that change the writing direction. Listed here independently of the
/// program.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
