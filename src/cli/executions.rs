//! The command `hawsepipe executions`.

use std::process::ExitCode;

use serde_json::Value;

use super::args::ExecutionsArgs;
use super::gateway_pods::{Sources, run_with_sources};
use super::known::{check_plugin, check_upstream};
use super::output::{Column, column, outcome_text, says, text, time, wide};
use super::records::RecordList;

pub async fn executions(args: ExecutionsArgs) -> anyhow::Result<ExitCode> {
    run_with_sources(&args.records, list(&args)).await
}

async fn list(args: &ExecutionsArgs) -> anyhow::Result<ExitCode> {
    let records = &args.records;
    let filters = vec![("outcome", args.status.as_deref())];
    let list = RecordList { args: records, path: "/api/v1/executions", id: "id", filters, columns: columns() };
    let mut sources = Sources::open(records).await?;
    let items = list.read(&mut sources).await?;
    let admin = sources.first().unwrap_or(&records.admin);
    check_plugin(admin, records.plugin.as_deref(), &items).await?;
    check_upstream(admin, records.upstream.as_deref(), &items).await?;
    list.print(items, &mut sources).await?;
    Ok(ExitCode::SUCCESS)
}

fn columns() -> Vec<Column> {
    vec![
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
        wide("PRINCIPAL", |e| text(&e["principal"])),
        wide("IDENTITY", |e| [&e["user"]["method"], &e["user"]["issuer"]].map(text).join(" ").trim().to_owned()),
        wide("SESSION", |e| text(&e["session"])),
        wide("REQUEST", |e| text(&e["requestId"])),
        wide("QUEUE MS", |e| milliseconds(&e["queueMs"])),
        wide("WORKER", |e| text(&e["workerPid"])),
    ]
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map(|ms| format!("{ms:.2}")).unwrap_or_default()
}
