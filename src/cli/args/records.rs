//! The arguments of commands that list recorded calls and executions.

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap_complete::engine::ArgValueCompleter;
use jiff::{Span, SpanRelativeTo, Timestamp, Unit};

use super::asks::AdminArgs;
use crate::cli::complete;
use crate::cli::formats::RecordFormat;
use crate::domain::identity::IdentityMethod;
use crate::domain::record::{CallOutcome, ExecutionStatus};

/// The methods of requests that chains can see.
const METHODS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Calls are listed when they have ended, the newest first; with --follow the newest last.

Examples:
  hawsepipe calls --limit 20
  hawsepipe calls --follow
  hawsepipe calls --follow --gateway mcp/main
  hawsepipe calls --upstream files -o wide
  hawsepipe calls --plugin redact --outcome failed --since 2h
  hawsepipe calls --follow -o jsonl | jq -c 'select(.outcome != \"ok\") | {tool, outcome, reason}'")]
pub struct CallsArgs {
    #[command(flatten)]
    pub records: RecordArgs,
    /// Only requests of this method
    #[arg(long, value_name = "METHOD", value_parser = METHODS)]
    pub method: Option<String>,
    /// Only calls with this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = PossibleValuesParser::new(CallOutcome::ALL.map(CallOutcome::as_label)))]
    pub outcome: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Executions are listed when they have ended, the newest first; with --follow the newest last.

Examples:
  hawsepipe executions --limit 20
  hawsepipe executions --plugin redact -o wide
  hawsepipe executions --status Timeout --since 2026-11-27T08:00:00Z --until 2026-11-27T09:00:00Z")]
pub struct ExecutionsArgs {
    #[command(flatten)]
    pub records: RecordArgs,
    /// Only executions with this status
    #[arg(long, alias = "outcome", value_name = "STATUS", value_parser = PossibleValuesParser::new(ExecutionStatus::ALL.map(ExecutionStatus::as_str)))]
    pub status: Option<String>,
}

/// Filters and the output of a list of records.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Read all pods of this MCPGateway instead: NAME or NAMESPACE/NAME. Needs kubectl, and the rights to get mcpgateways, to list
    /// pods and to create pods/portforward. If the gateway has history.store.postgres, one pod is read
    #[arg(long, value_name = "GATEWAY", value_parser = NonEmptyStringValueParser::new())]
    pub gateway: Option<String>,
    /// The namespace of the MCPGateway. Default: the namespace of the kubeconfig's context
    #[arg(short, long, value_name = "NS", requires = "gateway")]
    pub namespace: Option<String>,
    /// Continue to print records as they are made, until interrupted
    #[arg(short, long)]
    pub follow: bool,
    /// Only records of this plugin: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::plugins))]
    pub plugin: Option<String>,
    /// Only records of this chain: NAME or NAMESPACE/NAME
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub chain: Option<String>,
    /// Only records of this upstream
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(complete::upstreams))]
    pub upstream: Option<String>,
    /// Only records of this tool, by the name that clients see or the server's own one; also of this prompt, or of the resource
    /// with this URI
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub tool: Option<String>,
    /// Only records of the call with this id
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub request: Option<String>,
    /// Only records of this session: the first 8 characters of its id
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub session: Option<String>,
    /// Only records of this principal
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub principal: Option<String>,
    /// Only records of callers with a token of this issuer
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    pub issuer: Option<String>,
    /// Only records of callers whose identity this method has proved
    #[arg(long, value_name = "METHOD", value_parser = PossibleValuesParser::new(IdentityMethod::ALL.map(IdentityMethod::as_str)))]
    pub identity: Option<String>,
    /// Only what ended at this time or later: a time such as 2026-11-27T08:00:00Z, or a duration before now such as 90s, 2h
    /// or 3d
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<i64>,
    /// Only what ended before this time, which is given as in --since
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<i64>,
    /// Print at most this many records; with --follow, the limit applies only to records that there are already
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Output format; with --follow, json prints one line for each record, as jsonl does
    #[arg(short, long, value_enum, default_value_t = RecordFormat::Table)]
    pub output: RecordFormat,
}

/// Parses a time, or a duration before now, to Unix milliseconds.
fn moment(written: &str) -> Result<i64, String> {
    if let Ok(time) = written.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let millis =
        written.parse::<Span>().and_then(|span| span.total((Unit::Millisecond, SpanRelativeTo::days_are_24_hours())));
    #[expect(clippy::cast_possible_truncation, reason = "whole milliseconds are enough")]
    let millis = millis.map(|millis| millis.abs() as i64);
    let moment = millis.map(|millis| Timestamp::now().as_millisecond().saturating_sub(millis).max(0));
    moment.map_err(|_| format!("{written:?} is neither a time such as 2026-11-27T08:00:00Z nor a duration such as 2h"))
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn a_moment_is_a_time_or_a_duration_before_now() {
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(1000));
        let now = jiff::Timestamp::now().as_millisecond();
        for (written, before) in [("90s", 90_000), ("1h", 3_600_000), ("2d", 172_800_000)] {
            assert!((moment(written).unwrap() - (now - before)).abs() < 1000, "{written}");
        }
        assert!(moment("soon").unwrap_err().contains("2h"));
    }
}
