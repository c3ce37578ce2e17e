//! Tokens and API keys in every place where a client can put them: nothing that other people look at has one.

use std::path::Path;

use hyper::Method;
use serde_json::{Value, json};

use super::super::http::{Http, call_body};
use super::issuer::{KeyServer, SigningKey};
use crate::gateway::collector::Receiver;
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::manifests::{merge, object, raw_server, yaml};
use crate::gateway::parts::until;

/// The headers of a call, and others that a client may take for the place of a credential. `{}` is the credential.
const HEADERS: [(&str, &str); 29] = [
    ("authorization", "Bearer {}"),
    ("authorization", "Basic {}"),
    ("authorization", "Bearer {} x"),
    ("authorization", "{}"),
    ("x-api-key", "{}"),
    ("x-auth-token", "{}"),
    ("proxy-authorization", "Bearer {}"),
    ("cookie", "token={}"),
    ("host", "{}"),
    ("origin", "https://{}"),
    ("referer", "https://h/?token={}"),
    ("user-agent", "{}"),
    ("forwarded", "for={}"),
    ("x-forwarded-for", "{}"),
    ("accept", "{}"),
    ("content-type", "{}"),
    ("content-encoding", "{}"),
    ("expect", "{}"),
    ("last-event-id", "{}"),
    ("traceparent", "{}"),
    ("tracestate", "a={}"),
    ("baggage", "a={}"),
    ("mcp-session-id", "{}"),
    ("mcp-protocol-version", "{}"),
    ("mcp-method", "{}"),
    ("mcp-name", "{}"),
    ("mcp-param-a", "{}"),
    ("hawsepipe-forwarded", "{}"),
    ("x", "{}"),
];
/// The path of one upstream. Who asks gets the name back.
const NAMES: &str = "/{}/mcp";
/// The paths.
const PATHS: [&str; 5] =
    ["/mcp?access_token={}", "/mcp?api_key={}", "/{}", "/.well-known/oauth-protected-resource/{}", NAMES];
/// The same of the admin port.
const ADMIN_PATHS: [&str; 4] = ["/api/v1/calls?token={}", "/api/v1/{}", "/{}", "/metrics?token={}"];

/// A gateway that accepts tokens, API keys and nobody else, writes down and sends all that it can, and has a token of its
/// admin API.
struct Scenario {
    gateway: Gateway,
    receiver: Receiver,
    key: SigningKey,
    folder: Folder,
    /// Each credential that was sent.
    canaries: Vec<String>,
    /// Those that belong to where the call goes: the context of a trace (W3C Trace Context, 3.3).
    passed_on: Vec<String>,
    _secrets: Folder,
}

