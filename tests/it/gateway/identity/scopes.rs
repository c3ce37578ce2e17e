//! Scopes of rules, keys of issuers from a ConfigMap, and what clients learn before they are known.

use serde_json::{Value, json};

use super::issuer::{ISSUER, KeyServer, SigningKey};
use super::{AUDIENCE, Http, ask, call, tools};
use crate::gateway::harness::{Folder, Gateway, SOON, run};
use crate::gateway::manifests::{object, raw_server, yaml};
use crate::gateway::parts::until;

const METADATA: &str = "resource_metadata=\"https://mcp.test/.well-known/oauth-protected-resource/mcp\"";

#[tokio::test]
async fn a_rule_holds_only_with_its_scopes_and_their_lack_is_said() {
    let (key, log) = (SigningKey::new("one"), Folder::new());
    let keys = KeyServer::start(&[&key]);
    let rules = json!({"rules": [
        {"name": "no-secrets", "effect": "Deny", "when": "has(call.arguments.secret)"},
        {"name": "read", "effect": "Allow", "when": r#"tool.upstreamName == "args""#, "scopes": ["mcp.read", "mcp.all"]},
        {"name": "write", "effect": "Allow", "when": r#"tool.upstreamName == "args" && "root" in identity.groups"#},
    ]});
    let spec = json!({"authentication": keys.authentication(), "authorization": rules});
    let received = log.path().join("received.log");
    let server = raw_server("raw", &["--log", received.to_str().unwrap()]);
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), server]));
    let gateway = Gateway::start(&folder);
    let url = gateway.url();
    let [full, half, none, root] = [
        json!({"scope": "mcp.all mcp.read"}),
        json!({"scope": "mcp.read", "sub": "bob"}),
        json!({"sub": "cat"}),
        json!({"groups": ["root"], "sub": "dan"}),
    ]
    .map(|claims| key.token(&claims));
    assert_eq!(tools(&url, &full).await, ["raw__args"]);
    assert!(tools(&url, &half).await.is_empty() && tools(&url, &none).await.is_empty());
    for token in [&half, &none] {
        let answer = call(&url, token, "raw__args", &json!({})).await;
        assert_eq!(answer.status, 403, "{}", answer.body);
        let challenge = answer.headers["www-authenticate"].to_str().unwrap();
        let wanted = format!("Bearer {METADATA}, error=\"insufficient_scope\", scope=\"mcp.read mcp.all\"");
        assert_eq!(challenge, wanted);
        let lacks = "the token lacks a scope that this call needs: mcp.read mcp.all";
        assert!(answer.body.contains(lacks), "{}", answer.body);
    }
    // A Deny is final, and a tool that no rule names is unknown, whatever the scopes are.
    let denied = call(&url, &none, "raw__args", &json!({"secret": 1})).await;
    assert_eq!((denied.status, &denied.json()["result"]["isError"]), (200, &json!(true)), "{}", denied.body);
    assert_eq!(call(&url, &none, "raw__huge", &json!({})).await.json()["error"]["code"], -32602);
    assert!(!received.exists() || !std::fs::read_to_string(&received).unwrap().contains("tools/call"));
    for token in [&full, &root] {
        assert_eq!(call(&url, token, "raw__args", &json!({})).await.status, 200);
    }
    counted(&gateway).await;
}

/// The metrics of what the test above does.
async fn counted(gateway: &Gateway) {
    assert_eq!(ask(&gateway.url(), "tools/list", None, &json!({}), &[]).await.status, 401);
    assert_eq!(call(&gateway.url(), "abc", "raw__args", &json!({})).await.status, 401);
    let metrics = Http::new().get(&format!("http://{}/metrics", gateway.admin())).await.body;
    for line in [
        r#"hawsepipe_authorizations_total{effect="Allow",rule="read",stage="received"} 1"#,
        r#"hawsepipe_authorizations_total{effect="Allow",rule="write",stage="received"} 1"#,
        r#"hawsepipe_authorizations_total{effect="Deny",rule="no-secrets",stage="received"} 1"#,
        r#"hawsepipe_authorizations_total{effect="Deny",rule="",stage="received"} 1"#,
        r#"hawsepipe_authorizations_total{effect="InsufficientScope",rule="read",stage="received"} 2"#,
        r#",method="",outcome="refused",reason="NoCredentials"} 1"#,
        r#",method="",outcome="refused",reason="NotAToken"} 1"#,
        r#",method="jwt",outcome="accepted",reason=""}"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

fn with_keys(keys: &Value) -> String {
    let jwks = json!({"configMapKeyRef": {"name": "keys", "key": "jwks.json"}});
    let spec = json!({"authentication": {"jwt": [{"issuer": ISSUER, "audiences": [AUDIENCE], "jwks": jwks}]}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"},
        "data": {"jwks.json": json!({"keys": keys}).to_string()}});
    yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[]), map])
}

