//! The command `gpubuild`: its subcommands, the documents that they print, and what only they need. Everything else is in the crates
//! below it (`docs/contributing/architecture.md`).

pub mod audit;
pub mod cli;
pub mod new;
pub mod report;
