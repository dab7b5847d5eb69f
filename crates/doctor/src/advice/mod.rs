//! What to install on this very machine: which CUDA Toolkit suits its cards, its driver and its C library, where it
//! comes from for this distribution, and which GCC.

mod table;

use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::description::{BranchRow, BundledRow};
use gpubuild_host::{Arch, Os};

use super::DiagnosisCase;
use super::driver::known_to_driver;
use table::table;

/// What a toolkit has to do besides suiting the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct AdviceQuery {
    /// The oldest release that will do.
    pub(super) at_least: Option<Version>,
    /// The first release that will not.
    pub(super) below: Option<Version>,
    /// Architectures that it has to build for, beside those of the cards here.
    pub(super) archs: Vec<u16>,
    /// The host compiler that it has to take: `msvc` and a value of `_MSC_VER`.
    pub(super) compiler: Option<(String, u64)>,
}

/// A toolkit to install and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageOffer {
    /// The release: `12.8`.
    pub(super) release: String,
    /// The commands.
    pub(super) commands: Vec<String>,
}

/// The newest toolkit that suits the machine and the wish, and how it is installed here.
pub(super) fn toolkit(case: &DiagnosisCase<'_>, wish: &AdviceQuery) -> Option<PackageOffer> {
    let description = case.catalogue.get("cuda")?;
    let all = &description.compatibility.bundled;
    let mut suiting: Vec<&BundledRow> = all
        .iter()
        .filter(|row| suits(case, description, &row.toolkit, wish) && runs(case, description, &row.toolkit))
        .collect();
    let needs_driver = suiting.is_empty();
    if needs_driver {
        // The driver here is too old for whatever would help and has to be updated as well: as little as possible.
        suiting = all.iter().filter(|row| suits(case, description, &row.toolkit, wish)).take(1).collect();
    }
    let newest = suiting.last()?;
    let facts = case.facts;
    let place = AdvicePlace { facts, newest: &description.compatibility.bundled.last()?.toolkit };
    if facts.libc.as_ref().is_some_and(|libc| libc.value.family == "musl") {
        return Some(PackageOffer { release: newest.toolkit.release(), commands: Vec::new() });
    }
    let mut offer = place
        .own(&suiting)
        .or_else(|| place.other(newest))
        .or_else(|| place.repository(&suiting))
        .or_else(|| place.runfile(newest))
        .unwrap_or_else(|| PackageOffer { release: newest.toolkit.release(), commands: Vec::new() });
    if needs_driver {
        let release: Version = offer.release.parse().ok()?;
        let knows = |row: &&BranchRow| row.toolkit >= release;
        if let Some(branch) = description.compatibility.branch.iter().find(knows) {
            offer.release = format!("{release} with driver {} or newer", branch.driver);
        }
    }
    Some(offer)
}

/// Whether a release suits cards, driver, C library and wish.
fn suits(case: &DiagnosisCase<'_>, description: &Description, release: &Version, wish: &AdviceQuery) -> bool {
    let number = |arch: &str| {
        arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u16>().ok()
    };
    let verdict = case.matrix.verdict(gpubuild_core::backend::Backend::Cuda);
    let cards = verdict.devices.iter().filter_map(|gpu| number(gpu.arch.as_deref()?));
    let known: Vec<u16> = description
        .archs(release)
        .map(|row| row.archs.iter().filter_map(|arch| number(arch)).collect())
        .unwrap_or_default();
    let builds = cards.chain(wish.archs.iter().copied()).all(|arch| known.contains(&arch));
    let libc = case
        .facts
        .libc
        .as_ref()
        .and_then(|libc| description.libc_row(release, &libc.value.family, libc.value.version.as_ref()?));
    let compiler = wish.compiler.as_ref().is_none_or(|(compiler, number)| {
        description.compiler_row(release, compiler).is_none_or(|window| window.takes(*number))
    });
    builds
        && libc.is_none()
        && compiler
        && wish.at_least.as_ref().is_none_or(|least| release >= least)
        && wish.below.as_ref().is_none_or(|below| release < below)
}

/// Whether the driver here runs what a release builds, PTX included.
fn runs(case: &DiagnosisCase<'_>, description: &Description, release: &Version) -> bool {
    let driver = case.matrix.verdict(gpubuild_core::backend::Backend::Cuda).driver.as_ref();
    let floor = driver.zip(description.driver_floor(release, case.facts.platform.os));
    let newest = known_to_driver(case);
    floor.is_none_or(|(driver, floor)| driver >= floor)
        && newest.is_none_or(|newest| (release.major(), release.minor()) <= (newest.major(), newest.minor()))
}

/// A machine to install on.
struct AdvicePlace<'a> {
    facts: &'a Facts,
    /// The newest release that is known, which rolling distributions have.
    newest: &'a Version,
}

