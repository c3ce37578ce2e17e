//! What belongs to one client is of no use to another.

use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};

use super::issuer::{KeyServer, SigningKey};
use super::{Http, JSON, ask};
use crate::gateway::harness::{Folder, Gateway, SOON};
use crate::gateway::manifests::{object, raw_server, yaml};

#[tokio::test]
async fn a_session_and_a_cursor_are_of_one_subject() {
    let (key, folder) = (SigningKey::new("one"), Folder::new());
    let keys = KeyServer::start(&[&key]);
    let also = folder.path().join("plugins/also.json");
    let many: Vec<_> = (0..300).map(|n| format!("t{n:03}")).collect();
    std::fs::write(&also, json!(many).to_string()).unwrap();
    let rules = json!({"rules": [
        {"name": "ann", "effect": "Allow", "when": r#"identity.subject == "ann""#},
        {"name": "bob", "effect": "Allow", "when": r#"identity.subject == "bob" && tool.upstreamName.startsWith("t")"#},
    ]});
    let spec = json!({"authentication": keys.authentication(), "authorization": rules});
    let manifests = [object("MCPGateway", "main", &spec), raw_server("raw", &["--also", also.to_str().unwrap()])];
    folder.write("manifests.yaml", &yaml(&manifests));
    let gateway = Gateway::start(&folder);
    let [ann, bob] = ["ann", "bob"].map(|subject| format!("Bearer {}", key.token(&json!({"sub": subject}))));
    let list = async |bearer: &str, cursor: Option<&Value>| {
        let params = json!({"cursor": cursor, "_meta": {}});
        let mut body: Value = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
        body["params"]["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if cursor.is_none() {
            body["params"].as_object_mut().unwrap().remove("cursor");
        }
        let modern = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list"), ("authorization", bearer)];
        let headers: Vec<_> = JSON.into_iter().chain(modern).collect();
        Http::new().send(Method::POST, &gateway.url(), &headers, body.to_string()).await.json()
    };
    let first = list(&ann, None).await;
    let cursor = &first["result"]["nextCursor"];
    assert!(cursor.is_string(), "{first}");
    assert!(list(&ann, Some(cursor)).await["result"]["tools"].is_array());
    let foreign = list(&bob, Some(cursor)).await;
    assert_eq!(foreign["error"]["code"], -32602, "{foreign}");
    sessions(&gateway, [&ann, &bob]).await;
}

/// A session is found by its own client only.
async fn sessions(gateway: &Gateway, [ann, bob]: [&str; 2]) {
    let http = Http::new();
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let headers: Vec<_> = JSON.into_iter().chain([("authorization", ann)]).collect();
    let begun = http.send(Method::POST, &gateway.url(), &headers, begin).await;
    let id = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let of_session = [("mcp-protocol-version", "2025-11-25"), ("mcp-session-id", &*id)];
    for (method, body) in
        [(Method::POST, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), (Method::GET, ""), (Method::DELETE, "")]
    {
        let send = async |bearer: Option<&str>| {
            let bearer = bearer.map(|bearer| ("authorization", bearer));
            let headers: Vec<_> = JSON.into_iter().chain(of_session).chain(bearer).collect();
            http.open(method.clone(), &gateway.url(), &headers, body).await.status().as_u16()
        };
        assert_eq!(send(None).await, 401, "{method}");
        assert_eq!(send(Some(bob)).await, 404, "{method}");
        assert!(matches!(send(Some(ann)).await, 200 | 204), "{method}");
    }
    let anonymous = ask(&gateway.url(), "tools/list", None, &json!({}), &[]).await;
    assert_eq!(anonymous.status, 401);
}

/// A stream of notifications ends with the token of its client, which opens it again with a new one.
#[tokio::test]
async fn a_stream_lasts_no_longer_than_the_token_of_its_client() {
    let key = SigningKey::new("one");
    let keys = KeyServer::start(&[&key]);
    let mut authentication = keys.authentication();
    authentication["jwt"][0]["clockSkewSeconds"] = json!(0);
    let spec = json!({ "authentication": authentication });
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start(&folder);
    let soon = jsonwebtoken::get_current_timestamp() + 2;
    let session = Http::bearing(&key.token(&json!({"exp": soon}))).initialize(&gateway.url()).await;
    let stream = session.http.open(Method::GET, &gateway.url(), &session.headers(), "").await;
    assert_eq!(stream.status(), 200);
    let ended = tokio::time::timeout(SOON, stream.into_body().collect()).await;
    assert!(ended.is_ok_and(|body| body.is_ok()), "the stream goes on after its token has expired");
    let url = gateway.url();
    let headers = [JSON[0], ("accept", "text/event-stream"), ("mcp-session-id", &*session.id)];
    let again = async |token: &str| Http::bearing(token).open(Method::GET, &url, &headers, "").await.status().as_u16();
    assert_eq!(again(&key.token(&json!({"exp": soon}))).await, 401);
    assert_eq!(again(&key.token(&json!({}))).await, 200);
}
