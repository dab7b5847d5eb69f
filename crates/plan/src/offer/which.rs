//! From what was seen of a machine to the question which release suits it. Pure.

use gpubuild_core::arch::parse_cuda_list;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::{Facts, Gpu};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};

use super::choose::{self, OfferQuestion, Offered};
use crate::plan::archs::ArchSelection;
use crate::plan::kits;
use crate::plan::provision::{Objection, ReleaseChoice};
use crate::wheels::{WheelLock, lock};

/// A machine, as far as a release depends on it.
#[derive(Debug, Clone, Copy)]
pub struct OfferMachine<'a> {
    /// The host.
    pub facts: &'a Facts,
    /// What is installed.
    pub inventory: &'a Inventory,
    /// The descriptions.
    pub catalogue: &'a Catalogue,
    /// The driver of the toolkit's hardware.
    pub driver: Option<&'a Version>,
    /// That hardware.
    pub devices: &'a [Gpu],
}

/// What is asked of the release.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReleaseQuery<'a> {
    /// `13.0`, `13`.
    pub asked: Option<&'a str>,
    /// Architectures to build for; those of the devices without it.
    pub archs: Option<&'a ArchSelection>,
    /// `>=12.4, <13`.
    pub requirement: Option<&'a str>,
}

/// Whether a toolkit can be installed by gpubuild at all, on some machine.
#[must_use]
pub fn is_offered(toolkit: &str) -> bool {
    lock::is_embedded(toolkit)
}

/// The release to install on a machine.
///
/// # Errors
/// Nothing that is offered suits: the reasons, the root cause first.
pub fn which(
    machine: &OfferMachine<'_>,
    description: &Description,
    wish: &ReleaseQuery<'_>,
    locks: &[WheelLock],
) -> Result<ReleaseChoice, Vec<Objection>> {
    let facts = machine.facts;
    let offered: Vec<Offered> = locks
        .iter()
        .filter(|lock| lock.toolkit == description.id)
        .map(|lock| Offered { version: lock.version.clone(), platforms: lock.platforms.clone() })
        .collect();
    let libc = facts.libc.as_ref().map(|libc| &libc.value);
    if let Some(musl) = libc.filter(|libc| libc.family == "musl") {
        return Err(vec![Objection {
            id: id!("wheel.musl"),
            text: format!(
                "the wheels of {} need GNU's C library, and this system has {}",
                description.name,
                musl.label()
            ),
            hint: Some("build in a container of a distribution with glibc".to_owned()),
        }]);
    }
    let compilers = kits::compilers(machine.inventory, machine.catalogue);
    choose::choose(&OfferQuestion {
        description,
        platform: facts.platform,
        libc: libc.and_then(|libc| Some((libc.family.clone(), libc.version.clone()?))),
        offered: &offered,
        asked: wish.asked,
        driver: machine.driver,
        driver_knows: said(facts, &description.id),
        archs: archs(machine.devices, description, wish.archs, &offered),
        compilers: &compilers,
        requirement: wish.requirement,
    })
}

/// The command that installs a toolkit on a machine, if a release suits it.
#[must_use]
pub fn command(machine: &OfferMachine<'_>, description: &Description) -> Option<String> {
    if !is_offered(&description.id) {
        return None;
    }
    which(machine, description, &ReleaseQuery::default(), lock::embedded()).ok()?;
    Some(format!("gpubuild toolkit install {}", description.id))
}

/// How hints begin that name the command.
#[must_use]
pub fn words(description: &Description) -> String {
    format!("gpubuild toolkit install {} (without root)", description.id)
}

/// What somebody said of the driver in the words of another tool: `CONDA_OVERRIDE_CUDA=12.4`.
fn said(facts: &Facts, toolkit: &str) -> Option<(Version, String)> {
    let key = format!("{toolkit}.version");
    let set = facts.overrides.iter().find(|set| set.key == key)?;
    Some((set.value.parse().ok()?, format!("{}={}", set.origin, set.value)))
}

