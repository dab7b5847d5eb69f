//! `gpubuild new`: projects to start from.
//!
//! ```text
//! templates/new/<id>/     template.toml and the files, embedded
//!        |
//! name::check             what a crate may be called
//!        |
//! render::files           placeholders filled in (pure)
//!        |
//! place::gather           what is there already: collisions, the workspace around, its edits
//!        |
//! place::write            files first, edits of files that are there last; all of it or nothing
//! ```

mod error;
pub mod name;
pub mod place;
pub mod render;
pub mod template;
#[cfg(test)]
mod tests;
pub mod workspace;

pub use error::NewError;
pub use place::{Edit, PlacedProject};
pub use render::{CrateDependency, RenderRequest, RenderedFile};
pub use template::{Template, templates};
