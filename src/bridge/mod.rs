//! Serves an MCP server that speaks over stdio to clients over Streamable HTTP, inside the server's own container.
//!
//! Invariant: nothing of what messages contain is logged, nor the id of a session. Of a line that is no message, the
//! beginning may be. No names are looked up, because the
//! program is linked statically and runs in images that have no C library.

mod args;
mod ask;
mod call_state;
mod calls;
mod context;
mod endpoint;
mod environment;
mod exchange;
mod initialize;
mod install;
mod keeper;
mod message;
mod modern;
mod outbox;
mod post;
mod process;
mod reaper;
mod responses;
mod serve;
mod session;
mod state;
mod stderr;
mod stdout;
mod usage;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::Parser;

pub use self::args::{BridgeArgs, SessionMode};
pub use self::serve::PORT;

/// The number of threads. A bridge serves one server.
const THREADS: usize = 2;

/// Runs the program `hawsepipe-bridge` with the command line `arguments`, and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let program = match args::Program::try_parse_from(arguments) {
        Ok(program) => program,
        Err(asked) => {
            let _ = asked.print();
            return ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(2));
        }
    };
    let done = match (program.install, program.bridge) {
        (Some(target), _) => install::install(&target)
            .map_err(|error| io::Error::other(format!("cannot install to {}: {error}", target.display()))),
        (None, Some(bridge)) => serve_blocking(bridge),
        (None, None) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_blocking(args: BridgeArgs) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let done = runtime.block_on(run(args));
    runtime.shutdown_background();
    done
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// If the address cannot be bound, or signals cannot be caught.
pub async fn run(args: BridgeArgs) -> io::Result<()> {
    serve::run(args).await
}
