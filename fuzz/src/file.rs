//! A Dockerfile, compose file, workflow or script, as `doctor --file` reads it.

use gpubuild::report::doctor::DoctorReport;
use gpubuild_doctor::file::{InputFile, UnreadableInput, examine, not_checked, to_finding};

use gpubuild_detect::diagnostic::Diagnostic as _;

use super::machine::{CATALOGUE, FINDINGS};
use super::output::check_report;

/// Kinds of files that only a name shows.
const NAMES: [&str; 4] = ["CMakeLists.txt", "install.sh", "build.rs", ".github/workflows/ci.yml"];

/// Checks a file whose content shows its kind. Otherwise checks it as each of the other kinds.
pub fn run(bytes: &[u8]) -> bool {
    match check("input", bytes) {
        Some(UnreadableInput::Unknown(_)) => {
            NAMES.iter().filter(|name| check(name, bytes).is_none()).count() > 0
        }
        error => error.is_none(),
    }
}

/// Checks a file and renders the findings. Returns why the file could not be checked.
fn check(name: &str, bytes: &[u8]) -> Option<UnreadableInput> {
    let cuda = CATALOGUE.get("cuda").expect("the catalogue describes CUDA");
    let input = InputFile { name: name.to_owned(), bytes: bytes.to_vec() };
    let mut examination = examine(&[input], cuda);
    let unreadable = examination.unreadable.pop();
    let drafts = unreadable.iter().map(|error| not_checked(name, &error.to_string(), error.hint()));
    let drafts: Vec<_> = drafts.chain(examination.drafts).collect();
    let findings = drafts.iter().map(|draft| to_finding(draft, &FINDINGS)).collect();
    check_report(&DoctorReport::of_findings(findings));
    unreadable
}
