//! The rows of calls in the audit trail: who, what and by which rule, and one end for each call.

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

use super::*;
use crate::domain::audit::{AuditError, AuditMode, AuditRow, AuditTotals};
use crate::domain::identity::IdentityMethod;
use crate::domain::plan::{AuthorizationPlan, Plan, RulePlan};
use crate::domain::ports::Audit;

/// A store that takes as many rows as it has permits for, and keeps the others waiting, or fails once it is closed.
pub(super) struct SlowTrail {
    queued: Mutex<Vec<Value>>,
    permits: Arc<Semaphore>,
}

impl SlowTrail {
    fn new(permits: usize) -> Arc<Self> {
        Arc::new(Self { queued: Mutex::default(), permits: Arc::new(Semaphore::new(permits)) })
    }

    fn rows(&self) -> Vec<Value> {
        self.queued.lock().unwrap().clone()
    }

    fn kinds(&self) -> Vec<String> {
        self.rows().iter().map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
    }
}

impl Audit for SlowTrail {
    fn is_open(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn record(&self, row: AuditRow) {
        self.queued.lock().unwrap().push(serde_json::to_value(row).unwrap());
    }

    fn store(&self, row: AuditRow) -> BoxFuture<'static, Result<(), AuditError>> {
        self.record(row);
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            permits.acquire().await.map_err(|_| AuditError::Store("closed".into()))?.forget();
            Ok(())
        })
    }

    fn totals(&self) -> AuditTotals {
        AuditTotals::default()
    }
}

