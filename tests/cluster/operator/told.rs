//! What goes wrong is told in four places: status, Event, `kubectl get`, and the calls themselves. Never does a call pass
//! without its guard.

use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::pods::Served;
use super::whole::{chain, guarded_gateway, objects, says};
use crate::harness::until;

/// What a plugin shows that the chain uses and that is as it should be.
const GOOD: [&str; 7] = ["middleware", "Guard", "Module", "1", "1/1", "True", "Ready"];

/// Waits until calls are refused for `why`; until then they may pass the guard that says `before`, and nothing else.
async fn until_refused(served: &Served<'_>, before: &str, why: &str) {
    until("the call is refused", async || {
        let answer = served.gateway.call("up__whoami").await;
        assert!(answer.as_ref().map_or(true, |text| text == before), "unguarded: {answer:?}");
        answer.err().filter(|refusal| refusal.contains(why))
    })
    .await;
}

#[tokio::test]
async fn a_plugin_that_is_not_there_is_told_everywhere() {
    let operated = Operated::start().await;
    let mut all = objects().await;
    all.retain(|object| object["kind"] != "Plugin");
    operated.apply(&all).await;
    let served = operated.serve("main", &[]).await;
    // Never there.
    until_refused(&served, "", "PluginNotFound").await;
    missing(&operated).await;
    operated.apply(&[says("one")]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_row("pchain", "answers", &["Response", "say", "1", "1/1", "True", "Ready"]).await;
    operated.until_row("plug", "say", &GOOD).await;
    operated.until_row("mcpgw", "main", &["1/1", "1/1", "1", "1", "1", "0", "True", "Ready"]).await;
    operated.until_event("PluginChain", "answers", "Normal Ready").await;

    // There, and deleted.
    operated.delete("plugin/say").await;
    until_refused(&served, "one nobody", "PluginNotFound").await;
    missing(&operated).await;
}

/// What is said while the chain's plugin is not there.
async fn missing(operated: &Operated<'_>) {
    let message = operated.until_condition("pluginchains", "answers", "ResolvedRefs", "False PluginNotFound").await;
    assert!(message.contains("there is no Plugin"), "{message}");
    for (condition, is) in [("Refusing", "True GuardUnavailable"), ("Ready", "False PluginNotFound")] {
        operated.until_condition("pluginchains", "answers", condition, is).await;
    }
    let message = operated.until_condition("mcpgateways", "main", "Refusing", "True GuardUnavailable").await;
    assert!(message.contains("/answers"), "{message}");
    operated.until_row("pchain", "answers", &["Response", "say", "1", "1/1", "False", "PluginNotFound"]).await;
    operated.until_row("mcpgw", "main", &["1/1", "1/1", "1", "1", "1", "1", "True", "Ready", "GuardUnavailable"]).await;
    for (kind, name, event) in [
        ("PluginChain", "answers", "Warning PluginNotFound"),
        ("PluginChain", "answers", "Warning GuardUnavailable"),
        ("MCPGateway", "main", "Warning GuardUnavailable"),
    ] {
        operated.until_event(kind, name, event).await;
    }
}

#[tokio::test]
async fn a_syntax_error_is_told_everywhere_and_the_last_form_runs_on() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_row("plug", "say", &GOOD).await;
    let before = operated.object("plugins", "say").await["status"].clone();
    let running = json!({"sha256": before["sha256"], "generation": 1});
    assert_eq!(before["running"], running, "{before:#}");

    operated
        .apply(&[object("Plugin", "say", &json!({"source": {"inline": "export default ("}, "role": "Guard"}))])
        .await;
    let message = operated.until_condition("plugins", "say", "Accepted", "False SyntaxError").await;
    assert!(message.contains("line 1") && message.contains("still runs"), "{message}");
    for (plural, name, condition, is) in [
        ("plugins", "say", "Ready", "False SyntaxError"),
        ("plugins", "say", "Programmed", "False PreviousRevision"),
        ("pluginchains", "answers", "PartiallyInvalid", "True PreviousRevision"),
        ("pluginchains", "answers", "Ready", "True Ready"),
        ("mcpgateways", "main", "PartiallyInvalid", "True SyntaxError"),
        ("mcpgateways", "main", "Ready", "True Ready"),
    ] {
        operated.until_condition(plural, name, condition, is).await;
    }
    let shown = ["middleware", "Guard", "Module", "1", "0/1", "False", "SyntaxError"];
    operated.until_row("plug", "say", &shown).await;
    operated.until_row("pchain", "answers", &["Response", "say", "1", "1/1", "True", "Ready"]).await;
    operated.until_row("mcpgw", "main", &["1/1", "1/1", "1", "1", "1", "1", "True", "Ready"]).await;
    for (kind, name, event) in [
        ("Plugin", "say", "Warning SyntaxError"),
        ("PluginChain", "answers", "Warning PreviousRevision"),
        ("MCPGateway", "main", "Warning SyntaxError"),
    ] {
        operated.until_event(kind, name, event).await;
    }
    let after = operated.object("plugins", "say").await["status"].clone();
    assert_eq!(after["running"], running, "{after:#}");
    assert_eq!(after["sizeBytes"], "export default (".len(), "{after:#}");
    assert!(after["sha256"] != before["sha256"] && after["exports"] == Value::Null, "{after:#}");
    assert_eq!(served.gateway.call("up__whoami").await.unwrap(), "one nobody");
}

#[tokio::test]
async fn a_required_chain_that_is_deleted_closes_the_gateway() {
    let operated = Operated::start().await;
    operated.apply(&objects().await).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.delete("pluginchain/answers").await;
    until_refused(&served, "one nobody", "/answers").await;
    let message = operated.until_condition("mcpgateways", "main", "Refusing", "True RequiredChainMissing").await;
    assert!(message.contains("/answers"), "{message}");
    operated.until_condition("mcpgateways", "main", "Ready", "False RequiredChainMissing").await;
    operated.until_event("MCPGateway", "main", "Warning RequiredChainMissing").await;
    let missing = "RequiredChainMissing";
    let shown = ["1/1", "1/1", "1", "1", "0", "1", "False", missing, missing];
    operated.until_row("mcpgw", "main", &shown).await;
    operated.until_condition("plugins", "say", "Programmed", "True NotUsed").await;

    operated.apply(&[chain(), guarded_gateway()]).await;
    served.gateway.until_answers("up__whoami", "one nobody").await;
    operated.until_row("mcpgw", "main", &["1/1", "1/1", "1", "1", "1", "0", "True", "Ready"]).await;
}

#[tokio::test]
async fn what_has_no_effect_is_told_by_status_and_event() {
    let operated = Operated::start().await;
    let mut all = objects().await;
    all[0] = super::harness::gateway("main");
    all[1]["spec"]["pinning"] = json!({"mode": "Alert"});
    all[3]["spec"]["upstreams"] = json!({"names": ["upp"]});
    operated.apply(&all).await;
    let served = operated.serve("main", &[]).await;
    served.gateway.until_answers("up__whoami", "nobody").await;
    let message = operated.until_condition("mcpupstreams", "up", "Accepted", "True Accepted").await;
    assert!(message.contains("spec.pinning.approved") && message.contains("InvalidConfig"), "{message}");
    operated.until_event("MCPUpstream", "up", "Warning InvalidConfig").await;
    operated.until_condition("pluginchains", "answers", "Programmed", "False NoUpstreams").await;
    operated.until_condition("pluginchains", "answers", "Ready", "False NoUpstreams").await;
    operated.until_event("PluginChain", "answers", "Warning NoUpstreams").await;
}
