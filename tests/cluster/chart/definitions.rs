//! The chart of the custom resource definitions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::helm::{Helm, chart, helms};
use crate::harness::{Cluster, checkout, documents};

const CHART: &str = "hawsepipe-crds";
/// What Kubernetes takes as the data of one Secret is 1 MiB, and a release is one Secret.
pub const RELEASE_AT_MOST: usize = 256 * 1024;

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), object)).collect()
}

/// The definitions as they are applied without Helm.
fn plain() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(checkout().join("crds")).unwrap().map(|entry| entry.unwrap().path());
    by_name(files.flat_map(|file| documents(&file)).collect())
}

#[tokio::test]
async fn both_versions_render_what_is_applied_without_helm_and_keep_it() {
    let mut expected = plain();
    assert!(expected.len() >= 7, "too few files to be all of them");
    for definition in expected.values_mut() {
        definition["metadata"]["annotations"] = json!({"helm.sh/resource-policy": "keep"});
    }
    for helm in helms() {
        helm.lint(CHART, &json!({})).await.unwrap();
        let rendered = by_name(helm.objects(CHART, ("crds", "somewhere"), &json!({})).await.unwrap());
        assert!(rendered == expected, "Helm {}: {:?}", helm.version, rendered.keys());
        let refused = helm.template(CHART, ("crds", "somewhere"), &json!({"keep": false})).await.unwrap_err();
        assert!(refused.contains("keep"), "{refused}");
    }
}

/// The size of what Helm stored of the release.
pub async fn stored(cluster: &Cluster, namespace: &str) -> usize {
    let listed = ["get", "secrets", "-n", namespace, "-l", "owner=helm", "-o", "json"];
    let listed: Value = serde_json::from_str(&cluster.kubectl(&listed, "").await.unwrap()).unwrap();
    let releases = listed["items"].as_array().unwrap();
    assert!(!releases.is_empty(), "Helm stored no release");
    // In JSON it is in base64, by which no limit counts.
    let size = |release: &Value| release["data"]["release"].as_str().unwrap().len() / 4 * 3;
    releases.iter().map(size).max().unwrap()
}

#[tokio::test]
async fn a_release_takes_over_is_upgraded_and_leaves_the_definitions() {
    let cluster = Cluster::own().await;
    let namespace = cluster.namespace().await;
    let folder = chart(CHART);
    let install = ["upgrade", "--install", "crds", &folder, "-n", &namespace, "--take-ownership"];
    let applied: [Helm; 2] = helms();
    for helm in &applied {
        helm.run_in(&cluster, &install).await.unwrap();
        let size = stored(&cluster, &namespace).await;
        println!("Helm {} stores a release of {CHART} in {size} bytes", helm.version);
        assert!(size < RELEASE_AT_MOST, "{size} bytes");
    }
    let [helm, _] = &applied;
    helm.run_in(&cluster, &["uninstall", "crds", "-n", &namespace]).await.unwrap();
    let left = cluster.kubectl(&["get", "crds", "-o", "json"], "").await.unwrap();
    let left: Value = serde_json::from_str(&left).unwrap();
    let left = by_name(left["items"].as_array().unwrap().clone());
    assert_eq!(left.keys().collect::<Vec<_>>(), plain().keys().collect::<Vec<_>>());
    assert!(
        left.values().all(|definition| definition["metadata"]["deletionTimestamp"].is_null()),
        "one is being deleted"
    );
}
