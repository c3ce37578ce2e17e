//! `hawsepipe plugin`: what an author tries a plugin out with, on the very workers, pool and engine of a gateway.

mod args;
mod bench;
mod code;
mod diff;
mod floor;
mod ports;
mod run;
mod subject;
mod test_gateway;
mod test_input;

use std::process::ExitCode;

pub use self::args::PluginArgs;
use self::args::PluginCommand;
use super::output::print_line;

/// The types of both contracts, as `plugins/sdk` has them.
const TYPES: &str = include_str!("../../../plugins/sdk/index.d.ts");

/// Does what the command line asks for.
pub async fn plugin(args: PluginArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        PluginCommand::Run(args) => run::run(args).await,
        PluginCommand::Bench(args) => bench::bench(args).await,
        PluginCommand::Types => print_line(TYPES.trim_end()).map(|()| ExitCode::SUCCESS),
    }
}
