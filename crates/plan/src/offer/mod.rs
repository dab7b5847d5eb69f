//! Toolkits that gpubuild can install: which release suits a machine, what the machine can build with it, and what a build
//! installs first. Nothing is installed here.

pub mod choose;
mod evaluate;
pub mod foresee;
pub mod installed;
pub mod which;

pub use evaluate::evaluate;
pub use foresee::foresee;
pub use which::{OfferMachine, ReleaseQuery, which};

/// The folder of an installation that is the toolkit's root.
pub const PREFIX: &str = "prefix";
