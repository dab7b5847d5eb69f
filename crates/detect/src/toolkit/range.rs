//! Determines the architectures that a copy of the CUDA toolkit can compile for, without running its compiler. Shared by the planner
//! and the doctor, so that both report the same.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::order::SortIndirect as _;
use gpubuild_core::version::Version;

use super::Installation;
use super::description::{ArchRow, Description};

/// The architectures that a toolkit can compile for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaRange {
    /// Compute capabilities times ten, ascending.
    pub numbers: Vec<u16>,
    /// The source of `numbers`, which determines how reliable the list is.
    pub basis: Basis,
    /// The display name of the toolkit: `CUDA Toolkit 12.4`.
    pub toolkit: String,
}

/// The source of a list of architectures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Basis {
    /// The compiler, or the table row of a known release: the list is complete.
    Complete,
    /// The table row that precedes an unknown release: the toolkit may support additional, newer architectures.
    Open {
        /// Architectures that earlier rows contain and this row does not, so the toolkit does not support them either.
        dropped: Vec<u16>,
    },
    /// The newest table row, because the release of the copy is unknown.
    Guess,
}

/// Whether a toolkit supports an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchSupport {
    /// It is supported.
    Yes,
    /// It is not supported: it is older than all supported architectures.
    Dropped,
    /// It is not supported: it is newer than the toolkit, or between two supported architectures.
    TooNew,
    /// Unknown: only the compiler can list the supported architectures.
    Unknown,
}

impl CudaRange {
    /// Whether the toolkit supports an architecture. `Yes` if the list is empty.
    #[must_use]
    pub fn support(&self, number: u16) -> ArchSupport {
        let Some(lowest) = self.numbers.first() else { return ArchSupport::Yes };
        if self.numbers.contains(&number) {
            return ArchSupport::Yes;
        }
        let is_possible = match &self.basis {
            Basis::Complete => false,
            Basis::Open { dropped } => number > *lowest && !dropped.contains(&number),
            Basis::Guess => true,
        };
        match is_possible {
            true => ArchSupport::Unknown,
            false if number < *lowest => ArchSupport::Dropped,
            false => ArchSupport::TooNew,
        }
    }
}

impl CudaRange {
    /// The other number of a renumbered architecture, if the toolkit only supports that one.
    #[must_use]
    pub fn other_name(&self, arch: &CudaArch) -> Option<CudaArch> {
        arch.other_name()
            .filter(|other| !self.numbers.contains(&arch.number) && self.numbers.contains(&other.number))
    }
}

impl Description {
    /// The architectures that a copy of the CUDA toolkit supports: from the compiler's list if known, otherwise from the table.
    #[must_use]
    pub fn cuda_range(&self, copy: &Installation) -> CudaRange {
        let toolkit = match copy.version() {
            Some(version) => format!("{} {}", self.name, version.release()),
            None => self.name.clone(),
        };
        let rows = &self.compatibility.arch;
        let (mut numbers, basis) = match (copy.compiler_archs.is_empty(), copy.version()) {
            (false, _) => (numbers(&copy.compiler_archs), Basis::Complete),
            // If the version is unknown, the newest release is most likely.
            (true, None) => (rows.last().map(|row| numbers(&row.archs)).unwrap_or_default(), Basis::Guess),
            (true, Some(release)) => {
                let index = rows.iter().rposition(|row| row.since <= *release);
                let own = index.map(|index| numbers(&rows[index].archs)).unwrap_or_default();
                let basis = match index {
                    Some(index) if index + 1 == rows.len() || !self.is_in_tables(release) => {
                        Basis::Open { dropped: dropped(&rows[..index], &own) }
                    }
                    _ => Basis::Complete,
                };
                (own, basis)
            }
        };
        numbers.sort_indirect();
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

/// Architectures of earlier rows that a list does not contain.
fn dropped(earlier: &[ArchRow], own: &[u16]) -> Vec<u16> {
    let all = earlier.iter().flat_map(|row| numbers(&row.archs));
    let mut dropped: Vec<u16> = all.filter(|number| !own.contains(number)).collect();
    dropped.sort_indirect();
    dropped.dedup();
    dropped
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
    fn the_list_is_complete_for_releases_in_the_table() {
        for (release, number, expected) in [
            ("12.4", 90, ArchSupport::Yes),
            ("12.4", 35, ArchSupport::Dropped),
            ("12.4", 100, ArchSupport::TooNew),
            ("12.4", 130, ArchSupport::TooNew),
            ("13.0", 101, ArchSupport::TooNew),
            ("13.2", 107, ArchSupport::TooNew),
            ("13.3", 130, ArchSupport::TooNew),
            ("13.3", 70, ArchSupport::Dropped),
            ("10.2", 35, ArchSupport::Yes),
        ] {
            let range = range(host(&format!("/usr/local/cuda-{release}")));
            assert_eq!(range.support(number), expected, "{release} {number}: {range:?}");
        }
    }

    #[test]
    fn only_dropped_architectures_are_unsupported_for_newer_releases() {
        for release in ["13.4", "13.5", "13.6", "14.1"] {
            let range = range(host(&format!("/usr/local/cuda-{release}")));
            for (number, expected) in [
                (90, ArchSupport::Yes),
                (70, ArchSupport::Dropped),
                (20, ArchSupport::Dropped),
                (101, ArchSupport::TooNew),
                (105, ArchSupport::Unknown),
                (130, ArchSupport::Unknown),
            ] {
                assert_eq!(range.support(number), expected, "{release} {number}: {range:?}");
            }
        }
        let unknown = range(host("/opt/cuda"));
        assert_eq!(
            (unknown.support(90), unknown.support(61)),
            (ArchSupport::Yes, ArchSupport::Unknown),
            "{unknown:?}"
        );
    }

    #[test]
    fn a_renumbered_architecture_is_supported_under_both_numbers() {
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
    fn the_list_from_the_compiler_overrides_the_table() {
        let output = "compute_80\ncompute_90\ncompute_130\n";
        let of =
            |root: &str| range(host(root).command(&[&format!("{root}/bin/nvcc"), "--list-gpu-arch"], output));
        for root in ["/usr/local/cuda-12.4", "/usr/local/cuda-13.6", "/opt/cuda"] {
            let range = of(root);
            assert_eq!(range.numbers, [80, 90, 130], "{root}");
            let seen = [130, 86, 140, 75].map(|number| range.support(number));
            assert_eq!(
                seen,
                [ArchSupport::Yes, ArchSupport::TooNew, ArchSupport::TooNew, ArchSupport::Dropped],
                "{root}"
            );
        }
    }
}
