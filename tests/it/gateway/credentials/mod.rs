//! Credentials of the gateway towards servers, and the addresses that servers may have.

mod addresses;
mod client;
mod exchange;

use std::process::Command;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::harness::{Folder, Gateway, SOON};
use super::http::Http;
use super::manifests::{object, yaml};
use super::parts::announced;
use crate::fixtures::{fixture, node_module};
use crate::upstream::Running;

/// The resource that tokens are for.
const RESOURCE: &str = "https://guarded.test/mcp";

/// An authorization server whose tokens live for so long, and its URL.
fn issuer(seconds: u32) -> (Running, String) {
    node_module("oidc-provider/package.json");
    let mut command = Command::new("node");
    command.arg(fixture("servers/issuer.mjs")).args([RESOURCE, &seconds.to_string()]);
    announced(command)
}

/// A server that accepts tokens of an issuer.
struct Guarded {
    _server: Running,
    url: String,
}

impl Guarded {
    fn start(issuer: &str) -> Self {
        let mut command = Command::new("node");
        command.arg(fixture("servers/guarded.mjs")).args([issuer, RESOURCE]);
        let (server, url) = announced(command);
        Self { _server: server, url }
    }

    /// Reads what the server has seen, or has it do something.
    async fn control(&self, method: Method, path: &str) -> Value {
        let url = self.url.replace("/mcp", path);
        Http::new().send(method, &url, &[], Vec::new()).await.json()
    }

    /// The tokens that the server has accepted.
    async fn tokens(&self) -> Vec<String> {
        let seen = self.control(Method::GET, "/seen").await;
        seen["tokens"].as_array().unwrap().iter().map(|token| token.as_str().unwrap().to_owned()).collect()
    }
}

/// A Secret `oauth` with this key.
fn secret(text: &str) -> Folder {
    let secrets = Folder::new();
    std::fs::create_dir_all(secrets.path().join("oauth")).unwrap();
    secrets.write("oauth/secret", text);
    secrets
}

/// A gateway with an upstream `guarded` that gets its tokens in this way, as the client `ann`.
fn start(url: &str, oauth: &Value, secrets: &Folder) -> (Folder, Gateway) {
    start_as(&json!({"authentication": {"anonymous": {}}}), url, oauth, secrets)
}

fn start_as(gateway: &Value, url: &str, oauth: &Value, secrets: &Folder) -> (Folder, Gateway) {
    let mut all =
        json!({"clientID": "ann", "clientSecretRef": {"name": "oauth", "key": "secret"}, "resource": RESOURCE});
    super::manifests::merge(&mut all, oauth);
    let upstream = json!({"external": {"url": url, "oauth": all}});
    let folder =
        Folder::with(&yaml(&[object("MCPGateway", "main", gateway), object("MCPUpstream", "guarded", &upstream)]));
    let gateway = Gateway::start_with(&folder, &["--secrets-dir", secrets.path().to_str().unwrap()]);
    (folder, gateway)
}

/// The answer to a call of `whoami`.
async fn whoami(gateway: &Gateway) -> Value {
    let answer = Http::new().call(&gateway.url(), "guarded__whoami", &json!({}), &json!({})).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap()
}

/// The error of the upstream, once it has one.
async fn error_of_upstream(gateway: &Gateway) -> String {
    let url = format!("http://{}/api/v1/upstreams", gateway.admin());
    let error = async {
        loop {
            let upstreams = Http::new().get(&url).await.json();
            if let Some(error) = upstreams["items"][0]["error"].as_str() {
                return error.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, error).await.expect("no error of the upstream")
}

/// Checks that none of these texts is anywhere that the gateway shows something.
async fn nowhere(gateway: &Gateway, secrets: &[String]) {
    let mut shown = gateway.log();
    for path in ["/api/v1/upstreams", "/api/v1/plan", "/api/v1/calls", "/api/v1/report", "/metrics"] {
        shown.push(Http::new().get(&format!("http://{}{path}", gateway.admin())).await.body);
    }
    for secret in secrets {
        let place = shown.iter().find(|text| text.contains(secret.as_str()));
        assert!(place.is_none(), "{secret} is in {place:?}");
    }
}
