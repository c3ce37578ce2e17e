//! Tokens of users (`spec.external.oauth.tokenExchange`), with an authorization server that exchanges tokens (RFC 8693).

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyper::Method;
use serde_json::{Value, json};

use super::{Guarded, RESOURCE, nowhere, secret};
use crate::fixtures::go_program;
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::http::{Http, JSON};
use crate::gateway::identity::{AUDIENCE, ask, call};
use crate::gateway::invocations::Admin;
use crate::gateway::manifests::{chain, merge, object, plugin, raw_server, yaml};
use crate::gateway::parts::announced;
use crate::upstream::Running;

/// An API key.
const KEY: &str = "key-of-ci-bot-0123456789";

/// A plugin that asks the upstream `guarded` who calls.
const ASKS: &str = "export default async (input, { callTool }) => {
    const said = await callTool('guarded__whoami', {}).catch(() => null);
    return { text: JSON.stringify({ sub: said && JSON.parse(said.content[0].text).sub }), continue: true };
};";

/// The parts of a test, of which the gateway has an upstream `guarded` that gets tokens of users, and an upstream `raw` that answers
/// with the arguments, whose chain asks `guarded`.
struct Parts {
    issuer: Running,
    issuer_url: String,
    server: Guarded,
    gateway: Gateway,
    _folders: [Folder; 2],
}

impl Parts {
    /// Starts them. Exchanged tokens live for so long. The gateway has this authentication besides that by tokens.
    fn start(seconds: u32, authentication: &Value) -> Self {
        Self::start_with(seconds, authentication, 300_000)
    }

