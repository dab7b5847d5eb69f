//! The command `gpubuild`: its subcommands, the reports that they print, and the code that only they use. The libraries are described in
//! `docs/contributing/architecture.md`.

pub mod audit;
pub mod cli;
pub mod estimate;
pub mod new;
pub mod report;
