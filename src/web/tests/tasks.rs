//! Calls that go on as tasks.

use std::sync::Arc;

use serde_json::Value;

use super::gateway::Gateway;
use crate::domain::budget::ByteBudget;
use crate::domain::version::Era;
use crate::engine::Reply;
use crate::engine::in_flight::run_task::TaskTicket;
use crate::web::continued::run_or_park;
use crate::web::exchange::RunningMessage;
use crate::web::parking::Parking;
use crate::web::response::RpcResponse;

#[tokio::test]
async fn tasks_that_have_ended_leave_no_task_of_the_runtime() {
    let (gateway, budget) = (Gateway::start().await, Arc::new(ByteBudget::default()));
    let (gate, handle) = (&gateway.gate, tokio::runtime::Handle::current());
    let alive = || handle.metrics().num_alive_tasks();
    let before = alive();
    for number in 0..10_000 {
        let parking = Arc::new(Parking::new(&budget, &Arc::default()));
        let ticket = TaskTicket {
            request: "1".to_owned(),
            handle: number,
            id: number.to_string(),
            era: Era::Legacy,
            created_at: 0,
            lives_ms: 3_600_000,
        };
        let _ = parking.task.set(Arc::new(ticket));
        let call = RunningMessage::new(
            async {
                tokio::task::yield_now().await;
                let reply = Reply::Result(serde_json::value::RawValue::NULL.to_owned());
                RpcResponse::reply("1", &reply, Era::Legacy)
            },
            true,
        );
        let answer = run_or_park(Arc::clone(gate), call, parking).await.into_answer();
        let answer: Value = serde_json::from_str(&answer.message).unwrap();
        assert_eq!(answer["result"]["task"]["taskId"], number.to_string(), "{answer}");
        tokio::task::yield_now().await;
    }
    let kept = gate.engine.gate.in_flight.tasks.newest_first().len();
    assert!((1024..=1280).contains(&kept), "{kept} tasks are kept");
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let left = alive() - before;
    assert!(left <= 10, "{left} tasks of the runtime are left");
}