#[tokio::test]
async fn the_keys_of_an_issuer_come_from_a_config_map() {
    let [first, second] = ["one", "two"].map(SigningKey::new);
    let folder = Folder::with(&with_keys(&json!([first.public()])));
    let gateway = Gateway::start(&folder);
    let status =
        async |key: &SigningKey| call(&gateway.url(), &key.token(&json!({})), "raw__args", &json!({})).await.status;
    assert_eq!((status(&first).await, status(&second).await), (200, 401));
    folder.write("manifests.yaml", &with_keys(&json!([second.public()])));
    let deadline = std::time::Instant::now() + SOON;
    while status(&second).await != 200 {
        assert!(std::time::Instant::now() < deadline, "the new key is not in force");
    }
    assert_eq!(status(&first).await, 401);
    // Of a ConfigMap that cannot be read, the last keys stay.
    folder.write("manifests.yaml", &with_keys(&json!("broken")));
    until("the status has the fault", async || {
        let plan = Http::new().get(&format!("http://{}/api/v1/plan", gateway.admin())).await.body;
        plan.contains("has no JSON Web Key Set") && plan.contains("The last keys stay in force")
    })
    .await;
    let checked = run(&["validate", "--no-load", folder.path().to_str().unwrap()]);
    assert!(!checked.status.success(), "{checked:?}");
    assert_eq!(status(&second).await, 200);
    // The path of an upstream, whether there is one, is for clients that are known.
    for upstream in ["raw", "none"] {
        assert_eq!(ask(&gateway.url_of(upstream), "tools/list", None, &json!({}), &[]).await.status, 401, "{upstream}");
    }
    assert_eq!(call(&gateway.url_of("none"), &second.token(&json!({})), "args", &json!({})).await.status, 404);
}

#[test]
fn issuers_and_their_keys_are_at_secure_urls() {
    let folder = Folder::new();
    for (issuer, uri, is_valid) in [
        ("https://login.test", "https://login.test/keys", true),
        ("http://127.0.0.1:8080", "http://localhost:8080/keys", true),
        ("http://[::1]/a", "https://login.test", true),
        ("http://login.test", "https://login.test", false),
        ("https://login.test", "http://login.test/keys", false),
        ("http://localhost@login.test", "https://login.test", false),
        ("http://localhost.login.test", "https://login.test", false),
    ] {
        let spec = json!({"authentication": {"jwt": [{"issuer": issuer, "audiences": ["a"], "jwks": {"uri": uri}}]}});
        folder.write("manifests.yaml", &yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
        let output = run(&["validate", "--no-load", folder.path().to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), is_valid, "{issuer} {uri}: {said}");
        assert!(is_valid || said.contains("a URL such as https://host/path"), "{said}");
    }
}

#[tokio::test]
async fn explain_says_which_rule_decides_for_a_client() {
    let rules = json!({"rules": [
        {"name": "nobody-huge", "effect": "Deny", "when": r#"tool.upstreamName == "huge""#},
        {"name": "no-secrets", "effect": "Deny", "when": "has(call.arguments.secret)"},
        {"name": "ci", "effect": "Allow", "when": r#""ci" in identity.groups"#},
        {"name": "scoped", "effect": "Allow", "when": r#"identity.claims.tenant == "a""#, "scopes": ["mcp.read"]},
    ]});
    let spec = json!({"authentication": {"anonymous": {}}, "authorization": rules});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start(&folder);
    let explain = |tool: &str, client: &str| {
        let output = run(&["explain", tool, "--as", client, "--admin", &gateway.admin()]);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    for (tool, client, lines) in [
        (
            "raw__args",
            "subject=ci-bot,groups=dev,groups=ci",
            &[
                "ci-bot: allowed by the rule ci, unless the rule no-secrets denies the call",
                "Deny nobody-huge: does not apply",
                "Deny no-secrets: reads the call, which decides",
                "Allow ci: applies",
                "Allow scoped: does not apply, because its condition cannot be evaluated",
            ][..],
        ),
        ("raw__huge", "subject=ci-bot,groups=ci", &["ci-bot: denied by the rule nobody-huge"][..]),
        ("raw__args", "subject=ann,tenant=a", &["ann: refused: the rule scoped needs the scopes mcp.read"][..]),
        ("raw__args", "subject=ann,tenant=a,scopes=mcp.read", &["ann: allowed by the rule scoped, unless"][..]),
        ("raw__args", "", &["anonymous: unknown to the client: no rule allows it"][..]),
        ("raw__args", "groups=ci", &["must have one subject=NAME"][..]),
        ("raw__args", "ci-bot", &["is not of the form subject=NAME,groups=GROUP"][..]),
    ] {
        let said = explain(tool, client);
        assert!(lines.iter().all(|line| said.contains(line)), "{tool} {client}: {said}");
    }
}
