//! Clients of three SDKs, each in both eras, that call a pipeline.

use serde_json::{Value, json};

use super::super::invocations::Admin;
use super::super::matrix::clients::CLIENTS;
use super::super::parts::until;
use super::alone;

/// Does what the prompt says: it asks the user, never ends, or answers.
const CODE: &str = "export async function execute({ arguments: { prompt } }, ctx) {
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  if (prompt === 'asks') return { output: await ctx.ask({ message: 'Who?', schema }) };
  if (prompt === 'hangs') await new Promise(() => {});
  return { output: { prompt } };
}";

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_three_sdks_call_a_pipeline_in_both_eras() {
    let (_folder, gateway) = alone(CODE, "").await;
    let ada = json!({"action": "accept", "content": {"name": "Ada"}});
    let call = |prompt: &str, more: Value| {
        let mut line = json!({"tool": "alone", "arguments": {"prompt": prompt}});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        format!("{line}\n")
    };
    // A client that ends right after it cancelled may never send that.
    let script = call("says", json!({"steps": 1}))
        + &call("asks", json!({}))
        + &call("hangs", json!({"cancel": true}))
        + "{\"list\":\"tools\"}\n";
    for client in CLIENTS {
        let lines = client.run(&gateway.url(), &json!({"elicitation": ada}), &script).await;
        let [said, asked, cancelled, _] = &lines[..] else { panic!("{client}: {lines:?}") };
        assert_eq!(said["result"]["structuredContent"]["prompt"], "says", "{client}: {said}");
        assert_eq!(said["progress"][0]["message"], "main", "{client}: {said}");
        assert_eq!(asked["result"]["structuredContent"], ada, "{client}: {asked}");
        assert_eq!(cancelled["result"], json!({"cancelled": true}), "{client}: {cancelled}");
    }
    let admin = Admin::of(&gateway);
    until("the runs are cancelled", async || {
        let runs = admin.get("runs?status=cancelled").await;
        runs["items"].as_array().is_some_and(|runs| runs.len() == CLIENTS.len())
    })
    .await;
}
