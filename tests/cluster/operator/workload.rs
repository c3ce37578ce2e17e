//! Gateways' pods and what belongs to them. The controller manager makes Pod objects of a Deployment; no kubelet runs, so
//! they stay pending.

use std::time::Duration;

use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, condition, gateway, object};
use super::managed::files;
use crate::harness::{Cluster, Request, checkout, until};

/// Has the operator create pods.
pub const IMAGE: (&str, &str) = ("HAWSEPIPE_GATEWAY_IMAGE", "registry.example.com/hawsepipe:1");
/// More edits than an operator can miss that applies an object in every second round.
const IN_A_ROW: u32 = 3;
/// Longer than the operator waits before it looks at a gateway again.
const CALM: Duration = Duration::from_secs(8);

/// The resources around a gateway's pods.
const WORKLOAD: [&str; 6] =
    ["deployments", "services", "poddisruptionbudgets", "networkpolicies", "horizontalpodautoscalers", "httproutes"];

async fn start() -> Operated<'static> {
    Operated::with(Cluster::shared().await, &[], &[IMAGE]).await
}

impl Operated<'_> {
    /// An object of Kubernetes; null if there is none.
    pub async fn made(&self, what: &str) -> Value {
        let text = self.get(&[what, "--ignore-not-found", "-o", "json"]).await;
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Waits until an object of Kubernetes is as `is` wants it.
    pub async fn until_made(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let found = tokio::time::timeout(crate::harness::SOON, async {
            until(what, async || {
                last = self.made(what).await;
                is(&last).then_some(())
            })
            .await;
        });
        assert!(found.await.is_ok(), "{what} is not as wanted: {last:#}");
        last
    }

    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.kubectl(&[&["-n", &self.namespace], arguments].concat(), "").await.unwrap()
    }

    /// Adds a key to the Secret of sealing keys, with the commands of the documentation.
    async fn rotate(&self) {
        let page = std::fs::read_to_string(checkout().join("docs/cluster.md")).unwrap();
        let mut blocks = page.split("```console\n").map(|block| block.split("```").next().unwrap());
        let commands = blocks.find(|block| block.contains("get secret main-gateway-seal")).unwrap();
        let commands = commands.replace("  $ ", "").replace("-n mcp", &format!("-n {}", self.namespace));
        let random = "openssl() { head -c 32 /dev/urandom | base64; }";
        self.cluster.bash(&format!("{random}\n{commands}")).await.unwrap();
    }

    /// Waits until several edits of something else in a row do not make the operator apply this resource. It may do so
    /// after the first ones, while its watch does not show yet what it applied last.
    pub async fn until_left_alone(&self, resource: &str, edit: impl AsyncFn(u32)) {
        let (mut edits, mut left) = (0, 0);
        until(&format!("{resource} is as desired"), async || {
            edits += 1;
            let mark = self.cluster.mark().await;
            edit(edits).await;
            let requests = self.cluster.requests_since(mark).await;
            let is_patch = |r: &Request| r.namespace == self.namespace && r.verb == "patch" && r.resource == resource;
            left = if requests.iter().any(is_patch) { 0 } else { left + 1 };
            (left == IN_A_ROW).then_some(())
        })
        .await;
    }

    /// Writes of the operator to Deployments and the objects around them while nothing is to be written.
    pub async fn writes_in_calm(&self) -> Vec<String> {
        let (mark, user) = (self.cluster.mark().await, format!("system:serviceaccount:{}:{ACCOUNT}", self.namespace));
        tokio::time::sleep(CALM).await;
        let requests = self.cluster.requests_since(mark).await;
        let reads = |verb: &str| matches!(verb, "get" | "list" | "watch");
        let ours = requests.iter().filter(|request| request.user == user && !reads(&request.verb));
        let of_workload = ours.filter(|request| WORKLOAD.iter().any(|plural| request.resource.starts_with(plural)));
        of_workload.map(|request| format!("{} {}", request.verb, request.resource)).collect()
    }
}

