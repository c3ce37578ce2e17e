//! Clients of the official SDKs that are told nothing but the URL of the gateway: they find its authorization server, register
//! there, have their user log in, and call a tool (MCP 2026-07-28, authorization; RFC 9728, 8414, 7591, 7636 and 8707).

use std::process::Command;

use serde_json::{Value, json};

use super::super::http::Http;
use crate::fixtures::{fixture, python};
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::manifests::{object, raw_server, yaml};
use crate::gateway::parts::{announced, tools_of};
use crate::upstream::free_port;

/// What the client prints: the steps of its login, and then its result.
fn run(client: &mut Command, url: &str, user: &str) -> Vec<Value> {
    let output = client.args(["--url", url, "--user", user, "raw__args", r#"{"a":1}"#]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Has users log in through such a client.
async fn log_in(client: impl Fn() -> Command) {
    let port = free_port();
    let resource = format!("http://127.0.0.1:{port}/mcp");
    let mut command = Command::new("node");
    command.arg(fixture("servers/issuer.mjs")).arg(&resource);
    let (_issuer, issuer) = announced(command);
    let spec = json!({
        "authentication": {
            "jwt": [{"issuer": issuer, "audiences": [resource]}],
            "resourceMetadata": {"resource": resource, "scopesSupported": ["mcp.read"]},
        },
        "authorization": {"rules": [
            {"name": "staff", "effect": "Allow", "when": r#""staff" in identity.groups"#, "scopes": ["mcp.read"]},
        ]},
    });
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), raw_server("raw", &[])]));
    let gateway = Gateway::start_with(&folder, &["--listen", &format!("127.0.0.1:{port}")]);
    tools_of(&gateway, &["raw"]).await;
    let lines = run(&mut client(), &resource, "ann");
    for path in
        ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/reg", "/token"]
    {
        assert!(lines.contains(&json!({"asked": path})), "{path}: {lines:?}");
    }
    assert_eq!(lines.last().unwrap()["result"]["content"][0]["text"], r#"{"a":1}"#, "{lines:?}");
    let lines = run(&mut client(), &resource, "bob");
    let error = lines.last().unwrap()["error"].as_str().unwrap_or_else(|| panic!("{lines:?}"));
    assert!(error.contains("Unknown tool: raw__args"), "{error}");
    let calls = Http::new().get(&format!("http://{}/api/v1/calls", gateway.admin())).await.json();
    let calls = calls["items"].as_array().unwrap();
    let answered: Vec<_> = calls.iter().filter(|call| call["outcome"] == "ok").map(|call| &call["principal"]).collect();
    assert_eq!(answered, ["ann"], "{calls:?}");
}

#[tokio::test]
async fn the_oauth_client_of_the_python_sdk_logs_in_and_calls() {
    log_in(|| {
        let mut client = Command::new(python());
        client.arg(fixture("clients/oauth_client.py"));
        client
    })
    .await;
}

#[tokio::test]
async fn the_oauth_client_of_the_typescript_sdk_logs_in_and_calls() {
    log_in(|| {
        let mut client = Command::new("node");
        client.arg(fixture("clients/oauth_client.mjs"));
        client
    })
    .await;
}
