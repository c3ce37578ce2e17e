//! The arguments of commands that query a running gateway.

use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap_complete::engine::ArgValueCompleter;
use http::HeaderMap;

use super::credential::CredentialArgs;
use super::source::OptionArgs;
use crate::cli::address::{ADMIN_PORT, Address};
use crate::cli::complete;
use crate::cli::formats::{DataFormat, ListFormat, ModelFormat, ResultFormat};
use crate::domain::method::Method;
use crate::domain::plugin::PluginKind;

/// Reads a method that chains can cover. The shell completes it.
fn chained_method() -> impl TypedValueParser<Value = Method> {
    let known = PossibleValuesParser::new(Method::CHAINED.map(Method::as_str));
    known.try_map(|text| Method::parse(&text).ok_or("chains cover no such method"))
}

/// How to reach the admin API of a running gateway.
#[derive(Clone, Debug, clap::Args)]
pub struct AdminArgs {
    /// Address of the admin API: HOST:PORT, :PORT, PORT or a URL
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", env = "HAWSEPIPE_ADMIN")]
    pub admin: Address,
    /// Seconds to wait for the answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    #[command(flatten)]
    pub credential: CredentialArgs,
}

impl AdminArgs {
    /// Returns the headers for an admin API that authenticates its clients (`spec.admin.authentication`).
    ///
    /// # Errors
    /// If a file with the token cannot be read, or something cannot be in a header.
    pub fn headers(&self) -> anyhow::Result<HeaderMap> {
        self.credential.headers("HAWSEPIPE_ADMIN_TOKEN")
    }

    /// Returns the base URL of the admin API.
    pub fn url(&self) -> String {
        self.admin.url(ADMIN_PORT, "")
    }
}

// How to reach the admin API, and how to print what it shows. A doc comment would be the description of commands.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub output: ListFormat,
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PluginsArgs {
    #[command(subcommand)]
    pub command: Option<PluginsCommand>,
    /// Only plugins of this type
    #[arg(long = "type", value_name = "TYPE", value_parser = PluginKind::NAMES)]
    pub kind: Option<String>,
    #[command(flatten)]
    pub show: ShowArgs,
}

#[derive(Debug, clap::Subcommand)]
pub enum PluginsCommand {
    /// Show whose values a plugin stores and how large they are, or erase them
    Store(PluginStoreArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Values are stored by steps of pipelines (`ctx.store`). No value is shown.

Examples:
  hawsepipe plugins store kb-notes
  hawsepipe plugins store team-a/kb-notes --principal ann@example.com
  hawsepipe plugins store kb-notes --principal ann@example.com --delete")]
pub struct PluginStoreArgs {
    /// The plugin: NAMESPACE/NAME, or NAME in the namespace `default`
    #[arg(value_name = "PLUGIN", add = ArgValueCompleter::new(complete::plugins))]
    pub plugin: String,
    /// Only values of this caller
    #[arg(long, value_name = "SUBJECT", value_parser = NonEmptyStringValueParser::new())]
    pub principal: Option<String>,
    /// Only values of this conversation
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "principal")]
    pub conversation: Option<String>,
    /// Erase the values that would be shown
    #[arg(long)]
    pub delete: bool,
    #[command(flatten)]
    pub show: ShowArgs,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "\
Examples:
  hawsepipe tools
  hawsepipe tools -o wide
  hawsepipe tools -o json | jq -r '.items[].name'
  hawsepipe tools --format openai > tools.json
  hawsepipe tools --section 'runbooks/a.md## Deploy:17' --format openai
  hawsepipe tools pin files",
    args_conflicts_with_subcommands = true
)]
pub struct ToolsArgs {
    #[command(subcommand)]
    pub command: Option<ToolsCommand>,
    /// Only the tools that a model can use at this place in a document; see `hawsepipe explain --help`. With -o json, they are
    /// an AIToolContext: tools, enabledServers and sectionBinding
    #[arg(long, value_name = "SECTION")]
    pub section: Option<String>,
    /// Print the tools as the API of a model takes them
    #[arg(long, value_enum, conflicts_with = "output")]
    pub format: Option<ModelFormat>,
    #[command(flatten)]
    pub show: ShowArgs,
}

