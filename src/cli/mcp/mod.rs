//! `gpubuild mcp`: a server of the Model Context Protocol on standard input and output, for editors and agents.
//!
//! A tool is a command with `--json` and some of its options (`tools`). It runs in this process (`call`), through a host that refuses
//! changes, and answers with the document that the command prints. `server` and `transport` connect the tools with the crate `rmcp`.

#[cfg(feature = "mcp")]
mod arguments;
#[cfg(feature = "mcp")]
mod call;
#[cfg(feature = "mcp")]
mod server;
#[cfg(feature = "mcp")]
mod tools;
#[cfg(feature = "mcp")]
mod transport;

#[cfg(feature = "mcp")]
pub(super) use server::run;

/// Arguments of `mcp`.
#[derive(Debug, clap::Args)]
pub struct McpArguments {
    /// Let `doctor` query drivers and programs, each in a child process, as on the command line. They may write files of their own, such
    /// as caches
    #[arg(long)]
    drivers: bool,
}

/// Says how to get the server.
#[cfg(not(feature = "mcp"))]
pub(super) fn run(
    _arguments: &McpArguments,
    _printer: &super::Printer,
) -> Result<super::Exit, super::Failure> {
    let message = "this build of gpubuild has no server of the Model Context Protocol";
    Err(super::Failure::usage(gpubuild_detect::id!("mcp.not-included"), message)
        .hint("build gpubuild with `--features mcp`"))
}
