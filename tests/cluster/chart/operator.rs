//! The chart of the operator.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::cases::{cases, one_missing, refused, refused_together};
use super::helm::helms;
use crate::harness::{Cluster, checkout, until};

pub const CHART: &str = "hawsepipe";
const RELEASE: &str = "pipe-1";

/// The objects by kind, namespace and name.
fn by_id(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let count = objects.len();
    let id = |object: &Value| {
        let metadata = &object["metadata"];
        format!("{} {}/{}", object["kind"], metadata["namespace"], metadata["name"])
    };
    let objects: BTreeMap<_, _> = objects.into_iter().map(|object| (id(&object), object)).collect();
    assert_eq!(objects.len(), count, "two objects have one name");
    objects
}

#[tokio::test]
async fn both_versions_lint_each_case_and_render_the_same() {
    let [helm3, helm4] = helms();
    for (about, values) in cases("own", "other") {
        for helm in [&helm3, &helm4] {
            helm.lint(CHART, &values).await.unwrap_or_else(|error| panic!("{about}: {error}"));
        }
        let at = (RELEASE, "own");
        let objects = by_id(helm3.objects(CHART, at, &values).await.unwrap());
        assert_eq!(by_id(helm4.objects(CHART, at, &values).await.unwrap()), objects, "{about}");
        for (id, object) in &objects {
            assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/instance"], RELEASE, "{about}: {id}");
            let cluster_wide = object["kind"].as_str().unwrap().starts_with("ClusterRole");
            assert_eq!(object["metadata"]["namespace"].is_null(), cluster_wide, "{about}: {id}");
            // A file that .helmignore leaves out would be an empty text.
            let texts = object["data"].as_object().into_iter().flat_map(|data| data.values());
            assert!(texts.clone().all(|text| !text.as_str().unwrap().trim().is_empty()), "{about}: {id} is empty");
        }
        let has_ids = objects.values().any(|object| object.to_string().contains("runAsUser"));
        assert_ne!(has_ids, values["openshift"]["enabled"] == true, "{about}: OpenShift assigns the ids of users");
        let namespaced = !values["watchNamespaces"].is_null();
        let cluster_wide = objects.values().any(|object| object["metadata"]["namespace"].is_null());
        assert!(!(namespaced && cluster_wide), "{about}: {:?}", objects.keys());
    }
}

#[tokio::test]
async fn values_that_are_wrong_are_refused_by_name() {
    for helm in helms() {
        for (values, word) in refused() {
            let error = helm.objects(CHART, (RELEASE, "own"), &values).await.unwrap_err();
            assert!(error.contains(word), "{values}: {error}");
        }
    }
}

#[tokio::test]
async fn what_would_fail_later_is_refused_by_the_schema() {
    for helm in helms() {
        for (values, names) in refused_together() {
            let error = helm.objects(CHART, (RELEASE, "own"), &values).await.unwrap_err();
            assert!(error.contains("the schema") && !error.contains("nil pointer"), "{values}: {error}");
            let missing: Vec<_> = names.iter().filter(|name| !error.contains(**name)).collect();
            assert!(missing.is_empty(), "{values}: {missing:?} are not refused: {error}");
        }
    }
}

#[tokio::test]
async fn a_value_that_is_missing_is_not_needed_or_refused_by_name() {
    let [_, helm] = helms();
    let cases = one_missing();
    assert!(cases.len() > 40, "too few values to be all of them");
    let rendered = cases.into_iter().map(|(name, values)| {
        let helm = &helm;
        async move { (helm.template(CHART, (RELEASE, "own"), &values).await, name) }
    });
    let mut refused = 0;
    for (result, name) in stream::iter(rendered).buffer_unordered(4).collect::<Vec<_>>().await {
        let Err(error) = result else { continue };
        let is_named = error.contains("the schema") && error.contains(&format!("'{name}'"));
        assert!(is_named || error.contains(&format!("gateway.{name}.authentication is required")), "{name}: {error}");
        refused += 1;
    }
    assert!(refused > 10, "values that templates read parts of are required: {refused}");
}

#[tokio::test]
async fn names_of_objects_are_valid_and_never_cut() {
    let long = "a-release-whose-name-is-longer-than-it-may-be";
    for helm in helms() {
        for release in ["a.b", "9start", long] {
            let error = helm.objects(CHART, (release, "own"), &json!({})).await.unwrap_err();
            assert!(error.contains(release) && error.contains("set fullnameOverride"), "{release}: {error}");
            helm.objects(CHART, (release, "own"), &json!({"fullnameOverride": "mcp"})).await.unwrap();
        }
    }
}

