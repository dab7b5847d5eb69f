//! The text of `gpubuild detect`: a matrix, then the reasons. It has at most 100 columns, and a word beside every symbol.

use std::fmt::Write as _;

use gpubuild_core::backend::Backend;
use gpubuild_core::clean;
use gpubuild_detect::facts::{Facts, Gpu, Vendor};
use gpubuild_detect::finding::Evidence;
use gpubuild_detect::matrix::{Matrix, Presence, Readiness, Reason, Verdict};
use gpubuild_detect::toolkit::description::ToolkitKind;
use gpubuild_detect::toolkit::{Catalogue, DeadEnd, Installation, Inventory};
use gpubuild_plan::plan::kits;

use super::words::wrap;

/// Maximum width of a line.
const WIDTH: usize = 100;
/// Column at which the text of a section starts.
const INDENT: usize = 11;

/// The role of a piece of text, which selects its colour. The text is complete without colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A positive state: ready, present.
    Good,
    /// A negative state: blocked.
    Bad,
    /// An unknown state, or a warning.
    Caution,
    /// How to fix a problem.
    Hint,
    /// Less important text.
    Dim,
    /// A heading.
    Strong,
}

/// Level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Backends that have hardware or a toolkit, or that were requested.
    Relevant,
    /// All backends, with evidence.
    Everything,
}

/// The inputs of the text.
#[derive(Clone, Copy)]
pub struct DetectSubject<'a> {
    /// Facts about the machine.
    pub facts: &'a Facts,
    /// Installed toolkits.
    pub inventory: &'a Inventory,
    /// Descriptions of toolkits.
    pub catalogue: &'a Catalogue,
    /// Verdicts by backend.
    pub matrix: &'a Matrix,
    /// The backends to show.
    pub backends: &'a [Backend],
    /// Level of detail.
    pub detail: Detail,
}

/// Renders the text; `paint` colours pieces of it.
#[must_use]
pub fn text(subject: &DetectSubject<'_>, paint: &dyn Fn(Tone, &str) -> String) -> String {
    let mut page = DetectPage { out: String::new(), paint };
    page.host(subject.facts);
    page.table(subject);
    let mut hidden = false;
    for verdict in shown(subject) {
        if subject.detail == Detail::Everything
            || subject.backends.len() < Backend::ALL.len()
            || matters(verdict)
        {
            page.section(subject, verdict);
        } else {
            hidden = true;
        }
    }
    page.tools(subject);
    page.end(subject, hidden);
    page.out
}

fn shown<'a>(subject: &DetectSubject<'a>) -> impl Iterator<Item = &'a Verdict> {
    subject.matrix.verdicts.iter().filter(|verdict| subject.backends.contains(&verdict.backend))
}

/// Whether a backend gets a section in addition to its row of the table.
fn matters(verdict: &Verdict) -> bool {
    verdict.hardware == Presence::Present || verdict.build.is_possible() || verdict.run.is_possible()
}

struct DetectPage<'a> {
    out: String,
    paint: &'a dyn Fn(Tone, &str) -> String,
}

