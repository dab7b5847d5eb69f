//! Probes the drivers in parallel, each in a separate child process.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_host::{ProbeAnswer, ProbeLibraries, ProbeStatus};

/// Time limit for a driver's answer.
const DEADLINE: Duration = Duration::from_secs(3);

/// The answers of these backends' drivers. Probes that a recording lacks are omitted.
#[must_use]
pub fn ask_drivers(host: &dyn ProbeLibraries, backends: &[Backend]) -> BTreeMap<Backend, ProbeAnswer> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = backends
            .iter()
            .filter(|backend| **backend != Backend::Cpu)
            .map(|backend| (*backend, scope.spawn(|| host.probe(backend.id(), DEADLINE))))
            .collect();
        asked
            .into_iter()
            .map(|(backend, thread)| {
                let crashed = |_| ProbeAnswer {
                    status: ProbeStatus::Crashed,
                    error: "the probe panicked".to_owned(),
                    answer: String::new(),
                };
                (backend, thread.join().unwrap_or_else(crashed))
            })
            .filter(|(backend, answer)| answer.error != format!("no probe of `{backend}` was recorded"))
            .collect()
    })
}
