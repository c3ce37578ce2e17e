//! Acts while a gateway runs: what is taken away refuses from then on; a mistake changes nothing.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::manifests::{chain, gateway, plugin, raw_server, yaml};
use super::acts::MODULE;

/// A plugin of another namespace.
fn lent(shared: bool) -> String {
    let mut spec = json!({"config": {"act": "change"}});
    if shared {
        spec["shareWith"] = json!({"namespaces": {"from": "All"}});
    }
    let mut lent = plugin("lent", MODULE, &spec);
    lent["metadata"]["namespace"] = json!("library");
    yaml(&[lent])
}

fn guard(code: &str) -> String {
    yaml(&[plugin("guard", code, &json!({"role": "Guard", "config": {"act": "change"}}))])
}

fn must() -> String {
    yaml(&[chain("must", "Request", "nowhere", &[json!({"name": "guard"})])])
}

/// What is not edited.
fn fixed() -> String {
    yaml(&[
        gateway(&json!({"chains": {"required": [{"name": "must"}]}})),
        raw_server("up", &[]),
        chain("before", "Request", "args", &[json!({"name": "guard"})]),
        chain("after", "Response", "slow", &[json!({"name": "lent", "namespace": "library"})]),
    ])
}

#[tokio::test]
async fn what_is_taken_away_refuses_from_then_on() {
    let folder = Folder::new();
    folder.write("fixed.yaml", &fixed());
    folder.write("guard.yaml", &guard(MODULE));
    folder.write("lent.yaml", &lent(true));
    folder.write("must.yaml", &must());
    let gateway = Gateway::start(&folder);
    let until = |tool: &'static str, pointer: &'static str, value: Value| {
        let gateway = &gateway;
        async move { gateway.until_answer(tool, &json!({"m": "a"}), pointer, &value).await }
    };
    let (text, refused) = ("/result/content/0/text", "/result/_meta/hawsepipe.dev~1refused/reason");
    let guarded = json!(r#"{"m":"a+x"}"#);
    until("up__args", text, guarded.clone()).await;
    until("up__slow", text, guarded.clone()).await;

    // A mistake changes nothing that runs.
    folder.write("guard.yaml", &guard("export default ("));
    gateway.logged(|line| line.to_string().contains("SyntaxError"));
    until("up__args", text, guarded.clone()).await;
    // An act counts at once, and is taken back as fast.
    std::fs::remove_file(folder.path().join("guard.yaml")).unwrap();
    until("up__args", refused, json!("PluginNotFound")).await;
    folder.write("guard.yaml", &guard(MODULE));
    until("up__args", text, guarded.clone()).await;
    folder.write("lent.yaml", &lent(false));
    until("up__slow", refused, json!("RefNotPermitted")).await;
    folder.write("lent.yaml", &lent(true));
    until("up__slow", text, guarded.clone()).await;
    // A gateway refuses every call until what it requires is in force.
    std::fs::remove_file(folder.path().join("must.yaml")).unwrap();
    until("up__slow", "/error/data/reason", json!("FailsClosed")).await;
    folder.write("must.yaml", &must());
    until("up__slow", text, guarded).await;
    // A chain that nothing requires goes with its document.
    folder.write("fixed.yaml", &yaml(&[super::super::manifests::gateway(&json!({})), raw_server("up", &[])]));
    until("up__args", text, json!(r#"{"m":"a"}"#)).await;
}
