//! The HTTP endpoints of an operator: liveness, readiness and metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::telemetry::catalog::Catalog;

#[derive(Clone)]
struct OperatorState {
    catalog: Arc<Catalog>,
    ready: Check,
    alive: Check,
}

/// Checks the process. The error says what is wrong.
pub type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Returns the router of an operator: `/healthz`, which reports the result of `alive`; `/readyz`, which reports that of
/// `ready`; and `/metrics`.
pub fn operator_router(catalog: Arc<Catalog>, ready: Check, alive: Check) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(OperatorState { catalog, ready, alive })
}

async fn healthz(State(shown): State<OperatorState>) -> (StatusCode, String) {
    answer((shown.alive)(), "ok\n")
}

async fn readyz(State(shown): State<OperatorState>) -> (StatusCode, String) {
    answer((shown.ready)(), "ready\n")
}

fn answer(checked: Result<(), String>, ok: &str) -> (StatusCode, String) {
    match checked {
        Ok(()) => (StatusCode::OK, ok.to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
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
            let alive: Check = Arc::new(move || alive.clone());
            healthz(State(OperatorState { catalog: Arc::default(), ready: Arc::clone(&alive), alive }))
        };
        assert_eq!(asked(Ok(())).await, (StatusCode::OK, "ok\n".to_owned()));
        let stuck = asked(Err("the loop of plans is stuck".to_owned())).await;
        assert_eq!(stuck, (StatusCode::SERVICE_UNAVAILABLE, "the loop of plans is stuck\n".to_owned()));
    }
}
