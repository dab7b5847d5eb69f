//! Selects the toolkit release for a machine from its facts and inventory. Pure.

use gpubuild_core::arch::parse_cuda_list;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::{Facts, Gpu};
use gpubuild_detect::id;
use gpubuild_detect::toolkit::{Catalogue, Description, Inventory};

use super::choose::{self, Offered, ReleaseInputs};
use crate::plan::archs::ArchSelection;
use crate::plan::kits;
use crate::plan::provision::{Objection, ReleaseChoice};
use crate::wheels::{WheelLock, lock};

/// The properties of a machine that the selection of a release depends on.
#[derive(Debug, Clone, Copy)]
pub struct OfferMachine<'a> {
    /// Facts about the host.
    pub facts: &'a Facts,
    /// Installed toolkits.
    pub inventory: &'a Inventory,
    /// Toolkit descriptions.
    pub catalogue: &'a Catalogue,
    /// Version of the driver for the toolkit's devices.
    pub driver: Option<&'a Version>,
    /// The devices.
    pub devices: &'a [Gpu],
}

/// Requirements on the release.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReleaseQuery<'a> {
    /// The requested release: `13.0`, `13`.
    pub asked: Option<&'a str>,
    /// Architectures to build for; those of the devices by default.
    pub archs: Option<&'a ArchSelection>,
    /// Version requirement of the project: `>=12.4, <13`.
    pub requirement: Option<&'a str>,
}

/// Whether gpubuild can install a toolkit on any machine.
#[must_use]
pub fn is_offered(toolkit: &str) -> bool {
    lock::is_embedded(toolkit)
}

/// Selects the release to install on a machine.
///
/// # Errors
/// The reasons why no offered release suits the machine, the root cause first.
pub fn which(
    machine: &OfferMachine<'_>,
    description: &Description,
    query: &ReleaseQuery<'_>,
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
                "the wheels of {} need glibc, but this system has {}",
                description.name,
                musl.label()
            ),
            hint: Some("build in a container of a distribution with glibc".to_owned()),
        }]);
    }
    let compilers = kits::compilers(machine.inventory, machine.catalogue);
    choose::choose(&ReleaseInputs {
        description,
        platform: facts.platform,
        libc: libc.and_then(|libc| Some((libc.family.clone(), libc.version.clone()?))),
        offered: &offered,
        asked: query.asked,
        driver: machine.driver,
        driver_knows: overridden(facts, &description.id),
        archs: archs(machine.devices, description, query.archs, &offered),
        compilers: &compilers,
        requirement: query.requirement,
    })
}

/// The command that installs a toolkit, if a release suits the machine.
#[must_use]
pub fn command(machine: &OfferMachine<'_>, description: &Description) -> Option<String> {
    if !is_offered(&description.id) {
        return None;
    }
    which(machine, description, &ReleaseQuery::default(), lock::embedded()).ok()?;
    Some(format!("gpubuild toolkit install {}", description.id))
}

/// The start of hints that suggest the command.
#[must_use]
pub fn install_hint(description: &Description) -> String {
    format!("gpubuild toolkit install {} (without root)", description.id)
}

/// The newest release that the driver supports according to an override such as `CONDA_OVERRIDE_CUDA=12.4`, and its origin.
fn overridden(facts: &Facts, toolkit: &str) -> Option<(Version, String)> {
    let key = format!("{toolkit}.version");
    let set = facts.overrides.iter().find(|set| set.key == key)?;
    Some((set.value.parse().ok()?, format!("{}={}", set.origin, set.value)))
}

/// The architectures to build for, each with the origin of the requirement.
fn archs(
    devices: &[Gpu],
    description: &Description,
    selection: Option<&ArchSelection>,
    offered: &[Offered],
) -> Vec<(u16, String)> {
    let text = selection.map_or("auto", |selection| selection.text.trim());
    match text {
        "all" | "all-major" => Vec::new(),
        "auto" | "native" => of_devices(devices, description, offered),
        list => {
            let origin = selection.map(|selection| selection.origin.clone()).unwrap_or_default();
            // The planner reports invalid lists.
            let list = parse_cuda_list(list).unwrap_or_default();
            list.into_iter().map(|arch| (arch.number, origin.clone())).collect()
        }
    }
}

/// Architectures of the devices that a release supports, or all of them if none is supported. Architectures newer than
/// every release are left out; they run PTX.
fn of_devices(devices: &[Gpu], description: &Description, offered: &[Offered]) -> Vec<(u16, String)> {
    let number = |gpu: &Gpu| {
        let arch: gpubuild_core::arch::CudaArch = gpu.arch.as_deref()?.parse().ok()?;
        Some((arch.number, "the GPU of this machine".to_owned()))
    };
    let mut numbers: Vec<(u16, String)> = devices.iter().filter_map(number).collect();
    numbers.sort_indirect();
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
    fn outcome(name: &str, env: &str, query: &ReleaseQuery<'_>) -> String {
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
        match which(&machine, catalogue.get("cuda").unwrap(), query, lock::embedded()) {
            Ok(choice) => choice.release,
            Err(reasons) => reasons.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn recorded_machines_get_a_suitable_release() {
        let auto = ReleaseQuery::default();
        for (name, env, expected) in [
            ("debian-12-bare", "", "13.5"),
            ("ubuntu-22.04-h200", "", "13.0"),
            ("ubuntu-22.04-rtx4090", "", "12.4"),
            ("macos-15-m3", "", "toolkit.no-wheels-here"),
            ("debian-12-bare", "CONDA_OVERRIDE_CUDA = '13.2'", "13.0"),
            ("arch-cuda", "", "12.8"),
        ] {
            assert_eq!(outcome(name, env, &auto), expected, "{name} {env}");
        }
    }

    #[test]
    fn requested_architectures_restrict_the_release() {
        let selection =
            |text: &str| ArchSelection { text: text.to_owned(), origin: "--cuda-archs".to_owned() };
        for (text, expected) in [
            ("70", "12.9"),
            ("35", "cuda.arch.dropped-by-toolkit"),
            ("80;90", "13.5"),
            ("all", "13.5"),
            ("999", "cuda.arch.too-new-for-toolkit"),
        ] {
            let selection = selection(text);
            let query = ReleaseQuery { archs: Some(&selection), ..ReleaseQuery::default() };
            assert_eq!(outcome("debian-12-bare", "", &query), expected, "{text}");
        }
    }
}
