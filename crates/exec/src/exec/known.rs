//! Recognises known failures in the output of a build tool.

use gpubuild_detect::facts::Facts;
use gpubuild_detect::finding::{Finding, Findings};
use gpubuild_detect::finding_text::FindingRenderer;
use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::HostInfo;

use super::Printed;
use crate::log::{Signatures, to_findings};

/// Returns the causes as findings, root cause first. Line numbers refer to the complete log.
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
    let renderer = FindingRenderer::new(facts, catalogue, &findings, is_root);
    to_findings(&reading, printed.log, &renderer, &findings)
}
