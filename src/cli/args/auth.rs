//! The arguments of `hawsepipe auth`.

use clap::builder::NonEmptyStringValueParser;

use super::{ShowArgs, SourceArgs};
use crate::cli::formats::ResultFormat;

#[derive(Debug, clap::Args)]
pub struct AuthArgs {
    #[command(subcommand)]
    pub command: AuthCommand,
}

#[derive(Debug, clap::Subcommand)]
pub enum AuthCommand {
    /// Check a credential against manifests: whether it is accepted, whom it proves, and what the rules mean for a tool
    Check(AuthCheckArgs),
    /// Show which credentials a running gateway has refused, and why
    #[command(after_help = "\
The gateway counts refused credentials by listener, reason, issuer, audience and address, at most 1,000 such kinds since its
start. What a token says of itself is not proved: its signature can be wrong. -o wide also shows what the gateway accepts.

Examples:
  hawsepipe auth refusals
  hawsepipe auth refusals -o wide
  hawsepipe auth refusals -o json | jq '.items[] | select(.reason == \"WrongAudience\") | {found, accepted}'")]
    Refusals(ShowArgs),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
No gateway has to run. The keys of issuers are fetched as a gateway fetches them. Servers are not asked for their tools: rules
that read annotations see those of --annotations, or the defaults of the protocol. Tokens of service accounts are checked only by
a gateway in a cluster. Exit code 1 if the credential is not accepted, or no call of the tool is allowed; 2 if that is not
decided without the call: name its --arguments.

Examples:
  hawsepipe auth check -f manifests/ --token \"$TOKEN\"
  hawsepipe auth check -f manifests/ --token - --tool files/read_text_file < token.txt
  hawsepipe auth check -f manifests/ --token \"$TOKEN\" --tool files/read_text_file --arguments '{\"path\": \"a.md\"}'
  hawsepipe auth check -f manifests/ --secrets-dir secrets/ --api-key \"$KEY\" --tool files/read_text_file -o json")]
pub struct AuthCheckArgs {
    #[command(flatten)]
    pub source: SourceArgs,
    /// The token of a client, or `-` to read it from the standard input. Default: none, like a client that sends no credentials
    #[arg(long, value_name = "TOKEN", value_parser = NonEmptyStringValueParser::new())]
    pub token: Option<String>,
    /// The API key of a client, where the gateway has a header for keys; `-` reads it from the standard input
    #[arg(long, value_name = "KEY", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "token")]
    pub api_key: Option<String>,
    /// The tool: UPSTREAM/TOOL or UPSTREAM__TOOL
    #[arg(long, value_name = "TOOL", value_parser = NonEmptyStringValueParser::new())]
    pub tool: Option<String>,
    /// The arguments of a call of the tool, a JSON object: the rules then decide about this call, as in a gateway
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub arguments: Option<String>,
    /// The annotations that the server lists for the tool, a JSON object. Default: the defaults of the protocol
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub annotations: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ResultFormat::Text)]
    pub output: ResultFormat,
}
