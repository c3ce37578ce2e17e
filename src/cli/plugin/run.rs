//! The command `hawsepipe plugin run`.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::{Value, json};

use super::args::PluginRunArgs;
use super::diff::diff;
use super::function::FunctionCase;
use super::subject::Subject;
use super::test_gateway::{TestCase, TestGateway, TestOutcome};
use super::test_input::TestInput;
use crate::cli::formats::ResultFormat;
use crate::cli::output::{Colour, paint, print_line, say, text};
use crate::cli::signals::EndSignals;
use crate::domain::record::EntryOutcome;
use crate::source::{FolderWatch, Folders, Located};
use crate::telemetry::plugin_log::PluginLog;

/// What a plugin is run on.
enum Case {
    /// The content of a call.
    Content(TestInput),
    /// The arguments of one of its functions.
    Function(FunctionCase),
}

/// Runs a plugin and prints what it did. With `--watch`, repeats this after each change.
pub async fn run(args: PluginRunArgs) -> anyhow::Result<ExitCode> {
    let (case, config, kind) = match &args.method {
        Some(method) => {
            let function = FunctionCase::read(method, args.case.input.as_deref(), args.mock.as_deref())?;
            let kind = function.kind();
            (Case::Function(function), None, Some(kind))
        }
        None => {
            let (input, config) = TestInput::read(&args.case)?;
            (Case::Content(input), config, None)
        }
    };
    let mut subject = Subject::new(&args.subject, config, kind)?;
    let lines = PluginLog::start()?;
    if !args.watch {
        let (report, _) = once(&mut subject, &case, &lines).await?;
        return print(&report, args.output);
    }
    let mut signals = EndSignals::listen()?;
    let mut watch = FolderWatch::new().context("cannot watch the plugin for changes")?;
    let mut last = None;
    loop {
        let now = subject.read().await?.stamp();
        if last.as_ref() != Some(&now) {
            let (report, folders) = once(&mut subject, &case, &lines).await?;
            print(&report, args.output)?;
            watch.set(folders);
            last = Some(now);
        } else {
            watch.renew();
        }
        tokio::select! {
            () = watch.changed() => {}
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Runs the plugin once, in new workers. Returns the report, and the folders in which changes can affect the plugin.
async fn once(subject: &mut Subject, case: &Case, lines: &PluginLog) -> anyhow::Result<(Value, Folders)> {
    let (report, folders) = match case {
        Case::Content(input) => on_content(subject, input).await?,
        Case::Function(function) => function.run(subject).await?,
    };
    let mut report = report.unwrap_or_else(|problems| refused(&problems));
    report["log"] = json!(lines.take());
    Ok((report, folders))
}

/// Runs the plugin on the content of a call. Returns Problems if the plugin is not accepted.
async fn on_content(
    subject: &mut Subject,
    input: &TestInput,
) -> anyhow::Result<(Result<Value, Vec<Located>>, Folders)> {
    let gateway = TestGateway::new()?;
    let loaded = gateway.load(subject, input).await;
    let report = match &loaded {
        Ok((Ok(case), _)) => run_case(&gateway, case, input).await,
        _ => Value::Null,
    };
    // The workers end first, so that the log includes their last output.
    gateway.end().await;
    let (case, folders) = loaded?;
    Ok((case.map(|_| report), folders))
}

/// Makes the report about a plugin that did not run because it was not accepted.
fn refused(problems: &[Located]) -> Value {
    let first = problems.iter().find(|located| located.problem.is_error());
    let reason = first.map(|located| located.problem.reason);
    json!({
        "outcome": reason.map_or_else(|| "failed".to_owned(), |reason| format!("failed({reason})")),
        "changed": false,
        "reason": reason,
        "message": first.map(|located| located.problem.message.clone()),
        "problems": problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

async fn run_case(gateway: &TestGateway, case: &TestCase, input: &TestInput) -> Value {
    let outcome = gateway.run(case).await;
    let TestOutcome { call, execution, after, client_text, refused, progress } = &outcome;
    let entry = call.entries.first();
    let changed = entry.is_some_and(|entry| entry.changed);
    let row = execution.as_ref();
    let said = row.and_then(|row| row.error_text.clone().or(row.error_message.clone()));
    let failed = entry.is_none_or(|entry| matches!(entry.outcome, EntryOutcome::Failed(_)));
    json!({
        "plugin": case.plugin.key.to_string(),
        "role": case.plugin.role,
        "protocol": case.plugin.protocol,
        "phase": case.phase.wire(),
        "outcome": entry.map_or_else(|| "failed".to_owned(), |entry| entry.outcome.to_string()),
        "changed": changed,
        "stops": entry.is_some_and(|entry| entry.stops),
        "reason": match row.and_then(|row| row.reason) {
            Some(reason) => json!(reason),
            None => json!(refused.as_ref().and(call.reason.as_ref())),
        },
        "message": said.or(refused.clone()).or_else(|| call.reason.clone()),
        "text": if failed { &None } else { after },
        "told": client_text,
        "diff": after.as_ref().filter(|_| changed).map(|after| diff(&input.text, after, false)),
        "before": input.text,
        "metadata": entry.and_then(|entry| entry.metadata.clone()),
        "startMs": gateway.start(case).map(|start| start.as_secs_f64() * 1e3),
        "queueMs": row.map(|row| row.queue_ms),
        "runMs": row.map(|row| row.run_ms),
        "progress": progress,
        "problems": case.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// Prints a report. Returns the exit code, which is a failure if the plugin failed or did not run.
fn print(report: &Value, format: ResultFormat) -> anyhow::Result<ExitCode> {
    let mut shown = report.clone();
    if let Some(object) = shown.as_object_mut() {
        object.remove("before");
        object.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty()));
    }
    match format {
        ResultFormat::Json => print_line(&serde_json::to_string_pretty(&shown)?)?,
        ResultFormat::Yaml => print_line(serde_saphyr::to_string(&shown)?.trim_end())?,
        ResultFormat::Text => print_text(report)?,
    }
    Ok(if has_failed(report) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether the plugin failed. `skipped(stopped)` counts as a failure: the chain has only one entry, which is skipped in
/// this way only if the call has ended.
fn has_failed(report: &Value) -> bool {
    let outcome = text(&report["outcome"]);
    outcome.starts_with("failed") || outcome == "skipped(stopped)"
}

fn print_text(report: &Value) -> anyhow::Result<()> {
    for problem in report["problems"].as_array().into_iter().flatten() {
        say(&text(problem));
    }
    print_line(&headline(report))?;
    for (name, member) in [("output", "text"), ("the client is told", "told")] {
        if let Value::String(text) = &report[member] {
            print_line(&format!("\n{name}:\n{text}"))?;
        }
    }
    if let (true, Value::String(before), Value::String(after)) =
        (report["changed"] == true, &report["before"], &report["text"])
    {
        print_line(&format!("\nwhat changed:\n{}", diff(before, after, true).trim_end()))?;
    }
    if !report["result"].is_null() {
        print_line(&format!("\nresult:\n{}", serde_json::to_string_pretty(&report["result"])?))?;
    }
    for request in report["requests"].as_array().into_iter().flatten() {
        print_line(&format!("request: {} {}", text(&request["name"]), request["arguments"]))?;
    }
    if !report["metadata"].is_null() {
        print_line(&format!("\nmetadata: {}", report["metadata"]))?;
    }
    for progress in report["progress"].as_array().into_iter().flatten() {
        print_line(&format!("progress: {progress}"))?;
    }
    let lines = report["log"].as_array().into_iter().flatten();
    let lines: Vec<_> = lines.map(|line| format!("  {:6} {}", text(&line["level"]), text(&line["text"]))).collect();
    if !lines.is_empty() {
        print_line(&format!("\nlog:\n{}", lines.join("\n")))?;
    }
    let times = [("start", "startMs"), ("queue", "queueMs"), ("run", "runMs")];
    let times = times.iter().filter_map(|(name, member)| Some(format!("{name} {:.2} ms", report[*member].as_f64()?)));
    let times: Vec<_> = times.collect();
    if times.is_empty() { Ok(()) } else { print_line(&format!("\ntime: {}", times.join(", "))) }
}

/// Describes the outcome in one line.
fn headline(report: &Value) -> String {
    let outcome = text(&report["outcome"]);
    let message = text(&report["message"]);
    let message = message.strip_prefix("denied the call: ").unwrap_or(&message);
    if let ("ran", Value::String(method)) = (&*outcome, &report["method"]) {
        return paint(Colour::Green, &format!("ran: {method}"));
    }
    if outcome == "ran" {
        let content = if report["changed"] == true { "changed the content" } else { "left the content as it was" };
        let stops =
            if report["stops"] == true { "; later entries of the chain are skipped, Guards excepted" } else { "" };
        let observes =
            if report["role"] == "Observe" { "; it runs beside calls, and its answer is thrown away" } else { "" };
        return paint(Colour::Green, &format!("ran: {content}{stops}{observes}"));
    }
    match (has_failed(report), message.is_empty()) {
        (_, true) => paint(Colour::Yellow, &outcome),
        (true, false) => paint(Colour::Red, &format!("{outcome}: {message}")),
        (false, false) => paint(Colour::Yellow, &format!("{outcome}: {message}")),
    }
}
