//! Which release of a toolkit is installed when nobody named one, and why. Pure.
//!
//! A driver bounds it from above: PTX of a newer release means nothing to it. The architectures and the host compilers
//! bound it from both sides. Of what is left the newest is taken; what was passed over is told with its reason.

use std::fmt::Write as _;

use gpubuild_core::version::{Version, VersionRequirement};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::rules::window_number;
use gpubuild_host::Platform;

use crate::plan::make::HostCompiler;
use crate::plan::provision::{Objection, PassedRelease, ReleaseChoice};

/// A release that can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// `13.0.3`.
    pub version: Version,
    /// `linux-x86_64`, `windows-x86_64`.
    pub platforms: Vec<String>,
}

/// Everything that the choice follows from.
#[derive(Debug, Clone)]
pub struct OfferQuestion<'a> {
    /// The toolkit with its tables.
    pub description: &'a Description,
    /// Where it is installed.
    pub platform: Platform,
    /// The C library: family and version.
    pub libc: Option<(String, Version)>,
    /// What can be installed, in any order.
    pub offered: &'a [Offered],
    /// `13.0`, `13`, `13.0.3`: what stands after the `@`.
    pub asked: Option<&'a str>,
    /// The driver.
    pub driver: Option<&'a Version>,
    /// The newest release that the driver knows, where somebody said so, and who.
    pub driver_knows: Option<(Version, String)>,
    /// Architectures to build for, each as a number with who wants it: `the GPU here`, `CUDAARCHS=90`.
    pub archs: Vec<(u16, String)>,
    /// C and C++ compilers that are here; none known says nothing.
    pub compilers: &'a [HostCompiler],
    /// What the project requires of the version.
    pub requirement: Option<&'a str>,
}

/// Chooses.
///
/// # Errors
/// Nothing that is offered suits, or what was asked for is not offered: the reasons, the root cause first.
pub fn choose(question: &OfferQuestion<'_>) -> Result<ReleaseChoice, Vec<Objection>> {
    let mut offered: Vec<&Offered> = question.offered.iter().collect();
    offered.sort_by(|left, right| right.version.cmp(&left.version));
    if offered.is_empty() {
        return Err(vec![nothing_offered(question)]);
    }
    let here = platform_id(question.platform);
    offered.retain(|one| one.platforms.contains(&here));
    if offered.is_empty() {
        return Err(vec![no_platform(question)]);
    }
    let mut named = false;
    if let Some(asked) = question.asked {
        let line: VersionRequirement =
            asked.parse().map_err(|_| vec![not_offered(question, &offered, asked)])?;
        let matching: Vec<&Offered> =
            offered.iter().copied().filter(|one| line.holds(&one.version)).collect();
        if matching.is_empty() {
            return Err(vec![not_offered(question, &offered, asked)]);
        }
        // A major version alone leaves a choice.
        named = asked.contains('.');
        offered = matching;
    }
    let mut passed_over: Vec<PassedRelease> = Vec::new();
    for one in offered {
        let against = objections(question, one);
        if against.is_empty() || named {
            return Ok(ReleaseChoice {
                release: one.version.release(),
                version: one.version.clone(),
                because: because(question, &passed_over, named),
                against,
                passed_over,
            });
        }
        passed_over.push(PassedRelease { release: one.version.release(), reasons: against });
    }
    Err(nothing_suits(question, passed_over))
}

/// `linux-x86_64`, as locks name platforms.
#[must_use]
pub fn platform_id(platform: Platform) -> String {
    format!("{}-{}", platform.os.id(), platform.arch.id())
}

/// What speaks against a release here, the root cause first.
fn objections(question: &OfferQuestion<'_>, one: &Offered) -> Vec<Objection> {
    let mut all = Vec::new();
    all.extend(unmet(question, one));
    all.extend(driver(question, one));
    all.extend(archs(question, one));
    all.extend(compilers(question, one));
    all.extend(libc(question, one));
    all
}

fn unmet(question: &OfferQuestion<'_>, one: &Offered) -> Option<Objection> {
    let text = question.requirement?;
    let requirement: VersionRequirement = text.parse().ok()?;
    (!requirement.holds(&one.version)).then(|| Objection {
        id: id!("toolkit.version-unmet"),
        text: format!("gpubuild.toml asks for `toolkit = \"{text}\"`"),
        hint: Some("relax `toolkit` in gpubuild.toml, or install such a version yourself".to_owned()),
    })
}