    /// The same, where connections end that no call has used for `idle_ms`.
    fn start_with(seconds: u32, authentication: &Value, idle_ms: u32) -> Self {
        let mut command = Command::new(go_program("exchange"));
        command.args([AUDIENCE, RESOURCE, &seconds.to_string()]);
        let (issuer, issuer_url) = announced(command);
        let (server, secrets) = (Guarded::start(&issuer_url), secret("secret"));
        std::fs::create_dir(secrets.path().join("keys")).unwrap();
        secrets.write("keys/ci-bot", KEY);
        let mut methods = json!({"jwt": [{"issuer": issuer_url, "audiences": [AUDIENCE]}]});
        merge(&mut methods, authentication);
        let oauth = json!({
            "issuer": issuer_url, "clientID": "gateway", "clientSecretRef": {"name": "oauth", "key": "secret"},
            "tokenExchange": {"audience": RESOURCE},
        });
        let guarded = json!({"external": {"url": server.url, "oauth": oauth}, "timeouts": {"idleMs": idle_ms}});
        let folder = Folder::with(&yaml(&[
            object("MCPGateway", "main", &json!({"authentication": methods})),
            object("MCPUpstream", "guarded", &guarded),
            raw_server("raw", &[]),
            plugin("asks", ASKS, &json!({"phases": ["Request"], "timeoutMs": 20000})),
            chain("asks", "Request", "args", &[json!({"name": "asks"})]),
        ]));
        let gateway = Gateway::start_with(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()]);
        Self { issuer, issuer_url, server, gateway, _folders: [folder, secrets] }
    }

    /// A token of a user for the gateway.
    async fn token_of(&self, user: &str) -> String {
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:secret")));
        let headers = [("authorization", &*basic), ("content-type", "application/x-www-form-urlencoded")];
        let url = format!("{}/oauth/token", self.issuer_url);
        let answer = Http::new().send(Method::POST, &url, &headers, "grant_type=client_credentials").await.json();
        answer["access_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The answer to a call of `whoami` with this token.
    async fn answer(&self, token: &str) -> Value {
        call(&self.gateway.url(), token, "guarded__whoami", &json!({})).await.json()
    }

    /// What the server says of the token that it got with a call of `whoami` with this token.
    async fn who(&self, token: &str) -> Value {
        let answer = self.answer(token).await;
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        serde_json::from_str(text).unwrap()
    }

    /// The tokens of this subject that the server has accepted.
    async fn tokens_at_server(&self, subject: &str) -> Vec<String> {
        let mut tokens = self.server.tokens().await;
        tokens.retain(|token| {
            let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
            serde_json::from_slice::<Value>(&claims).unwrap()["sub"] == subject
        });
        tokens
    }
}

#[tokio::test]
async fn a_server_gets_a_token_of_each_user_in_exchange_for_their_own() {
    let parts = Parts::start(600, &json!({}));
    let (ann, bob, eve) = (parts.token_of("ann").await, parts.token_of("bob").await, parts.token_of("eve").await);
    for (token, user) in [(&ann, "ann"), (&bob, "bob"), (&ann, "ann"), (&bob, "bob")] {
        let who = parts.who(token).await;
        assert_eq!((&who["sub"], &who["client"], &who["aud"]), (&json!(user), &json!("gateway"), &json!([RESOURCE])));
        assert!(!who.to_string().contains(token), "{who}");
    }
    // The server knows a session only for the user of its token.
    let seen = parts.server.control(Method::GET, "/seen").await;
    assert_eq!(seen["refused"], 0, "{seen}");
    for user in ["ann", "bob"] {
        assert_eq!(parts.tokens_at_server(user).await.len(), 1, "one exchange for {user}");
        assert!(seen["sessions"].as_array().unwrap().contains(&json!([user, 1])), "{seen}");
    }
    let by_plugin = call(&parts.gateway.url(), &bob, "raw__args", &json!({})).await.json();
    assert_eq!(by_plugin["result"]["content"][0]["text"], r#"{"sub":"bob"}"#, "{by_plugin}");
    // Lists are those of the gateway's own token, for everybody.
    for token in [&ann, &bob, &eve] {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", &*bearer)];
        let listed = ask(&parts.gateway.url(), "tools/list", None, &json!({}), &headers).await.json();
        let names = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        let names: Vec<_> = names.filter(|name| name.starts_with("guarded__")).collect();
        assert_eq!(names, ["guarded__whoami", "guarded__of_gateway"]);
    }
    let refused = parts.answer(&eve).await;
    assert_eq!(refused["error"]["data"]["reason"], "Unauthorized", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("no access token"), "{refused}");
    assert_eq!(parts.tokens_at_server("eve").await.len(), 0, "nothing was sent");
    parts.server.control(Method::POST, "/echo").await;
    assert_eq!(parts.answer(&ann).await["error"]["message"], "no: [secret]");
    let mut secrets = parts.server.tokens().await;
    assert!(!secrets.contains(&ann) && !secrets.contains(&bob), "the server has got a token for the gateway");
    secrets.extend([ann, bob, eve]);
    nowhere(&parts.gateway, &secrets).await;
}

#[tokio::test]
async fn a_call_without_a_token_of_a_user_is_refused() {
    let parts = Parts::start(600, &json!({"anonymous": {}, "apiKeys": {"secretRefs": [{"name": "keys"}]}}));
    let anonymous = Http::new().call(&parts.gateway.url(), "guarded__whoami", &json!({}), &json!({})).await;
    let invocation = json!({"toolName": "whoami", "serverId": "guarded", "parameters": {}});
    let invoked = Admin::of(&parts.gateway).invoke(invocation).await;
    for refused in [anonymous, parts.answer(KEY).await, invoked] {
        let refused = refused.to_string();
        assert!(refused.contains("its calls need a token of a user"), "{refused}");
    }
    let upstreams = Http::new().get(&format!("http://{}/api/v1/upstreams", parts.gateway.admin())).await.json();
    assert!(upstreams["items"][0]["error"].is_null(), "the server is not to blame: {upstreams}");
    assert_eq!(parts.server.tokens().await, parts.tokens_at_server("gateway").await);
}

#[tokio::test]
async fn a_legacy_session_has_a_connection_of_its_user() {
    let parts = Parts::start(600, &json!({}));
    for user in ["ann", "bob"] {
        let bearer = format!("Bearer {}", parts.token_of(user).await);
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
        let mut headers: Vec<_> = JSON.into_iter().chain([("authorization", &*bearer)]).collect();
        let begun = Http::new().send(Method::POST, &parts.gateway.url(), &headers, begin).await;
        let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
        headers.extend([("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", &*session)]);
        let params = json!({"name": "guarded__whoami", "arguments": {}});
        let whoami = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let answer = Http::new().send(Method::POST, &parts.gateway.url(), &headers, whoami).await;
        assert!(answer.body.contains(&format!(r#"\"sub\":\"{user}\""#)), "{}", answer.body);
    }
}

#[tokio::test]
async fn a_connection_of_a_user_that_no_call_uses_ends_with_its_token() {
    let parts = Parts::start_with(600, &json!({}), 1000);
    let ann = parts.token_of("ann").await;
    for sessions in [1, 2] {
        parts.who(&ann).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let seen = parts.server.control(Method::GET, "/seen").await;
        assert!(seen["sessions"].as_array().unwrap().contains(&json!(["ann", sessions])), "{seen}");
        assert_eq!(parts.tokens_at_server("ann").await.len(), sessions);
    }
}

#[tokio::test]
async fn an_exchanged_token_is_renewed_before_its_end() {
    let parts = Parts::start(6, &json!({}));
    let ann = parts.token_of("ann").await;
    for _ in 0..9 {
        assert_eq!(parts.who(&ann).await["sub"], "ann");
        tokio::time::sleep(Duration::from_millis(800)).await;
    }
    let seen = parts.server.control(Method::GET, "/seen").await;
    assert_eq!(seen["refused"], 0, "no request had a token that had expired");
    assert!((2..=3).contains(&parts.tokens_at_server("ann").await.len()), "{seen}");
}

#[tokio::test]
async fn a_token_that_the_server_refuses_is_exchanged_once_more() {
    let parts = Parts::start(600, &json!({}));
    let ann = parts.token_of("ann").await;
    parts.who(&ann).await;
    parts.server.control(Method::POST, "/revoke").await;
    assert_eq!(parts.who(&ann).await["sub"], "ann");
    assert_eq!(parts.tokens_at_server("ann").await.len(), 2);
    parts.server.control(Method::POST, "/revoke/all").await;
    for _ in 0..3 {
        let refused = parts.answer(&ann).await.to_string();
        assert!(refused.contains("unauthorized: HTTP 401"), "{refused}");
    }
    let seen = parts.server.control(Method::GET, "/seen").await;
    assert!(seen["refused"].as_u64().unwrap() <= 20, "{seen}");
    let mut secrets = parts.server.tokens().await;
    secrets.push(ann);
    nowhere(&parts.gateway, &secrets).await;
}

#[tokio::test]
async fn without_the_authorization_server_other_servers_and_known_users_are_served() {
    let parts = Parts::start(600, &json!({}));
    let (ann, bob) = (parts.token_of("ann").await, parts.token_of("bob").await);
    parts.who(&bob).await;
    let Parts { issuer, server, gateway, .. } = parts;
    drop(issuer);
    let url = gateway.url();
    let refused = call(&url, &ann, "guarded__whoami", &json!({})).await.json();
    assert_eq!(refused["error"]["data"]["reason"], "ConnectFailed", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("no access token"), "{refused}");
    let known = call(&url, &bob, "guarded__whoami", &json!({})).await.json();
    assert!(known["result"].to_string().contains("bob"), "{known}");
    let other = call(&url, &ann, "raw__args", &json!({})).await.json();
    assert!(other["result"].is_object(), "{other}");
    let mut secrets = server.tokens().await;
    secrets.extend([ann, bob]);
    nowhere(&gateway, &secrets).await;
}
