//! Chooses the copy that a build uses, and explains the choice.
//!
//! Complete copies precede incomplete ones. Among complete copies, the order is: the copy to which a variable for this toolkit
//! points, the first on PATH, one in an active environment, the newest that gpubuild installed, the system's default, the newest in
//! other known folders.

use std::cmp::Reverse;

use gpubuild_core::order::SortIndirect as _;

use super::Installation;
use super::probe::ProbedCopy;
use super::search::Rank;

/// Sorts copies, the chosen one first, and sets the reason of each. Incomplete copies are never chosen.
pub(super) fn choose(mut copies: Vec<ProbedCopy>) -> Vec<Installation> {
    copies.sort_indirect_by_key(|copy| {
        // The sort is stable, so of the copies on PATH, the first one is chosen, as in a shell.
        let newest = match copy.rank {
            Rank::Own | Rank::Known => {
                Reverse(copy.installation.version.as_ref().map(|fact| fact.value.clone()))
            }
            Rank::Explicit | Rank::Path | Rank::Environment | Rank::Default => Reverse(None),
        };
        (!copy.installation.is_complete(), copy.rank, newest)
    });
    let several = copies.iter().filter(|copy| copy.installation.is_complete()).count() > 1;
    let chosen = copies
        .first()
        .filter(|copy| copy.installation.is_complete())
        .map(|copy| (copy.installation.root.clone(), why(copy)));
    let mut installations = Vec::with_capacity(copies.len());
    for (index, copy) in copies.into_iter().enumerate() {
        let mut installation = copy.installation;
        let missing: Vec<String> =
            installation.missing_parts().into_iter().map(|id| id.replace('-', " ")).collect();
        installation.reason = match &chosen {
            _ if !missing.is_empty() => format!("incomplete: no {}", missing.join(", no ")),
            Some((_, why)) if index == 0 && several => why.clone(),
            Some(_) if index == 0 => "the only complete copy".to_owned(),
            Some((root, why)) => format!("`{root}` comes first: {why}"),
            None => "incomplete".to_owned(),
        };
        installation.chosen = index == 0 && missing.is_empty();
        installations.push(installation);
    }
    installations
}

fn why(copy: &ProbedCopy) -> String {
    match copy.rank {
        Rank::Explicit => {
            format!("`{}` points to it", copy.way.strip_prefix("env:").unwrap_or(&copy.way))
        }
        Rank::Path => "it is first on PATH".to_owned(),
        Rank::Environment => format!(
            "it is in the environment that `{}` points to",
            copy.way.strip_prefix("env:").unwrap_or(&copy.way)
        ),
        Rank::Own => "gpubuild installed it for you".to_owned(),
        Rank::Default => {
            format!("`{}` points to it", copy.way.strip_prefix("known:").unwrap_or(&copy.way))
        }
        Rank::Known => "it is the newest known copy".to_owned(),
    }
}
