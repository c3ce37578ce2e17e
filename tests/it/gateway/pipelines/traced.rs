//! Spans of requests to language models, sent by the real exporter.

use serde_json::{Value, json};

use super::super::collector::{Receiver, hex, text};
use super::super::harness::{Folder, Gateway};
use super::super::parts::{tools_of, until};
use super::models::{models, requests, secret, stand_in};
use super::{call, pipeline};

const ASK: &str = "export async function execute({ query }, ctx) {
  const { text } = await ctx.llm('complex').complete({ messages: [{ role: 'user', content: query }] });
  return { output: { text } };
}";

#[tokio::test]
async fn a_request_to_a_model_is_a_span_of_its_call_and_the_endpoint_gets_its_context() {
    let (receiver, folder) = (Receiver::start().await, Folder::new());
    let canary = "canary-of-an-answer";
    let script = json!([{"match": "fails", "status": 401, "error": canary}, {"answer": canary, "repeat": true}]);
    let (_model, url) = stand_in(&folder, &script);
    folder.write("manifests.yaml", &(secret() + &pipeline("ask", ASK, &models(&url, &["complex"]))));
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let gateway = Gateway::start_in(&folder, &[], &variables);
    tools_of(&gateway, &["ask"]).await;
    for prompt in ["canary-of-a-prompt", "fails"] {
        call(&gateway, "ask", &json!({"prompt": prompt})).await;
    }
    let mut spans = Vec::new();
    until("both requests are spans", async || {
        spans = receiver.spans();
        spans.iter().filter(|span| span.name == "tools/call ask").count() == 2
    })
    .await;
    let chats: Vec<_> = spans.iter().filter(|span| span.name == "chat large").collect();
    let [answered, failed] = chats[..] else { panic!("{spans:#?}") };
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "large"),
        ("gen_ai.usage.input_tokens", "IntValue(11)"),
        ("gen_ai.usage.output_tokens", "IntValue(7)"),
    ] {
        assert_eq!(text(answered, key).as_deref(), Some(value), "{key}");
    }
    assert_eq!((answered.kind, text(answered, "error.type")), (3, None));
    assert_eq!(text(failed, "error.type").as_deref(), Some("ModelUnavailable"), "{failed:#?}");
    assert_eq!(failed.status.as_ref().unwrap().code, 2);
    let of_call = spans.iter().find(|span| span.span_id == answered.parent_span_id);
    assert_eq!(of_call.map(|span| span.name.as_str()), Some("tools/call ask"), "{spans:#?}");

    let told = format!("00-{}-{}-01", hex(&answered.trace_id), hex(&answered.span_id));
    assert_eq!(requests(&url).await[0]["traceparent"], told);
    let shown = format!("{:?}", receiver.spans());
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn while_traces_are_off_an_endpoint_gets_no_context() {
    let folder = Folder::new();
    let (_model, url) = stand_in(&folder, &json!([]));
    folder.write("manifests.yaml", &(secret() + &pipeline("ask", ASK, &models(&url, &["complex"]))));
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["ask"]).await;
    call(&gateway, "ask", &json!({"prompt": "x"})).await;
    assert_eq!(requests(&url).await[0]["traceparent"], Value::Null);
}
