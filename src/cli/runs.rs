//! `hawsepipe runs`: the runs of pipelines of a running gateway.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::admin::{encode, get, list, post};
use super::args::{OneRunArgs as RunArgs, RunAnswerArgs, RunShowArgs, RunsArgs, RunsCommand, RunsListArgs};
use super::formats::ListFormat;
use super::known::check_pipeline;
use super::output::{Column, column, harmless, is_read, print_line, print_list, rows, text, time, wide};

/// How often a run that is followed is read.
const TICK: Duration = Duration::from_millis(300);

pub async fn runs(args: RunsArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        RunsCommand::List(args) => recent(&args).await,
        RunsCommand::Show(args) => show(&args).await,
        RunsCommand::Cancel(args) => {
            let cancelled = post(&args.show.admin, &format!("{}/cancel", path(&args)), String::new()).await?;
            let run = parsed(&cancelled)?;
            if run["endedAt"].is_u64() && run["status"] != "cancelled" {
                anyhow::bail!("run {} has ended already: {}", args.id, text(&run["status"]));
            }
            print_run(&args, &run)?;
            Ok(ExitCode::SUCCESS)
        }
        RunsCommand::Answer(args) => answer(&args).await,
    }
}

fn path(args: &RunArgs) -> String {
    format!("/api/v1/runs/{}", encode(&args.id))
}

fn parsed(answer: &RawValue) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(answer.get())?)
}

async fn recent(args: &RunsListArgs) -> anyhow::Result<ExitCode> {
    let pipeline = args.pipeline.as_deref();
    let filters =
        [("pipeline", pipeline), ("status", args.status.as_deref()), ("principal", args.principal.as_deref())];
    let items = list(&args.show.admin, "/api/v1/runs", &filters, args.limit as usize).await?;
    check_pipeline(&args.show.admin, pipeline, &items).await?;
    let columns = [
        column("STARTED", |r| time(&r["startedAt"])),
        column("PIPELINE", |r| text(&r["pipeline"])),
        column("STATUS", |r| text(&r["status"])),
        column("MS", duration),
        column("STEP", |r| text(&r["steps"].as_array().and_then(|steps| steps.last()).unwrap_or(&Value::Null)["name"])),
        column("TOOL CALLS", |r| text(&r["toolCalls"])),
        column("REASON", |r| text(&r["reason"])),
        column("ID", |r| text(&r["id"])),
        wide("MODEL CALLS", |r| text(&r["llmCalls"])),
        wide("TOKENS", |r| format!("{}/{}", r["tokensIn"], r["tokensOut"])),
        wide("SOURCES", |r| text(&r["sources"])),
        wide("PRINCIPAL", |r| text(&r["principal"])),
        wide("SESSION", |r| text(&r["session"])),
    ];
    print_list(args.show.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the duration of a run or of a step, in milliseconds.
fn duration(item: &Value) -> String {
    let ended = item["endedAt"].as_u64().zip(item["startedAt"].as_u64());
    ended.map(|(end, start)| end.saturating_sub(start).to_string()).unwrap_or_default()
}

async fn show(args: &RunShowArgs) -> anyhow::Result<ExitCode> {
    let run_args = &args.run;
    let mut run = get(&run_args.show.admin, &path(run_args)).await?;
    let is_table = matches!(run_args.show.output, ListFormat::Table | ListFormat::Wide);
    if args.follow && is_table {
        let mut shown = 0;
        loop {
            let ended: Vec<_> = steps(&run).into_iter().filter(|step| step["endedAt"].is_u64()).collect();
            // A run keeps its newest steps only, so that the number of those that have ended can stay the same.
            let new = &ended[shown.min(ended.len())..];
            let open = is_read(&rows(run_args.show.output, new, &step_columns(), shown == 0 && !new.is_empty()))?;
            shown += new.len();
            if !open || run["endedAt"].is_u64() {
                break;
            }
            tokio::time::sleep(TICK).await;
            run = get(&run_args.show.admin, &path(run_args)).await?;
        }
        head(&run).iter().try_for_each(|line| print_line(&harmless(line)))?;
        return Ok(outcome(&run));
    }
    while args.follow && !run["endedAt"].is_u64() {
        tokio::time::sleep(TICK).await;
        run = get(&run_args.show.admin, &path(run_args)).await?;
    }
    print_run(run_args, &run)?;
    Ok(outcome(&run))
}

async fn answer(args: &RunAnswerArgs) -> anyhow::Result<ExitCode> {
    let content = args.content.as_deref().map(serde_json::from_str::<Map<String, Value>>).transpose();
    let content = content.context("the values must be a JSON object")?;
    let body = match content {
        Some(content) => json!({"action": "accept", "content": content}),
        None => json!({"action": if args.decline { "decline" } else { "cancel" }}),
    };
    let answered = post(&args.run.show.admin, &format!("{}/answer", path(&args.run)), body.to_string()).await?;
    print_run(&args.run, &parsed(&answered)?)?;
    Ok(ExitCode::SUCCESS)
}

fn outcome(run: &Value) -> ExitCode {
    let has_failed = run["status"] == "failed" || run["status"] == "cancelled";
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print_run(args: &RunArgs, run: &Value) -> anyhow::Result<()> {
    let steps = steps(run);
    if matches!(args.show.output, ListFormat::Table | ListFormat::Wide) {
        head(run).iter().try_for_each(|line| print_line(&harmless(line)))?;
        if steps.is_empty() {
            return Ok(());
        }
    }
    print_list(args.show.output, run, &steps, &step_columns())
}

fn steps(run: &Value) -> Vec<Value> {
    let mut steps = run["steps"].as_array().cloned().unwrap_or_default();
    steps.iter_mut().for_each(|step| step["runEnded"] = json!(run["endedAt"].is_u64()));
    steps
}

/// Returns the lines of a run, without its steps.
fn head(run: &Value) -> Vec<String> {
    let ms = duration(run);
    let reason = run["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let took = if ms.is_empty() { String::new() } else { format!(" after {ms} ms") };
    let mut lines = vec![
        format!("run {} of {}: {}{reason}{took}", text(&run["id"]), text(&run["pipeline"]), text(&run["status"])),
        format!(
            "{} tool calls, {} requests of models, {} sources",
            text(&run["toolCalls"]),
            text(&run["llmCalls"]),
            text(&run["sources"])
        ),
    ];
    lines.extend(run["message"].as_str().map(|message| format!("reason: {message}")));
    if run["limited"] == true {
        lines.push("limited: the run has reached maxIterations of its pipeline".to_owned());
    }
    if let Value::Object(question) = &run["question"] {
        lines.push(format!("asks: {}", text(question.get("message").unwrap_or(&Value::Null))));
        lines.extend(question.get("requestedSchema").map(|schema| format!("schema of the answer: {schema}")));
    }
    lines
}

fn step_columns() -> Vec<Column> {
    vec![
        column("STARTED", |s| time(&s["startedAt"])),
        column("STEP", |s| text(&s["name"])),
        column("STATUS", |s| match (&s["endedAt"], &s["reason"]) {
            (Value::Null, _) if s["runEnded"] == true => "cancelled".to_owned(),
            (Value::Null, _) => "working".to_owned(),
            (_, Value::Null) => "success".to_owned(),
            _ => "failed".to_owned(),
        }),
        column("MS", duration),
        column("REASON", |s| text(&s["reason"])),
        column("MESSAGE", |s| text(&s["message"])),
    ]
}
