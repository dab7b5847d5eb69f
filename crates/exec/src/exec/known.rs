//! The known failures in what a program of a build printed.

use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::{Finding, Findings};
use gpubuild_detect::tell::Teller;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::HostInfo;

use super::Printed;
use crate::log::{Signatures, tell};

/// The causes, the root cause first.
#[must_use]
pub fn explain(
    host: &dyn HostInfo,
    facts: &Facts,
    catalogue: &Catalogue,
    printed: Printed<'_>,
) -> Vec<Finding> {
    let mut reading = Signatures::embedded().read(printed.lines.join("\n").as_bytes());
    if reading.causes.is_empty() {
        return Vec::new();
    }
    for cause in &mut reading.causes {
        cause.line += printed.before;
    }
    let findings = Findings::embedded();
    let is_root = host.identity().uid == Some(0);
    let teller = Teller::new(facts, catalogue, &findings, is_root);
    tell(&reading, printed.log, &teller, &findings)
}
