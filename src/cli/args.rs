//! The command line and its help texts.

mod asks;
mod auth;
mod credential;
mod invocations;
mod pipelines;
mod records;
mod source;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use self::asks::{
    AdminArgs, CallArgs, ExplainArgs, PinArgs, PluginStoreArgs, PluginsArgs, PluginsCommand, ShowArgs, ToolsArgs,
    ToolsCommand, WaitArgs, WorkersArgs,
};
pub use self::auth::{AuthArgs, AuthCheckArgs, AuthCommand};
pub use self::invocations::{CancelArgs, InvocationsArgs, InvocationsCommand, ResumeArgs, RunDocArgs, StopArgs};
pub use self::pipelines::{
    PipelineArgs, PipelinesArgs, PipelinesCommand, RunAnswerArgs, RunArgs as OneRunArgs, RunShowArgs, RunsArgs,
    RunsCommand, RunsListArgs,
};
pub use self::records::{CallsArgs, ExecutionsArgs, RecordArgs};
pub use self::source::{OptionArgs, SourceArgs};
use super::address::Address;
use super::audit::AuditArgs;
use super::formats::ListFormat;
use super::names::{gateway, label};
use super::registry::RegistryArgs;
use super::store::StoreArgs;
use super::store_arg::StoreArg;
use crate::source::cluster::ServiceAccountName;

/// An MCP gateway that runs your own JavaScript on every tool call.
#[derive(Debug, Parser)]
#[command(name = "hawsepipe", version, about, propagate_version = true, after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The default of `--drain-seconds`.
const DRAIN_SECONDS: u64 = 55;

const EXAMPLES: &str = "\
Examples:
  hawsepipe run -f manifests/quickstart        start a gateway from a folder of manifests
  hawsepipe validate manifests/quickstart      say what is wrong with a folder, without starting anything
  hawsepipe status                             show what a running gateway runs
  hawsepipe tools                              list what it offers
  hawsepipe calls --follow                     show each call as it ends, and what ran on it
  hawsepipe call everything__echo '{\"message\": \"hi\"}' --trace
  hawsepipe plugin run shout.mjs --text hello  run a plugin once and show what it changes
  source <(hawsepipe completion bash)";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a gateway from manifests on disk; edits take effect a moment after they are saved
    Run(RunArgs),
    /// Run the operator: watch custom resources, compile them for gateways, and report in their status
    Operator(super::operator::OperatorArgs),
    /// Run a gateway in a cluster, from the snapshots that the operator compiled
    Gateway(GatewayArgs),
    /// Serve an MCP server that speaks over stdio over HTTP, inside the server's own container
    Bridge(crate::bridge::BridgeArgs),
    /// Check manifests and plugins, and print what is wrong, where, and what to do
    Validate(ValidateArgs),
    /// Print manifests for the configuration of an MCP client, or of plugins of contract 1.0
    Convert(super::convert::ConvertArgs),
    /// Print the plan that the operator compiled for a gateway, or what changed between two revisions
    Snapshot(super::snapshot::SnapshotArgs),
    /// Pin a gateway to a revision, or let it follow edits again
    Rollback(super::rollback::RollbackArgs),
    /// Print the Role and RoleBinding that let a gateway of another namespace read Secrets
    Grant(super::grant::GrantArgs),
    /// Print the CustomResourceDefinitions
    Crds(CrdsArgs),
    /// Generate the pages in docs/reference
    #[command(hide = true)]
    Docs(DocsArgs),
    /// Show what a running gateway runs: upstreams, plugins, chains, and what is wrong with them
    #[command(after_help = "\
The revision is the digest of all that the gateway runs by: it changes with each edit that is in force.

Examples:
  hawsepipe status
  hawsepipe status -o wide
  hawsepipe status -o json | jq -r '.upstreams[] | select(.error) | .name'")]
    Status(ShowArgs),
    /// Wait until all earlier edits have taken effect in a running gateway
    Wait(WaitArgs),
    /// List the tools of a running gateway
    Tools(ToolsArgs),
    /// Call a tool through a running gateway
    Call(CallArgs),
    /// Show recent calls of a running gateway, or follow calls as they end
    Calls(CallsArgs),
    /// Run the code blocks of a Markdown document that call tools, one after another
    RunDoc(RunDocArgs),
    /// Show recent invocations of tools of a running gateway, or cancel one
    Invocations(InvocationsArgs),
    /// Show the pipelines of a running gateway
    Pipelines(PipelinesArgs),
    /// Show runs of pipelines, cancel one, or answer its question
    Runs(RunsArgs),
    /// Refuse all new calls of a running gateway, or of one session
    Stop(StopArgs),
    /// Let a gateway or a session make calls again
    Resume(ResumeArgs),
    /// Cancel an invocation or a call
    Cancel(CancelArgs),
    /// Show recent plugin executions of a running gateway, or follow executions as they end
    Executions(ExecutionsArgs),
    /// List the plugins of a running gateway
    #[command(after_help = "\
