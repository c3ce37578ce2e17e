//! Subcommands: the only place that wires adapters to ports.

mod admin;
mod args;
mod call;
mod clock;
mod cluster;
mod docs;
mod executions;
mod explain;
mod gateway;
mod grant;
mod listeners;
mod operator;
mod output;
mod plugin;
mod rollback;
mod run;
mod serve;
mod signals;
mod snapshot;
mod state;
mod tools;
mod validate;
mod wiring;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use self::args::{Args, Command};
pub use self::docs::pages;

/// Runs what the command line asks for. Errors are printed to standard error, with what to do.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = Args::command().get_matches_from(arguments);
    let args = match Args::from_arg_matches(&matches) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("cannot start the runtime")),
    };
    let code = runtime.block_on(dispatch(args)).unwrap_or_else(|error| fail(&error));
    // A thread that still reads standard input must not keep the process.
    runtime.shutdown_background();
    code
}

async fn dispatch(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => run::run(args).await,
        Command::Operator(args) => operator::operator(args).await,
        Command::Gateway(args) => gateway::gateway(args).await,
        Command::Validate(args) => validate::validate(args).await,
        Command::Snapshot(args) => snapshot::snapshot(args).await,
        Command::Rollback(args) => rollback::rollback(args).await,
        Command::Grant(args) => grant::grant(args).await,
        Command::Crds(args) => crds(&args),
        Command::Docs(args) => docs::docs(&args),
        Command::Tools(args) => tools::tools(args).await,
        Command::Call(args) => call::call(args).await,
        Command::Executions(args) => executions::executions(args).await,
        Command::Workers(args) => workers::workers(args).await,
        Command::Explain(args) => explain::explain(args).await,
        Command::Plugin(args) => plugin::plugin(args).await,
        Command::Completion(args) => {
            clap_complete::generate(args.shell, &mut Args::command(), "hawsepipe", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn crds(args: &args::Crds) -> anyhow::Result<ExitCode> {
    match &args.write {
        Some(folder) => crate::api::write_crds(folder)?,
        None => print!("{}", crate::api::crds_yaml()),
    }
    Ok(ExitCode::SUCCESS)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("Error: {error:#}");
    ExitCode::FAILURE
}
