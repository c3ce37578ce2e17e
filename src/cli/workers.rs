//! `hawsepipe workers`

use std::process::ExitCode;

use serde_json::Value;

use super::admin::{encode, get};
use super::args::Workers;
use super::output::{column, print_list, text, time, wide};

/// The most workers that one page of the admin API has.
const PAGE: u32 = 1000;

/// Shows the worker processes of a running gateway.
pub async fn workers(args: Workers) -> anyhow::Result<ExitCode> {
    let plugin = args.plugin.as_deref().map_or(String::new(), |name| format!("&plugin={}", encode(name)));
    let answer = get(&args.admin, &format!("/api/v1/workers?limit={PAGE}{plugin}")).await?;
    let items = answer["items"].as_array().cloned().unwrap_or_default();
    let columns = [
        column("PID", |w| text(&w["pid"])),
        column("PLUGIN", |w| text(&w["plugin"])),
        column("STATE", |w| text(&w["state"])),
        column("HEALTHY", |w| text(&w["isHealthy"])),
        column("EXECUTIONS", |w| text(&w["executionCount"])),
        column("SPAWNED", |w| time(&w["spawnedAt"])),
        column("LAST USED", |w| time(&w["lastUsedAt"])),
        column("MEMORY", |w| mebibytes(&w["memoryBytes"])),
        wide("PLUGIN ID", |w| text(&w["pluginId"])),
        wide("REVISION", |w| text(&w["revision"]).chars().take(12).collect()),
    ];
    print_list(args.output, &answer, &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

fn mebibytes(bytes: &Value) -> String {
    bytes.as_f64().map(|bytes| format!("{:.1}Mi", bytes / f64::from(1 << 20))).unwrap_or_default()
}
