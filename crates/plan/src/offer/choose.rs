//! Selects the toolkit release to install if none is requested, with reasons. Pure.
//!
//! The driver is an upper limit: it cannot compile PTX of a newer release. Architectures and host compilers are limits in
//! both directions. The newest release within all limits is selected; rejected releases are listed with their objections.

use std::fmt::Write as _;

use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::{Version, VersionRequirement};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::rules::window_number;
use gpubuild_host::Platform;

use crate::plan::make::HostCompiler;
use crate::plan::provision::{Objection, RejectedRelease, ReleaseChoice};

/// A release that can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offered {
    /// Complete version: `13.0.3`.
    pub version: Version,
    /// Platforms with wheels or archives: `linux-x86_64`, `windows-x86_64`.
    pub platforms: Vec<String>,
}

/// The inputs of the selection.
#[derive(Debug, Clone)]
pub struct ReleaseInputs<'a> {
    /// The toolkit's description with its compatibility tables.
    pub description: &'a Description,
    /// The platform of the machine.
    pub platform: Platform,
    /// Family and version of the C library.
    pub libc: Option<(String, Version)>,
    /// The releases that can be installed, in any order.
    pub offered: &'a [Offered],
    /// The requested release, as after the `@` of `cuda@13.0`: `13.0`, `13`, `13.0.3`.
    pub asked: Option<&'a str>,
    /// Version of the driver.
    pub driver: Option<&'a Version>,
    /// The newest release that the driver supports according to an override, and the override.
    pub driver_knows: Option<(Version, String)>,
    /// Architectures to build for, each with its origin: `the GPU of this machine`, `CUDAARCHS=90`.
    pub archs: Vec<(u16, String)>,
    /// C and C++ compilers of the machine. If empty, compilers are not checked.
    pub compilers: &'a [HostCompiler],
    /// The project's version requirement.
    pub requirement: Option<&'a str>,
}

/// Selects a release.
///
/// # Errors
/// The reasons why no offered release suits, or why the requested release is not offered; the root cause first.
pub fn choose(inputs: &ReleaseInputs<'_>) -> Result<ReleaseChoice, Vec<Objection>> {
    let mut offered: Vec<&Offered> = inputs.offered.iter().collect();
    offered.sort_indirect_by(|left, right| right.version.cmp(&left.version));
    if offered.is_empty() {
        return Err(vec![nothing_offered(inputs)]);
    }
    let here = platform_id(inputs.platform);
    offered.retain(|one| one.platforms.contains(&here));
    let Some(oldest) = offered.last() else { return Err(vec![no_platform(inputs)]) };
    let oldest = oldest.version.release();
    let mut named = false;
    if let Some(asked) = inputs.asked {
        let line: VersionRequirement =
            asked.parse().map_err(|_| vec![not_offered(inputs, &offered, asked)])?;
        let matching: Vec<&Offered> =
            offered.iter().copied().filter(|one| line.holds(&one.version)).collect();
        if matching.is_empty() {
            return Err(vec![not_offered(inputs, &offered, asked)]);
        }
        // A major version alone can match several releases, so it does not override objections.
        named = asked.contains('.');
        offered = matching;
    }
    let mut passed_over: Vec<RejectedRelease> = Vec::new();
    for one in offered.iter().copied() {
        let against = objections(inputs, one);
        if against.is_empty() || named {
            return Ok(ReleaseChoice {
                release: one.version.release(),
                version: one.version.clone(),
                because: because(inputs, &passed_over, named),
                against,
                passed_over,
            });
        }
        passed_over.push(RejectedRelease { release: one.version.release(), reasons: against });
    }
    older_driver(inputs, &offered, &passed_over).ok_or_else(|| nothing_suits(passed_over, &oldest))
}

/// The oldest release of the driver's major version if the driver is older than all of them: it runs their machine code, but
/// cannot compile their PTX.
fn older_driver(
    inputs: &ReleaseInputs<'_>,
    offered: &[&Offered],
    passed_over: &[RejectedRelease],
) -> Option<ReleaseChoice> {
    let driver = inputs.driver?;
    let (knows, _) = driver_knows(inputs)?;
    let same_line = |one: &Offered| one.version.major() == knows.major();
    let mut line = offered.iter().zip(passed_over).filter(|(one, _)| same_line(one));
    let is_too_new = |reason: &Objection| reason.id == "nv.ptx.too-new";
    if !line.clone().all(|(_, passed)| passed.reasons.iter().any(is_too_new)) {
        return None;
    }
    let (one, passed) = line.rfind(|(_, passed)| passed.reasons.iter().all(is_too_new))?;
    let others = passed_over.iter().filter(|other| other.release != passed.release);
    Some(ReleaseChoice {
        release: one.version.release(),
        version: one.version.clone(),
        because: format!(
            "the oldest suitable release: driver {driver} supports up to {} and runs machine code of newer releases of CUDA {}",
            knows.release(),
            knows.major()
        ),
        against: passed.reasons.clone(),
        passed_over: others.cloned().collect(),
    })
}

