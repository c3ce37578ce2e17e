//! Fields that a client applied and the API server dropped.

use serde_json::{Value, json};

use super::harness::{Operated, condition, object};
use crate::harness::until;

/// A chain with methods in the field `field`.
fn chain(field: &str) -> Value {
    let mut spec = json!({"phase": "Response", "entries": [{"name": "a"}]});
    spec[field] = json!(["tools/call", "resources/read"]);
    object("PluginChain", "answers", &spec)
}

/// The message of `Accepted`, once it is true for the chain.
async fn accepted(operated: &Operated<'_>) -> Option<String> {
    let object = operated.object("pluginchains", "answers").await;
    let (is, message) = condition(&object["status"], "Accepted")?;
    (is == "True Accepted").then_some(message)
}

#[tokio::test]
async fn a_field_that_was_dropped_when_kubectl_applied_it_is_a_warning() {
    let operated = Operated::start().await;
    let apply = async |field: &str, more: &[&str]| {
        let words = [&["apply", "-n", &operated.namespace, "-f", "-"], more].concat();
        operated.cluster.kubectl(&words, &chain(field).to_string()).await
    };
    let strict = apply("mehtods", &[]).await.unwrap_err();
    assert!(strict.contains("unknown field \"spec.mehtods\""), "{strict}");

    apply("methods", &[]).await.unwrap();
    assert_eq!(until("it is accepted", async || accepted(&operated).await).await, "");
    apply("mehtods", &["--validate=false"]).await.unwrap();
    let message = until("it warns", async || accepted(&operated).await.filter(|message| !message.is_empty())).await;
    let said =
        "spec.mehtods: kubectl applied the field, and the API server dropped it: unknown field; did you mean methods?";
    assert!(message.contains(said), "{message}");
    operated.until_event("PluginChain", "answers", "Warning InvalidObject").await;
    apply("methods", &[]).await.unwrap();
    until("the warning is gone", async || accepted(&operated).await.filter(String::is_empty)).await;

    // The same object: nothing but the annotation changes.
    let mut corrected = chain("methods");
    corrected["spec"]["orderr"] = json!(1);
    let words = ["apply", "-n", &operated.namespace, "--validate=false", "-f", "-"];
    let before = operated.object("pluginchains", "answers").await["metadata"]["generation"].clone();
    operated.cluster.kubectl(&words, &corrected.to_string()).await.unwrap();
    until("it warns again", async || accepted(&operated).await.filter(|message| message.contains("orderr"))).await;
    assert_eq!(operated.object("pluginchains", "answers").await["metadata"]["generation"], before);
}
