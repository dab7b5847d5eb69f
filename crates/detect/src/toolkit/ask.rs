//! Asks the drivers themselves, each in a child process of its own, all at once.

use std::collections::BTreeMap;
use std::time::Duration;

use gpubuild_core::backend::Backend;
use gpubuild_host::{Host, ProbeAnswer, ProbeStatus};

/// How long a driver has to answer.
const DEADLINE: Duration = Duration::from_secs(3);

/// The answers of the drivers of these backends. What a recording does not hold is left out: nobody was asked.
#[must_use]
pub fn ask_drivers(host: &dyn Host, backends: &[Backend]) -> BTreeMap<Backend, ProbeAnswer> {
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
                    error: "asking panicked".to_owned(),
                    answer: String::new(),
                };
                (backend, thread.join().unwrap_or_else(crashed))
            })
            .filter(|(backend, answer)| answer.error != format!("no probe of `{backend}` was recorded"))
            .collect()
    })
}
