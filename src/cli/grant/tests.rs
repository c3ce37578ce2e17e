//! Tests of the printed manifests and of errors. `tests/cluster` tests that an API server accepts the manifests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::source::FileText;

const FILE: &str = "
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: ledger, namespace: finance}
spec:
  external:
    url: https://ledger.example/mcp
    headers:
    - {name: Authorization, valueFrom: {secretKeyRef: {name: ledger, key: header}}}
    - {name: X-Tenant, valueFrom: {secretKeyRef: {name: 'on', key: tenant}}}
    - {name: X-Again, valueFrom: {secretKeyRef: {name: ledger, key: again}}}
    - {name: X-Plain, valueFrom: {configMapKeyRef: {name: plain, key: header}}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: Plugin
metadata: {name: ledger, namespace: finance}
spec:
  source: {inline: 'export default () => ({});'}
  env: [{name: KEY, valueFrom: {secretKeyRef: {name: plugin-key, key: key}}}]
---
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: open, namespace: finance}
spec: {external: {url: https://open.example/mcp}}
---
apiVersion: hawsepipe.dev/v1alpha1
kind: MCPUpstream
metadata: {name: broken, namespace: finance}
spec: {external: {address: https://open.example/mcp}}
";

fn loaded(text: &str) -> LoadedManifests {
    let path = Arc::new(PathBuf::from("finance.yaml"));
    load(vec![FileText { path, folder: PathBuf::new(), text: Ok(text.to_owned()) }], None, Path::new("plugins"))
}

/// Returns the documents that are printed for these objects of [`FILE`], or the error.
fn printed(objects: &[&str]) -> Result<Vec<Value>, String> {
    let ids: Vec<_> = objects.iter().map(|text| object(text).unwrap()).collect();
    let secrets = from_files(&ids, &loaded(FILE)).map_err(|error| error.to_string())?;
    let text = manifests(&secrets, &key("mcp/shared").unwrap()).unwrap();
    let documents = crate::source::yaml::read(&text).unwrap_or_else(|_| panic!("no YAML:\n{text}"));
    Ok(documents.into_iter().map(|document| document.value).collect())
}

#[test]
fn the_gateways_account_may_read_the_secrets_that_are_named() {
    let expected = json!([
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
         "metadata": {"name": "hawsepipe-mcp.shared", "namespace": "finance"},
         "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["ledger", "on"],
                    "verbs": ["get", "watch"]}]},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
         "metadata": {"name": "hawsepipe-mcp.shared", "namespace": "finance"},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hawsepipe-mcp.shared"},
         "subjects": [{"kind": "ServiceAccount", "name": "shared-gateway", "namespace": "mcp"}]},
    ]);
    assert_eq!(Value::from(printed(&["finance/ledger"]).unwrap()), expected);
}

#[test]
fn several_objects_of_a_namespace_share_a_role() {
    let all = printed(&["plugin/finance/ledger", "mcpup/finance/ledger"]).unwrap();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0]["rules"][0]["resourceNames"], json!(["ledger", "on", "plugin-key"]));
}

#[test]
fn what_cannot_be_granted_is_said() {
    let why = |object: &str| printed(&[object]).unwrap_err();
    assert!(why("finance/open").contains("names no Secret in its spec.external"), "{}", why("finance/open"));
    assert_eq!(why("finance/ledgers"), "there is no MCPUpstream finance/ledgers in the files");
    let broken = why("finance/broken");
    assert!(broken.contains("is not valid") && broken.contains("spec.external.address"), "{broken}");
    let id = object("finance/ledger").unwrap();
    let unread = from_files(&[id], &loaded("a: [")).unwrap_err().to_string();
    assert!(unread.contains("finance.yaml:"), "{unread}");
}

#[test]
fn objects_are_named_as_kubectl_does() {
    for (text, kind) in [("a/b", Kind::MCPUpstream), ("MCPUpstream/a/b", Kind::MCPUpstream), ("plug/a/b", Kind::Plugin)]
    {
        assert_eq!(object(text).unwrap(), ObjectId::new(kind, ObjectKey::new("a", "b")), "{text}");
    }
    for text in ["", "b", "a/", "chain/a/b", "plugin/a/b/c", "A/b", "a/b c"] {
        assert!(object(text).is_err(), "{text}");
    }
    assert!(key("shared").is_err());
}
