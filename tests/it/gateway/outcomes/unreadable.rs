//! A chain of which it cannot be told which gateways it is for.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::manifests::{chain, gateway, raw_server, yaml};

/// A chain for no tool that there is, in a namespace, with this as its `gateways`.
fn for_gateways(namespace: &str, gateways: &Value) -> String {
    let mut odd = chain("odd", "Response", "nowhere", &[json!({"name": "one"})]);
    odd["metadata"]["namespace"] = json!(namespace);
    odd["spec"]["gateways"] = gateways.clone();
    yaml(&[odd])
}

#[tokio::test]
async fn a_chain_with_unreadable_gateways_refuses_every_call_of_a_gateway_that_could_take_it() {
    let (unreadable, text) = (json!("main"), "/result/content/0/text");
    let folder = Folder::with(&yaml(&[gateway(&json!({})), raw_server("up", &[])]));
    // This gateway takes no chain of that namespace, whatever the chain says.
    folder.write("odd.yaml", &for_gateways("elsewhere", &unreadable));
    let gateway = Gateway::start(&folder);
    gateway.logged(|line| line["message"].as_str().is_some_and(|said| said.contains("spec.gateways")));
    gateway.until_answer("up__args", &json!({}), text, &json!("{}")).await;
    folder.write("own.yaml", &for_gateways("default", &unreadable));
    let refused = json!({"chain": "default/odd", "reason": "InvalidObject"});
    gateway.until_answer("up__args", &json!({}), "/result/_meta/hawsepipe.dev~1refused", &refused).await;
    // It is for another gateway, as can be read now.
    folder.write("own.yaml", &for_gateways("default", &json!([{"name": "other"}])));
    gateway.until_answer("up__args", &json!({}), text, &json!("{}")).await;
}
