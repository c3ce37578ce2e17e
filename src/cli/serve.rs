//! What every gateway process has around its engine: listeners, and an orderly end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::signals::EndSignals;
use super::wiring::Adapters;
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::engine::Engine;
use crate::web::{self, CheckToken};

/// How long calls in flight may go on after the first signal.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// The port of MCP clients where no manifest names one.
const DEFAULT_PORT: u16 = 8080;
/// The name of the listener that the command line makes.
const COMMAND_LINE: &str = "command-line";

/// The engine of a process.
pub type Gateway = Arc<Engine<Adapters>>;

/// An address, and the listener of the plan that it serves.
pub struct Opened {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it serves.
    pub plan: ListenerPlan,
}

/// The command line's address wins; else the plan's ports on `ip`; else port 8080 on it.
pub fn listeners(gateway: &GatewayPlan, listen: Option<SocketAddr>, ip: IpAddr) -> Vec<Opened> {
    let default = || ListenerPlan {
        name: COMMAND_LINE.into(),
        port: DEFAULT_PORT,
        path: "/mcp".into(),
        hosts: Vec::new(),
        allowed_origins: Vec::new(),
        refusing: None,
    };
    match (listen, gateway.listeners.first()) {
        (Some(address), first) => vec![Opened { address, plan: first.cloned().unwrap_or_else(default) }],
        (None, None) => vec![Opened { address: SocketAddr::new(ip, DEFAULT_PORT), plan: default() }],
        (None, Some(_)) => {
            let opened = |plan: &ListenerPlan| Opened { address: SocketAddr::new(ip, plan.port), plan: plan.clone() };
            gateway.listeners.iter().map(opened).collect()
        }
    }
}

/// The open ports of a process.
pub struct Servers {
    engine: Gateway,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Servers {
    /// None is open yet.
    pub fn new(engine: &Gateway) -> Self {
        tokio::spawn(sweep(Arc::clone(engine)));
        Self { engine: Arc::clone(engine), stop: CancellationToken::new(), tasks: JoinSet::new() }
    }

    /// Opens MCP endpoints.
    ///
    /// # Errors
    /// If a port is taken.
    pub async fn open(&mut self, listeners: Vec<Opened>) -> anyhow::Result<()> {
        for Opened { address, plan } in listeners {
            if let Some(refusal) = &plan.refusing {
                tracing::error!(listener = plan.name, "not opened: {}", refusal.message);
                continue;
            }
            let socket = bind(address, "--listen").await?;
            tracing::info!(address = %socket.local_addr()?, path = plan.path, "MCP endpoint");
            let listener = web::Listener { settings: plan, bound: socket.local_addr()? };
            let router = web::mcp_router(Arc::clone(&self.engine), listener, self.stop.clone());
            self.tasks.spawn(web::serve(socket, router, self.stop.clone()));
        }
        Ok(())
    }

    /// Opens the admin port. `check` lets those in who come from other machines.
    ///
    /// # Errors
    /// If the port is taken.
    pub async fn open_admin(&mut self, address: SocketAddr, check: Option<CheckToken>) -> anyhow::Result<()> {
        let socket = bind(address, "--admin").await?;
        tracing::info!(address = %socket.local_addr()?, "admin API and metrics");
        let router = web::admin_router(Arc::clone(&self.engine), check);
        self.tasks.spawn(web::serve(socket, router, self.stop.clone()));
        Ok(())
    }

    /// Ends after a signal: no new calls, those in flight may end; a second signal ends at once.
    pub async fn end(mut self, signals: &mut EndSignals) {
        tracing::info!("ending: calls in flight have {PATIENCE:?}; a second signal ends at once");
        self.stop.cancel();
        tokio::select! {
            () = self.engine.shutdown(PATIENCE) => {}
            () = signals.next() => return self.engine.abort().await,
        }
        // Answers that are on their way get a moment to get out.
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), closed).await;
    }
}

async fn bind(address: SocketAddr, flag: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}. Another program may use the port: give another with {flag} ADDR")
    })
}

async fn sweep(engine: Gateway) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        engine.expire_sessions();
    }
}
