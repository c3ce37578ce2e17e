//! The command `hawsepipe executions`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::list;
use super::args::ExecutionsArgs;
use super::known::check_plugin;
use super::output::{column, outcome_text, print_list, says, text, time, wide};

pub async fn executions(args: ExecutionsArgs) -> anyhow::Result<ExitCode> {
    let limit = args.limit as usize;
    let items = list(&args.admin, "/api/v1/executions", &[("plugin", args.plugin.as_deref())], limit).await?;
    check_plugin(&args.admin, args.plugin.as_deref(), &items).await?;
    let columns = [
        column("STARTED", |e| time(&e["startedAt"])),
        column("PLUGIN", |e| text(&e["plugin"])),
        column("CHAIN", |e| text(&e["chainId"])),
        column("PHASE", |e| text(&e["phase"])),
        column("TOOL", |e| format!("{}/{}", text(&e["upstream"]), text(&e["tool"]))),
        column("STATUS", |e| outcome_text(e, "status")),
        column("REASON", |e| text(&e["reason"])),
        column("MS", |e| milliseconds(&e["durationMs"])),
        column("IN", |e| text(&e["inputSizeBytes"])),
        column("OUT", |e| text(&e["outputSizeBytes"])),
        column("CHANGED", |e| text(&e["changed"])),
        column("SAYS", |e| says(e, "errorMessage")),
        wide("METHOD", |e| text(&e["method"])),
        wide("REQUEST", |e| text(&e["requestId"])),
        wide("QUEUE MS", |e| milliseconds(&e["queueMs"])),
        wide("WORKER", |e| text(&e["workerPid"])),
    ];
    print_list(args.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map(|ms| format!("{ms:.2}")).unwrap_or_default()
}
