//! When this process is ready for calls.

use futures_util::future::BoxFuture;

use super::*;
use crate::config::compile::tests::gateway as gateway_of;
use crate::domain::audit::{AuditError, AuditMode, AuditRow, AuditTotals};
use crate::domain::ports::Audit;
use crate::engine::NotReady;

/// An engine with a plan whose plugin is being loaded.
async fn loading() -> (Inputs, Gateway) {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Observe, "put it")]);
    let engine = engine(Server::default());
    assert_eq!(engine.views.readiness(), Err(NotReady::NoPlan));
    engine.plugins.is("put it", Loading::Underway);
    apply(&engine, &inputs).await;
    assert_eq!(engine.views.readiness(), Err(NotReady::Loading));
    (inputs, engine)
}

#[tokio::test]
async fn the_first_readiness_waits_for_the_plugins_of_the_plan() {
    let (mut inputs, engine) = loading().await;
    engine.plugins.is("put it", Loading::Loaded);
    assert_eq!(engine.views.readiness(), Ok(()));
    engine.plugins.is("put more", Loading::Underway);
    scripts(&mut inputs, "d", Phase::Request, &[(Role::Guard, "put more")]);
    apply(&engine, &inputs).await;
    assert_eq!(engine.views.readiness(), Ok(()), "a later plan takes nothing back");
    engine.gate.drain();
    assert_eq!(engine.views.readiness(), Err(NotReady::Draining));
}

#[tokio::test]
async fn a_plugin_that_cannot_be_loaded_is_not_waited_for() {
    let (_, engine) = loading().await;
    engine.plugins.cannot_load("put it");
    tokio::time::timeout(Duration::from_secs(5), engine.loads.wait_for_loads()).await.unwrap();
    assert_eq!(engine.views.readiness(), Ok(()));
}

#[tokio::test]
async fn the_first_readiness_does_not_wait_for_ever() {
    let (_, engine) = loading().await;
    engine.clock.pass(Duration::from_secs(20));
    assert_eq!(engine.views.readiness(), Ok(()));
    assert_eq!(engine.loads.late_plugins(), [ObjectKey::new("default", "c0")]);
}

/// An engine that keeps an older form of a Guard, and inputs with an edited one.
async fn edited() -> (Inputs, Gateway) {
    let mut inputs = bare();
    scripts(&mut inputs, "c", Phase::Request, &[(Role::Guard, "put old")]);
    let before = start(&inputs).await;
    inputs.plugins.last_mut().unwrap().source = SourceInput::Inline("put new".into());
    know(&mut inputs, "put new", "index.js", &["default"]);
    let engine = engine(Server::default());
    engine.applier.restore_forms(before.applier.kept_forms());
    (inputs, engine)
}

#[tokio::test]
async fn an_older_form_that_is_being_loaded_instead_is_waited_for() {
    let (inputs, engine) = edited().await;
    engine.plugins.cannot_load("put new");
    engine.plugins.is("put old", Loading::Underway);
    apply(&engine, &inputs).await;
    assert_eq!(engine.views.readiness(), Err(NotReady::Loading));
    engine.plugins.is("put old", Loading::Loaded);
    assert_eq!(engine.views.readiness(), Ok(()));
}

#[tokio::test]
async fn a_new_form_is_not_waited_for_while_an_older_one_runs() {
    let (inputs, engine) = edited().await;
    engine.plugins.is("put new", Loading::Underway);
    apply(&engine, &inputs).await;
    assert_eq!(engine.views.readiness(), Ok(()));
    assert!(!engine.loads.late_plugins().is_empty(), "hawsepipe wait waits for it");
}

#[tokio::test]
async fn the_first_readiness_waits_for_the_store_of_a_required_audit_trail() {
    let audit = Arc::new(Unreached::default());
    let gateway = engine_with(Server::default(), Arc::default(), Some(Arc::clone(&audit) as _));
    let mut inputs = bare();
    gateway_of(&mut inputs).plan.audit = AuditMode::Required;
    apply(&gateway, &inputs).await;
    gateway.clock.pass(Duration::from_secs(60));
    assert_eq!(gateway.views.readiness(), Err(NotReady::Unaudited), "every call is refused");
    audit.0.store(true, Ordering::Relaxed);
    assert_eq!(gateway.views.readiness(), Ok(()));
    audit.0.store(false, Ordering::Relaxed);
    assert_eq!(gateway.views.readiness(), Ok(()), "all replicas would leave their Service at once");
}

/// An audit trail whose store is reached when this is set.
#[derive(Default)]
struct Unreached(AtomicBool);

impl Audit for Unreached {
    fn is_open(&self) -> bool {
        true
    }

    fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn record(&self, _: AuditRow) {}

    fn store(&self, _: AuditRow) -> BoxFuture<'static, Result<(), AuditError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn totals(&self) -> AuditTotals {
        AuditTotals::default()
    }
}
