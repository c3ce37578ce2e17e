//! The whole way: `kubectl apply`, the operator, a gateway that holds the rights the operator made, calls, statuses.

use serde_json::{Value, json};

use super::harness::{Operated, gateway, object};
use crate::gateway::upstream;

/// A plugin that puts `word` before what a tool answers.
pub fn says(word: &str) -> Value {
    let code = format!("export default ({{ rawContent }}) => ({{ text: `{word} ${{rawContent}}`, continue: true }});");
    object("Plugin", "say", &json!({"source": {"inline": code}, "role": "Guard"}))
}

/// The chain that runs it on every answer.
pub fn chain() -> Value {
    object("PluginChain", "answers", &json!({"phase": "Response", "entries": [{"name": "say"}]}))
}

/// A gateway that requires that chain.
pub fn guarded_gateway() -> Value {
    object(
        "MCPGateway",
        "main",
        &json!({"authentication": {"anonymous": {}},
        "chains": {"required": [{"name": "answers"}]}}),
    )
}

/// All of it, with a server of one tool.
pub async fn objects() -> Vec<Value> {
    let url = upstream::start().await;
    let up = object("MCPUpstream", "up", &json!({"external": {"url": url}, "protocol": {"era": "Legacy"}}));
    vec![guarded_gateway(), up, says("one"), chain()]
}

#[tokio::test]
async fn what_is_applied_is_served_and_told() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    for (plural, name) in
        [("mcpgateways", "main"), ("plugins", "say"), ("pluginchains", "answers"), ("mcpupstreams", "up")]
    {
        operated.until_condition(plural, name, "Ready", "True Ready").await;
    }
    let upstream = operated.object("mcpupstreams", "up").await;
    assert_eq!(upstream["status"]["connectionState"], "Connected", "{upstream:#}");
    assert_eq!(upstream["status"]["tools"][0]["name"], "whoami", "{upstream:#}");
    let columns = operated.get(&["mcpgw,mcpup,plug,pchain", "--no-headers"]).await;
    let words: Vec<Vec<&str>> = columns.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |name: &str| words.iter().find(|row| row.first().is_some_and(|word| word.ends_with(name))).unwrap();
    assert_eq!(row("/main")[1..9], ["1/1", "1/1", "1", "1", "1", "0", "True", "Ready"], "{columns}");
    assert_eq!(row("/up")[1..8], ["external", "Connected", "1", "0", "1/1", "True", "Ready"], "{columns}");
    assert_eq!(row("/say")[1..8], ["middleware", "Guard", "Module", "1", "1/1", "True", "Ready"], "{columns}");
    assert_eq!(row("/answers")[1..7], ["Response", "say", "1", "1/1", "True", "Ready"], "{columns}");

    operated.apply(&[says("two")]).await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
    operated.until_condition("plugins", "say", "Programmed", "True Programmed").await;
}

#[tokio::test]
async fn a_pinned_revision_stays_until_it_is_freed() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    let one = served.gateway.report().await.revision;
    operated.apply(&[says("two")]).await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
    let mut pinned = guarded_gateway();
    pinned["spec"]["pinnedRevision"] = json!(one);
    operated.apply(&[pinned]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False Pinned").await;
    operated.apply(&[says("three")]).await;
    operated.until_condition("plugins", "say", "Programmed", "False Pinned").await;
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");
    operated.apply(&[guarded_gateway()]).await;
    served.gateway.until_answers("up__whoami", "three nobody").await;
}

#[tokio::test]
async fn servers_are_found_by_what_they_publish() {
    let operated = Operated::start().await;
    operated.apply(&[gateway("main")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "server"},
        "spec": {"ports": [{"name": "mcp", "port": 80}]}});
    let up = |port: &str| {
        let server = json!({"kind": "Service", "name": "server", "port": port});
        object("MCPUpstream", "up", &json!({"serverRef": server}))
    };
    operated.apply(&[up("mcp")]).await;
    let message = operated.until_condition("mcpupstreams", "up", "ResolvedRefs", "False ServerNotFound").await;
    assert!(message.contains("there is no Service"), "{message}");
    operated.apply(&[service]).await;
    operated.until_condition("mcpupstreams", "up", "ResolvedRefs", "True ResolvedRefs").await;
    let stored = operated.object("mcpupstreams", "up").await;
    let address = format!("http://server.{}.svc:80/mcp", operated.namespace);
    assert_eq!(stored["status"]["address"], address, "{stored:#}");
    operated.apply(&[up("admin")]).await;
    let message = operated.until_condition("mcpupstreams", "up", "ResolvedRefs", "False ServerNotFound").await;
    assert!(message.contains("80 (mcp)"), "{message}");
    let other = json!({"apiGroup": "servers.example", "kind": "Server", "name": "x"});
    operated.apply(&[object("MCPUpstream", "other", &json!({"serverRef": other}))]).await;
    operated.until_condition("mcpupstreams", "other", "ResolvedRefs", "False KindNotSupported").await;
}
