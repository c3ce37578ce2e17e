//! What an operator writes: manifests compiled to shards and an index.

use std::path::Path;
use std::sync::Arc;

use hawsepipe::api::pack::{pack, reference, revision};
use hawsepipe::api::snapshot::{
    GatewaySnapshot, GatewaySnapshotSpec, Shard, ShardRef, SnapshotIndex, SnapshotRestrictions, SnapshotRevision,
    UpstreamNames,
};
use hawsepipe::config::compile::compile;
use hawsepipe::config::input::{Inputs, SourceInput, code_key};
use hawsepipe::config::shards::{PlanPiece, split};
use hawsepipe::domain::digest::sha256_hex;
use hawsepipe::domain::plan::{FORMAT_VERSION, Plan};
use hawsepipe::domain::ports::CodeFacts;
use hawsepipe::domain::reason::Reason;
use hawsepipe::source::{FileText, Located, load};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Error};

use crate::harness::Cluster;

/// The gateway of every test.
pub const GATEWAY: &str = "main";

/// The plan of manifests. Inline code is taken for ES modules that export `default`.
pub fn plan(manifests: &str) -> Plan {
    let file = FileText { path: Arc::new("manifests.yaml".into()), folder: "/".into(), text: Ok(manifests.to_owned()) };
    let loaded = load(vec![file], None, Path::new("/plugins"));
    // These manifests are of a cluster.
    let is_of_files = |it: &&Located| it.problem.reason != Reason::ClusterOnly;
    assert!(loaded.problems.iter().find(is_of_files).is_none(), "{:?}", loaded.problems);
    let mut inputs = Inputs {
        gateway: Some(loaded.gateways[0].clone()),
        upstreams: loaded.upstreams.clone(),
        plugins: loaded.plugins.clone(),
        chains: loaded.chains.clone(),
        files_elsewhere: true,
        ..Inputs::default()
    };
    for plugin in &inputs.plugins {
        if let SourceInput::Inline(text) = &plugin.source {
            let facts = CodeFacts { is_module: true, exports: vec!["default".into()], ..CodeFacts::default() };
            inputs.facts.insert(code_key(&sha256_hex(text.as_bytes()), "index.js"), facts);
        }
    }
    let (plan, problems) = compile(&inputs, None);
    assert!(problems.is_empty(), "{problems:?}");
    plan
}

/// The objects of one revision.
pub struct Revision {
    pub shards: Vec<(ShardRef, Shard)>,
    pub entry: SnapshotRevision,
}

impl Revision {
    /// Of manifests.
    pub fn of(manifests: &str) -> Self {
        Self::of_plan(&plan(manifests))
    }

    /// The same, of a plan that no gateway of this version can run.
    pub fn of_the_future(manifests: &str) -> Self {
        Self::of_plan(&Plan { requires: vec!["identity".into()], ..plan(manifests) })
    }

    fn of_plan(plan: &Plan) -> Self {
        let packed = |piece: &PlanPiece| (reference(GATEWAY, piece).unwrap(), pack(piece).unwrap());
        let shards: Vec<_> = split(plan).iter().map(packed).collect();
        let references: Vec<_> = shards.iter().map(|(reference, _)| reference.clone()).collect();
        let entry = SnapshotRevision {
            revision: revision(&references, &[]),
            created_time: None,
            format_version: FORMAT_VERSION,
            compiled_by: None,
            inputs: None,
            problems: None,
            restrictions: None,
            shards: references,
        };
        Self { shards, entry }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.entry.revision
    }

    /// Writes shards and index, as an operator does.
    pub async fn publish(&self, cluster: &Cluster, namespace: &str) {
        self.write_shards(cluster, namespace).await;
        self.write_index(cluster, namespace).await;
    }

    /// Writes the shards that are not there.
    pub async fn write_shards(&self, cluster: &Cluster, namespace: &str) {
        for (reference, shard) in &self.shards {
            let object = snapshot(&reference.name, None, Some(shard.clone()));
            match api(cluster, namespace).await.create(&PostParams::default(), &object).await {
                Ok(_) => {}
                Err(Error::Api(status)) if status.code == 409 => {}
                Err(error) => panic!("{}: {error}", reference.name),
            }
        }
    }

    /// Has pods run it.
    pub async fn write_index(&self, cluster: &Cluster, namespace: &str) {
        self.write_index_with(cluster, namespace, &[], None).await;
    }

    /// The same with older revisions, and what counts at once for this one.
    pub async fn write_index_with(
        &self,
        cluster: &Cluster,
        namespace: &str,
        older: &[&SnapshotRevision],
        restrictions: Option<SnapshotRestrictions>,
    ) {
        let revisions = std::iter::once(&self.entry).chain(older.iter().copied()).cloned().collect();
        let index = SnapshotIndex {
            current: self.name().to_owned(),
            revisions,
            restrictions,
            not_loaded: None,
            seen_names: None,
        };
        apply_index(cluster, namespace, index).await;
    }

    /// The same with the name of a tool that an upstream was seen to have.
    pub async fn write_index_with_name(&self, cluster: &Cluster, namespace: &str, tool: &str) {
        let names = UpstreamNames { namespace: namespace.into(), name: "up".into(), tools: vec![tool.into()] };
        let index = SnapshotIndex {
            current: self.name().to_owned(),
            revisions: vec![self.entry.clone()],
            restrictions: None,
            not_loaded: None,
            seen_names: Some(vec![names]),
        };
        apply_index(cluster, namespace, index).await;
    }
}

async fn apply_index(cluster: &Cluster, namespace: &str, index: SnapshotIndex) {
    let object = snapshot(GATEWAY, Some(index), None);
    let applied = PatchParams::apply("test").force();
    api(cluster, namespace).await.patch(GATEWAY, &applied, &Patch::Apply(&object)).await.unwrap();
}

async fn api(cluster: &Cluster, namespace: &str) -> Api<GatewaySnapshot> {
    Api::namespaced(cluster.admin().await, namespace)
}

fn snapshot(name: &str, index: Option<SnapshotIndex>, shard: Option<Shard>) -> GatewaySnapshot {
    let mut object = GatewaySnapshot::new(name, GatewaySnapshotSpec { gateway: GATEWAY.into(), index, shard });
    object.metadata.labels = Some([("hawsepipe.dev/gateway".to_owned(), GATEWAY.to_owned())].into());
    object
}
