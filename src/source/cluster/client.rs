//! The client that everything here shares.

use std::error::Error;
use std::time::Duration;

use kube::config::InferConfigError;
use kube::{Client, Config};

use crate::domain::causes::causes;

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
    #[error("there is no way to the API server: {0}. Set KUBECONFIG, or run it in a pod with a service account")]
    Config(String),
    /// What they say cannot be used.
    #[error("the API server's address or credentials cannot be used: {0}")]
    Client(String),
}

/// Where the cluster is that `KUBECONFIG` names, else the one that this pod runs in.
///
/// # Errors
/// See [`ConnectError`].
pub async fn infer() -> Result<Config, ConnectError> {
    // Its cause is what is wrong with the kubeconfig; that this is no pod is no news.
    let why = |error: InferConfigError| error.source().map_or_else(|| error.to_string(), ToString::to_string);
    Config::infer().await.map_err(|error| ConnectError::Config(why(error)))
}

/// A client of that cluster. Nothing is sent yet.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect() -> Result<Client, ConnectError> {
    let mut config = infer().await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Client::try_from(config).map_err(|error| ConnectError::Client(causes(&error)))
}
