//! `hawsepipe snapshot`: prints the plans that an operator compiled for gateways, or the differences between two plans.

mod diff;
mod stored;

use std::process::ExitCode;

use serde_json::{Value, json};

use self::diff::differences;
pub use self::stored::Stored;
use self::stored::indices;
use super::formats::ListFormat;
use super::names::key;
use super::output::{column, print_line, print_list, text, wide};
use crate::api::snapshot::{SnapshotIndex, SnapshotRevision};
use crate::domain::digest;
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::Plan;
use crate::source::cluster::connect;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a gateway, lists the revisions that are kept. With one, prints a plan as its pods run it:
values that may be confidential are hidden, code is told by its digest. Revisions may be cut short.
Needs `list` on gatewaysnapshots.

Examples:
  hawsepipe snapshot
  hawsepipe snapshot mcp/shared
  hawsepipe snapshot shared -n mcp --diff 3f1c             from that revision to the current one
  hawsepipe snapshot shared -n mcp --revision 3f1c --code")]
pub struct SnapshotArgs {
    /// The MCPGateway: NAME or NAMESPACE/NAME. Default: list the revisions of all gateways
    pub gateway: Option<String>,
    /// The namespace of the gateway, or the namespace to list. Default: the namespace of the kubeconfig's context, or
    /// all namespaces for a list
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// The revision to print, or the first characters of its name. Default: the current one
    #[arg(long, value_name = "REV", requires = "gateway")]
    pub revision: Option<String>,
    /// Print what changed since this revision, object by object
    #[arg(long, value_name = "REV", requires = "gateway")]
    pub diff: Option<String>,
    /// Also print the code of the plugins
    #[arg(long, requires = "gateway", conflicts_with = "diff")]
    pub code: bool,
    /// Output format. Default: yaml for a plan, otherwise table
    #[arg(short, long, value_enum)]
    pub output: Option<ListFormat>,
}

/// Lists revisions, prints the plan of one, or compares the plans of two.
pub async fn snapshot(args: SnapshotArgs) -> anyhow::Result<ExitCode> {
    let client = connect().await?;
    let Some(gateway) = &args.gateway else {
        print_revisions(args.output, &indices(client, args.namespace.as_deref()).await?)?;
        return Ok(ExitCode::SUCCESS);
    };
    let key = key(gateway, args.namespace.as_deref(), client.default_namespace())?;
    let stored = Stored::read(client, key).await?;
    let shown = stored.plan(args.revision.as_deref())?;
    match &args.diff {
        Some(from) => print_differences(args.output, &stored.plan(Some(from))?, &shown)?,
        None => print_plan(args.output, shown, args.code)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print_revisions(output: Option<ListFormat>, indices: &[(ObjectKey, SnapshotIndex)]) -> anyhow::Result<()> {
    let all = indices.iter().flat_map(|(key, index)| index.revisions.iter().map(move |one| (key, index, one)));
    let items: Vec<_> = all.map(|(key, index, one)| revision_item(key, one, index.current == one.revision)).collect();
    let columns = [
        column("GATEWAY", |r| format!("{}/{}", text(&r["namespace"]), text(&r["gateway"]))),
        column("REVISION", |r| text(&r["revision"])),
        column("CURRENT", |r| if r["current"] == true { "yes".to_owned() } else { "-".to_owned() }),
        column("CREATED", |r| text(&r["createdTime"])),
        column("OBJECTS", |r| text(&r["objects"])),
        column("SHARDS", |r| text(&r["shards"])),
        column("SIZE", |r| text(&r["sizeBytes"])),
        wide("FORMAT", |r| text(&r["formatVersion"])),
        wide("COMPILED BY", |r| text(&r["compiledBy"])),
    ];
    print_list(output.unwrap_or(ListFormat::Table), &json!({"items": items}), &items, &columns)
}

/// Returns the facts about a revision that are printed. `sizeBytes` is the total size of its shards as uncompressed
/// JSON.
fn revision_item(gateway: &ObjectKey, revision: &SnapshotRevision, current: bool) -> Value {
    json!({
        "namespace": gateway.namespace,
        "gateway": gateway.name,
        "revision": revision.revision,
        "current": current,
        "createdTime": revision.created_time,
        "objects": revision.inputs,
        "shards": revision.shards.len(),
        "sizeBytes": revision.shards.iter().map(|shard| u64::from(shard.size_bytes)).sum::<u64>(),
        "formatVersion": revision.format_version,
        "compiledBy": revision.compiled_by,
    })
}

/// Prints the plan as JSON or YAML, or its objects as a table.
fn print_plan(output: Option<ListFormat>, mut plan: Plan, with_code: bool) -> anyhow::Result<()> {
    plan.hide_values();
    let objects = objects(&plan);
    let mut whole = serde_json::to_value(&plan)?;
    if !with_code {
        let sizes = plan.code.iter().map(|(digest, text)| (digest.clone(), json!(format!("{} bytes", text.len()))));
        whole["code"] = Value::Object(sizes.collect());
    }
    let columns = [
        column("KIND", |o| text(&o["kind"])),
        column("OBJECT", |o| text(&o["object"])),
        column("DIGEST", |o| text(&o["digest"])),
        column("CODE", |o| text(&o["code"])),
    ];
    print_list(output.unwrap_or(ListFormat::Yaml), &whole, &objects, &columns)
}

/// Returns the objects of a plan, each with a digest.
fn objects(plan: &Plan) -> Vec<Value> {
    let object = |kind: Kind, key: &ObjectKey, digest: String| json!({"kind": kind, "object": key.to_string(), "digest": digest});
    let mut all = vec![object(Kind::MCPGateway, &plan.gateway.key, digest::revision(&plan.gateway))];
    all.extend(plan.upstreams.iter().map(|u| object(u.kind(), &u.key, digest::revision(u))));
    all.extend(plan.plugins.iter().map(|plugin| {
        let mut item = object(Kind::Plugin, &plugin.key, digest::revision(plugin));
        item["code"] = json!(format!("{:.12}", plugin.digest));
        item
    }));
    all.extend(plan.chains.iter().map(|c| object(Kind::PluginChain, &c.key, c.revision.clone())));
    all.extend(plan.sections.iter().map(|s| object(Kind::SectionBinding, &s.key, digest::revision(s))));
    all
}

fn print_differences(output: Option<ListFormat>, from: &Plan, to: &Plan) -> anyhow::Result<()> {
    let items: Vec<_> = differences(from, to).iter().map(|difference| json!(difference)).collect();
    let output = output.unwrap_or(ListFormat::Table);
    if items.is_empty() && matches!(output, ListFormat::Table | ListFormat::Wide) {
        return print_line(&format!("revisions {} and {} have the same objects", from.revision, to.revision));
    }
    let columns = [
        column("CHANGE", |d| text(&d["change"])),
        column("KIND", |d| text(&d["kind"])),
        column("OBJECT", |d| text(&d["object"])),
        column("FIELDS", |d| text(&d["fields"])),
        column("CODE", |d| match &d["code"] {
            Value::Null => String::new(),
            code => format!("{:.12} -> {:.12}", text(&code["from"]), text(&code["to"])),
        }),
    ];
    print_list(output, &json!({"from": from.revision, "to": to.revision, "items": items}), &items, &columns)
}
