//! `hawsepipe call`: a stateless MCP client for one call.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, bail};
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

use super::admin::send;
use super::args::{Call, ResultFormat};
use super::output::{Colour, column, paint, print_line, print_list, text};
use crate::domain::version::MODERN_VERSION;

/// Calls a tool and prints what came back.
pub async fn call(args: Call) -> anyhow::Result<ExitCode> {
    let arguments = arguments(&args.arguments)?;
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "hawsepipe", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    if args.trace {
        meta["hawsepipe.dev/trace"] = json!(true);
    }
    if let Some(query) = &args.user_query {
        meta["hawsepipe.dev/userQuery"] = json!(query);
    }
    if let Some(tokens) = args.max_tokens {
        meta["hawsepipe.dev/maxTokens"] = json!(tokens);
    }
    let params = json!({"name": args.tool, "arguments": arguments, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = Request::post(&args.url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", MODERN_VERSION)
        .header("mcp-method", "tools/call")
        .header("mcp-name", &args.tool)
        .body(Full::from(body.to_string()))
        .with_context(|| format!("{} is no URL", args.url))?;
    let answer = send(request).await;
    let (status, body) = answer.with_context(|| {
        format!(
            "no gateway answers at {}. Start one with `hawsepipe run -f PATH`, or name its address: --url URL",
            args.url
        )
    })?;
    let answer = read_answer(&body).with_context(|| format!("{} answered with HTTP {status}, no MCP", args.url))?;
    if let Some(error) = answer.get("error") {
        eprintln!("Error: {} ({})", text(&error["message"]), error["code"]);
        return Ok(ExitCode::from(2));
    }
    show(&args, &answer["result"])
}

fn arguments(written: &str) -> anyhow::Result<Value> {
    let mut read = String::new();
    let written = if written == "-" {
        std::io::stdin().read_to_string(&mut read).context("cannot read standard input")?;
        &read
    } else {
        written
    };
    let value: Value = serde_json::from_str(written).context("the arguments are no JSON")?;
    if !value.is_object() {
        bail!("the arguments must be a JSON object such as '{{\"message\": \"hi\"}}', not {value}");
    }
    Ok(value)
}

/// The JSON-RPC answer of a JSON body, or of the last event of a stream.
fn read_answer(body: &str) -> anyhow::Result<Value> {
    let data = body.lines().filter_map(|line| line.strip_prefix("data:")).next_back();
    Ok(serde_json::from_str(data.unwrap_or(body))?)
}

fn show(args: &Call, result: &Value) -> anyhow::Result<ExitCode> {
    match args.output {
        ResultFormat::Json => print_line(&serde_json::to_string_pretty(result)?)?,
        ResultFormat::Yaml => print_line(serde_saphyr::to_string(result)?.trim_end())?,
        ResultFormat::Text => show_text(args, result)?,
    }
    Ok(if result["isError"] == true { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show_text(args: &Call, result: &Value) -> anyhow::Result<()> {
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
        column("OUTCOME", |e| text(&e["outcome"])),
        column("CHANGED", |e| text(&e["changed"])),
        column("MS", |e| format!("{:.2}", e["durationMs"].as_f64().unwrap_or_default())),
        column("SAYS", |e| text(&e["metadata"])),
    ];
    print_list(super::args::Format::Table, &Value::Null, entries, &columns)
}
