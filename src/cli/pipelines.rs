//! `hawsepipe pipelines`: the pipelines of a running gateway.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::{ApiError, encode, get, list};
use super::args::{PipelineArgs, PipelinesArgs, PipelinesCommand, ShowArgs};
use super::formats::ListFormat;
use super::known::check_pipeline;
use super::output::{column, harmless, print_line, print_list, text, wide};

pub async fn pipelines(args: PipelinesArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        PipelinesCommand::List(args) => all(&args).await?,
        PipelinesCommand::Explain(args) => explain(&args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn all(args: &ShowArgs) -> anyhow::Result<()> {
    let items = list(&args.admin, "/api/v1/pipelines", &[], usize::MAX).await?;
    let columns = [
        column("PIPELINE", |p| text(&p["pipeline"])),
        column("TOOL", |p| text(&p["tool"])),
        column("STEPS", |p| p["steps"].as_array().map_or(0, Vec::len).to_string()),
        column("TOOLS", |p| p["tools"].as_array().map_or(0, Vec::len).to_string()),
        column("RUNNING", |p| text(&p["running"])),
        column("STATE", |p| match (&p["enabled"], &p["refusing"]) {
            (Value::Bool(false), _) => "disabled".to_owned(),
            (_, Value::String(why)) => format!("refusing: {why}"),
            _ => match p["unmatched"].as_array().map(|all| all.iter().map(text).collect::<Vec<_>>().join(", ")) {
                Some(globs) if !globs.is_empty() => format!("ready; no tool matches {globs}"),
                _ => "ready".to_owned(),
            },
        }),
        wide("MODE", |p| text(&p["mode"])),
        wide("MODELS", models),
        wide("SECONDS", |p| text(&p["budgets"]["timeoutSeconds"])),
    ];
    print_list(args.output, &json!({"items": items}), &items, &columns)
}

async fn explain(args: &PipelineArgs) -> anyhow::Result<()> {
    let mut path = format!("/api/v1/pipelines/{}", encode(&args.name));
    if let Some(arguments) = &args.arguments {
        path.push_str(&format!("?arguments={}", encode(arguments)));
    }
    let ShowArgs { admin, output } = &args.show;
    let pipeline = match get(admin, &path).await {
        Err(error) if error.downcast_ref::<ApiError>().is_some_and(|error| error.reason == "PipelineNotFound") => {
            check_pipeline(admin, Some(&args.name), &[]).await?;
            return Err(error);
        }
        answered => answered?,
    };
    if matches!(output, ListFormat::Table | ListFormat::Wide) {
        head(&pipeline).iter().try_for_each(|line| print_line(&harmless(line)))?;
    }
    let steps = pipeline["steps"].as_array().cloned().unwrap_or_default();
    let columns = [
        column("STEP", |s| text(&s["name"])),
        column("TYPE", |s| {
            if s["enabled"] == false { format!("{} (disabled)", text(&s["type"])) } else { text(&s["type"]) }
        }),
        column("RUNS", |s| text(if s["plugin"].is_null() { &s["modelRole"] } else { &s["plugin"] })),
        column("THEN", then),
        column("AFTER FAILURE", |s| match (&s["type"], &s["nextOnFailure"]) {
            (Value::String(kind), _) if kind == "phase" => "goes on".to_owned(),
            (_, Value::Null) => "fails".to_owned(),
            (_, agent) => text(agent),
        }),
        wide("LOOP", |s| match &s["loopCondition"] {
            Value::Null => String::new(),
            condition => format!("to {} while {}", text(&s["loopBackTo"]), text(condition)),
        }),
    ];
    print_list(*output, &pipeline, &steps, &columns)
}

/// What follows a step that has succeeded.
fn then(step: &Value) -> String {
    match (&step["before"], &step["after"], &step["nextOnSuccess"]) {
        (Value::String(agent), ..) => agent.clone(),
        (_, Value::String(_), _) => String::new(),
        (_, _, Value::String(agent)) => agent.clone(),
        _ => "ends".to_owned(),
    }
}

/// Returns the lines before the table of steps.
fn head(pipeline: &Value) -> Vec<String> {
    let budgets = &pipeline["budgets"];
    let mut lines = vec![format!("{}: tool {}", text(&pipeline["pipeline"]), text(&pipeline["tool"]))];
    lines.extend(pipeline["refusing"].as_str().map(|why| format!("refuses its calls: {why}")));
    lines.push(format!(
        "limits: {} s, {} agents, {} tool calls, {} requests of models",
        text(&budgets["timeoutSeconds"]),
        text(&budgets["maxIterations"]),
        text(&budgets["maxToolCalls"]),
        text(&budgets["maxLLMCalls"])
    ));
    let lists = [
        ("tools", text(&pipeline["tools"])),
        ("matches no tool now", text(&pipeline["unmatched"])),
        ("models", models(pipeline)),
        ("customizers", text(&pipeline["customizers"])),
        ("prompt providers", text(&pipeline["promptProviders"])),
        ("output type", text(&pipeline["outputType"])),
    ];
    lines.extend(lists.into_iter().filter(|(_, list)| !list.is_empty()).map(|(name, list)| format!("{name}: {list}")));
    let changes = pipeline["customizations"].as_array().into_iter().flatten();
    lines.extend(changes.map(|change| {
        let applies = match change["applies"] {
            Value::Bool(true) => " (applies)",
            Value::Bool(false) => " (does not apply)",
            _ => "",
        };
        match &change["when"] {
            Value::Null => format!("customization {}{applies}", text(&change["name"])),
            when => format!("customization {}{applies}: when {}", text(&change["name"]), text(when)),
        }
    }));
    lines
}

fn models(pipeline: &Value) -> String {
    let models = pipeline["models"].as_array().into_iter().flatten();
    models.map(|model| format!("{}={}", text(&model["role"]), text(&model["model"]))).collect::<Vec<_>>().join(",")
}