#[derive(Debug, clap::Subcommand)]
pub enum ToolsCommand {
    /// Print the digests of the tools that an upstream lists now, as a list to approve
    Pin(PinArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The output is what spec.pinning.approved of the MCPUpstream holds: it approves what the server lists
now, also what is withheld. Read the definitions before: `hawsepipe tools -o wide`, or the server's
own documentation.

Examples:
  hawsepipe tools pin files
  hawsepipe tools pin files -o json | jq -r '.approved[].name'
  kubectl patch mcpupstream files --type merge \\
    -p \"{\\\"spec\\\":{\\\"pinning\\\":$(hawsepipe tools pin files -o json)}}\"")]
pub struct PinArgs {
    /// Name of the upstream
    #[arg(value_name = "UPSTREAM", add = ArgValueCompleter::new(complete::upstreams))]
    pub upstream: String,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DataFormat::Yaml)]
    pub output: DataFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 1 when the tool says that it failed, 2 when the call itself was refused, 3 when the
server asks for input before it answers: standard error says what it asks for.

Examples:
  hawsepipe call everything__echo '{\"message\": \"hi\"}'
  hawsepipe call files__read_text_file '{\"path\": \"notes.md\"}' --trace
  hawsepipe call everything__echo '{\"message\": \"hi\"}' --token-file token.txt
  hawsepipe call everything__echo '{\"message\": \"hi\"}' --header \"X-API-Key: $KEY\"
  jq -n '{message: \"hi\"}' | hawsepipe call everything__echo -
  hawsepipe call --codeblock notes.md:12
  hawsepipe call --from-text answer.json")]
pub struct CallArgs {
    /// The tool's name, as `hawsepipe tools` prints it
    #[arg(value_parser = NonEmptyStringValueParser::new(), required_unless_present_any = ["codeblock", "from_text"], add = ArgValueCompleter::new(complete::tools))]
    pub tool: Option<String>,
    /// The arguments of the tool, a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub arguments: String,
    /// Call the tool that a fenced code block of this Markdown file names: a block whose info string is the name of a server,
    /// with `tool` and the parameters as YAML. If the file has several such blocks, LINE is a line of the wanted one
    #[arg(long, value_name = "FILE[:LINE]", conflicts_with_all = ["tool", "arguments", "trace", "user_query", "max_tokens"])]
    pub codeblock: Option<String>,
    /// With --codeblock: write the first image of the result to this file
    #[arg(long, value_name = "FILE", requires = "codeblock")]
    pub save: Option<PathBuf>,
    /// Call the tools that a model's answer in this file calls, one after another; `-` reads standard input. The answer has
    /// OpenAI's `tool_calls`, or fenced json blocks with `tool` and `arguments`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tool", "arguments", "trace", "user_query", "max_tokens", "codeblock"])]
    pub from_text: Option<String>,
    /// With --codeblock and --from-text: address of the admin API, which runs the calls: HOST:PORT, :PORT, PORT or a URL
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090", env = "HAWSEPIPE_ADMIN")]
    pub admin: Address,
    // For the admin API with --codeblock and --from-text, else for the MCP endpoint.
    #[command(flatten)]
    pub credential: CredentialArgs,
    /// The MCP endpoint: a URL, HOST:PORT, :PORT or PORT. The default path is /mcp
    #[arg(long, default_value = "http://127.0.0.1:8080/mcp", env = "HAWSEPIPE_URL")]
    pub url: Address,
    /// Fail if the gateway sends nothing for this many seconds. While a call runs, the gateway sends a keepalive every
    /// 15 seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
    /// Also print what each entry of each chain did
    #[arg(long)]
    pub trace: bool,
    /// The user's question, which is passed to plugins
    #[arg(long, value_name = "TEXT")]
    pub user_query: Option<String>,
    /// Token limit, which is passed to plugins that shorten content
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_tokens: Option<u32>,
    /// Output format: text prints the text blocks, json and yaml the whole result
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}

