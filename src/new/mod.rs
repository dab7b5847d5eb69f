//! `gpubuild new`: creates a project from a template.
//!
//! ```text
//! templates/new/<id>/     template.toml and the files, embedded
//!        |
//! name::check             validate the crate name
//!        |
//! render::files           fill in the placeholders (no I/O)
//!        |
//! place::prepare          check for existing files, and compute the edits of the surrounding workspace
//!        |
//! place::write            write the new files, then the edits of existing files; undo everything on an error
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
