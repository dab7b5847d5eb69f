//! The text of `gpubuild doctor --resolvers`: the build systems by the copy that they select, then the lines that make them agree. It has at
//! most 100 columns, and a word beside every symbol.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpubuild_host::Os;

use super::detect_text::Tone;
use super::resolvers::{ChosenEntry, ResolverEntry, ResolversReport, TakenEntry};
use super::words::wrap;

/// Maximum width of a line.
const WIDTH: usize = 100;
/// Column at which the reason of a build system starts.
const COLUMN: usize = 39;

type ResolverPaint<'a> = &'a dyn Fn(Tone, &str) -> String;

/// Renders the text. `names` are the names of toolkits by id.
#[must_use]
pub fn text(
    document: &ResolversReport,
    names: &BTreeMap<String, String>,
    os: Os,
    paint: ResolverPaint<'_>,
) -> String {
    let mut page = ResolversPage { out: String::new(), paint };
    for chosen in &document.chosen {
        let name = names.get(&chosen.toolkit).map_or(chosen.toolkit.as_str(), String::as_str);
        page.toolkit(document, chosen, name);
    }
    page.without_choice(document, names);
    page.lines(document, os);
    page.out
}

struct ResolversPage<'a> {
    out: String,
    paint: ResolverPaint<'a>,
}

/// The selection that a group of build systems has in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ResolverGroup<'a> {
    /// The copy that gpubuild selects.
    Chosen,
    /// Another copy.
    Other(&'a str),
    /// The compiler of one copy with the libraries of another.
    Mixed,
    /// No copy, or an error.
    Failing,
}