/// The platform's name in locks: `linux-x86_64`.
#[must_use]
pub fn platform_id(platform: Platform) -> String {
    format!("{}-{}", platform.os.id(), platform.arch.id())
}

/// The objections to a release on this machine, the root cause first.
fn objections(inputs: &ReleaseInputs<'_>, one: &Offered) -> Vec<Objection> {
    let mut all = Vec::new();
    all.extend(unmet(inputs, one));
    all.extend(driver(inputs, one));
    all.extend(archs(inputs, one));
    all.extend(compilers(inputs, one));
    all.extend(libc(inputs, one));
    all
}

fn unmet(inputs: &ReleaseInputs<'_>, one: &Offered) -> Option<Objection> {
    let text = inputs.requirement?;
    let requirement: VersionRequirement = text.parse().ok()?;
    (!requirement.holds(&one.version)).then(|| Objection {
        id: id!("toolkit.version-unmet"),
        text: format!("the project requires {} {text}", inputs.description.name),
        hint: Some(
            "relax `toolkit` (in a variant `toolkits`) in gpubuild.toml, or install a matching version yourself"
                .to_owned(),
        ),
    })
}

/// Checks the driver: it runs machine code of any release of its major version, but PTX only up to its own release.
fn driver(inputs: &ReleaseInputs<'_>, one: &Offered) -> Option<Objection> {
    let description = inputs.description;
    let name = &description.name;
    let release = one.version.release();
    let floor = description.driver_floor(&one.version, inputs.platform.os);
    if let (Some(driver), Some(floor)) = (inputs.driver, floor)
        && driver < floor
    {
        let newest = description.newest_for_driver(driver);
        let supports = newest.map(|newest| format!(" supports up to {}", newest.release()));
        return Some(Objection {
            id: id!("nv.driver.too-old"),
            text: format!(
                "driver {driver}{}; programs built with {name} {release} need driver {floor}",
                supports.unwrap_or_else(|| " is installed".to_owned())
            ),
            hint: Some(format!("update the driver to {floor} or newer")),
        });
    }
    let (knows, who) = driver_knows(inputs)?;
    let newer = (one.version.major(), one.version.minor()) > (knows.major(), knows.minor());
    newer.then(|| Objection {
        id: id!("nv.ptx.too-new"),
        text: format!(
            "{who} supports releases up to {} and cannot compile PTX of {release}",
            knows.release()
        ),
        hint: Some("update the driver, or build machine code only: `--cuda-archs 90-real`".to_owned()),
    })
}

fn driver_knows(inputs: &ReleaseInputs<'_>) -> Option<(Version, String)> {
    inputs.driver_knows.clone().or_else(|| {
        let driver = inputs.driver?;
        let knows = inputs.description.newest_for_driver(driver)?;
        Some((knows.clone(), format!("driver {driver}")))
    })
}

fn archs(inputs: &ReleaseInputs<'_>, one: &Offered) -> Option<Objection> {
    let description = inputs.description;
    let row = description.archs(&one.version)?;
    let numbers: Vec<u16> = row.archs.iter().filter_map(|arch| arch.parse::<u16>().ok()).collect();
    let (lowest, highest) = (numbers.first()?, numbers.last()?);
    let unknown: Vec<&(u16, String)> =
        inputs.archs.iter().filter(|(number, _)| !numbers.contains(number)).collect();
    let (first, who) = unknown.first()?;
    let release = one.version.release();
    let all = unknown.iter().map(|(number, _)| format!("sm_{number}")).collect::<Vec<_>>().join(", ");
    let dropped = first < lowest;
    let id = if dropped { id!("cuda.arch.dropped-by-toolkit") } else { id!("cuda.arch.too-new-for-toolkit") };
    Some(Objection {
        id,
        text: format!(
            "{all} ({who}) is not supported by {release}, which supports sm_{lowest} to sm_{highest}"
        ),
        hint: Some(if dropped { older(inputs, *first) } else { newer(*first) }),
    })
}

/// The hint for an architecture that the offered releases no longer support.
fn older(inputs: &ReleaseInputs<'_>, number: u16) -> String {
    let rows = &inputs.description.compatibility.arch;
    let text = number.to_string();
    let last = rows.iter().rposition(|row| row.archs.contains(&text));
    let Some(dropped) = last.and_then(|last| rows.get(last + 1)).map(|row| row.since.release()) else {
        return format!("remove sm_{number}");
    };
    let mut hint = format!("releases before {dropped} support sm_{number}");
    if let Some(oldest) = inputs.offered.iter().map(|one| &one.version).min()
        && dropped.parse::<Version>().is_ok_and(|dropped| dropped <= *oldest)
    {
        let _ = write!(
            hint,
            ", but {} is the oldest offered one: install one of them yourself",
            oldest.release()
        );
    }
    let _ = write!(hint, ", or remove sm_{number}");
    hint
}

