//! A pinned gateway: edits wait, what was taken away does not.

use serde_json::{Value, json};

use super::harness::{Operated, gateway, object};
use super::pods::Served;
use super::whole::{chain, objects, says};
use crate::harness::until;

/// The gateway, pinned or not.
fn main_gateway(pinned: Option<&str>, more: &Value) -> Value {
    let mut gateway = gateway("main");
    if let Some(pinned) = pinned {
        gateway["spec"]["pinnedRevision"] = json!(pinned);
    }
    for (field, value) in more.as_object().into_iter().flatten() {
        gateway["spec"][field] = value.clone();
    }
    gateway
}

/// A gateway that is pinned to its first revision, and what that is called. A second one is the newest.
async fn pinned() -> (Operated<'static>, Served<'static>, String) {
    let operated = Operated::start().await;
    let mut all = objects().await;
    all[0] = main_gateway(None, &json!({}));
    operated.apply(&all).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_condition("mcpgateways", "main", "Programmed", "True Programmed").await;
    let first = served.gateway.report().await.revision;
    operated.apply(&[main_gateway(Some(&first), &json!({}))]).await;
    operated.apply(&[says("two")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False Pinned").await;
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");
    (operated, served, first)
}

async fn until_refused(served: &Served<'_>, why: &str) {
    until("the call is refused", async || {
        let answer = served.gateway.call("up__whoami").await;
        assert!(answer.as_ref().map_or(true, |text| text == "one nobody"), "unguarded: {answer:?}");
        answer.err().filter(|refusal| refusal.contains(why))
    })
    .await;
}

#[tokio::test]
async fn the_stop_switch_works_on_a_pinned_gateway() {
    let (operated, served, first) = pinned().await;
    operated.apply(&[main_gateway(Some(&first), &json!({"stopped": true}))]).await;
    until_refused(&served, "stop").await;
    operated.until_condition("mcpgateways", "main", "Refusing", "True Stopped").await;
    operated.apply(&[main_gateway(Some(&first), &json!({}))]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    assert_eq!(served.gateway.report().await.revision, first);
}

#[tokio::test]
async fn a_deleted_guard_and_a_deleted_upstream_count_on_a_pinned_gateway() {
    let (operated, mut served, first) = pinned().await;
    operated.delete("plugin/say").await;
    until_refused(&served, "PluginNotFound").await;
    operated.until_condition("mcpgateways", "main", "Refusing", "True GuardUnavailable").await;
    // A new pod learns it with the revision.
    served.restart(&[]).await;
    until("it is ready", async || (served.gateway.get("/readyz").await.status == 200).then_some(())).await;
    until_refused(&served, "PluginNotFound").await;
    operated.apply(&[says("three")]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;

    operated.delete("mcpupstream/up").await;
    until_refused(&served, "up__whoami").await;
    assert_eq!(served.gateway.report().await.revision, first);
    // A chain that is deleted guards on.
    operated.delete("pluginchain/answers").await;
    operated.apply(&objects().await[1..2]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.apply(&[chain()]).await;
}

#[tokio::test]
async fn pods_that_run_an_older_revision_are_told_what_it_lost_once_the_pin_is_taken_out() {
    let (operated, served, first) = pinned().await;
    operated.delete("mcpupstream/up").await;
    until_refused(&served, "up__whoami").await;
    // A pod that cannot take the newest revision runs the first one on.
    operated.apply(&[main_gateway(None, &json!({}))]).await;
    until("the index says it of the first revision", async || {
        let index = operated.object("gatewaysnapshots", "main").await["spec"]["index"].clone();
        let revisions = index["revisions"].as_array()?;
        let of_first = revisions.iter().find(|known| known["revision"] == first.as_str())?;
        let is_free = index["current"] != first.as_str() && index["acts"]["revoked"].is_null();
        (is_free && of_first["acts"]["revoked"][0]["name"] == "up").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pinned_gateway_whose_index_is_deleted_gets_it_back_and_can_be_stopped() {
    let (operated, served, first) = pinned().await;
    operated.delete("gatewaysnapshot/main").await;
    let index = until("the index is back", async || {
        let found = operated.object("gatewaysnapshots", "main").await;
        (!found.is_null()).then_some(found)
    })
    .await;
    assert_eq!(index["spec"]["index"]["current"], first.as_str(), "{index:#}");
    operated.apply(&[main_gateway(Some(&first), &json!({"stopped": true}))]).await;
    until_refused(&served, "stop").await;
    operated.apply(&[main_gateway(None, &json!({}))]).await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
}

#[tokio::test]
async fn a_gateway_is_stopped_although_its_newest_plan_cannot_be_written() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"},
        "spec": {"hard": {"count/gatewaysnapshots.hawsepipe.dev": "0"}}});
    operated.apply(&[quota]).await;
    let probe = json!({"apiVersion": "hawsepipe.dev/v1alpha1", "kind": "GatewaySnapshot",
        "metadata": {"name": "probe"}, "spec": {"gateway": "probe", "index": {"current": "0123456789ab",
        "revisions": [{"revision": "0123456789ab", "formatVersion": 1, "shards": []}]}}});
    let create = ["create", "--dry-run=server", "-n", &operated.namespace, "-f", "-"];
    until("the quota is in force", async || {
        operated.cluster.kubectl(&create, &probe.to_string()).await.err().map(drop)
    })
    .await;
    operated.apply(&[says("two")]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False Forbidden").await;
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");
    let mut stopped = super::whole::guarded_gateway();
    stopped["spec"]["stopped"] = json!(true);
    operated.apply(&[stopped]).await;
    until_refused(&served, "stop").await;
}

#[tokio::test]
async fn a_revision_that_is_not_kept_is_told_and_the_newest_does_not_run() {
    let (operated, served, first) = pinned().await;
    operated.apply(&[main_gateway(Some("0123456789ab"), &json!({}))]).await;
    let message = operated.until_condition("mcpgateways", "main", "Programmed", "False RevisionNotFound").await;
    assert!(message.contains("0123456789ab") && message.contains(&first), "{message}");
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");
    operated.apply(&[main_gateway(None, &json!({}))]).await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
    operated.until_condition("mcpgateways", "main", "Ready", "True Ready").await;

    let mut never = gateway("never");
    never["spec"]["pinnedRevision"] = json!("0123456789ab");
    operated.apply(&[never]).await;
    operated.until_condition("mcpgateways", "never", "Programmed", "False RevisionNotFound").await;
    assert_eq!(operated.object("gatewaysnapshots", "never").await, Value::Null);
}

#[tokio::test]
async fn one_user_of_a_gateway_does_not_stop_the_others_edits() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    // As much config as an object has room for, and more keys of one Secret than anybody names.
    let noise: String = (0..20_000_u32).map(|n| hawsepipe::domain::digest::sha256_hex(&n.to_le_bytes())).collect();
    let code = json!({"inline": "export default ({ rawContent }) => ({ text: rawContent, continue: true });"});
    let large = object("Plugin", "large", &json!({"source": code, "config": {"noise": noise[..700_000]}}));
    let env: Vec<_> = (0..100)
        .map(|n| json!({"name": format!("V{n}"), "valueFrom": {"secretKeyRef": {"name": "keys", "key": format!("k{n}")}}}))
        .collect();
    let keys = |name: &str, env: &[Value]| object("Plugin", name, &json!({"source": code, "env": env}));
    let entries = json!([{"name": "large"}, {"name": "keys"}, {"name": "more"}]);
    // Server-side: what was applied last would not fit into an annotation.
    let api = super::harness::api(&operated.client, &operated.namespace, "plugins");
    api.create(&Default::default(), &serde_json::from_value(large).unwrap()).await.unwrap();
    operated
        .apply(&[
            keys("keys", &env[..50]),
            keys("more", &env[50..]),
            object("PluginChain", "others", &json!({"phase": "Request", "entries": entries})),
        ])
        .await;
    let message = operated.until_condition("plugins", "large", "Accepted", "False TooLarge").await;
    assert!(message.contains("bytes"), "{message}");
    operated.delete("pluginchain/others").await;
    operated.apply(&[says("two")]).await;
    served.gateway.until_answers("up__whoami", "two nobody").await;
    let mut stopped = super::whole::guarded_gateway();
    stopped["spec"]["stopped"] = json!(true);
    operated.apply(&[object("PluginChain", "others", &json!({"phase": "Request", "entries": entries})), stopped]).await;
    until("the call is refused", async || served.gateway.call("up__whoami").await.err().filter(|e| e.contains("stop")))
        .await;
}
