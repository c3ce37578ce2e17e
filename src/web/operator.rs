//! The HTTP endpoints of an operator: liveness, readiness and metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::telemetry::catalog::Catalog;

#[derive(Clone)]
struct OperatorState {
    catalog: Arc<Catalog>,
    ready: Arc<AtomicBool>,
    alive: CheckAlive,
}

/// Checks whether the process works. The error says why the process should be restarted.
pub type CheckAlive = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Returns the router of an operator: `/healthz`, which reports the result of `alive`; `/readyz`, which reports
/// `ready`; and `/metrics`. The operator sets `ready` once it has listed every kind.
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
