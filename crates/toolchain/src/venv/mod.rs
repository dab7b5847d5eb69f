//! `gpubuild venv`: a Python environment with the run-time wheels that built libraries need, and how programs find them.
//!
//! [`needs`] reads from the artifact manifest which libraries are needed, [`choose`] says which wheels hold them (pure;
//! the table is `toolkits/tables/runtime-wheels.toml`), [`environment`] adopts or makes the environment, [`installed`] tells what
//! is in it, [`verify`] has a child load what was installed, and [`VenvRecord`] keeps for `link`, `build` and build scripts
//! where it lies. [`copy`] puts the libraries beside a program instead.

pub mod choose;
pub mod copy;
pub mod environment;
pub mod installed;
pub mod needs;
pub mod problem;
pub mod provide;
pub mod shell;
pub mod table;
pub mod verify;

pub use gpubuild_exec::environment::VenvRecord;
pub use problem::{VenvEnding, VenvProblem};
pub use provide::provide;
pub use table::WheelTable;
