//! The commands `hawsepipe plugins` and `hawsepipe plugins store`.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::admin::{encode, get, list, not_admin, post};
use super::args::{PluginStoreArgs, PluginsArgs, PluginsCommand, ShowArgs};
use super::output::{column, print_line, print_list, text};
use super::status::plugin_columns;

pub async fn plugins(args: PluginsArgs) -> anyhow::Result<ExitCode> {
    if let Some(PluginsCommand::Store(args)) = args.command {
        return store(args).await;
    }
    let ShowArgs { admin, output } = args.show;
    let items = list(&admin, "/api/v1/plugins", &[("type", args.kind.as_deref())], usize::MAX).await?;
    print_list(output, &json!({"items": items}), &items, &plugin_columns())?;
    Ok(ExitCode::SUCCESS)
}

/// Shows or erases the partitions of a plugin.
async fn store(args: PluginStoreArgs) -> anyhow::Result<ExitCode> {
    let PluginStoreArgs { plugin, principal, conversation, delete, show: ShowArgs { admin, output } } = args;
    let plugin = if plugin.contains('/') { plugin } else { format!("default/{plugin}") };
    if delete {
        let body = json!({"plugin": plugin, "principal": principal, "conversation": conversation});
        let answer: Value = serde_json::from_str(post(&admin, "/api/v1/store/erase", body.to_string()).await?.get())?;
        let erased = answer["erased"].as_u64().ok_or_else(|| not_admin(&admin, "erased"))?;
        print_line(&format!("erased: {erased} partitions of {plugin}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut path = format!("/api/v1/store?plugin={}", encode(&plugin));
    for (name, value) in [("principal", principal), ("conversation", conversation)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encode(&value)));
        }
    }
    let found = get(&admin, &path).await?;
    let items = found["items"].as_array().cloned().ok_or_else(|| not_admin(&admin, "items"))?;
    let columns = [
        column("NAMESPACE", |it| text(&it["namespace"])),
        column("SCOPE", |it| text(&it["scope"])),
        column("PRINCIPAL", |it| text(&it["principal"])),
        column("CONVERSATION", |it| text(&it["conversation"])),
        column("VALUES", |it| text(&it["keys"])),
        column("BYTES", |it| text(&it["bytes"])),
    ];
    print_list(output, &found, &items, &columns)?;
    Ok(ExitCode::SUCCESS)
}
