//! The command `hawsepipe explain`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::{encode, get};
use super::args::ExplainArgs;
use super::formats::ListFormat;
use super::output::{column, harmless, print_line, print_list, text, wide};
use super::validate::directory;
use crate::engine::views::explain::explain_plan;
use crate::source::CompiledManifests;

pub async fn explain(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let explanation = if args.files.is_empty() {
        let path = format!("/api/v1/explain?tool={}&method={}", encode(&args.tool), encode(args.method.as_str()));
        get(&args.admin, &path).await?
    } else {
        let compiled = directory(args.files, args.options)?.read(None).await?;
        let CompiledManifests { plan, problems, secrets, .. } = compiled;
        json!(explain_plan(plan, &problems, &secrets, &args.tool, args.method).map_err(anyhow::Error::msg)?)
    };
    let rows = rows(&explanation);
    if matches!(args.output, ListFormat::Table | ListFormat::Wide) {
        head(&explanation).iter().try_for_each(|line| print_line(&harmless(line)))?;
        if rows.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let columns = [
        column("PHASE", |r| text(&r["phase"])),
        column("CHAIN", |r| text(&r["chain"])),
        column("PLUGIN", |r| text(&r["plugin"])),
        column("OUTCOME", |r| text(&r["outcome"])),
        column("POLICY", policy),
        wide("ROLE", |r| text(&r["role"])),
        wide("MODE", |r| text(&r["mode"])),
        wide("TIMEOUT MS", |r| text(&r["timeoutMs"])),
    ];
    print_list(args.output, &explanation, &rows, &columns)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the lines before the table: the tool, why it is withheld, and the notes.
fn head(explanation: &Value) -> Vec<String> {
    let tool = text(&explanation["tool"]);
    let mut lines = vec![match text(&explanation["upstream"]) {
        upstream if upstream.is_empty() => tool,
        upstream if !tool.ends_with(&text(&explanation["upstreamTool"])) => {
            format!("{tool} (upstream {upstream}, which calls it {})", text(&explanation["upstreamTool"]))
        }
        upstream => format!("{tool} (upstream {upstream})"),
    }];
    lines.extend(explanation["withheld"].as_str().map(|why| format!("clients do not get it: {why}")));
    lines.extend(explanation["notes"].as_array().into_iter().flatten().map(text));
    lines
}

/// Returns the failure policy of an entry, or `none` in shadow mode, in which a failure has no effect.
fn policy(entry: &Value) -> String {
    if entry["mode"] == "Shadow" { "none".to_owned() } else { text(&entry["failurePolicy"]) }
}

/// Makes one row for each entry, and one row for each chain with a remark in `why`: the chain does not select the tool,
/// or it refuses calls.
fn rows(explanation: &Value) -> Vec<Value> {
    let mut rows = Vec::new();
    for chain in explanation["chains"].as_array().into_iter().flatten() {
        let named = |mut row: Value| {
            row["chain"] = chain["chain"].clone();
            row["phase"] = chain["phase"].clone();
            row
        };
        if let Value::String(why) = &chain["why"] {
            let outcome = if chain["selected"] == true { why.clone() } else { format!("not selected: {why}") };
            rows.push(named(json!({"outcome": outcome})));
        }
        rows.extend(chain["entries"].as_array().into_iter().flatten().cloned().map(named));
    }
    rows
}
