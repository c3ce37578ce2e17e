//! What runs hold is bounded in bytes.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::super::harness::{Folder, Gateway, HEAVY};
use super::super::held::peak;
use super::super::outcomes::seen::metrics;
use super::super::parts::{object, until};
use super::models::{models, secret, stand_in};
use super::{call, tools};

const RUNS: usize = 100;
/// The size of the answers of the model, of which the endpoint's message holds 15 MiB.
const ANSWER: usize = 15 << 20;
/// The budget of all that a gateway holds, and a quarter more.
const MOST: u64 = (256 << 20) / 4 * 5;
/// An agent whose answer stays in the state of the run.
const PIPELINE: &str = "tool: {name: research, description: A test.}, declared: {agents: [
  {name: coordinator, type: coordinator, nextOnSuccess: synthesizer}, {name: synthesizer, type: synthesizer}]}";

async fn held(gateway: &Gateway) -> u64 {
    let metrics = metrics(gateway).await;
    let held = metrics.lines().find_map(|line| line.strip_prefix("hawsepipe_held_bytes{what=\"run\"} "));
    held.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make test-long"]
async fn runs_whose_models_answer_15_mib_stay_within_the_budget_or_end_with_no_room() {
    let _alone = HEAVY.lock().await;
    let folder = Folder::new();
    let answer = json!({"complexity": "simple", "followUpType": "new_topic", "isAmbiguous": false,
        "isSimpleQuery": false, "directResponse": "x".repeat(ANSWER)});
    let report = json!({"title": "T", "executive_summary": "s", "sections": [], "key_findings": []});
    let script = json!([
        {"agent": "coordinator", "json": answer, "repeat": true},
        {"agent": "synthesizer", "json": report, "repeat": true},
    ]);
    let (_model, url) = stand_in(&folder, &script);
    let models = models(&url, &["analytical", "complex"]).replace("timeoutMs: 3000", "timeoutMs: 120000");
    let pipeline = object("ToolPipeline", "research", &format!("{PIPELINE}, {models}"));
    folder.write("manifests.yaml", &(secret() + &pipeline));
    let gateway = Gateway::start(&folder);
    until("the tool is listed", async || tools(&gateway).await.contains(&"research".to_owned())).await;
    let before = peak(&gateway);
    let arguments = json!({"prompt": "why"});
    let mut runs = Box::pin(join_all((0..RUNS).map(|_| call(&gateway, "research", &arguments))));
    let mut most = 0;
    let ended = loop {
        tokio::select! {
            ended = &mut runs => break ended,
            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => most = most.max(held(&gateway).await),
        }
    };
    let peak = peak(&gateway);
    println!("{before} bytes before, at most {most} of runs, {peak} in all");
    let code = |result: &Value| result["_meta"]["hawsepipe.dev/run"]["error"]["code"].clone();
    let without_room = ended.iter().filter(|result| code(result) == "NoRoom").count();
    let completed = ended.iter().filter(|result| result["structuredContent"]["title"] == "T").count();
    assert!(completed > 0 && completed + without_room == RUNS, "{completed} completed, {without_room} without room");
    assert!(most > ANSWER as u64, "the metric shows {most} bytes");
    assert!(peak < MOST, "{peak} bytes");
    until("nothing is held any more", async || held(&gateway).await == 0).await;
}
