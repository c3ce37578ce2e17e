//! The `hawsepipe` binary.

use std::env;
use std::process::{ExitCode, exit};

use tikv_jemallocator::Jemalloc;

/// Calls of many clients allocate at the same time: its threads share no lock, and while they allocate, it returns to the system
/// what was not used for 10 s. How it is set is in .cargo/config.toml.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // The subcommands are handled before any thread starts: the parent-death signal and the sandbox apply only to the
    // calling thread, and `sandbox` needs descriptors 3 and 4 to be free.
    let mut arguments = env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|word| word.to_str()) {
        Some("sandbox") => hawsepipe::node::sandbox_main(arguments),
        Some("stdio-server") => hawsepipe::transport::server_main(arguments),
        Some("inspect") => exit(i32::from(hawsepipe::node::inspect_main().is_err())),
        _ => hawsepipe::cli::main(env::args_os()),
    }
}