impl DetectPage<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{}", text.trim_end());
    }

    /// Adds a labelled entry, wrapped at spaces.
    fn entry(&mut self, label: &str, tone: Option<Tone>, words: &str) {
        let label = format!("  {label:<width$}", width = INDENT - 2);
        for (index, piece) in wrap(words, WIDTH - INDENT).into_iter().enumerate() {
            let head = if index == 0 { label.clone() } else { " ".repeat(INDENT) };
            let piece = tone.map_or_else(|| piece.clone(), |tone| (self.paint)(tone, &piece));
            self.line(&format!("{head}{piece}"));
        }
    }

    fn host(&mut self, facts: &Facts) {
        let gib = |bytes: u64| format!("{:.1} GiB", bytes_to_gib(bytes));
        let mut words: Vec<String> = Vec::new();
        words.push(
            facts
                .distro
                .as_ref()
                .map_or_else(|| facts.platform.os.id().to_owned(), |fact| fact.value.label()),
        );
        words.push(facts.platform.arch.id().to_owned());
        words.extend(facts.libc.as_ref().map(|fact| fact.value.label()));
        words.extend(facts.container.as_ref().map(|fact| format!("in a container ({})", fact.value)));
        words.extend(facts.wsl.as_ref().map(|fact| format!("WSL {}", fact.value)));
        self.line(&(self.paint)(Tone::Strong, &clean::line(&words.join(", "))));
        let cpu = [
            facts.cpu.name.clone(),
            facts.cpu.threads.map(|threads| format!("{threads} threads")),
            facts.cpu.level.clone(),
            facts.memory.total_bytes.map(gib),
        ];
        let cpu = cpu.into_iter().flatten().collect::<Vec<_>>().join(", ");
        if !cpu.is_empty() {
            for piece in wrap(&cpu, WIDTH) {
                self.line(&piece);
            }
        }
        for one in &facts.overrides {
            let text = format!("{} = {} (set by {})", one.key, one.value, one.origin);
            self.line(&(self.paint)(Tone::Caution, &clean::line(&text)));
        }
        self.line("");
    }

    fn table(&mut self, subject: &DetectSubject<'_>) {
        let head = format!("{:<INDENT$}{:<13}{:<13}{:<13}", "backend", "hardware", "build", "run");
        self.line(&(self.paint)(Tone::Dim, head.trim_end()));
        for verdict in shown(subject) {
            let cell = |(tone, symbol, word): (Tone, &str, &str)| {
                let plain = format!("{symbol} {word}");
                let padding = " ".repeat(13_usize.saturating_sub(plain.chars().count()));
                format!("{}{padding}", (self.paint)(tone, &plain))
            };
            let row = format!(
                "{:<INDENT$}{}{}{}",
                verdict.backend,
                cell(presence(verdict.hardware)),
                cell(readiness(verdict.build)),
                cell(readiness(verdict.run))
            );
            self.line(&row);
        }
    }

    fn section(&mut self, subject: &DetectSubject<'_>, verdict: &Verdict) {
        self.line("");
        let title = (self.paint)(Tone::Strong, verdict.backend.id());
        self.line(&title);
        for gpu in &verdict.devices {
            self.entry("device", None, &device(gpu));
            if subject.detail == Detail::Everything {
                self.evidence(&gpu.evidence);
            }
        }
        self.reasons("hardware", verdict.hardware == Presence::Absent, &verdict.hardware_reasons);
        for copy in &verdict.toolkits {
            self.copy(subject, copy);
        }
        for dead in dead_ends(subject, verdict.backend) {
            let name = dead.found_via.trim_start_matches("env:");
            let words = format!("! `{name}` names `{}`: {}", dead.place, dead.why);
            self.entry("toolkit", Some(Tone::Caution), &words);
        }
        self.reasons("build", verdict.build == Readiness::Blocked, &verdict.build_reasons);
        if let Some(driver) = &verdict.driver {
            self.entry("driver", None, driver.as_str());
        }
        let known: Vec<&str> = verdict.hardware_reasons.iter().map(|reason| reason.id.as_str()).collect();
        let fresh: Vec<Reason> = verdict
            .run_reasons
            .iter()
            .filter(|reason| !known.contains(&reason.id.as_str()))
            .cloned()
            .collect();
        self.reasons("run", verdict.run == Readiness::Blocked, &fresh);
        if subject.detail == Detail::Everything {
            self.runtime(subject, verdict.backend);
        }
    }

    fn copy(&mut self, subject: &DetectSubject<'_>, copy: &Installation) {
        let version = copy.version().map(|version| format!(" {version}")).unwrap_or_default();
        let name = subject.catalogue.get(&copy.toolkit).map_or(copy.toolkit.as_str(), |one| &one.name);
        let place = copy.part("program").unwrap_or(&copy.root);
        let (symbol, tone) = if copy.chosen { ("✓", None) } else { ("-", Some(Tone::Dim)) };
        self.entry("toolkit", tone, &format!("{symbol} {name}{version} in {place}: {}", copy.reason));
        if subject.detail == Detail::Everything {
            self.entry("", Some(Tone::Dim), &format!("found via {}", copy.found_via.join(", ")));
            self.evidence(copy.version.as_ref().map_or(&[][..], |fact| &fact.evidence));
            for (id, part) in &copy.parts {
                let words = match &part.path {
                    Some(path) => format!("{id}: {path}"),
                    None => format!("{id}: absent, looked for {}", part.looked_for.join(", ")),
                };
                self.entry("", Some(Tone::Dim), &words);
            }
        }
    }

    fn reasons(&mut self, label: &str, blocking: bool, reasons: &[Reason]) {
        for (index, reason) in reasons.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let symbol = if blocking { "✗" } else { "!" };
            let tone = if blocking { Tone::Bad } else { Tone::Caution };
            self.entry(label, Some(tone), &format!("{symbol} {} [{}]", reason.text, reason.id));
            if let Some(hint) = &reason.hint {
                self.entry("", Some(Tone::Hint), &format!("hint: {hint}"));
            }
        }
    }

    fn evidence(&mut self, evidence: &[Evidence]) {
        for one in evidence {
            self.entry("", Some(Tone::Dim), &format!("{}: {}", one.place, one.value));
        }
    }

    fn runtime(&mut self, subject: &DetectSubject<'_>, backend: Backend) {
        let Some(runtime) = subject.inventory.runtimes.get(&backend) else { return };
        if let Some(loader) = &runtime.loader {
            self.entry("loader", Some(Tone::Dim), loader.value.as_str());
        }
        for driver in &runtime.drivers {
            let found = if driver.found { "found" } else { "not found" };
            let words = format!("{}: {} {found}", driver.manifest, driver.library);
            self.entry("", Some(Tone::Dim), &words);
        }
        for node in &runtime.nodes {
            let state = match node.state {
                gpubuild_detect::toolkit::NodeState::Opens => "opens",
                gpubuild_detect::toolkit::NodeState::Denied => "permission denied",
                gpubuild_detect::toolkit::NodeState::Missing => "absent",
                gpubuild_detect::toolkit::NodeState::Failed => "does not open",
            };
            self.entry("", Some(Tone::Dim), &format!("{}: {state}", node.path));
        }
    }

    fn tools(&mut self, subject: &DetectSubject<'_>) {
        self.line("");
        let mut words = Vec::new();
        for description in subject.catalogue.iter().filter(|one| one.kind == ToolkitKind::Tool) {
            if let Some(copy) = subject.inventory.chosen(&description.id) {
                let version = copy.version().map(|version| format!(" {version}")).unwrap_or_default();
                words.push(format!("{}{version}", description.name));
            } else if kits::BUILD_TOOLS.contains(&description.id.as_str()) && description.wheel.is_some() {
                words.push(format!("no {} (gpubuild fetches it)", description.name));
            }
        }
        for (index, piece) in wrap(&words.join(", "), WIDTH - INDENT - 2).into_iter().enumerate() {
            let head = if index == 0 { "tools" } else { "" };
            self.line(&format!("{head:<width$}{piece}", width = INDENT + 2));
        }
    }

    fn end(&mut self, subject: &DetectSubject<'_>, hidden: bool) {
        let matrix = subject.matrix;
        let run = (self.paint)(Tone::Good, matrix.recommended_run.id());
        let possible =
            matrix.recommended_build.iter().filter(|one| matrix.verdict(**one).build.is_possible());
        let build: Vec<&str> = possible.map(|backend| backend.id()).collect();
        let build = if build.is_empty() {
            "nothing can be built".to_owned()
        } else {
            format!("build {}", (self.paint)(Tone::Good, &build.join(", ")))
        };
        self.line(&format!("{:<width$}run {run}; {build}", "recommended", width = INDENT + 2));
        if hidden {
            let note = "-v shows the reasons for the other backends too";
            self.line(&format!("{:width$}{}", "", (self.paint)(Tone::Dim, note), width = INDENT + 2));
        }
    }
}

