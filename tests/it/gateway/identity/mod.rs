//! Who calls, and what they may do.

mod admin;
mod canaries;
mod check;
mod hidden;
mod hostile;
pub(super) mod issuer;
mod keys;
mod logins;
mod page;
mod random;
mod refused;
mod rules;
mod scopes;
mod sessions;
mod tokens;

use hyper::Method;
use serde_json::{Value, json};

use super::http::{Answer, Http, JSON, call_body};

/// The audience of tokens that gateways of these tests accept.
pub const AUDIENCE: &str = "https://mcp.test/mcp";

/// Sends a request of the modern era with these headers besides.
pub async fn ask(url: &str, method: &str, name: Option<&str>, arguments: &Value, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![JSON[0], JSON[1], ("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    all.extend(name.map(|name| ("mcp-name", name)));
    all.extend(headers);
    let mut body: Value =
        serde_json::from_str(&call_body(name.unwrap_or("x"), &arguments.to_string(), &json!({}))).unwrap();
    body["method"] = json!(method);
    Http::new().send(Method::POST, url, &all, body.to_string()).await
}

/// Calls a tool as a client with this token.
pub async fn call(url: &str, token: &str, tool: &str, arguments: &Value) -> Answer {
    ask(url, "tools/call", Some(tool), arguments, &[("authorization", &format!("Bearer {token}"))]).await
}

/// The names of the tools that a client with this token sees.
async fn tools(url: &str, token: &str) -> Vec<String> {
    let listed = ask(url, "tools/list", None, &json!({}), &[("authorization", &format!("Bearer {token}"))]).await;
    assert_eq!(listed.status, 200, "{}", listed.body);
    assert_eq!(listed.json()["result"]["cacheScope"], "private", "{}", listed.body);
    let tools = listed.json()["result"]["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}
