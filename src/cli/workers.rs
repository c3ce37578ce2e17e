//! The command `hawsepipe workers`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::list;
use super::args::WorkersArgs;
use super::known::check_plugin;
use super::output::{column, print_list, text, time, wide};

pub async fn workers(args: WorkersArgs) -> anyhow::Result<ExitCode> {
    let items = list(&args.show.admin, "/api/v1/workers", &[("plugin", args.plugin.as_deref())], usize::MAX).await?;
    check_plugin(&args.show.admin, args.plugin.as_deref(), &items).await?;
    let columns = [
        column("PID", |w| text(&w["pid"])),
        column("PLUGIN", |w| text(&w["plugin"])),
        column("STATE", |w| text(&w["state"])),
        column("HEALTHY", |w| text(&w["isHealthy"])),
        column("EXECUTIONS", |w| text(&w["executionCount"])),
        column("SPAWNED", |w| time(&w["spawnedAt"])),
        column("LAST USED", |w| time(&w["lastUsedAt"])),
        column("PRIVATE MEMORY", |w| mebibytes(&w["memoryBytes"])),
        wide("PLUGIN ID", |w| text(&w["pluginId"])),
        wide("REVISION", |w| text(&w["revision"]).chars().take(12).collect()),
    ];
    print_list(args.show.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}

fn mebibytes(bytes: &Value) -> String {
    bytes.as_f64().map(|bytes| format!("{:.1}Mi", bytes / f64::from(1 << 20))).unwrap_or_default()
}
