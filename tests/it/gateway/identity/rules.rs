//! What the rules of a gateway allow, before and after plugins changed a call.

use serde_json::{Value, json};

use super::issuer::{KeyServer, SigningKey};
use super::{Http, call, tools};
use crate::gateway::harness::{Folder, Gateway, SOON};
use crate::gateway::manifests::{chain, object, plugin, raw_server, yaml};

/// Changes `path`, and calls a tool that the arguments name.
const CODE: &str = r#"
export default async ({ rawContent }, { callTool }) => {
  const content = JSON.parse(rawContent);
  const inner = content.call ? await callTool(content.call, {}) : undefined;
  const path = content.to ?? content.path;
  return { text: JSON.stringify({ ...content, path, inner }), continue: true };
};"#;

fn rules() -> Value {
    json!({"rules": [
        {"name": "no-secrets", "effect": "Deny", "message": "Secrets stay here.",
            "when": r#"has(call.arguments.path) && call.arguments.path == "/secret""#},
        {"name": "not-huge", "effect": "Deny", "when": r#"tool.upstreamName == "huge" && !("admins" in identity.groups)"#},
        {"name": "staff", "effect": "Allow", "when": r#""staff" in identity.groups"#},
        {"name": "by-argument", "effect": "Allow", "when": r#"tool.upstreamName == "args" && call.arguments.open == true"#},
    ]})
}

fn manifests(keys: &KeyServer, authorization: &Value, log: &str) -> String {
    let spec = json!({"authentication": keys.authentication(), "authorization": authorization});
    yaml(&[
        object("MCPGateway", "main", &spec),
        raw_server("raw", &["--log", log]),
        plugin("changes", CODE, &json!({"role": "Transform"})),
        chain("all", "Request", "args", &[json!({"name": "changes"})]),
    ])
}

#[tokio::test]
async fn a_denied_call_is_not_sent_whatever_plugins_made_of_it() {
    let (key, folder) = (SigningKey::new("one"), Folder::new());
    let (keys, log) = (KeyServer::start(&[&key]), folder.path().join("received.log"));
    folder.write("manifests.yaml", &manifests(&keys, &rules(), log.to_str().unwrap()));
    let gateway = Gateway::start(&folder);
    let (url, staff, other) =
        (gateway.url(), key.token(&json!({"groups": ["staff"]})), key.token(&json!({"sub": "bob"})));
    let names = tools(&url, &staff).await;
    assert!(names.contains(&"raw__args".to_owned()) && !names.contains(&"raw__huge".to_owned()), "{names:?}");
    // Of the others, a rule that reads arguments decides at the call.
    let names = tools(&url, &other).await;
    assert!(names.contains(&"raw__args".to_owned()), "{names:?}");
    let sent = || std::fs::read_to_string(&log).unwrap_or_default().matches("tools/call").count();
    let ask = async |token: &str, tool: &str, arguments: Value| call(&url, token, tool, &arguments).await.json();
    let allowed = ask(&staff, "raw__args", json!({"path": "/open"})).await;
    assert!(allowed["result"]["isError"] != true && sent() == 1, "{allowed}");
    let denied = |answer: &Value, rule: Value, text: &str| {
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["_meta"]["hawsepipe.dev/denied"], json!({"rule": rule}), "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
    };
    denied(&ask(&staff, "raw__args", json!({"path": "/secret"})).await, json!("no-secrets"), "Secrets stay here.");
    let changed = ask(&staff, "raw__args", json!({"path": "/open", "to": "/secret"})).await;
    denied(&changed, json!("no-secrets"), "Secrets stay here.");
    let text = "The rule not-huge of this gateway denies this call.";
    denied(&ask(&staff, "raw__huge", json!({"size": 1})).await, json!("not-huge"), text);
    denied(&ask(&other, "raw__args", json!({})).await, json!(null), "No rule of this gateway allows this call.");
    assert_eq!(sent(), 1, "nothing of these was sent");
    let inner = ask(&staff, "raw__args", json!({"call": "raw__huge"})).await;
    assert!(inner["result"]["content"][0]["text"].as_str().unwrap().contains("hawsepipe.dev/denied"), "{inner}");
    assert_eq!(sent(), 2, "the outer call is allowed, and the one that the plugin makes is not");
    let open = ask(&other, "raw__args", json!({"open": true})).await;
    assert!(open["result"]["isError"] != true && sent() == 3, "{open}");
    let calls = Http::new().get(&format!("http://{}/api/v1/calls?outcome=denied", gateway.admin())).await.json();
    let reasons: Vec<_> = calls["items"].as_array().unwrap().iter().map(|call| &call["reason"]).collect();
    assert!(reasons.len() >= 4 && reasons.iter().all(|reason| **reason == "NotAuthorized"), "{calls}");
    faulty_rules_are_not_taken(&gateway, &folder, &keys, &staff, log.to_str().unwrap()).await;
}

/// The last accepted rules stay in force.
async fn faulty_rules_are_not_taken(gateway: &Gateway, folder: &Folder, keys: &KeyServer, staff: &str, log: &str) {
    let faulty = json!({"rules": [{"name": "all", "effect": "Allow", "when": "tool.nme == 1"}]});
    folder.write("manifests.yaml", &manifests(keys, &faulty, log));
    let logged = gateway.logged(|line| line["reason"] == "InvalidExpression");
    let words = logged["message"].as_str().unwrap();
    assert!(words.contains("spec.authorization.rules[0].when") && words.contains("last accepted rules"), "{words}");
    let deadline = std::time::Instant::now() + SOON;
    while std::time::Instant::now() < deadline {
        let denied = call(&gateway.url(), staff, "raw__args", &json!({"path": "/secret"})).await.json();
        assert_eq!(denied["result"]["_meta"]["hawsepipe.dev/denied"]["rule"], "no-secrets", "{denied}");
        if Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.status == 200 {
            break;
        }
    }
}
