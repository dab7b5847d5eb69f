//! Recorded machines, and what the doctor observes on them.

use std::sync::LazyLock;

use gpubuild::cli::machine::{self, MachineState};
use gpubuild_core::Backend;
use gpubuild_detect::finding::Findings;
use gpubuild_detect::matrix::Probes;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_doctor::{DiagnosisCase, MachineSigns, observe};
use gpubuild_host::{HostInfo as _, RecordedHost};

pub(crate) static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::embedded);
pub(crate) static FINDINGS: LazyLock<Findings> = LazyLock::new(Findings::embedded);

/// A Linux machine with an NVIDIA GPU and a toolkit.
static LINUX: LazyLock<ExaminedMachine> =
    LazyLock::new(|| ExaminedMachine::recorded(include_str!("../../tests/hosts/ubuntu-22.04-rtx4090.toml")));
/// A Windows machine with an NVIDIA GPU and a toolkit.
static WINDOWS: LazyLock<ExaminedMachine> =
    LazyLock::new(|| ExaminedMachine::recorded(include_str!("../../tests/hosts/windows-11-rtx4070.toml")));
/// A Mac.
static MACOS: LazyLock<ExaminedMachine> =
    LazyLock::new(|| ExaminedMachine::recorded(include_str!("../../tests/hosts/macos-15-m3.toml")));

/// A recorded machine with everything that the doctor observes on it.
pub(crate) struct ExaminedMachine {
    pub(crate) host: RecordedHost,
    pub(crate) state: MachineState,
    probes: Probes,
    signs: MachineSigns,
}

impl ExaminedMachine {
    /// One machine of each operating system.
    pub(crate) fn all() -> [&'static Self; 3] {
        [&*LINUX, &*WINDOWS, &*MACOS]
    }

    pub(crate) fn linux() -> &'static Self {
        &LINUX
    }

    fn recorded(text: &str) -> Self {
        Self::new(RecordedHost::parse("host.toml", text).expect("a recording of the tests is valid"))
    }

    /// Examines a host in the same way as `gpubuild doctor --host`.
    pub(crate) fn new(host: RecordedHost) -> Self {
        let mut state = machine::inspect(&host, CATALOGUE.clone());
        let probes = machine::probe(&host, &mut state, &Backend::ALL);
        let signs = observe(&host, &state.facts, &state.inventory, &state.catalogue);
        Self { host, state, probes, signs }
    }

    /// The input of the doctor's checks.
    pub(crate) fn case(&self) -> DiagnosisCase<'_> {
        DiagnosisCase {
            facts: &self.state.facts,
            inventory: &self.state.inventory,
            catalogue: &self.state.catalogue,
            matrix: &self.state.matrix,
            probes: &self.probes,
            signs: &self.signs,
            env: self.host.env(),
            asked: None,
            project: None,
        }
    }
}
