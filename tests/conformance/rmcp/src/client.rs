//! The client (next step).

/// Runs it.
pub async fn run(_url: &str) {}
