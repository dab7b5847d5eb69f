//! The architectures that a copy of the CUDA toolkit can compile for, as far as they are known without starting its compiler.
//! The planner and the doctor both use this, so that they agree. Pure.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::version::Version;

use super::Installation;
use super::description::{ArchRow, Description};

/// The architectures that a toolkit can compile for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaRange {
    /// Compute capabilities times ten, ascending.
    pub numbers: Vec<u16>,
    /// How reliable `numbers` is.
    pub basis: Basis,
    /// The toolkit's name for messages: `CUDA Toolkit 12.4`.
    pub toolkit: String,
}

/// The source of a list of architectures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The compiler, or the table for a release that it covers: the list is complete.
    Whole,
    /// The last row of the table, or an earlier row for a release that is not in the tables: there may be more. Architectures
    /// that earlier releases had are gone.
    Open {
        /// Architectures that earlier rows contain and this one does not.
        gone: Vec<u16>,
    },
    /// The copy's release is unknown, so the newest row is used.
    Guess,
}

/// Whether a toolkit compiles for an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knows {
    /// It does.
    Yes,
    /// It does not: the architecture is older than all that it compiles for.
    Dropped,
    /// It does not: the architecture is newer, or lies between two others.
    TooNew,
    /// Only the compiler can tell.
    Unknown,
}

impl CudaRange {
    /// Whether the toolkit compiles for an architecture. Assumed if the list is empty.
    #[must_use]
    pub fn knows(&self, number: u16) -> Knows {
        let Some(lowest) = self.numbers.first() else { return Knows::Yes };
        if self.numbers.contains(&number) {
            return Knows::Yes;
        }
        let may_be = match &self.basis {
            Basis::Whole => false,
            Basis::Open { gone } => number > *lowest && !gone.contains(&number),
            Basis::Guess => true,
        };
        match may_be {
            true => Knows::Unknown,
            false if number < *lowest => Knows::Dropped,
            false => Knows::TooNew,
        }
    }
}

impl CudaRange {
    /// The other number of an architecture, if the toolkit only knows that one.
    #[must_use]
    pub fn other_name(&self, arch: &CudaArch) -> Option<CudaArch> {
        arch.other_name()
            .filter(|other| !self.numbers.contains(&arch.number) && self.numbers.contains(&other.number))
    }
}

impl Description {
    /// The architectures that a copy of the CUDA toolkit compiles for: from its compiler's recorded list, or else from the table.
    #[must_use]
    pub fn cuda_range(&self, copy: &Installation) -> CudaRange {
        let toolkit = match copy.version() {
            Some(version) => format!("{} {}", self.name, version.release()),
            None => self.name.clone(),
        };
        let rows = &self.compatibility.arch;
        let (mut numbers, basis) = match (copy.compiler_archs.is_empty(), copy.version()) {
            (false, _) => (numbers(&copy.compiler_archs), Basis::Whole),
            // A copy of unknown version is most likely the newest release.
            (true, None) => (rows.last().map(|row| numbers(&row.archs)).unwrap_or_default(), Basis::Guess),
            (true, Some(release)) => {
                let index = rows.iter().rposition(|row| row.since <= *release);
                let own = index.map(|index| numbers(&rows[index].archs)).unwrap_or_default();
                let basis = match index {
                    Some(index) if index + 1 == rows.len() || !self.is_in_tables(release) => {
                        Basis::Open { gone: gone(&rows[..index], &own) }
                    }
                    _ => Basis::Whole,
                };
                (own, basis)
            }
        };
        numbers.sort_unstable();
        CudaRange { numbers, basis, toolkit }
    }

    /// Whether the tables cover a release.
    fn is_in_tables(&self, release: &Version) -> bool {
        let tables = &self.compatibility;
        let listed = tables.arch.iter().map(|row| &row.since);
        let mut listed = listed.chain(tables.bundled.iter().map(|row| &row.toolkit));
        listed.any(|known| (known.major(), known.minor()) == (release.major(), release.minor()))
    }
}

