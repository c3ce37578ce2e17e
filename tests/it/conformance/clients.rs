//! The suite's client scenarios: between the suite's servers and a client of the SDK for Rust stands a gateway, so that
//! the servers judge what the gateway sends them.

use std::path::Path;

use super::checks::Checks;
use super::{fixture_program, suite};
use crate::gateway::harness::HEAVY;

/// What the names of scenarios begin with that want a client to authorise itself with OAuth, which the gateway does not
/// do (`spec.external.oauth`).
const OF_OAUTH: &str = "auth/";

/// Runs the client scenarios that a revision requires, and fails if a check of them does.
async fn conforms(revision: &str) {
    let _alone = HEAVY.lock().await;
    let program = tokio::task::spawn_blocking(fixture_program).await.unwrap();
    let gateway = Path::new(env!("CARGO_BIN_EXE_hawsepipe"));
    let (not_run, scenarios): (Vec<_>, Vec<_>) =
        suite::of_clients(revision).into_iter().partition(|scenario| scenario.starts_with(OF_OAUTH));
    eprintln!("{revision}: these {} scenarios of clients are not run: {not_run:?}", not_run.len());
    assert!(scenarios.len() >= 4, "{scenarios:?}");
    for scenario in scenarios {
        let failing = Checks::of_client(revision, &scenario, &program, gateway).await;
        assert!(failing.is_empty(), "{revision}, {scenario}: {failing:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_client_s_requests_reach_servers_as_they_should() {
    conforms("2025-11-25").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_modern_client_s_requests_reach_servers_as_they_should() {
    conforms("2026-07-28").await;
}
