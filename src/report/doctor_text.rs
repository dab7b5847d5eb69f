//! The text of `gpubuild doctor`: the root cause in the first line, its fix in the next, and finally the matrix. It has at most 100 columns,
//! except for commands and links, which must stay on one line to be copied. Invisible characters in values from the machine are removed.

use std::fmt::Write as _;

use gpubuild_core::clean;
use gpubuild_core::screen::{Colors, screen};
use gpubuild_detect::finding::{Finding, Severity};
use gpubuild_detect::matrix::Presence;
use unicode_width::UnicodeWidthStr;

use super::binary_text;
use super::detect::BackendEntry;
use super::detect_text::{Detail, Tone, presence, readiness};
use super::doctor::DoctorReport;
use super::doctor_words::{self as words, LEFT_OUT, OBSERVATIONS, SENTENCE, VALUE};
use super::words::wrap;

/// Maximum width of a line.
const WIDTH: usize = 100;
/// Width of a cell of the matrix.
const CELL: usize = 13;
/// Maximum width of the name of a changed value; a wider one gets a separate line.
const WIDEST_NAME: usize = 40;
/// Width of the first column of the matrix.
const FIRST: usize = 11;

/// The text with all details and without colours, for files.
#[must_use]
pub fn plain(document: &DoctorReport) -> String {
    screen(&text(document, Detail::Everything, &|_, text| text.to_owned()), Colors::Remove).into_owned()
}

/// Renders the text; `paint` colours pieces of it.
#[must_use]
pub fn text(document: &DoctorReport, detail: Detail, paint: &dyn Fn(Tone, &str) -> String) -> String {
    // For a log or a file, the evidence contains the location.
    let detail = if document.host.is_some() { detail } else { Detail::Everything };
    let mut page = DoctorPage { out: String::new(), paint, detail };
    let mut hidden = 0;
    page.binary(document);
    page.files(document);
    page.changes(document);
    page.proofs(document);
    if words::is_healthy(document) {
        page.gap();
        page.entry("", Some(Tone::Good), &format!("✓ {}", words::healthy(document)));
    }
    for finding in &document.findings {
        if finding.severity == Severity::Info && !page.shows_note(document, finding) {
            hidden += 1;
        } else {
            page.gap();
            page.finding(finding);
        }
    }
    page.log(document);
    page.matrix(document);
    page.architectures(document);
    page.gap();
    let mut count = words::count(document.summary);
    if hidden > 0 {
        count += " (-v shows every note)";
    }
    page.line(&count);
    page.out
}

struct DoctorPage<'a> {
    out: String,
    paint: &'a dyn Fn(Tone, &str) -> String,
    detail: Detail,
}

