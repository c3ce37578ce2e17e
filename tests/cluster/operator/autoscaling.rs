//! The number of a gateway's pods, and who sets it. The test plays the autoscaler, because pods have no metrics here.

use std::collections::BTreeSet;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::workload::IMAGE;
use crate::harness::{Cluster, SOON, until};

const DEPLOYMENT: &str = "deployment/main-gateway";
const AUTOSCALER: &str = "hpa/main-gateway";

fn gateway(spec: &Value) -> Value {
    let mut whole = json!({"authentication": {"anonymous": {}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object("MCPGateway", "main", &whole)
}

fn autoscaled(team: &str) -> Value {
    gateway(&json!({"autoscaling": {"minReplicas": 2, "maxReplicas": 9}, "pod": {"labels": {"team": team}}}))
}

/// The field managers of the number of pods, by what they did.
fn owners(deployment: &Value) -> BTreeSet<String> {
    let entries = deployment["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owns = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
    let word = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries.iter().filter(owns).map(|entry| word(entry, "manager")).collect()
}

impl Operated<'_> {
    /// Sets the number of pods as the autoscaler does.
    async fn scale(&self, replicas: u32) {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PatchParams { field_manager: Some("autoscaler".into()), ..PatchParams::default() };
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let scaled: Scale = api.patch_scale("main-gateway", &params, &scale).await.unwrap();
        assert_eq!(scaled.spec.unwrap().replicas, i32::try_from(replicas).ok());
    }

    /// The Deployment with its managed fields.
    async fn deployment(&self) -> Value {
        let text = self.get(&[DEPLOYMENT, "--ignore-not-found", "--show-managed-fields", "-o", "json"]).await;
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until the pods have this label, which is when the operator has written the Deployment.
    async fn until_labelled(&self, team: &str) -> Value {
        until(&format!("the pods have the label {team}"), async || {
            let made = self.deployment().await;
            (made["spec"]["template"]["metadata"]["labels"]["team"] == team).then_some(made)
        })
        .await
    }

    /// Waits until these clients, and no others, own the number of pods, and returns it.
    async fn until_owned(&self, wanted: &[&str]) -> Value {
        until(&format!("{wanted:?} own the number of pods"), async || {
            let made = self.deployment().await;
            owners(&made).iter().eq(wanted).then(|| made["spec"]["replicas"].clone())
        })
        .await
    }
}

/// The numbers of pods that the Deployment has had, without repetitions.
struct Counts {
    seen: Vec<i32>,
    events: BoxStream<'static, watcher::Result<Event<Deployment>>>,
}

impl Counts {
    /// Starts with the current number.
    async fn start(operated: &Operated<'_>) -> Self {
        let api: Api<Deployment> = Api::namespaced(operated.client.clone(), &operated.namespace);
        let events = watcher::watcher(api, watcher::Config::default()).boxed();
        let mut counts = Self { seen: Vec::new(), events };
        while counts.seen.is_empty() {
            counts.next().await;
        }
        counts
    }

    async fn next(&mut self) {
        let event = tokio::time::timeout(SOON, self.events.next()).await.expect("the Deployment changes");
        if let Event::Apply(made) | Event::InitApply(made) = event.unwrap().unwrap() {
            self.seen.extend(made.spec.and_then(|spec| spec.replicas));
            self.seen.dedup();
        }
    }

    /// Returns all numbers up to this one.
    async fn until(&mut self, last: i32) -> &[i32] {
        while self.seen.last() != Some(&last) {
            self.next().await;
        }
        &self.seen
    }
}

/// Checks that the operator does not write a Deployment that is as desired.
async fn is_left_alone(operated: &Operated<'_>) {
    let edit = async |edits: u32| {
        let mut edited = autoscaled("c");
        edited["spec"]["disruptionBudget"] = json!({"maxUnavailable": edits + 1});
        operated.apply(&[edited]).await;
        // The operator applies it after the Deployment.
        operated.until_made("pdb/main-gateway", |made| made["spec"]["maxUnavailable"] == edits + 1).await;
    };
    operated.until_left_alone("deployments.apps", edit).await;
}

#[tokio::test]
async fn the_number_of_pods_goes_to_the_autoscaler_and_back_without_a_dip() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    operated.apply(&[gateway(&json!({"replicas": 3}))]).await;
    operated.until_made(DEPLOYMENT, |made| made["spec"]["replicas"] == 3).await;
    let mut counts = Counts::start(&operated).await;

    operated.apply(&[autoscaled("a")]).await;
    let made = operated.until_made(AUTOSCALER, |made| !made.is_null()).await;
    assert_eq!(made["spec"]["minReplicas"], 2);
    assert_eq!(operated.until_labelled("a").await["spec"]["replicas"], 3);
    operated.apply(&[autoscaled("b")]).await;
    let made = operated.until_labelled("b").await;
    assert_eq!(made["spec"]["replicas"], 3);
    assert_eq!(owners(&made), ["hawsepipe".to_owned()].into(), "its only owner must not give it up");

    operated.scale(5).await;
    operated.apply(&[autoscaled("c")]).await;
    let made = operated.until_labelled("c").await;
    assert_eq!(made["spec"]["replicas"], 5);
    assert_eq!(owners(&made), ["autoscaler".to_owned()].into());

    is_left_alone(&operated).await;

    operated.apply(&[gateway(&json!({"replicas": 4}))]).await;
    operated.until_made(AUTOSCALER, Value::is_null).await;
    operated.until_made(DEPLOYMENT, |made| made["spec"]["replicas"] == 4).await;
    assert_eq!(operated.until_owned(&["hawsepipe"]).await, 4);
    assert_eq!(counts.until(4).await, [3, 5, 4]);
}
