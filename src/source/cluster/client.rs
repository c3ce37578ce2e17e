//! The Kubernetes client, with deadlines and keepalive.

use std::error::Error;
use std::time::Duration;

use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::config::InferConfigError;
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use super::deadline::Deadline;
use crate::domain::causes::causes;

/// How long making a connection can take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept open.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// TCP keepalive: the idle time before the first probe, the time between probes, and how many unanswered probes close
/// the connection.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Neither a kubeconfig nor a pod's service account can be read.
    #[error("there is no way to the API server: {0}. Set KUBECONFIG, or run it in a pod with a service account")]
    Config(String),
    /// The configuration was read, but the address or the credentials in it cannot be used.
    #[error("the API server's address or credentials cannot be used: {0}")]
    Client(String),
}

/// Returns the configuration from the kubeconfig or, if that is not possible, from the service account of the pod in
/// which this process runs. The API server is reached directly.
///
/// # Errors
/// See [`ConnectError`].
pub async fn infer() -> Result<Config, ConnectError> {
    // The error itself usually says only that this is not a pod, which is expected. Its cause describes what is wrong
    // with the kubeconfig.
    let why = |error: InferConfigError| error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let mut config = Config::infer().await.map_err(|error| ConnectError::Config(why(error)))?;
    // The proxies of the environment are for other hosts than the API server.
    let of_environment = ["HTTPS_PROXY", "https_proxy"].into_iter().filter_map(|name| std::env::var(name).ok());
    if of_environment.filter_map(|proxy| proxy.parse().ok()).any(|proxy| config.proxy_url.as_ref() == Some(&proxy)) {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Creates a client for the cluster that [`infer`] finds. Nothing is sent yet.
///
/// # Errors
/// See [`ConnectError`].
pub async fn connect() -> Result<Client, ConnectError> {
    client(infer().await?)
}

/// Creates a client with a deadline for each request (see [`Deadline`]) and TCP keepalive. Nothing is sent yet.
///
/// # Errors
/// [`ConnectError::Client`].
pub fn client(config: Config) -> Result<Client, ConnectError> {
    let unusable = |why: String| ConnectError::Client(why);
    if config.proxy_url.is_some() {
        return Err(unusable("proxy-url is not supported; take it out of the kubeconfig".to_owned()));
    }
    let why = |error: kube::Error| unusable(causes(&error));
    let tls = config.rustls_https_connector_with_connector(tcp()).map_err(why)?;
    let pool: Pool<_, Body> =
        Pool::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIME).build(tls);
    let service = ServiceBuilder::new()
        .layer_fn(Deadline::new)
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .option_layer(config.auth_layer().map_err(why)?)
        .layer(config.extra_headers_layer().map_err(why)?)
        .map_err(BoxError::from)
        .service(pool);
    Ok(Client::new(service, config.default_namespace))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    tcp
}
