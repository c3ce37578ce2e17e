//! The MCP endpoints of a process: which addresses they have, and that they are open while the plan wants them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address::MCP_PORT;
use super::wiring::instance;
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::engine::Engine;
use crate::web;

/// The name of the listener that the command line makes.
const COMMAND_LINE: &str = "command-line";
/// When an address that could not be had is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Where a process listens.
#[derive(Clone, Copy, Debug)]
pub struct Bind {
    /// The one address that the command line names, whatever the plan's listeners are.
    pub listen: Option<SocketAddr>,
    /// Where the ports of the plan's listeners are.
    pub ip: IpAddr,
}

impl Bind {
    /// The command line's address wins; else the plan's ports; else port 8080. Listeners that refuse stay closed.
    pub fn addresses(&self, gateway: &GatewayPlan) -> BTreeSet<SocketAddr> {
        let listeners = || gateway.listeners.iter().filter(|listener| listener.refusing.is_none());
        match self.listen {
            Some(_) if gateway.listeners.first().is_some_and(|listener| listener.refusing.is_some()) => BTreeSet::new(),
            Some(address) => [address].into(),
            None if gateway.listeners.is_empty() => [SocketAddr::new(self.ip, MCP_PORT)].into(),
            None => listeners().map(|listener| SocketAddr::new(self.ip, listener.port)).collect(),
        }
    }

    /// What the router at an address goes by.
    fn listener(&self, bound: SocketAddr) -> web::ServedListener {
        let default = ListenerPlan {
            name: COMMAND_LINE.into(),
            port: MCP_PORT,
            path: "/mcp".into(),
            hosts: Vec::new(),
            allowed_origins: Vec::new(),
            refusing: None,
        };
        web::ServedListener { port: self.listen.is_none().then(|| bound.port()), default, bound, instance: instance() }
    }
}

/// The endpoints that are open.
pub struct Listeners {
    engine: Arc<Engine>,
    bind: Bind,
    /// Ends all of them.
    stop: CancellationToken,
    open: BTreeMap<SocketAddr, CancellationToken>,
    /// Addresses that could not be had.
    failed: BTreeSet<SocketAddr>,
    connections: JoinSet<()>,
    /// The first that was opened.
    url: Option<String>,
}

impl Listeners {
    /// None is open yet. `stop` closes those that will be.
    pub fn new(engine: &Arc<Engine>, bind: Bind, stop: CancellationToken) -> Self {
        let (open, failed, connections) = (BTreeMap::new(), BTreeSet::new(), JoinSet::new());
        Self { engine: Arc::clone(engine), bind, stop, open, failed, connections, url: None }
    }

    /// The first endpoint that was opened.
    pub fn first_url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Opens what `gateway` wants and is not open, and closes what it no longer wants: nothing more is accepted there,
    /// streams end, calls in flight are answered.
    ///
    /// # Errors
    /// The first address that cannot be had; the others are opened all the same.
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
        self.connections.spawn(web::serve(socket, router, stop.clone()));
        self.open.insert(address, stop);
        Ok(())
    }

    /// Follows the plans that are put in force, until all of it is stopped and the last connection closed.
    pub async fn keep(mut self, mut plans: watch::Receiver<()>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                changed = plans.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(TRY_AGAIN), if !self.failed.is_empty() => {}
                Some(_) = self.connections.join_next() => continue,
            }
            let plan = Arc::clone(self.engine.snapshot().plan());
            // What could not be opened was logged, and is tried again.
            let _ = self.follow(&plan.gateway).await;
        }
        while self.connections.join_next().await.is_some() {}
    }
}

/// Binds an address that this flag sets.
///
/// # Errors
/// Where it is taken, or not of this machine.
pub async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}. Another program may use the port: give another with {flag} ADDR")
    })
}