fn newer(number: u16) -> String {
    format!("remove sm_{number}, or install a newer release yourself")
}

fn compilers(inputs: &ReleaseInputs<'_>, one: &Offered) -> Option<Objection> {
    let description = inputs.description;
    let mut outside: Vec<String> = Vec::new();
    let mut first = None;
    for compiler in inputs.compilers {
        let Some(window) = description.compiler_row(&one.version, &compiler.family) else { continue };
        let Some(version) = &compiler.version else { return None };
        let number = window_number(version, &compiler.family);
        if window.contains(number) {
            return None;
        }
        first = first.or_else(|| description.compiler_outside.get(&compiler.family).copied());
        outside.push(format!("{} {number} (supported: {})", compiler.family, window.describe(Some(number))));
    }
    outside.dedup();
    Some(Objection {
        id: first?,
        text: format!("its nvcc supports none of the installed compilers: {}", outside.join(", ")),
        hint: Some("install a supported host compiler in addition".to_owned()),
    })
}

fn libc(inputs: &ReleaseInputs<'_>, one: &Offered) -> Option<Objection> {
    let (family, version) = inputs.libc.as_ref()?;
    let row = inputs.description.libc_row(&one.version, family, version)?;
    Some(Objection {
        id: row.id,
        text: format!("its headers are incompatible with {family} {version}; fixed in {}", row.fixed),
        hint: None,
    })
}

/// The reason for the selection, as text.
fn because(inputs: &ReleaseInputs<'_>, passed_over: &[RejectedRelease], named: bool) -> String {
    if named {
        return "requested explicitly".to_owned();
    }
    let mut facts: Vec<String> = Vec::new();
    if let Some((knows, who)) = driver_knows(inputs) {
        facts.push(format!("{who} supports up to {}", knows.release()));
    }
    let mut archs: Vec<String> = inputs.archs.iter().map(|(number, _)| format!("sm_{number}")).collect();
    archs.dedup();
    if !archs.is_empty() {
        facts.push(format!("architectures {}", archs.join(", ")));
    }
    if let Some(text) = inputs.requirement {
        facts.push(format!("gpubuild.toml requires `{text}`"));
    }
    let head =
        if passed_over.is_empty() { "the newest offered release" } else { "the newest suitable release" };
    if facts.is_empty() {
        return format!("{head}; no driver limits it");
    }
    format!("{head}: {}", facts.join("; "))
}

fn nothing_offered(inputs: &ReleaseInputs<'_>) -> Objection {
    Objection {
        id: id!("toolkit.unknown-release"),
        text: format!("gpubuild has no lock for {} and cannot install it", inputs.description.name),
        hint: Some("`gpubuild toolkit list` lists the toolkits that can be installed".to_owned()),
    }
}

fn no_platform(inputs: &ReleaseInputs<'_>) -> Objection {
    let mut platforms: Vec<&str> =
        inputs.offered.iter().flat_map(|one| &one.platforms).map(String::as_str).collect();
    platforms.sort_indirect();
    platforms.dedup();
    Objection {
        id: id!("toolkit.no-wheels-here"),
        text: format!(
            "{} has no wheels for {} on {}, only for {}",
            inputs.description.name,
            inputs.platform.os.label(),
            inputs.platform.arch.id(),
            platforms.join(", ")
        ),
        hint: None,
    }
}

fn not_offered(inputs: &ReleaseInputs<'_>, offered: &[&Offered], asked: &str) -> Objection {
    let description = inputs.description;
    let mut releases: Vec<String> = offered.iter().map(|one| one.version.release()).collect();
    releases.reverse();
    let known = releases.join(", ");
    let id = &description.id;
    Objection {
        id: id!("toolkit.unknown-release"),
        text: format!("{} {asked} cannot be installed; offered: {known}", description.name),
        hint: Some(format!("`gpubuild toolkit install {id} --lock FILE` uses your own lock")),
    }
}

/// The objection that all releases have in common, or all objections if there is none.
fn nothing_suits(passed_over: Vec<RejectedRelease>, oldest_offered: &str) -> Vec<Objection> {
    let common = |id: &str| passed_over.iter().all(|one| one.reasons.iter().any(|reason| reason.id == id));
    // For an old driver or device, the oldest release is the closest match; otherwise the newest.
    let wants_older = ["nv.driver.too-old", "nv.ptx.too-new", "cuda.arch.dropped-by-toolkit"];
    let oldest = passed_over.last().iter().flat_map(|one| &one.reasons).find(|reason| common(&reason.id));
    let newest = passed_over.first().iter().flat_map(|one| &one.reasons).find(|reason| common(&reason.id));
    let nearest = oldest.filter(|one| wants_older.contains(&one.id.as_str())).or(newest);
    if let Some(root) = nearest {
        let mut root = root.clone();
        if root.id == "nv.driver.too-old" {
            let hint = root.hint.get_or_insert_default();
            let _ = write!(
                hint,
                "; {oldest_offered} is the oldest offered release, so install an older one yourself"
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
