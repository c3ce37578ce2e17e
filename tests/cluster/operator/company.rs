//! Gateways in the network of a company: variables, volumes and certificates of their pods.

use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::workload::IMAGE;
use crate::harness::Cluster;

/// A ConfigMap with the text of a certificate, and Secrets.
fn data() -> [Value; 3] {
    let data = |kind: &str, name: &str, field: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, field: data});
    [
        data("ConfigMap", "corp-ca", "data", json!({"ca.crt": "-----BEGIN CERTIFICATE-----"})),
        data("Secret", "proxy", "stringData", json!({"HTTP_PROXY": "http://user:hunter2@proxy:3128"})),
        data("Secret", "mine", "stringData", json!({"tls.crt": "c", "tls.key": "hunter2"})),
    ]
}

fn gateway() -> Value {
    let from = json!({"configMapKeyRef": {"name": "corp-ca", "key": "ca.crt"}});
    let pod = json!({
        "env": [
            {"name": "HTTPS_PROXY", "value": "http://proxy.corp.example:3128"},
            {"name": "NO_PROXY", "value": ".svc"}, {"name": "SSL_CERT_FILE", "value": "/etc/corp/ca.crt"},
            {"name": "FROM", "valueFrom": from},
        ],
        "envFrom": [{"secretRef": {"name": "proxy"}}],
        "volumes": [
            {"name": "corp", "mountPath": "/etc/corp", "readOnly": true, "configMap": {"name": "corp-ca"}},
            {"name": "more", "mountPath": "/etc/more", "secret": {"secretName": "mine"}},
        ],
    });
    object("MCPGateway", "main", &json!({"authentication": {"anonymous": {}}, "pod": pod}))
}

fn upstream() -> Value {
    let tls = json!({
        "caRef": {"name": "corp-ca", "key": "ca.crt"}, "clientCertificateSecretRef": {"name": "mine"},
        "serverName": "mcp.corp.example",
    });
    object("MCPUpstream", "up", &json!({"external": {"url": "https://up.example/mcp", "tls": tls}}))
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("{name}: {list:#}"))
}

#[tokio::test]
async fn pods_have_the_variables_volumes_and_certificates_that_are_written() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    let restricted = "pod-security.kubernetes.io/enforce=restricted";
    operated.cluster.kubectl(&["label", "namespace", &operated.namespace, restricted], "").await.unwrap();
    operated.apply(&data()).await;
    operated.apply(&[upstream(), gateway()]).await;
    let pods = operated.until_made("pods", |pods| pods["items"].as_array().is_some_and(|pods| pods.len() == 2)).await;
    let spec = &pods["items"][0]["spec"];
    let container = &spec["containers"][0];
    assert_eq!(named(&container["env"], "HTTPS_PROXY")["value"], "http://proxy.corp.example:3128");
    assert_eq!(named(&container["env"], "FROM")["valueFrom"]["configMapKeyRef"]["name"], "corp-ca");
    assert!(named(&container["env"], "HAWSEPIPE_GATEWAY_ADVERTISE")["valueFrom"]["fieldRef"].is_object());
    assert_eq!(container["envFrom"], json!([{"secretRef": {"name": "proxy"}}]));
    let mount = named(&container["volumeMounts"], "corp");
    assert_eq!((&mount["mountPath"], &mount["readOnly"]), (&json!("/etc/corp"), &json!(true)));
    assert_eq!(named(&spec["volumes"], "corp")["configMap"]["name"], "corp-ca");
    assert_eq!(named(&spec["volumes"], "more")["secret"]["secretName"], "mine");
    // The key of the upstream's certificate is mounted; the plan only names it.
    let secrets = named(&spec["volumes"], "secrets").to_string();
    assert!(secrets.contains("mine/tls.crt") && secrets.contains("mine/tls.key"), "{secrets}");
    let snapshots = operated.made("gatewaysnapshots").await.to_string();
    assert!(!snapshots.contains("hunter2"));
    operated.until_condition("mcpupstreams", "up", "ResolvedRefs", "True ResolvedRefs").await;
    // The policy opens the port of the proxy.
    let policy = operated.made("networkpolicy/main-gateway").await["spec"]["egress"].to_string();
    assert!(policy.contains("3128"), "{policy}");
    assert_eq!(operated.writes_in_calm().await, [""; 0]);
}