/// Any other account, such as the namespace's `default`, would give its rights to pods that are not the operator's.
#[tokio::test]
async fn an_account_that_is_made_elsewhere_has_the_name_of_the_deployment() {
    let [_, helm] = helms();
    let objects = helm.objects(CHART, ("r", "own"), &json!({"serviceAccount": {"create": false}})).await.unwrap();
    let accounts: Vec<_> = objects
        .iter()
        .flat_map(|object| [&object["subjects"][0]["name"], &object["spec"]["template"]["spec"]["serviceAccountName"]])
        .filter(|name| !name.is_null())
        .collect();
    assert_eq!(accounts, ["r-hawsepipe-operator"; 3], "two bindings and the Deployment");
}

/// Where pods must keep to the Pod Security Standard `restricted`, with the account `any`.
async fn restricted(cluster: &Cluster) -> String {
    let namespace = cluster.namespace().await;
    let label = "pod-security.kubernetes.io/enforce=restricted";
    cluster.kubectl(&["label", "namespace", &namespace, label], "").await.unwrap();
    cluster.make_account(&namespace, "any").await;
    namespace
}

/// The pods that objects make or are, each under a name of its own in the namespace.
fn pods(objects: &[Value], namespace: &str) -> Vec<Value> {
    let spec = |object: &Value| match object["kind"].as_str()? {
        "Deployment" => Some(object["spec"]["template"]["spec"].clone()),
        "Pod" => Some(object["spec"].clone()),
        _ => None,
    };
    let pod = |(index, mut spec): (usize, Value)| {
        spec["serviceAccountName"] = json!("any");
        let metadata = json!({"name": format!("pod-{index}"), "namespace": namespace});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    };
    objects.iter().filter_map(spec).enumerate().map(pod).collect()
}

/// Installs the definitions of the Prometheus Operator's kinds that the chart makes.
async fn install_monitoring(cluster: &Cluster) {
    let file = checkout().join("tests/cluster/prometheus-operator/definitions.yaml");
    let apply = ["apply", "--server-side", "--force-conflicts", "-f", &file.to_string_lossy()];
    cluster.kubectl(&apply, "").await.unwrap();
    let get = ["get", "servicemonitors,podmonitors,prometheusrules"];
    until("the kinds are served", async || cluster.kubectl(&get, "").await.ok()).await;
}

/// What an API server says to objects if it is asked strictly: it refuses fields that are unknown or given twice, and
/// besides what schemas show, as kubeconform does, what rules and admission refuse.
async fn dry_run(cluster: &Cluster, objects: &[Value]) -> Result<String, String> {
    let text = objects.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    cluster.kubectl(&["create", "--dry-run=server", "--validate=strict", "-f", "-"], &text).await
}

#[tokio::test]
async fn an_api_server_accepts_each_case_and_its_pods_are_restricted() {
    let cluster = Cluster::shared().await;
    install_monitoring(cluster).await;
    let (own, other) = (cluster.namespace().await, cluster.namespace().await);
    let restricted = restricted(cluster).await;
    let [_, helm] = helms();
    let mut groups = BTreeSet::new();
    for (about, values) in cases(&own, &other) {
        let mut objects = helm.objects(CHART, (RELEASE, &own), &values).await.unwrap();
        let pods = pods(&objects, &restricted);
        objects.retain(|object| object["kind"] != "Pod");
        assert!(pods.len() >= 2, "{about}: there is a pod of the operator, and one that tests it");
        objects.extend(pods);
        let said = dry_run(cluster, &objects).await.unwrap_or_else(|error| panic!("{about}: {error}"));
        assert_eq!(said.lines().count(), objects.len(), "{about}: {said}");
        groups.extend(objects.iter().map(|object| object["apiVersion"].as_str().unwrap().to_owned()));
    }
    assert!(groups.contains("monitoring.coreos.com/v1"), "{groups:?}");
}

#[tokio::test]
async fn an_api_server_that_is_asked_strictly_refuses_a_field_that_a_kind_does_not_have() {
    let cluster = Cluster::shared().await;
    install_monitoring(cluster).await;
    let (own, other) = (cluster.namespace().await, cluster.namespace().await);
    let [_, helm] = helms();
    let (_, everything) = cases(&own, &other).into_iter().find(|(about, _)| *about == "everything").unwrap();
    let mut objects = helm.objects(CHART, (RELEASE, &own), &everything).await.unwrap();
    objects.retain(|object| object["spec"].is_object());
    let mut one_of_each: BTreeMap<_, _> =
        objects.into_iter().map(|object| (object["kind"].as_str().unwrap().to_owned(), object)).collect();
    let monitoring = ["ServiceMonitor", "PodMonitor", "PrometheusRule"];
    assert!(monitoring.iter().all(|kind| one_of_each.contains_key(*kind)), "{:?}", one_of_each.keys());
    for (kind, object) in &mut one_of_each {
        object["spec"]["notAField"] = json!(true);
        let refused = dry_run(cluster, std::slice::from_ref(object)).await.unwrap_err();
        assert!(refused.contains("unknown field \"spec.notAField\""), "{kind}: {refused}");
    }
}