impl AdvicePlace<'_> {
    /// The distribution's own package, if its release suits.
    fn own(&self, suiting: &[&BundledRow]) -> Option<PackageOffer> {
        if self.facts.wsl.is_some() {
            // Under WSL the distribution's package would bring a Linux driver with it.
            return None;
        }
        let own = table::of_machine(self.facts, &table().own)?;
        let release = own.toolkit.as_ref().unwrap_or(self.newest).release();
        let suits = suiting.iter().any(|row| row.toolkit.release() == release);
        let template = for_distribution(self.facts, &table().commands.own)?;
        suits.then(|| PackageOffer { commands: fill(template, &[("package", &own.package)]), release })
    }

    /// A system with a way of its own.
    fn other(&self, row: &BundledRow) -> Option<PackageOffer> {
        let template = for_distribution(self.facts, &table().commands.other)?;
        let short = row.toolkit.release();
        let values = [("short", short.as_str()), ("attribute", &short.replace('.', "_"))];
        Some(PackageOffer { commands: fill(template, &values), release: short })
    }

    /// NVIDIA's repository, with the newest suiting release that it has.
    fn repository(&self, suiting: &[&BundledRow]) -> Option<PackageOffer> {
        let repository = table::of_machine(self.facts, &table().repository)?;
        let has = |row: &&&BundledRow| {
            row.toolkit >= repository.since
                && repository.until.as_ref().is_none_or(|until| row.toolkit < *until)
        };
        let release = suiting.iter().rfind(has)?.toolkit.release();
        let templates = &table().commands.repository;
        let template = self.dnf5().and_then(|()| templates.get("dnf5"));
        let template = template.or_else(|| for_distribution(self.facts, templates))?;
        let machine = match self.facts.platform.arch {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "sbsa",
        };
        let dashed = release.replace('.', "-");
        let values = [("repository", repository.name.as_str()), ("machine", machine), ("release", &dashed)];
        Some(PackageOffer { commands: fill(template, &values), release })
    }

    /// Fedora has the fifth dnf, with other words, since 41.
    fn dnf5(&self) -> Option<()> {
        let distro = &self.facts.distro.as_ref()?.value;
        let version: Version = distro.version.parse().ok()?;
        (distro.id == "fedora" && version.major() >= 41).then_some(())
    }

    /// The runfile from NVIDIA's archive.
    fn runfile(&self, row: &BundledRow) -> Option<PackageOffer> {
        if self.facts.platform.os != Os::Linux {
            return None;
        }
        let driver = row.driver.get(&Os::Linux)?.to_string();
        let template = table().commands.runfile.get("linux")?;
        let suffix = if self.facts.platform.arch == Arch::Aarch64 { "_sbsa" } else { "" };
        let values = [("full", row.toolkit.as_str()), ("driver", &driver), ("runfile", suffix)];
        Some(PackageOffer { release: row.toolkit.release(), commands: fill(template, &values) })
    }
}

/// A GCC to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompilerAdvice {
    /// Its major version.
    pub(super) major: u64,
    /// The command that installs it.
    pub(super) command: String,
    /// Its C++ compiler.
    pub(super) program: String,
}

/// The newest GCC up to `max` that this distribution has.
pub(super) fn gcc(facts: &Facts, max: u64, min: u64) -> Option<CompilerAdvice> {
    let have = &table::of_machine(facts, &table().gcc)?.have;
    let major = have.iter().copied().filter(|major| (min..=max).contains(major)).max()?;
    let how = for_distribution(facts, &table().gcc_commands)?;
    let fill = |text: &str| text.replace("{major}", &major.to_string());
    Some(CompilerAdvice { major, command: fill(&how.command), program: fill(&how.program) })
}

fn fill(templates: &[String], values: &[(&str, &str)]) -> Vec<String> {
    let fill = |template: &String| {
        values
            .iter()
            .fold(template.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    };
    templates.iter().map(fill).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::facts;
    use gpubuild_host::RecordedHost;

    fn facts(os_release: &str) -> Facts {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64).file("/etc/os-release", os_release).build();
        facts::gather(&host)
    }

    #[test]
    fn a_distribution_is_found_by_its_own_name_its_parents_and_what_it_is_like() {
        for (os_release, repository) in [
            ("ID=ubuntu\nVERSION_ID=\"24.04\"\nID_LIKE=debian\n", Some("ubuntu2404")),
            ("ID=ubuntu\nVERSION_ID=\"25.10\"\nID_LIKE=debian\n", Some("ubuntu2404")),
            ("ID=linuxmint\nVERSION_ID=\"21.3\"\nID_LIKE=\"ubuntu debian\"\n", Some("ubuntu2204")),
            ("ID=pop\nVERSION_ID=\"22.04\"\nID_LIKE=\"ubuntu debian\"\n", Some("ubuntu2204")),
            ("ID=rocky\nVERSION_ID=\"9.4\"\nID_LIKE=\"rhel centos fedora\"\n", Some("rhel9")),
            (
                "ID=opensuse-tumbleweed\nVERSION_ID=\"20251101\"\nID_LIKE=\"opensuse suse\"\n",
                Some("opensuse15"),
            ),
            ("ID=kali\nVERSION_ID=\"2025.3\"\nID_LIKE=debian\n", None),
            ("ID=arch\n", None),
        ] {
            let found = table::of_machine(&facts(os_release), &table().repository);
            assert_eq!(found.map(|one| one.name.as_str()), repository, "{os_release}");
        }
    }

    #[test]
    fn a_gcc_is_offered_where_the_distribution_has_one() {
        let commands = |os_release: &str, max| gcc(&facts(os_release), max, 6).map(|one| one.command);
        let ubuntu = "ID=ubuntu\nVERSION_ID=\"24.04\"\nID_LIKE=debian\n";
        assert_eq!(commands(ubuntu, 11).as_deref(), Some("sudo apt install gcc-11 g++-11"));
        assert_eq!(commands(ubuntu, 8), None);
        let rocky = "ID=rocky\nVERSION_ID=\"8.10\"\nID_LIKE=\"rhel centos fedora\"\n";
        assert_eq!(commands(rocky, 12).as_deref(), Some("sudo dnf install gcc-toolset-12-gcc-c++"));
        assert_eq!(commands("ID=arch\n", 14).as_deref(), Some("sudo pacman -S gcc14"));
        assert_eq!(commands("ID=void\n", 14), None);
    }
}
