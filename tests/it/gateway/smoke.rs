//! The thinnest path through all layers: a folder, a server, a plugin, a call.

use serde_json::json;

use super::harness::{Folder, Gateway};
use super::http::Http;
use crate::fixtures::node_module;

/// server-everything over stdio, and a chain of one Module and one script of contract 1.0.
pub fn manifests() -> String {
    let server = node_module("@modelcontextprotocol/server-everything/dist/index.js");
    format!(
        r#"
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {{name: everything}}
spec:
  process: {{command: node, args: [{server:?}, stdio]}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {{name: shout}}
spec:
  source:
    inline: |
      export default async ({{ rawContent }}) => ({{ text: rawContent.toUpperCase(), continue: true }});
---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {{name: mark}}
spec:
  source:
    inline: |
      const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));
      console.log(JSON.stringify({{ text: input.rawContent + '!', continue: true }}));
---
apiVersion: hawsepipe.dev/v1alpha1
kind: PluginChain
metadata: {{name: answers}}
spec:
  phase: Response
  entries: [{{name: shout}}, {{name: mark}}]
"#
    )
}

#[tokio::test]
async fn a_call_goes_through_a_chain_and_back() {
    let folder = Folder::with(&manifests());
    let gateway = Gateway::start(&folder);
    let text = "/result/content/0/text";
    gateway.until_answer("everything__echo", &json!({"message": "hi"}), text, &json!("ECHO: HI!")).await;
    let meta = json!({"hawsepipe.dev/trace": true});
    let answer = Http::new().call(&gateway.url(), "everything__echo", &json!({"message": "hi"}), &meta).await;
    assert_eq!(answer["result"]["content"][0]["text"], "ECHO: HI!", "{answer}");
    let entries = answer["result"]["_meta"]["hawsepipe.dev/trace"].as_array().unwrap();
    let outcomes: Vec<_> = entries.iter().map(|e| (e["plugin"].as_str().unwrap(), &e["outcome"])).collect();
    assert_eq!(outcomes, [("default/shout", &json!("ran")), ("default/mark", &json!("ran"))]);
    let (_, ended_well) = gateway.end();
    assert!(ended_well);
}
