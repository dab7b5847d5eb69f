//! `doctor --binary`: what the loader will do with an executable or library on a machine.
//!
//! [`examine`] reads the file and follows it through the loader ([`gpubuild_object`]); [`verdicts`] says what that means on the
//! machine (pure).

#[cfg(test)]
mod cases;
mod sights;
pub mod verdicts;

use gpubuild_detect::finding::FindingDraft;
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_object::graph::{self, Graph};
use gpubuild_object::{UnreadableObject, read};

use super::DiagnosisCase;

/// Everything that is found out about a file on a machine.
pub struct Examined {
    /// The file and what it loads.
    pub graph: Graph,
    /// What is to be said.
    pub drafts: Vec<FindingDraft>,
    /// How its kernels run on the devices.
    pub coverage: Vec<verdicts::Coverage>,
}

/// Looks into a file, follows it through the loader, and judges.
///
/// # Errors
/// As [`read`].
pub fn examine(
    host: &dyn ReadFiles,
    case: &DiagnosisCase<'_>,
    path: &HostPath,
) -> Result<Examined, UnreadableObject> {
    let binary = read(host, path, host.platform().arch)?;
    let here = host.platform();
    // Libraries are for the processor of the program; machines run those of their forerunners, or translate.
    let is_runnable = binary.machine.is(here.arch) || here.os != Os::Linux || binary.machine.name == "i386";
    let graph = if binary.format.os() == here.os && is_runnable {
        graph::resolve(host, path, binary)
    } else {
        graph::Graph::of_file(path, binary)
    };
    let sights = sights::gather(host, case.inventory, &graph);
    let subject = verdicts::BinarySubject { graph: &graph, case, sights: &sights };
    let (drafts, coverage) = (verdicts::all(&subject), verdicts::coverage(&subject));
    Ok(Examined { graph, drafts, coverage })
}
