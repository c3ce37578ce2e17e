//! What an operator serves of itself: whether it lives, whether it sees the cluster, its metrics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::telemetry::catalog::Catalog;

/// What is shown.
#[derive(Clone)]
struct Shown {
    catalog: Arc<Catalog>,
    ready: Arc<AtomicBool>,
}

/// `/healthz`, `/readyz` and `/metrics` of an operator that sets `ready` once it sees the cluster.
pub fn operator_router(catalog: Arc<Catalog>, ready: Arc<AtomicBool>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(Shown { catalog, ready })
}

async fn readyz(State(shown): State<Shown>) -> (StatusCode, &'static str) {
    if shown.ready.load(Ordering::Acquire) {
        return (StatusCode::OK, "ready\n");
    }
    (StatusCode::SERVICE_UNAVAILABLE, "not ready: not every kind was listed yet; the log says which cannot be\n")
}

async fn metrics(State(shown): State<Shown>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], shown.catalog.render())
}
