//! What a run and its steps are told of what was refused, and of how the run ended.

use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::invocations::Admin;
use super::super::parts::{SDKS, everything, object, plugin, until};
use super::models::{models, secret};
use super::runs::said;
use super::{alone, call, pipeline, tools};

/// Tries what a step may not, and goes on.
const TRIES: &str = "export async function execute(state, ctx) {
  const changes = {
    state: () => { state.query = 'y'; },
    inState: () => { state.arguments.more.list.push(1); },
    ctx: () => { ctx.ask = null; },
    run: () => { ctx.run.id = 'y'; },
    context: () => { ctx.context.userId = 'y'; },
    budgets: () => { ctx.budgets.maxToolCalls = 9; },
    sources: () => { ctx.sources.add.own = 1; },
  };
  const refused = (change) => { try { changes[change](); } catch (error) { return error instanceof TypeError; } };
  const reason = (asked) => asked.then(() => 'done', (error) => error.data?.reason);
  const field = { type: 'object', properties: {} };
  const links = await ctx.callTool('math__get-resource-links', { count: 1 });
  return { output: {
    changed: Object.keys(changes).filter((change) => !refused(change)),
    arguments: await reason(ctx.callTool('math__echo', { message: 'x'.repeat(9 << 20) })),
    evidence: await reason(ctx.evidence.add('x'.repeat(20 << 10))),
    source: await reason(ctx.sources.add({ url: 'javascript:alert(1)' })),
    question: await reason(ctx.ask({ message: 'Who?', schema: { type: 'object', properties: { field } } })),
    links: links.content.filter(({ type }) => type === 'resource_link').length,
  } };
}";

#[tokio::test]
async fn a_step_changes_nothing_that_it_gets_and_goes_on_after_what_is_refused() {
    let folder = Folder::with(&(everything("math") + &pipeline("tries", TRIES, "tools: {include: ['math__*']}")));
    let gateway = Gateway::start(&folder);
    until("the tools are listed", async || {
        let listed = tools(&gateway).await;
        ["tries", "math__get-resource-links"].iter().all(|tool| listed.iter().any(|listed| listed == tool))
    })
    .await;
    let answer = call(&gateway, "tries", &json!({"prompt": "x", "more": {"list": []}})).await;
    let output = &answer["structuredContent"];
    assert_eq!(output["changed"], json!([]), "{answer}");
    for (request, reason) in [
        ("arguments", "TooLarge"),
        ("evidence", "TooLarge"),
        ("source", "InvalidSource"),
        ("question", "InvalidQuestion"),
    ] {
        assert_eq!(output[request], reason, "{request}: {answer}");
    }
    // A link of a server that no client may follow is text.
    let source = &output["sources"][0];
    assert_eq!((&output["links"], &source["url"]), (&json!(1), &Value::Null), "{answer}");
    assert!(source["sourceMetadata"]["uri"].as_str().is_some_and(|uri| uri.starts_with("demo://")), "{answer}");
}

/// Does not handle that its model cannot be reached.
const FAILS: &str = "export const execute = (state, ctx) => ctx.llm('complex').complete({ messages: [] });";
const SHOWS: &str = "export const execute = ({ agents }) => ({ output: { error: agents.fails.error } });";

#[tokio::test]
async fn a_failure_of_the_gateway_keeps_its_reason_and_sentence_and_the_end_by_a_limit_is_told() {
    let agents = "[{name: fails, type: custom, plugin: {name: fails}, nextOnFailure: shows},
      {name: shows, type: custom, plugin: {name: shows}, loopCondition: 'true', loopBackTo: shows}]";
    let models = models("http://127.0.0.1:9/v1", &["complex"]);
    let spec = format!(
        "tool: {{name: limited, description: A test.}}, {models},
         declared: {{startAgent: fails, maxIterations: 3, agents: {agents}}}"
    );
    let manifests = [
        secret(),
        plugin("fails", FAILS, "type: phase"),
        plugin("shows", SHOWS, "type: phase"),
        object("ToolPipeline", "limited", &spec),
        pipeline("throws", "export const execute = () => { throw new Error('canary'); };", ""),
    ];
    let folder = Folder::with(&manifests.concat());
    let gateway = Gateway::start(&folder);
    until("the tools are listed", async || tools(&gateway).await.len() == 2).await;

    let answer = call(&gateway, "limited", &json!({"prompt": "x"})).await;
    let (error, run) = (&answer["structuredContent"]["error"], &answer["_meta"]["hawsepipe.dev/run"]);
    let sentence = error["message"].as_str().unwrap_or_default();
    assert_eq!((&error["reason"], &run["limited"]), (&json!("ModelUnavailable"), &json!(true)), "{answer}");
    assert!(sentence.starts_with("model large of role complex: the endpoint cannot be reached"), "{answer}");
    let id = run["id"].as_str().unwrap();
    let shown = Admin::of(&gateway).get(&format!("runs/{id}")).await;
    let step = &shown["steps"][0];
    assert_eq!((&step["reason"], &step["message"]), (&json!("ModelUnavailable"), &error["message"]), "{shown}");
    assert_eq!(shown["limited"], true, "{shown}");
    let (_, text) = said(&gateway, &["runs", "show", id]);
    assert!(text.contains(sentence) && text.contains("limited: the run has reached maxIterations"), "{text}");

    let thrown = call(&gateway, "throws", &json!({"prompt": "x"})).await;
    let run = &thrown["_meta"]["hawsepipe.dev/run"];
    assert_eq!((&run["error"]["code"], &run["limited"]), (&json!("PluginError"), &json!(false)), "{thrown}");
    let shown = Admin::of(&gateway).get(&format!("runs/{}", run["id"].as_str().unwrap())).await;
    assert_eq!((&shown["reason"], &shown["message"]), (&json!("PluginError"), &Value::Null), "{shown}");
    assert!(!shown.to_string().contains("canary"), "{shown}");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_question_is_an_error_for_the_step() {
    let code = "export async function execute(state, ctx) {
      const schema = { type: 'object', properties: { age: { type: 'integer' } } };
      return { output: await ctx.ask({ message: 'How old?', schema }).catch(({ reason, message }) => ({ reason, message })) };
    }";
    let (_folder, gateway) = alone(code, "").await;
    let asked = |answer: &str| {
        let arguments = ["call", "alone", r#"{"prompt": "x"}"#, "--answers", answer];
        SDKS[3].run(&gateway.url(), &arguments, "")[0]["result"]["structuredContent"].clone()
    };
    let fits = asked(r#"{"elicitation": {"action": "accept", "content": {"age": 7}}}"#);
    assert_eq!(fits, json!({"action": "accept", "content": {"age": 7}}));
    let unfit = asked(r#"{"elicitation": {"action": "accept", "content": {"age": "seven"}}}"#);
    let message = unfit["message"].as_str().unwrap_or_default();
    assert!(unfit["reason"] == "InvalidAnswer" && message.contains("content/age"), "{unfit}");
}