impl ResolversPage<'_> {
    fn toolkit(&mut self, document: &ResolversReport, chosen: &ChosenEntry, name: &str) {
        let entries: Vec<&ResolverEntry> =
            others(document).filter(|one| one.toolkit == chosen.toolkit).collect();
        let disagreeing = entries.iter().filter(|one| one.agrees == Some(false)).count();
        let (tone, words) = match disagreeing {
            0 => (Tone::Good, "all build systems select the same copy".to_owned()),
            1 => (
                Tone::Caution,
                format!("1 of {} build systems does not select gpubuild's copy", entries.len()),
            ),
            _ => (
                Tone::Caution,
                format!("{disagreeing} of {} build systems do not select gpubuild's copy", entries.len()),
            ),
        };
        self.heading(name, tone, &words);
        let mut groups: BTreeMap<ResolverGroup<'_>, Vec<&ResolverEntry>> =
            BTreeMap::from([(ResolverGroup::Chosen, Vec::new())]);
        for one in &entries {
            groups.entry(group(one)).or_default().push(one);
        }
        for (group, members) in groups {
            let (tone, mark, head) = match (&group, members.first().and_then(|one| one.takes.as_ref())) {
                (ResolverGroup::Chosen, _) => {
                    let version = chosen.version.as_deref().unwrap_or("version unknown");
                    (
                        Tone::Good,
                        "✓",
                        format!("{version} in {}, selected by gpubuild: {}", chosen.root, chosen.reason),
                    )
                }
                (ResolverGroup::Other(_), Some(taken)) => (Tone::Bad, "✗", place(taken)),
                (ResolverGroup::Mixed, _) => {
                    (Tone::Bad, "✗", "compiler and libraries of different copies".to_owned())
                }
                (ResolverGroup::Other(_) | ResolverGroup::Failing, _) => {
                    (Tone::Bad, "✗", "no usable copy".to_owned())
                }
            };
            self.group(tone, mark, &head, &members);
        }
        self.out.push('\n');
    }

    fn heading(&mut self, name: &str, tone: Tone, words: &str) {
        let _ = writeln!(self.out, "{}: {}", (self.paint)(Tone::Strong, name), (self.paint)(tone, words));
    }

    fn group(&mut self, tone: Tone, mark: &str, head: &str, members: &[&ResolverEntry]) {
        for (index, line) in wrap(head, WIDTH - 4).into_iter().enumerate() {
            let mark = if index == 0 { (self.paint)(tone, mark) } else { " ".to_owned() };
            let _ = writeln!(self.out, "  {mark} {line}");
        }
        for one in members {
            let why = why(one);
            let mut name = Some(one.name.as_str());
            for line in wrap(&why, WIDTH - COLUMN) {
                let name = name.take().unwrap_or_default();
                let line = (self.paint)(Tone::Dim, &line);
                let _ = writeln!(self.out, "      {name:<width$} {line}", width = COLUMN - 7);
            }
            if name.is_some() {
                let _ = writeln!(self.out, "      {}", one.name);
            }
        }
    }

    /// Toolkits of which gpubuild selects no copy.
    fn without_choice(&mut self, document: &ResolversReport, names: &BTreeMap<String, String>) {
        let mut toolkits: Vec<&str> = Vec::new();
        for one in others(document).filter(|one| one.agrees.is_none()) {
            if !toolkits.contains(&one.toolkit.as_str()) {
                toolkits.push(&one.toolkit);
            }
        }
        for toolkit in toolkits {
            let name = names.get(toolkit).map_or(toolkit, String::as_str);
            let of = others(document).filter(|one| one.toolkit == toolkit);
            let (taking, failing): (Vec<&ResolverEntry>, Vec<&ResolverEntry>) =
                of.partition(|one| one.takes.is_some());
            self.heading(name, Tone::Dim, "no complete copy");
            for one in &taking {
                let place = one.takes.as_ref().map(place).unwrap_or_default();
                self.group(Tone::Caution, "!", &format!("incomplete: {place}"), &[one]);
            }
            if !taking.is_empty() && !failing.is_empty() {
                self.group(Tone::Dim, "-", "no copy", &failing);
            }
            self.out.push('\n');
        }
    }

    fn lines(&mut self, document: &ResolversReport, os: Os) {
        let shell = if os == Os::Windows { "PowerShell" } else { "a POSIX shell" };
        if !document.lines.is_empty() {
            let words = match document.exceptions.len() {
                0 => "These lines make them agree".to_owned(),
                1 => "These lines make all but one agree".to_owned(),
                count => format!("These lines make all but {count} agree"),
            };
            let _ = writeln!(self.out, "{}", (self.paint)(Tone::Strong, &format!("{words} (in {shell}):")));
            for line in &document.lines {
                let _ = writeln!(self.out, "  {}", (self.paint)(Tone::Hint, &line.text));
            }
            self.out.push('\n');
        }
        if !document.cmake.is_empty() {
            let _ = writeln!(self.out, "{}", (self.paint)(Tone::Strong, "For one CMake build:"));
            for argument in &document.cmake {
                let _ = writeln!(self.out, "  {}", (self.paint)(Tone::Hint, &argument.text));
            }
            self.out.push('\n');
        }
        if !document.exceptions.is_empty() {
            let head = if document.lines.is_empty() { "No line makes them agree:" } else { "Exceptions:" };
            let _ = writeln!(self.out, "{}", (self.paint)(Tone::Strong, head));
        }
        for one in &document.exceptions {
            for line in wrap(&format!("{} {}", one.name, one.reason), WIDTH - 2) {
                let _ = writeln!(self.out, "  {line}");
            }
            for line in one.remedy.iter().flat_map(|remedy| wrap(remedy, WIDTH - 4)) {
                let _ = writeln!(self.out, "    {}", (self.paint)(Tone::Hint, &line));
            }
        }
        while self.out.ends_with("\n\n") {
            self.out.pop();
        }
    }
}

/// The build systems other than gpubuild.
fn others(document: &ResolversReport) -> impl Iterator<Item = &ResolverEntry> {
    document.resolvers.iter().filter(|one| !one.id.starts_with("gpubuild-"))
}

fn group(one: &ResolverEntry) -> ResolverGroup<'_> {
    match &one.takes {
        _ if one.agrees == Some(true) => ResolverGroup::Chosen,
        _ if one.error.is_some() => ResolverGroup::Failing,
        Some(takes) if takes.compiler_copy.is_some() => ResolverGroup::Mixed,
        Some(takes) => ResolverGroup::Other(&takes.copy),
        None => ResolverGroup::Failing,
    }
}

fn place(taken: &TakenEntry) -> String {
    match &taken.version {
        Some(version) => format!("{version} in {}", taken.copy),
        None => taken.copy.clone(),
    }
}

/// Why a build system selects its copy.
fn why(one: &ResolverEntry) -> String {
    let mut words = match (&one.error, &one.takes) {
        (Some(error), _) => error.clone(),
        (None, Some(TakenEntry { compiler_copy: Some(other), copy, .. })) => {
            format!("compiler of {other}, libraries of {copy}: {}", one.rule)
        }
        (None, _) => one.rule.clone(),
    };
    for passed in &one.passed {
        let _ = write!(words, "; `{}` names no usable copy", passed.variable);
    }
    words
}
