//! Files as patients.
pub mod expand;
pub mod shell;
pub mod text;
pub mod yaml;
