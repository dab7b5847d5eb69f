//! The server: lists the tools and calls them.

use std::sync::Arc;

use gpubuild_core::clean;
use gpubuild_detect::id;
use gpubuild_host::{ProgramAccess, RealHost, signals};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};

use super::McpArguments;
use super::call::{ToolEnvironment, ToolOutcome};
use super::tools::{self, McpTool};
use super::transport::StandardStreams;
use crate::cli::{Exit, Failure, Printer};

/// Number of tools that run at once. The commands use several threads themselves.
const THREADS: usize = 4;

/// Size of a thread's stack in bytes: that of the main thread, which runs commands otherwise.
const STACK: usize = 8 << 20;

const INSTRUCTIONS: &str = "Tools that examine this machine, a recording of another one, or a gpubuild project: GPUs, drivers, \
    toolkits (CUDA, ROCm, Vulkan, Metal, SYCL, OpenCL), and what a build would do. They change nothing. Remedies in the results are \
    commands for the user. Every result is the JSON document of the command of gpubuild; a failed call returns the document `error`.";

/// Serves requests from standard input until it ends.
pub(in crate::cli) fn run(arguments: &McpArguments, printer: &Printer) -> Result<Exit, Failure> {
    let host = RealHost::new().with_own_probes();
    let programs = if arguments.drivers { ProgramAccess::Allow } else { ProgramAccess::Refuse };
    if let Err(error) = signals::end_on_signal(&host) {
        log::debug!("failed to install a handler for signals: {error}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(THREADS)
        .thread_stack_size(STACK)
        .build()?;
    let server =
        Server { environment: Arc::new(ToolEnvironment { host, programs, printer: printer.clone() }) };
    runtime.block_on(async {
        match server.serve(StandardStreams::open(printer)?).await {
            Ok(running) => running.waiting().await.map(|_| Exit::Done).map_err(|error| failed(&error)),
            // The client has closed the connection before it sent a request.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(Exit::Done),
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => Err(Failure::negative(
                id!("mcp.protocol"),
                "the first message of the client is not a request",
            )),
            Err(error) => Err(failed(&error)),
        }
    })
}

fn failed(error: &dyn std::error::Error) -> Failure {
    let message = format!("the connection with the client has failed: {error}");
    Failure::negative(id!("mcp.protocol"), clean::short(&message, 500))
}

struct Server {
    environment: Arc<ToolEnvironment>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("gpubuild", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::TOOLS.iter().map(described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            let message = format!("unknown tool: {}", clean::short(&request.name, 100));
            return Err(ErrorData::invalid_params(message, None));
        };
        let environment = Arc::clone(&self.environment);
        let arguments = request.arguments.unwrap_or_default();
        let failed = |error: &dyn std::error::Error| ErrorData::internal_error(error.to_string(), None);
        let outcome = tokio::task::spawn_blocking(move || environment.call(tool, arguments))
            .await
            .map_err(|error| failed(&error))?
            .map_err(|error| failed(&error))?;
        Ok(result(outcome).into())
    }
}

/// A tool as the protocol describes it.
fn described(tool: &McpTool) -> Tool {
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(true)
        .destructive(false)
        .idempotent(true)
        .open_world(false);
    Tool::new(tool.name, tool.description, tool.schema()).with_title(tool.title).with_annotations(annotations)
}

/// The document as structured content, and as text for clients that do not support that.
fn result(outcome: ToolOutcome) -> CallToolResult {
    let content = vec![ContentBlock::text(outcome.text)];
    let mut result =
        if outcome.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(outcome.document);
    result
}