/// A driver runs what is older than itself: machine code within a major version, PTX only up to its own release.
fn driver(question: &OfferQuestion<'_>, one: &Offered) -> Option<Objection> {
    let description = question.description;
    let name = &description.name;
    let release = one.version.release();
    let floor = description.driver_floor(&one.version, question.platform.os);
    if let (Some(driver), Some(floor)) = (question.driver, floor)
        && driver < floor
    {
        let knows = description.newest_for_driver(driver);
        let knows = knows.map(|known| format!(" and runs up to {}", known.release())).unwrap_or_default();
        return Some(Objection {
            id: id!("nv.driver.too-old"),
            text: format!(
                "driver {driver} is here{knows}; what {name} {release} builds needs driver {floor}"
            ),
            hint: Some(format!("update the driver to {floor} or newer")),
        });
    }
    let (knows, who) = driver_knows(question)?;
    let newer = (one.version.major(), one.version.minor()) > (knows.major(), knows.minor());
    newer.then(|| Objection {
        id: id!("nv.ptx.too-new"),
        text: format!("{who} knows releases up to {}, and can't translate PTX of {release}", knows.release()),
        hint: Some("update the driver, or build machine code only: `--cuda-archs 90-real`".to_owned()),
    })
}

fn driver_knows(question: &OfferQuestion<'_>) -> Option<(Version, String)> {
    question.driver_knows.clone().or_else(|| {
        let driver = question.driver?;
        let knows = question.description.newest_for_driver(driver)?;
        Some((knows.clone(), format!("driver {driver}")))
    })
}

fn archs(question: &OfferQuestion<'_>, one: &Offered) -> Option<Objection> {
    let description = question.description;
    let row = description.archs(&one.version)?;
    let numbers: Vec<u16> = row.archs.iter().filter_map(|arch| arch.parse::<u16>().ok()).collect();
    let (lowest, highest) = (numbers.first()?, numbers.last()?);
    let unknown: Vec<&(u16, String)> =
        question.archs.iter().filter(|(number, _)| !numbers.contains(number)).collect();
    let (first, who) = unknown.first()?;
    let release = one.version.release();
    let all = unknown.iter().map(|(number, _)| format!("sm_{number}")).collect::<Vec<_>>().join(", ");
    let dropped = first < lowest;
    let id = if dropped { id!("cuda.arch.dropped-by-toolkit") } else { id!("cuda.arch.too-new-for-toolkit") };
    Some(Objection {
        id,
        text: format!("{all} ({who}) is not among what {release} compiles for: sm_{lowest} to sm_{highest}"),
        hint: Some(if dropped { older(question, *first) } else { newer(*first) }),
    })
}

/// What to do for an architecture that the offered releases have dropped.
fn older(question: &OfferQuestion<'_>, number: u16) -> String {
    let rows = &question.description.compatibility.arch;
    let text = number.to_string();
    let last = rows.iter().rposition(|row| row.archs.contains(&text));
    let dropped = last.and_then(|last| rows.get(last + 1)).map(|row| row.since.release());
    let mut hint = match (last, dropped) {
        (Some(_), Some(dropped)) => format!("a release before {dropped} compiles for sm_{number}"),
        _ => return format!("leave out sm_{number}"),
    };
    if let Some(offer) = &question.description.offered {
        let _ = write!(hint, ", but {}: install that one yourself", offer.before);
    }
    let _ = write!(hint, ", or leave out sm_{number}");
    hint
}

fn newer(number: u16) -> String {
    format!("leave out sm_{number}, or install a newer release yourself")
}

fn compilers(question: &OfferQuestion<'_>, one: &Offered) -> Option<Objection> {
    let description = question.description;
    let mut outside: Vec<String> = Vec::new();
    let mut first = None;
    for compiler in question.compilers {
        let Some(window) = description.compiler_row(&one.version, &compiler.family) else { continue };
        let Some(version) = &compiler.version else { return None };
        let number = window_number(version, &compiler.family);
        if window.takes(number) {
            return None;
        }
        first = first.or_else(|| description.compiler_outside.get(&compiler.family).copied());
        outside.push(format!("{} {number} (takes {})", compiler.family, window.words(Some(number))));
    }
    outside.dedup();
    Some(Objection {
        id: first?,
        text: format!("its nvcc takes none of the compilers here: {}", outside.join(", ")),
        hint: Some("install a host compiler in that range beside the present one".to_owned()),
    })
}

fn libc(question: &OfferQuestion<'_>, one: &Offered) -> Option<Objection> {
    let (family, version) = question.libc.as_ref()?;
    let row = question.description.libc_row(&one.version, family, version)?;
    Some(Objection {
        id: row.id,
        text: format!("its headers do not go with {family} {version}: mended in {}", row.fixed),
        hint: None,
    })
}

