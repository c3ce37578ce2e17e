//! `hawsepipe invocations`: recent invocations of tools.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::admin::{encode, get_raw, list, post};
use super::args::{InvocationsArgs, InvocationsCommand};
use super::invoked::{Images, Invoked, show};
use super::output::{column, print_list, text, wide};

pub async fn invocations(args: InvocationsArgs) -> anyhow::Result<ExitCode> {
    let path = |id: &str| format!("/api/v1/invocations/{}", encode(id));
    let (asked, output) = match &args.command {
        None => return recent(&args).await,
        Some(InvocationsCommand::Get(one)) => {
            let deadline = Duration::from_secs(one.admin.timeout);
            (get_raw(&one.admin, &path(&one.id), deadline).await?, one.output)
        }
        Some(InvocationsCommand::Cancel(one)) => {
            (post(&one.admin, &format!("{}/cancel", path(&one.id)), String::new()).await?, one.output)
        }
    };
    show(&Invoked::read(asked)?, output, Images::Noted)
}

async fn recent(args: &InvocationsArgs) -> anyhow::Result<ExitCode> {
    let items = list(&args.admin, "/api/v1/invocations", &[], args.limit as usize).await?;
    let columns = [
        column("SUBMITTED", |i| text(&i["submittedAt"])),
        column("SERVER", |i| text(&i["serverId"])),
        column("TOOL", |i| text(&i["toolName"])),
        column("STATUS", |i| text(&i["status"])),
        column("MS", |i| i["result"]["executionDuration"].as_f64().map(|ms| format!("{ms:.1}")).unwrap_or_default()),
        column("SOURCE", |i| text(&i["source"])),
        column("DOCUMENT", |i| match &i["sectionLine"] {
            line if line.is_u64() => format!("{}:{line}", text(&i["documentPath"])),
            _ => text(&i["documentPath"]),
        }),
        column("ERROR", |i| text(&i["error"]["message"]).lines().next().unwrap_or_default().to_owned()),
        wide("TYPE", |i| text(&i["result"]["contentType"])),
        wide("RETRIES", |i| format!("{}/{}", i["retryAttempt"], i["maxRetries"])),
        wide("TOKENS", |i| text(&i["result"]["tokensUsed"])),
        wide("ID", |i| text(&i["id"])),
    ];
    print_list(args.output, &json!({"items": items}), &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}
