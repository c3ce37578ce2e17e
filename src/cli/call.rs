//! `hawsepipe call`: makes one call with a minimal MCP client.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::address::MCP_PORT;
use super::args::CallArgs;
use super::formats::ResultFormat;
use super::mcp_client::{MCP_PATH, McpAnswer, McpClient};
use super::ordered_json;
use super::output::{Colour, column, outcome_text, paint, print_line, print_list, say, text};
use crate::api::check::nearest;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::INVALID_PARAMS;

pub async fn call(args: CallArgs) -> anyhow::Result<ExitCode> {
    let mut params = RawObject::default();
    params.set("name", to_raw(&args.tool));
    params.set("arguments", arguments(&args.arguments)?);
    let mut meta = json!({});
    if args.trace {
        meta["hawsepipe.dev/trace"] = json!(true);
    }
    if let Some(query) = &args.user_query {
        meta["hawsepipe.dev/userQuery"] = json!(query);
    }
    if let Some(tokens) = args.max_tokens {
        meta["hawsepipe.dev/maxTokens"] = json!(tokens);
    }
    let client = McpClient { url: args.url.url(MCP_PORT, MCP_PATH), silence: Duration::from_secs(args.timeout) };
    match client.request("tools/call", Some(&args.tool), params, meta).await? {
        McpAnswer::Result(result) => show(&args, &result),
        McpAnswer::Error { code, message } => {
            let hint = if code == INVALID_PARAMS { did_you_mean(&client, &args.tool).await } else { String::new() };
            say(&format!("Error: {message} ({code}){hint}"));
            Ok(ExitCode::from(2))
        }
    }
}

/// Returns a hint with the tool name that is most similar to `name`. The hint is empty if no name is similar, the tool
/// exists, or the tools cannot be listed.
async fn did_you_mean(client: &McpClient, name: &str) -> String {
    let names = client.tool_names().await.unwrap_or_default();
    let near = nearest(name, names.iter().map(String::as_str)).filter(|near| *near != name);
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// Returns the JSON of the arguments unchanged. Checks only that it is a JSON object; the gateway checks the rest.
fn arguments(written: &str) -> anyhow::Result<Box<RawValue>> {
    let mut read = String::new();
    let written = if written == "-" {
        std::io::stdin().read_to_string(&mut read).context("cannot read standard input")?;
        &read
    } else {
        written
    };
    let value: Box<RawValue> = serde_json::from_str(written).context("the arguments are not JSON")?;
    if !value.get().starts_with('{') {
        bail!("the arguments must be a JSON object such as '{{\"message\": \"hi\"}}', not {:.80}", value.get());
    }
    Ok(value)
}

fn show(args: &CallArgs, result: &RawValue) -> anyhow::Result<ExitCode> {
    let read: Value = serde_json::from_str(result.get())?;
    match args.output {
        ResultFormat::Json => print_line(&ordered_json::to_json(result)?)?,
        ResultFormat::Yaml => print_line(ordered_json::to_yaml(result)?.trim_end())?,
        ResultFormat::Text => show_text(args, &read)?,
    }
    Ok(if read["isError"] == true { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show_text(args: &CallArgs, result: &Value) -> anyhow::Result<()> {
    for block in result["content"].as_array().into_iter().flatten() {
        match &block["text"] {
            Value::String(text) if result["isError"] == true => print_line(&paint(Colour::Red, text))?,
            Value::String(text) => print_line(text)?,
            _ => print_line(&format!("[{} block; -o json shows it]", text(&block["type"])))?,
        }
    }
    let Some(entries) = result["_meta"]["hawsepipe.dev/trace"].as_array().filter(|_| args.trace) else { return Ok(()) };
    print_line("")?;
    let columns = [
        column("PHASE", |e| text(&e["phase"])),
        column("CHAIN", |e| text(&e["chain"])),
        column("PLUGIN", |e| text(&e["plugin"])),
        column("OUTCOME", |e| outcome_text(e, "outcome")),
        column("CHANGED", |e| text(&e["changed"])),
        column("MS", |e| format!("{:.2}", e["durationMs"].as_f64().unwrap_or_default())),
        column("SAYS", |e| text(&e["metadata"])),
    ];
    print_list(super::formats::ListFormat::Table, &Value::Null, entries, &columns)
}
