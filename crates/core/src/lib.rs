//! What every other part of gpubuild speaks of: backends, versions, architectures of GPUs, instruction sets, operating systems; and
//! texts made fit for terminals, shells and publication.
//!
//! Part of [gpubuild](https://crates.io/crates/gpubuild). The interface is not stable.

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
