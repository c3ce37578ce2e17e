//! Calls that steps make: they have the client of the run.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::http::{Http, Session};
use super::super::parts::{SDKS, asking_processes, chain, plugin, tools_of, until};
use super::{call, pipeline, tools};

/// Asks the user, and calls a server that asks too.
const INNER: &str = "export async function execute({ arguments: { query } }, ctx) {
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  const own = await ctx.ask({ message: 'Who?', schema }).catch(({ reason, message }) => ({ reason, message }));
  const [served, pid] = [await ctx.callTool('asking__elicit', {}), await ctx.callTool('asking__pid', {})];
  return { output: { own, served: served.content[0].text, pid: pid.content[0].text, query } };
}";
const OUTER: &str = "export async function execute(state, ctx) {
  return { output: (await ctx.callTool('inner', { prompt: 'x' })).structuredContent };
}";
/// Puts the question of the user into the arguments.
const QUERY: &str = "export const onRequest = ({ rawContent, metadata: { userQuery } }) => (
  { text: JSON.stringify({ ...JSON.parse(rawContent), query: userQuery }), continue: true });";

#[tokio::test]
async fn inner_calls_keep_the_session_the_questions_and_the_query_of_their_client() {
    let folder = Folder::new();
    let query = chain("query", "Request", &["inner"], &["query"]);
    let manifests = [
        asking_processes("asking", &folder.path().join("capabilities.log")),
        pipeline("inner", INNER, "tools: {include: ['asking__*']}"),
        pipeline("outer", OUTER, "tools: {include: [inner]}"),
        plugin("query", QUERY, "protocol: Module"),
        query,
    ];
    folder.write("manifests.yaml", &manifests.concat());
    let gateway = Gateway::start(&folder);
    tools_of(&gateway, &["asking"]).await;
    until("the pipelines are listed", async || {
        let listed = tools(&gateway).await;
        ["inner", "outer"].iter().all(|tool| listed.iter().any(|listed| listed == tool))
    })
    .await;

    // A nested pipeline, and the server that it calls, ask the client.
    let answers = r#"{"elicitation": {"action": "accept", "content": {"name": "Ada"}}}"#;
    let lines = SDKS[3].run(&gateway.url(), &["call", "outer", r#"{"prompt": "x"}"#, "--answers", answers], "");
    let output = &lines[0]["result"]["structuredContent"];
    assert_eq!(output["own"], json!({"action": "accept", "content": {"name": "Ada"}}), "{lines:?}");
    assert!(output["served"].as_str().is_some_and(|served| served.contains("Ada")), "{lines:?}");

    // Each session has its own process, in calls of its client and within runs.
    let http = Http::new();
    let (first, second) = (http.initialize(&gateway.url()).await, http.initialize(&gateway.url()).await);
    let (one, two) = (outer(&first).await, outer(&second).await);
    assert_ne!(one["pid"], two["pid"], "{one} {two}");
    let own = first.call_raw(1, "asking__pid", "{}").await.json();
    assert_eq!(own["result"]["content"][0]["text"], one["pid"], "{own}");
    let refused = "the user was not asked: the client of the call does not declare the capability elicitation";
    assert_eq!(one["own"], json!({"reason": "CannotAsk", "message": refused}), "{one}");

    let meta = json!({"hawsepipe.dev/userQuery": "why"});
    let asked = http.call(&gateway.url(), "outer", &json!({"prompt": "x"}), &meta).await;
    assert_eq!(asked["result"]["structuredContent"]["query"], "why", "{asked}");
    let plain = call(&gateway, "outer", &json!({"prompt": "x"})).await;
    assert_eq!(plain["structuredContent"]["query"], Value::Null, "{plain}");
}

async fn outer(session: &Session) -> Value {
    let result: Value =
        serde_json::from_str(&session.call_raw(7, "outer", r#"{"prompt": "x"}"#).await.result()).unwrap();
    result["structuredContent"].clone()
}
