//! Lowers the tests of rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::gateway::access::{AccessTest as ApiTest, Authorization, Expectation, TestIdentity, TestMethod};
use crate::config::access::AccessTest;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};

/// A tool, as `tool` of a test describes it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestTool {
    name: String,
    #[serde(default)]
    upstream: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: Map<String, Value>,
}

/// Returns the tests, or why one of them cannot be run. `namespace` is that of the gateway.
pub(super) fn access_tests(written: Option<&Authorization>, namespace: &str) -> Vec<Result<AccessTest, String>> {
    written.iter().filter_map(|rules| rules.tests.as_ref()).flatten().map(|test| lower(test, namespace)).collect()
}

fn lower(written: &ApiTest, namespace: &str) -> Result<AccessTest, String> {
    let TestTool { name, upstream, labels, annotations } = match &written.tool.0 {
        Value::String(name) => TestTool { name: name.clone(), ..TestTool::default() },
        tool => TestTool::deserialize(tool).map_err(|why| {
            format!("`tool` is no name, and no object of name, upstream, labels and annotations: {why}")
        })?,
    };
    let (namespace, upstream) = upstream.split_once('/').unwrap_or((namespace, &upstream));
    let own = name.strip_prefix(&format!("{upstream}__")).unwrap_or(&name);
    let definition = serde_json::json!({"name": own, "inputSchema": {"type": "object"}, "annotations": annotations});
    let definition = serde_json::value::to_raw_value(&definition).map_err(|why| why.to_string())?;
    let item = Item::parse(ItemKind::Tool, &definition).map_err(|why| format!("`tool` is no tool of MCP: {why}"))?;
    Ok(AccessTest {
        identity: written.identity.as_ref().map_or_else(|| Ok(Identity::anonymous()), identity)?,
        upstream: ObjectKey::new(namespace, upstream),
        arguments: Value::from(written.arguments.clone().unwrap_or_default().0).to_string(),
        allows: written.expect == Expectation::Allow,
        name,
        item,
        labels,
    })
}

fn identity(written: &TestIdentity) -> Result<Arc<Identity>, String> {
    let method = match written.method.unwrap_or(TestMethod::Jwt) {
        TestMethod::Jwt => IdentityMethod::Jwt,
        TestMethod::ApiKey => IdentityMethod::ApiKey,
        TestMethod::TokenReview => IdentityMethod::TokenReview,
    };
    let identity = Identity::new(method, written.issuer.as_deref().unwrap_or_default(), written.subject.clone());
    let mut identity = identity.map_err(|why| format!("`identity` is not valid: {why}"))?;
    identity.groups = written.groups.clone().unwrap_or_default();
    identity.scopes = written.scopes.clone().unwrap_or_default();
    identity.claims = written.claims.clone().unwrap_or_default().0;
    Ok(Arc::new(identity))
}
