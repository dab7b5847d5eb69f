//! The evaluation sets in `tests/unseen`: machines and logs from public reports, whose expectations were decided before the doctor
//! was run on them. The snapshots contain the figures and every case that is not right.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_exec::log::{Signatures, to_findings};
use gpubuild_host::RecordedHost;
use serde::Deserialize;

use crate::machine::Machine;
use crate::{CATALOGUE, FINDINGS, diagnose_host, facts};

#[derive(Deserialize)]
struct Expectations {
    case: BTreeMap<String, ExpectedCase>,
}

#[derive(Deserialize)]
struct ExpectedCase {
    /// The public report: `owner/repository#number`, or addresses.
    source: String,
    #[serde(default)]
    healthy: bool,
    /// The accepted ids of the first finding. Empty for a log of a successful build.
    #[serde(default)]
    first: Vec<String>,
    /// The line of the log with the cause, from 1. Without it, that of a right answer.
    line: Option<usize>,
    /// Text that the remedy contains, in lower case; `a|b` is one of both.
    #[serde(default)]
    remedy: Vec<String>,
    /// Text that it does not contain, in lower case.
    #[serde(default)]
    never: Vec<String>,
}

/// How often the answers are right, and the cases that are not.
#[derive(Default)]
struct Score {
    faulty: usize,
    causes: usize,
    remedies: usize,
    silent: usize,
    healthy: usize,
    alarms: usize,
    unknown: usize,
    cited: usize,
    misses: String,
}

impl Score {
    /// Counts the answer to a faulty case. `found` are the errors and warnings.
    fn faulty(&mut self, name: &str, case: &ExpectedCase, found: &[&Finding]) {
        self.faulty += 1;
        let Some(first) = found.first() else {
            self.silent += 1;
            let _ = writeln!(self.misses, "{name}: nothing, expected {}", case.first.join(" or "));
            return;
        };
        if !case.first.iter().any(|id| id == first.id.as_str()) {
            let _ = writeln!(self.misses, "{name}: {}, expected {}", first.id, case.first.join(" or "));
            return;
        }
        self.causes += 1;
        let remedy = &first.remedy;
        let text = format!("{} {} {}", first.summary, remedy.text, remedy.commands.join(" ")).to_lowercase();
        let has = |part: &String| part.split('|').any(|one| text.contains(one));
        let missing: Vec<&String> = case.remedy.iter().filter(|part| !has(part)).collect();
        // The summary may name what the remedy must not contain: the installed release, the value of a variable.
        let advice = format!("{} {}", remedy.text, remedy.commands.join(" ")).to_lowercase();
        let wrong: Vec<&String> = case.never.iter().filter(|part| advice.contains(part.as_str())).collect();
        if missing.is_empty() && wrong.is_empty() {
            self.remedies += 1;
        } else {
            let _ = writeln!(self.misses, "{name}: remedy of {} lacks {missing:?}, has {wrong:?}", first.id);
        }
    }

    /// Counts the answer to a case without a fault.
    fn healthy(&mut self, name: &str, found: &[&Finding]) {
        self.healthy += 1;
        if let Some(first) = found.first() {
            self.alarms += 1;
            let _ = writeln!(self.misses, "{name}: {}, expected nothing", first.id);
        }
    }

    fn text(&self) -> String {
        format!(
            "{} faulty: {} with the right first cause, {} with the right remedy too, {} without an answer\n\
             {} healthy: {} false alarms\nnot counted: {} without an id for their cause, {} whose report the catalogue cites\n\n{}",
            self.faulty,
            self.causes,
            self.remedies,
            self.silent,
            self.healthy,
            self.alarms,
            self.unknown,
            self.cited,
            self.misses
        )
    }
}

/// Whether the catalogue cites a report, so that the case is not new to it.
fn is_cited(catalogue: &str, source: &str) -> bool {
    let plain = source.replace("https://github.com/", "").replace("/issues/", "#").replace("/pull/", "#");
    let plain = plain.replace("/discussions/", "#");
    let threads = plain.split([',', ' ']).filter(|word| word.contains('#') && word.contains('/'));
    threads.map(|thread| format!("{thread}\n")).any(|thread| catalogue.contains(&thread))
}

/// The threads that the catalogue cites, one per line.
fn cited() -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("findings");
    let mut cited = String::new();
    for folder in [root.clone(), root.join("logs")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.replace("https://github.com/", "").replace("/issues/", "#");
                let text = text.replace("/pull/", "#").replace("/discussions/", "#");
                let words = text.split(|c: char| c.is_whitespace() || "\"',()`".contains(c));
                cited.extend(words.filter(|word| word.contains('#')).map(|word| format!("{word}\n")));
            }
        }
    }
    cited
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/unseen").join(name)
}