/// The architectures that have to be built for, and who wants each.
fn archs(
    devices: &[Gpu],
    description: &Description,
    wish: Option<&ArchSelection>,
    offered: &[Offered],
) -> Vec<(u16, String)> {
    let word = wish.map_or("auto", |wish| wish.text.trim());
    match word {
        "all" | "all-major" => Vec::new(),
        "auto" | "native" => of_devices(devices, description, offered),
        list => {
            let origin = wish.map(|wish| wish.origin.clone()).unwrap_or_default();
            // A list that is none is refused by the planner, in its own words.
            let list = parse_cuda_list(list).unwrap_or_default();
            list.into_iter().map(|arch| (arch.number, origin.clone())).collect()
        }
    }
}

/// Those of the cards that some release knows; all of them if none is known. One that is newer than every release gets PTX.
fn of_devices(devices: &[Gpu], description: &Description, offered: &[Offered]) -> Vec<(u16, String)> {
    let number = |gpu: &Gpu| {
        let arch: gpubuild_core::arch::CudaArch = gpu.arch.as_deref()?.parse().ok()?;
        Some((arch.number, "the GPU here".to_owned()))
    };
    let mut numbers: Vec<(u16, String)> = devices.iter().filter_map(number).collect();
    numbers.sort();
    numbers.dedup();
    let known: Vec<u16> = offered
        .iter()
        .filter_map(|one| description.archs(&one.version))
        .flat_map(|row| row.archs.iter().filter_map(|arch| arch.parse::<u16>().ok()))
        .collect();
    let highest = known.iter().max().copied().unwrap_or(u16::MAX);
    numbers.retain(|(number, _)| *number <= highest);
    if numbers.iter().any(|(number, _)| known.contains(number)) {
        numbers.retain(|(number, _)| known.contains(number));
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_core::Backend;
    use gpubuild_detect::matrix::Probes;
    use gpubuild_detect::{facts, toolkit};
    use gpubuild_host::RecordedHost;

    #[expect(clippy::disallowed_methods, reason = "a test reads its own files")]
    fn outcome(name: &str, env: &str, wish: &ReleaseQuery<'_>) -> String {
        let path = format!("{}/../../tests/hosts/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap().replacen("[env]\n", &format!("[env]\n{env}\n"), 1);
        let host = RecordedHost::parse(&path, &text).unwrap();
        let catalogue = Catalogue::embedded();
        let facts = facts::gather(&host);
        let inventory = toolkit::probe(&host, &catalogue);
        let matrix = crate::offer::evaluate(&facts, &inventory, &catalogue, &Probes::new());
        let verdict = matrix.verdict(Backend::Cuda);
        let machine = OfferMachine {
            facts: &facts,
            inventory: &inventory,
            catalogue: &catalogue,
            driver: verdict.driver.as_ref(),
            devices: &verdict.devices,
        };
        match which(&machine, catalogue.get("cuda").unwrap(), wish, lock::embedded()) {
            Ok(choice) => choice.release,
            Err(reasons) => reasons.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn recorded_machines_get_what_suits_them() {
        let auto = ReleaseQuery::default();
        for (name, env, expected) in [
            ("debian-12-bare", "", "13.5"),
            ("ubuntu-22.04-h200", "", "13.0"),
            ("ubuntu-22.04-rtx4090", "", "nv.driver.too-old"),
            ("macos-15-m3", "", "toolkit.no-wheels-here"),
            ("debian-12-bare", "CONDA_OVERRIDE_CUDA = '13.2'", "13.0"),
            ("arch-cuda", "", "nv.driver.too-old"),
        ] {
            assert_eq!(outcome(name, env, &auto), expected, "{name} {env}");
        }
    }

    #[test]
    fn a_wish_for_architectures_counts() {
        let wish = |text: &str| ArchSelection { text: text.to_owned(), origin: "--cuda-archs".to_owned() };
        for (text, expected) in [
            ("70", "cuda.arch.dropped-by-toolkit"),
            ("80;90", "13.5"),
            ("all", "13.5"),
            ("999", "cuda.arch.too-new-for-toolkit"),
        ] {
            let wish = wish(text);
            let wish = ReleaseQuery { archs: Some(&wish), ..ReleaseQuery::default() };
            assert_eq!(outcome("debian-12-bare", "", &wish), expected, "{text}");
        }
    }
}