/// A gateway with these rules, which requires rows.
async fn required(trail: &Arc<SlowTrail>, rules: &[(&str, bool, &str, &[&str])]) -> Gateway {
    let engine = engine_with(Server::default(), Arc::default(), Some(Arc::clone(trail) as _));
    let mut plan = compile(&bare(), None).0;
    plan.gateway.audit = AuditMode::Required;
    let rules = rules.iter().map(|(name, denies, when, scopes)| RulePlan {
        name: (*name).to_owned(),
        denies: *denies,
        when: (*when).to_owned(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        message: None,
    });
    plan.gateway.authorization = Some(AuthorizationPlan { allows_by_default: true, rules: rules.collect() });
    engine.applier.apply(plan, Vec::new(), &NoSecrets).await;
    let _ = engine.list(Endpoint::All, ItemKind::Tool, None, None).await;
    engine
}

fn ann() -> Caller {
    let identity = Identity::new(IdentityMethod::Jwt, "https://a.example", "ann".into()).unwrap();
    Caller { identity: Arc::new(identity), ..caller(Era::Legacy) }
}

#[tokio::test]
async fn an_end_without_a_begin_says_who_called_what_and_which_rule_denied_it() {
    let trail = SlowTrail::new(99);
    let rules = [("no-read", true, r#"tool.upstreamName == "read" && call.arguments.n == 1.0"#, &[][..])];
    let engine = required(&trail, &rules).await;
    for (name, input, upstream, tool, outcome, rule) in [
        ("up__read", r#"{"n":1}"#, "up", "read", "denied", json!("no-read")),
        ("up__gone", "{}", "up", "up__gone", "rpc_error", json!(null)),
        ("gone", "{}", "", "gone", "rpc_error", json!(null)),
    ] {
        let client = Client::new(&engine, ann());
        let input = raw(input);
        engine.calls.call(CallRequest { input: Some(&input), ..client.request(ItemKind::Tool, name) }).await;
        let end = trail.queued.lock().unwrap().pop().unwrap();
        assert_eq!((&end["kind"], &end["outcome"], &end["rule"]), (&json!("end"), &json!(outcome), &rule), "{end}");
        let named = ["principal", "method", "upstream", "tool"].map(|member| end[member].as_str().unwrap().to_owned());
        assert_eq!(named, ["ann", "tools/call", upstream, tool], "{end}");
        assert_eq!(end["user"], json!({"method": "jwt", "issuer": "https://a.example"}));
        assert!(trail.rows().is_empty(), "it was not sent");
        assert_eq!(json!(last_call(&engine).rule), rule);
    }
}

#[tokio::test]
async fn a_rule_whose_scopes_are_missing_is_named() {
    let trail = SlowTrail::new(99);
    let engine = required(&trail, &[("readers", false, "true", &["mcp.read"])]).await;
    let mut plan = Plan::clone(engine.in_force.snapshot().plan());
    plan.gateway.authorization.as_mut().unwrap().allows_by_default = false;
    engine.applier.apply(plan, Vec::new(), &NoSecrets).await;
    let client = Client::new(&engine, ann());
    engine.calls.call(client.request(ItemKind::Tool, "up__read")).await;
    assert_eq!((&trail.rows()[0]["rule"], &trail.rows()[0]["upstream"]), (&json!("readers"), &json!("up")));
}

/// A client that leaves while a row waits for a slow store: the row that is queued is not queued again.
#[tokio::test]
async fn a_call_that_is_dropped_while_a_row_waits_has_one_end() {
    for permits in [0, 1] {
        let trail = SlowTrail::new(permits);
        let engine = required(&trail, &[]).await;
        let client = Client::new(&engine, ann());
        let calling = engine.calls.call(client.request(ItemKind::Tool, "up__read"));
        assert!(tokio::time::timeout(Duration::from_millis(50), calling).await.is_err(), "a row waits");
        assert_eq!(trail.kinds(), ["begin", "end"], "{permits} rows were stored");
        let rows = trail.rows();
        assert_eq!(rows[0]["requestId"], rows[1]["requestId"]);
        let outcome = if permits == 0 { "cancelled" } else { "ok" };
        assert_eq!((&rows[1]["outcome"], &rows[1]["principal"]), (&json!(outcome), &json!("ann")));
    }
}

#[tokio::test]
async fn a_begin_that_may_be_stored_has_an_end_whatever_becomes_of_the_trail() {
    let failing = SlowTrail::new(0);
    failing.permits.close();
    let engine = required(&failing, &[]).await;
    let reply = call(&engine, "{}").await;
    assert!(reply.to_string().contains("AuditUnavailable") && sent(&engine).is_empty(), "{reply}");
    assert_eq!(failing.kinds(), ["begin", "end"]);
    // The mode changes while the call is at its server.
    let trail = SlowTrail::new(9);
    let engine = required(&trail, &[]).await;
    *engine.server.holds.lock().unwrap() = true;
    let running = engine.clone();
    let running = tokio::spawn(async move { call(&running, "{}").await });
    until(|| sent(&engine).len() == 1).await;
    let mut plan = Plan::clone(engine.in_force.snapshot().plan());
    plan.gateway.audit = AuditMode::Off;
    engine.applier.apply(plan, Vec::new(), &NoSecrets).await;
    engine.server.go.notify_one();
    assert!(running.await.unwrap()["result"].is_object());
    assert_eq!(trail.kinds(), ["begin", "end"]);
}

#[tokio::test]
async fn what_a_plan_stops_and_enables_is_a_row() {
    let trail = SlowTrail::new(99);
    let engine = required(&trail, &[]).await;
    let mut plan = Plan::clone(engine.in_force.snapshot().plan());
    for (stopped, enable) in [(true, None), (true, Some("one")), (false, Some("one"))] {
        (plan.gateway.stopped, plan.upstreams[0].enable) = (stopped, enable.map(str::to_owned));
        plan.revision = format!("{stopped}{enable:?}");
        engine.applier.apply(plan.clone(), Vec::new(), &NoSecrets).await;
    }
    let rows = trail.rows();
    let said = |row: &Value| ["action", "via", "target", "outcome"].map(|it| row[it].as_str().unwrap().to_owned());
    assert!(rows.iter().all(|row| row["kind"] == "admin" && row["method"] == "plan"), "{rows:?}");
    assert_eq!(
        rows.iter().map(said).collect::<Vec<_>>(),
        [
            ["stop", "spec.stopped", "gateway default/gw", "done"],
            ["enable", "hawsepipe.dev/enable", "upstream default/up", "done"],
            ["resume", "spec.stopped", "gateway default/gw", "done"],
        ]
    );
}
