//! Secrets: mounted ones of the gateway's namespace, granted ones of others.

use hawsepipe::domain::report::{Report, SecretState};
use serde_json::json;

use super::process::{ACCOUNT, Folder, Place, manifests};
use super::published::Revision;
use super::upstream;
use crate::harness::Cluster;

fn state(report: &Report) -> Option<SecretState> {
    report.secrets.first().map(|secret| secret.state)
}

#[tokio::test]
async fn a_mounted_value_that_changes_is_taken_up() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let url = upstream::start().await;
    let mounted = Folder::new();
    // As the kubelet mounts: names lead through a link, which it swaps.
    let swap = |version: &str, value: &str| {
        mounted.write(&format!("{version}/whoami/key"), value);
        let link = mounted.path().join("..data.new");
        std::os::unix::fs::symlink(version, &link).unwrap();
        std::fs::rename(link, mounted.path().join("..data")).unwrap();
    };
    swap("..1", "first");
    std::os::unix::fs::symlink("..data/whoami", mounted.path().join("whoami")).unwrap();
    let headers = "external: {headers: [{name: X-Key, valueFrom: {secretKeyRef: {name: whoami, key: key}}}], ";
    let written = manifests(&place.namespace, &url, "got").replace("external: {", headers);
    Revision::of(&written).publish(cluster, &place.namespace).await;
    let gateway = place.start(&["--secrets-dir", mounted.path().to_str().unwrap()]).await;
    gateway.until_answers("up__whoami", "got first").await;
    assert_eq!(state(&gateway.report().await), Some(SecretState::Found));
    swap("..2", "second");
    gateway.until_answers("up__whoami", "got second").await;
    std::fs::remove_file(mounted.path().join("..data")).unwrap();
    gateway.until_reported("the Secret is gone", |r| (state(r) == Some(SecretState::NotFound)).then_some(())).await;
    assert!(gateway.call("up__whoami").await.is_err(), "it is not called without its key");
    assert!(!gateway.log().contains("second"));
}

/// What `owner` applies so that the gateway of another namespace may read its Secret.
async fn grant(cluster: &Cluster, owner: &str, gateway: &str) {
    let group = "rbac.authorization.k8s.io";
    let grant = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": format!("{group}/v1"), "kind": "Role", "metadata": {"name": "ledger"}, "rules": [{
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ledger"], "verbs": ["get", "watch"]}]},
        {"apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "ledger"},
         "roleRef": {"apiGroup": group, "kind": "Role", "name": "ledger"},
         "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": gateway}]},
    ]});
    cluster.kubectl(&["apply", "-n", owner, "-f", "-"], &grant.to_string()).await.unwrap();
}

#[tokio::test]
async fn a_secret_of_another_namespace_needs_its_owners_grant() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let owner = cluster.namespace().await;
    let url = upstream::start().await;
    let headers = "external: {headers: [{name: X-Key, valueFrom: {secretKeyRef: {name: ledger, key: key}}}], ";
    let written = manifests(&place.namespace, &url, "got").replace("external: {", headers);
    // The upstream is the other namespace's, and so is its Secret.
    let (own, theirs) = (format!("name: up, namespace: {}", place.namespace), format!("name: up, namespace: {owner}"));
    let gateway_takes = "spec:\n  upstreams: {namespaces: {from: All}}\n  authentication";
    let written = written
        .replace(&own, &theirs)
        .replacen("spec:\n  authentication", gateway_takes, 1)
        .replace("protocol: {era: Legacy}", "shareWith: {namespaces: {from: All}}\n  protocol: {era: Legacy}");
    Revision::of(&written).publish(cluster, &place.namespace).await;
    let gateway = place.start(&[]).await;
    gateway.until_reported("it is not granted", |r| (state(r) == Some(SecretState::NotGranted)).then_some(())).await;
    let problem = gateway.report().await.problems[0].clone();
    assert_eq!(problem.reason.as_str(), "SecretNotGranted", "{problem}");
    assert!(gateway.call("up__whoami").await.is_err());

    grant(cluster, &owner, &place.namespace).await;
    gateway.until_reported("there is none", |r| (state(r) == Some(SecretState::NotFound)).then_some(())).await;
    let write = async |value: &str| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ledger"},
            "stringData": {"key": value}});
        cluster.kubectl(&["apply", "-n", &owner, "-f", "-"], &secret.to_string()).await.unwrap();
    };
    write("pearl").await;
    gateway.until_answers("up__whoami", "got pearl").await;
    assert_eq!(state(&gateway.report().await), Some(SecretState::Found));
    write("opal").await;
    gateway.until_answers("up__whoami", "got opal").await;
    assert!(!["pearl", "opal"].iter().any(|value| gateway.log().contains(value)));

    cluster.kubectl(&["delete", "rolebinding", "ledger", "-n", &owner], "").await.unwrap();
    let withdrawn = |r: &Report| (state(r) == Some(SecretState::NotGranted)).then_some(());
    gateway.until_reported("the grant is withdrawn", withdrawn).await;
    assert!(gateway.call("up__whoami").await.is_err());
}

#[tokio::test]
async fn an_edit_that_names_a_secret_which_the_pod_does_not_have_yet_costs_no_call() {
    let cluster = Cluster::shared().await;
    let place = Place::new(cluster).await;
    let url = upstream::start().await;
    let mounted = Folder::new();
    let before = manifests(&place.namespace, &url, "got");
    let headers = "external: {headers: [{name: X-Key, valueFrom: {secretKeyRef: {name: whoami, key: key}}}], ";
    Revision::of(&before).publish(cluster, &place.namespace).await;
    let gateway = place.start(&["--secrets-dir", mounted.path().to_str().unwrap()]).await;
    gateway.until_answers("up__whoami", "got nobody").await;
    Revision::of(&before.replace("external: {", headers)).publish(cluster, &place.namespace).await;
    gateway.until_reported("the Secret is missed", |r| (state(r) == Some(SecretState::NotFound)).then_some(())).await;
    let problem = gateway.report().await.problems[0].clone();
    assert!(problem.message.ends_with("the gateway goes on as before this change"), "{problem}");
    assert_eq!(gateway.call("up__whoami").await.unwrap(), "got nobody");
    mounted.write("whoami/key", "first");
    gateway.until_answers("up__whoami", "got first").await;
    assert_eq!(state(&gateway.report().await), Some(SecretState::Found));
}
