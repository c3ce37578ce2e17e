//! `hawsepipe status`: shows what a running gateway runs, and its Problems.

use std::process::ExitCode;

use serde_json::Value;

use super::admin::{get, not_admin};
use super::args::ShowArgs;
use super::formats::ListFormat;
use super::output::{Colour, Column, column, harmless, paint, print_line, print_list, text, time, wide};

pub async fn status(args: ShowArgs) -> anyhow::Result<ExitCode> {
    let status = get(&args.admin, "/api/v1/status").await?;
    if status["revision"].is_null() {
        return Err(not_admin(&args.admin, "revision"));
    }
    if matches!(args.output, ListFormat::Json | ListFormat::Yaml) {
        print_list(args.output, &status, &[], &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    head(&status)?;
    section(args.output, &status["upstreams"], &upstream_columns())?;
    section(args.output, &status["plugins"], &plugin_columns())?;
    section(args.output, &status["chains"], &chain_columns())?;
    section(args.output, &status["sections"], &section_columns())?;
    let problems = items(&status["problems"]);
    if !problems.is_empty() {
        print_line("")?;
    }
    problems.iter().try_for_each(|problem| print_line(&problem_line(problem)))?;
    Ok(ExitCode::SUCCESS)
}

fn items(list: &Value) -> Vec<Value> {
    list.as_array().cloned().unwrap_or_default()
}

/// Prints the facts about the gateway itself, one per line.
fn head(status: &Value) -> anyhow::Result<()> {
    let mut lines = vec![
        ("GATEWAY", text(&status["gateway"])),
        ("VERSION", text(&status["version"])),
        ("REVISION", short(&status["revision"])),
        ("TOOLS", text(&status["tools"])),
    ];
    if status["sealKey"] == "shared" {
        lines.push(("SESSIONS", "other replicas that have the same keys take them over".to_owned()));
    }
    if status["stopped"] == true {
        let by = format!("every call is refused ({})", text(&status["stoppedBy"]));
        lines.push(("STOPPED", paint(Colour::Red, &by)));
    }
    if let Value::String(why) = &status["refusing"] {
        lines.push(("REFUSING", paint(Colour::Red, why)));
    }
    if !status["pending"].is_null() {
        let pending = format!("{}: {}", text(&status["pending"]["reason"]), text(&status["pending"]["message"]));
        lines.push(("PENDING", paint(Colour::Yellow, &pending)));
    }
    lines.iter().try_for_each(|(name, value)| print_line(&format!("{name:<10}{value}")))
}

fn section(format: ListFormat, list: &Value, columns: &[Column]) -> anyhow::Result<()> {
    let items = items(list);
    if items.is_empty() {
        return Ok(());
    }
    print_line("")?;
    print_list(format, list, &items, columns)
}

fn upstream_columns() -> Vec<Column> {
    vec![
        column("UPSTREAM", |u| text(&u["name"])),
        column("STATE", upstream_state),
        column("TOOLS", |u| text(&u["tools"])),
        column("PROMPTS", |u| text(&u["prompts"])),
        column("RESOURCES", |u| text(&u["resources"])),
        wide("TEMPLATES", |u| text(&u["templates"])),
        wide("FAILURES", |u| text(&u["consecutiveFailures"])),
        wide("RETRY", retry),
        wide("DISABLED AT", |u| time(&u["autoDisabledAt"])),
        wide("LAST PING", |u| time(&u["lastPingAt"])),
        wide("PROTOCOL", |u| text(&u["server"]["version"])),
        wide("PING MS", |u| u["pingLatency"].as_f64().map(|ms| format!("{ms:.1}")).unwrap_or_default()),
        column("ERROR", |u| one_line(&u["error"])),
    ]
}

/// Returns which of the retries comes next, and when.
fn retry(upstream: &Value) -> String {
    let retry = &upstream["retryState"];
    if retry["isRetrying"] != true {
        return String::new();
    }
    let most = retry["backoffIntervals"].as_array().map_or(0, Vec::len);
    format!("{}/{most} at {}", retry["currentAttempt"], time(&retry["nextRetryAt"]))
}

/// Returns the state of an upstream in one word, or why it is not in routing.
pub fn upstream_state(upstream: &Value) -> String {
    match (&upstream["enabled"], &upstream["autoDisabled"]) {
        (Value::Bool(false), _) => "Disabled".to_owned(),
        (_, Value::Bool(true)) => format!("{} (out of routing)", text(&upstream["connectionState"])),
        _ if upstream["restingSince"].is_u64() => "Resting".to_owned(),
        _ => text(&upstream["connectionState"]),
    }
}

pub fn plugin_columns() -> Vec<Column> {
    vec![
        column("PLUGIN", |p| text(&p["plugin"])),
        wide("TYPE", |p| text(&p["type"])),
        wide("VERSION", |p| text(&p["version"])),
        column("STATE", |p| text(&p["state"])),
        column("ROLE", |p| match p["type"].as_str() {
            None | Some("middleware") => text(&p["role"]),
            Some(typed) => typed.to_owned(),
        }),
        column("WORKERS", |p| text(&p["workers"])),
        column("FAILED", failed),
        wide("PROTOCOL", |p| text(&p["protocol"])),
        wide("REVISION", |p| short(&p["revision"])),
        column("ERROR", |p| one_line(&p["error"])),
    ]
}

/// Returns how many of the recent executions of a plugin failed, and why the last one did.
fn failed(plugin: &Value) -> String {
    match &plugin["recentFailures"] {
        Value::Null => String::new(),
        recent => format!("{} of {} ({})", recent["failed"], recent["executions"], text(&recent["lastReason"])),
    }
}

fn chain_columns() -> Vec<Column> {
    vec![
        column("CHAIN", |c| text(&c["chain"])),
        column("PHASE", |c| text(&c["phase"])),
        column("UPSTREAMS", |c| text(&c["upstreams"])),
        column("RUNS", |c| text(&c["runs"])),
        wide("ORDER", |c| text(&c["order"])),
        wide("REVISION", |c| short(&c["revision"])),
        column("REFUSING", |c| one_line(&c["refusing"])),
    ]
}

fn section_columns() -> Vec<Column> {
    vec![
        column("SECTION BINDING", |s| text(&s["binding"])),
        column("STATE", |s| text(&s["state"])),
        column("DOCUMENT", |s| text(&s["document"])),
        column("SECTION", |s| text(&s["section"])),
        column("UPSTREAM", |s| text(&s["upstream"])),
        column("ERROR", |s| one_line(&s["error"])),
    ]
}

/// Returns the first 12 characters of a digest.
pub fn short(digest: &Value) -> String {
    text(digest).chars().take(12).collect()
}

fn one_line(value: &Value) -> String {
    text(value).lines().next().unwrap_or_default().to_owned()
}

/// Formats the JSON of a Problem as a line.
pub fn problem_line(problem: &Value) -> String {
    let (word, colour) = match problem["level"].as_str() {
        Some("error") => ("error", Colour::Red),
        _ => ("warning", Colour::Yellow),
    };
    let object = &problem["object"];
    let object = match object {
        Value::Null => String::new(),
        _ => format!("{} {}/{}: ", text(&object["kind"]), text(&object["namespace"]), text(&object["name"])),
    };
    let field = if problem["field"].is_null() { String::new() } else { format!("{}: ", text(&problem["field"])) };
    let place = if problem["place"].is_null() { String::new() } else { format!("{}: ", text(&problem["place"])) };
    let (message, reason) = (text(&problem["message"]), text(&problem["reason"]));
    let (place, problem) = (harmless(&place), harmless(&format!("{object}{field}{message} ({reason})")));
    format!("{place}{}: {problem}", paint(colour, word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::problem::{Level, Problem};
    use crate::domain::reason::Reason;
    use crate::source::Located;
    use crate::source::yaml::Position;

    #[test]
    fn a_problem_of_a_file_says_where_it_is() {
        let problem = Problem::without_object(Level::Error, Reason::InvalidYaml, "it is not YAML".to_owned());
        let place = |file: &str, place| Located { problem: problem.clone(), file: Some(file.into()), place };
        let line = |located: Located| problem_line(&json!(located.to_problem()));
        let position = Position { line: 3, column: 1 };
        assert_eq!(line(place("m/a.yaml", Some(position))), "m/a.yaml:3:1: error: it is not YAML (InvalidYaml)");
        assert_eq!(line(place("m/\u{202e}b.yaml", None)), "m/\u{fffd}b.yaml: error: it is not YAML (InvalidYaml)");
    }

    #[test]
    fn a_plugin_that_fails_on_calls_is_told_apart_from_one_that_does_not() {
        let recent = json!({"failed": 3, "executions": 20, "lastReason": "Timeout", "lastAt": 1});
        assert_eq!(failed(&json!({"recentFailures": recent})), "3 of 20 (Timeout)");
        assert_eq!(failed(&json!({})), "");
    }

    #[test]
    fn an_upstream_is_connected_only_while_it_is() {
        let state = |more: Value| {
            let mut upstream = json!({"enabled": true, "autoDisabled": false, "connectionState": "Connected"});
            upstream.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            upstream_state(&upstream)
        };
        assert_eq!(state(json!({})), "Connected");
        assert_eq!(state(json!({"restingSince": 1})), "Resting");
        assert_eq!(state(json!({"autoDisabled": true})), "Connected (out of routing)");
        assert_eq!(state(json!({"enabled": false, "restingSince": 1})), "Disabled");
    }
}
