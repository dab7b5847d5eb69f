//! Variables that block a build: their value leads nowhere, or they request architectures that the toolkit does not support.

use gpubuild_core::arch::CudaArch;
use gpubuild_core::backend::Backend;

use super::Reason;
use super::reasons::RuleInput;
use crate::facts::variables::WrongVariable;
use crate::finding::Affects;
use crate::id;
use crate::toolkit::description::{Description, is_on};
use crate::toolkit::range::ArchSupport;

/// Reasons from variables that concern every backend.
pub(super) fn general(input: &RuleInput<'_>) -> Vec<Reason> {
    blocking(input).filter(|wrong| wrong.backend.is_none()).map(reason).collect()
}

/// Reasons from variables that concern a backend of this description.
pub(super) fn evaluate(input: &RuleInput<'_>, description: &Description, backend: Backend) -> Vec<Reason> {
    if !is_on(&description.build.on, input.os()) {
        return Vec::new();
    }
    let concerns = |wrong: &&WrongVariable| wrong.backend.is_none_or(|own| own == backend);
    let mut reasons: Vec<Reason> = blocking(input).filter(concerns).map(reason).collect();
    if backend == Backend::Cuda {
        reasons.extend(architectures(input, description));
    }
    reasons
}

fn blocking<'a>(input: &RuleInput<'a>) -> impl Iterator<Item = &'a WrongVariable> {
    input.facts.variables.iter().filter(|wrong| wrong.blocks && wrong.affects == Affects::Build)
}

fn reason(wrong: &WrongVariable) -> Reason {
    let mut reason = Reason::new(wrong.id, wrong.text())
        .hint(format!("unset {}, or correct it; it is read by {}", wrong.name, wrong.reader));
    for (name, value) in [("variable", &wrong.name), ("place", &wrong.value)] {
        reason.values.insert(name.to_owned(), value.clone());
    }
    reason
}

/// Whether a reason comes from a variable with architectures. The planner evaluates its own request, which may be another one.
#[must_use]
pub fn is_of_architectures(reason: &Reason) -> bool {
    reason.id.starts_with("cuda.arch.") && reason.values.contains_key("variable")
}

/// The reason if `CUDAARCHS` or `CUDA_COMPUTE_CAP` requests an architecture that the chosen toolkit does not support.
fn architectures(input: &RuleInput<'_>, description: &Description) -> Option<Reason> {
    let copy = input.inventory.chosen(&description.id)?;
    let range = description.cuda_range(copy);
    let requests = input.facts.overrides.iter().filter(|set| set.key == "cuda.archs");
    let words = requests.flat_map(|set| set.value.split([';', ',', ' ']).map(move |word| (set, word)));
    words.filter_map(|(set, word)| Some((set, word, word.parse::<CudaArch>().ok()?))).find_map(
        |(set, word, arch)| {
            let id = match range.support(arch.number) {
                ArchSupport::Dropped => id!("cuda.arch.dropped-by-toolkit"),
                ArchSupport::TooNew if range.other_name(&arch).is_none() => {
                    id!("cuda.arch.too-new-for-toolkit")
                }
                ArchSupport::TooNew | ArchSupport::Yes | ArchSupport::Unknown => return None,
            };
            let supported = match (range.numbers.first(), range.numbers.last()) {
                (Some(first), Some(last)) => format!(", which supports sm_{first} to sm_{last}"),
                _ => String::new(),
            };
            let text = format!(
                "{} requests {word}, and {} does not support it{supported}",
                set.origin, range.toolkit
            );
            let mut reason = Reason::new(id, text).hint(format!("correct or unset {}", set.origin));
            reason.values.insert("variable".to_owned(), set.origin.clone());
            reason.values.insert("place".to_owned(), set.value.clone());
            reason.about = Some(description.id.clone());
            Some(reason)
        },
    )
}
