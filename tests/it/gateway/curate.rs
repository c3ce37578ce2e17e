//! The curation plugin that comes with the gateway, with the SDK in it, on real calls. The service is a stand-in: the
//! real one needs the internet and a key that costs.

use serde_json::{Value, json};

use super::contract::{outcome, stand_in};
use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{logged, object, raw_stdio, tools_of};
use crate::fixtures::checkout;

/// The plugin under `name`, with the service at `url`, as far as it may reach `host`.
fn curate(name: &str, url: &str, host: &str, more: &str) -> String {
    let source =
        format!("source: {{path: curate/index.mjs}}, egress: [{host:?}], config: {{baseUrl: {url:?}, retries: 0}}");
    let chain = format!("phase: Response, upstreams: {{names: [{name}]}}, entries: [{{name: {name}, maxTokens: 100}}]");
    object("Plugin", name, &format!("{source}, {more}")) + &object("PluginChain", name, &chain)
}

/// What gives the plugin its key.
const KEY: &str = "env: [{name: ANTHROPIC_API_KEY, value: sk-none}]";

#[tokio::test]
async fn answers_are_curated_or_go_on_as_they_were() {
    let folder = Folder::new();
    let (_api, url) = stand_in(&["--log", folder.path().join("api").to_str().unwrap()]);
    let (_down, down) = stand_in(&["--fail", "400"]);
    let plugins = format!("plugins: {{pluginDir: {:?}}}", checkout().join("plugins"));
    let mut manifests = object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, {plugins}"));
    let (host, down_host) = (url.strip_prefix("http://").unwrap(), down.strip_prefix("http://").unwrap());
    let upstreams = [
        ("up", &url, host, KEY),
        ("down", &down, down_host, KEY),
        ("keyless", &url, host, ""),
        ("closed", &url, "127.0.0.1:1", KEY),
    ];
    for (name, url, host, env) in upstreams {
        manifests += &raw_stdio(name, &folder.path().join(name));
        manifests += &curate(name, url, host, env);
    }
    folder.write("manifests.yaml", &manifests);
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["up", "down", "keyless", "closed"]).await;
    let (http, meta) = (Http::new(), json!({"hawsepipe.dev/trace": true, "hawsepipe.dev/userQuery": "why x?"}));
    let call = async |tool: &str, size: u32| http.call(&gateway.url(), tool, &json!({"size": size}), &meta).await;

    let curated = call("up__huge", 5000).await;
    let (entry, text) = outcome(&curated);
    assert_eq!((&entry["outcome"], &entry["metadata"]["curated"]), (&json!("ran"), &json!(true)), "{entry}");
    assert!(text.starts_with("<question>why x?</question>") && text.len() == 200, "{text}");
    let sent = folder.path().join("api");
    assert_eq!((logged(&sent, "\"maxTokens\":100"), logged(&sent, "\"key\":\"sk-none\"")), (1, 1));

    let short = call("up__huge", 100).await;
    assert_eq!(outcome(&short).1, "x".repeat(100));
    assert_eq!(logged(&sent, "maxTokens"), 1, "what is short is not sent");

    let kept =
        [("down__huge", "status 400"), ("keyless__huge", "there is no key"), ("closed__huge", "cannot be reached")];
    for (tool, reason) in kept {
        let kept: Value = call(tool, 5000).await;
        let (entry, text) = outcome(&kept);
        assert_eq!(entry["outcome"], "failed(PluginError)", "{entry}");
        assert!(entry["metadata"]["reason"].as_str().unwrap().contains(reason), "{entry}");
        assert!(text == "x".repeat(5000), "the content goes on as it was");
    }
    assert_eq!(logged(&sent, "maxTokens"), 1, "who may not reach the service did not");
}
