//! Recognises known failures in the output of CMake, compilers, linkers, cargo and pip.
//!
//! Pure: takes bytes and returns causes. The known failures are in `findings/logs/*.toml`. Each is a pattern for one cleaned
//! line, or for a few joined lines, with a sample of real output. A log is read once, and only lines that contain a literal
//! of a pattern are matched against it, so the time depends on the size of the log and not on the number of patterns.

mod buckets;
mod certainty;
mod clean;
mod cuda;
mod decode;
mod error_line;
mod error_list;
mod findings;
mod grid;
mod guess;
mod hits;
mod index;
mod lines;
mod literal;
mod logger;
mod missing;
mod names;
mod outcome;
mod phrase;
mod platform;
mod prefix;
mod reader;
mod search;
mod signature;
mod symbol;
mod text;
mod window;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::template;
use gpubuild_detect::diagnostic::DiagnosticId;

use cuda::CudaLibraries;
pub use findings::{UNRECOGNISED, to_findings};
use grid::Grid;
pub use guess::LogGuess;
use hits::{HitNumbers, WordKind};
use index::SignatureIndex;
pub use names::NameKind;
use names::NameTable;
pub use platform::LogPlatform;
pub use reader::LogReader;
use search::Found;
use signature::{CompiledSignature, EmbeddedSignatures, KnownSystem, PlatformCue};
pub use signature::{Signature, Strength, UnlistedNames};

/// Maximum number of bytes of a line that are matched against patterns. Command lines may be longer, but messages are not.
const LONGEST: usize = 16 * 1024;
/// Number of lines at the end of a log, or of a command's output, in which a doubtful failure counts even if no tool reports a failure.
const AT_THE_END: usize = 6;
/// The same for guesses, which programs often print before they list their configuration.
const NEAR_THE_END: usize = 12;
/// Maximum number of lines, with empty ones, between the first and the last line that a pattern may span on each side.
const REACH: usize = 24;
/// Number of lines between a doubtful failure and a certain one from which on they are probably unrelated.
const FAR: usize = 20;
/// The findings about the end of a resource. They precede all other failures of a log.
const RESOURCES: [&str; 2] = ["build.out-of-memory", "disk.full"];
/// Findings about what a program that failed does next: it ends by a signal, or repeats to connect.
const AFTERMATHS: [&str; 2] = ["build.illegal-instruction", "build.network"];
/// Maximum length of a line that is kept as evidence, in characters.
const EVIDENCE: usize = 240;
/// Maximum length of a captured value, in characters.
const VALUE: usize = 160;

/// The known failures.
pub struct Signatures {
    list: Vec<CompiledSignature>,
    cues: Vec<PlatformCue>,
    systems: Vec<KnownSystem>,
    names: NameTable,
    /// Row and text of each cue.
    cue_texts: Vec<(usize, usize)>,
    numbers: HitNumbers,
    grid: Grid,
    index: SignatureIndex,
    cuda: CudaLibraries,
}

/// The failures that were recognised in a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReading {
    /// Recognised failures, root cause first; at most one per id.
    pub causes: Vec<LogCause>,
    /// Number of lines of the log.
    pub lines: usize,
    /// The line that is most probably the first error: if no failure was recognised, or if it precedes those that may be its
    /// consequences, or beside a failure that only reports that something failed.
    pub guess: Option<LogGuess>,
    /// The machine on which the log was written.
    pub platform: LogPlatform,
}

/// A recognised failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogCause {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// The pattern's named captures.
    pub values: BTreeMap<String, String>,
    /// Line number in the log, from 1.
    pub line: usize,
    /// The cleaned and shortened line.
    pub text: String,
    /// The signature's summary, if it has one. Its placeholders are filled when the log has ended.
    pub summary: Option<String>,
    /// The signature's remedy, likewise.
    pub fix: Option<String>,
    /// The remedy if it is known for which release, used before `fix`.
    fix_of_release: Option<String>,
    /// The signature's commands.
    pub commands: BTreeMap<String, Vec<String>>,
    /// The backend, if the signature determines it and the finding does not.
    pub backend: Option<Backend>,
    /// Number of lines that report it.
    pub count: usize,
    /// The last of these lines.
    pub last: usize,
    /// Whether it only reports that something failed.
    pub is_weak: bool,
    /// Whether an earlier unrecognised error is the more probable cause.
    pub is_late: bool,
}

