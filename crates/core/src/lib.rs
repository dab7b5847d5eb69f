//! Types that every other crate of gpubuild uses (backends, versions, GPU architectures, instruction sets, operating systems), and
//! functions that make text safe for terminals, shells and publication.
//!
//! Part of gpubuild. The interface is not stable.

pub mod arch;
pub mod backend;
pub mod clean;
pub mod isa;
pub mod platform;
pub mod secret;
pub mod shell;
pub mod version;

pub use backend::Backend;
pub use platform::Os;
pub use version::Version;
