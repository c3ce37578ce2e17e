//! `hawsepipe rollback`: pins a gateway to a revision, or lets it follow edits again.

use std::process::ExitCode;

use anyhow::{Context, bail};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::names::key;
use super::output::print_line;
use super::refused::Asked;
use super::snapshot::Stored;
use crate::api::gateway::MCPGateway;
use crate::domain::ids::ObjectKey;
use crate::source::cluster::connect;

/// The field manager that owns `spec.pinnedRevision` (server-side apply), so that the field can be removed again.
const FIELD_MANAGER: &str = "hawsepipe-rollback";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sets spec.pinnedRevision. Edits are compiled and wait until the gateway is let go with --unpin.
Needs `get` and `patch` on mcpgateways, and `list` on gatewaysnapshots.

Examples:
  hawsepipe snapshot -n mcp                 which revisions are kept
  hawsepipe rollback mcp/shared 3f1c
  hawsepipe rollback mcp/shared --unpin")]
pub struct RollbackArgs {
    /// The MCPGateway: NAME or NAMESPACE/NAME
    pub gateway: String,
    /// The revision, or the first characters of its name
    #[arg(value_name = "REV", required_unless_present = "unpin", conflicts_with = "unpin")]
    pub revision: Option<String>,
    /// The namespace of the gateway. Default: the namespace of the kubeconfig's context
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Let the gateway follow edits again
    #[arg(long)]
    pub unpin: bool,
}

pub async fn rollback(args: RollbackArgs) -> anyhow::Result<ExitCode> {
    let client = connect().await?;
    let key = key(&args.gateway, args.namespace.as_deref(), client.default_namespace())?;
    match &args.revision {
        Some(wanted) => {
            let stored = Stored::read(client.clone(), key.clone()).await?;
            let revision = stored.revision(Some(wanted))?.revision.clone();
            apply(client, &key, json!({"pinnedRevision": revision})).await?;
            print_line(&format!("MCPGateway {key} stays at revision {revision}; --unpin has it follow edits again"))?;
        }
        None => {
            let left = apply(client, &key, Value::Null).await?;
            if let Some(revision) = left.pointer("/spec/pinnedRevision").and_then(Value::as_str) {
                bail!(
                    "MCPGateway {key} stays at revision {revision}: its spec.pinnedRevision was not set by `hawsepipe \
                     rollback`; take it out where it is written"
                );
            }
            print_line(&format!("MCPGateway {key} follows edits"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Applies `spec` under the field manager [`FIELD_MANAGER`], and returns the resulting object. A null `spec` removes
/// the fields that this manager set.
async fn apply(client: Client, key: &ObjectKey, spec: Value) -> anyhow::Result<Value> {
    let resource = ApiResource::erase::<MCPGateway>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client, &key.namespace, &resource);
    let asked = |verbs: &'static [&'static str]| Asked::of::<MCPGateway>(verbs, Some(&key.namespace));
    let unread = |error| asked(&["get", "patch"]).failed(&format!("MCPGateway {key} cannot be read"), &error);
    let there = api.get_opt(&key.name).await.map_err(unread)?;
    let there = there.with_context(|| format!("there is no MCPGateway {key}"))?;
    let mut ours = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        // Without the uid, this request would create the object again if it was deleted in the meantime.
        "metadata": {"name": key.name, "uid": there.uid()},
    });
    if !spec.is_null() {
        ours["spec"] = spec;
    }
    let applied = api.patch(&key.name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(&ours)).await;
    let unset = format!("spec.pinnedRevision of MCPGateway {key} cannot be set");
    let applied = applied.map_err(|error| asked(&["patch", "get"]).failed(&unset, &error))?;
    Ok(serde_json::to_value(applied)?)
}