impl Scenario {
    async fn start() -> Self {
        let (key, receiver, secrets) = (SigningKey::new("one"), Receiver::start().await, Folder::new());
        let keys = KeyServer::start(&[&key]);
        let canaries = vec!["canary-of-a-key-0123456789".to_owned(), "canary-of-the-admin-0123456789".to_owned()];
        for (file, value) in [("keys/bot", &canaries[0]), ("admin/token", &canaries[1])] {
            std::fs::create_dir_all(secrets.path().join(file).parent().unwrap()).unwrap();
            secrets.write(file, value);
        }
        let mut authentication = keys.authentication();
        merge(&mut authentication, &json!({"apiKeys": {"secretRefs": [{"name": "keys"}], "header": "X-API-Key"}}));
        let spec = json!({
            "authentication": authentication,
            "admin": {"authentication": {"tokenSecretRef": {"name": "admin", "key": "token"}}},
            "history": {"payloads": "Redacted", "store": {"embedded": {}}},
            "audit": {"mode": "BestEffort"},
        });
        let folder = Folder::new();
        let received = folder.path().join("received.log");
        let server = raw_server("raw", &["--log", received.to_str().unwrap()]);
        folder.write("manifests.yaml", &yaml(&[object("MCPGateway", "main", &spec), server]));
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("HAWSEPIPE_LOG", "debug"),
        ];
        let gateway = Gateway::start_in(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()], &variables);
        Self { gateway, receiver, key, folder, canaries, passed_on: Vec::new(), _secrets: secrets }
    }

    /// A credential that nothing else has.
    fn canary(&mut self) -> String {
        let canary = format!("canary-{}", uuid::Uuid::new_v4().simple());
        self.canaries.push(canary.clone());
        canary
    }

    /// A token of this key, whose parts are canaries.
    fn token(&mut self, key: &SigningKey, claims: &Value) -> String {
        let token = key.token(claims);
        // The header is the same in all tokens of the key.
        self.canaries.extend(token.split('.').skip(1).map(str::to_owned));
        token
    }

    /// Calls a tool with this header in the place of the usual one, and with an API key if the header is none for a
    /// credential. Returns the status and all that the client gets.
    async fn call(&self, path: &str, name: &str, value: &str) -> (u16, String) {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "raw__args"),
        ];
        if !matches!(name, "authorization" | "x-api-key") {
            headers.push(("x-api-key", self.canaries[0].as_str()));
        }
        headers.retain(|(usual, _)| *usual != name);
        headers.push((name, value));
        if name == "tracestate" {
            headers.push(("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        }
        let body = call_body("raw__args", "{}", &json!({}));
        let url = format!("http://{}{path}", self.gateway.address());
        let answer = Http::new().send(Method::POST, &url, &headers, body).await;
        (answer.status, format!("{:?} {}", answer.headers, answer.body))
    }

    async fn admin(&self, path: &str, authorization: &str) -> String {
        let url = format!("http://{}{path}", self.gateway.admin());
        Http::new().send(Method::GET, &url, &[("authorization", authorization)], "").await.body
    }

    /// Uses the credentials that are accepted.
    async fn accepted(&mut self) {
        let own = SigningKey { kid: self.key.kid, key: self.key.key.clone() };
        let good = format!("Bearer {}", self.token(&own, &json!({})));
        let key = self.canaries[0].clone();
        for (name, value) in [("authorization", &good), ("x-api-key", &key)] {
            let (status, answer) = self.call("/mcp", name, value).await;
            assert_eq!(status, 200, "{answer}");
        }
        let headers = [("authorization", good.as_str()), ("x-api-key", key.as_str())];
        let refused = Http::new().send(Method::POST, &self.gateway.url(), &headers, "{}").await;
        assert_eq!(refused.status, 400, "{}", refused.body);
        for claims in [json!({"exp": 1}), json!({"aud": "https://other.test"})] {
            let token = self.token(&own, &claims);
            assert_eq!(self.call("/mcp", "authorization", &format!("Bearer {token}")).await.0, 401);
        }
        let foreign = self.token(&SigningKey::new("one"), &json!({}));
        assert_eq!(self.call("/mcp", "authorization", &format!("Bearer {foreign}")).await.0, 401);
    }

    /// Puts a credential in every place.
    async fn everywhere(&mut self) {
        for (name, form) in HEADERS {
            let canary = self.canary();
            if matches!(name, "tracestate" | "baggage") {
                self.passed_on.push(canary.clone());
            }
            let (_, answer) = self.call("/mcp", name, &form.replace("{}", &canary)).await;
            assert!(!answer.contains(&canary), "{name}: {answer}");
        }
        for path in PATHS {
            let canary = self.canary();
            let (_, answer) = self.call(&path.replace("{}", &canary), "x", "y").await;
            assert!(path == NAMES || !answer.contains(&canary), "{path}: {answer}");
        }
        for path in ADMIN_PATHS {
            let (canary, token) = (self.canary(), self.canary());
            for token in [format!("Bearer {token}"), token] {
                let answer = self.admin(&path.replace("{}", &canary), &token).await;
                assert!(!answer.contains(&canary) && !answer.contains(&token), "{path}: {answer}");
            }
        }
    }

    /// All that other people can look at, by its place.
    async fn shown(&self) -> Vec<(String, String)> {
        let token = format!("Bearer {}", self.canaries[1]);
        let mut shown = vec![
            ("the log".to_owned(), self.gateway.log().concat()),
            ("the traces".to_owned(), format!("{:?}", self.receiver.spans())),
            ("what the server got".to_owned(), read(&self.folder.path().join("received.log"))),
        ];
        let document = self.admin("/api/v1/openapi.json", &token).await;
        let document: Value = serde_json::from_str(&document).unwrap();
        let paths = document["paths"].as_object().unwrap().iter().filter(|(_, path)| path["get"].is_object());
        let paths = paths.map(|(path, _)| path.clone()).filter(|path| !path.contains('{'));
        for path in paths.chain(["/metrics".to_owned()]) {
            let text = self.admin(&path, &token).await;
            shown.push((path, text));
        }
        for file in std::fs::read_dir(self.folder.state()).unwrap() {
            let file = file.unwrap().path();
            shown.push((file.display().to_string(), read(&file)));
        }
        shown
    }
}

fn read(file: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
}

#[tokio::test]
async fn no_credential_of_a_client_is_shown_wherever_it_was_put() {
    let mut scenario = Scenario::start().await;
    let token = format!("Bearer {}", scenario.canaries[1]);
    until("the tools are listed", async || scenario.admin("/api/v1/tools", &token).await.contains("raw__args")).await;
    scenario.accepted().await;
    scenario.everywhere().await;
    scenario.receiver.with_call_of("raw__args").await;
    let shown = scenario.shown().await;
    // The search looks where calls are written down.
    for (place, word) in [
        ("the log", "raw"),
        ("the traces", "tools/call raw__args"),
        ("what the server got", "tools/call"),
        ("/api/v1/calls", r#""tool":"args""#),
        ("/metrics", "raw"),
    ] {
        let (_, text) = shown.iter().find(|(known, _)| known == place).unwrap_or_else(|| panic!("{place}"));
        assert!(text.contains(word), "{place}: {text}");
    }
    let calls = &shown.iter().find(|(place, _)| place == "/api/v1/calls").unwrap().1;
    assert!(calls.contains(r#""principal":"ann""#) && calls.contains(r#""principal":"bot""#), "{calls}");
    assert!(shown.iter().any(|(place, text)| place.contains("history") && text.contains("ann")), "no history on disk");
    for (place, text) in &shown {
        let belongs = |canary: &String| {
            matches!(place.as_str(), "the traces" | "what the server got") && scenario.passed_on.contains(canary)
        };
        let found = scenario.canaries.iter().filter(|canary| text.contains(canary.as_str()) && !belongs(canary));
        let found: Vec<_> = found.collect();
        assert!(found.is_empty(), "{found:?} in {place}");
    }
}
