//! Addresses that an upstream may not have.

use serde_json::{Value, json};

use super::error_of_upstream;
use crate::gateway::harness::{Folder, Gateway};
use crate::gateway::manifests::{object, yaml};

/// A gateway with an upstream at this URL.
fn start(url: &str, allowed: &[&str], environment: &[(&str, &str)]) -> (Folder, Gateway) {
    let mut spec = json!({"authentication": {"anonymous": {}}});
    if !allowed.is_empty() {
        spec["upstreams"] = json!({"allowedAddresses": allowed});
    }
    let upstream: Value = json!({"external": {"url": url}, "timeouts": {"connectMs": 1000}});
    let folder = Folder::with(&yaml(&[object("MCPGateway", "main", &spec), object("MCPUpstream", "up", &upstream)]));
    let gateway = Gateway::start_in(&folder, &[], environment);
    (folder, gateway)
}

const DENIED: &str = "which the URL of a server may not lead to";

#[tokio::test]
async fn where_credentials_are_given_out_no_upstream_is() {
    for (url, what) in [
        ("http://169.254.169.254/mcp", "169.254.169.254 is a link-local address"),
        ("http://[::ffff:a9fe:a9fe]/mcp", "169.254.169.254 is a link-local address"),
        // A resolver reads this name as the same address.
        ("http://2852039166/mcp", "169.254.169.254 is a link-local address"),
        ("http://100.100.100.200/mcp", "the metadata service of a cloud"),
        ("http://localhost:9/mcp", "the API server of the cluster"),
    ] {
        let of_cluster = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "9")];
        let (_folder, gateway) = start(url, &[], &of_cluster);
        let error = error_of_upstream(&gateway).await;
        assert!(error.contains(what) && error.contains(DENIED), "{url}: {error}");
    }
}

#[tokio::test]
async fn an_address_is_reached_if_the_gateway_allows_it() {
    let of_cluster = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", "9")];
    let (_folder, gateway) = start("http://localhost:9/mcp", &["127.0.0.1", "::1"], &of_cluster);
    let error = error_of_upstream(&gateway).await;
    assert!(!error.contains(DENIED) && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_proxy_gets_no_name_of_such_an_address() {
    // Nothing is at the address of the proxy, so that a request that is sent to it has another error.
    let proxy = [("HTTP_PROXY", "http://127.0.0.1:9")];
    for (url, what) in [
        ("http://metadata.google.internal/mcp", "the metadata service of a cloud"),
        ("http://kubernetes.default.svc.cluster.local/mcp", "the API server of the cluster"),
        ("http://0xa9fea9fe/mcp", "an address in an unusual notation"),
        ("http://169.254.169.254/mcp", "a link-local address"),
        ("http://api.example.com/mcp", "the proxy 127.0.0.1:9"),
    ] {
        let (_folder, gateway) = start(url, &[], &proxy);
        let error = error_of_upstream(&gateway).await;
        assert!(error.contains(what), "{url}: {error}");
    }
}
