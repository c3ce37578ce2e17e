//! An operator and the right to its Lease.

use super::harness::{ACCOUNT, Operated, gateway};
use crate::gateway::http::{Answer, get};
use crate::harness::{Process, until};

/// The words with which the log begins its advice.
const ADVICE: &str = "without its Lease this operator cannot lead";

async fn readyz(operator: &Process) -> Answer {
    get(&format!("http://{}/readyz", operator.address().await), &[]).await
}

/// Adds a rule to the operator's Role, or removes one.
async fn patch_role(operated: &Operated<'_>, change: &str) {
    let patch = ["patch", "-n", &operated.namespace, "role", ACCOUNT, "--type=json", "-p", change];
    operated.cluster.kubectl(&patch, "").await.unwrap();
}

#[tokio::test]
async fn an_operator_that_cannot_create_its_lease_is_not_ready_and_says_once_what_to_do() {
    let mut operated = Operated::start().await;
    let namespace = operated.namespace.clone();
    until("an operator with its rights is ready", async || {
        (readyz(&operated.operator).await.status == 200).then_some(())
    })
    .await;
    operated.operator.kill();
    let rule = r#"[{"op": "test", "path": "/rules/1/resources/0", "value": "leases"},
        {"op": "test", "path": "/rules/1/verbs/0", "value": "create"}, {"op": "remove", "path": "/rules/1"}]"#;
    patch_role(&operated, rule).await;
    let account = format!("--as=system:serviceaccount:{namespace}:{ACCOUNT}");
    let may = ["auth", "can-i", "create", "leases.coordination.k8s.io", "-n", &namespace, &account];
    until("the right is gone", async || operated.cluster.kubectl(&may, "").await.is_err().then_some(())).await;
    operated.delete("lease/hawsepipe-operator").await;

    let token = operated.cluster.token(&namespace, ACCOUNT, &[]).await;
    let arguments = ["operator", "--namespaces", &namespace, "--listen", "127.0.0.1:0"];
    let operator = Process::start(operated.cluster, &namespace, &token, &arguments, &[]);
    operated.apply(&[gateway("main")]).await;
    until("it has tried three times", async || {
        (operator.log().matches("can be neither taken").count() > 2).then_some(())
    })
    .await;
    let answer = readyz(&operator).await;
    assert_eq!(answer.status, 503);
    assert!(answer.text.starts_with("not ready: the Lease"), "{answer:?}");
    assert_eq!(operator.log().matches(ADVICE).count(), 1, "{}", operator.log());
    assert!(operated.object("mcpgateways", "main").await["status"].is_null(), "nobody leads");

    let rule = r#"[{"op": "add", "path": "/rules/-",
        "value": {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}}]"#;
    patch_role(&operated, rule).await;
    until("it is ready", async || (readyz(&operator).await.status == 200).then_some(())).await;
    operated.until_condition("mcpgateways", "main", "Accepted", "True Accepted").await;
}
