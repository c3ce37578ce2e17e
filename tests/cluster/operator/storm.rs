//! Many who write to the operator's objects at once, and to those of people.

use std::time::{Duration, Instant};

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, condition, gateway, object};
use super::snapshots::plan;
use crate::harness::{Mark, Request, counts, until};

/// How long they write.
const STORM: Duration = Duration::from_secs(8);
/// Longer than every period of the operator after which it may look again at what others wrote, but the longest.
const CALM: Duration = Duration::from_secs(15);
/// How often the operator looks at everything again.
const ROUND: Duration = Duration::from_secs(60);

/// What each of the writers does to which object, over and over. `N` is another number each time.
const WRITES: [(&str, &str, &str); 20] = [
    ("mcpgateways", "main", r#"{"metadata": {"labels": {"example.com/a": "N"}}}"#),
    ("mcpgateways", "main", r#"{"metadata": {"annotations": {"example.com/b": "N"}}}"#),
    ("mcpgateways", "main/status", r#"{"status": {"live": "N"}}"#),
    ("mcpupstreams", "up", r#"{"spec": {"external": {"url": "http://up-N.example/mcp"}}}"#),
    ("mcpupstreams", "up", r#"{"metadata": {"annotations": {"example.com/c": "N"}}}"#),
    ("mcpupstreams", "up/status", r#"{"status": {"failureCount": N}}"#),
    ("mcpupstreams", "up/status", r#"{"status": {"autoDisabledPods": "N"}}"#),
    ("plugins", "say", r#"{"spec": {"source": {"inline": "export default () => ({}); // N"}}}"#),
    ("plugins", "say", r#"{"metadata": {"labels": {"example.com/d": "N"}}}"#),
    ("plugins", "say/status", r#"{"status": {"observedGeneration": N}}"#),
    ("pluginchains", "answers", r#"{"spec": {"order": N}}"#),
    ("pluginchains", "answers/status", r#"{"status": {"conditions": []}}"#),
    ("gatewaysnapshots", "main", r#"{"metadata": {"annotations": {"example.com/e": "N"}}}"#),
    ("gatewaysnapshots", "main", r#"{"metadata": {"labels": {"example.com/f": "N"}}}"#),
    ("gatewaysnapshots", "main", r#"{"metadata": {"labels": {"hawsepipe.dev/part": "N"}}}"#),
    ("gatewaysnapshots", "main", r#"{"spec": {"gateway": "other"}}"#),
    ("roles", "main-gateway", r#"{"rules": []}"#),
    ("roles", "main-gateway", r#"{"metadata": {"labels": {"app.kubernetes.io/managed-by": "N"}}}"#),
    ("serviceaccounts", "main-gateway", r#"{"metadata": {"labels": {"hawsepipe.dev/gateway": "N"}}}"#),
    ("rolebindings", "main-gateway", r#"{"subjects": []}"#),
];

fn resource(plural: &str) -> ApiResource {
    let (group, version) = match plural {
        "serviceaccounts" => ("", "v1"),
        "roles" | "rolebindings" => ("rbac.authorization.k8s.io", "v1"),
        _ => ("hawsepipe.dev", "v1alpha1"),
    };
    let api_version = format!("{group}/{version}").trim_start_matches('/').to_owned();
    let kind = plural.to_owned();
    ApiResource { group: group.into(), version: version.into(), api_version, kind, plural: plural.into() }
}

/// Writes for the time of the storm; how often.
async fn write(operated: &Operated<'_>, (plural, name, patch): (&str, &str, &str)) -> usize {
    let resource = resource(plural);
    let api: Api<DynamicObject> = Api::namespaced_with(operated.client.clone(), &operated.namespace, &resource);
    let (began, mut n, mut written) = (Instant::now(), 0, 0);
    while began.elapsed() < STORM {
        n += 1;
        let patch: Value = serde_json::from_str(&patch.replace('N', &n.to_string())).unwrap();
        let (params, patch) =
            (PatchParams { field_manager: Some("storm".into()), ..Default::default() }, Patch::Merge(patch));
        let result = match name.split_once('/') {
            Some((name, _)) => api.patch_status(name, &params, &patch).await,
            None => api.patch(name, &params, &patch).await,
        };
        written += usize::from(result.is_ok());
    }
    written
}

/// What the operator wrote since, its lease apart.
async fn writes(operated: &Operated<'_>, mark: Mark) -> Vec<Request> {
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", operated.namespace);
    let mut requests = operated.cluster.requests_since(mark).await;
    requests.retain(|request| {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        request.user == user && !reads && !request.resource.starts_with("leases.")
    });
    requests
}

#[tokio::test]
#[ignore = "long: make test-long"]
async fn after_a_storm_of_writers_everything_is_as_it_is_to_be_and_stays() {
    let operated = Operated::start().await;
    let chain = json!({"phase": "Response", "entries": [{"name": "say"}]});
    let up = json!({"external": {"url": "http://up.example/mcp"}});
    let code = json!({"source": {"inline": "export default () => ({});"}});
    let objects = [
        gateway("main"),
        object("MCPUpstream", "up", &up),
        object("Plugin", "say", &code),
        object("PluginChain", "answers", &chain),
    ];
    operated.apply(&objects).await;
    operated.until_condition("pluginchains", "answers", "Programmed", "False Pending").await;
    until("what pods need is there", async || {
        let get = ["get", "-n", &operated.namespace, "rolebinding", "main-gateway"];
        operated.cluster.kubectl(&get, "").await.ok()
    })
    .await;
    let theirs = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "Plugin", "status": {"conditions": [{
        "type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let plugins = super::harness::api(&operated.client, &operated.namespace, "plugins");
    plugins.patch_status("say", &PatchParams::apply("theirs"), &Patch::Apply(theirs)).await.unwrap();

    let written = futures_util::future::join_all(WRITES.map(|writes| write(&operated, writes))).await;
    let idle: Vec<_> = WRITES.iter().zip(&written).filter(|(_, count)| **count == 0).collect();
    assert!(idle.is_empty(), "no storm: {idle:?}");
    until_calm(&operated).await;
    check(&operated).await;
    let mark = operated.cluster.mark().await;
    tokio::time::sleep(CALM).await;
    let requests = writes(&operated, mark).await;
    assert!(requests.is_empty(), "{:?}", counts(&requests));
}

/// Waits until the operator has not written for a while, which is more than it takes to look at everything again.
async fn until_calm(operated: &Operated<'_>) {
    let began = Instant::now();
    loop {
        let mark = operated.cluster.mark().await;
        tokio::time::sleep(ROUND + CALM).await;
        let requests = writes(operated, mark).await;
        // It may look at statuses once in that time, and find what somebody else wrote.
        if requests.len() <= WRITES.len() {
            return;
        }
        assert!(began.elapsed() < 4 * ROUND, "it writes on and on: {:?}", counts(&requests));
    }
}

/// Everything is as it is to be.
async fn check(operated: &Operated<'_>) {
    let plan = plan(operated).await;
    let stored = operated.object("mcpupstreams", "up").await;
    let text = serde_json::to_string(&plan).unwrap();
    let url = stored["spec"]["external"]["url"].as_str().unwrap();
    assert!(text.contains(url), "the last address is not in the plan: {url}");
    let code = operated.object("plugins", "say").await["spec"]["source"]["inline"].clone();
    assert!(plan.code.values().any(|text| code == *text), "the last code is not in the plan: {code}");
    for (plural, name) in
        [("mcpgateways", "main"), ("mcpupstreams", "up"), ("plugins", "say"), ("pluginchains", "answers")]
    {
        let object = operated.object(plural, name).await;
        assert_eq!(object["status"]["observedGeneration"], object["metadata"]["generation"], "{plural}: {object:#}");
        for name in ["Accepted", "Programmed", "Ready"] {
            assert!(condition(&object["status"], name).is_some(), "{plural} lacks {name}: {object:#}");
        }
    }
    let gateway = operated.object("mcpgateways", "main").await;
    assert_eq!(gateway["status"]["live"], "0/0", "{gateway:#}");
    let plugin = operated.object("plugins", "say").await;
    assert!(condition(&plugin["status"], "Theirs").is_some(), "what is theirs went: {plugin:#}");
    let index = operated.object("gatewaysnapshots", "main").await;
    assert_eq!(index["spec"]["gateway"], "main");
    assert_eq!(index["metadata"]["labels"]["hawsepipe.dev/part"], "index");
    let role: Value = serde_json::from_str(&operated.get(&["role", "main-gateway", "-o", "json"]).await).unwrap();
    assert_eq!(role["rules"].as_array().unwrap().len(), 1, "{role:#}");
    assert_eq!(role["metadata"]["labels"]["app.kubernetes.io/managed-by"], "hawsepipe");
    let account: Value =
        serde_json::from_str(&operated.get(&["serviceaccount", "main-gateway", "-o", "json"]).await).unwrap();
    assert_eq!(account["metadata"]["labels"]["hawsepipe.dev/gateway"], "main");
    let binding: Value =
        serde_json::from_str(&operated.get(&["rolebinding", "main-gateway", "-o", "json"]).await).unwrap();
    assert_eq!(binding["subjects"].as_array().map(Vec::len), Some(1), "{binding:#}");
}
