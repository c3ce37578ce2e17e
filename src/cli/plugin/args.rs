//! The command lines of `hawsepipe plugin` and their help texts.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

use crate::cli::formats::ResultFormat;
use crate::cli::names::plugin;

#[derive(Debug, Args)]
pub struct PluginArgs {
    #[command(subcommand)]
    pub command: PluginCommand,
}

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Run a plugin once, as a gateway would, and show what it did
    Run(PluginRunArgs),
    /// Measure a plugin in warm workers, and compare it with a cold start and with a plain echo (the floor)
    Bench(BenchArgs),
    /// Write a small plugin that works, with its manifest and a test
    New(NewArgs),
    /// Run the tests beside plugins
    Test(TestArgs),
    /// Print the manifests of the plugins in a folder
    Import(ImportArgs),
    /// Print the TypeScript types of a plugin's input and output
    Types,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The plugin runs in the workers of a gateway that has one tool, whose answer (or arguments) you give.
Exit code 1 when it failed.

Examples:
  hawsepipe plugin run shout.mjs --text hello
  hawsepipe plugin run shout.ts --text hello               (needs Node.js 22.18 or newer)
  hawsepipe plugin run redact/index.mjs --text - --config '{\"kinds\": [\"email\"]}' < page.txt
  hawsepipe plugin run guard.mjs --phase request --tool files/read_file --text '{\"path\": \"/etc/passwd\"}'
  hawsepipe plugin run curate.mjs --input input.json --env ANTHROPIC_API_KEY --egress api.anthropic.com:443
  hawsepipe plugin run no_secrets.py --protocol lines --text hello
  hawsepipe plugin run manifests/ --plugin redact --text hello --watch
  hawsepipe plugin run note-sum.mjs --method execute --input '{\"arguments\": {\"a\": 2}}' --mock tools.json
  hawsepipe plugin run kit.mjs --method execute --input '[\"sum\", {\"a\": 1, \"b\": 2}]'
  hawsepipe plugin run kb-notes/index.mjs --method retrieve --input '{\"prompt\": \"Who is on call?\"}'")]
