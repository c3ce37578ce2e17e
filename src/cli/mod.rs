//! The subcommands, and the only code that connects adapters to ports.

mod address;
mod admin;
mod again;
mod args;
mod audit;
mod auth;
mod call;
mod calls;
mod certificates;
mod clock;
mod codeblock;
mod codeblocks;
mod complete;
mod convert;
mod docs;
mod executions;
mod explain;
mod formats;
mod from_text;
mod gateway;
mod gateway_pods;
mod grant;
mod greeting;
mod history;
mod invocations;
mod invoked;
mod known;
mod listeners;
mod mcp_client;
mod names;
mod operator;
mod ordered_json;
mod output;
mod pipelines;
mod plugin;
mod plugins;
mod problem_line;
mod programs;
mod pushed;
mod ran;
mod records;
mod refused;
mod registry;
mod rollback;
mod run;
mod run_doc;
mod runs;
mod seal_key;
mod serve;
mod signals;
mod snapshot;
mod state_folder;
mod status;
mod stop;
mod store;
mod store_arg;
mod termination_log;
mod tools;
mod unfinished;
mod validate;
mod wait;
mod wiring;
mod workers;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::{CommandFactory, FromArgMatches};
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, ready};

use self::args::{Args, Command};
pub use self::docs::pages;
use self::output::{print, say};
use crate::telemetry::log_buffer;

/// Runs the command line `arguments` and returns the exit code. Prints errors to standard error, with advice on what
/// to do. The error of a container's program is kept for the status of its pod, too.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // If a shell asks for completions, this prints them and ends the process.
    complete::answer();
    let arguments: Vec<_> = arguments.into_iter().collect();
    let subcommand = arguments.get(1).cloned();
    run_command(arguments).unwrap_or_else(|error| {
        say(&format!("Error: {error:#}"));
        termination_log::write(subcommand.as_deref(), &format!("{error:#}"));
        ExitCode::FAILURE
    })
}

fn run_command(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let subcommand = arguments.get(1).cloned();
    let matches = Args::command().try_get_matches_from(arguments);
    let args = match matches.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(args) => args,
        Err(asked) => return help(&asked, subcommand.as_deref()),
    };
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let ended = runtime.block_on(dispatch(args));
    // The process must not wait for a thread that is blocked while it reads standard input.
    runtime.shutdown_background();
    log_buffer::end();
    ended
}

/// Runs the command. The futures are boxed because the compiler cannot lay out one future that contains all of them.
fn dispatch(args: Args) -> LocalBoxFuture<'static, anyhow::Result<ExitCode>> {
    match args.command {
        Command::Run(args) => run::run(args).boxed_local(),
        Command::Operator(args) => operator::operator(args).boxed_local(),
        Command::Gateway(args) => gateway::gateway(args).boxed_local(),
        Command::Bridge(args) => bridge(args).boxed_local(),
        Command::Validate(args) => validate::validate(args).boxed_local(),
        Command::Convert(args) => ready(convert::convert(&args)).boxed_local(),
        Command::Snapshot(args) => of_cluster(snapshot::snapshot(args)).boxed_local(),
        Command::Rollback(args) => of_cluster(rollback::rollback(args)).boxed_local(),
        Command::Grant(args) => of_cluster(grant::grant(args)).boxed_local(),
        Command::Crds(args) => ready(crds(&args)).boxed_local(),
        Command::Docs(args) => ready(docs::docs(&args)).boxed_local(),
        Command::Status(args) => status::status(args).boxed_local(),
        Command::Wait(args) => wait::wait(args).boxed_local(),
        Command::Tools(args) => tools::tools(args).boxed_local(),
        Command::Call(args) => call::call(args).boxed_local(),
        Command::Stop(args) => stop::stop(args).boxed_local(),
        Command::Resume(args) => stop::resume(args).boxed_local(),
        Command::Cancel(args) => stop::cancel(args).boxed_local(),
        Command::RunDoc(args) => run_doc::run_doc(args).boxed_local(),
        Command::Invocations(args) => invocations::invocations(args).boxed_local(),
        Command::Pipelines(args) => pipelines::pipelines(args).boxed_local(),
        Command::Runs(args) => runs::runs(args).boxed_local(),
        Command::Calls(args) => calls::calls(args).boxed_local(),
        Command::Executions(args) => executions::executions(args).boxed_local(),
        Command::Plugins(args) => plugins::plugins(args).boxed_local(),
        Command::Workers(args) => workers::workers(args).boxed_local(),
        Command::Store(args) => store::store(args).boxed_local(),
        Command::Audit(args) => audit::audit(args).boxed_local(),
        Command::Registry(args) => registry::registry(args).boxed_local(),
        Command::Explain(args) => explain::explain(args).boxed_local(),
        Command::Auth(args) => auth::auth(args).boxed_local(),
        Command::Plugin(args) => plugin::plugin(args).boxed_local(),
        Command::Completion(args) => ready(complete::script(args.shell).map(|()| ExitCode::SUCCESS)).boxed_local(),
    }
}

async fn bridge(args: crate::bridge::BridgeArgs) -> anyhow::Result<ExitCode> {
    crate::bridge::run(args).await?;
    Ok(ExitCode::SUCCESS)
}

/// The time limit of a command that sends requests to an API server.
const CLUSTER_DEADLINE: Duration = Duration::from_secs(60);

/// Runs a command that sends requests to an API server, within [`CLUSTER_DEADLINE`].
async fn of_cluster(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let done = tokio::time::timeout(CLUSTER_DEADLINE, command).await;
    done.unwrap_or_else(|_| Err(anyhow!("the cluster's API server did not answer within {CLUSTER_DEADLINE:?}")))
}

/// Prints the requested help, or what is wrong with the command line. Returns the exit code.
fn help(asked: &clap::Error, subcommand: Option<&OsStr>) -> anyhow::Result<ExitCode> {
    if asked.use_stderr() {
        termination_log::write(subcommand, &asked.render().to_string());
    }
    match asked.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !asked.use_stderr() && error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(2))),
    }
}

fn crds(args: &args::CrdsArgs) -> anyhow::Result<ExitCode> {
    match &args.write {
        Some(folder) if args.helm => crate::api::write_crds(folder, crate::api::crd_templates())?,
        Some(folder) => crate::api::write_crds(folder, crate::api::crd_files())?,
        None => print(&crate::api::crds_yaml())?,
    }
    Ok(ExitCode::SUCCESS)
}