Examples:
  hawsepipe plugins
  hawsepipe plugins -o wide
  hawsepipe plugins --type kb-plugin
  hawsepipe plugins store kb-notes
  hawsepipe plugins -o json | jq -r '.items[] | select(.wrapper) | .plugin'")]
    Plugins(PluginsArgs),
    /// Show the worker processes of a running gateway
    Workers(WorkersArgs),
    /// Migrate the tables of a history store
    Store(StoreArgs),
    /// Verify or print the audit trail of a store
    Audit(AuditArgs),
    /// Keep plugins and chains in a database
    Registry(RegistryArgs),
    /// Show which chains and entries would run on a tool, and why the others would not
    Explain(ExplainArgs),
    /// Check whether a gateway would accept a credential, and what the client may do
    Auth(AuthArgs),
    /// Write a plugin and try it out: run it once, test it, measure it, or print the TypeScript types for plugin authors
    Plugin(super::plugin::PluginArgs),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe run -f manifests/quickstart
  hawsepipe run -f gateway.yaml -f team-a/ --listen 127.0.0.1:9000

HAWSEPIPE_LOG sets the log level, or directives such as info,hawsepipe::node=debug.")]
pub struct RunArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// Address for MCP clients: HOST:PORT, or :PORT or PORT on 127.0.0.1. Default: the ports of the gateway's
    /// listeners, or 8080 if the gateway declares none
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<Address>,
    /// Address of the admin API and metrics: HOST:PORT, :PORT or PORT; must be a loopback address
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub admin: Address,
    /// Another address, which can be other than loopback, that serves GET /metrics alone, without authentication: HOST:PORT,
    /// or :PORT or PORT on 127.0.0.1. Default: metrics are served on the admin address only
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<Address>,
    /// Serve anonymous clients on an address that is not loopback, even if no manifest allows anonymous clients
    #[arg(long)]
    pub insecure_anonymous: bool,
    /// Folder for state that must survive a restart. Default: a subfolder of $XDG_STATE_HOME/hawsepipe or
    /// ~/.local/state/hawsepipe, one for each set of manifests
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Database that keeps the history of calls and executions over restarts: PATH or sqlite:PATH of a SQLite file, or
    /// postgres://USER:PASSWORD@HOST/DATABASE. Default: `history.store` of the gateway, or memory only
    #[arg(long, value_name = "STORE", env = "HAWSEPIPE_STORE", hide_env_values = true)]
    pub store: Option<StoreArg>,
    /// Database with Plugin and PluginChain objects, besides those in the manifests: PATH or sqlite:PATH of a SQLite file, or
    /// postgres://USER:PASSWORD@HOST/DATABASE. See `hawsepipe registry`
    #[arg(long, value_name = "REGISTRY", env = "HAWSEPIPE_REGISTRY", hide_env_values = true)]
    pub registry: Option<StoreArg>,
    /// Seconds that calls in flight have to finish after SIGTERM or Ctrl-C. After SIGTERM, new connections are still
    /// accepted for the first 5 of these seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DRAIN_SECONDS, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub drain_seconds: u64,
    /// A file with the keys that seal session ids: base64 of 32 bytes, one key per line. Replicas that share the file
    /// can continue each other's sessions. The first key seals new ids; ids that any of the keys sealed are accepted.
    /// The file is read again when it changes
    #[arg(long, value_name = "FILE")]
    pub seal_key_file: Option<PathBuf>,
    /// The IP address at which other replicas of this gateway reach it. Replicas with one seal key forward to each other what
    /// is about a call at another one, such as the answer to a question. Default: the address that the listener is bound to, if
    /// that is one address
    #[arg(long, value_name = "IP")]
    pub advertise: Option<IpAddr>,
}

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
pub struct GatewayArgs {
    /// The MCPGateway to run
    #[arg(long, value_name = "NAME", value_parser = gateway, env = "HAWSEPIPE_GATEWAY_NAME")]
    pub name: String,
    /// The namespace of the MCPGateway
    #[arg(long, value_name = "NS", value_parser = label, env = "HAWSEPIPE_GATEWAY_NAMESPACE")]
    pub namespace: String,
    /// Address for MCP clients: HOST:PORT, or :PORT or PORT on all addresses. Default: the ports of the gateway's listeners,
    /// or 8080 if the gateway declares none
    #[arg(long, value_name = "ADDR", env = "HAWSEPIPE_GATEWAY_LISTEN")]
    pub listen: Option<Address>,
    /// Address of the admin API and metrics. Other machines can reach /healthz, /readyz and /metrics; the operator (see
    /// --operator) can also read the report
    #[arg(long, value_name = "ADDR", default_value = "[::]:9090", env = "HAWSEPIPE_GATEWAY_ADMIN")]
    pub admin: Address,
    /// The folder where the Secrets of the gateway's namespace are mounted, as files NAME/KEY
    #[arg(long, value_name = "DIR", env = "HAWSEPIPE_GATEWAY_SECRETS_DIR")]
    pub secrets_dir: Option<PathBuf>,
    /// The folder where the Secrets with API keys of clients are mounted, as files NAME/SUBJECT
    #[arg(long, value_name = "DIR", env = "HAWSEPIPE_GATEWAY_API_KEYS_DIR")]
    pub api_keys_dir: Option<PathBuf>,
    /// A folder that survives a restart. The gateway stores the last good plan there, so that it can start even if the
    /// API server cannot be reached
    #[arg(long, value_name = "DIR", env = "HAWSEPIPE_GATEWAY_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// The Node.js program for plugins. Default: the one that the MCPGateway names, or else `node`
    #[arg(long, value_name = "PATH", env = "HAWSEPIPE_GATEWAY_NODE")]
    pub node: Option<PathBuf>,
    /// The operator's service account. Requests with a token of this account, issued for this gateway, can read the
    /// report on the admin port
    #[arg(long, value_name = "NAMESPACE/SERVICEACCOUNT", env = "HAWSEPIPE_GATEWAY_OPERATOR")]
    pub operator: Option<ServiceAccountName>,
    /// Seconds that calls in flight have to finish after SIGTERM or Ctrl-C. After SIGTERM, new connections are still
    /// accepted for the first 5 of these seconds. The pod's terminationGracePeriodSeconds should be 5 seconds longer
    #[arg(long, value_name = "SECONDS", default_value_t = DRAIN_SECONDS, value_parser = clap::value_parser!(u64).range(0..=86_400), env = "HAWSEPIPE_GATEWAY_DRAIN_SECONDS")]
    pub drain_seconds: u64,
    /// A file with the keys that seal session ids: base64 of 32 bytes, one key per line. Pods that share the file can
    /// continue each other's sessions. The first key seals new ids; ids that any of the keys sealed are accepted. The
    /// file is read again when it changes. Default: NAME-gateway-seal/key in --secrets-dir, if that file exists
    #[arg(long, value_name = "FILE", env = "HAWSEPIPE_GATEWAY_SEAL_KEY_FILE")]
    pub seal_key_file: Option<PathBuf>,
    /// The IP address at which other replicas of this gateway reach it. Replicas with one seal key forward to each other what
    /// is about a call at another one, such as the answer to a question. Default: the address that the listener is bound to, if
    /// that is one address
    #[arg(long, value_name = "IP", env = "HAWSEPIPE_GATEWAY_ADVERTISE")]
    pub advertise: Option<IpAddr>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 1 when there is an error, 0 when there are only warnings.

Examples:
  hawsepipe validate manifests/quickstart
  hawsepipe validate gateway.yaml chains/ -o json")]
pub struct ValidateArgs {
    /// Manifests, or folders of manifests
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub options: OptionArgs,
    /// Do not load the plugins. Their code is then only parsed, and none of it runs
    #[arg(long)]
    pub no_load: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub output: ListFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hawsepipe crds | kubectl apply --server-side -f -
  hawsepipe crds --write crds")]
pub struct CrdsArgs {
    /// Write the definitions into this folder, one file for each kind, instead of printing them
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// Write the definitions as templates of a Helm chart. Helm keeps the definitions when the chart is uninstalled
    #[arg(long, requires = "write")]
    pub helm: bool,
}

#[derive(Debug, clap::Args)]
pub struct DocsArgs {
    /// The folder to write into
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Also write the files with the operator's roles into this checkout
    #[arg(long, value_name = "DIR")]
    pub roles: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Names of tools, plugins and upstreams are those of the running gateway: of the one at HAWSEPIPE_ADMIN where that is set.

Examples:
  source <(hawsepipe completion bash)
  hawsepipe completion zsh > ~/.zfunc/_hawsepipe
  hawsepipe completion fish > ~/.config/fish/completions/hawsepipe.fish")]
pub struct CompletionArgs {
    /// The shell to print a script for
    pub shell: clap_complete::Shell,
}
