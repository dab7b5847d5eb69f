//! CI: from `[[variants]]` of gpubuild.toml to the jobs of a matrix, and to the file that makes a service run them.
//!
//! ```text
//! [[variants]] x images.toml x versions of toolkits
//!        |
//! image::host      each image is a recorded host, with what its setup puts there
//!        |
//! planning         each row is planned like any other machine; a refusal is its reason (pure)
//!        |
//! rows::Row        -> `ci matrix`, `ci run`; pack::assign says which of them pack
//!        |
//! workflow         -> `ci init`, `ci verify`
//! ```

pub mod image;
pub mod pack;
pub mod preflight;
pub mod rows;
pub mod workflow;

pub use gpubuild_plan::project::variant::{CiTable, VariantTable};
pub use image::{CiImage, Images};
pub use rows::{CiRow, Impossible, RowContext, Rows, rows};
