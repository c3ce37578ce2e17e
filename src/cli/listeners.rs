//! The MCP endpoints of a process, which are opened and closed as the plan requires.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address::MCP_PORT;
use super::wiring::instance;
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::engine::Engine;
use crate::transport::{ConnectionBounds, bind};
use crate::web;

/// The name of the listener for the address from the command line.
const COMMAND_LINE: &str = "command-line";
/// The pause before another attempt to bind an address.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The addresses that a process listens on.
#[derive(Clone, Copy, Debug)]
pub struct Bind {
    /// The address from the command line. If set, the ports of the plan's listeners are not used.
    pub listen: Option<SocketAddr>,
    /// The IP address for the ports of the plan's listeners.
    pub ip: IpAddr,
    /// The IP address at which other replicas reach this process. Default: the address that a listener is bound to.
    pub advertise: Option<IpAddr>,
}

impl Bind {
    /// Returns the address of the command line, or else the ports of the plan's listeners, or else port 8080. Listeners
    /// whose protection cannot be enforced (`refusing`) stay closed; so does the address of the command line if this
    /// applies to the plan's first listener.
    pub fn addresses(&self, gateway: &GatewayPlan) -> BTreeSet<SocketAddr> {
        let listeners = || gateway.listeners.iter().filter(|listener| listener.refusing.is_none());
        match self.listen {
            Some(_) if gateway.listeners.first().is_some_and(|listener| listener.refusing.is_some()) => BTreeSet::new(),
            Some(address) => [address].into(),
            None if gateway.listeners.is_empty() => [SocketAddr::new(self.ip, MCP_PORT)].into(),
            None => listeners().map(|listener| SocketAddr::new(self.ip, listener.port)).collect(),
        }
    }

    /// Returns the address at which other replicas reach a listener; `None` if it is not known.
    fn advertised(&self, bound: SocketAddr) -> Option<SocketAddr> {
        let ip = self.advertise.or(Some(bound.ip()).filter(|ip| !ip.is_unspecified()))?;
        Some(SocketAddr::new(ip, bound.port()))
    }

    /// Returns the settings for the router of a bound address.
    fn listener(&self, bound: SocketAddr) -> web::ServedListener {
        let default = ListenerPlan {
            name: COMMAND_LINE.into(),
            port: MCP_PORT,
            path: "/mcp".into(),
            legacy_sse: false,
            hosts: Vec::new(),
            default_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            refusing: None,
        };
        let port = self.listen.is_none().then(|| bound.port());
        web::ServedListener { port, default, bound, advertised: self.advertised(bound), instance: instance() }
    }
}

/// The bounds of the connections of an MCP endpoint, from the plan in force.
struct McpBounds(Arc<Engine>);

impl ConnectionBounds for McpBounds {
    fn most(&self) -> usize {
        usize::try_from(self.0.snapshot().plan().gateway.limits.max_connections).unwrap_or(usize::MAX)
    }

    fn is_full(&self) {
        self.0.metrics().connections_full();
    }
}

/// The open endpoints, and the addresses that could not be bound.
pub struct Listeners {
    engine: Arc<Engine>,
    bind: Bind,
    /// Cancelled to close all endpoints.
    stop: CancellationToken,
    open: BTreeMap<SocketAddr, CancellationToken>,
    /// Addresses that could not be bound.
    failed: BTreeSet<SocketAddr>,
    connections: JoinSet<()>,
    /// The URL of the endpoint that was opened first.
    url: Option<String>,
}

impl Listeners {
    /// Makes an instance without open endpoints. Cancelling `stop` closes all endpoints that are opened later.
    pub fn new(engine: &Arc<Engine>, bind: Bind, stop: CancellationToken) -> Self {
        let (open, failed, connections) = (BTreeMap::new(), BTreeSet::new(), JoinSet::new());
        Self { engine: Arc::clone(engine), bind, stop, open, failed, connections, url: None }
    }

    /// Returns the URL of the endpoint that was opened first.
    pub fn first_url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Opens the endpoints that `gateway` needs and closes those that it no longer needs. A closed endpoint accepts no
    /// new connections and ends its streams, but calls in flight are still answered.
    ///
    /// # Errors
    /// Returns the error for the first address that cannot be bound. The other addresses are opened nevertheless.
    pub async fn follow(&mut self, gateway: &GatewayPlan) -> anyhow::Result<()> {
        let wanted = self.bind.addresses(gateway);
        self.open.retain(|address, stop| {
            let stays = wanted.contains(address);
            if !stays {
                tracing::info!(%address, "MCP endpoint closed: the plan has no such listener any more");
                stop.cancel();
            }
            stays
        });
        let mut first_fault = Ok(());
        let failed_before = std::mem::take(&mut self.failed);
        for address in wanted {
            if self.open.contains_key(&address) {
                continue;
            }
            if let Err(error) = self.open(address, gateway).await {
                if !failed_before.contains(&address) {
                    tracing::error!("{error:#}; it is tried again until it can be had");
                }
                self.failed.insert(address);
                first_fault = first_fault.and(Err(error));
            }
        }
        first_fault
    }

    async fn open(&mut self, address: SocketAddr, gateway: &GatewayPlan) -> anyhow::Result<()> {
        let socket = bind(address, "--listen").await?;
        let (bound, stop) = (socket.local_addr()?, self.stop.child_token());
        let listener = self.bind.listener(bound);
        let path = listener.current(gateway).map(|plan| plan.path.clone());
        tracing::info!(address = %bound, path, "MCP endpoint");
        self.url.get_or_insert_with(|| format!("http://{bound}{}", path.unwrap_or_default()));
        let router = web::mcp_router(Arc::clone(&self.engine), listener, stop.clone());
        let bounds = McpBounds(Arc::clone(&self.engine));
        self.connections.spawn(crate::transport::serve(socket, router, bounds, stop.clone()));
        self.open.insert(address, stop);
        Ok(())
    }

    /// Opens and closes endpoints as the plans in force require, and retries addresses that could not be bound. Returns
    /// after `stop` is cancelled and the last connection has closed.
    pub async fn keep(mut self, mut plans: watch::Receiver<()>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                changed = plans.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(TRY_AGAIN), if !self.failed.is_empty() => {}
                Some(_) = self.connections.join_next() => continue,
            }
            let plan = Arc::clone(self.engine.snapshot().plan());
            // `follow` logs its errors, and this loop tries again.
            let _ = self.follow(&plan.gateway).await;
        }
        while self.connections.join_next().await.is_some() {}
    }
}