impl LogCause {
    /// Adds the values that follow from the log, and fills the placeholders of the texts. A text without a value is dropped.
    fn complete(&mut self, cuda: &CudaLibraries, platform: &LogPlatform) {
        if self.id == "cuda.arch.dropped-by-toolkit"
            && let Some(cause) = cuda.of_newer_arch(&self.values, platform)
        {
            self.id = cause.id.unwrap_or(self.id);
            self.summary = Some(cause.summary.clone());
            self.fix = Some(cause.fix.clone());
        }
        cuda.complete(&mut self.values, platform, self.id);
        let fill = |text: Option<String>| template::fill(&text?, |name| self.values.get(name).cloned());
        self.summary = fill(self.summary.take());
        self.fix = fill(self.fix_of_release.take()).or_else(|| fill(self.fix.take()));
    }
}

impl Signatures {
    /// The embedded signatures.
    ///
    /// # Panics
    /// An embedded file is invalid, which a test rules out.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Signatures> = OnceLock::new();
        EMBEDDED.get_or_init(|| Self::new(signature::embedded()))
    }

    /// The embedded signatures with their samples, for tests.
    ///
    /// # Panics
    /// An embedded file is invalid, which a test rules out.
    #[must_use]
    pub fn with_samples() -> &'static Self {
        static EMBEDDED: OnceLock<Signatures> = OnceLock::new();
        EMBEDDED.get_or_init(|| Self::new(signature::with_samples()))
    }

    /// Only the guesses, without the patterns: to measure how often they are right.
    #[must_use]
    pub fn only_guesses() -> Self {
        let mut all = signature::embedded();
        all.signatures.retain(Signature::is_guess);
        Self::new(all)
    }

    /// No patterns at all: to measure how often the most probable first error is the right line.
    #[must_use]
    pub fn none() -> Self {
        let mut all = signature::embedded();
        all.signatures.clear();
        Self::new(all)
    }

    fn new(all: EmbeddedSignatures) -> Self {
        let EmbeddedSignatures { signatures, cues, systems, names, grid, cuda } = all;
        let mut list: Vec<CompiledSignature> = signatures.into_iter().map(CompiledSignature::new).collect();
        // The first signature that matches a line wins, so exact ones are tried first, whichever file they are in.
        list.sort_indirect_by_key(|one| one.signature.strength());
        let rows = cues.iter().enumerate();
        let cue_texts: Vec<(usize, usize)> =
            rows.flat_map(|(row, cue)| (0..cue.cues.len()).map(move |text| (row, text))).collect();
        let literals = list
            .iter()
            .enumerate()
            .flat_map(|(at, one)| one.literals.iter().map(move |literal| (literal.as_bytes(), at)));
        let texts = cue_texts
            .iter()
            .enumerate()
            .map(|(at, (row, text))| (cues[*row].cues[*text].as_bytes(), list.len() + at));
        let numbers = HitNumbers { signatures: list.len(), cues: cue_texts.len() };
        let preceding = list.iter().enumerate().filter_map(|(at, one)| {
            Some((one.signature.after.as_deref()?.as_bytes(), numbers.preceding(at)))
        });
        let cells = list
            .iter()
            .enumerate()
            .filter_map(|(at, one)| Some((one.signature.cell.as_ref()?, one.signature.context.as_ref(), at)));
        let grid = Grid::new(&grid, cells);
        let triggers = grid.triggers.iter().map(|text| (text.as_bytes(), numbers.word(WordKind::Sentence)));
        let releases = cuda::release_triggers();
        let releases = releases.iter().map(|text| (text.as_bytes(), numbers.word(WordKind::Release)));
        let contexts = grid.cues().map(|(cue, at)| (cue.as_bytes(), numbers.context(at)));
        let words = numbers.all_words().chain(triggers).chain(releases).chain(contexts);
        let index = SignatureIndex::new(literals.chain(texts).chain(preceding).chain(words));
        Self { list, cues, systems, names: NameTable::new(names), cue_texts, numbers, grid, index, cuda }
    }

    /// All signatures in the order in which they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Signature> {
        self.list.iter().map(|one| &one.signature)
    }

    /// Finds the known failures in a log. Invalid UTF-8 is accepted.
    #[must_use]
    pub fn read(&self, log: &[u8]) -> LogReading {
        let mut reader = self.reader();
        reader.push(log);
        reader.finish()
    }

    /// Starts to read a log that need not fit into memory.
    #[must_use]
    pub fn reader(&self) -> LogReader<'_> {
        LogReader::new(self)
    }

    /// Drops what a successful build prints as well: doubtful failures that no tool reports as one and that do not end the output of
    /// a command, and everything before the line `success` with which a build tool reports success. `lines` is the number of lines of the log.
    fn drop_harmless(&self, success: Option<usize>, lines: usize, found: &mut Vec<Found>) {
        let is_doubtful = |one: &Found| one.is_status || self.list[one.signature].signature.doubtful;
        found.retain(|one| {
            let is_guess = self.list[one.signature].signature.cell.is_some();
            let end = lines.saturating_sub(if is_guess { NEAR_THE_END } else { AT_THE_END });
            let is_last = if one.is_status { one.cause.last >= lines } else { one.cause.line > end };
            !is_doubtful(one) || is_last || one.is_error || one.ends_command
        });
        if let Some(success) = success {
            found.retain(|one| one.cause.last > success);
        }
    }

    /// The failure that the most probable first error is about, if it says that something known is missing.
    fn missing(&self, guess: &LogGuess) -> Option<LogCause> {
        if guess.is_doubtful {
            return None;
        }
        let missing = missing::find(&self.names, &guess.text)?;
        let one = self.list.iter().find(|one| one.signature.missing == Some(missing.kind))?;
        let name = shorten(missing.name, VALUE);
        let values = ["name", missing.key()].map(|key| (key.to_owned(), name.clone()));
        let (_, cause) = one.cause(&self.names, (guess.line, &guess.text), values.into())?;
        Some(cause)
    }

    /// Replaces the guesses by what they mean in this log. `contexts` are the numbers of lines with the texts of each context.
    fn in_context(&self, contexts: &[usize], found: &mut Vec<Found>) {
        found.retain_mut(|one| {
            self.list[one.signature].signature.cell.is_none()
                || self.grid.in_context(one.signature, contexts).is_some_and(|signature| {
                    one.become_guess(signature, &self.list[signature]);
                    true
                })
        });
    }

    /// Sorts the failures by line and keeps the first of each id. Weak signatures, which only report that something failed,
    /// are used only if no other matches. The end of a resource precedes all others: the compilers of a parallel build report
    /// its consequences in any order.
    fn rank(&self, mut found: Vec<Found>) -> Vec<LogCause> {
        let is_resource = |one: &Found| RESOURCES.contains(&one.cause.id.as_str());
        let is_doubtful = |one: &Found| one.is_status || self.list[one.signature].signature.doubtful;
        let strength = |one: &Found| self.list[one.signature].signature.strength();
        // A doubtful match far before a certain one is probably the output of an attempt with a fallback.
        let is_certain = |one: &&Found| !is_doubtful(one) && strength(one) != Strength::Weak;
        let certain = found.iter().filter(is_certain).map(|one| one.cause.line).min();
        let place = |one: &Found| match certain {
            Some(certain) if one.is_status || (is_doubtful(one) && one.cause.line + FAR < certain) => {
                (certain.max(one.cause.line), true)
            }
            _ => (one.cause.line, false),
        };
        found.sort_indirect_by_key(|one| (!is_resource(one), place(one), one.signature));
        // An error that names a component precedes what follows from it, even if it is only guessed.
        let guess = found.iter().filter(|one| one.is_error && strength(one) == Strength::Guess);
        if let Some(first) = guess.map(|one| one.cause.line).min() {
            found.retain(|one| !AFTERMATHS.contains(&one.cause.id.as_str()) || one.cause.line < first);
        }
        let strongest = found.iter().map(strength).min();
        if strongest.is_some_and(|strongest| strongest < Strength::Weak) {
            found.retain(|one| strength(one) < Strength::Weak);
        } else {
            found.retain(|one| Some(strength(one)) == strongest);
            found.truncate(1);
        }
        let mut first: Vec<(Strength, LogCause)> = Vec::new();
        for one in found {
            let strength = strength(&one);
            match first.iter_mut().find(|(_, cause)| cause.id == one.cause.id) {
                // A guess has only the general texts of the finding. A line below it often says more about the same failure.
                Some((known, cause)) if *known == Strength::Guess && strength < Strength::Guess => {
                    if one.cause.line <= cause.line + FAR {
                        (*known, *cause) = (strength, one.cause);
                    }
                }
                Some(_) => {}
                None => first.push((strength, one.cause)),
            }
        }
        first.into_iter().map(|(_, cause)| cause).collect()
    }
}

/// Replaces control characters and limits the text to a number of characters.
fn shorten(text: &str, limit: usize) -> String {
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = characters.by_ref().take(limit).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests;

#[cfg(test)]
#[path = "guess_tests.rs"]
mod guess_tests;
