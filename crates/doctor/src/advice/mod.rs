//! Installation advice for this machine: the CUDA Toolkit for its GPUs, driver and C library, where this distribution gets it
//! from, and which GCC to use.

mod table;

use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_detect::matrix::for_distribution;
use gpubuild_detect::toolkit::Description;
use gpubuild_detect::toolkit::description::{BranchRow, BundledRow};
use gpubuild_detect::toolkit::rules::window_number;
use gpubuild_host::{Arch, Os};

use super::DiagnosisCase;
use super::driver::known_to_driver;
use table::table;

/// Requirements on a toolkit beyond those of the machine.
#[derive(Debug, Clone, Default)]
pub(super) struct AdviceQuery {
    /// Oldest acceptable release.
    pub(super) at_least: Option<Version>,
    /// First release that is too new.
    pub(super) below: Option<Version>,
    /// Architectures that it must support besides those of the GPUs present.
    pub(super) archs: Vec<u16>,
    /// Host compiler that it must support, with its version: `msvc` and a value of `_MSC_VER`.
    pub(super) compiler: Option<(String, u64)>,
}

/// A toolkit release with the commands that install it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackageOffer {
    /// The release: `12.8`, or `12.8 with driver 570.26 or newer` if the driver must be updated too.
    pub(super) release: String,
    /// Installation commands; empty if there are none for this system.
    pub(super) commands: Vec<String>,
}

/// The newest toolkit that suits the machine and the query, with its installation commands.
pub(super) fn toolkit(case: &DiagnosisCase<'_>, query: &AdviceQuery) -> Option<PackageOffer> {
    let description = case.catalogue.get("cuda")?;
    let all = &description.compatibility.bundled;
    let mut suiting: Vec<&BundledRow> = all
        .iter()
        .filter(|row| suits(case, description, &row.toolkit, query) && runs(case, description, &row.toolkit))
        .collect();
    let needs_driver = suiting.is_empty();
    if needs_driver {
        // The driver is too old for every suitable release and must be updated too: select the oldest release.
        suiting = all.iter().filter(|row| suits(case, description, &row.toolkit, query)).take(1).collect();
    }
    let facts = case.facts;
    let place = AdvicePlace { facts, newest: &description.compatibility.bundled.last()?.toolkit };
    // The distribution's package brings its host compiler. With others, an installed one is better than one to install as well.
    let own = place.own(&suiting);
    let taking: Vec<&BundledRow> =
        suiting.iter().copied().filter(|row| takes_a_compiler(case, description, &row.toolkit)).collect();
    let suiting = if taking.is_empty() { suiting } else { taking };
    let newest = suiting.last()?;
    if facts.libc.as_ref().is_some_and(|libc| libc.value.family == "musl") {
        return Some(PackageOffer { release: newest.toolkit.release(), commands: Vec::new() });
    }
    let mut offer = own
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

/// Whether a release supports the GPUs, the C library and the query. The driver is checked by [`runs`].
pub(super) fn suits(
    case: &DiagnosisCase<'_>,
    description: &Description,
    release: &Version,
    query: &AdviceQuery,
) -> bool {
    let number = |arch: &str| {
        arch.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u16>().ok()
    };
    let verdict = case.matrix.verdict(gpubuild_core::backend::Backend::Cuda);
    let cards = verdict.devices.iter().filter_map(|gpu| number(gpu.arch.as_deref()?));
    let known: Vec<u16> = description
        .archs(release)
        .map(|row| row.archs.iter().filter_map(|arch| number(arch)).collect())
        .unwrap_or_default();
    let builds = cards.chain(query.archs.iter().copied()).all(|arch| known.contains(&arch));
    let libc = case
        .facts
        .libc
        .as_ref()
        .and_then(|libc| description.libc_row(release, &libc.value.family, libc.value.version.as_ref()?));
    let compiler = query.compiler.as_ref().is_none_or(|(compiler, number)| {
        description.compiler_row(release, compiler).is_none_or(|window| window.contains(*number))
    });
    builds
        && libc.is_none()
        && compiler
        && query.at_least.as_ref().is_none_or(|least| release >= least)
        && query.below.as_ref().is_none_or(|below| release < below)
}

/// Whether a release supports an installed host compiler.
fn takes_a_compiler(case: &DiagnosisCase<'_>, description: &Description, release: &Version) -> bool {
    let families: &[&str] = if case.facts.platform.os == Os::Windows { &["msvc"] } else { &["gcc", "clang"] };
    families.iter().any(|family| {
        let copies = case.inventory.of(family).iter().filter(|copy| copy.is_complete());
        let window = description.compiler_row(release, family);
        let supports = |version: &Version| {
            window.as_ref().is_none_or(|window| window.contains(window_number(version, family)))
        };
        copies.filter_map(|copy| copy.version()).any(supports)
    })
}

/// Whether the installed driver can run programs of a release, PTX included.
fn runs(case: &DiagnosisCase<'_>, description: &Description, release: &Version) -> bool {
    let driver = case.matrix.verdict(gpubuild_core::backend::Backend::Cuda).driver.as_ref();
    let floor = driver.zip(description.driver_floor(release, case.facts.platform.os));
    let newest = known_to_driver(case);
    floor.is_none_or(|(driver, floor)| driver >= floor)
        && newest.is_none_or(|newest| (release.major(), release.minor()) <= (newest.major(), newest.minor()))
}

/// The name of NVIDIA's repository for the machine's distribution: `debian12`.
pub(super) fn repository(facts: &Facts) -> Option<String> {
    table::of_machine(facts, &table().repository).map(|repository| repository.name.clone())
}

/// The machine to install on.
struct AdvicePlace<'a> {
    facts: &'a Facts,
    /// Newest known release, which rolling distributions package.
    newest: &'a Version,
}

impl AdvicePlace<'_> {
    /// The distribution's own package, if its release is suitable.
    fn own(&self, suiting: &[&BundledRow]) -> Option<PackageOffer> {
        if self.facts.wsl.is_some() {
            // Under WSL the distribution's package would install a Linux driver.
            return None;
        }
        let own = table::of_machine(self.facts, &table().own)?;
        let release = own.toolkit.as_ref().unwrap_or(self.newest).release();
        let suits = suiting.iter().any(|row| row.toolkit.release() == release);
        let template = for_distribution(self.facts, &table().commands.own)?;
        suits.then(|| PackageOffer { commands: fill(template, &[("package", &own.package)]), release })
    }

    /// Systems with their own package manager: NixOS and Windows.
    fn other(&self, row: &BundledRow) -> Option<PackageOffer> {
        let template = for_distribution(self.facts, &table().commands.other)?;
        let short = row.toolkit.release();
        let values = [("short", short.as_str()), ("attribute", &short.replace('.', "_"))];
        Some(PackageOffer { commands: fill(template, &values), release: short })
    }

    /// The newest suitable release in NVIDIA's repository.
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

    /// Fedora has dnf 5, whose commands differ, since release 41.
    fn dnf5(&self) -> Option<()> {
        let distro = &self.facts.distro.as_ref()?.value;
        let version: Version = distro.version.parse().ok()?;
        // Universal Blue's images have ids of their own and Fedora's release.
        let is_fedora = distro.id == "fedora" || self.facts.system.is_some_and(|system| system.id == "ublue");
        (is_fedora && version.major() >= 41).then_some(())
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

/// The newest GCC from `min` to `max` that this distribution packages.
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
    fn distribution_is_matched_by_id_then_parent_then_id_like() {
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
    fn gcc_is_offered_if_the_distribution_packages_it() {
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
