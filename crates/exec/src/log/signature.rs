//! The format of `findings/logs/*.toml`, and compiled patterns.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpubuild_core::Os;
use gpubuild_core::backend::Backend;
use gpubuild_detect::diagnostic::DiagnosticId;
use memchr::memmem::Finder;
use regex_lite::Regex;
use serde::Deserialize;

use super::cuda::CudaLibraries;
use super::grid::GridWords;
use super::literal;
use super::names::{NameKind, NameRow};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignatureFile {
    /// The strength of the signatures of the file that are not weak.
    #[serde(default)]
    strength: Strength,
    #[serde(default)]
    signature: Vec<Signature>,
    #[serde(default)]
    platform: Vec<PlatformCue>,
    #[serde(default)]
    system: Vec<KnownSystem>,
    #[serde(default)]
    name: Vec<NameRow>,
    /// The words of sentences about components.
    grid: Option<GridWords>,
    cuda: Option<CudaLibraries>,
    /// Commands by id, for findings whose own commands need values that a log does not show.
    #[serde(default)]
    commands: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Remedies by id, likewise.
    #[serde(default)]
    fixes: BTreeMap<String, String>,
}

/// Text in a log that shows on which platform it was written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlatformCue {
    /// The operating system.
    pub(super) os: Os,
    /// The distribution, as `ID` of os-release, if the text shows it.
    pub(super) distro: Option<String>,
    /// Whether the text shows a container build, or WSL.
    pub(super) inside: Option<Inside>,
    /// How strongly it counts.
    #[serde(default = "one")]
    pub(super) weight: usize,
    /// The texts, each with at least four characters.
    pub(super) cues: Vec<String>,
}

/// A system for which commands are listed if a log does not show where it was written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KnownSystem {
    /// Its name beside its commands.
    pub(super) label: String,
    /// The operating system.
    pub(super) os: Os,
    /// The distribution, as `ID` of os-release.
    pub(super) distro: String,
    /// `ID_LIKE` of os-release.
    #[serde(default)]
    pub(super) like: Vec<String>,
}

/// The embedded data.
#[derive(Default)]
pub(super) struct EmbeddedSignatures {
    pub(super) signatures: Vec<Signature>,
    pub(super) cues: Vec<PlatformCue>,
    pub(super) systems: Vec<KnownSystem>,
    pub(super) names: Vec<NameRow>,
    pub(super) grid: GridWords,
    pub(super) cuda: CudaLibraries,
}

/// An environment inside another system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Inside {
    /// A container build.
    Container,
    /// The Windows Subsystem for Linux.
    Wsl,
}

/// A pattern for a failure in the output of tools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// Id of the finding.
    pub id: DiagnosticId,
    /// A regular expression for a line without escape sequences, time stamps, prefixes of build tools and surrounding
    /// spaces. Named captures become values. Every match must contain a literal of the pattern that is long enough for the
    /// index.
    #[serde(default)]
    pub pattern: String,
    /// Instead of the pattern: a component and a predicate of the grid.
    pub cell: Option<[String; 2]>,
    /// Instead of the pattern: a name of this kind in a line that says that something is missing.
    pub missing: Option<NameKind>,
    /// The context of the grid in which the cell has this meaning. Without one it has it in all contexts without their own.
    pub context: Option<String>,
    /// Maximum number of lines that the pattern spans. Lines are joined by spaces; empty lines are skipped.
    #[serde(default = "one")]
    pub lines: usize,
    /// Text that must occur in the log before the match.
    pub after: Option<String>,
    /// How much a match shows, unless it is weak. Set for files.
    #[serde(skip)]
    pub unless_weak: Strength,
    /// The match only reports that something failed; it is used only if nothing else is recognised.
    #[serde(default)]
    pub weak: bool,
    /// Successful builds may print the same text, for example for an optional tool or an attempt with a fallback. The match
    /// counts only at the end of the log, or if another line reports a failure.
    #[serde(default)]
    pub doubtful: bool,
    /// The backend, if the finding is not specific to one.
    pub backend: Option<Backend>,
    /// Replaces the summary of the finding.
    pub summary: Option<String>,
    /// Replaces the remedy of the finding.
    pub fix: Option<String>,
    /// Replaces the commands of the finding, in the same format.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// An earlier failure may cause this one: a library is missing at the link step because it did not compile. An error before
    /// the match that nothing recognises is then the more probable cause.
    #[serde(default)]
    pub late: bool,
    /// The capture `name` is looked up in the table of names of this kind. A row that fits replaces the id, the texts and the
    /// commands.
    pub names: Option<NameKind>,
    /// Text before the name in the table, for names that several runtimes have: `hip ` for `hip out of memory`.
    #[serde(default)]
    pub prefix: String,
    /// The summary and remedy for names whose row does not contain them. They use its value `component`.
    pub component_summary: Option<String>,
    /// See `component_summary`.
    pub component_fix: Option<String>,
    /// What happens with names that have no row.
    #[serde(default)]
    pub unlisted: UnlistedNames,
    /// Real output that the pattern matches. This and the next two are only there after [`Signatures::with_samples`](super::Signatures).
    #[serde(default)]
    pub sample: String,
    /// More real output that the pattern matches, from other sources: other versions, systems and languages.
    #[serde(default)]
    pub also: Vec<String>,
    /// Where the sample is from: an issue, or the tool that printed it.
    #[serde(default)]
    pub source: String,
}

