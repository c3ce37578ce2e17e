//! What every gateway process has around its engine: listeners, and an orderly end.

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

/// How long calls in flight may go on after the first signal.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often idle sessions are looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// The engine of a process.
pub type Gateway = Arc<Engine>;

/// The open ports of a process.
pub struct HttpServers {
    engine: Gateway,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    url: Option<String>,
}

impl HttpServers {
    /// None is open yet.
    pub fn new(engine: &Gateway) -> Self {
        tokio::spawn(sweep(Arc::clone(engine)));
        Self { engine: Arc::clone(engine), stop: CancellationToken::new(), tasks: JoinSet::new(), url: None }
    }

    /// Where MCP is spoken: the first endpoint that was opened.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Opens the MCP endpoints of the plan that is in force, or `gateway` before there is one, and follows later plans.
    ///
    /// # Errors
    /// If a port is taken.
    pub async fn open(&mut self, bind: Bind, gateway: &GatewayPlan) -> anyhow::Result<()> {
        let plans = self.engine.plans();
        let mut listeners = Listeners::new(&self.engine, bind, self.stop.clone());
        listeners.follow(gateway).await?;
        self.url = listeners.first_url().map(str::to_owned);
        self.tasks.spawn(listeners.keep(plans));
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

async fn sweep(engine: Gateway) {
    let mut ticks = tokio::time::interval(SWEEP);
    loop {
        ticks.tick().await;
        engine.expire_sessions();
    }
}
