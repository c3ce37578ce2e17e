//! The arguments of commands about pipelines and their runs.

use clap::builder::NonEmptyStringValueParser;
use clap_complete::engine::ArgValueCompleter;

use super::asks::ShowArgs;
use crate::cli::complete;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe pipelines list
  hawsepipe pipelines explain note-sum
  hawsepipe pipelines explain research '{\"depth\": \"light\"}'")]
pub struct PipelinesArgs {
    #[command(subcommand)]
    pub command: PipelinesCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum PipelinesCommand {
    /// List the pipelines of a running gateway
    #[command(after_help = "\
Examples:
  hawsepipe pipelines list
  hawsepipe pipelines list -o wide")]
    List(ShowArgs),
    /// Show the steps of a pipeline, its tools, its models and its limits
    #[command(after_help = "\
Examples:
  hawsepipe pipelines explain note-sum
  hawsepipe pipelines explain research '{\"prompt\": \"why\", \"depth\": \"light\"}'
  hawsepipe pipelines explain team/note-sum -o json | jq '.tools'")]
    Explain(PipelineArgs),
}

#[derive(Debug, clap::Args)]
pub struct PipelineArgs {
    /// The pipeline: NAME or NAMESPACE/NAME
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::pipelines))]
    pub name: String,
    /// Arguments of a call, a JSON object. The steps are then those of this call if each agent succeeds and no loop goes back
    #[arg(value_name = "JSON")]
    pub arguments: Option<String>,
    #[command(flatten)]
    pub show: ShowArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The gateway keeps the runs that are in progress, and others up to 500 of its process.

Examples:
  hawsepipe runs list
  hawsepipe runs show 0198b1f0-... --follow
  hawsepipe runs cancel 0198b1f0-...")]
pub struct RunsArgs {
    #[command(subcommand)]
    pub command: RunsCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum RunsCommand {
    /// List runs of pipelines, newest first
    #[command(after_help = "\
Examples:
  hawsepipe runs list
  hawsepipe runs list --pipeline note-sum --status failed -o wide")]
    List(RunsListArgs),
    /// Show a run with its steps
    #[command(after_help = "\
Exit code 1 if the run has failed or was cancelled.

Examples:
  hawsepipe runs show 0198b1f0-5d2e-7a3c-9f51-1c1fd1a0b2c3
  hawsepipe runs show 0198b1f0-5d2e-7a3c-9f51-1c1fd1a0b2c3 --follow")]
    Show(RunShowArgs),
    /// Cancel a run, and show it
    #[command(after_help = "\
Examples:
  hawsepipe runs cancel 0198b1f0-5d2e-7a3c-9f51-1c1fd1a0b2c3")]
    Cancel(RunArgs),
    /// Answer the question for which a run waits, in the place of the user of its client
    #[command(after_help = "\
`hawsepipe runs show ID` prints the question.

Examples:
  hawsepipe runs answer 0198b1f0-5d2e-7a3c-9f51-1c1fd1a0b2c3 '{\"name\": \"Ada\"}'
  hawsepipe runs answer 0198b1f0-5d2e-7a3c-9f51-1c1fd1a0b2c3 --decline")]
    Answer(RunAnswerArgs),
}

#[derive(Debug, clap::Args)]
pub struct RunsListArgs {
    /// Only runs of this pipeline: NAME or NAMESPACE/NAME
    #[arg(long, add = ArgValueCompleter::new(complete::pipelines))]
    pub pipeline: Option<String>,
    /// Only runs of this status
    #[arg(long, value_parser = ["working", "input_required", "completed", "failed", "cancelled"])]
    pub status: Option<String>,
    /// Only runs of this client
    #[arg(long, value_name = "SUBJECT")]
    pub principal: Option<String>,
    /// Print at most this many runs
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    #[command(flatten)]
    pub show: ShowArgs,
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The id of the run, as `hawsepipe runs list` prints it
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::runs))]
    pub id: String,
    #[command(flatten)]
    pub show: ShowArgs,
}

#[derive(Debug, clap::Args)]
pub struct RunShowArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Print each step as it ends, until the run has ended
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Debug, clap::Args)]
pub struct RunAnswerArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// The values that the question asks for, a JSON object
    #[arg(value_name = "JSON", required_unless_present_any = ["decline", "cancel"])]
    pub content: Option<String>,
    /// Refuse to answer
    #[arg(long, conflicts_with_all = ["content", "cancel"])]
    pub decline: bool,
    /// Dismiss the question
    #[arg(long, conflicts_with = "content")]
    pub cancel: bool,
}
