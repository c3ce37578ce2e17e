//! The command line, with its help.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::source::cluster::ServiceAccountName;

/// An MCP gateway that runs your own JavaScript on every tool call.
#[derive(Debug, Parser)]
#[command(name = "hawsepipe", version, about, propagate_version = true, after_help = EXAMPLES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  hawsepipe run -f manifests/quickstart        start a gateway from a folder of manifests
  hawsepipe validate manifests/quickstart      say what is wrong with a folder, without starting anything
  hawsepipe tools                              list what a running gateway offers
  hawsepipe call everything__echo '{\"message\": \"hi\"}' --trace
  hawsepipe plugin run shout.mjs --text hello  run a plugin once and show what it changes
  source <(hawsepipe completion bash)";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a gateway from manifests on disk; edits take effect at once
    Run(Run),
    /// Run the operator: watch custom resources, compile them for gateways, tell the truth in status
    Operator(super::operator::Operator),
    /// Run a gateway of a cluster, from what its operator compiled
    Gateway(Gateway),
    /// Check manifests and plugins, and say what is wrong, where, and what to do
    Validate(Validate),
    /// Print what the operator compiled for a gateway, or what changed between two revisions
    Snapshot(super::snapshot::Snapshot),
    /// Keep a gateway at a revision, or let it follow edits again
    Rollback(super::rollback::Rollback),
    /// Print the Role and RoleBinding that let a gateway of another namespace read Secrets
    Grant(super::grant::Grant),
    /// Print the CustomResourceDefinitions
    Crds(Crds),
    /// Write the reference pages of docs/reference anew
    #[command(hide = true)]
    Docs(Docs),
    /// List the tools of a running gateway
    Tools(Tools),
    /// Call a tool through a running gateway
    Call(Call),
    /// Show recent plugin executions of a running gateway
    Executions(Executions),
    /// Show the worker processes of a running gateway
    Workers(Workers),
    /// Show which chains and entries would run on a tool, and why the others not
    Explain(Explain),
    /// Try a plugin out: run it once, measure it, print the types it is written with
    Plugin(super::plugin::Plugin),
    /// Print a completion script for a shell
    Completion(Completion),
}

/// `hawsepipe run`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe run -f manifests/quickstart
  hawsepipe run -f gateway.yaml -f team-a/ --listen 127.0.0.1:9000

HAWSEPIPE_LOG sets the log level, or directives such as info,hawsepipe::node=debug.")]
pub struct Run {
    #[command(flatten)]
    pub source: Source,
    /// Address for MCP clients. Default: 127.0.0.1 and the ports of the gateway's listeners, else 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Address of the admin API and metrics; loopback only
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub admin: SocketAddr,
    /// Serve anonymous clients on an address that is not loopback, although no manifest says so
    #[arg(long)]
    pub insecure_anonymous: bool,
    /// A folder that outlives the process. Default: one for these manifests, below $XDG_STATE_HOME/hawsepipe, else below
    /// ~/.local/state/hawsepipe
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
}

/// `hawsepipe gateway`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the GatewaySnapshots that an operator writes for the MCPGateway, with the rights of KUBECONFIG, else of the pod's
service account. Nothing is served before the first one: /readyz of the admin port says so.

Examples:
  hawsepipe gateway --name main --namespace mcp
  hawsepipe gateway --name main --namespace mcp --secrets-dir /run/secrets/mcp --state-dir /var/lib/hawsepipe \\
      --operator hawsepipe-system/hawsepipe-operator
  KUBECONFIG=~/.kube/config hawsepipe gateway --name main --namespace mcp --listen 127.0.0.1:8080

HAWSEPIPE_LOG sets the log level, or directives such as info,hawsepipe::node=debug.")]
pub struct Gateway {
    /// The MCPGateway to run
    #[arg(long, value_name = "NAME", env = "HAWSEPIPE_GATEWAY_NAME")]
    pub name: String,
    /// Its namespace
    #[arg(long, value_name = "NS", env = "HAWSEPIPE_GATEWAY_NAMESPACE")]
    pub namespace: String,
    /// Address for MCP clients. Default: 0.0.0.0 and the ports of the gateway's listeners, else 0.0.0.0:8080
    #[arg(long, value_name = "ADDR", env = "HAWSEPIPE_GATEWAY_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Address of the admin API and metrics. From other machines only --operator is let in, but for /healthz and /readyz
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:9090", env = "HAWSEPIPE_GATEWAY_ADMIN")]
    pub admin: SocketAddr,
    /// The folder where Secrets of the gateway's namespace are mounted: files NAME/KEY
    #[arg(long, value_name = "DIR", env = "HAWSEPIPE_GATEWAY_SECRETS_DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// A folder that outlives the process: the last good plan is kept there, for a start without the API server
    #[arg(long, value_name = "DIR", env = "HAWSEPIPE_GATEWAY_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// The Node.js program for plugins. Default: what the MCPGateway says, else `node`
    #[arg(long, value_name = "PATH", env = "HAWSEPIPE_GATEWAY_NODE")]
    pub node: Option<PathBuf>,
    /// The operator's service account: with its tokens for this gateway it reads the report on the admin port
    #[arg(long, value_name = "NAMESPACE/SERVICEACCOUNT", env = "HAWSEPIPE_GATEWAY_OPERATOR")]
    pub operator: Option<ServiceAccountName>,
}