pub struct PluginRunArgs {
    #[command(flatten)]
    pub subject: SubjectArgs,
    #[command(flatten)]
    pub case: CaseArgs,
    /// Run this function of a plugin whose type is not middleware. --input is then the state of a step, of which
    /// `arguments` is enough, the input of a stage, of which `prompt` is enough, or a JSON array of the function's arguments
    /// without ctx
    #[arg(long, value_name = "FUNCTION", value_parser = NonEmptyStringValueParser::new())]
    #[arg(conflicts_with_all = ["text", "phase", "tool", "content_type", "max_tokens", "user_query"])]
    pub method: Option<String>,
    /// With --method: the results of tools, a JSON object by their names, as a file, as JSON text or from `-`. Of a list,
    /// each call gets the next one. `llm` and `ask` have the answers to ctx.llm and ctx.ask
    #[arg(long, value_name = "FILE|JSON|-", requires = "method")]
    pub mock: Option<String>,
    /// Run again whenever the plugin changes, until interrupted
    #[arg(long)]
    pub watch: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Of each folder with a plugin.json below DIR, of the modules in config/plugins.json, and of
wrappers/*/manifest.json, a Plugin is printed, and a ConfigMap with its code. Code of several files needs
--image, an image with the files of DIR. What cannot be imported is reported on standard error, and the
exit code is 1. The same folder gives the same output.

Examples:
  hawsepipe plugin import plugins/ | kubectl apply -n mcp -f -
  hawsepipe plugin import plugins/ --image registry.example.com/plugins@sha256:0123... > plugins.yaml")]
pub struct ImportArgs {
    /// The folder of plugins
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The catalogue. Default: config/plugins.json in DIR or beside it, if there is one
    #[arg(long, value_name = "FILE")]
    pub catalogue: Option<PathBuf>,
    /// Import the plugins of packages in node_modules beside DIR too
    #[arg(long)]
    pub packages: bool,
    /// The namespace of the objects. Default: none is written
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The image that has the files of DIR at its root, for plugins of several files and for programs
    #[arg(long, value_name = "REFERENCE")]
    pub image: Option<String>,
}

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
    /// Seconds to measure each content size
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub duration: u64,
    /// Maximum number of calls for each content size
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub count: u64,
    /// Number of calls that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub concurrency: u32,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Writes DIR/NAME.yaml, DIR/plugins/NAME.mjs, its test DIR/plugins/NAME.test.mjs and, for editors,
DIR/plugins/hawsepipe-plugin.d.ts. No file is overwritten. The manifest of a guard, a transform or
an observer has a PluginChain, and an MCPUpstream if the folder has none.

Examples:
  hawsepipe plugin new no-secrets --type guard
  hawsepipe plugin new --type transform --dir gateway/
  hawsepipe plugin new no-secrets --type guard --wrapper python
  hawsepipe plugin new word-count --type tool-provider --dir gateway/")]
pub struct NewArgs {
    /// Name of the Plugin. Default: its type
    #[arg(value_parser = plugin)]
    pub name: Option<String>,
    /// Type of the plugin
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub kind: NewKind,
    /// Write the code in this language. For a guard or a transform
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    pub wrapper: Option<NewWrapper>,
    /// The folder of manifests to write into. The code goes into the plugin folder of their gateway
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

/// The languages of wrappers that can be written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NewWrapper {
    /// Python, with protocol Lines
    Python,
}

/// The plugins that can be written. The first three run on calls, the others are types that pipelines use.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NewKind {
    /// Rejects requests, and all of them if it cannot run
    Guard,
    /// Changes answers
    Transform,
    /// Sees answers and changes nothing
    Observer,
    /// A step of a pipeline
    Phase,
    /// Makes the tools of an MCPUpstream
    ToolProvider,
    /// Changes the prompts of agents
    PromptProvider,
    /// Changes a pipeline for single runs
    PipelineCustomizer,
    /// Defines the form of the output of a pipeline
    OutputType,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Runs `node --test` on all files NAME.test.mjs (or .js, .cjs, .ts, .mts) in DIR and below it, except
in hidden folders and node_modules. Tests run with your rights and without a sandbox. A test can
use `hawsepipe plugin run`: HAWSEPIPE_PROGRAM is the path of this program. Exit code 1 if a test
fails, or if there is none.

Examples:
  hawsepipe plugin test
  hawsepipe plugin test gateway/
  hawsepipe plugin test gateway/plugins/no-secrets.test.mjs")]
pub struct TestArgs {
    /// A folder of manifests or of plugins, or a single test
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The Node.js program. Default: the one that the manifests of the folder name, or else `node`
    #[arg(long, value_name = "PATH")]
    pub node: Option<PathBuf>,
}

/// The plugin, and settings that the command line adds to it.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// A file of plugin code (*.js, *.mjs, *.cjs, *.ts, *.mts, *.py, or a program), or a manifest or a folder of manifests that
    /// declares a Plugin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The Plugin to use, if the manifests declare several: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub plugin: Option<String>,
    /// The protocol of a file of code. Default: chosen by what the code exports
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    pub protocol: Option<Protocol>,
    /// An environment variable for a file of code; can be repeated. The code gets no other variables. NAME alone copies
    /// the value from this shell
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// An address that a file of code can connect to; can be repeated. Default: none
    #[arg(long, value_name = "HOST:PORT")]
    pub egress: Vec<String>,
    /// Whether a file of code runs if the sandbox cannot be fully enforced. Default: required on Linux, otherwise
    /// best-effort
    #[arg(long, value_enum, value_name = "MODE")]
    pub sandbox: Option<Sandbox>,
    /// The configuration, a JSON object. Its keys replace top-level keys of the Plugin's own configuration
    #[arg(long, value_name = "JSON")]
    pub config: Option<String>,
    /// The timeout of an execution in milliseconds. Default: the timeout of the Plugin, or else of the gateway
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=600_000))]
    pub timeout_ms: Option<u32>,
    /// A folder with the values of Secrets, as files NAME/KEY or NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// The Node.js program. Default: the one that the manifests name, or else `node`
    #[arg(long, value_name = "PATH")]
    pub node: Option<PathBuf>,
}

/// The content and the call that the plugin runs on.
#[derive(Clone, Debug, Args)]
pub struct CaseArgs {
    /// The content; `-` reads it from standard input. In the request phase, the content is the JSON text of the tool's
    /// arguments
    #[arg(long, value_name = "TEXT", conflicts_with = "input", allow_hyphen_values = true)]
    pub text: Option<String>,
    /// A whole input of contract 1.0: a file, JSON text, or `-` for standard input. Only rawContent is required
    #[arg(long, value_name = "FILE|JSON|-", allow_hyphen_values = true)]
    pub input: Option<String>,
    /// The tool that is called, as the plugin sees it. Default: the one of --input, or else test/tool
    #[arg(long, value_name = "SERVER/TOOL", value_parser = tool_name)]
    pub tool: Option<String>,
    /// The phase to run in. Default: response if the plugin supports it, otherwise request
    #[arg(long, value_enum, value_name = "PHASE")]
    pub phase: Option<Phase>,
    /// The content of a response: the text of its only block, or the JSON of the whole result. Default: text
    #[arg(long, value_enum, value_name = "TYPE")]
    pub content_type: Option<ContentType>,
    /// Token limit, which is passed to plugins that shorten content
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// The user's question, which is passed to the plugin
    #[arg(long, value_name = "TEXT")]
    pub user_query: Option<String>,
}

fn tool_name(written: &str) -> Result<String, String> {
    match written.split('/').collect::<Vec<_>>()[..] {
        [server, tool] if !server.is_empty() && !tool.is_empty() => Ok(written.to_owned()),
        _ => Err("write SERVER/TOOL, such as files/read_file".to_owned()),
    }
}

/// The protocol between the gateway and plugin code.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Protocol {
    /// Contract 1.0: one process for each call
    Once,
    /// A script that reads one message at a time and writes an answer to each
    Lines,
    /// An ES module with exported functions
    Module,
}

/// Whether the sandbox must be fully enforced.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Sandbox {
    /// Code runs fully sandboxed or not at all
    Required,
    /// Code runs with as much of the sandbox as the kernel supports
    BestEffort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// Before the call is sent
    Request,
    /// After the upstream has answered
    Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ContentType {
    /// Free text
    Text,
    /// The text of a JSON value
    Json,
}
