//! The redactor that comes with the gateway, as the quickstart has it, on answers that hide something.

use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::Http;
use super::manifests::{chain, gateway, object, plugin, raw_server, yaml};
use crate::fixtures::{DOUBLED, LEAKS, checkout, fixture};

const MAIL: &str = "ann@example.com";

#[tokio::test]
async fn a_redactor_takes_out_what_stands_anywhere_in_an_answer() {
    let plugins = checkout().join("plugins");
    let redact = json!({"source": {"path": "redact/index.mjs"}, "role": "Guard", "config": {"kinds": ["personal"]}});
    let server = json!({"process": {"command": "node", "args": [fixture("servers/leaky.mjs"), "--stdio"]}});
    let folder = Folder::with(&yaml(&[
        gateway(&json!({"plugins": {"pluginDir": plugins}})),
        object("MCPUpstream", "up", &server),
        object("Plugin", "redact", &redact),
        chain("answers", "Response", "*", &[json!({"name": "redact"})]),
    ]));
    let running = Gateway::start(&folder);
    let http = Http::new();
    for shape in LEAKS {
        let arguments = json!({"nonce": MAIL, "shape": shape}).to_string();
        let answer = http.call_raw(&running.url(), "up__leak", &arguments, &json!({})).await;
        assert!(answer.body.contains("[redacted:email]") && !answer.body.contains(MAIL), "{shape}: {}", answer.body);
    }
    let doubled = json!({"nonce": MAIL, "shape": DOUBLED}).to_string();
    let answer = http.call_raw(&running.url(), "up__leak", &doubled, &json!({})).await;
    assert_eq!(answer.json()["error"]["data"]["reason"], "DuplicateKey", "{}", answer.body);
    assert!(!answer.body.contains(MAIL), "{}", answer.body);
}

#[tokio::test]
async fn arguments_that_hide_something_from_a_guard_are_not_sent() {
    let log = Folder::new();
    let seen = log.path().join("seen");
    let server = raw_server("up", &["--log", seen.to_str().unwrap()]);
    // It sees the last of two equal keys.
    let deny = "export default ({ rawContent }) => JSON.parse(rawContent).path === '/etc/shadow'
  ? { text: 'no', continue: false, error: 'Forbidden' } : { text: rawContent, continue: true };";
    let folder = Folder::with(&yaml(&[
        server,
        plugin("deny", deny, &json!({"role": "Guard", "phases": ["Request"]})),
        chain("requests", "Request", "args", &[json!({"name": "deny"})]),
    ]));
    let running = Gateway::start(&folder);
    running.until_answer("up__args", &json!({}), "/result/content/0/text", &json!("{}")).await;
    let http = Http::new();
    let hidden = r#"{"path":"/etc/shadow","path":"/tmp/a"}"#;
    let answer = http.call_raw(&running.url(), "up__args", hidden, &json!({})).await.json();
    assert_eq!(
        (answer["error"]["code"].as_i64(), &answer["error"]["data"]["reason"]),
        (Some(-32602), &json!("DuplicateKey"))
    );
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("arguments/path: "), "{answer}");
    let session = http.initialize(&running.url()).await;
    let answer = session.call_raw(1, "up__args", hidden).await;
    assert_eq!(answer.json()["error"]["code"], -32602, "{}", answer.body);
    assert!(!std::fs::read_to_string(&seen).unwrap().contains("shadow"), "it was sent");
}

#[tokio::test]
async fn a_guard_sees_a_coerced_argument_as_the_server_gets_it() {
    let deny = "export default ({ rawContent }) => JSON.parse(rawContent).ms > 100
  ? { text: 'too long', continue: false, error: 'TooLong' } : { text: rawContent, continue: true };";
    let folder = Folder::with(&yaml(&[
        raw_server("up", &[]),
        plugin("deny", deny, &json!({"role": "Guard", "phases": ["Request"]})),
        // The rule reads the number, too: an entry that runs on short waits alone would miss this one.
        chain(
            "requests",
            "Request",
            "slow",
            &[json!({"name": "deny", "when": "call.arguments.ms == 5 || call.arguments.ms > 100"})],
        ),
    ]));
    let running = Gateway::start(&folder);
    let sent = json!(r#"{"ms":5}"#);
    running.until_answer("up__slow", &json!({"ms": "5"}), "/result/content/0/text", &sent).await;
    let denied = Http::new().call(&running.url(), "up__slow", &json!({"ms": "5000"}), &json!({})).await;
    assert_eq!(denied["result"]["isError"], true, "{denied}");
    assert!(denied["result"]["content"][0]["text"].as_str().unwrap().contains("too long"), "{denied}");
    let unfit = Http::new().call(&running.url(), "up__slow", &json!({"ms": "5e3x"}), &json!({})).await;
    assert!(unfit.to_string().contains("arguments/ms"), "{unfit}");
}