impl DoctorPage<'_> {
    fn line(&mut self, text: &str) {
        let text = text.trim_end();
        match text.trim_start().strip_prefix("::") {
            // GitHub's runner interprets a line that starts with two colons as a command.
            Some(rest) => {
                let indent = " ".repeat(text.len() - rest.len() - 2);
                let _ = writeln!(self.out, "{indent}…:{rest}");
            }
            None => {
                let _ = writeln!(self.out, "{text}");
            }
        }
    }

    fn gap(&mut self) {
        if !self.out.is_empty() {
            self.line("");
        }
    }

    /// Whether to show a note: only if its backend has hardware or can be built. The matrix shows the other backends as absent.
    fn shows_note(&self, document: &DoctorReport, finding: &Finding) -> bool {
        self.detail == Detail::Everything
            || document.backends.is_empty()
            || finding.backend.is_some_and(|backend| {
                let here = |entry: &&BackendEntry| entry.id == backend;
                document.backends.iter().find(here).is_some_and(|entry| {
                    entry.hardware.state == Presence::Present || entry.build.state.is_possible()
                })
            })
    }

    /// The examined file (`--binary`).
    fn binary(&mut self, document: &DoctorReport) {
        let Some(binary) = &document.binary else { return };
        for line in binary_text::lines(binary, self.detail) {
            self.line(&clean::short(&line, SENTENCE));
        }
    }

    /// The audited files.
    fn files(&mut self, document: &DoctorReport) {
        for line in document.files.iter().flat_map(super::audit::lines) {
            self.line(&clean::short(&line, SENTENCE));
        }
    }

    /// For which machine the commands are, if a log was examined and they depend on it.
    fn log(&mut self, document: &DoctorReport) {
        let Some(log) = &document.log else { return };
        let commands: Vec<&String> =
            document.findings.iter().flat_map(|finding| &finding.remedy.commands).collect();
        let are_labelled = commands.iter().any(|command| command.contains("  # "));
        let text = match &log.platform {
            _ if commands.is_empty() => return,
            None if !are_labelled => return,
            Some(platform) => {
                let system = platform.distro.as_ref().unwrap_or(&platform.os);
                format!("the commands are for {system}: line {} contains `{}`", platform.line, platform.text)
            }
            None => "the log does not show on which system it was written".to_owned(),
        };
        self.gap();
        self.entry("", None, &clean::short(&text, SENTENCE));
    }

    /// Changes since a snapshot (`--diff`).
    fn changes(&mut self, document: &DoctorReport) {
        let Some(changes) = &document.changes else { return };
        if changes.is_empty() {
            self.line("nothing changed since the snapshot");
            return;
        }
        self.line("changed since the snapshot, causes before effects:");
        let width = changes.iter().map(|change| change.name.width()).max().unwrap_or(0).min(WIDEST_NAME);
        for change in changes {
            let name = clean::short(&change.name, VALUE);
            let label = format!("  {name:<width$}  ");
            if label.width() > width + 4 {
                self.entry("  ", None, &name);
                self.entry(&" ".repeat(width + 4), None, &words::change(change));
            } else {
                self.entry(&label, None, &words::change(change));
            }
        }
    }

    /// Results of the test programs (`--validate`).
    fn proofs(&mut self, document: &DoctorReport) {
        let Some(outcomes) = &document.validation else { return };
        self.gap();
        self.line("test programs:");
        for outcome in outcomes {
            let (state, text) = words::proof(outcome);
            self.entry(&format!("  {:<8} {state:<10} ", outcome.backend), None, &text);
        }
    }

    /// Adds text with a label, wrapped at spaces. Continuation lines are indented to the text.
    fn entry(&mut self, label: &str, tone: Option<Tone>, words: &str) {
        self.entry_below(label, label.width(), tone, words);
    }

    fn entry_below(&mut self, label: &str, indent: usize, tone: Option<Tone>, words: &str) {
        let width = WIDTH - indent.max(label.width());
        for (index, piece) in wrap(words, width).into_iter().enumerate() {
            let head = if index == 0 { label.to_owned() } else { " ".repeat(indent) };
            let piece = tone.map_or_else(|| piece.clone(), |tone| (self.paint)(tone, &piece));
            self.line(&format!("{head}{piece}"));
        }
    }

    /// Architectures that a build contains or omits; only with `-v`.
    fn architectures(&mut self, document: &DoctorReport) {
        if self.detail != Detail::Everything {
            return;
        }
        for plan in &document.arch_plan {
            self.gap();
            let head = format!("architectures of {} with {} ({})", plan.backend, plan.toolkit, plan.origin);
            self.entry("", Some(Tone::Dim), &clean::short(&head, SENTENCE));
            for built in &plan.built {
                let words =
                    format!("{}: {}", clean::short(&built.arch, VALUE), clean::short(&built.why, SENTENCE));
                self.entry("  ✓ ", None, &words);
            }
            for removed in &plan.removed {
                let words = format!(
                    "{}: {}",
                    clean::short(&removed.arch, VALUE),
                    clean::short(&removed.why, SENTENCE)
                );
                self.entry("  ✗ ", Some(Tone::Dim), &words);
            }
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let (symbol, tone) = match finding.severity {
            Severity::Error => ("✗", Tone::Bad),
            Severity::Warning => ("!", Tone::Caution),
            Severity::Info => ("-", Tone::Dim),
        };
        let mark = format!("{symbol} {}: ", words::severity(finding.severity));
        let summary = clean::short(&finding.summary, SENTENCE);
        let sentence = format!("{summary} [{}]", clean::short(&finding.id, VALUE));
        let start = self.out.len();
        self.entry_below(&mark, 4, None, &sentence);
        let painted = (self.paint)(tone, mark.trim_end());
        self.out.replace_range(start..start + mark.trim_end().len(), &painted);
        self.remedy(finding);
        self.consequences(finding);
        if self.detail == Detail::Everything {
            self.evidence(finding);
        }
    }

    fn remedy(&mut self, finding: &Finding) {
        let remedy = &finding.remedy;
        self.entry("  fix: ", Some(Tone::Hint), &clean::short(&remedy.text, SENTENCE));
        for command in &remedy.commands {
            match clean::command(command) {
                Some(command) => self.line(&format!("    {command}")),
                None => self.entry("    ", Some(Tone::Dim), &format!("({LEFT_OUT})")),
            }
        }
        let needs = words::needs(finding).join(", ");
        self.entry("  needs: ", None, &needs);
        match remedy.verify.as_deref().map(clean::command) {
            Some(Some(verify)) => self.line(&format!("  verify: {verify}")),
            Some(None) => self.entry("  verify: ", Some(Tone::Dim), &format!("({LEFT_OUT})")),
            None => {}
        }
    }

    /// The consequences of a finding: on one line, or with `-v` on one line each.
    fn consequences(&mut self, finding: &Finding) {
        if self.detail == Detail::Everything {
            for one in &finding.consequences {
                let summary = clean::short(&one.summary, SENTENCE);
                let sentence = format!("{summary} [{}]", clean::short(&one.id, VALUE));
                self.entry("  so: ", Some(Tone::Dim), &sentence);
            }
            return;
        }
        let more = |count: usize| format!(", and {count} more (-v)");
        let mut line = String::new();
        for (index, one) in finding.consequences.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let summary = clean::short(&one.summary, SENTENCE);
            let piece = format!("{separator}{summary} [{}]", clean::short(&one.id, VALUE));
            let rest = finding.consequences.len() - index;
            if line.width() + piece.width() + "  so: ".len() + more(rest).len() > WIDTH {
                let all =
                    if rest == 1 { "1 finding (-v)".to_owned() } else { format!("{rest} findings (-v)") };
                line += &if index == 0 { all } else { more(rest) };
                break;
            }
            line += &piece;
        }
        self.entry("  so: ", Some(Tone::Dim), &line);
    }

    fn evidence(&mut self, finding: &Finding) {
        for evidence in finding.evidence.iter().take(OBSERVATIONS) {
            let (kind, place, value) = words::observation(evidence);
            self.entry("  seen: ", Some(Tone::Dim), &format!("{kind} {place}: {value}"));
        }
        if let Some(more) = finding.evidence.len().checked_sub(OBSERVATIONS + 1) {
            self.entry("  seen: ", Some(Tone::Dim), &format!("{} more", more + 1));
        }
        for link in &finding.links {
            let link = clean::short(link, VALUE);
            self.line(&format!("  link: {}", (self.paint)(Tone::Dim, &link)));
        }
    }

    /// The machine, and one line per backend.
    fn matrix(&mut self, document: &DoctorReport) {
        if document.backends.is_empty() {
            return;
        }
        self.gap();
        if let Some(host) = &document.host {
            let container = host.container.then_some("in a container");
            let parts = [
                Some(host.distro.as_deref().unwrap_or(host.os)),
                Some(host.arch),
                host.libc.as_deref(),
                container,
                host.wsl.then_some("WSL"),
            ];
            let parts: Vec<&str> = parts.into_iter().flatten().collect();
            self.entry("on ", Some(Tone::Dim), &clean::short(&parts.join(", "), VALUE));
        }
        let head = format!("{:<FIRST$}{:<CELL$}{:<CELL$}{:<CELL$}", "backend", "hardware", "build", "run");
        self.line(&(self.paint)(Tone::Dim, head.trim_end()));
        for entry in &document.backends {
            let cell = |(tone, symbol, word): (Tone, &str, &str)| {
                let padding = " ".repeat(CELL.saturating_sub(symbol.width() + 1 + word.width()));
                format!("{}{padding}", (self.paint)(tone, &format!("{symbol} {word}")))
            };
            let states = format!(
                "{}{}{}",
                cell(presence(entry.hardware.state)),
                cell(readiness(entry.build.state)),
                cell(readiness(entry.run.state))
            );
            let devices = devices(entry, WIDTH - FIRST - 3 * CELL);
            self.line(&format!("{:<FIRST$}{states}{devices}", entry.id));
        }
    }
}

/// The names of a backend's devices, as many as fit into `width`.
fn devices(entry: &BackendEntry, width: usize) -> String {
    let devices = &entry.hardware.devices;
    let mut text = String::new();
    for (index, device) in devices.iter().enumerate() {
        let name = clean::short(&device.name, VALUE);
        let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
        let separator = if index == 0 { "" } else { ", " };
        let rest = devices.len() - index;
        let more = format!("{separator}{rest} more");
        let room = width.saturating_sub(text.width() + separator.len());
        if name.width() + if rest > 1 { 9 } else { 0 } > room {
            let first =
                if index == 0 { wrap(&name, room.saturating_sub(4)).into_iter().next() } else { None };
            return first.map_or(text + &more, |first| first + " …");
        }
        text = text + separator + &name;
    }
    text
}