/// A gateway with a member of each kind that a pod has, and an upstream with a Secret.
fn rich() -> [Value; 2] {
    let spec = json!({
        "authentication": {"anonymous": {}},
        "listeners": [{"name": "low", "port": 80}, {"name": "http", "port": 8080}],
        "plugins": {"pluginDirFrom": {"image": {"reference": "registry.example.com/plugins:1"}}},
        "pod": {
            "labels": {"team": "a"}, "annotations": {"note": "b"}, "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
                "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}]}},
            "imagePullSecrets": [{"name": "pull"}], "resources": {"requests": {"cpu": "0.5"}, "limits": {"memory": "1024Mi"}},
        },
    });
    let header = json!({"name": "X-Key", "valueFrom": {"secretKeyRef": {"name": "api", "key": "key"}}});
    // The upstream is first, so that its Secret is in the first Deployment: without a kubelet, a rollout never ends.
    [
        object("MCPUpstream", "up", &json!({"external": {"url": "http://up.example/mcp", "headers": [header]}})),
        object("MCPGateway", "main", &spec),
    ]
}

/// Asserts that pods mount the image of a plugin once a chain runs it.
async fn a_plugins_image_is_mounted(operated: &Operated<'_>) {
    let image = "registry.example.com/packed:1";
    operated
        .apply(&[
            object("Plugin", "packed", &json!({"source": {"image": {"reference": image}}})),
            object("PluginChain", "checks", &json!({"phase": "Request", "entries": [{"name": "packed"}]})),
        ])
        .await;
    operated.until_made("pods", |pods| pods.to_string().contains(image)).await;
}

