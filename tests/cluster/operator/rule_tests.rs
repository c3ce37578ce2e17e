//! Rules of a gateway that fail their tests.

use serde_json::json;

use super::harness::{Operated, object};

#[tokio::test]
async fn rules_that_fail_their_tests_are_not_accepted() {
    let operated = Operated::start().await;
    let gateway = |expect: &str| {
        let rules = json!([{"name": "ann", "effect": "Allow", "when": r#"identity.subject == "ann""#}]);
        let tests = json!([
            {"identity": {"subject": "ann"}, "tool": {"name": "a", "labels": {"x": "y"}}, "expect": "allow"},
            {"identity": {"subject": "bob", "claims": {"x": [1]}}, "tool": "a", "arguments": {"x": 1}, "expect": expect},
        ]);
        let rules = json!({"rules": rules, "tests": tests});
        object("MCPGateway", "main", &json!({"authentication": {"anonymous": {}}, "authorization": rules}))
    };
    operated.apply(&[gateway("deny")]).await;
    operated.until_condition("mcpgateways", "main", "Accepted", "True Accepted").await;
    operated.apply(&[gateway("allow")]).await;
    let message = operated.until_condition("mcpgateways", "main", "Accepted", "False InvalidConfig").await;
    assert!(message.contains("spec.authorization.tests[1]") && message.contains("no rule allows it"), "{message}");
    operated.apply(&[gateway("deny")]).await;
    operated.until_condition("mcpgateways", "main", "Accepted", "True Accepted").await;
}
