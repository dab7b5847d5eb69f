//! The known failures in what a program of a build printed.

use super::Printed;
use crate::doctor::Teller;
use crate::doctor::log::{Signatures, tell};
use crate::finding::{Finding, Findings};
use crate::host::Host;
use crate::look::Sight;

/// The causes, the root cause first.
#[must_use]
pub fn explain(host: &dyn Host, sight: &Sight, printed: Printed<'_>) -> Vec<Finding> {
    let mut reading = Signatures::embedded().read(printed.lines.join("\n").as_bytes());
    if reading.causes.is_empty() {
        return Vec::new();
    }
    for cause in &mut reading.causes {
        cause.line += printed.before;
    }
    let findings = Findings::embedded();
    let is_root = host.identity().uid == Some(0);
    let teller = Teller::new(&sight.facts, &sight.catalogue, &findings, is_root);
    tell(&reading, printed.log, &teller, &findings)
}
