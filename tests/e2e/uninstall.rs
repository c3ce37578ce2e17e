//! What is left of a release that is uninstalled.

use super::client;
use super::commands::{MCP, SYSTEM, helm, kubectl, try_run, until};
use super::stdio::until_processes;

/// Every object of a namespace but Events, as `kind/name`.
fn objects(namespace: &str) -> Vec<String> {
    let kinds = kubectl(&["api-resources", "--namespaced", "--verbs=list", "-o", "name"]);
    let kinds: Vec<_> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    let found = kubectl(&["get", &kinds.join(","), "-n", namespace, "-o", "name", "--ignore-not-found"]);
    found.lines().map(str::to_owned).collect()
}

/// Waits until the namespace has these objects alone, beside what every namespace has.
fn only(namespace: &str, expected: &[&str]) {
    until("everything else is gone", || {
        let there = objects(namespace).into_iter();
        let more: Vec<_> = there
            .filter(|object| !["configmap/kube-root-ca.crt", "serviceaccount/default"].contains(&object.as_str()))
            .filter(|object| !expected.iter().any(|prefix| object.starts_with(prefix)))
            .collect();
        if more.is_empty() { Ok(()) } else { Err(more.join(" ")) }
    });
}

pub fn leaves_what_users_made() {
    let before = client::answered();
    let made = helm(&["get", "manifest", "hawsepipe", "-n", SYSTEM]);
    let users = objects(MCP);
    helm(&["uninstall", "hawsepipe", "-n", SYSTEM, "--wait"]);
    until("nothing of the chart is left", || {
        let left = try_run("kubectl", &["get", "-f", "-", "--ignore-not-found", "-o", "name"], &made)?;
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    // The operator made its Lease.
    only(SYSTEM, &["secret/sh.helm.release.v1.hawsepipe-crds.", "lease.coordination.k8s.io/hawsepipe-operator"]);
    helm(&["uninstall", "hawsepipe-crds", "-n", SYSTEM, "--wait"]);
    assert_eq!(objects(MCP), users, "uninstalling leaves what is in the namespaces of users");
    let definitions = kubectl(&["get", "customresourcedefinitions", "-o", "name"]);
    assert_eq!(definitions.lines().filter(|name| name.ends_with(".hawsepipe.dev")).count(), 7, "{definitions}");
    // The gateways serve on.
    client::no_call_failed(before);
    kubectl(&["delete", "pod/client", "configmap/client", "mcpgateway/main", "-n", MCP]);
    until("what was made for the gateway is gone", || {
        let left: Vec<_> = objects(MCP).into_iter().filter(|object| object.contains("/main")).collect();
        if left.is_empty() { Ok(()) } else { Err(left.join(" ")) }
    });
    // Servers stay with their upstreams; processes that only the gateway used end when they are idle.
    until_processes("musl", 0);
    until_processes("scratch", 1);
    kubectl(&["delete", "mcpupstreams", "--all", "-n", MCP]);
    // The rest of what users made.
    only(
        MCP,
        &[
            "plugin.hawsepipe.dev/",
            "pluginchain.hawsepipe.dev/",
            "toolpipeline.hawsepipe.dev/",
            "secret/sums",
            "secret/history",
        ],
    );
    until_processes("scratch", 0);
}