/// Why the one that was taken.
fn because(question: &OfferQuestion<'_>, passed_over: &[PassedRelease], named: bool) -> String {
    if named {
        return "asked for by name".to_owned();
    }
    let mut facts: Vec<String> = Vec::new();
    if let Some((knows, who)) = driver_knows(question) {
        facts.push(format!("{who} knows up to {}", knows.release()));
    }
    let mut archs: Vec<String> = question.archs.iter().map(|(number, _)| format!("sm_{number}")).collect();
    archs.dedup();
    if !archs.is_empty() {
        facts.push(format!("it compiles for {}", archs.join(", ")));
    }
    if let Some(text) = question.requirement {
        facts.push(format!("gpubuild.toml asks for `{text}`"));
    }
    let head = if passed_over.is_empty() { "the newest offered" } else { "the newest offered that suits" };
    if facts.is_empty() {
        return format!("{head}; no driver here bounds it");
    }
    format!("{head}: {}", facts.join(", "))
}

fn nothing_offered(question: &OfferQuestion<'_>) -> Objection {
    Objection {
        id: id!("toolkit.unknown-release"),
        text: format!("gpubuild has no lock of {}, so it can install none", question.description.name),
        hint: Some("`gpubuild toolkit list` says what can be installed".to_owned()),
    }
}

fn no_platform(question: &OfferQuestion<'_>) -> Objection {
    let mut platforms: Vec<&str> =
        question.offered.iter().flat_map(|one| &one.platforms).map(String::as_str).collect();
    platforms.sort_unstable();
    platforms.dedup();
    Objection {
        id: id!("toolkit.no-wheels-here"),
        text: format!(
            "{} has no wheels for {} on {}, only for {}",
            question.description.name,
            question.platform.os.label(),
            question.platform.arch.id(),
            platforms.join(", ")
        ),
        hint: None,
    }
}

fn not_offered(question: &OfferQuestion<'_>, offered: &[&Offered], asked: &str) -> Objection {
    let description = question.description;
    let mut releases: Vec<String> = offered.iter().map(|one| one.version.release()).collect();
    releases.reverse();
    let known = releases.join(", ");
    let id = &description.id;
    let too_old = description.offered.as_ref().filter(|offer| {
        asked.parse::<Version>().is_ok_and(|version| {
            let since = &offer.since;
            version.major() < since.major() || (asked.contains('.') && version < *since)
        })
    });
    let (because, hint) = match too_old {
        Some(offer) => (
            format!(": {}", offer.before),
            format!("`gpubuild toolkit install {id}` takes what suits this machine; offered: {known}"),
        ),
        None => (
            format!("; offered: {known}"),
            format!("`gpubuild toolkit install {id} --lock FILE` takes a lock of your own"),
        ),
    };
    Objection {
        id: id!("toolkit.unknown-release"),
        text: format!("{} {asked} can't be installed{because}", description.name),
        hint: Some(hint),
    }
}

/// What all releases have against them if there is such a thing, else what each has.
fn nothing_suits(question: &OfferQuestion<'_>, passed_over: Vec<PassedRelease>) -> Vec<Objection> {
    let common = |id: &str| passed_over.iter().all(|one| one.reasons.iter().any(|reason| reason.id == id));
    // The oldest comes closest to an old driver and an old card, the newest to everything that is too new.
    let wants_older = ["nv.driver.too-old", "nv.ptx.too-new", "cuda.arch.dropped-by-toolkit"];
    let oldest = passed_over.last().iter().flat_map(|one| &one.reasons).find(|reason| common(&reason.id));
    let newest = passed_over.first().iter().flat_map(|one| &one.reasons).find(|reason| common(&reason.id));
    let nearest = oldest.filter(|one| wants_older.contains(&one.id.as_str())).or(newest);
    if let Some(root) = nearest {
        let mut root = root.clone();
        if root.id == "nv.driver.too-old"
            && let Some(offer) = &question.description.offered
        {
            let _ = write!(
                root.hint.get_or_insert_default(),
                "; {}, so an older one has to be installed otherwise",
                offer.before
            );
        }
        return vec![root];
    }
    let each = passed_over.into_iter().flat_map(|one| {
        let release = one.release;
        one.reasons
            .into_iter()
            .map(move |reason| Objection { text: format!("{release}: {}", reason.text), ..reason })
    });
    each.collect()
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
