//! `doctor --self-check`: compares the tables in `toolkits/` with what installed toolkits and drivers report. A row that
//! differs is outdated, or the vendor changed a release; in both cases the table needs an update.

use std::collections::BTreeSet;

use gpubuild_core::backend::Backend;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::version::Version;
use gpubuild_detect::facts::{Facts, Vendor};
use gpubuild_detect::finding::{Evidence, EvidenceKind};
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit::rules::VersionWindow;
use gpubuild_detect::toolkit::{Catalogue, Description, Installation, Inventory};
use serde::Serialize;

/// Comparison of a table row with an installation or a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SelfCheck {
    /// Name of the comparison: `host compiler gcc`, `architectures`, `driver branch`.
    pub table: String,
    /// The installation or driver: `CUDA Toolkit 12.4 in /usr/local/cuda-12.4`.
    pub subject: String,
    /// Value in the table, or `no row`.
    pub embedded: String,
    /// Value that the installation or driver reports.
    pub installed: String,
    /// Where the reported value was found.
    pub evidence: Evidence,
    /// Source of the table row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Result of the comparison.
    pub state: SelfCheckState,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SelfCheckState {
    /// The values are equal.
    Same,
    /// The installation has fewer entries than the row, as distribution packages do. The row may be right.
    Fewer,
    /// The values differ; the table needs a new row.
    Stale,
}

/// All comparisons that are possible on this machine.
#[must_use]
pub fn compare(
    facts: &Facts,
    inventory: &Inventory,
    catalogue: &Catalogue,
    probes: &Probes,
) -> Vec<SelfCheck> {
    let mut found = Vec::new();
    for description in catalogue.iter() {
        for copy in inventory.of(&description.id) {
            let Some(release) = copy.version() else { continue };
            let subject = SelfCheckSubject { description, copy, release };
            found.extend(["gcc", "clang", "msvc"].iter().filter_map(|family| subject.host_compiler(family)));
            found.extend(subject.compiler_archs());
            found.extend(subject.library_archs());
        }
    }
    found.extend(driver_branch(facts, catalogue, probes));
    found
}

/// An installation with its description.
struct SelfCheckSubject<'a> {
    description: &'a Description,
    copy: &'a Installation,
    release: &'a Version,
}

impl SelfCheckSubject<'_> {
    fn name(&self) -> String {
        format!("{} {} in {}", self.description.name, self.release.release(), self.copy.root)
    }

    /// Compares the host compiler limits in the installation's header with the row of the release.
    fn host_compiler(&self, family: &str) -> Option<SelfCheck> {
        let limit = |suffix: &str| self.copy.limits.get(&format!("{family}-{suffix}"));
        let stated = limit("max").or_else(|| limit("below"))?;
        let installed = self.description.host_compiler_window(self.copy, family)?;
        let row = self.description.compiler_row(self.release, family);
        let same = row.as_ref().is_some_and(|row| agree(&installed, row));
        Some(SelfCheck {
            table: format!("host compiler {family}"),
            subject: self.name(),
            embedded: row.as_ref().map_or_else(|| "no row".to_owned(), range_text),
            installed: range_text(&installed),
            evidence: stated.evidence.first()?.clone(),
            source: row.map(|row| row.source),
            state: if same { SelfCheckState::Same } else { SelfCheckState::Stale },
        })
    }

    /// Compares the architectures that the compiler lists with the row of the release.
    fn compiler_archs(&self) -> Option<SelfCheck> {
        if self.copy.compiler_archs.is_empty() {
            return None;
        }
        let compiler = self.copy.part("compiler").unwrap_or(&self.copy.root);
        let query = self.description.list_archs.as_ref()?;
        let place = format!("{compiler} {}", query.args.join(" "));
        Some(self.archs(
            &self.copy.compiler_archs,
            "architectures",
            Evidence::new(EvidenceKind::Exec, place, ""),
        ))
    }

    /// Compares the architectures of the libraries' kernels with the row of the release.
    fn library_archs(&self) -> Option<SelfCheck> {
        if self.copy.device_archs.is_empty() {
            return None;
        }
        let evidence = Evidence::file(self.copy.root.as_str(), "names of the kernel files");
        Some(self.archs(&self.copy.device_archs, "architectures of the libraries", evidence))
    }

    fn archs(&self, installed: &[String], table: &str, evidence: Evidence) -> SelfCheck {
        let row = self.description.archs(self.release);
        let own: BTreeSet<&str> = installed.iter().map(String::as_str).collect_set();
        let known: BTreeSet<&str> = row.iter().flat_map(|row| &row.archs).map(String::as_str).collect_set();
        let state = if own == known {
            SelfCheckState::Same
        } else if own.is_subset(&known) && table != "architectures" {
            SelfCheckState::Fewer
        } else {
            SelfCheckState::Stale
        };
        let list = |only: &BTreeSet<&str>| only.iter().copied().collect::<Vec<_>>().join(" ");
        let (mut embedded, mut reported) = (list(&known), list(&own));
        if state != SelfCheckState::Same && row.is_some() {
            // Show only the difference.
            let missing: BTreeSet<&str> = own.difference(&known).copied().collect_set();
            let extra: BTreeSet<&str> = known.difference(&own).copied().collect_set();
            embedded =
                if extra.is_empty() { "the rest".to_owned() } else { format!("also {}", list(&extra)) };
            reported =
                if missing.is_empty() { "the rest".to_owned() } else { format!("also {}", list(&missing)) };
        }
        SelfCheck {
            table: table.to_owned(),
            subject: self.name(),
            embedded: if row.is_some() { embedded } else { "no row".to_owned() },
            installed: reported,
            evidence,
            source: row.map(|row| row.source.clone()),
            state,
        }
    }
}