/// Where manifests come from.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// A manifest or a folder of them (*.yaml, *.yml, *.json); may be repeated
    #[arg(short, long = "file", value_name = "PATH", required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub options: Options,
}

/// How manifests are read.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which MCPGateway to run, where there are several: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    pub gateway: Option<String>,
    /// A folder of secret values: files NAME/KEY or NAMESPACE/NAME/KEY
    #[arg(long, value_name = "DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// The Node.js program for plugins. Default: what the gateway's manifest says, else `node`
    #[arg(long, value_name = "PATH")]
    pub node: Option<PathBuf>,
}

/// `hawsepipe validate`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 1 when there is an error, 0 when there are only warnings.

Examples:
  hawsepipe validate manifests/quickstart
  hawsepipe validate gateway.yaml chains/ -o json")]
pub struct Validate {
    /// Manifests, or folders of them
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub options: Options,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// `hawsepipe crds`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe crds | kubectl apply --server-side -f -
  hawsepipe crds --write crds")]
pub struct Crds {
    /// Write them into this folder, a file for each kind, instead of printing them
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
}

/// `hawsepipe docs`
#[derive(Debug, clap::Args)]
pub struct Docs {
    /// The folder to write into
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Where a running gateway's admin API is.
#[derive(Debug, clap::Args)]
pub struct Admin {
    /// Address of the admin API
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", env = "HAWSEPIPE_ADMIN")]
    pub admin: SocketAddr,
}

/// `hawsepipe tools`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe tools
  hawsepipe tools -o wide
  hawsepipe tools -o json | jq -r '.items[].name'")]
pub struct Tools {
    #[command(flatten)]
    pub admin: Admin,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// `hawsepipe call`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 1 when the tool says that it failed, 2 when the call itself was refused.

Examples:
  hawsepipe call everything__echo '{\"message\": \"hi\"}'
  hawsepipe call files__read_text_file '{\"path\": \"notes.md\"}' --trace
  jq -n '{message: \"hi\"}' | hawsepipe call everything__echo -")]
pub struct Call {
    /// The tool's name, as `hawsepipe tools` prints it
    pub tool: String,
    /// Its arguments, a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// The MCP endpoint
    #[arg(long, default_value = "http://127.0.0.1:8080/mcp", env = "HAWSEPIPE_URL")]
    pub url: String,
    /// Show what each entry of each chain did
    #[arg(long)]
    pub trace: bool,
    /// What the user asked, for plugins
    #[arg(long, value_name = "TEXT")]
    pub user_query: Option<String>,
    /// A limit for plugins that cut
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u32>,
    /// Text prints the text blocks, json and yaml the whole result
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

/// `hawsepipe executions`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe executions --limit 20
  hawsepipe executions --plugin redact -o wide")]
pub struct Executions {
    #[command(flatten)]
    pub admin: Admin,
    /// Only of this plugin: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    pub plugin: Option<String>,
    /// At most so many, the newest first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u32,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// `hawsepipe workers`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A worker is Spawned while it loads its plugin, then Available or Executing; Unhealthy is one that is being replaced.

Examples:
  hawsepipe workers
  hawsepipe workers --plugin redact -o wide
  hawsepipe workers -o json | jq '[.items[].memoryBytes] | add'")]
pub struct Workers {
    #[command(flatten)]
    pub admin: Admin,
    /// Only of this plugin: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME")]
    pub plugin: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// `hawsepipe explain`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe explain files__read_text_file                 of a running gateway
  hawsepipe explain files/read_text_file -f manifests/    of manifests, nothing running")]
pub struct Explain {
    /// The tool's name as clients see it, or UPSTREAM/TOOL with the server's own name
    pub tool: String,
    #[command(flatten)]
    pub admin: Admin,
    /// Manifests to ask instead of a running gateway; the tool is then UPSTREAM/TOOL or UPSTREAM__TOOL
    #[arg(short, long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub options: Options,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// `hawsepipe completion`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(hawsepipe completion bash)
  hawsepipe completion zsh > ~/.zfunc/_hawsepipe
  hawsepipe completion fish > ~/.config/fish/completions/hawsepipe.fish")]
pub struct Completion {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// How lists are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Columns
    Table,
    /// More columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// The text blocks
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}
