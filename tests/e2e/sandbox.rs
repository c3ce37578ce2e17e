//! Plugins in a pod: the sandbox of the gateway inside of that of the container runtime.

use serde_json::{Value, json};

use super::client::call;
use super::commands::{MCP, apply, get, kubectl, until};

pub fn a_plugin_is_confined() {
    apply("probe.yaml");
    kubectl(&["wait", "-n", MCP, "pluginchain/probe", "--for=condition=Programmed", "--timeout=120s"]);
    let said = until("the probe answers", || call("everything__get-sum", &json!({"a": 1, "b": 2})));
    let said = said["content"][0]["text"].as_str().unwrap_or_default();
    let found: Value = serde_json::from_str(said).unwrap_or_else(|_| panic!("it says {said}"));
    println!("{found}");
    let expected =
        json!({"account": "EACCES", "environment": "EACCES", "write": "EPERM", "spawn": "EPERM", "listen": "EPERM"});
    assert_eq!(found, expected);
    let gateway = get(&["mcpgateway/main", "-n", MCP]);
    let degraded =
        gateway["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "SandboxDegraded");
    assert!(degraded.is_none_or(|one| one["status"] == "False"), "{degraded:?}");
    kubectl(&["delete", "-n", MCP, "pluginchain/probe", "plugin/probe"]);
}
