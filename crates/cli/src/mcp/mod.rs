//! `tcpwhy mcp`: the diagnosis as tools of an assistant, over the Model Context Protocol
//! (<https://modelcontextprotocol.io/specification/>) on standard input and output. The tools read only
//! the folders that the user names, in the sandbox of every command that reads captures; their answers
//! are bounded and contain no payload.

mod answer;
mod folders;
mod tools;

use crate::error::{Error, sentence};
use crate::sandbox;
use clap::Args;
use folders::Folders;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ServiceExt, transport};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime;
use tokio::sync::Mutex;

pub const EXAMPLES: &str = "\
Examples:
  claude mcp add tcpwhy -- tcpwhy mcp ~/captures
  tcpwhy mcp ~/captures /var/tmp/incident      as the command of any assistant that speaks MCP

The tools: captures (lists them), diagnose, findings, evidence, explain, compare. They read files in the
folders only, and their answers contain no payload, but addresses, names that were looked up, and plain
words of paths.

Exit status: 0 the assistant closed standard input, 2 a folder cannot be read or the protocol failed.";

/// Words for the assistant about all tools.
const INSTRUCTIONS: &str = "tcpwhy says why network requests in captures (pcap, pcapng) were slow: which \
cause cost how many milliseconds, who has to change what, and the evidence. Call `captures` to see the \
files, then `diagnose`. `findings` has the same as data, `evidence` draws the packets behind a finding, \
`explain` prints the manual of a cause, `compare` says whether a change helped. All times are measured \
from the packets; do not add findings that a report does not state.";

#[derive(Debug, Args)]
pub struct Mcp {
    /// Folders whose captures the assistant may have read, with the folders in them
    #[arg(value_name = "FOLDER", required = true, value_hint = clap::ValueHint::DirPath)]
    pub folders: Vec<PathBuf>,
}

/// Serves the tools until standard input ends.
///
/// # Errors [`Error`] if a folder cannot be read, or the other end does not speak the protocol.
pub fn run(asked: &Mcp) -> Result<ExitCode, Error> {
    let folders = Folders::open(&asked.folders)?;
    // Standard input and output are read and written by threads of their own: no driver of sockets is
    // needed, and the sandbox has no call for one.
    let runtime =
        runtime::Builder::new_current_thread().enable_time().build().map_err(Error::Protocol)?;
    sandbox::confine(folders.all());
    let server = Server { folders: Arc::new(folders), working: Mutex::new(()) };
    let served = runtime.block_on(async {
        let running = server.serve(transport::stdio()).await.map_err(std::io::Error::other)?;
        running.waiting().await.map_err(std::io::Error::other)
    });
    // A thread may still analyse what nobody waits for any more.
    runtime.shutdown_background();
    served.map_err(Error::Protocol)?;
    Ok(ExitCode::SUCCESS)
}

/// The server of the tools.
struct Server {
    folders: Arc<Folders>,
    /// Held while a tool works: an analysis uses all cores, so a second one waits.
    working: Mutex<()>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("tcpwhy", env!("CARGO_PKG_VERSION"));
        info.with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(
            tools::TOOLS.iter().map(|row| row.described()).collect(),
        ))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::named(name).map(|row| row.described())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(row) = tools::named(&request.name) else {
            let known: Vec<_> = tools::TOOLS.iter().map(|row| row.name).collect();
            let text =
                format!("there is no tool `{}`; there are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(text, None));
        };
        let _working = self.working.lock().await;
        let interrupted = Arc::new(AtomicBool::new(false));
        let (folders, flag) = (self.folders.clone(), interrupted.clone());
        let arguments = serde_json::Value::Object(request.arguments.unwrap_or_default());
        let mut work = tokio::task::spawn_blocking(move || (row.work)(&folders, arguments, &flag));
        let worked = match context.ct.run_until_cancelled(&mut work).await {
            Some(worked) => worked,
            None => {
                interrupted.store(true, Ordering::Relaxed);
                work.await
            }
        };
        let done = worked.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(match done {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(answer::bounded(&text))]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(sentence(&error))]),
        }
        .into())
    }
}
