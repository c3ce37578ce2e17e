//! An operator for one test: it watches the test's namespace, with the rights that `manifests/operator` gives.

use std::ops::Deref;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective};
use kube::core::Request;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::harness::{Cluster, Line, Process, checkout, documents, until};

/// The first operator's service account, in the test's namespace.
pub const ACCOUNT: &str = "hawsepipe-operator";

/// A namespace, and what tests do in it.
pub struct Tenant<'c> {
    pub cluster: &'c Cluster,
    pub client: Client,
    pub namespace: String,
}

/// A namespace with an operator.
pub struct Operated<'c> {
    home: Tenant<'c>,
    pub operator: Process,
    /// What its processes get in their environment.
    pub variables: Vec<(&'static str, &'static str)>,
}

impl<'c> Deref for Operated<'c> {
    type Target = Tenant<'c>;

    fn deref(&self) -> &Tenant<'c> {
        &self.home
    }
}

impl Operated<'static> {
    /// A new namespace on the shared cluster, and an operator for it.
    pub async fn start() -> Self {
        Self::on(Cluster::shared().await).await
    }

    /// The same with another namespace that the operator watches too.
    pub async fn with_tenant() -> (Self, Tenant<'static>) {
        let tenant = Tenant::new(Cluster::shared().await).await;
        (Self::with(tenant.cluster, &[&tenant.namespace], &[]).await, tenant)
    }
}

impl<'c> Operated<'c> {
    /// The same on a cluster of the test's own.
    pub async fn on(cluster: &'c Cluster) -> Self {
        Self::with(cluster, &[], &[]).await
    }

    /// The same with an operator that watches other namespaces besides, and variables in the environment.
    pub async fn with(cluster: &'c Cluster, others: &[&str], variables: &[(&'static str, &'static str)]) -> Self {
        let home = Tenant::new(cluster).await;
        let watched = [&[home.namespace.as_str()], others].concat().join(",");
        let operator = start(cluster, &home.namespace, ACCOUNT, &watched, variables).await;
        Self { home, operator, variables: variables.to_vec() }
    }

    /// A namespace whose operator the test started itself.
    pub async fn of(cluster: &'c Cluster, namespace: String, operator: Process) -> Self {
        Self::at(Tenant { cluster, client: cluster.admin().await, namespace }, operator)
    }

    /// The same of a namespace that has a client already.
    pub fn at(home: Tenant<'c>, operator: Process) -> Self {
        Self { home, operator, variables: Vec::new() }
    }

    /// Another operator of the namespace, under a service account of its own.
    pub async fn another(&self, account: &str) -> Process {
        operator(self.cluster, &self.namespace, account).await
    }

    /// The same with variables in its environment.
    pub async fn another_with(&self, account: &str, variables: &[(&str, &str)]) -> Process {
        operator_with(self.cluster, &self.namespace, account, variables).await
    }
}

impl<'c> Tenant<'c> {
    /// A new one.
    async fn new(cluster: &'c Cluster) -> Self {
        Self { cluster, client: cluster.admin().await, namespace: cluster.namespace().await }
    }

    /// Applies objects in the namespace; those whose kind begins with `Cluster` are in none. Without kubectl, which takes
    /// a good part of a second.
    pub async fn apply(&self, objects: &[Value]) {
        for object in objects {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            let resource = resource(object["apiVersion"].as_str().unwrap(), kind);
            let namespace = (!kind.starts_with("Cluster")).then_some(self.namespace.as_str());
            let mut params = PatchParams::apply("applied").force();
            params.field_validation = Some(ValidationDirective::Strict);
            let request = Request::new(DynamicObject::url_path(&resource, namespace));
            let request = request.patch(name, &params, &Patch::Apply(object)).unwrap();
            // The answer is not read, since it may nest deeper than our reader goes.
            self.client.request_text(request).await.unwrap_or_else(|why| panic!("{kind} {name}: {why}"));
        }
    }

