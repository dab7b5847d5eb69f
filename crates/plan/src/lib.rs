//! Planning: evaluates a machine and a project file, plans the build, and describes built artifacts and how to link them.
//!
//! Part of gpubuild. The interface is not stable.

pub mod artifacts;
pub mod cargo;
pub mod glue;
pub mod link;
pub mod machine;
pub mod offer;
pub mod packages;
pub mod plan;
pub mod planning;
pub mod project;
pub mod target;
pub mod wheels;
