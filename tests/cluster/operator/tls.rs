//! Listeners that serve HTTPS in a cluster: `spec.listeners[].tls`.

use std::process::Command;

use serde_json::{Value, json};

use super::harness::{Operated, object};
use super::workload::IMAGE;
use crate::gateway::process::{Folder, Gateway};
use crate::harness::{Cluster, checkout, until};

/// Makes the certificates of `fixtures/certificates.py` in a folder.
fn certificates() -> Folder {
    let folder = Folder::new();
    let python = std::env::var("HAWSEPIPE_TEST_PYTHON").unwrap_or_else(|_| ".cache/venv/bin/python".to_owned());
    let mut made = Command::new(checkout().join(python));
    made.arg(checkout().join("tests/fixtures/certificates.py")).arg(folder.path());
    assert!(made.status().unwrap().success());
    folder
}

/// Puts a certificate and a key where the kubelet mounts the Secret `web`. Both change at once, as there.
fn mount(mounted: &Folder, made: &Folder, version: &str, [certificate, key]: [&str; 2]) {
    for (from, to) in [(format!("{certificate}.pem"), "tls.crt"), (format!("{key}.key"), "tls.key")] {
        mounted.write(&format!("{version}/web/{to}"), &std::fs::read_to_string(made.path().join(from)).unwrap());
    }
    let link = mounted.path().join("..data.new");
    std::os::unix::fs::symlink(version, &link).unwrap();
    std::fs::rename(link, mounted.path().join("..data")).unwrap();
}

/// What a client says that trusts the authority.
async fn says(gateway: &Gateway, made: &Folder) -> String {
    let url = format!("https://{}/mcp", gateway.endpoint().await);
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_hawsepipe"))
        .args(["call", "none", "--url", &url])
        .env("SSL_CERT_FILE", made.path().join("ca.pem"))
        .output();
    String::from_utf8_lossy(&output.await.unwrap().stderr).into_owned()
}

/// Waits until the pods mount the Secret, are probed at the admin port, and are reached at the port of the listener.
async fn is_deployed(operated: &Operated<'_>) {
    operated
        .until_made("deployment/main-gateway", |deployment| {
            let pod = &deployment["spec"]["template"]["spec"];
            let volumes = pod["volumes"].as_array().cloned().unwrap_or_default();
            let sources = volumes.iter().filter_map(|volume| volume["projected"]["sources"].as_array()).flatten();
            let items = json!([{"key": "tls.crt", "path": "web/tls.crt"}, {"key": "tls.key", "path": "web/tls.key"}]);
            let is_mounted =
                sources.into_iter().any(|it| it["secret"]["name"] == "web" && it["secret"]["items"] == items);
            let probe = &pod["containers"][0]["readinessProbe"]["httpGet"];
            is_mounted && (&probe["port"], &probe["scheme"]) == (&json!("admin"), &json!("HTTP"))
        })
        .await;
    operated.until_made("service/main-gateway", |service| service["spec"]["ports"][0]["port"] == 8443).await;
    operated
        .until_made("networkpolicy/main-gateway", |policy| policy["spec"]["ingress"][0]["ports"][0]["port"] == 8443)
        .await;
}

#[tokio::test]
async fn spec_listeners_tls_is_served_of_a_mounted_secret_and_its_faults_are_in_the_status() {
    let operated = Operated::with(Cluster::shared().await, &[], &[IMAGE]).await;
    let listener = json!({"name": "https", "port": 8443, "tls": {"certificateSecretRef": {"name": "web"}}});
    let spec = json!({"authentication": {"anonymous": {}}, "listeners": [listener]});
    operated.apply(&[object("MCPGateway", "main", &spec)]).await;
    is_deployed(&operated).await;
    let (first, second, mounted) = (certificates(), certificates(), Folder::new());
    mount(&mounted, &first, "..1", ["server", "server"]);
    std::os::unix::fs::symlink("..data/web", mounted.path().join("web")).unwrap();
    let served = operated.serve("main", &["--secrets-dir", mounted.path().to_str().unwrap()]).await;
    let answers = async |made: &Folder| says(&served.gateway, made).await.contains("Unknown tool");
    until("it serves HTTPS", async || answers(&first).await.then_some(())).await;
    operated.until_condition("mcpgateways", "main", "ResolvedRefs", "True ResolvedRefs").await;
    let url = format!("https://main-gateway.{}.svc:8443/mcp", operated.namespace);
    assert_eq!(operated.object("mcpgateways", "main").await["status"]["addresses"], json!([url]) as Value);

    mount(&mounted, &second, "..2", ["server", "server"]);
    until("the certificate is renewed", async || answers(&second).await.then_some(())).await;
    assert!(!answers(&first).await);
    mount(&mounted, &first, "..3", ["server", "client"]);
    let said = operated.until_condition("mcpgateways", "main", "ResolvedRefs", "False InvalidSecret").await;
    let why = format!(
        "spec.listeners[0].tls.certificateSecretRef: Secret {}/web: tls.key is not the key of the first certificate in \
         tls.crt: the listener keeps its last certificate",
        operated.namespace
    );
    assert!(said.contains(&why), "{said}");
    assert!(answers(&second).await, "it keeps the last good one");
    mount(&mounted, &first, "..4", ["server", "server"]);
    operated.until_condition("mcpgateways", "main", "ResolvedRefs", "True ResolvedRefs").await;
    assert!(answers(&first).await);
}
