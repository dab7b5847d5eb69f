//! `gpubuild venv`: Python environments with the run-time wheels that built libraries need.
//!
//! [`needs`] determines the required libraries from the artifact manifest. [`choose`] selects the wheels that contain them
//! (pure; the table is `toolkits/tables/runtime-wheels.toml`). [`environment`] adopts or creates the environment,
//! [`installed`] lists its packages, [`provide`](mod@provide) installs the missing wheels, and [`verify`] loads the libraries
//! in a child process. [`VenvRecord`] stores the result for `link`, `build` and build scripts. [`copy`] copies the libraries
//! next to a program instead.

pub mod choose;
pub mod copy;
pub mod environment;
pub mod installed;
pub mod needs;
pub mod packages;
pub mod problem;
pub mod provide;
pub mod pylock;
pub mod shell;
pub mod table;
pub mod verify;

pub use gpubuild_exec::environment::VenvRecord;
pub use problem::{VenvEnding, VenvProblem};
pub use provide::provide;
pub use table::WheelTable;
