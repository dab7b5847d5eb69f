//! Files as patients.
pub mod dockerfile;
pub mod expand;
pub mod image;
pub mod shell;
pub mod tables;
pub mod tags;
pub mod text;
pub mod yaml;
