//! `hawsepipe calls`: recent calls, or calls as they end.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::admin::list;
use super::args::CallsArgs;
use super::formats::ListFormat;
use super::known::{check_tool, check_upstream};
use super::output::{Column, column, is_read, outcome_text, print_list, rows, says, text, time, wide};
use crate::domain::method::Method;
/// With `--follow`: the pause between two polls.
const EVERY: Duration = Duration::from_millis(300);
/// The number of calls that every gateway keeps, at least. If more calls end between two polls, some are not printed.
const KEPT: usize = 1000;
/// How many calls a poll requests first. If all these calls are new, the poll then requests [`KEPT`] calls.
const FEW: usize = 20;

/// Shows recent calls of a running gateway, and with `--follow` also new ones.
pub async fn calls(args: CallsArgs) -> anyhow::Result<ExitCode> {
    let limit = args.limit as usize;
    let mut items = newest(&args, if args.follow { limit.max(KEPT) } else { limit }).await?;
    check_upstream(&args.admin, args.upstream.as_deref(), &items).await?;
    // Other items than tools are not listed by the admin API.
    let is_tool = args.method.as_deref().is_none_or(|method| method == Method::CallTool.as_str());
    let tool = args.tool.as_deref().filter(|name| is_tool && !name.contains(':'));
    check_tool(&args.admin, tool, &items).await?;
    if !args.follow {
        print_list(args.output, &json!({"items": items}), &items, &columns())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut seen = PrintedCalls::default();
    items.retain(|call| seen.is_new(call));
    items.truncate(limit);
    let mut heading = true;
    loop {
        // The oldest call is printed first, so that newer calls follow below.
        items.reverse();
        if !print_more(args.output, &items, heading)? {
            return Ok(ExitCode::SUCCESS);
        }
        heading = false;
        tokio::time::sleep(EVERY).await;
        items = unseen(&args, &mut seen).await?;
    }
}

fn id(call: &Value) -> String {
    text(&call["requestId"])
}

async fn newest(args: &CallsArgs, limit: usize) -> anyhow::Result<Vec<Value>> {
    let query =
        [("upstream", args.upstream.as_deref()), ("tool", args.tool.as_deref()), ("method", args.method.as_deref())];
    list(&args.admin, "/api/v1/calls", &query, limit).await
}

/// The ids of the calls that were listed most recently, at most four times [`KEPT`].
#[derive(Default)]
struct PrintedCalls {
    ids: HashSet<String>,
    order: VecDeque<String>,
}

impl PrintedCalls {
    /// Remembers a call, and returns whether it is new.
    fn is_new(&mut self, call: &Value) -> bool {
        let id = id(call);
        if !self.ids.insert(id.clone()) {
            return false;
        }
        self.order.push_back(id);
        while self.order.len() > 4 * KEPT {
            self.order.pop_front().map(|oldest| self.ids.remove(&oldest));
        }
        true
    }
}

/// Returns the calls that ended since the last poll, newest first.
async fn unseen(args: &CallsArgs, seen: &mut PrintedCalls) -> anyhow::Result<Vec<Value>> {
    let mut calls = newest(args, FEW).await?;
    if calls.len() == FEW && calls.iter().all(|call| !seen.ids.contains(&id(call))) {
        calls = newest(args, KEPT).await?;
    }
    calls.retain(|call| seen.is_new(call));
    Ok(calls)
}

/// Prints new calls, and returns whether standard output is still open.
fn print_more(format: ListFormat, items: &[Value], heading: bool) -> anyhow::Result<bool> {
    if items.is_empty() && !heading {
        return Ok(true);
    }
    match format {
        // One document for each call, so that programs can read the output as a stream.
        ListFormat::Json => items.iter().try_fold(true, |read, item| Ok(is_read(&format!("{item}\n"))? && read)),
        ListFormat::Yaml => items.iter().try_fold(true, |read, item| {
            Ok(is_read(&format!("---\n{}\n", serde_saphyr::to_string(item)?.trim_end()))? && read)
        }),
        ListFormat::Table | ListFormat::Wide => is_read(&rows(format, items, &columns(), heading)),
    }
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
        wide("REQUEST", id),
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
