//! What authors of plugins for pipelines use: the types.

use serde_json::json;

use super::{alone, call};
use crate::fixtures::checkout;

#[tokio::test]
async fn a_step_gets_the_members_that_its_types_have() {
    let code = std::fs::read_to_string(checkout().join("plugins/sdk/test/members.mjs")).unwrap();
    let (_folder, gateway) = alone(&code, "").await;
    let answer = call(&gateway, "alone", &json!({"prompt": "x"})).await;
    assert_eq!(answer["structuredContent"], json!({"differ": []}), "{answer}");
}
