//! Runs that wait for their users keep no others from the pipeline.

use std::net::IpAddr;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway};
use super::super::http::{Http, Session};
use super::super::invocations::Admin;
use super::super::parts::{object, until};
use super::{alone, pipeline, tools};

/// Asks, unless it is told to be quick.
const ASKS: &str = "export async function execute({ query }, ctx) {
  const schema = { type: 'object', properties: { name: { type: 'string' } } };
  return { output: query === 'quick' ? {} : await ctx.ask({ message: 'Who?', schema }) };
}";

/// How many questions of one address have no answer.
const WAITING: usize = 100;

async fn until_waiting(gateway: &Gateway, count: usize) {
    let admin = Admin::of(gateway);
    until("all runs wait", async || {
        let runs = admin.get("runs?status=input_required&limit=1000").await;
        runs["items"].as_array().is_some_and(|runs| runs.len() == count)
    })
    .await;
}

async fn session(gateway: &Gateway) -> Session {
    Http::new().initialize_with(&gateway.url(), &json!({"elicitation": {}})).await
}

#[tokio::test]
async fn a_hundred_unanswered_questions_of_one_address_do_not_stop_a_pipeline_for_others() {
    let (_folder, gateway) = alone(ASKS, "").await;
    let waiting =
        join_all((0..WAITING).map(async |_| session(&gateway).await.call_raw(7, "alone", r#"{"prompt": "x"}"#).await));
    let other = async {
        until_waiting(&gateway, WAITING).await;
        let other = Http::at(IpAddr::from([127, 0, 0, 2]));
        for _ in 0..20 {
            let answer = other.call(&gateway.url(), "alone", &json!({"prompt": "quick"}), &json!({})).await;
            assert_eq!(answer["result"]["structuredContent"], json!({}), "{answer}");
        }
    };
    tokio::select! {
        answers = waiting => panic!("nobody has answered: {:?}", answers.first().map(|answer| &answer.body)),
        () = other => {}
    }
    let workers = Admin::of(&gateway).get("workers").await;
    let count = workers["items"].as_array().map(Vec::len);
    assert!(count.is_some_and(|count| count <= 5), "they take no more workers than the pool has: {workers}");
}

#[tokio::test]
async fn limits_concurrent_runs_bounds_the_runs_of_all_and_of_one_session() {
    let limits = "authentication: {anonymous: {}}, limits: {concurrentRuns: 5}";
    let folder = Folder::with(&(object("MCPGateway", "main", limits) + &pipeline("alone", ASKS, "")));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await == ["alone"]).await;
    let sessions = join_all((0..6).map(|_| session(&gateway))).await;
    let waits = async |index: usize| sessions[index].call_raw(7, "alone", r#"{"prompt": "x"}"#).await.body;
    let quick = async |index: usize| -> Value {
        let answer = sessions[index].call_raw(8, "alone", r#"{"prompt": "quick"}"#).await;
        serde_json::from_str(&answer.body).unwrap_or_else(|_| json!({"body": answer.body}))
    };
    let refused = |answer: Value, words: &str| {
        let data = json!({"reason": "ConcurrentRuns", "retryAfterMs": 1000});
        assert_eq!(answer["error"]["data"], data, "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.starts_with(words)), "{answer}");
    };
    let of_session = async {
        until_waiting(&gateway, 4).await;
        refused(quick(0).await, "1 runs of this session are in progress");
        let served = quick(4).await;
        assert_eq!(served["result"]["structuredContent"], json!({}), "{served}");
    };
    let of_all = async {
        until_waiting(&gateway, 5).await;
        refused(quick(5).await, "5 runs of pipelines are in progress");
    };
    let checks = async {
        of_session.await;
        tokio::select! { answer = waits(4) => panic!("nobody has answered: {answer}"), () = of_all => {} }
    };
    tokio::select! {
        answers = join_all((0..4).map(&waits)) => panic!("nobody has answered: {answers:?}"),
        () = checks => {}
    }
}
