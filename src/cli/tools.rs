//! The command `hawsepipe tools`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::list;
use super::args::ToolsArgs;
use super::output::{column, print_list, text, wide};

pub async fn tools(args: ToolsArgs) -> anyhow::Result<ExitCode> {
    let items = list(&args.admin, "/api/v1/tools", &[], usize::MAX).await?;
    let columns = [
        column("NAME", |t| match &t["name"] {
            Value::Null => format!("({}/{})", text(&t["upstream"]), text(&t["upstreamName"])),
            name => text(name),
        }),
        column("UPSTREAM", |t| text(&t["upstream"])),
        column("CHAINS", |t| text(&t["chains"])),
        column("DESCRIPTION", |t| first_line(&text(&t["description"]), 60)),
        wide("SERVER'S NAME", |t| text(&t["upstreamName"])),
        wide("SCHEMA", |t| text(&t["schemaProblem"])),
    ];
    print_list(args.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

fn first_line(text: &str, length: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(length).collect();
    if cut.len() < line.len() { format!("{cut}...") } else { cut }
}
