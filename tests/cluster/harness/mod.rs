//! A Kubernetes control plane for the run, and what tests do with it.
//!
//! `Cluster::shared` is one for all tests; each works in a namespace of its own. It is a throw-away cluster that
//! `KUBECONFIG_TEST` names, or etcd, kube-apiserver and kube-controller-manager on loopback. A test that stops the
//! API server starts a `Cluster::own`, so that no other test feels it.

mod audit;
mod cluster;
mod control_plane;
mod etcd;
mod line;
mod process;
mod programs;
mod supervisor;

pub use audit::{Mark, Request, counts};
pub use cluster::Cluster;
use cluster::unique;
pub use control_plane::{API_SERVER, CONTROLLER_MANAGER};
pub use line::Line;
pub use process::Process;

use std::time::Duration;

/// How long something that has to happen may take on a busy machine: more than twice the longest pause of the operator.
pub const SOON: Duration = Duration::from_secs(150);

/// The checkout.
pub fn checkout() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The documents of a file, as `hawsepipe run` reads them.
pub fn documents(file: &std::path::Path) -> Vec<serde_json::Value> {
    documents_in(&std::fs::read_to_string(file).unwrap())
}

/// The same of a text.
pub fn documents_in(text: &str) -> Vec<serde_json::Value> {
    let documents = hawsepipe::source::yaml::read(text).unwrap_or_else(|_| panic!("this is not YAML:\n{text}"));
    documents.into_iter().map(|document| document.value).collect()
}

/// Asks until the answer is there.
///
/// # Panics
/// If there is none in time; the message holds `what`.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + SOON;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(tokio::time::Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
