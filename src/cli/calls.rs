//! `hawsepipe calls`: recent calls, or calls as they end.

use std::process::ExitCode;

use serde_json::Value;

use super::args::CallsArgs;
use super::gateway_pods::{Sources, run_with_sources};
use super::known::{check_plugin, check_tool, check_upstream};
use super::output::{Column, column, outcome_text, says, text, time, wide};
use super::records::RecordList;
use crate::domain::method::Method;

/// Shows recent calls of a running gateway, and with `--follow` also new ones.
pub async fn calls(args: CallsArgs) -> anyhow::Result<ExitCode> {
    run_with_sources(&args.records, list(&args)).await
}

async fn list(args: &CallsArgs) -> anyhow::Result<ExitCode> {
    let records = &args.records;
    let filters = vec![("method", args.method.as_deref()), ("outcome", args.outcome.as_deref())];
    let list = RecordList { args: records, path: "/api/v1/calls", id: "requestId", filters, columns: columns() };
    let mut sources = Sources::open(records).await?;
    let items = list.read(&mut sources).await?;
    let admin = sources.first().unwrap_or(&records.admin);
    check_plugin(admin, records.plugin.as_deref(), &items).await?;
    check_upstream(admin, records.upstream.as_deref(), &items).await?;
    // Other items than tools are not listed by the admin API.
    let is_tool = args.method.as_deref().is_none_or(|method| method == Method::CallTool.as_str());
    let tool = records.tool.as_deref().filter(|name| is_tool && !name.contains(':'));
    check_tool(admin, tool, &items).await?;
    list.print(items, &mut sources).await?;
    Ok(ExitCode::SUCCESS)
}

fn columns() -> Vec<Column> {
    vec![
        column("STARTED", |c| time(&c["startedAt"])),
        column("METHOD", |c| text(&c["method"])),
        column("NAME", tool),
        column("OUTCOME", |c| text(&c["outcome"])),
        column("MS", |c| milliseconds(&c["durationMs"])),
        column("RAN", ran),
        column("REASON", |c| text(&c["reason"]).lines().next().unwrap_or_default().to_owned()),
        column("SAYS", failed),
        wide("UPSTREAM MS", |c| if c["upstreamMs"].is_null() { "-".into() } else { milliseconds(&c["upstreamMs"]) }),
        wide("RETRIES", |c| c["retries"].as_u64().unwrap_or_default().to_string()),
        wide("PLUGIN MS", |c| milliseconds(&c["pluginMs"])),
        wide("PRINCIPAL", |c| text(&c["principal"])),
        wide("IDENTITY", |c| [&c["user"]["method"], &c["user"]["issuer"]].map(text).join(" ").trim().to_owned()),
        wide("SESSION", |c| text(&c["session"])),
        wide("REQUEST", |c| text(&c["requestId"])),
        wide("WITHIN", |c| text(&c["within"])),
    ]
}

/// Returns the upstream and the tool, prompt or resource that was asked for, or a dash if neither is known.
fn tool(call: &Value) -> String {
    match (text(&call["upstream"]), text(&call["tool"])) {
        (upstream, tool) if upstream.is_empty() && tool.is_empty() => "-".to_owned(),
        (upstream, tool) if upstream.is_empty() => tool,
        (upstream, tool) => format!("{upstream}/{tool}"),
    }
}

/// Lists the plugins of the call's entries, each with its outcome unless the outcome is `ran`. Skipped entries are left
/// out.
fn ran(call: &Value) -> String {
    let entries = call["entries"].as_array().into_iter().flatten();
    let words = entries.filter_map(|entry| {
        let plugin = text(&entry["plugin"]);
        let plugin = plugin.strip_prefix("default/").unwrap_or(&plugin);
        match &*outcome_text(entry, "outcome") {
            "ran" => Some(plugin.to_owned()),
            _ if text(&entry["outcome"]).starts_with("skipped") => None,
            outcome => Some(format!("{plugin}:{outcome}")),
        }
    });
    words.collect::<Vec<_>>().join(",")
}

/// Returns the errors of the entries that failed.
fn failed(call: &Value) -> String {
    let entries = call["entries"].as_array().into_iter().flatten();
    let failed = entries.filter(|entry| text(&entry["outcome"]).starts_with("failed"));
    failed.map(|entry| says(entry, "error")).filter(|says| !says.is_empty()).collect::<Vec<_>>().join("; ")
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map(|ms| format!("{ms:.1}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_of_no_tool_has_a_dash() {
        assert_eq!(tool(&json!({"upstream": "", "tool": ""})), "-");
        assert_eq!(tool(&json!({"tool": "a"})), "a");
        assert_eq!(tool(&json!({"upstream": "up", "tool": "a"})), "up/a");
    }

    #[test]
    fn what_ran_is_told_in_a_few_words() {
        let entry = |plugin: &str, outcome: &str| json!({"plugin": plugin, "outcome": outcome});
        let entries = [
            entry("default/redact", "ran"),
            entry("team/guard", "denied"),
            entry("default/late", "skipped(stopped)"),
            json!({"plugin": "default/slow", "outcome": "failed(Timeout)", "error": "timed out"}),
            json!({"plugin": "default/tried", "outcome": "denied", "mode": "Shadow"}),
        ];
        let told = "redact,team/guard:denied,slow:failed(Timeout),tried:shadow(denied)";
        assert_eq!(ran(&json!({"entries": entries})), told);
        assert_eq!(failed(&json!({"entries": entries})), "timed out");
    }
}