/// Architectures of earlier rows that a list lacks.
fn gone(earlier: &[ArchRow], own: &[u16]) -> Vec<u16> {
    let all = earlier.iter().flat_map(|row| numbers(&row.archs));
    let mut gone: Vec<u16> = all.filter(|number| !own.contains(number)).collect();
    gone.sort_unstable();
    gone.dedup();
    gone
}

fn numbers(archs: &[String]) -> Vec<u16> {
    let number = |arch: &String| arch.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<u16>().ok();
    archs.iter().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolkit::{self, Catalogue};
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn host(root: &str) -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .env("CUDA_PATH", root)
            .executable(&format!("{root}/bin/nvcc"))
            .opaque(&format!("{root}/include/cuda_runtime.h"))
    }

    fn range(host: RecordedHostBuilder) -> CudaRange {
        let catalogue = Catalogue::embedded();
        let inventory = toolkit::probe(&host.build(), &catalogue);
        catalogue.get("cuda").unwrap().cuda_range(inventory.chosen("cuda").unwrap())
    }

    #[test]
    fn for_releases_in_the_table_the_list_is_complete() {
        for (release, number, expected) in [
            ("12.4", 90, Knows::Yes),
            ("12.4", 35, Knows::Dropped),
            ("12.4", 100, Knows::TooNew),
            ("12.4", 130, Knows::TooNew),
            ("13.0", 101, Knows::TooNew),
            ("13.2", 107, Knows::TooNew),
            ("13.3", 130, Knows::TooNew),
            ("13.3", 70, Knows::Dropped),
            ("10.2", 35, Knows::Yes),
        ] {
            let range = range(host(&format!("/usr/local/cuda-{release}")));
            assert_eq!(range.knows(number), expected, "{release} {number}: {range:?}");
        }
    }

    #[test]
    fn after_the_table_only_dropped_architectures_are_refused() {
        for release in ["13.4", "13.5", "13.6", "14.1"] {
            let range = range(host(&format!("/usr/local/cuda-{release}")));
            for (number, expected) in [
                (90, Knows::Yes),
                (70, Knows::Dropped),
                (20, Knows::Dropped),
                (101, Knows::TooNew),
                (105, Knows::Unknown),
                (130, Knows::Unknown),
            ] {
                assert_eq!(range.knows(number), expected, "{release} {number}: {range:?}");
            }
        }
        let unknown = range(host("/opt/cuda"));
        assert_eq!((unknown.knows(90), unknown.knows(61)), (Knows::Yes, Knows::Unknown), "{unknown:?}");
    }

    #[test]
    fn a_renumbered_chip_is_known_by_both_numbers() {
        for (release, arch, expected) in [
            ("12.9", "110", Some("101")),
            ("12.9", "101", None),
            ("13.0", "101", Some("110")),
            ("13.0", "110", None),
            ("12.4", "110", None),
            ("13.0", "90", None),
        ] {
            let range = range(host(&format!("/usr/local/cuda-{release}")));
            let other = range.other_name(&arch.parse().unwrap()).map(|other| other.to_string());
            assert_eq!(other.as_deref(), expected, "{release} {arch}");
        }
    }

    #[test]
    fn the_list_of_the_compiler_overrides_the_table() {
        let said = "compute_80\ncompute_90\ncompute_130\n";
        let of =
            |root: &str| range(host(root).command(&[&format!("{root}/bin/nvcc"), "--list-gpu-arch"], said));
        for root in ["/usr/local/cuda-12.4", "/usr/local/cuda-13.6", "/opt/cuda"] {
            let range = of(root);
            assert_eq!(range.numbers, [80, 90, 130], "{root}");
            let seen = [130, 86, 140, 75].map(|number| range.knows(number));
            assert_eq!(seen, [Knows::Yes, Knows::TooNew, Knows::TooNew, Knows::Dropped], "{root}");
        }
    }
}
