//! The published examples of plugin contract 1.0, unmodified, run as `Once` on the calls of a real gateway.

use std::process::Command;

use serde_json::{Value, json};

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::parts::{announced, chain, logged, object, raw_stdio, tools_of};
use crate::fixtures::fixture;
use crate::upstream::Running;

/// The stand-in for the Anthropic API, and its URL.
pub fn stand_in(arguments: &[&str]) -> (Running, String) {
    let mut command = Command::new("node");
    command.arg(fixture("contract-1.0/anthropic-stand-in.mjs")).args(arguments);
    announced(command)
}

/// An example under the name `plugin`.
fn example(plugin: &str, file: &str, more: &str) -> String {
    object("Plugin", plugin, &format!("source: {{path: {file}}}, protocol: Once, {more}"))
}

fn curation(plugin: &str, api: &str) -> String {
    let variable = |name: &str, value: &str| format!("{{name: {name}, value: {value:?}}}");
    let env = [variable("ANTHROPIC_API_KEY", "sk-none"), variable("ANTHROPIC_BASE_URL", api)].join(", ");
    let egress = api.strip_prefix("http://").unwrap();
    example(plugin, "curation-plugin.js", &format!("phases: [Response], env: [{env}], egress: [{egress:?}]"))
}

struct Setup {
    folder: Folder,
    _apis: [Running; 2],
}

impl Setup {
    fn new() -> Self {
        let folder = Folder::new();
        let (api, url) = stand_in(&["--log", folder.path().join("api").to_str().unwrap()]);
        let (down, down_url) = stand_in(&["--fail", "400"]);
        // How long a start of a process takes on a busy machine is not tried here.
        let plugins = format!("plugins: {{pluginDir: {:?}, queueTimeoutMs: 30000}}", fixture("contract-1.0"));
        let mut manifests = object("MCPGateway", "main", &format!("authentication: {{anonymous: {{}}}}, {plugins}"));
        for upstream in ["guarded", "echoed", "curated", "api-down"] {
            manifests += &raw_stdio(upstream, &folder.path().join(upstream));
        }
        manifests += &example("security", "security-plugin.js", "role: Guard");
        manifests += &example("echo", "echo-plugin.js", "");
        manifests += &curation("curation", &url);
        manifests += &curation("curation-down", &down_url);
        manifests += &chain("asks", "Request", &["guarded"], &["security"]);
        manifests += &chain("asks-echo", "Request", &["echoed"], &["echo"]);
        manifests += &chain("answers-echo", "Response", &["echoed"], &["echo"]);
        let entry = |plugin: &str| format!("entries: [{{name: {plugin}, maxTokens: 100}}]");
        let response = |upstream: &str, plugin: &str| {
            format!("phase: Response, upstreams: {{names: [{upstream}]}}, {}", entry(plugin))
        };
        manifests += &object("PluginChain", "answers", &response("curated", "curation"));
        manifests += &object("PluginChain", "answers-down", &response("api-down", "curation-down"));
        folder.write("manifests.yaml", &manifests);
        Self { folder, _apis: [api, down] }
    }

    fn received(&self, upstream: &str, wanted: &str) -> usize {
        logged(&self.folder.path().join(upstream), wanted)
    }
}

/// The trace of the only entry that ran, and the text.
pub fn outcome(answer: &Value) -> (&Value, &str) {
    let result = &answer["result"];
    (&result["_meta"]["hawsepipe.dev/trace"][0], result["content"][0]["text"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn the_examples_run_unmodified() {
    let setup = Setup::new();
    let gateway = Gateway::start(&setup.folder);
    tools_of(&gateway, &["guarded", "echoed", "curated", "api-down"]).await;
    let (http, url, trace) = (Http::new(), gateway.url(), json!({"hawsepipe.dev/trace": true}));
    let call = async |tool: &str, arguments: Value| http.call(&url, tool, &arguments, &trace).await;

    // The security example blocks in the request phase, and nothing reaches the server.
    let blocked = call("guarded__args", json!({"note": "my password is swordfish"})).await;
    let (entry, text) = outcome(&blocked);
    assert_eq!((&entry["outcome"], &entry["phase"]), (&json!("denied"), &json!("Request")), "{blocked}");
    assert_eq!(text, "[BLOCKED] Request contains potentially sensitive information");
    assert_eq!(blocked["result"]["isError"], true);
    let denied = &blocked["result"]["_meta"]["hawsepipe.dev/denied"];
    let why = "Security policy violation: sensitive data detected in request";
    assert_eq!(denied, &json!({"chain": "default/asks", "plugin": "default/security", "error": why}));
    let passed = call("guarded__args", json!({"note": "fine weather"})).await;
    let (entry, text) = outcome(&passed);
    assert_eq!((&entry["outcome"], &entry["metadata"]), (&json!("ran"), &json!({"securityCheck": "passed"})));
    assert_eq!(text, r#"{"note":"fine weather"}"#);
    assert_eq!(setup.received("guarded", "fine weather"), 1);
    assert_eq!(setup.received("guarded", "swordfish"), 0, "what was blocked reached the server");
    assert_eq!(setup.received("guarded", "tools/call"), 1);

    // The echo example leaves content alone, in both phases.
    let echoed = call("echoed__args", json!({"note": "\u{2028} é 🙂"})).await;
    assert_eq!(outcome(&echoed).1, r#"{"note":"\u2028 é 🙂"}"#.replace("\\u2028", "\u{2028}"));
    let entries = echoed["result"]["_meta"]["hawsepipe.dev/trace"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{entries:?}");
    for entry in entries {
        assert_eq!(entry["outcome"], "ran", "{entry}");
        assert!(entry["metadata"]["echoedAt"].is_string() && entry["changed"] != true, "{entry}");
    }

    // The curation example shortens by what the API says.
    let curated = call("curated__huge", json!({"size": 5000})).await;
    let (entry, text) = outcome(&curated);
    assert_eq!((&entry["outcome"], &entry["metadata"]["reduction"]), (&json!("ran"), &json!("96.0%")), "{entry}");
    assert_eq!(text, "x".repeat(200));
    assert_eq!(setup.received("api", "claude-3-5-sonnet-20241022"), 1);

    // Where the API fails, the content goes on as it was.
    let kept = call("api-down__huge", json!({"size": 5000})).await;
    let (entry, text) = outcome(&kept);
    assert_eq!(entry["outcome"], "failed(PluginError)", "{entry}");
    assert_eq!(text, "x".repeat(5000));
    assert_eq!(kept["result"].get("isError"), None);
}
