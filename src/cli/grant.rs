//! `hawsepipe grant`: prints RBAC objects that let a gateway read Secrets in other namespaces.
//!
//! The operator cannot read Secrets, so it cannot grant access to them. The owner of the Secrets must apply the
//! output.

mod names;
mod rights;

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};

use self::names::{key, object};
use self::rights::{SecretNames, manifests};
use super::output::print_line;
use super::refused::Asked;
use crate::api::canonical;
use crate::api::lower::{Lowered, ManifestSource, document};
use crate::api::plugin::Plugin;
use crate::api::upstream::MCPUpstream;
use crate::config::input::{InputValue, NamedInput, PluginInput, UpstreamInput};
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::Problem;
use crate::source::cluster::connect;
use crate::source::{LoadedManifests, load, read_files};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A gateway has the Secrets of its own namespace as they are mounted. Those that an upstream or a
plugin of another namespace names are their owner's to give: this prints a Role and a RoleBinding
for exactly these Secrets and the gateway's service account. What is applied takes the place of what
the gateway was granted in that namespace before: name all objects whose Secrets it is to read.

Needs `get` on the objects, or their manifests.

Examples:
  hawsepipe grant finance/ledger --to mcp/shared | kubectl apply -f -
  hawsepipe grant finance/ledger plugin/finance/redact --to mcp/shared
  hawsepipe grant finance/ledger --to mcp/shared -f finance.yaml")]
pub struct GrantArgs {
    /// An object that refers to Secrets: [KIND/]NAMESPACE/NAME; several can be given. KIND is mcpupstream or plugin.
    /// Default: mcpupstream
    #[arg(value_name = "OBJECT", required = true, value_parser = object)]
    pub objects: Vec<ObjectId>,
    /// The MCPGateway that gets access to the Secrets: NAMESPACE/NAME
    #[arg(long, value_name = "GATEWAY", value_parser = key)]
    pub to: ObjectKey,
    /// Read the objects from this manifest, or folder of manifests, instead of a cluster; can be repeated
    #[arg(short, long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
}

/// Prints the manifests to apply, or returns an error and prints nothing if one of the objects cannot be used.
pub async fn grant(args: GrantArgs) -> anyhow::Result<ExitCode> {
    if let Some(own) = args.objects.iter().find(|id| id.key.namespace == args.to.namespace) {
        bail!("{own} is in the namespace of MCPGateway {}, which has its Secrets without a grant", args.to);
    }
    let secrets = if args.files.is_empty() {
        from_cluster(&args.objects).await?
    } else {
        let loaded = tokio::task::spawn_blocking(move || {
            load(read_files(&args.files, &HashSet::new()), None, Path::new("plugins"))
        });
        from_files(&args.objects, &loaded.await?)?
    };
    print_line(manifests(&secrets, &args.to)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

async fn from_cluster(objects: &[ObjectId]) -> anyhow::Result<SecretNames> {
    let client = connect().await?;
    let mut secrets = SecretNames::new();
    for id in objects {
        let found = fetch(&client, id).await?;
        let written = canonical(&serde_json::to_value(found)?);
        // Only gateways depend on the domain.
        let (lowered, problems) = document(id, &written, None, ManifestSource::Cluster { domain: "cluster.local" });
        let names = match lowered {
            Ok(Lowered::Upstream(upstream)) => of_upstream(&upstream),
            Ok(Lowered::Plugin(plugin)) => of_plugin(&plugin),
            _ => bail!(invalid(id, problems.iter())),
        };
        add(&mut secrets, id, names)?;
    }
    Ok(secrets)
}

async fn fetch(client: &Client, id: &ObjectId) -> anyhow::Result<DynamicObject> {
    let namespace = Some(id.key.namespace.as_str());
    let (resource, asked) = match id.kind {
        Kind::Plugin => (ApiResource::erase::<Plugin>(&()), Asked::of::<Plugin>(&["get"], namespace)),
        _ => (ApiResource::erase::<MCPUpstream>(&()), Asked::of::<MCPUpstream>(&["get"], namespace)),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &id.key.namespace, &resource);
    let unread = |error| asked.failed(&format!("{id} cannot be read; -f reads its manifest instead"), &error);
    let found = api.get_opt(&id.key.name).await.map_err(unread)?;
    found.with_context(|| format!("there is no {id} in the cluster"))
}

fn from_files(objects: &[ObjectId], loaded: &LoadedManifests) -> anyhow::Result<SecretNames> {
    let mut secrets = SecretNames::new();
    for id in objects {
        let upstream = loaded.upstreams.iter().find(|u| id.kind == Kind::MCPUpstream && u.plan.key == id.key);
        let plugin = loaded.plugins.iter().find(|p| id.kind == Kind::Plugin && p.key == id.key);
        let names = match (upstream, plugin) {
            (Some(upstream), _) => of_upstream(upstream),
            (_, Some(plugin)) => of_plugin(plugin),
            _ => bail!(not_in(loaded, id)),
        };
        add(&mut secrets, id, names)?;
    }
    Ok(secrets)
}

/// Describes why an object was not found in the files.
fn not_in(loaded: &LoadedManifests, id: &ObjectId) -> String {
    if loaded.invalid.iter().any(|invalid| invalid.id == *id) {
        let own = loaded.problems.iter().map(|located| &located.problem);
        return invalid(id, own.filter(|problem| problem.object.as_ref() == Some(id)));
    }
    let unread =
        loaded.problems.iter().filter(|located| located.problem.object.is_none() && located.problem.is_error());
    let unread: String = unread.map(|located| format!("\n  {located}")).collect();
    format!("there is no {id} in the files{unread}")
}

fn invalid<'p>(id: &ObjectId, problems: impl Iterator<Item = &'p Problem>) -> String {
    let problems: String = problems.filter(|p| p.is_error()).map(|problem| format!("\n  {problem}")).collect();
    format!("{id} is not valid:{problems}")
}

fn of_upstream(upstream: &UpstreamInput) -> BTreeSet<String> {
    names(upstream.values.iter().chain(&upstream.tls))
}

fn of_plugin(plugin: &PluginInput) -> BTreeSet<String> {
    names(&plugin.env)
}

fn names<'a>(values: impl IntoIterator<Item = &'a NamedInput>) -> BTreeSet<String> {
    let names = values.into_iter().filter_map(|value| match &value.value {
        InputValue::Secret { name, .. } => Some(name.clone()),
        InputValue::Literal(_) | InputValue::ConfigMap { .. } | InputValue::Environment(_) => None,
    });
    names.collect()
}

fn add(secrets: &mut SecretNames, id: &ObjectId, names: BTreeSet<String>) -> anyhow::Result<()> {
    if names.is_empty() {
        let field = if id.kind == Kind::Plugin { "spec.env" } else { "spec.external" };
        bail!("{id} names no Secret in its {field}, so there is nothing to grant");
    }
    secrets.entry(id.key.namespace.clone()).or_default().extend(names);
    Ok(())
}

#[cfg(test)]
mod tests;
