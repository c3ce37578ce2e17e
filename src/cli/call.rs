//! `hawsepipe call`: makes one call with a minimal MCP client.

use std::fmt::Display;
use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::address::MCP_PORT;
use super::args::CallArgs;
use super::codeblock;
use super::formats::ResultFormat;
use super::from_text;
use super::mcp_client::{MCP_PATH, McpAnswer, McpClient};
use super::ordered_json;
use super::output::{
    Colour, column, harmless, harmless_lines, outcome_text, paint, print, print_line, print_list, say, says, shown,
    text,
};
use crate::domain::question::{INPUT_REQUESTS, INPUT_REQUIRED, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};

/// The exit code of a call whose server asks for input before it answers.
const ASKED: u8 = 3;

pub async fn call(args: CallArgs) -> anyhow::Result<ExitCode> {
    if let Some(place) = &args.codeblock {
        return codeblock::call(&args, place).await;
    }
    if let Some(file) = &args.from_text {
        return from_text::call(&args, file).await;
    }
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
    let client = McpClient {
        url: args.url.url(MCP_PORT, MCP_PATH),
        silence: Duration::from_secs(args.timeout),
        headers: args.credential.headers("HAWSEPIPE_TOKEN")?,
    };
    match client.request("tools/call", args.tool.as_deref(), params, meta).await? {
        McpAnswer::Result(result) => show(&args, &result),
        McpAnswer::Error { code, message, raw } => {
            show_error(&args, &raw, &format!("Error: {} ({code})", harmless_lines(&message)))
        }
    }
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
    // What a client gets is shown although not all of it can be read, such as numbers that are out of range.
    let read = match RawObject::parse(result.get()) {
        Ok(read) => read,
        Err(error) => return show_unreadable(args, result, &error),
    };
    let is_error = read.get("isError").is_some_and(|flag| flag.get() == "true");
    let asked = questions(&read);
    match args.output {
        ResultFormat::Json => print_line(&as_json(result))?,
        ResultFormat::Yaml => print_line(ordered_json::to_yaml(result)?.trim_end())?,
        ResultFormat::Text if asked.is_some() => {}
        ResultFormat::Text => show_text(args, &read, is_error)?,
    }
    if let Some(asked) = asked {
        say(
            "Error: the server asks for input before it answers, which this command does not give (-o json shows all of it):",
        );
        asked.iter().for_each(|question| say(&format!("  {question}")));
        return Ok(ExitCode::from(ASKED));
    }
    Ok(if is_error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Shows a result whose members cannot be told, so that it is not known whether the tool failed.
fn show_unreadable(args: &CallArgs, result: &RawValue, error: &dyn Display) -> anyhow::Result<ExitCode> {
    match args.output {
        ResultFormat::Json => print_line(&as_json(result))?,
        ResultFormat::Yaml => print_line(ordered_json::to_yaml(result)?.trim_end())?,
        ResultFormat::Text => {}
    }
    say(&format!("Error: the result cannot be read: {error}; -o json shows it"));
    Ok(ExitCode::from(2))
}

/// Returns a line for each thing that the server asks for: the method, and its message to the user or its URL where it has
/// these. `None` if the result asks for nothing.
fn questions(result: &RawObject) -> Option<Vec<String>> {
    result.get_str(RESULT_TYPE).filter(|kind| kind == INPUT_REQUIRED)?;
    let parsed = |raw: &RawValue| RawObject::parse(raw.get()).ok();
    let requests = result.get(INPUT_REQUESTS).and_then(parsed).unwrap_or_default();
    let line = |(name, request): (&str, &RawValue)| {
        let request = parsed(request).unwrap_or_default();
        let params = request.get("params").and_then(parsed).unwrap_or_default();
        let told = ["message", "url"].into_iter().filter_map(|member| params.get_str(member));
        let parts = [request.get_str("method").unwrap_or_else(|| name.to_owned())].into_iter().chain(told);
        harmless(&parts.collect::<Vec<_>>().join(": "))
    };
    Some(requests.iter().map(line).collect())
}

/// Returns indented JSON, or the JSON as it came where it cannot be read.
fn as_json(raw: &RawValue) -> String {
    ordered_json::to_json(raw).unwrap_or_else(|_| raw.get().to_owned())
}

/// Prints an error as JSON to standard output, if that is asked for, and as a line to standard error.
fn show_error(args: &CallArgs, error: &RawValue, line: &str) -> anyhow::Result<ExitCode> {
    let mut whole = RawObject::default();
    whole.set("error", error.to_owned());
    match args.output {
        ResultFormat::Json => print_line(&as_json(&whole.to_raw()))?,
        ResultFormat::Yaml => print_line(ordered_json::to_yaml(&whole.to_raw())?.trim_end())?,
        ResultFormat::Text => {
            let error = RawObject::parse(error.get()).unwrap_or_default();
            show_trace(args, error.get("data"), "")?;
        }
    }
    say(line);
    Ok(ExitCode::from(2))
}

fn show_text(args: &CallArgs, result: &RawObject, is_error: bool) -> anyhow::Result<()> {
    let blocks: Vec<&RawValue> = parsed(result.get("content"));
    for block in &blocks {
        print_line(&block_text(block, is_error))?;
    }
    if blocks.is_empty() {
        print_line(&format!("[{}; -o json shows it]", without_content(result)))?;
    }
    show_trace(args, result.get("_meta"), "\n")
}

/// Prints what each entry did, if that is asked for, below `gap`. `details` has the trace: the result's `_meta`, or the error's
/// `data`.
fn show_trace(args: &CallArgs, details: Option<&RawValue>, gap: &str) -> anyhow::Result<()> {
    let details = details.and_then(|details| RawObject::parse(details.get()).ok()).unwrap_or_default();
    let entries: Vec<Value> = parsed(details.get("hawsepipe.dev/trace"));
    if !args.trace || entries.is_empty() {
        return Ok(());
    }
    print(gap)?;
    let columns = [
        column("PHASE", |e| text(&e["phase"])),
        column("CHAIN", |e| text(&e["chain"])),
        column("PLUGIN", |e| text(&e["plugin"])),
        column("OUTCOME", |e| outcome_text(e, "outcome")),
        column("CHANGED", |e| text(&e["changed"])),
        column("MS", |e| format!("{:.2}", e["durationMs"].as_f64().unwrap_or_default())),
        column("SAYS", |e| says(e, "error")),
    ];
    print_list(super::formats::ListFormat::Table, &Value::Null, &entries, &columns)
}

/// Returns the items of a list; none if it is not a list of these.
fn parsed<'a, T: Deserialize<'a>>(list: Option<&'a RawValue>) -> Vec<T> {
    list.and_then(|list| serde_json::from_str(list.get()).ok()).unwrap_or_default()
}

/// Returns the text of a content block: as JSON where it is no valid text, such as half of a surrogate pair.
fn block_text(block: &RawValue, is_error: bool) -> String {
    let block = RawObject::parse(block.get()).unwrap_or_default();
    let text = block.get("text").filter(|text| text.get().starts_with('"'));
    let Some(raw) = text else {
        return shown(format!("[{} block; -o json shows it]", block.get_str("type").unwrap_or_default()));
    };
    let text = shown(block.get_str("text").unwrap_or_else(|| raw.get().to_owned()));
    if is_error { paint(Colour::Red, &text) } else { text }
}

/// Says what a result is that has no content.
fn without_content(result: &RawObject) -> &'static str {
    match result.get_str(RESULT_TYPE).as_deref() {
        Some("task") => "the server answers later, in a task",
        _ => "a result without content",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_asks_for_is_one_line_each() {
        let of = |json: &str| questions(&RawObject::parse(json).unwrap());
        assert_eq!(of(r#"{"content":[],"resultType":"complete"}"#), None);
        let asked = r#"{"resultType":"input_required","requestState":"s","inputRequests":{
            "who":{"method":"elicitation/create","params":{"message":"Who?\n\u001b[31m","requestedSchema":{}}},
            "page":{"method":"elicitation/create","params":{"mode":"url","message":"Sign in","url":"https://h/x"}},
            "folders":{"method":"roots/list"}, "odd":7}}"#;
        let lines = [
            "elicitation/create: Who?\u{fffd}\u{fffd}[31m",
            "elicitation/create: Sign in: https://h/x",
            "roots/list",
            "odd",
        ];
        assert_eq!(of(asked).unwrap(), lines);
        assert_eq!(of(r#"{"resultType":"input_required","requestState":"s"}"#), Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_shown_as_it_came() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(block_text(&raw(r#"{"type":"text","text":"a\nb"}"#), false), "a\nb");
        assert_eq!(block_text(&raw(r#"{"type":"text","text":"a\ud800"}"#), false), r#""a\ud800""#);
        assert_eq!(block_text(&raw(r#"{"type":"image","data":""}"#), false), "[image block; -o json shows it]");
        assert_eq!(as_json(&raw(r#"{"n":1e999}"#)), "{\n  \"n\": 1e999\n}");
        assert_eq!(as_json(&raw(r#"{"\ud800":1}"#)), r#"{"\ud800":1}"#);
        assert!(ordered_json::to_yaml(&raw(r#"{"n":1e999}"#)).unwrap().contains("1e999"));
    }
}
