//! The `hawsepipe-bridge` binary: `hawsepipe bridge` alone, linked statically, for images of MCP servers.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|word| word.to_str()) {
        // A parent-death signal applies only to the calling thread, so this must come before any thread starts.
        Some("stdio-server") => hawsepipe::transport::server_main(arguments),
        _ => hawsepipe::bridge::main(env::args_os()),
    }
}
