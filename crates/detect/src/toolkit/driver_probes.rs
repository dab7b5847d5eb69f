//! Probes the drivers in parallel, each in a separate child process.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_host::{ProbeAnswer, ProbeLibraries, ProbeStatus};

/// Time limit for a driver's answer.
const DEADLINE: Duration = Duration::from_secs(3);

/// Probes the drivers of these backends. Omits probes that are missing in a recording.
#[must_use]
pub fn probe_drivers(host: &dyn ProbeLibraries, backends: &[Backend]) -> BTreeMap<Backend, ProbeAnswer> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = backends
            .iter()
            .filter(|backend| **backend != Backend::Cpu)
            .map(|backend| {
                let probe = || host.probe(backend.id(), DEADLINE);
                (*backend, std::thread::Builder::new().spawn_scoped(scope, probe))
            })
            .collect();
        threads
            .into_iter()
            .map(|(backend, thread)| {
                let crashed = |_| ProbeAnswer {
                    status: ProbeStatus::Crashed,
                    error: "the probe panicked".to_owned(),
                    answer: String::new(),
                };
                // If the system refuses a thread, the driver is probed after the others.
                let answer = match thread {
                    Ok(thread) => thread.join().unwrap_or_else(crashed),
                    Err(_) => host.probe(backend.id(), DEADLINE),
                };
                (backend, answer)
            })
            .filter(|(backend, answer)| answer.error != format!("no probe of `{backend}` was recorded"))
            .collect()
    })
}
