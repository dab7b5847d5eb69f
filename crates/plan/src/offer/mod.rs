//! Selects the toolkit releases that gpubuild can install: the release for a machine, the resulting verdicts, and the
//! toolkits that a build installs first. Pure; `gpubuild-toolchain` installs them.

pub mod choose;
mod evaluate;
pub mod for_target;
pub mod installed;
pub mod simulate;
pub mod which;

pub use evaluate::evaluate;
pub use simulate::simulate;
pub use which::{OfferMachine, ReleaseQuery, which};

/// Subfolder of an installation that is the toolkit's root.
pub const PREFIX: &str = "prefix";
