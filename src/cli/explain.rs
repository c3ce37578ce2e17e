//! The command `hawsepipe explain`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::{encode, get};
use super::args::ExplainArgs;
use super::formats::ListFormat;
use super::output::{column, harmless, print_line, print_list, text, wide};
use super::validate::directory;
use crate::domain::identity::Identity;
use crate::domain::section::Place;
use crate::engine::views::asked_access::AskedCall;
use crate::engine::views::explain::explain_plan;
use crate::engine::views::sections::SectionExplanation;
use crate::source::CompiledManifests;

pub async fn explain(args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let (output, of_section) = (args.output, args.tool.is_none());
    let explanation = if args.files.is_empty() { of_gateway(&args).await? } else { of_files(args).await? };
    if of_section { print_section(output, &explanation) } else { print_tool(output, &explanation) }
}

async fn of_gateway(args: &ExplainArgs) -> anyhow::Result<Value> {
    let ExplainArgs { tool, section, client, arguments, annotations, .. } = args;
    let names = [
        ("tool", tool),
        ("section", section),
        ("client", client),
        ("arguments", arguments),
        ("annotations", annotations),
    ];
    let named = names.iter().filter_map(|(name, value)| Some(format!("{name}={}&", encode(value.as_deref()?))));
    let path = format!("/api/v1/explain?{}method={}", named.collect::<String>(), encode(args.method.as_str()));
    get(&args.admin, &path).await
}

async fn of_files(args: ExplainArgs) -> anyhow::Result<Value> {
    let place = args.section.as_deref().map(Place::of_argument).transpose().map_err(anyhow::Error::msg)?;
    let CompiledManifests { plan, problems, secrets, .. } = directory(args.files, args.options)?.read(None).await?;
    let Some(tool) = args.tool else { return Ok(json!(place.map(|place| SectionExplanation::of(&plan, &place)))) };
    let bindings = plan.clone();
    let client = args.client.as_deref().map(Identity::described).transpose().map_err(anyhow::Error::msg)?;
    let call = AskedCall::read(args.arguments, args.annotations.as_deref()).map_err(anyhow::Error::msg)?;
    let client = client.as_ref().map(|client| call.by(client));
    let explained = explain_plan(plan, &problems, &secrets, &tool, args.method, client);
    let mut explained = explained.map_err(anyhow::Error::msg)?;
    if let Some(place) = place {
        SectionExplanation::note(&bindings, &place, &mut explained);
    }
    Ok(json!(explained))
}

/// Prints which binding counts at a place.
fn print_section(output: ListFormat, explanation: &Value) -> anyhow::Result<ExitCode> {
    let covering = explanation["covering"].as_array().cloned().unwrap_or_default();
    if matches!(output, ListFormat::Table | ListFormat::Wide) {
        let visible: Vec<_> = explanation["upstreams"].as_array().into_iter().flatten().map(text).collect();
        let visible = if visible.is_empty() { "nothing".to_owned() } else { visible.join(", ") };
        let why = explanation["refusing"].as_str().map(|why| format!(" ({why})")).unwrap_or_default();
        print_line(&harmless(&format!("{}: visible is {visible}{why}", text(&explanation["place"]))))?;
        if covering.is_empty() {
            print_line("no SectionBinding covers it")?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    let columns = [
        column("BINDING", |b| text(&b["binding"])),
        column("DOCUMENT", |b| text(&b["document"])),
        column("SECTION", |b| text(&b["section"])),
        column("UPSTREAM", |b| text(&b["upstream"])),
        column("COUNTS", |b| if b["counts"] == true { "yes".to_owned() } else { "no".to_owned() }),
    ];
    print_list(output, explanation, &covering, &columns)?;
    Ok(ExitCode::SUCCESS)
}

fn print_tool(output: ListFormat, explanation: &Value) -> anyhow::Result<ExitCode> {
    let rows = rows(explanation);
    let code = explanation.get("access").map_or(ExitCode::SUCCESS, |access| {
        access_code(explanation["withheld"].is_string(), access["allowed"].as_bool())
    });
    if matches!(output, ListFormat::Table | ListFormat::Wide) {
        head(explanation).iter().try_for_each(|line| print_line(&harmless(line)))?;
        if rows.is_empty() {
            return Ok(code);
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
    print_list(output, explanation, &rows, &columns)?;
    Ok(code)
}

/// Returns the exit code for what the rules mean: 1 if no call is allowed, 2 if that is not decided.
pub(super) fn access_code(is_withheld: bool, allowed: Option<bool>) -> ExitCode {
    match allowed {
        _ if is_withheld => ExitCode::FAILURE,
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => ExitCode::from(2),
    }
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
    lines.extend(explanation.get("access").into_iter().flat_map(access));
    lines.extend(explanation["notes"].as_array().into_iter().flatten().map(text));
    lines
}

/// Returns the lines about what the rules mean for a client.
pub(super) fn access(explained: &Value) -> Vec<String> {
    let decision = format!("{}: {}", text(&explained["subject"]), text(&explained["decision"]));
    let rules = explained["rules"].as_array().into_iter().flatten();
    let rules = rules.map(|it| format!("  {} {}: {}", text(&it["effect"]), text(&it["rule"]), text(&it["outcome"])));
    std::iter::once(decision).chain(rules).collect()
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
