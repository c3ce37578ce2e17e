//! Calls that wait for the gateway leave their places in their worker to other calls.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hawsepipe::domain::plan::Runtime;
use hawsepipe::domain::plugin::{Failure, Input, PluginKind, TypedCall};
use hawsepipe::domain::ports::{Host, LinkedPlugin, RunPlugin};
use hawsepipe::domain::reason::Reason;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::seats::Gate;
use super::{Alone, Code, Rig, input, module, runtime};

/// Waits for the gateway if its state says so, and tells in which process, and how many computed at the same time.
const WAITS: &str = "
import { setTimeout as sleep } from 'node:timers/promises';
let here = 0;
export const execute = async ({ order }, ctx) => {
  if (order === 'ask') await ctx.callTool('hold', {});
  here += 1;
  const most = here;
  if (order === 'compute') await sleep(20);
  here -= 1;
  return { most, pid: process.pid };
};";

fn phase() -> Code {
    Code { kind: PluginKind::Phase, ..module(WAITS) }
}

async fn execute(rig: &Rig, plugin: &Arc<LinkedPlugin>, order: &str, host: &dyn Host) -> Result<Value, Failure> {
    let budgets =
        json!({"toolCallsUsed": 0, "maxToolCalls": 9, "llmCallsUsed": 0, "maxLLMCalls": 0, "remainingTimeMs": 20_000});
    let context = to_raw_value(&json!({"budgets": budgets})).unwrap();
    let content = json!([{"order": order}]).to_string();
    let typed = Some(TypedCall { method: "execute", context: &context });
    let ran = rig.workers.run(plugin, &Input { typed, ..input(&content) }, Duration::from_secs(20), host).await;
    ran.output.map(|output| serde_json::from_str(&output.text).unwrap())
}

/// The same, as soon as there is room for its content.
async fn admitted(rig: &Rig, plugin: &Arc<LinkedPlugin>, order: &str, host: &dyn Host) -> Value {
    loop {
        match execute(rig, plugin, order, host).await {
            Err(failure) if failure.reason == Reason::PoolExhausted => tokio::task::yield_now().await,
            done => return done.unwrap(),
        }
    }
}

#[tokio::test]
async fn calls_that_wait_take_no_place_and_those_that_go_on_take_one() {
    let plugin = phase().link();
    let rig = Rig::new();
    // There is room for the content of two calls, and one place.
    rig.prepare(&[&plugin], &Runtime { max_bytes_in_flight: 45, ..runtime() }).await;
    let gate = Gate(Semaphore::new(0));
    let mut pids = Vec::new();
    for _ in 0..2 {
        let before = rig.asked();
        let waiting = join_all((0..20).map(|_| admitted(&rig, &plugin, "ask", &gate)));
        let (waited, other) = tokio::join!(waiting, async {
            rig.until("all wait", |rig| rig.asked() == before + 20).await;
            let other = admitted(&rig, &plugin, "go", &Alone).await;
            gate.0.add_permits(20);
            other
        });
        pids.extend(waited.into_iter().chain([other]).map(|done| done["pid"].clone()));
    }
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    for _ in 0..5 {
        let computed = join_all((0..2).map(|_| admitted(&rig, &plugin, "compute", &Alone))).await;
        let most: Vec<_> = computed.iter().map(|done| &done["most"]).collect();
        assert_eq!(most, [&json!(1), &json!(1)], "the worker has one place");
    }
    assert_eq!(rig.count("hawsepipe_worker_recycles_total", "") + rig.count("hawsepipe_worker_kills_total", ""), 0.0);
}

#[tokio::test]
async fn a_worker_that_is_replaced_stays_for_calls_that_wait_until_another_one_does() {
    let plugin = Code { max_executions: Some(1), ..phase() }.link();
    let rig = Rig::with(&[&plugin]).await;
    let gate = Gate(Semaphore::new(0));
    let (first, second, ()) = tokio::join!(
        execute(&rig, &plugin, "ask", &gate),
        async {
            rig.until("the first waits", |rig| rig.count("hawsepipe_worker_recycles_total", "executions") == 1.0).await;
            execute(&rig, &plugin, "ask", &gate).await
        },
        async {
            rig.until("both wait", |rig| rig.count("hawsepipe_worker_recycles_total", "executions") == 2.0).await;
            gate.0.add_permits(2);
        },
    );
    let ended = first.unwrap_err();
    assert_eq!(ended.reason, Reason::Crashed);
    assert_eq!(ended.message, "was ended with its worker, which was replaced while the call waited");
    assert!(second.unwrap()["pid"].is_u64());
    rig.until("they are gone", |rig| rig.workers.workers().len() <= 1).await;
}
