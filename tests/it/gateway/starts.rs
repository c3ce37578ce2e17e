//! Plugins that take their time to start, or stop to start while their gateway runs.

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, gateway, plugin, raw_server, yaml};
use super::outcomes::seen::metrics;
use super::parts::until;

/// Does not start while the file `BROKEN` is there.
const CODE: &str = "import { existsSync } from 'node:fs';
if (existsSync(BROKEN)) throw new Error('broken');
export default ({ rawContent }) => {
  if (rawContent.includes('end')) process.exit(1);
  return { text: rawContent, continue: true };
};";
/// What says that the chain refuses.
const REFUSING: &str = "hawsepipe_chain_refusing{chain=\"default/c\",reason=\"NotLoaded\"} 1\n";

/// Waits until the metrics say that the chain refuses, or that it does not.
async fn until_refusing(gateway: &Gateway, wanted: bool) {
    until(&format!("refusing: {wanted}"), async || metrics(gateway).await.contains(REFUSING) == wanted).await;
}

async fn call(gateway: &Gateway, arguments: &Value) -> Value {
    Http::new().call(&gateway.url(), "up__args", arguments, &json!({})).await["result"].clone()
}

#[tokio::test]
async fn its_chain_is_said_to_refuse_until_it_starts_again() {
    let folder = Folder::new();
    let broken = folder.path().join("broken");
    let code = CODE.replace("BROKEN", &format!("{broken:?}"));
    folder.write(
        "manifests.yaml",
        &yaml(&[
            gateway(&json!({})),
            raw_server("up", &[]),
            plugin("p", &code, &json!({"role": "Guard", "pool": {"size": 1}})),
            chain("c", "Request", "args", &[json!({"name": "p"})]),
        ]),
    );
    let gateway = Gateway::start(&folder);
    let passes = (json!({"a": 1}), json!(r#"{"a":1}"#));
    gateway.until_answer("up__args", &passes.0, "/result/content/0/text", &passes.1).await;
    until_refusing(&gateway, false).await;
    std::fs::write(&broken, "").unwrap();
    let ended = call(&gateway, &json!({"a": "end"})).await;
    assert_eq!(ended["_meta"]["hawsepipe.dev/failed"]["reason"], "Crashed", "{ended}");
    until_refusing(&gateway, true).await;
    let refused = call(&gateway, &passes.0).await;
    assert_eq!(refused["_meta"]["hawsepipe.dev/refused"]["reason"], "NotLoaded", "{refused}");
    std::fs::remove_file(&broken).unwrap();
    until_refusing(&gateway, false).await;
    let passed = call(&gateway, &passes.0).await;
    assert_eq!(passed["content"][0]["text"], passes.1, "{passed}");
}

/// Does not start before the file `GO` is there.
const LATE: &str = "import { existsSync } from 'node:fs';
while (!existsSync(GO)) await new Promise((done) => setTimeout(done, 20));
export default ({ rawContent: text }) => ({ text, continue: true });";

#[tokio::test]
async fn a_gateway_is_first_ready_when_its_plugins_have_workers() {
    let folder = Folder::new();
    let go = folder.path().join("go");
    let manifests = |names: &[&str]| {
        let entries: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
        let code = |name: &str| LATE.replace("GO", &format!("{:?}", folder.path().join(name)));
        let plugins = names.iter().map(|name| plugin(name, &code(name), &json!({"role": "Observe"})));
        let rest = [raw_server("up", &[]), chain("c", "Request", "args", &entries)];
        yaml(&plugins.chain(rest).collect::<Vec<_>>())
    };
    folder.write("manifests.yaml", &manifests(&["go"]));
    let gateway = Gateway::starting(&folder, &[], &[]);
    let ready = async || Http::new().get(&format!("http://{}/readyz", gateway.admin())).await;
    until("it waits for the plugin", async || {
        let ready = ready().await;
        assert_eq!(ready.status, 503, "{}", ready.body);
        ready.body.contains("plugins")
    })
    .await;
    std::fs::write(&go, "").unwrap();
    until("it is ready", async || ready().await.status == 200).await;
    let workers = format!("http://{}/api/v1/workers", gateway.admin());
    let has_worker = async || Http::new().get(&workers).await.json()["items"][0]["state"] == "Available";
    until("it has a worker", has_worker).await;

    // A plugin of a later plan does not count.
    folder.write("manifests.yaml", &manifests(&["go", "never"]));
    let plugins = format!("http://{}/api/v1/plugins", gateway.admin());
    until("the later plan is in force", async || Http::new().get(&plugins).await.body.contains("default/never")).await;
    assert_eq!(ready().await.status, 200);
}
