//! A real API client in plugins of a gateway: the connection is the gateway's, and the client is none the wiser.

use serde_json::json;

use super::contract::stand_in;
use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{object, raw_stdio, tools_of};
use crate::fixtures::fixture;

/// A plugin at `path` with the API's address in its environment.
fn plugin(name: &str, path: &str, api: &str, more: &str) -> String {
    let variable = |name: &str, value: &str| format!("{{name: {name}, value: {value:?}}}");
    let env = [variable("ANTHROPIC_API_KEY", "sk-none"), variable("ANTHROPIC_BASE_URL", api)].join(", ");
    object("Plugin", name, &format!("source: {{path: {path}}}, phases: [Response], env: [{env}], {more}"))
}

/// An upstream for each plugin, whose answers it changes.
fn manifests(folder: &Folder, api: &str) -> String {
    let plugins = fixture("");
    let egress = format!("egress: [{:?}]", api.strip_prefix("http://").unwrap());
    let gateway = format!("authentication: {{anonymous: {{}}}}, plugins: {{pluginDir: {plugins:?}}}");
    let mut manifests = object("MCPGateway", "main", &gateway);
    manifests += &plugin("asks", "asks/asks.mjs", api, &egress);
    manifests += &plugin("curation", "contract-1.0/curation-plugin.js", api, &format!("protocol: Once, {egress}"));
    manifests +=
        &plugin("elsewhere", "contract-1.0/curation-plugin.js", api, "protocol: Once, egress: [\"example.com:443\"]");
    for name in ["asks", "curation", "elsewhere"] {
        manifests += &raw_stdio(name, &folder.path().join(name));
        let entries = format!("entries: [{{name: {name}, maxTokens: 100}}]");
        let spec = format!("phase: Response, upstreams: {{names: [{name}]}}, {entries}");
        manifests += &object("PluginChain", name, &spec);
    }
    manifests
}

#[tokio::test]
async fn an_sdk_works_unchanged_in_modules_and_scripts() {
    let folder = Folder::new();
    let (_api, url) = stand_in(&["--log", folder.path().join("api").to_str().unwrap()]);
    folder.write("manifests.yaml", &manifests(&folder, &url));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asks", "curation", "elsewhere"]).await;
    let (http, trace) = (Http::new(), json!({"hawsepipe.dev/trace": true}));
    let call = async |upstream: &str| {
        let tool = format!("{upstream}__huge");
        http.call(&gateway.url(), &tool, &json!({"size": 5000}), &trace).await["result"].take()
    };
    let text = |size: usize| "x".repeat(size);
    for _ in 0..2 {
        let asked = call("asks").await;
        assert_eq!(asked["content"][0]["text"], format!("{}|{}", text(200), text(200)), "{asked}");
        let curated = call("curation").await;
        assert_eq!(curated["content"][0]["text"], text(200), "{curated}");
    }
    // What is not listed does not come about, and the content goes on as it was.
    let kept = call("elsewhere").await;
    assert_eq!(kept["content"][0]["text"], text(5000));
    assert_eq!(kept["_meta"]["hawsepipe.dev/trace"][0]["outcome"], "failed(PluginError)", "{kept}");

    let metrics = http.get(&format!("http://{}/metrics", gateway.admin())).await.body;
    let counted = |plugin: &str, outcome: &str| {
        let labels =
            format!("hawsepipe_plugin_connections_total{{outcome=\"{outcome}\",plugin=\"default/{plugin}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&labels));
        line.map_or(0, |count| count.parse::<u32>().unwrap())
    };
    assert_eq!(counted("curation", "opened"), 2, "{metrics}");
    assert!((2..=4).contains(&counted("asks", "opened")), "{metrics}");
    assert!(counted("elsewhere", "not_listed") >= 1 && counted("elsewhere", "opened") == 0, "{metrics}");
    let denied = gateway.logged(|line| line["plugin"] == "default/elsewhere" && line["level"] == "WARN");
    assert!(denied["message"].as_str().unwrap().starts_with("may not connect to 127.0.0.1:"), "{denied}");
}
