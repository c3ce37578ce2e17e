//! The servers of a gateway process, and its graceful shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::listeners::{Bind, Listeners, bind};
use super::signals::EndSignals;
use crate::domain::plan::GatewayPlan;
use crate::engine::Engine;
use crate::web::{self, CheckToken};

/// How long running calls can continue after the first signal.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often expired sessions are removed.
const SWEEP: Duration = Duration::from_secs(10);
/// The shared engine of a process.
pub type Gateway = Arc<Engine>;

/// The open HTTP ports of a process.
pub struct HttpServers {
    engine: Gateway,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    url: Option<String>,
}

impl HttpServers {
    /// Makes an instance without open ports.
    pub fn new(engine: &Gateway) -> Self {
        tokio::spawn(sweep(Arc::clone(engine)));
        Self { engine: Arc::clone(engine), stop: CancellationToken::new(), tasks: JoinSet::new(), url: None }
    }

    /// The URL of the MCP endpoint that was opened first.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Opens the MCP endpoints of `gateway`, and then follows the plans that come into force.
    ///
    /// # Errors
    /// If a port is in use.
    pub async fn open(&mut self, bind: Bind, gateway: &GatewayPlan) -> anyhow::Result<()> {
        let plans = self.engine.plans();
        let mut listeners = Listeners::new(&self.engine, bind, self.stop.clone());
        listeners.follow(gateway).await?;
        self.url = listeners.first_url().map(str::to_owned);
        self.tasks.spawn(listeners.keep(plans));
        Ok(())
    }

    /// Opens the admin port. `check` decides which requests from other machines are allowed.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn open_admin(&mut self, address: SocketAddr, check: Option<CheckToken>) -> anyhow::Result<()> {
        let socket = bind(address, "--admin").await?;
        tracing::info!(address = %socket.local_addr()?, "admin API and metrics");
        let router = web::admin_router(Arc::clone(&self.engine), check);
        self.tasks.spawn(web::serve(socket, router, self.stop.clone()));
        Ok(())
    }

    /// Shuts down: refuses new calls and lets running ones finish. A second signal ends them immediately.
    pub async fn end(mut self, signals: &mut EndSignals) {
        tracing::info!("ending: calls in flight have {PATIENCE:?}; a second signal ends at once");
        self.stop.cancel();
        tokio::select! {
            () = self.engine.shutdown(PATIENCE) => {}
            () = signals.next() => return self.engine.abort().await,
        }
        // Answers that are being written get a second to be sent.
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), closed).await;
    }
}

async fn sweep(engine: Gateway) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        engine.expire_sessions();
    }
}
