//! Symbol versions: compares what libraries offer with what is needed (`GLIBC_2.38`, `GLIBCXX_3.4.32`).

use std::collections::BTreeMap;

use gpubuild_core::version::Version;
use gpubuild_detect::diagnostic::DiagnosticId;
use gpubuild_detect::finding::{Evidence, FindingDraft};
use gpubuild_detect::id;
use gpubuild_host::library::search::LinuxLoader;
use gpubuild_object::graph::{EdgeTarget, GraphEdge};

use super::{BinarySubject, real_version};

/// The symbol versions that a library offers, as far as they are known.
enum SymbolOffer {
    /// Exactly these versions.
    Exactly(Vec<String>),
    /// All versions of a family up to a limit: `GLIBC_` up to 2.36.
    UpTo(&'static str, Version, Evidence),
}

/// Findings about needed symbol versions that no library here offers.
pub(super) fn versions(subject: &BinarySubject<'_>) -> Vec<FindingDraft> {
    // musl has no symbol versions and ignores them.
    if subject.graph.loader != Some(LinuxLoader::Glibc) {
        return Vec::new();
    }
    let mut lacking: BTreeMap<String, Lacking> = BTreeMap::new();
    for link in &subject.graph.links {
        let Some(offer) = offer(subject, link) else { continue };
        for version in &link.needed.versions {
            if !is_offered(&offer, version) {
                let one = lacking.entry(link.needed.name.clone()).or_default();
                one.versions.push(version.clone());
                one.needed_by.push((link.from, version.clone()));
                one.has = highest(&offer, version);
                one.place = place(subject, link, &offer);
            }
        }
    }
    let mut drafts: BTreeMap<DiagnosticId, FindingDraft> = BTreeMap::new();
    for (library, one) in &lacking {
        let draft = one.draft(subject, library);
        let id = one.id();
        // Missing versions in several libraries of one package are one finding with the evidence of all.
        let known = if id == "binary.symbol-version-missing" { None } else { drafts.remove(&id) };
        drafts.insert(id, merged(known, draft));
    }
    drafts.into_values().collect()
}

/// The symbol versions that one library lacks.
#[derive(Default)]
struct Lacking {
    versions: Vec<String>,
    needed_by: Vec<(usize, String)>,
    has: Option<Version>,
    place: Option<Evidence>,
}

impl Lacking {
    fn highest(&self) -> &str {
        let number = |name: &&String| number(name);
        self.versions.iter().max_by_key(|name| number(name)).map_or("", String::as_str)
    }

    fn id(&self) -> DiagnosticId {
        match family(self.highest()) {
            "GLIBC" => id!("binary.glibc-too-old"),
            "GLIBCXX" | "CXXABI" => id!("binary.libstdcxx-too-old"),
            _ => id!("binary.symbol-version-missing"),
        }
    }

    fn draft(&self, subject: &BinarySubject<'_>, library: &str) -> FindingDraft {
        let wanted = self.highest();
        let wanted_number = number(wanted).map_or_else(|| wanted.to_owned(), |version| version.to_string());
        let has = self.has.as_ref().map_or_else(|| "an older version".to_owned(), ToString::to_string);
        let mut draft = FindingDraft::new(self.id())
            .value("file", subject.file_name())
            .value("library", library)
            .value("version", wanted)
            .value("wanted", wanted_number)
            .value("has", has);
        for (from, version) in self.needed_by.iter().filter(|(_, version)| version == wanted) {
            let path = &subject.graph.objects[*from].path;
            draft = draft.evidence(Evidence::file(path.as_str(), format!("needs {version} of {library}")));
        }
        self.place.iter().cloned().fold(draft, FindingDraft::evidence)
    }
}

/// Merges two drafts about one package: the draft with the higher requirement, with the evidence of both.
fn merged(known: Option<FindingDraft>, draft: FindingDraft) -> FindingDraft {
    let Some(known) = known else { return draft };
    let wants =
        |draft: &FindingDraft| draft.values.get("wanted").and_then(|text| text.parse::<Version>().ok());
    let (main, other) = if wants(&known) >= wants(&draft) { (known, draft) } else { (draft, known) };
    other.evidence.into_iter().fold(main, FindingDraft::evidence)
}

fn offer(subject: &BinarySubject<'_>, link: &GraphEdge) -> Option<SymbolOffer> {
    let object = subject.graph.loaded(link);
    if let Some(binary) = object.and_then(|object| object.binary()) {
        // A library without symbol versions satisfies every version.
        return (!binary.offers.is_empty()).then(|| SymbolOffer::Exactly(binary.offers.clone()));
    }
    let is_part_of_libc = link.needed.versions.iter().any(|version| family(version) == "GLIBC");
    if is_part_of_libc
        && (object.is_some() || matches!(link.target, EdgeTarget::System | EdgeTarget::Unknown))
    {
        let libc = subject.case.facts.libc.as_ref().filter(|fact| fact.value.family == "glibc")?;
        let version = libc.value.version.clone()?;
        let evidence = libc.evidence.first().cloned()?;
        return Some(SymbolOffer::UpTo("GLIBC", version, evidence));
    }
    let object = object?;
    if link.needed.name == "libstdc++.so.6" {
        // `libstdc++.so.6.0.30` offers `GLIBCXX_3.4.30`.
        let version = real_version(&object.real).filter(|version| version.part(2) > 0)?;
        let newest = format!("3.4.{}", version.part(2)).parse().ok()?;
        let evidence = Evidence::file(object.path.as_str(), object.real.file_name().unwrap_or_default());
        return Some(SymbolOffer::UpTo("GLIBCXX", newest, evidence));
    }
    None
}

fn is_offered(offer: &SymbolOffer, version: &str) -> bool {
    match offer {
        SymbolOffer::Exactly(list) => list.iter().any(|known| known == version),
        SymbolOffer::UpTo(name, limit, _) => {
            if version == "GLIBC_ABI_DT_RELR" {
                return *limit >= "2.36".parse().unwrap_or_else(|_| limit.clone());
            }
            family(version) != *name || number(version).is_none_or(|wanted| wanted <= *limit)
        }
    }
}

/// The highest version of the same family that a library offers.
fn highest(offer: &SymbolOffer, wanted: &str) -> Option<Version> {
    match offer {
        SymbolOffer::Exactly(list) => {
            list.iter().filter(|name| family(name) == family(wanted)).filter_map(|name| number(name)).max()
        }
        SymbolOffer::UpTo(_, limit, _) => Some(limit.clone()),
    }
}

fn place(subject: &BinarySubject<'_>, link: &GraphEdge, offer: &SymbolOffer) -> Option<Evidence> {
    match offer {
        SymbolOffer::Exactly(_) => {
            subject.graph.loaded(link).map(|object| super::found_by(&object.path, object.via))
        }
        SymbolOffer::UpTo(_, _, evidence) => Some(evidence.clone()),
    }
}

/// The family of a symbol version: `GLIBC` for `GLIBC_2.38`.
fn family(version: &str) -> &str {
    version.split_once('_').map_or(version, |(family, _)| family)
}

/// The number of a symbol version: `2.38` for `GLIBC_2.38`.
fn number(version: &str) -> Option<Version> {
    version.rsplit_once('_')?.1.parse().ok()
}
