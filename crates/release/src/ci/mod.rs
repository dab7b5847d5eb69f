//! CI jobs: derives a matrix from `[[variants]]` of gpubuild.toml, and generates the workflow file that runs it.
//!
//! ```text
//! [[variants]] x images.toml x versions of toolkits
//!        |
//! image::host      each image is a recorded host with the files that its setup installs
//!        |
//! planning         each row is planned like on any other machine; a row without a plan is dropped with the reason (pure)
//!        |
//! rows             -> `ci matrix`, `ci run`; pack::assign decides which rows pack a release
//!        |
//! test_row         jobs that test on another machine what a row packed
//! workflow         -> `ci init`, `ci verify`
//! changes          -> `ci matrix --changed-since` and `--changed-first`: the rows whose inputs changed
//! farm             -> slurm, kubernetes: `ci matrix --format slurm`, groups of rows with the same resources, as jobs of a cluster
//! requests         what the jobs of an image request from its scheduler
//! ```

pub mod changes;
pub mod farm;
pub mod image;
pub mod kubernetes;
pub mod pack;
pub mod preflight;
pub mod requests;
pub mod row;
pub mod rows;
pub mod slurm;
pub mod test_row;
pub mod workflow;

pub use gpubuild_plan::project::variant::{CiTable, VariantTable};
pub use image::{CiImage, Images};
pub use row::{CiRow, RowContext};
pub use rows::{DroppedRow, Rows, rows};
pub use test_row::CiTestRow;