fn expectations(folder: &std::path::Path) -> BTreeMap<String, ExpectedCase> {
    let text = std::fs::read_to_string(folder.join("expected.toml")).unwrap();
    let expected: Expectations = gpubuild_toml::from_str(&text).unwrap();
    expected.case
}

/// Examines every machine of a folder.
fn examine_hosts(name: &str) -> String {
    let folder = folder(name);
    let (cited, mut score) = (cited(), Score::default());
    for (name, case) in expectations(&folder) {
        if is_cited(&cited, &case.source) {
            score.cited += 1;
            continue;
        }
        let text = std::fs::read_to_string(folder.join(format!("{name}.toml"))).unwrap();
        let host = RecordedHost::parse(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let findings = diagnose_host(&host, None);
        let least = if case.healthy { Severity::Error } else { Severity::Warning };
        let found: Vec<&Finding> = findings.iter().filter(|one| one.severity <= least).collect();
        if case.healthy { score.healthy(&name, &found) } else { score.faulty(&name, &case, &found) }
    }
    score.text()
}

#[test]
fn machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts"));
}

/// Written down after the misses of the first set had been examined.
#[test]
fn later_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-2"));
}

/// Written down after the misses of the second set had been examined.
#[test]
fn third_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-3"));
}

/// Written down after the misses of the third set had been examined.
#[test]
fn fourth_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-4"));
}

/// Written down after rules for the classes of the fourth set.
#[test]
fn fifth_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-5"));
}

/// Written down by someone who had not read the rules.
#[test]
fn sixth_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-6"));
}

/// Collected like the sixth set, after most of its misses had been handled.
#[test]
fn seventh_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-7"));
}

/// Real layouts of packages: systems of Debian and Ubuntu whose packages were installed and damaged, with placed hardware.
#[test]
fn eighth_machines_with_real_packages() {
    insta::assert_snapshot!(examine_hosts("hosts-8"));
}

/// From reports, written down with logs of the same projects.
#[test]
fn ninth_machines_from_reports() {
    insta::assert_snapshot!(examine_hosts("hosts-9"));
}

/// The logs of all sets with the accepted ids; none if the build succeeded. Logs whose cause has no id are left out.
pub(crate) fn all_logs() -> Vec<(Vec<String>, Vec<u8>)> {
    let mut logs = Vec::new();
    for name in [
        "logs", "logs-2", "logs-3", "logs-4", "logs-5", "logs-6", "logs-7", "logs-8", "logs-9", "logs-10",
        "logs-11", "logs-12",
    ] {
        let folder = folder(name);
        for (name, case) in expectations(&folder) {
            if case.first.first().is_none_or(|id| id != "none-fits") {
                logs.push((case.first, std::fs::read(folder.join(format!("{name}.log"))).unwrap()));
            }
        }
    }
    logs
}

/// Reads every log of a folder.
fn read_logs(name: &str) -> String {
    let folder = folder(name);
    let reader = Machine::ubuntu("22.04").host();
    let reader = facts::gather(&reader);
    let (cited, mut score) = (cited(), Score::default());
    for (name, case) in expectations(&folder) {
        if is_cited(&cited, &case.source) {
            score.cited += 1;
            continue;
        }
        if case.first.first().is_some_and(|id| id == "none-fits") {
            score.unknown += 1;
            continue;
        }
        let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
        let signatures = Signatures::embedded();
        let reading = signatures.read(&log);
        let written_on = signatures.facts(&reading.platform, &reader);
        let candidates = signatures.candidates(&reading.platform, &reader);
        let renderer =
            FindingRenderer::new(&written_on, &CATALOGUE, &FINDINGS, reading.platform.is_container)
                .for_candidates(&candidates);
        let findings = to_findings(&reading, &name, &renderer, &FINDINGS);
        // A guess is information, unless it precedes a known failure.
        let found: Vec<&Finding> = findings.iter().filter(|one| one.severity <= Severity::Warning).collect();
        if case.first.is_empty() { score.healthy(&name, &found) } else { score.faulty(&name, &case, &found) }
    }
    score.text()
}

#[test]
fn logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs"));
}

/// Collected without knowledge of the rules, after the misses of the first set had been examined.
#[test]
fn later_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-2"));
}

