//! `hawsepipe grant`: what it prints gives a gateway the Secrets that an object names, and no more.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, WatchParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::harness::{Cluster, until};

/// Two namespaces: one whose upstream and plugin name Secrets, one whose gateway is to read them.
struct Granting {
    cluster: &'static Cluster,
    owner: String,
    gateway: String,
}

impl Granting {
    async fn start() -> Self {
        let cluster = Cluster::shared().await;
        let (owner, gateway) = (cluster.namespace().await, cluster.namespace().await);
        let this = Self { cluster, owner, gateway };
        let secret = |name: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        let ours = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        let from = |secret: &str| json!({"secretKeyRef": {"name": secret, "key": "header"}});
        let headers = json!([{"name": "Authorization", "valueFrom": from("ledger")}]);
        let share = json!({"namespaces": {"from": "Names", "names": [this.gateway]}});
        let external = json!({"url": "https://ledger.example/mcp", "headers": headers});
        let env = json!([{"name": "KEY", "valueFrom": from("redact")}]);
        let objects = [
            secret("ledger"),
            secret("redact"),
            secret("payroll"),
            ours("MCPUpstream", "ledger", json!({"external": external, "shareWith": share})),
            ours("MCPUpstream", "open", json!({"external": {"url": "https://open.example/mcp"}})),
            ours("Plugin", "redact", json!({"source": {"inline": "export default () => ({});"}, "env": env})),
        ];
        this.apply(&objects.map(|object| object.to_string()).join("\n")).await;
        this
    }

    async fn apply(&self, documents: &str) -> String {
        self.cluster.kubectl(&["apply", "-n", &self.owner, "-f", "-"], documents).await.unwrap()
    }

    async fn grant(&self, token: Option<&str>, objects: &[&str]) -> Result<String, String> {
        let objects: Vec<_> = objects.iter().map(|object| object.replace("OWNER", &self.owner)).collect();
        let to = format!("{}/shared", self.gateway);
        let mut arguments = vec!["grant", "--to", &to];
        arguments.extend(objects.iter().map(String::as_str));
        self.cluster.hawsepipe(token, &arguments).await
    }

    /// The Secrets of the owner's namespace, as a client sees them.
    fn secrets(&self, client: Client) -> Api<Secret> {
        Api::namespaced(client, &self.owner)
    }
}

fn is_forbidden<T>(answer: kube::Result<T>) -> bool {
    matches!(answer, Err(Error::Api(status)) if status.code == 403)
}

#[tokio::test]
async fn the_gateways_account_may_read_that_secret_and_no_other() {
    let granting = Granting::start().await;
    // All that the command needs.
    granting.cluster.make_account(&granting.owner, "author").await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "author"},
        "rules": [{"apiGroups": ["hawsepipe.dev"], "resources": ["mcpupstreams"], "resourceNames": ["ledger"],
                   "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "author"}, "subjects": [{"kind": "ServiceAccount", "name": "author"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"}});
    granting.apply(&format!("{role}\n{binding}")).await;
    let token = granting.cluster.token(&granting.owner, "author", &[]).await;
    // The authorizer hears of the role by a watch.
    let printed =
        until("the object may be read", async || granting.grant(Some(&token), &["OWNER/ledger"]).await.ok()).await;

    let gateway = granting.cluster.service_account(&granting.gateway, "shared-gateway").await;
    let secrets = granting.secrets(gateway);
    assert!(is_forbidden(secrets.get("ledger").await), "nothing is granted yet");
    granting.apply(&printed).await;
    until("the Secret may be read", async || secrets.get("ledger").await.ok()).await;
    let one = WatchParams::default().fields("metadata.name=ledger").timeout(1);
    assert!(secrets.watch(&one, "0").await.is_ok(), "it may be watched");
    assert!(is_forbidden(secrets.get("payroll").await), "another Secret");
    assert!(is_forbidden(secrets.list(&ListParams::default()).await), "all of them");
    assert!(is_forbidden(secrets.delete("ledger", &Default::default()).await), "another verb");

    let again = granting.apply(&printed).await;
    assert!(again.lines().count() == 2 && again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
}

#[tokio::test]
async fn all_objects_that_are_named_are_granted_together() {
    let granting = Granting::start().await;
    let printed = granting.grant(None, &["OWNER/ledger", "plugin/OWNER/redact"]).await.unwrap();
    granting.apply(&printed).await;
    let gateway = granting.cluster.service_account(&granting.gateway, "shared-gateway").await;
    let secrets = granting.secrets(gateway);
    for name in ["ledger", "redact"] {
        until("the Secret may be read", async || secrets.get(name).await.ok()).await;
    }
    assert!(is_forbidden(secrets.get("payroll").await));
}

#[tokio::test]
async fn what_cannot_be_granted_is_refused_with_the_reason() {
    let granting = Granting::start().await;
    let object = |name: &str| format!("MCPUpstream {}/{name}", granting.owner);
    for (named, why) in [
        ("OWNER/ledgers", format!("there is no {} in the cluster", object("ledgers"))),
        ("OWNER/open", format!("{} names no Secret", object("open"))),
    ] {
        let refused = granting.grant(None, &["OWNER/ledger", named]).await.unwrap_err();
        assert!(refused.contains(&why), "{refused}");
    }
    let own = format!("{}/ledger", granting.gateway);
    let refused = granting.grant(None, &[&own]).await.unwrap_err();
    assert!(refused.contains("without a grant"), "{refused}");
    granting.cluster.make_account(&granting.owner, "nobody").await;
    let token = granting.cluster.token(&granting.owner, "nobody", &[]).await;
    let refused = granting.grant(Some(&token), &["OWNER/ledger"]).await.unwrap_err();
    assert!(refused.contains("cannot be read") && refused.contains("nobody may not get mcpupstreams"), "{refused}");
}