fn dead_ends<'a>(subject: &DetectSubject<'a>, backend: Backend) -> impl Iterator<Item = &'a DeadEnd> {
    let id = subject.catalogue.for_backend(backend).map(|description| description.id.as_str());
    subject.inventory.dead_ends.iter().filter(move |dead| Some(dead.toolkit.as_str()) == id)
}

pub(super) fn presence(state: Presence) -> (Tone, &'static str, &'static str) {
    match state {
        Presence::Present => (Tone::Good, "✓", "present"),
        Presence::Absent => (Tone::Dim, "-", "absent"),
        Presence::Unknown => (Tone::Caution, "?", "unknown"),
    }
}

pub(super) fn readiness(state: Readiness) -> (Tone, &'static str, &'static str) {
    match state {
        Readiness::Ready => (Tone::Good, "✓", "ready"),
        Readiness::Limited => (Tone::Caution, "!", "limited"),
        Readiness::Blocked => (Tone::Bad, "✗", "blocked"),
        Readiness::Unknown => (Tone::Caution, "?", "unknown"),
    }
}

fn device(gpu: &Gpu) -> String {
    let mut words = vec![gpu.name.clone()];
    words.extend(gpu.arch.clone());
    words.extend(gpu.memory_bytes.map(|bytes| format!("{:.1} GiB", bytes_to_gib(bytes))));
    if gpu.integrated == Some(true) {
        words.push("integrated".to_owned());
    }
    words.extend(gpu.pci.clone());
    words.extend(gpu.kernel_driver.as_ref().map(|driver| format!("driver {driver}")));
    if gpu.vendor == Vendor::Software {
        words.push("software, runs on the processor".to_owned());
    }
    words.join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn bytes_to_gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
