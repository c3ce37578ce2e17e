//! `hawsepipe plugin`: lets authors try out a plugin with the same workers, pool and engine that a gateway uses.

mod args;
mod bench;
mod code;
mod diff;
mod floor;
mod function;
mod import;
mod mock;
mod mock_store;
mod new;
mod ports;
mod run;
mod subject;
mod test;
mod test_gateway;
mod test_input;

use std::process::ExitCode;

pub use self::args::PluginArgs;
use self::args::PluginCommand;
use super::output::print_line;

pub async fn plugin(args: PluginArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        PluginCommand::Run(args) => run::run(args).await,
        PluginCommand::Bench(args) => bench::bench(args).await,
        PluginCommand::New(args) => new::new(&args),
        PluginCommand::Test(args) => test::test(args).await,
        PluginCommand::Import(args) => import::import(&args),
        PluginCommand::Types => print_line(new::TYPES.trim_end()).map(|()| ExitCode::SUCCESS),
    }
}
