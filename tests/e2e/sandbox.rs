//! Plugins in a pod: the sandbox of the gateway inside of that of the container runtime.

use serde_json::{Value, json};

use super::commands::{MCP, apply, get, kubectl, try_run, until};

/// Makes one call in a pod of the gateway, with the Node.js that is in it.
const CALL: &str = r"
const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'e2e', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
const params = { name: 'everything__get-sum', arguments: { a: 1, b: 2 }, _meta: meta };
const response = await fetch('http://main-gateway.mcp.svc:8080/mcp', {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': params.name,
  },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
});
const body = await response.text();
const data = body.split('\n').filter((line) => line.startsWith('data:')).pop();
console.log(JSON.parse(data ? data.slice(5) : body).result.content[0].text);
";

pub fn a_plugin_is_confined() {
    apply("probe.yaml");
    kubectl(&["wait", "-n", MCP, "pluginchain/probe", "--for=condition=Programmed", "--timeout=120s"]);
    let said = until("the probe answers", || {
        try_run("kubectl", &["exec", "-n", MCP, "client", "--", "node", "--input-type=module", "--eval", CALL], "")
    });
    let found: Value = serde_json::from_str(said.trim()).unwrap_or_else(|_| panic!("it says {said}"));
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
