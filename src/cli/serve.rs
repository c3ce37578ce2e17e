//! The servers of a gateway process, and its graceful shutdown.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::listeners::{Bind, Listeners};
use super::signals::{EndSignal, EndSignals};
use crate::domain::plan::GatewayPlan;
use crate::domain::ports::Secrets;
use crate::engine::Engine;
use crate::engine::plan::listener_certificates::listener_certificates;
use crate::transport::{MAX_CONNECTIONS, bind};
use crate::web::{self, CheckToken};

/// How long new connections are accepted after SIGTERM, because a load balancer does not notice immediately that the
/// process is no longer ready.
const STILL_OPEN: Duration = Duration::from_secs(5);
/// The time limit for sending the answers to calls that were ended at the deadline.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How often expired sessions are removed.
const SWEEP: Duration = Duration::from_secs(10);
/// The engine of a gateway process, which its servers and tasks share.
pub type Gateway = Arc<Engine>;

/// The open HTTP ports of a process.
pub struct HttpServers {
    engine: Gateway,
    /// Cancelled to close the MCP endpoints.
    stop: CancellationToken,
    mcp: JoinSet<()>,
    /// Cancelled to close the admin port and the one of the metrics, after everything else has ended.
    stop_admin: CancellationToken,
    admin: JoinSet<()>,
    url: Option<String>,
}

impl HttpServers {
    /// Makes an instance without open ports, and starts the removal of what expires.
    pub fn new(engine: &Gateway) -> Self {
        tokio::spawn(sweep(Arc::clone(engine)));
        Self {
            engine: Arc::clone(engine),
            stop: CancellationToken::new(),
            mcp: JoinSet::new(),
            stop_admin: CancellationToken::new(),
            admin: JoinSet::new(),
            url: None,
        }
    }

    /// Returns the URL of the MCP endpoint that was opened first.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Opens the MCP endpoints of `gateway`, and then follows the plans that come into force. `secrets` has the certificates
    /// of listeners.
    ///
    /// # Errors
    /// If a port is in use, or a certificate cannot be used.
    pub async fn open(&mut self, bind: Bind, gateway: &GatewayPlan, secrets: &impl Secrets) -> anyhow::Result<()> {
        let plans = self.engine.in_force.plans();
        let mut listeners = Listeners::new(&self.engine, bind, self.stop.clone());
        listeners.begin(gateway, &listener_certificates(gateway, secrets)).await?;
        self.url = listeners.first_url().map(str::to_owned);
        self.mcp.spawn(listeners.keep(plans));
        Ok(())
    }

    /// Opens the admin port. `check` decides which requests from other machines are allowed.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn open_admin(&mut self, address: SocketAddr, check: Option<CheckToken>) -> anyhow::Result<()> {
        let router = web::admin_router(Arc::clone(&self.engine), check);
        self.serve_beside(address, "--admin ADDR", "admin API and metrics", router).await
    }

    /// Opens a port that serves the metrics alone.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn open_metrics(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let router = web::metrics_router(Arc::clone(&self.engine));
        self.serve_beside(address, "--metrics ADDR", "metrics", router).await
    }

    /// Serves `router` until the process ends. `flag` sets the address, and `name` is the message in the log.
    async fn serve_beside(
        &mut self,
        address: SocketAddr,
        flag: &str,
        name: &str,
        router: Router,
    ) -> anyhow::Result<()> {
        let socket = bind(address, flag).await?;
        tracing::info!(address = %socket.local_addr()?, "{name}");
        let service = TowerToHyperService::new(router);
        self.admin.spawn(crate::transport::serve(socket, service, || MAX_CONNECTIONS, self.stop_admin.clone()));
        Ok(())
    }

    /// Shuts down: closes the MCP endpoints, waits for running calls until `deadline`, then ends workers and upstreams.
    /// Without a deadline, or after another signal, ends workers and upstreams immediately.
    pub async fn end(mut self, deadline: Option<Instant>, signals: &mut EndSignals) {
        let engine = Arc::clone(&self.engine);
        let Some(deadline) = deadline else { return engine.abort().await };
        tokio::select! {
            () = self.end_in_order(deadline) => {}
            _ = signals.next() => engine.abort().await,
        }
    }

    async fn end_in_order(&mut self, deadline: Instant) {
        self.stop.cancel();
        self.engine.gate.in_flight.close();
        {
            let Self { engine, mcp, .. } = self;
            // The connections are awaited first, because another call can arrive over an open connection.
            let mut ended = pin!(async {
                closed(mcp).await;
                engine.gate.calls_ended().await;
            });
            if tokio::time::timeout_at(deadline, &mut ended).await.is_err() {
                tracing::warn!("the calls that are still in flight are ended: see --drain-seconds");
                engine.gate.end_calls();
                let _ = tokio::time::timeout(LAST_ANSWERS, ended).await;
            }
        }
        self.engine.shutdown().await;
        self.stop_admin.cancel();
        let _ = tokio::time::timeout(LAST_ANSWERS, closed(&mut self.admin)).await;
    }
}

async fn closed(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// Begins the shutdown after a signal, and returns the deadline for calls in flight. After SIGTERM of a gateway that is behind
/// a load balancer, first waits while new connections are still accepted, unless no plan was in force yet. One that reads its
/// plan from files counts as such while it has calls or sessions. Returns `None` if another signal arrives during this wait.
pub async fn drain(
    engine: &Gateway,
    signal: EndSignal,
    signals: &mut EndSignals,
    grace: Duration,
    is_balanced: bool,
) -> Option<Instant> {
    let deadline = Instant::now() + grace;
    engine.gate.drain();
    tracing::info!("ending: calls in flight have {grace:?}; a second signal ends at once");
    let is_idle = !is_balanced && !engine.gate.may_have_clients();
    if signal == EndSignal::Interrupt || is_idle || engine.in_force.snapshot().plan().revision.is_empty() {
        return Some(deadline);
    }
    tokio::select! {
        () = tokio::time::sleep(STILL_OPEN.min(grace)) => Some(deadline),
        _ = signals.next() => None,
    }
}

async fn sweep(engine: Gateway) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        engine.expire();
    }
}
