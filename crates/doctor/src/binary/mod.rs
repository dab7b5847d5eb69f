//! `doctor --binary`: what the loader does with an executable or library on a machine.
//!
//! [`examine`] reads the file and resolves its libraries as the loader does ([`gpubuild_object`]); [`verdicts`] derives findings
//! from the result (pure).

#[cfg(test)]
mod cases;
mod observations;
pub mod verdicts;

use gpubuild_detect::finding::FindingDraft;
use gpubuild_host::{HostPath, Os, ReadFiles};
use gpubuild_object::graph::{self, Graph};
use gpubuild_object::{UnreadableObject, read};

use super::DiagnosisCase;

/// Result of examining a file on a machine.
pub struct Examined {
    /// The file and the libraries that it loads.
    pub graph: Graph,
    /// Findings about the file.
    pub drafts: Vec<FindingDraft>,
    /// How its kernels run on the machine's devices.
    pub coverage: Vec<verdicts::Coverage>,
}

/// Reads a file, resolves its libraries and derives findings.
///
/// # Errors
/// If the file cannot be read; see [`read`].
pub fn examine(
    host: &dyn ReadFiles,
    case: &DiagnosisCase<'_>,
    path: &HostPath,
) -> Result<Examined, UnreadableObject> {
    let binary = read(host, path, host.platform().arch)?;
    let here = host.platform();
    // The loader's search is resolved only if the machine can run the program: natively, as a 32-bit program, or translated.
    let is_runnable = binary.machine.is(here.arch) || here.os != Os::Linux || binary.machine.name == "i386";
    let graph = if binary.format.os() == here.os && is_runnable {
        graph::resolve(host, path, binary)
    } else {
        graph::Graph::of_file(path, binary)
    };
    let observations = observations::gather(host, case.inventory, &graph);
    let subject = verdicts::BinarySubject { graph: &graph, case, observations: &observations };
    let (drafts, coverage) = (verdicts::all(&subject), verdicts::coverage(&subject));
    Ok(Examined { graph, drafts, coverage })
}
