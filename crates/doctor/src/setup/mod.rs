//! `gpubuild setup`: does what the doctor recommends, one step per finding.
//!
//! [`SetupStep`] is the remedy of a finding with the kind of each of its commands. [`SetupGuide`] selects the next step and compares
//! the findings before and after it. [`SetupShell`] runs commands and keeps the variables that they set.

mod command;
mod guide;
mod shell;
mod step;

pub(crate) use command::is_safe;
pub use command::{CommandKind, SetupCommand};
pub use guide::{Attempt, SetupGuide, StepOutcome, StepResult};
pub use shell::{CommandOutputMode, SetupError, SetupShell};
pub use step::{ManualReason, SetupStep, StepMode};
