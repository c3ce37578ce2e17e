//! The command `hawsepipe tools`.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use super::admin::{encode, get, list};
use super::args::{PinArgs, ToolsArgs, ToolsCommand};
use super::formats::{DataFormat, ModelFormat};
use super::known::check_upstream;
use super::output::{column, print_line, print_list, text, wide};

/// The most tools that `spec.pinning.approved` can have.
const MAX_APPROVED: usize = 512;

pub async fn tools(args: ToolsArgs) -> anyhow::Result<ExitCode> {
    if let Some(ToolsCommand::Pin(args)) = args.command {
        return pin(args).await;
    }
    if let Some(section) = &args.section {
        return context(&args, section).await;
    }
    let items = list(&args.show.admin, "/api/v1/tools", &[], usize::MAX).await?;
    if let Some(ModelFormat::Openai) = args.format {
        let offered = items.into_iter().filter(|tool| tool["forPipelines"] == false);
        return print_functions(&offered.collect::<Vec<_>>());
    }
    let columns = [
        column("NAME", |t| match &t["name"] {
            Value::Null => format!("({}/{})", text(&t["upstream"]), text(&t["upstreamName"])),
            name => text(name),
        }),
        column("UPSTREAM", |t| text(&t["upstream"])),
        column("CHAINS", |t| text(&t["chains"])),
        column("DESCRIPTION", |t| first_line(&text(&t["description"]), 60)),
        wide("OFFERED TO", |t| if t["forPipelines"] == true { "Pipelines".into() } else { "Clients".into() }),
        wide("SERVER'S NAME", |t| text(&t["upstreamName"])),
        wide("SCHEMA", |t| text(&t["schemaProblem"])),
    ];
    print_list(args.show.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the tools that a model can use at a place in a document.
async fn context(args: &ToolsArgs, section: &str) -> anyhow::Result<ExitCode> {
    let context = get(&args.show.admin, &format!("/api/v1/tools?section={}", encode(section))).await?;
    let tools = context["tools"].as_array().cloned().unwrap_or_default();
    if let Some(ModelFormat::Openai) = args.format {
        return print_functions(&tools);
    }
    let columns = [
        column("NAME", |t| text(&t["name"])),
        column("SERVER", |t| text(&t["serverName"])),
        column("TOOL", |t| text(&t["toolName"])),
        column("DESCRIPTION", |t| first_line(&text(&t["description"]), 60)),
    ];
    print_list(args.show.output, &context, &tools, &columns)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a tool as a function of OpenAI's API.
/// Prints the tools that have a name at the endpoint for all upstreams.
fn print_functions(tools: &[Value]) -> anyhow::Result<ExitCode> {
    let named = tools.iter().filter(|tool| tool["name"].is_string());
    print_line(&serde_json::to_string_pretty(&named.map(function).collect::<Vec<_>>())?)?;
    Ok(ExitCode::SUCCESS)
}

fn function(tool: &Value) -> Value {
    json!({"type": "function", "function": {
        "name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"],
    }})
}

/// Prints the list of the definitions that an upstream lists now.
async fn pin(args: PinArgs) -> anyhow::Result<ExitCode> {
    let items = list(&args.admin, "/api/v1/pins", &[("upstream", Some(&args.upstream))], MAX_APPROVED + 1).await?;
    check_upstream(&args.admin, Some(&args.upstream), &items).await?;
    if items.is_empty() {
        bail!("upstream {} lists no tools: `hawsepipe status` shows its state", args.upstream);
    }
    if items.len() > MAX_APPROVED {
        bail!(
            "upstream {} lists more than {MAX_APPROVED} tools, which are the most that can be approved",
            args.upstream
        );
    }
    let approved: Vec<_> = items.iter().map(|tool| json!({"name": tool["name"], "sha256": tool["sha256"]})).collect();
    let pinning = json!({"approved": approved});
    print_line(&match args.output {
        DataFormat::Json => serde_json::to_string_pretty(&pinning)?,
        DataFormat::Yaml => serde_saphyr::to_string(&pinning)?.trim_end().to_owned(),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn first_line(text: &str, length: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(length).collect();
    if cut.len() < line.len() { format!("{cut}...") } else { cut }
}
