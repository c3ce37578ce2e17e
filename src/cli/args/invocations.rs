//! The arguments of commands about invocations.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;

use super::asks::AdminArgs;
use crate::cli::formats::{ListFormat, ResultFormat};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "\
The gateway keeps the last 1,000 invocations of its process.

Examples:
  hawsepipe invocations
  hawsepipe invocations -o wide --limit 20
  hawsepipe invocations get 0198b1f0-...
  hawsepipe invocations cancel 0198b1f0-...",
    args_conflicts_with_subcommands = true
)]
pub struct InvocationsArgs {
    #[command(subcommand)]
    pub command: Option<InvocationsCommand>,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Print at most this many invocations, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub output: ListFormat,
}

#[derive(Debug, clap::Subcommand)]
pub enum InvocationsCommand {
    /// Print an invocation with its result or error
    Get(InvocationArgs),
    /// Cancel an invocation, and print it
    Cancel(InvocationArgs),
}

#[derive(Debug, clap::Args)]
pub struct InvocationArgs {
    /// The id of the invocation, as `hawsepipe invocations -o wide` prints it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Output format: text prints the result by its type, json and yaml the whole invocation
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A block calls a tool if its info string is the name of a server:

  ```weather
  tool: forecast
  city: London
  ```

Exit code 1 if a block failed; the blocks after it still run.

Examples:
  hawsepipe run-doc runbook.md
  hawsepipe run-doc runbook.md --write
  hawsepipe run-doc runbook.md -o json | jq -r '.items[].status'")]
pub struct RunDocArgs {
    /// The Markdown document
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Put the results below the blocks, in place of those of an earlier run
    #[arg(long)]
    pub write: bool,
    /// Output format: text prints each result by its type, json and yaml all invocations
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A stopped gateway or session refuses new calls. Running ones end by themselves, unless --cancel is given. The gateway stays
stopped until `hawsepipe resume` or the end of its process, whatever its manifests say meanwhile.

Examples:
  hawsepipe stop
  hawsepipe stop --cancel
  hawsepipe stop 4f1c22aa               stop one session")]
pub struct StopArgs {
    /// The id of a session in /api/v1/sessions: 8 characters, `local` for invocations, or address/IP. Default: all calls of
    /// the gateway
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub session: Option<String>,
    /// Also cancel the calls that are running
    #[arg(long)]
    pub cancel: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 1 if spec.stopped of the MCPGateway still stops the gateway.

Examples:
  hawsepipe resume
  hawsepipe resume 4f1c22aa             resume one session")]
pub struct ResumeArgs {
    /// The id of a session, as for `hawsepipe stop`. Default: the gateway
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub session: Option<String>,
    #[command(flatten)]
    pub admin: AdminArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe cancel 0198b1f0-5d2e-7a3c-9f51-1c1fd1a0b2c3")]
pub struct CancelArgs {
    /// The id of an invocation, or of a call of any client: `activeExecutions` in /api/v1/sessions
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    #[command(flatten)]
    pub admin: AdminArgs,
}