/// Whether a row agrees with the header. A limit that only one of them states is not a difference: the header has no minimum
/// for GCC.
fn agree(installed: &VersionWindow, row: &VersionWindow) -> bool {
    let least = installed.min.is_none() || row.min.is_none() || installed.min == row.min;
    installed.max == row.max && least
}

fn range_text(window: &VersionWindow) -> String {
    match (window.min, window.max) {
        (Some(min), Some(max)) => format!("{min} to {max}"),
        (None, Some(max)) => format!("up to {max}"),
        (Some(min), None) => format!("{min} and newer"),
        (None, None) => "any".to_owned(),
    }
}

/// Compares the CUDA release that the driver reports with the row of its branch.
fn driver_branch(facts: &Facts, catalogue: &Catalogue, probes: &Probes) -> Option<SelfCheck> {
    let description = catalogue.for_backend(Backend::Cuda)?;
    let driver = facts.drivers.iter().find(|driver| driver.vendor == Vendor::Nvidia)?.version.as_ref()?;
    let answer: serde_json::Value = serde_json::from_str(&probes.get(&Backend::Cuda)?.answer).ok()?;
    let number = answer.get("driver_version")?.as_u64()?;
    let reported = Version::of_cuda_number(number);
    let row = description.compatibility.branch.iter().rfind(|row| row.driver <= driver.value);
    let same = row.is_some_and(|row| row.toolkit == reported);
    Some(SelfCheck {
        table: "driver branch".to_owned(),
        subject: format!("driver {}", driver.value),
        embedded: row.map_or_else(|| "no row".to_owned(), |row| format!("CUDA {}", row.toolkit)),
        installed: format!("CUDA {reported}"),
        evidence: Evidence::new(EvidenceKind::Dlopen, "cuDriverGetVersion", number.to_string()),
        source: row.map(|row| row.source.clone()),
        state: if same { SelfCheckState::Same } else { SelfCheckState::Stale },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_detect::facts;
    use gpubuild_detect::toolkit::{self, QueryMode};
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{Arch, Os, RecordedHost};

    fn states(host: RecordedHostBuilder) -> Vec<String> {
        let host = host.build();
        let catalogue = Catalogue::embedded();
        let facts = facts::gather(&host);
        let mut inventory = toolkit::probe(&host, &catalogue);
        toolkit::query_archs(&host, &catalogue, &mut inventory, QueryMode::Program);
        let probes = toolkit::probe_drivers(&host, &[Backend::Cuda]);
        let found = compare(&facts, &inventory, &catalogue, &probes);
        found
            .iter()
            .map(|one| format!("{} {:?}: {} / {}", one.table, one.state, one.embedded, one.installed))
            .collect()
    }

    fn cuda(release: &str, gcc: u32, archs: &str) -> RecordedHostBuilder {
        let root = format!("/usr/local/cuda-{release}");
        let nvcc = format!("{root}/bin/nvcc");
        RecordedHost::builder(Os::Linux, Arch::X86_64)
            .executable(&nvcc)
            .opaque(&format!("{root}/include/cuda_runtime.h"))
            .file(&format!("{root}/include/crt/host_config.h"), &format!("#if __GNUC__ > {gcc}\n"))
            .command(&[&nvcc, "--list-gpu-arch"], archs)
    }

    #[test]
    fn matching_release_is_the_same() {
        let archs = "compute_75\ncompute_80\ncompute_86\ncompute_87\ncompute_88\ncompute_89\ncompute_90\ncompute_100\ncompute_103\ncompute_110\ncompute_120\ncompute_121\n";
        let states = states(cuda("13.0", 15, archs));
        assert!(states.iter().all(|one| one.contains("Same")), "{states:?}");
        assert_eq!(states.len(), 2);
    }

    #[test]
    fn changed_release_is_stale() {
        let catalogue = Catalogue::embedded();
        let newest = catalogue.get("cuda").unwrap().compatibility.arch.last().unwrap().archs.clone();
        let reported: Vec<String> = newest.iter().map(|arch| format!("compute_{arch} ")).collect();
        let found = states(cuda("13.99", 99, &format!("{}compute_999", reported.concat())));
        assert!(found[0].starts_with("host compiler gcc Stale: 6 to "), "{found:?}");
        assert_eq!(found[1], "architectures Stale: the rest / also 999");
        assert_eq!(states(cuda("10.2", 8, "")), ["host compiler gcc Stale: no row / up to 8"]);
    }

    #[test]
    fn missing_kernels_and_newer_driver_branch_are_reported() {
        let host = RecordedHost::builder(Os::Linux, Arch::X86_64)
            .executable("/opt/rocm/bin/hipcc")
            .executable("/opt/rocm/lib/llvm/bin/clang++")
            .file("/opt/rocm/include/hip/hip_runtime.h", "")
            .file("/opt/rocm/.info/version", "7.0.1-42")
            .opaque("/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat")
            .file("/sys/module/nvidia/version", "550.144.03")
            .probe("cuda", "{\"driver_version\": 12050, \"devices\": []}");
        let states = states(host);
        assert!(states[0].starts_with("architectures of the libraries Fewer: also gfx1030"), "{states:?}");
        assert_eq!(states[1], "driver branch Stale: CUDA 12.4 / CUDA 12.5");
    }
}
