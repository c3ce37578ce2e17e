//! The HTTP endpoints of an operator: whether it is alive, whether it sees the cluster, its metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::telemetry::catalog::Catalog;

/// The state of the handlers.
#[derive(Clone)]
struct OperatorState {
    catalog: Arc<Catalog>,
    ready: Arc<AtomicBool>,
    alive: CheckAlive,
}

/// Says why a process should be started anew; nothing while it works.
pub type CheckAlive = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// `/healthz`, which says what `alive` does; `/readyz` and `/metrics` of an operator that sets `ready` once it sees the
/// cluster.
pub fn operator_router(catalog: Arc<Catalog>, ready: Arc<AtomicBool>, alive: CheckAlive) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(OperatorState { catalog, ready, alive })
}

async fn healthz(State(shown): State<OperatorState>) -> (StatusCode, String) {
    match (shown.alive)() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn readyz(State(shown): State<OperatorState>) -> (StatusCode, &'static str) {
    if shown.ready.load(Ordering::Acquire) {
        return (StatusCode::OK, "ready\n");
    }
    (StatusCode::SERVICE_UNAVAILABLE, "not ready: not every kind was listed yet; the log says which cannot be\n")
}

async fn metrics(State(shown): State<OperatorState>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], shown.catalog.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_that_is_stuck_is_not_healthy() {
        let asked = |alive: Result<(), String>| {
            let alive: CheckAlive = Arc::new(move || alive.clone());
            healthz(State(OperatorState { catalog: Arc::default(), ready: Arc::default(), alive }))
        };
        assert_eq!(asked(Ok(())).await, (StatusCode::OK, "ok\n".to_owned()));
        let stuck = asked(Err("the loop of plans is stuck".to_owned())).await;
        assert_eq!(stuck, (StatusCode::SERVICE_UNAVAILABLE, "the loop of plans is stuck\n".to_owned()));
    }
}
