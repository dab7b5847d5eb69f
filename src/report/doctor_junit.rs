//! Renders the document of the doctor as JUnit XML: one test case per check, including checks without findings. An error is a failed case,
//! a note a skipped one, and a warning a passed one with output. Times are omitted, so the same machine gives the same bytes.

use std::collections::BTreeMap;
use std::io;

use gpubuild_core::clean;
use gpubuild_detect::finding::{Finding, Findings, Severity};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::doctor::DoctorReport;
use super::doctor_words::{self as words, LEFT_OUT, OBSERVATIONS, SENTENCE, VALUE};

/// A check with its outcome.
struct JunitCase<'a> {
    id: &'a str,
    outcome: JunitOutcome<'a>,
}

enum JunitOutcome<'a> {
    Passed,
    Found(&'a Finding),
    /// Reported as a consequence of the finding with this id.
    Follows(&'a str),
}

#[derive(Default)]
struct Suite<'a> {
    cases: Vec<JunitCase<'a>>,
}

impl Suite<'_> {
    fn count(&self, severity: Severity) -> usize {
        let of = |case: &&JunitCase<'_>| matches!(case.outcome, JunitOutcome::Found(finding) if finding.severity == severity);
        self.cases.iter().filter(of).count()
    }

    fn failures(&self) -> usize {
        self.count(Severity::Error)
    }

    fn skipped(&self) -> usize {
        let follows = |case: &&JunitCase<'_>| matches!(case.outcome, JunitOutcome::Follows(_));
        self.count(Severity::Info) + self.cases.iter().filter(follows).count()
    }
}

/// Renders the XML.
///
/// # Errors
/// Never in practice: it is written to memory.
pub fn junit(document: &DoctorReport, findings: &Findings) -> io::Result<String> {
    let suites = suites(document, findings);
    let sum = |count: &dyn Fn(&Suite<'_>) -> usize| suites.values().map(count).sum::<usize>().to_string();
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer
        .create_element("testsuites")
        .with_attributes([
            ("name", "gpubuild doctor"),
            ("tests", &*sum(&|suite| suite.cases.len())),
            ("failures", &*sum(&|suite| suite.failures())),
            ("errors", "0"),
            ("skipped", &*sum(&|suite| suite.skipped())),
        ])
        .write_inner_content(|writer| suites.iter().try_for_each(|(name, one)| suite(writer, name, one)))?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

/// The test cases by family, sorted by id.
fn suites<'a>(document: &'a DoctorReport, findings: &'a Findings) -> BTreeMap<&'a str, Suite<'a>> {
    let mut outcomes: BTreeMap<&str, Vec<JunitOutcome<'_>>> = BTreeMap::new();
    for finding in &document.findings {
        outcomes.entry(&finding.id).or_default().push(JunitOutcome::Found(finding));
    }
    for finding in &document.findings {
        for consequence in &finding.consequences {
            let list = outcomes.entry(&consequence.id).or_default();
            if list.is_empty() {
                list.push(JunitOutcome::Follows(&finding.id));
            }
        }
    }
    for id in &document.checked {
        let list = outcomes.entry(id).or_default();
        if list.is_empty() {
            list.push(JunitOutcome::Passed);
        }
    }
    let mut suites: BTreeMap<&str, Suite<'_>> = BTreeMap::new();
    for (id, list) in outcomes {
        let family = findings.find(id).map_or("other", |(family, _)| family.family.as_str());
        let cases = list.into_iter().map(|outcome| JunitCase { id, outcome });
        suites.entry(family).or_default().cases.extend(cases);
    }
    suites
}

fn suite(writer: &mut Writer<Vec<u8>>, name: &str, suite: &Suite<'_>) -> io::Result<()> {
    writer
        .create_element("testsuite")
        .with_attributes([
            ("name", name),
            ("tests", &*suite.cases.len().to_string()),
            ("failures", &*suite.failures().to_string()),
            ("errors", "0"),
            ("skipped", &*suite.skipped().to_string()),
        ])
        .write_inner_content(|writer| suite.cases.iter().try_for_each(|one| case(writer, name, one)))?;
    Ok(())
}

fn case(writer: &mut Writer<Vec<u8>>, suite: &str, case: &JunitCase<'_>) -> io::Result<()> {
    let id = clean::short(case.id, VALUE);
    let backend = match case.outcome {
        JunitOutcome::Found(finding) => finding.backend,
        _ => None,
    };
    let name = backend.map_or_else(|| id.to_string(), |backend| format!("{id} ({backend})"));
    let class = format!("gpubuild.doctor.{suite}");
    let element =
        writer.create_element("testcase").with_attributes([("classname", &*class), ("name", &*name)]);
    match case.outcome {
        JunitOutcome::Passed => element.write_empty()?,
        JunitOutcome::Follows(root) => {
            let message = format!("follows from {}", clean::short(root, VALUE));
            element.write_inner_content(|writer| {
                writer.create_element("skipped").with_attribute(("message", &*message)).write_empty()?;
                Ok(())
            })?
        }
        JunitOutcome::Found(finding) => element.write_inner_content(|writer| outcome(writer, finding))?,
    };
    Ok(())
}

fn outcome(writer: &mut Writer<Vec<u8>>, finding: &Finding) -> io::Result<()> {
    let summary = clean::short(&finding.summary, SENTENCE);
    let text = details(finding);
    let message = ("message", &*summary);
    match finding.severity {
        Severity::Error => writer
            .create_element("failure")
            .with_attributes([message, ("type", &*clean::short(&finding.id, VALUE))])
            .write_text_content(BytesText::new(&text))?,
        Severity::Warning => writer
            .create_element("system-out")
            .write_text_content(BytesText::new(&format!("warning: {summary}\n{text}")))?,
        Severity::Info => writer.create_element("skipped").with_attribute(message).write_empty()?,
    };
    Ok(())
}

/// The fix, its commands, the consequences and the evidence of a finding, one per line.
fn details(finding: &Finding) -> String {
    let remedy = &finding.remedy;
    let mut lines = vec![format!("fix: {}", clean::short(&remedy.text, SENTENCE))];
    for command in &remedy.commands {
        lines.push(
            clean::command(command)
                .map_or_else(|| format!("  ({LEFT_OUT})"), |command| format!("  {command}")),
        );
    }
    for one in &finding.consequences {
        lines.push(format!(
            "so: {} [{}]",
            clean::short(&one.summary, SENTENCE),
            clean::short(&one.id, VALUE)
        ));
    }
    for evidence in finding.evidence.iter().take(OBSERVATIONS) {
        let (kind, place, value) = words::observation(evidence);
        lines.push(format!("seen: {kind} {place}: {value}"));
    }
    lines.join("\n")
}
