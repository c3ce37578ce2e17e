//! An operator that is killed anywhere on its way: the next one brings the same about.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::harness::{ACCOUNT, Operated, gateway, object};
use super::snapshots::plan;
use crate::harness::{Mark, until};

/// After which of its requests that write an operator is killed, as near as its audit log tells.
const KILLED_AFTER: std::ops::RangeInclusive<usize> = 1..=20;
/// One that has written nothing for so long has written all.
const QUIET: Duration = Duration::from_secs(2);
/// How many at once.
const AT_ONCE: usize = 5;

fn plugin(word: &str) -> Value {
    let code = format!("export default () => ({{ text: '{word}', continue: true }});");
    object("Plugin", "say", &json!({"source": {"inline": code}}))
}

fn upstream(name: &str) -> Value {
    object("MCPUpstream", name, &json!({"external": {"url": format!("http://{name}.example/mcp")}}))
}

/// How many requests of the operator wrote something, its lease apart.
async fn writes(operated: &Operated<'_>, mark: Mark) -> usize {
    let user = format!("system:serviceaccount:{}:{ACCOUNT}", operated.namespace);
    let requests = operated.cluster.requests_since(mark).await;
    let writes = requests.iter().filter(|request| {
        let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
        request.user == user && !reads && !request.resource.starts_with("leases.")
    });
    writes.count()
}

/// Waits until it has written so often, or nothing more for a while: edits that it sees at once take fewer writes.
async fn wrote(operated: &Operated<'_>, mark: Mark, after: usize) {
    let (mut before, mut since) = (0, Instant::now());
    until("it wrote so often, or all", async || {
        let now = writes(operated, mark).await;
        if now != before {
            (before, since) = (now, Instant::now());
        }
        (now >= after || since.elapsed() > QUIET && is_edited(operated).await).then_some(())
    })
    .await;
}

/// Whether the last edit is in the snapshot.
async fn is_edited(operated: &Operated<'_>) -> bool {
    let stored = operated.object("gatewaysnapshots", "main").await;
    if stored.get("spec").is_none() {
        return false;
    }
    let plan = plan(operated).await;
    let edited = plan.code.values().any(|code| code.contains("'two'"));
    edited && plan.upstreams.len() == 1
}

/// Everything that is to be the same: the plan, statuses, rights. Names of namespaces and what follows from them apart.
async fn end(operated: &Operated<'_>) -> Value {
    let mut plan = plan(operated).await;
    plan.revision.clear();
    plan.chains.iter_mut().for_each(|chain| chain.revision.clear());
    plan.plugins.iter_mut().for_each(|plugin| plugin.id.clear());
    let mut conditions = Vec::new();
    for plural in ["mcpgateways", "mcpupstreams", "plugins", "pluginchains"] {
        for object in operated.objects(plural).await {
            for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
                let words = ["type", "status", "reason", "message"].map(|member| condition[member].clone());
                conditions.push(json!([plural, object["metadata"]["name"], words]));
            }
        }
    }
    let role: Value = serde_json::from_str(&operated.get(&["role", "main-gateway", "-o", "json"]).await).unwrap();
    let all = json!({"plan": plan, "conditions": conditions, "rules": role["rules"]});
    serde_json::from_str(&all.to_string().replace(&operated.namespace, "NAMESPACE")).unwrap()
}

/// Runs the scenario; the operator is killed after `after` writes, and another takes over.
async fn scenario(after: Option<usize>) -> Value {
    let mut operated = Operated::start().await;
    let mark = operated.cluster.mark().await;
    operated.apply(&[gateway("main"), upstream("kept"), upstream("gone"), plugin("one")]).await;
    operated
        .apply(&[object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "say"}]}))])
        .await;
    operated.apply(&[plugin("two")]).await;
    operated.delete("mcpupstream/gone").await;
    let _next = match after {
        Some(after) => {
            wrote(&operated, mark, after).await;
            operated.operator.kill();
            // As if the time of its lease was over.
            let lease = ["delete", "lease", "hawsepipe-operator", "-n", &operated.namespace, "--ignore-not-found"];
            operated.cluster.kubectl(&lease, "").await.unwrap();
            Some(operated.another("next").await)
        }
        None => None,
    };
    until("the last edit is in the snapshot", async || is_edited(&operated).await.then_some(())).await;
    for (plural, name) in [("plugins", "say"), ("pluginchains", "answers"), ("mcpupstreams", "kept")] {
        operated.until_condition(plural, name, "Programmed", "False Pending").await;
    }
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    end(&operated).await
}

#[tokio::test]
#[ignore = "long: make test-long"]
async fn an_operator_killed_anywhere_leaves_nothing_half_done() {
    let expected = scenario(None).await;
    let all: Vec<_> = KILLED_AFTER.collect();
    for some in all.chunks(AT_ONCE) {
        let ends = join_all(some.iter().map(|after| scenario(Some(*after)))).await;
        for (after, end) in some.iter().zip(ends) {
            assert_eq!(end, expected, "killed after {after} writes");
        }
    }
}