#[tokio::test]
async fn a_gateway_gets_pods_that_a_restricted_namespace_takes() {
    let operated = start().await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    operated.cluster.kubectl(&["label", "namespace", &operated.namespace, restricted], "").await.unwrap();
    operated.apply(&rich()).await;
    let pods = operated.until_made("pods", |pods| pods["items"].as_array().is_some_and(|pods| pods.len() == 2)).await;
    let pod = &pods["items"][0];
    assert_eq!(pod["metadata"]["labels"]["hawsepipe.dev/gateway"], "main");
    assert_eq!(pod["spec"]["serviceAccountName"], "main-gateway");
    let args = pod["spec"]["containers"][0]["args"].as_array().unwrap();
    let operator = format!("--operator={}/{ACCOUNT}", operated.namespace);
    assert!(args.contains(&json!(operator)), "{args:?}");
    let volume = pod["spec"]["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "plugins").unwrap();
    let image = json!({"reference": "registry.example.com/plugins:1", "pullPolicy": "IfNotPresent"});
    assert_eq!(volume["image"], image, "no runtime is here that mounts it");
    let service = operated.made("service/main-gateway").await;
    assert_eq!(service["spec"]["ports"].as_array().unwrap().len(), 2);
    let budget = operated.made("poddisruptionbudget/main-gateway").await;
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let status = until("the status counts the pods", async || {
        let status = operated.object("mcpgateways", "main").await["status"].clone();
        (status["replicas"] == 2).then_some(status)
    })
    .await;
    let host = format!("http://main-gateway.{}.svc", operated.namespace);
    assert_eq!(status["addresses"], json!([format!("{host}:80/mcp"), format!("{host}:8080/mcp")]));
    assert_eq!(status["readyReplicas"], 0);

    let template = operated.made("deployment/main-gateway").await["spec"]["template"].clone();
    assert_eq!(
        template["spec"]["containers"][0]["resources"]["requests"]["cpu"], "500m",
        "it is stored in another form"
    );
    assert_eq!(operated.writes_in_calm().await, [""; 0]);
    a_plugins_image_is_mounted(&operated).await;
}

#[tokio::test]
async fn what_others_change_of_ours_comes_back_and_what_is_theirs_stays() {
    let operated = start().await;
    operated.apply(&[gateway("main")]).await;
    let deployment = "deployment/main-gateway";
    let first = operated.until_made(deployment, |made| !made.is_null()).await;

    operated.kubectl(&["label", deployment, "team=a"]).await;
    operated.kubectl(&["scale", deployment, "--replicas=5"]).await;
    operated.until_made(deployment, |made| made["spec"]["replicas"] == 2).await;
    operated.kubectl(&["set", "image", deployment, "gateway=other"]).await;
    let image = |made: &Value| made["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    let made = operated.until_made(deployment, |made| image(made) == IMAGE.1).await;
    assert_eq!(made["metadata"]["labels"]["team"], "a");
    assert_eq!(made["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(operated.writes_in_calm().await, [""; 0]);

    is_contested(&operated).await;
    for what in [deployment, "service/main-gateway", "poddisruptionbudget/main-gateway", "networkpolicy/main-gateway"] {
        let before = operated.made(what).await["metadata"]["uid"].clone();
        operated.delete(what).await;
        operated.until_made(what, |made| !made.is_null() && made["metadata"]["uid"] != before).await;
    }
}

/// Changes the Role until the gateway's status names the client that does so.
async fn is_contested(operated: &Operated<'_>) {
    let change = ["patch", "role/main-gateway", "--type=merge", "-p", r#"{"rules": []}"#];
    let message = until("the client that changes the Role again and again is told", async || {
        operated.kubectl(&change).await;
        let status = operated.object("mcpgateways", "main").await["status"].clone();
        condition(&status, "Programmed").filter(|(told, _)| told == "False Contested").map(|(_, message)| message)
    })
    .await;
    assert!(message.contains("\"kubectl-patch\"") && message.contains("/main-gateway"), "{message}");
}

#[tokio::test]
async fn a_change_of_the_spec_reaches_the_objects_and_fields_that_it_no_longer_sets_go() {
    let operated = start().await;
    let with = |spec: Value| {
        let mut whole = json!({"authentication": {"anonymous": {}}});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object("MCPGateway", "main", &whole)
    };
    let service =
        |is: &'static str| operated.until_made("service/main-gateway", move |made| made["spec"]["type"] == is);
    operated.apply(&[with(json!({"service": {"type": "NodePort", "annotations": {"team": "a"}}}))]).await;
    assert!(service("NodePort").await["spec"]["ports"][0]["nodePort"].is_number());
    let spec = json!({"pod": {"nodeSelector": {"disk": "ssd"}}, "disruptionBudget": {"minAvailable": 1}});
    operated.apply(&[with(spec)]).await;
    let made = service("ClusterIP").await;
    assert_eq!(made["spec"]["ports"][0]["nodePort"], Value::Null);
    assert_eq!(made["metadata"]["annotations"]["team"], Value::Null);
    let selector = |made: &Value| made["spec"]["template"]["spec"]["nodeSelector"].clone();
    operated.until_made("deployment/main-gateway", |made| selector(made) == json!({"disk": "ssd"})).await;
    let budget =
        operated.until_made("poddisruptionbudget/main-gateway", |made| made["spec"]["minAvailable"] == 1).await;
    assert_eq!(budget["spec"]["maxUnavailable"], Value::Null);
    operated.apply(&[with(json!({"replicas": 1}))]).await;
    let made = operated.until_made("deployment/main-gateway", |made| made["spec"]["replicas"] == 1).await;
    assert_eq!(selector(&made), Value::Null);
}

#[tokio::test]
async fn a_spec_or_a_pod_that_the_api_server_refuses_is_told_until_it_takes_it() {
    let operated = start().await;
    let with = |value: &str| {
        let pod = json!({"labels": {"team": value}});
        object("MCPGateway", "main", &json!({"authentication": {"anonymous": {}}, "pod": pod}))
    };
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}}});
    operated.apply(&[quota, with("not a label's value")]).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "False InvalidConfig").await;
    assert!(message.contains("deployments in ") && message.contains("not a label's value"), "{message}");
    operated.until_made("resourcequota/none", |made| made["status"]["hard"]["pods"] == "0").await;
    operated.apply(&[with("a")]).await;
    operated.until_made("deployment/main-gateway", |made| !made.is_null()).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "False PodsRefused").await;
    assert!(message.starts_with("Deployment main-gateway: FailedCreate: "), "{message}");
    assert!(message.contains("quota: none"), "{message}");
    operated.delete("resourcequota/none").await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
}