impl CallArgs {
    /// Returns how to reach the admin API.
    pub fn admin(&self) -> AdminArgs {
        AdminArgs { admin: self.admin.clone(), timeout: self.timeout, credential: self.credential.clone() }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A worker is Spawned while it loads its plugin, then Available or Executing; Unhealthy is one that is being replaced.

Examples:
  hawsepipe workers
  hawsepipe workers --plugin redact -o wide
  hawsepipe workers -o json | jq '[.items[].memoryBytes] | add'")]
pub struct WorkersArgs {
    #[command(flatten)]
    pub show: ShowArgs,
    /// Only workers of this plugin: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::plugins))]
    pub plugin: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --as: exit code 1 if the rules allow no call of the tool, 2 if that is not decided without the call.

Examples:
  hawsepipe explain files__read_text_file                 of a running gateway
  hawsepipe explain files/read_text_file -f manifests/    of manifests, nothing running
  hawsepipe explain files__read_text_file --method elicitation/create
  hawsepipe explain files__read_text_file --as subject=ci-bot,groups=ci
  hawsepipe explain --section 'runbooks/a.md# Runbook## Deploy^db-checks:17'
  hawsepipe explain files__read_text_file --section '{\"document\": \"a.md\", \"line\": 17}'")]
pub struct ExplainArgs {
    /// The name under which clients see the tool, or UPSTREAM/TOOL with the server's own name for the tool. With --method,
    /// the same of a prompt, or the URI of a resource
    #[arg(value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::tools),
        required_unless_present = "section")]
    pub tool: Option<String>,
    /// A place in a document: which SectionBinding counts there, and whether the tool is visible. It is written as
    /// DOCUMENT[# HEADING][## HEADING]...[^BLOCK][:LINE] with the headings that the place is below, or as the JSON of
    /// _meta["hawsepipe.dev/section"]
    #[arg(long, value_name = "SECTION")]
    pub section: Option<String>,
    /// The method whose chains are explained; of a method that is about prompts or resources, TOOL is the name of a prompt
    /// or the URI of a resource
    #[arg(long, value_name = "METHOD", default_value = "tools/call", value_parser = chained_method())]
    pub method: Method,
    /// The client whose access is explained: which rule decides, and why. Names besides these are claims; groups and scopes
    /// can be repeated
    #[arg(long = "as", value_name = "subject=NAME,groups=GROUP", requires = "tool")]
    pub client: Option<String>,
    /// With --as: the arguments of the client's call, a JSON object: the rules then decide about this call
    #[arg(long, value_name = "JSON", requires = "client")]
    pub arguments: Option<String>,
    /// With --as: the annotations of the tool, a JSON object. Default: those that its server lists; of manifests, the defaults of
    /// the protocol
    #[arg(long, value_name = "JSON", requires = "client")]
    pub annotations: Option<String>,
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Read these manifests instead of asking a running gateway; can be repeated. The tool must then be given as
    /// UPSTREAM/TOOL or UPSTREAM__TOOL
    #[arg(short, long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub options: OptionArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ListFormat::Table)]
    pub output: ListFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Has a gateway of `hawsepipe run` read its manifests and plugins again, and returns when that is in force. A gateway that
is about to start is waited for. Exit code 1 where something in the manifests cannot run as it was written: then its last
good form runs on, where there is one.

Examples:
  hawsepipe run -f demo & hawsepipe wait
  hawsepipe run -f demo & hawsepipe wait --connected && hawsepipe tools
  sed -i s/hello/goodbye/ demo/plugins/greet.mjs && hawsepipe wait && hawsepipe call everything__echo")]
pub struct WaitArgs {
    /// Also wait until the gateway is connected to every enabled upstream
    #[arg(long)]
    pub connected: bool,
    #[command(flatten)]
    pub admin: AdminArgs,
}
