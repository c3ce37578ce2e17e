//! From nothing to the first call.

use std::time::{SystemTime, UNIX_EPOCH};

use super::client;
use super::commands::{SYSTEM, apply, helm, kubectl};

/// The most that a new cluster may take from `helm install` to the first answer, with the images there.
const MOST_MS: u64 = 60_000;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

pub fn from_nothing_to_the_first_call() {
    kubectl(&["create", "namespace", SYSTEM]);
    kubectl(&["label", "namespace", SYSTEM, "pod-security.kubernetes.io/enforce=restricted"]);
    let started = now();
    helm(&["install", "hawsepipe-crds", "charts/hawsepipe-crds", "-n", SYSTEM, "--wait"]);
    helm(&[
        "install",
        "hawsepipe",
        "charts/hawsepipe",
        "-n",
        SYSTEM,
        "--set",
        "image.tag=e2e",
        "--wait",
        "--timeout=5m",
    ]);
    let installed = now();
    apply("mcp.yaml");
    apply("pipeline.yaml");
    client::start();
    let answered = client::first_answer();
    println!("helm install: {} ms; to the first answer: {} ms", installed - started, answered - started);
    assert!(answered - started < MOST_MS, "the first call took more than {MOST_MS} ms");
    kubectl(&[
        "wait",
        "-n",
        "mcp",
        "mcpgateway/main",
        "pluginchain/redact-answers",
        "--for=condition=Programmed",
        "--timeout=120s",
    ]);
    client::no_call_failed(client::answered());
}
