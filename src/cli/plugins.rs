//! The command `hawsepipe plugins`.

use std::process::ExitCode;

use serde_json::json;

use super::admin::list;
use super::args::{PluginsArgs, ShowArgs};
use super::output::print_list;
use super::status::plugin_columns;

pub async fn plugins(args: PluginsArgs) -> anyhow::Result<ExitCode> {
    let ShowArgs { admin, output } = args.show;
    let items = list(&admin, "/api/v1/plugins", &[("type", args.kind.as_deref())], usize::MAX).await?;
    print_list(output, &json!({"items": items}), &items, &plugin_columns())?;
    Ok(ExitCode::SUCCESS)
}