/// Collected without knowledge of the rules, after the misses of the second set had been examined.
#[test]
fn third_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-3"));
}

/// Found by searching for projects and symptoms, after the misses of the third set had been examined.
#[test]
fn fourth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-4"));
}

/// Collected like the fourth set, after its misses had been handled.
#[test]
fn fifth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-5"));
}

/// Collected like the fifth set, after its misses had been handled.
#[test]
fn sixth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-6"));
}

/// Collected like the sixth set, after its misses and a catalogue of the messages of tools had been handled.
#[test]
fn seventh_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-7"));
}

/// Collected like the seventh set, after the guesses by words had been written.
#[test]
fn eighth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-8"));
}

/// Collected with neutral searches for the projects that users of this tool have, after the misses of the eighth set had been handled.
#[test]
fn ninth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-9"));
}

/// Collected like the ninth set, after its misses had been handled by classes.
#[test]
fn tenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-10"));
}

/// Collected like the ninth and the tenth set, after rules for closed vocabularies had been written; with healthy logs.
#[test]
fn eleventh_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-11"));
}

/// From projects that no earlier set contains, with the expectations decided before the rules for it.
#[test]
fn twelfth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-12"));
}

/// Collected like the twelfth set, after its misses had been handled by classes.
#[test]
fn thirteenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-13"));
}

/// Collected like the thirteenth set, after its misses had been handled by classes.
#[test]
fn fourteenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-14"));
}

/// From the projects that users of this tool have, like the ninth to the eleventh set, after the misses of the fourteenth had been
/// handled.
#[test]
fn fifteenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-15"));
}

/// From the same projects as the fifteenth set, after its misses had been handled.
#[test]
fn sixteenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-16"));
}

/// From the same projects as the sixteenth set, after rules from the sources of these programs and of their tools had been written.
#[test]
fn seventeenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-17"));
}

/// How often the most probable first error is the line of the cause, if the doctor knows no failure at all.
#[test]
fn first_errors_without_rules() {
    let (none, known) = (Signatures::none(), Signatures::embedded());
    let mut text = String::new();
    for set in std::iter::once("logs".to_owned()).chain((2..=18).map(|set| format!("logs-{set}"))) {
        let folder = folder(&set);
        let [mut quoted, mut shown, mut other, mut silent, mut healthy, mut healthy_quoted] = [0; 6];
        for (name, case) in expectations(&folder) {
            let log = std::fs::read(folder.join(format!("{name}.log"))).unwrap();
            let guess = none.read(&log).guess;
            if case.first.is_empty() {
                healthy += 1;
                healthy_quoted += usize::from(guess.is_some());
                continue;
            }
            let causes = known.read(&log).causes;
            let right = causes.first().filter(|cause| case.first.iter().any(|id| cause.id == *id));
            let Some(cause) = case.line.or(right.map(|cause| cause.line)) else { continue };
            let is_near = |line: usize| line.abs_diff(cause) <= 1;
            *match guess {
                None => &mut silent,
                Some(guess) if is_near(guess.line) => &mut quoted,
                Some(guess) if guess.context.iter().any(|(line, _)| is_near(*line)) => &mut shown,
                Some(_) => &mut other,
            } += 1;
        }
        let _ = writeln!(
            text,
            "{set}: {quoted} quoted, {shown} shown beside another line, {other} not shown, {silent} without a guess; \
             {healthy} healthy, {healthy_quoted} with a guess"
        );
    }
    insta::assert_snapshot!(text);
}

/// From the same projects as the seventeenth set, after sentences about failures were read without a rule.
#[test]
fn eighteenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-18"));
}

/// From the projects of all earlier sets, after rules for 740 other reports had been written.
#[test]
fn nineteenth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-19"));
}

/// From the projects of all earlier sets, each with an expected remedy, after remedies named releases.
#[test]
fn twentieth_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-20"));
}

/// Collected like the twentieth set, after its misses had been handled.
#[test]
fn twenty_first_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-21"));
}

/// Collected like the twenty-first set, while rules were written from other messages.
#[test]
fn twenty_second_logs_from_reports() {
    insta::assert_snapshot!(read_logs("logs-22"));
}

/// Not from reports: programs and builds were run with planted faults.
#[test]
fn logs_of_planted_faults() {
    insta::assert_snapshot!(read_logs("logs-23"));
}

/// Like the set before, with other software.
#[test]
fn logs_of_planted_faults_in_other_software() {
    insta::assert_snapshot!(read_logs("logs-24"));
}
