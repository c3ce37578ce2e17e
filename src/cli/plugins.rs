//! The command `hawsepipe plugins`.

use std::process::ExitCode;

use serde_json::json;

use super::admin::list;
use super::args::ShowArgs;
use super::output::print_list;
use super::status::plugin_columns;

pub async fn plugins(args: ShowArgs) -> anyhow::Result<ExitCode> {
    let items = list(&args.admin, "/api/v1/plugins", &[], usize::MAX).await?;
    print_list(args.output, &json!({"items": items}), &items, &plugin_columns())?;
    Ok(ExitCode::SUCCESS)
}