/// What a signature does with names that have no row in the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnlistedNames {
    /// It keeps its own finding.
    #[default]
    General,
    /// It does not match.
    Ignored,
}

/// How much a match of a signature shows. If several signatures match a line, the first in this order wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// The pattern fits one failure.
    #[default]
    Exact,
    /// The pattern fits a form that several failures have.
    General,
    /// The pattern only shows that something failed.
    Weak,
    /// A guess: words that are near each other.
    Guess,
}

impl Signature {
    /// Whether it has no pattern.
    #[must_use]
    pub fn is_guess(&self) -> bool {
        self.cell.is_some() || self.missing.is_some()
    }

    /// How much a match shows.
    #[must_use]
    pub fn strength(&self) -> Strength {
        if self.is_guess() {
            Strength::Guess
        } else if self.weak {
            Strength::Weak
        } else {
            self.unless_weak
        }
    }
}

fn one() -> usize {
    1
}

/// Names of files with signatures, and their contents.
type SignatureFiles = [(&'static str, &'static [u8])];

/// Parses all embedded files.
pub(super) fn embedded() -> EmbeddedSignatures {
    parse(gpubuild_findings::LOG_SIGNATURES)
}

/// Parses all embedded files with their samples.
pub(super) fn with_samples() -> EmbeddedSignatures {
    parse(gpubuild_findings::LOG_SIGNATURES_WITH_SAMPLES)
}

fn parse(documents: &SignatureFiles) -> EmbeddedSignatures {
    let parse = |(name, bytes): &(&str, &'static [u8])| -> SignatureFile {
        gpubuild_toml::from_static(bytes).unwrap_or_else(|error| panic!("findings/logs/{name}.toml: {error}"))
    };
    // Of equally strong signatures that match a line, the one in the earlier file wins.
    let mut all = EmbeddedSignatures::default();
    let mut commands = BTreeMap::new();
    let mut fixes = BTreeMap::new();
    for file in documents.iter().map(parse) {
        let unless_weak = file.strength;
        all.signatures.extend(file.signature.into_iter().map(|one| Signature { unless_weak, ..one }));
        all.grid = file.grid.unwrap_or(all.grid);
        all.cuda = file.cuda.unwrap_or(all.cuda);
        all.cues.extend(file.platform);
        all.systems.extend(file.system);
        all.names.extend(file.name);
        commands.extend(file.commands);
        fixes.extend(file.fixes);
    }
    for signature in all.signatures.iter_mut().filter(|signature| signature.commands.is_empty()) {
        signature.commands = commands.get(signature.id.as_str()).cloned().unwrap_or_default();
    }
    for signature in all.signatures.iter_mut().filter(|signature| signature.fix.is_none()) {
        signature.fix = fixes.get(signature.id.as_str()).cloned();
    }
    all.names.extend(all.cuda.rows());
    for row in &mut all.names {
        row.complete(&commands);
    }
    all
}

/// A literal with fewer bytes may occur in many lines.
const COMMON: usize = 9;

/// A signature with its literals, at least one of which occurs in every match.
pub(super) struct CompiledSignature {
    pub(super) signature: Signature,
    pub(super) literals: Vec<String>,
    matcher: OnceLock<Matcher>,
}

/// A regular expression with sets of literals. Every match contains a literal of each set, which is faster to find out.
struct Matcher {
    required: Vec<Vec<Finder<'static>>>,
    regex: Regex,
}

impl CompiledSignature {
    pub(super) fn new(signature: Signature) -> Self {
        let mut literals = literal::best(literal::required(&signature.pattern, false));
        // To join literals takes time, and is worth it only for words that many lines have.
        if signature.lines == 1 && literals.iter().any(|literal| literal.len() < COMMON) {
            literals = literal::best(literal::required(&signature.pattern, true));
        }
        if signature.lines > 1 {
            // A space in the pattern may be a line break in the log, so literals must not start or end with one.
            literals = literals.iter().map(|literal| literal.trim().to_owned()).collect();
        }
        Self { signature, literals, matcher: OnceLock::new() }
    }

    /// The regular expression, compiled at first use, if a text has the literals of a match.
    pub(super) fn regex_for(&self, text: &str) -> Option<&Regex> {
        let matcher = self.matcher.get_or_init(|| {
            let pattern = &self.signature.pattern;
            let regex = Regex::new(pattern)
                .unwrap_or_else(|error| panic!("{}: `{pattern}`: {error}", self.signature.id));
            let finders = |set: Vec<String>| {
                set.iter().map(|literal| Finder::new(literal.as_bytes()).into_owned()).collect()
            };
            let required = literal::required(pattern, self.signature.lines == 1);
            Matcher { required: required.into_iter().map(finders).collect(), regex }
        });
        let has_one = |set: &Vec<Finder<'_>>| set.iter().any(|finder| finder.find(text.as_bytes()).is_some());
        matcher.required.iter().all(has_one).then_some(&matcher.regex)
    }
}