#[tokio::test]
async fn an_object_of_that_name_that_somebody_else_has_is_left_alone_and_told() {
    let operated = start().await;
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "main-gateway"},
        "spec": {"ports": [{"port": 1}]}});
    operated.apply(&[theirs, gateway("main")]).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "False NameTaken").await;
    assert!(message.contains(&format!("Service {}/main-gateway", operated.namespace)), "{message}");
    operated.until_made("deployment/main-gateway", |made| !made.is_null()).await;
    assert_eq!(operated.made("service/main-gateway").await["spec"]["ports"][0]["port"], 1);
    operated.delete("service/main-gateway").await;
    operated.until_made("service/main-gateway", |made| made["spec"]["ports"][0]["port"] == 8080).await;

    let addresses = async || operated.object("mcpgateways", "main").await["status"]["addresses"].clone();
    let ours = addresses().await;
    let theirs = r#"{"status": {"addresses": ["http://elsewhere.example"]}}"#;
    let patch =
        ["patch", "-n", &operated.namespace, "mcpgateway/main", "--subresource=status", "--type=merge", "-p", theirs];
    operated.cluster.kubectl(&patch, "").await.unwrap();
    until("the addresses are the gateway's own", async || (addresses().await == ours).then_some(())).await;
}

#[tokio::test]
async fn no_pods_run_as_an_account_that_is_somebody_elses() {
    let operated = start().await;
    let theirs = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "main-gateway"}});
    operated.apply(&[theirs, gateway("main")]).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "False NameTaken").await;
    assert!(message.contains(&format!("ServiceAccount {}/main-gateway", operated.namespace)), "{message}");
    for object in ["rolebinding/main-gateway", "deployment/main-gateway", "service/main-gateway"] {
        assert!(operated.made(object).await.is_null(), "{object}");
    }
    operated.delete("serviceaccount/main-gateway").await;
    operated.until_made("deployment/main-gateway", |made| !made.is_null()).await;
}

#[tokio::test]
async fn pods_get_no_rights_of_a_role_that_is_somebody_elses_and_other_gateways_are_not_disturbed() {
    let operated = start().await;
    // The operator has the first right, and could bind to that role; the second it does not have.
    for (name, resource) in [("one", "configmaps"), ("two", "secrets")] {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": format!("{name}-gateway")}, "rules": rules});
        operated.apply(&[role]).await;
    }
    operated.apply(&[gateway("one"), gateway("two"), gateway("other")]).await;
    for name in ["one", "two"] {
        let message = operated.until_condition("mcpgateways", name, "Programmed", "False NameTaken").await;
        assert!(message.contains(&format!("Role {}/{name}-gateway", operated.namespace)), "{message}");
        assert!(operated.made(&format!("rolebinding/{name}-gateway")).await.is_null(), "{name}");
        assert!(operated.made(&format!("deployment/{name}-gateway")).await.is_null(), "{name}");
    }
    operated.until_made("deployment/other-gateway", |made| !made.is_null()).await;
    operated.delete("role/two-gateway").await;
    operated.until_made("deployment/two-gateway", |made| !made.is_null()).await;
}

