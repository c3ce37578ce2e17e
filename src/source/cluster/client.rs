//! The client that everything here shares.

use std::time::Duration;

use kube::config::InferConfigError;
use kube::{Client, Config};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may be silent. Watches end before that, so a connection that is dead is noticed by then.
const SILENCE: Duration = Duration::from_secs(45);
/// How many seconds a watch lasts before it is begun anew.
pub(super) const WATCH_SECONDS: u32 = 30;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a service account can be read.
    #[error("there is no way to the API server: set KUBECONFIG, or run in a pod with a service account: {0}")]
    Config(#[from] InferConfigError),
    /// What they say cannot be used.
    #[error("the API server's address or credentials cannot be used: {0}")]
    Client(#[from] kube::Error),
}

/// A client of the cluster that `KUBECONFIG` names, else of the one that this pod runs in. Nothing is sent yet.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect() -> Result<Client, ConnectError> {
    let mut config = Config::infer().await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Ok(Client::try_from(config)?)
}
