//! The command lines of `hawsepipe plugin`, with their help.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::cli::formats::ResultFormat;

/// The arguments of `hawsepipe plugin`.
#[derive(Debug, Args)]
pub struct PluginArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: PluginCommand,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Run a plugin once, as a gateway would, and show what it did
    Run(PluginRunArgs),
    /// Measure a plugin in warm workers, beside a cold start and the floor
    Bench(BenchArgs),
    /// Print the TypeScript types of what a plugin gets and answers
    Types,
}

/// The arguments of `hawsepipe plugin run`.
#[derive(Debug, Args)]
#[command(after_help = "\
The plugin runs in the workers of a gateway that has one tool, whose answer (or arguments) you give.
Exit code 1 when it failed.

Examples:
  hawsepipe plugin run shout.mjs --text hello
  hawsepipe plugin run redact/index.mjs --text - --config '{\"kinds\": [\"email\"]}' < page.txt
  hawsepipe plugin run guard.mjs --phase request --tool files/read_file --text '{\"path\": \"/etc/passwd\"}'
  hawsepipe plugin run curate.mjs --input input.json --env ANTHROPIC_API_KEY --egress api.anthropic.com:443
  hawsepipe plugin run manifests/ --plugin redact --text hello --watch")]
pub struct PluginRunArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    #[command(flatten)]
    pub case: CaseArgs,
    /// Run again whenever the plugin changes, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

/// The arguments of `hawsepipe plugin bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Times are milliseconds. A call is one execution as a gateway has it, from asking for a worker to its answer. The floor
is an echo of the same bytes by a thread, over the kind of socket that workers have.

Examples:
  hawsepipe plugin bench shout.mjs
  hawsepipe plugin bench redact/index.mjs --input page.json --duration 10 --concurrency 4 -o json")]
pub struct BenchArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    #[command(flatten)]
    pub case: CaseArgs,
    /// Seconds for each size
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub duration: u64,
    /// At most so many calls for each size
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub count: u64,
    /// Calls at once, each in a worker of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub concurrency: u32,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

/// Which plugin, and what it is given besides a call.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// A plugin's code (*.js, *.mjs, *.cjs), or a manifest or folder of manifests that holds a Plugin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Which Plugin of the manifests, where there are several: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub plugin: Option<String>,
    /// How code is spoken with. Default: by its exports
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    pub protocol: Option<Protocol>,
    /// A variable for code, all of whose environment must be named; NAME alone takes it from this shell
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// A host that code may reach. Default: none
    #[arg(long, value_name = "HOST:PORT")]
    pub egress: Vec<String>,
    /// Whether code runs where its sandbox cannot be enforced as a whole. Default: the gateway's
    #[arg(long, value_enum, value_name = "MODE")]
    pub sandbox: Option<Sandbox>,
    /// Its configuration, a JSON object; of a Plugin, keys that replace its own
    #[arg(long, value_name = "JSON")]
    pub config: Option<String>,
    /// Milliseconds for an execution. Default: the Plugin's, else the gateway's
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub timeout_ms: Option<u32>,
    /// A folder of secret values for manifests: files NAME/KEY or NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// The Node.js program. Default: what the manifests say, else `node`
    #[arg(long, value_name = "PATH")]
    pub node: Option<PathBuf>,
}

/// What the plugin runs on.
#[derive(Clone, Debug, Args)]
pub struct CaseArgs {
    /// The content; `-` reads standard input. In the request phase the JSON text of the arguments
    #[arg(long, value_name = "TEXT", conflicts_with = "input", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// A whole input of contract 1.0: a file, JSON text, or `-` for standard input. Only rawContent is needed
    #[arg(long, value_name = "FILE|JSON|-", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// The tool, as plugins see it. Default: test/tool
    #[arg(long, value_name = "SERVER/TOOL", value_parser = tool_name)]
    pub tool: Option<String>,
    /// When in the call. Default: response, where the plugin serves it
    #[arg(long, value_enum, value_name = "PHASE")]
    pub phase: Option<Phase>,
    /// What the content of a response is: the text of its only block, or the JSON of the whole result. Default: text
    #[arg(long, value_enum, value_name = "TYPE")]
    pub content_type: Option<ContentType>,
    /// A limit for plugins that cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// What the user asked
    #[arg(long, value_name = "TEXT")]
    pub user_query: Option<String>,
}

fn tool_name(written: &str) -> Result<String, String> {
    let parts: Vec<_> = written.split('/').collect();
    if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
        return Err("write TOOL or SERVER/TOOL, no part of it empty".to_owned());
    }
    Ok(written.to_owned())
}

/// How code is spoken with.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Protocol {
    /// Contract 1.0
    Once,
    /// Message after message
    Lines,
    /// Exported functions
    Module,
}

/// How much the sandbox matters.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Sandbox {
    /// It runs sandboxed or not at all
    Required,
    /// As far as the kernel can
    BestEffort,
}

/// When in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Before the call is sent
    Request,
    /// On what came back
    Response,
}

/// What content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContentType {
    /// Free text
    Text,
    /// The text of a JSON value
    Json,
}
