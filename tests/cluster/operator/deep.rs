//! Objects that nest deeper than readers of JSON go.

use serde_json::{Value, json};

use super::harness::{Operated, gateway, object};
use crate::harness::until;

fn plugin(name: &str, text: &str, config: &Value) -> Value {
    object("Plugin", name, &json!({"source": {"inline": text}, "config": config}))
}

/// An object of so many levels.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"a": inner}))
}

impl Operated<'_> {
    /// Waits until a plugin's `Accepted` says this. Our own clients do not read what nests so deep.
    async fn until_accepted_says(&self, name: &str, words: &[&str]) {
        until(&format!("plugin {name} says {words:?}"), async || {
            let accepted = r#"jsonpath={.status.conditions[?(@.type=="Accepted")]}"#;
            let told = self.get(&["plugin", name, "-o", accepted]).await;
            words.iter().all(|word| told.contains(word)).then_some(())
        })
        .await;
    }

    async fn edit_counts(&self, text: &str) {
        self.apply(&[plugin("other", text, &json!({}))]).await;
        until("the edit counts", async || {
            let object = self.object("plugins", "other").await;
            (object["status"]["observedGeneration"] == object["metadata"]["generation"]).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn an_object_that_nests_too_deep_is_named_and_stops_nothing_else() {
    let mut operated = Operated::start().await;
    operated.apply(&[gateway("main"), plugin("other", "1;", &json!({}))]).await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;

    operated.apply(&[plugin("deep", "1;", &nested(119)), plugin("deeper", "1;", &nested(1000))]).await;
    for name in ["deep", "deeper"] {
        operated.until_accepted_says(name, &["False", "InvalidObject", "nests too deep", "spec.config.a"]).await;
    }
    operated.edit_counts("2;").await;

    operated.operator.kill();
    let next = operated.another("next").await;
    until("a new operator sees every kind", async || next.log().contains("every kind is watched").then_some(())).await;
    operated.edit_counts("3;").await;
    operated.until_condition("mcpgateways", "main", "Programmed", "False NoReadyPods").await;
}