#[tokio::test]
async fn pods_share_a_key_that_the_operator_makes_once_and_cannot_read() {
    let operated = start().await;
    operated.apply(&[gateway("main")]).await;
    let name = "secret/main-gateway-seal";
    let made = operated.until_made(name, |made| !made.is_null()).await;
    let owner = operated.object("mcpgateways", "main").await["metadata"]["uid"].clone();
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], owner);
    assert_eq!(made["data"].as_object().unwrap().len(), 1);
    assert!(made["data"]["key"].is_string());
    let deployment = operated.until_made("deployment/main-gateway", |made| !made.is_null()).await;
    let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].clone();
    let file = "--seal-key-file=/run/secrets/hawsepipe/main-gateway-seal/key";
    assert!(args.as_array().unwrap().contains(&json!(file)), "{args}");

    let user = format!("--as=system:serviceaccount:{}:{ACCOUNT}", operated.namespace);
    for (verb, may) in [("create", "yes"), ("get", "no"), ("list", "no"), ("update", "no"), ("delete", "no")] {
        let can = ["auth", "can-i", verb, "secrets", "-n", &operated.namespace, &user];
        // kubectl fails where the answer is no.
        let answer = operated.cluster.kubectl(&can, "").await;
        assert_eq!(answer.is_ok(), may == "yes", "{verb}: {answer:?}");
    }

    // An operator that starts anew does not know it, and leaves it as it is.
    let mark = operated.cluster.mark().await;
    let next = operated.another_with("next", &[IMAGE]).await;
    operated.operator.signal("TERM");
    let user = format!("system:serviceaccount:{}:next", operated.namespace);
    until("the next operator tries to create it", async || {
        let requests = operated.cluster.requests_since(mark).await;
        let tried = |request: &crate::harness::Request| request.user == user && request.resource == "secrets";
        requests.iter().any(|request| tried(request) && request.code == 409).then_some(())
    })
    .await;
    assert_eq!(operated.made(name).await["data"], made["data"]);
    drop(next);

    operated.rotate().await;
    let rotated = operated.made(name).await;
    assert_ne!(rotated["data"]["key"], made["data"]["key"]);
    assert_eq!(rotated["metadata"]["ownerReferences"], made["metadata"]["ownerReferences"]);
    assert_eq!(rotated["metadata"]["labels"], made["metadata"]["labels"]);
}

#[tokio::test]
async fn without_an_image_pods_are_the_users_to_run_and_a_stop_of_the_operator_leaves_them() {
    let mut operated = start().await;
    operated.apply(&[gateway("main")]).await;
    operated.until_made("poddisruptionbudget/main-gateway", |made| !made.is_null()).await;
    let before = operated.made("deployment/main-gateway").await["metadata"]["uid"].clone();
    operated.operator.kill();
    let _without = operated.another("without-image").await;
    operated.apply(&[gateway("other")]).await;
    operated.until_made("rolebinding/other-gateway", |made| !made.is_null()).await;
    operated.until_condition("mcpgateways", "other", "Programmed", "False NoReadyPods").await;
    operated.apply(&[object("MCPUpstream", "files", &json!({"managed": files()}))]).await;
    let message = operated.until_condition("mcpupstreams", "files", "ResolvedRefs", "False ServerNotFound").await;
    assert!(message.contains("--gateway-image"), "{message}");
    assert_eq!(operated.made("service/files-mcp").await, Value::Null);
    assert_eq!(operated.made("deployment/other-gateway").await, Value::Null);
    assert_eq!(operated.made("service/other-gateway").await, Value::Null);
    assert_eq!(operated.object("mcpgateways", "other").await["status"]["addresses"], Value::Null);
    assert_eq!(operated.made("deployment/main-gateway").await["metadata"]["uid"], before);
}

#[tokio::test]
async fn a_network_policy_follows_services_and_is_the_users_where_the_spec_says_so() {
    let operated = start().await;
    let service = |port: u16| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"},
            "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": port}]}})
    };
    let managed =
        |word: &str| object("MCPGateway", "main", &json!({"authentication": {"anonymous": {}}, "networkPolicy": word}));
    let up = object("MCPUpstream", "up", &json!({"external": {"url": "http://server/mcp"}}));
    operated.apply(&[service(8080), up, managed("Managed")]).await;
    let opens = |made: &Value, port: u16| {
        let rules = made["spec"]["egress"].as_array().cloned().unwrap_or_default();
        let server = json!({"matchLabels": {"app": "server"}});
        rules.iter().any(|rule| rule["to"][0]["podSelector"] == server && rule["ports"][0]["port"] == port)
    };
    let policy = "networkpolicy/main-gateway";
    let made = operated.until_made(policy, |made| opens(made, 8080)).await;
    assert_eq!(made["spec"]["podSelector"]["matchLabels"]["hawsepipe.dev/gateway"], "main");
    operated.apply(&[service(9090)]).await;
    operated.until_made(policy, |made| opens(made, 9090) && !opens(made, 8080)).await;
    assert_eq!(operated.writes_in_calm().await, [""; 0]);
    operated.apply(&[managed("None")]).await;
    operated.until_made(policy, Value::is_null).await;
    operated.apply(&[managed("Managed")]).await;
    operated.until_made(policy, |made| opens(made, 9090)).await;
}
