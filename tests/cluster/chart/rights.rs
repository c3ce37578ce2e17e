//! The rights that the chart adds to the cluster's roles `view` and `edit`, as `docs/tenancy.md` has them.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::helm::helms;
use super::operator::CHART;
use crate::harness::{Cluster, until};

/// Whether a user may do something in a namespace.
async fn may(cluster: &Cluster, user: &str, verb: &str, resource: &str, namespace: &str) -> bool {
    let (group, resource) = resource.split_once('/').unwrap();
    let text = |word: &str| Some(word.to_owned());
    let attributes = ResourceAttributes {
        group: text(group),
        resource: text(resource),
        verb: text(verb),
        namespace: text(namespace),
        ..ResourceAttributes::default()
    };
    let spec =
        SubjectAccessReviewSpec { user: text(user), resource_attributes: Some(attributes), ..Default::default() };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.admin().await);
    let SubjectAccessReviewStatus { allowed, .. } =
        reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap();
    allowed
}

/// What roles may do in a namespace that they are bound in.
const RIGHTS: [(&str, &str, &str, bool); 10] = [
    ("edit", "create", "hawsepipe.dev/mcpupstreams", true),
    ("edit", "patch", "hawsepipe.dev/mcpgateways", true),
    ("edit", "get", "hawsepipe.dev/gatewaysnapshots", true),
    ("edit", "patch", "hawsepipe.dev/gatewaysnapshots", false),
    ("edit", "create", "hawsepipe.dev/gatewaysnapshots", false),
    ("edit", "create", "rbac.authorization.k8s.io/roles", false),
    ("admin", "create", "rbac.authorization.k8s.io/roles", true),
    ("view", "get", "hawsepipe.dev/plugins", true),
    ("view", "get", "hawsepipe.dev/gatewaysnapshots", false),
    ("view", "patch", "hawsepipe.dev/plugins", false),
];

/// The ClusterRoles of the chart that add to others.
async fn roles(namespace: &str) -> Vec<Value> {
    let release = format!("r{}", namespace.trim_start_matches("test-"));
    let [helm, _] = helms();
    let mut objects = helm.objects(CHART, (&release, namespace), &json!({})).await.unwrap();
    objects.retain(|object| {
        let labels = object["metadata"]["labels"].as_object().unwrap();
        labels.keys().any(|label| label.contains("/aggregate-to-"))
    });
    assert_eq!(objects.len(), 2, "one for those who view, one for those who edit");
    objects
}

/// Gives a role in a namespace to a user `ROLE-NAMESPACE`.
fn binding(role: &str, namespace: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": namespace},
        "subjects": [{"apiGroup": group, "kind": "User", "name": format!("{role}-{namespace}")}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
    })
}

#[tokio::test]
async fn a_team_writes_its_objects_and_nothing_else() {
    let cluster = Cluster::shared().await;
    let [own, other] = [cluster.namespace().await, cluster.namespace().await];
    let mut objects = roles(&own).await;
    objects.extend(["view", "edit", "admin"].map(|role| binding(role, &own)));
    let texts: Vec<_> = objects.iter().map(Value::to_string).collect();
    cluster.kubectl(&["apply", "-f", "-"], &texts.join("\n")).await.unwrap();
    let may = async |role: &str, verb: &str, resource: &str, namespace: &str| {
        may(cluster, &format!("{role}-{own}"), verb, resource, namespace).await
    };
    for (role, verb, resource, _) in RIGHTS.iter().filter(|(.., allowed)| *allowed) {
        until("a controller has added the rules", async || may(role, verb, resource, &own).await.then_some(())).await;
    }
    for (role, verb, resource, allowed) in RIGHTS {
        assert_eq!(may(role, verb, resource, &own).await, allowed, "{role}: {verb} {resource}");
    }
    for resource in ["mcpgateways", "mcpupstreams", "plugins", "pluginchains", "gatewaysnapshots"] {
        for verb in ["get", "patch", "create", "delete"] {
            assert!(!may("admin", verb, &format!("hawsepipe.dev/{resource}"), &other).await, "{verb} {resource}");
        }
    }
}