    /// Whether an object of any kind is there, such as `("apps/v1", "Deployment")`.
    pub async fn has(&self, (version, kind): (&str, &str), name: &str) -> bool {
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource(version, kind));
        api.get_opt(name).await.unwrap().is_some()
    }

    /// Deletes an object, as `kind/name`.
    pub async fn delete(&self, what: &str) {
        self.cluster.kubectl(&["delete", "-n", &self.namespace, what], "").await.unwrap();
    }

    /// The reasons of all Events of the namespace.
    pub async fn events(&self) -> Vec<String> {
        let events: Value = serde_json::from_str(&self.get(&["events", "-o", "json"]).await).unwrap();
        let reasons = events["items"].as_array().unwrap().iter().map(|event| event["reason"].as_str().unwrap());
        reasons.map(str::to_owned).collect()
    }

    /// Waits until an object has an Event, as `Warning SyntaxError`.
    pub async fn until_event(&self, kind: &str, name: &str, is: &str) {
        until(&format!("{kind} {name} has the Event {is}"), async || {
            let events: Value = serde_json::from_str(&self.get(&["events", "-o", "json"]).await).unwrap();
            let told = |event: &Value| {
                let about = &event["involvedObject"];
                let words = format!("{} {}", event["type"].as_str()?, event["reason"].as_str()?);
                (about["kind"] == kind && about["name"] == name && words == is).then_some(())
            };
            events["items"].as_array().unwrap().iter().find_map(told)
        })
        .await;
    }

    /// Waits until `kubectl get` shows an object with these columns, its name and its age aside.
    pub async fn until_row(&self, resource: &str, name: &str, columns: &[&str]) {
        let mut last = String::new();
        let what = format!("{resource} {name} is shown as {columns:?}");
        let shown = until(&what, async || {
            last = self.get(&[resource, name, "--no-headers"]).await;
            let words: Vec<_> = last.split_whitespace().skip(1).collect();
            (words[..words.len() - 1] == *columns).then_some(())
        });
        if tokio::time::timeout(crate::harness::SOON, shown).await.is_err() {
            panic!("{resource} {name} is not shown as {columns:?}: {last}");
        }
    }

    /// What kubectl prints of the namespace.
    pub async fn get(&self, arguments: &[&str]) -> String {
        let all = [&["get", "-n", &self.namespace], arguments].concat();
        self.cluster.kubectl(&all, "").await.unwrap()
    }

    /// An object of ours as it is stored; null where it is not there.
    pub async fn object(&self, plural: &str, name: &str) -> Value {
        let found = api(&self.client, &self.namespace, plural).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    /// Every object of ours of a kind.
    pub async fn objects(&self, plural: &str) -> Vec<Value> {
        let list = api(&self.client, &self.namespace, plural).list(&Default::default()).await.unwrap();
        list.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// Waits until a condition has this status and reason, and gives its message.
    pub async fn until_condition(&self, plural: &str, name: &str, condition: &str, is: &str) -> String {
        let mut last = Value::Null;
        let found = tokio::time::timeout(crate::harness::SOON, async {
            until(&format!("{plural}/{name}: {condition} is {is}"), async || {
                last = self.object(plural, name).await["status"].clone();
                let (status, message) = self::condition(&last, condition)?;
                (status == is).then_some(message)
            })
            .await
        });
        match found.await {
            Ok(message) => message,
            Err(_) => panic!("{plural}/{name}: {condition} is not {is}: {last:#}"),
        }
    }
}

/// A condition as `True Reason`, and its message.
pub fn condition(status: &Value, name: &str) -> Option<(String, String)> {
    let found = status["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)?;
    let word = |member: &str| found[member].as_str().unwrap_or_default().to_owned();
    Some((format!("{} {}", word("status"), word("reason")), word("message")))
}

/// Objects of ours of one kind.
pub fn api(client: &Client, namespace: &str, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: "hawsepipe.dev".into(),
        version: "v1alpha1".into(),
        api_version: "hawsepipe.dev/v1alpha1".into(),
        kind: plural.into(),
        plural: plural.into(),
    };
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// A resource by its version, such as `apps/v1`, and its kind.
fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// An object of ours.
pub fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// An open gateway.
pub fn gateway(name: &str) -> Value {
    object("MCPGateway", name, &json!({"authentication": {"anonymous": {}}}))
}

/// Applies the operator's roles, as they are delivered, once.
pub async fn apply_roles(cluster: &Cluster) {
    let applied = cluster.roles.get_or_init(async || {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hawsepipe-system"}});
        cluster.kubectl(&["apply", "--server-side", "-f", "-"], &namespace.to_string()).await.unwrap();
        let file = checkout().join("manifests/operator/rbac.yaml");
        cluster.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()], "").await.unwrap();
    });
    applied.await;
}

/// Gives an account the operator's rights.
async fn rights(cluster: &Cluster, namespace: &str, account: &str) {
    apply_roles(cluster).await;
    cluster.make_account(namespace, account).await;
    let group = "rbac.authorization.k8s.io";
    let subjects = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
    let watched = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{account}-{namespace}")},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "hawsepipe-operator"},
        "subjects": subjects,
    });
    // What is given in its own namespace, in this one and for this account.
    let file = documents(&checkout().join("manifests/operator/rbac.yaml"));
    let mut role = file.into_iter().find(|document| document["kind"] == "Role").unwrap();
    role["metadata"] = json!({"name": account, "namespace": namespace});
    role["rules"][0]["resourceNames"] = json!([account]);
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": role["metadata"],
        "roleRef": {"apiGroup": group, "kind": "Role", "name": account}, "subjects": subjects,
    });
    let home = Tenant { cluster, client: cluster.admin().await, namespace: namespace.to_owned() };
    home.apply(&[watched, role, binding]).await;
}

/// An operator of the namespace under a new account, which is given its rights.
pub async fn operator(cluster: &Cluster, namespace: &str, account: &str) -> Process {
    operator_with(cluster, namespace, account, &[]).await
}

/// The same with variables in its environment.
pub async fn operator_with(cluster: &Cluster, namespace: &str, account: &str, variables: &[(&str, &str)]) -> Process {
    start(cluster, namespace, account, namespace, variables).await
}

/// The same; it reaches the API server through `line`.
pub async fn operator_through(cluster: &Cluster, line: &Line, namespace: &str, account: &str) -> Process {
    rights(cluster, namespace, account).await;
    let token = cluster.token(namespace, account, &[]).await;
    let arguments = ["operator", "--namespaces", namespace, "--listen", "127.0.0.1:0"];
    Process::start_through(cluster, Some(line), namespace, &token, &arguments, &[])
}

async fn start(
    cluster: &Cluster,
    namespace: &str,
    account: &str,
    watched: &str,
    variables: &[(&str, &str)],
) -> Process {
    rights(cluster, namespace, account).await;
    let token = cluster.token(namespace, account, &[]).await;
    let arguments = ["operator", "--namespaces", watched, "--listen", "127.0.0.1:0"];
    Process::start(cluster, namespace, &token, &arguments, variables)
}
