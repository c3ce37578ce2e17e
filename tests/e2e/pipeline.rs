//! A pipeline in the cluster: its tool, and the calls that it makes.

use serde_json::{Value, json};

use super::client::{self, call};
use super::commands::{MCP, kubectl, until};

pub fn is_a_tool() {
    let before = client::answered();
    kubectl(&["wait", "-n", MCP, "toolpipeline/echo-twice", "--for=condition=Programmed", "--timeout=120s"]);
    let secret = format!("sk-ant-{}", "a1B2c3D4".repeat(12));
    let result = until("the pipeline answers", || call("echo_twice", &json!({"message": format!("token {secret}")})));
    println!("{result}");
    let echoed: Vec<_> =
        result["structuredContent"]["echoed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(echoed.len() == 2 && echoed.iter().all(|text| text.contains("[redacted")), "{result}");
    assert!(!result.to_string().contains(&secret), "{result}");
    let run = &result["_meta"]["hawsepipe.dev/run"];
    assert!(run["status"] == "completed" && run["toolCalls"] == 2, "{result}");
    client::no_call_failed(before);
}
