//! The MCP endpoints of a process, which are opened and closed as the plan requires.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::bail;
use arc_swap::ArcSwapOption;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::address::MCP_PORT;
use super::certificates::Certificates;
use super::wiring::instance;
use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::engine::Engine;
use crate::engine::plan::listener_certificates::ListenerCertificates;
use crate::transport::{ConnectionBounds, ListenerTls, Plain, bind, serve_over};
use crate::web;

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
    /// Returns the address of the command line, or else the ports of the plan's listeners, or else port 8080, each with
    /// the name of its listener, if it is one of the plan. Listeners whose protection cannot be enforced (`refusing`) stay closed; so does the
    /// address of the command line if this applies to the plan's first listener.
    pub fn addresses(&self, gateway: &GatewayPlan) -> BTreeMap<SocketAddr, Option<String>> {
        let listeners = || gateway.listeners.iter().filter(|listener| listener.refusing.is_none());
        let unnamed = |address| [(address, None)].into();
        match self.listen {
            Some(_) if gateway.listeners.first().is_some_and(|listener| listener.refusing.is_some()) => BTreeMap::new(),
            Some(address) => unnamed(address),
            None if gateway.listeners.is_empty() => unnamed(SocketAddr::new(self.ip, MCP_PORT)),
            None => listeners().map(|l| (SocketAddr::new(self.ip, l.port), Some(l.name.clone()))).collect(),
        }
    }

    /// Returns the address at which other replicas reach a listener; `None` if it is not known.
    fn advertised(&self, bound: SocketAddr) -> Option<SocketAddr> {
        let ip = self.advertise.or(Some(bound.ip()).filter(|ip| !ip.is_unspecified()))?;
        Some(SocketAddr::new(ip, bound.port()))
    }

    /// Returns the settings for the router of a bound address.
    fn listener(&self, bound: SocketAddr, name: Arc<ArcSwapOption<String>>) -> web::ServedListener {
        let default = ListenerPlan {
            name: "command-line".into(),
            port: MCP_PORT,
            path: "/mcp".into(),
            hosts: Vec::new(),
            default_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            tls: None,
            refusing: None,
        };
        let port = self.listen.is_none().then(|| bound.port());
        web::ServedListener { port, name, default, bound, advertised: self.advertised(bound), instance: instance() }
    }
}

/// The bounds of the connections of an MCP endpoint, from the plan in force.
struct McpBounds(Arc<Engine>);

impl ConnectionBounds for McpBounds {
    fn most(&self) -> usize {
        usize::try_from(self.0.in_force.snapshot().plan().gateway.limits.max_connections).unwrap_or(usize::MAX)
    }

    fn is_full(&self) {
        self.0.metrics().connections_full();
    }
}

/// An endpoint that is open.
struct Open {
    /// Its socket, which stays if the endpoint begins or ends to serve HTTPS, and is closed as soon as nothing accepts on it.
    socket: Weak<TcpListener>,
    /// Its certificate; `None` means plain HTTP.
    tls: Option<ListenerTls>,
    /// The name that its listener has in the plan, or had before the listener moved; `None` if it is no listener of a plan.
    name: Arc<ArcSwapOption<String>>,
    /// Cancelled to close the endpoint.
    stop: CancellationToken,
}

/// An address of a listener that cannot be bound.
struct Unbound {
    /// The name of the listener; `None` if it is no listener of the plan.
    name: Option<String>,
    /// Where the listener stays until then.
    kept: Option<SocketAddr>,
    error: anyhow::Error,
}

impl Unbound {
    /// Describes it as a Problem of the gateway.
    fn problem(&self, gateway: &GatewayPlan) -> Problem {
        let index = gateway.listeners.iter().position(|listener| Some(&listener.name) == self.name.as_ref());
        let field = index.map(|index| format!("spec.listeners[{index}].port")).unwrap_or_default();
        let kept = self.kept.map(|address| format!("the listener stays at {address}, and ")).unwrap_or_default();
        let message = format!("{:#}; {kept}this is tried again every second", self.error);
        Problem::error(Reason::AddressUnavailable, ObjectId::new(Kind::MCPGateway, gateway.key.clone()), field, message)
    }

    /// Whether an endpoint with this name stays open until the address is bound. An endpoint of a plan without listeners becomes
    /// the one of any listener, and the other way round.
    fn keeps(&self, name: Option<&str>) -> bool {
        self.name.as_deref().zip(name).is_none_or(|(own, name)| own == name)
    }
}

/// The open endpoints, and the addresses that could not be bound.
pub struct Listeners {
    engine: Arc<Engine>,
    bind: Bind,
    /// Cancelled to close all endpoints.
    stop: CancellationToken,
    open: BTreeMap<SocketAddr, Open>,
    certificates: Certificates,
    /// Whether an address could not be bound.
    has_failed: bool,
    /// What was wrong with the listeners of the last plan.
    problems: Vec<Problem>,
    connections: JoinSet<()>,
    /// The URL of the endpoint that was opened first.
    url: Option<String>,
}

impl Listeners {
    /// Makes an instance without open endpoints. Cancelling `stop` closes all endpoints that are opened later.
    pub fn new(engine: &Arc<Engine>, bind: Bind, stop: CancellationToken) -> Self {
        Self {
            engine: Arc::clone(engine),
            bind,
            stop,
            open: BTreeMap::new(),
            certificates: Certificates::default(),
            has_failed: false,
            problems: Vec::new(),
            connections: JoinSet::new(),
            url: None,
        }
    }

    /// Returns the URL of the endpoint that was opened first.
    pub fn first_url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// Opens the first endpoints of a process.
    ///
    /// # Errors
    /// Returns the error for the first certificate that cannot be used, or the first address that cannot be bound. The
    /// other addresses are opened nevertheless.
    pub async fn begin(&mut self, gateway: &GatewayPlan, certificates: &ListenerCertificates) -> anyhow::Result<()> {
        let unusable = self.certificates.follow(gateway, certificates);
        let unbound = self.follow(gateway).await;
        if let Some(problem) = unusable.first() {
            bail!("{problem}");
        }
        unbound.into_iter().next().map_or(Ok(()), |unbound| Err(unbound.error))
    }

    /// Opens the endpoints that `gateway` needs, and then closes those that it no longer needs. One stays open whose
    /// listener moved to an address that cannot be bound. A closed endpoint accepts no new connections and ends its streams,
    /// but calls in flight are still answered. Returns the addresses that could not be bound.
    async fn follow(&mut self, gateway: &GatewayPlan) -> Vec<Unbound> {
        let wanted = self.bind.addresses(gateway);
        let mut unbound = Vec::new();
        for (&address, name) in &wanted {
            let Some(tls) = self.tls(gateway, name.as_ref()) else {
                // Nothing is served without the certificate.
                self.open.remove(&address).iter().for_each(|open| open.stop.cancel());
                continue;
            };
            if let Some(open) = self.open.get(&address).filter(|open| open.tls == tls) {
                open.name.store(name.clone().map(Arc::new));
            } else if let Err(error) = self.open(address, name.clone(), tls, gateway).await {
                unbound.push(Unbound { name: name.clone(), kept: None, error });
            }
        }
        self.open.retain(|address, open| {
            if wanted.contains_key(address) {
                return true;
            }
            let name = open.name.load();
            let mut keeping = unbound.iter_mut().filter(|unbound| unbound.keeps(name.as_deref().map(String::as_str)));
            let stays = keeping.next().map(|unbound| unbound.kept = Some(*address)).is_some();
            if !stays {
                tracing::info!(%address, "MCP endpoint closed: the plan has no such listener any more");
                open.stop.cancel();
            }
            stays
        });
        unbound
    }

    /// Returns the certificate of the listener with this name, or of the first one: `Some(None)` if the listener serves plain
    /// HTTP, `None` if it has no certificate that can be used.
    fn tls(&self, gateway: &GatewayPlan, name: Option<&String>) -> Option<Option<ListenerTls>> {
        let mut listeners = gateway.listeners.iter();
        match listeners.find(|listener| name.is_none_or(|name| listener.name == *name)) {
            Some(listener) if listener.tls.is_some() => Some(Some(self.certificates.of(listener)?.clone())),
            _ => Some(None),
        }
    }

    /// Opens an endpoint, in the place of one that is open at this address.
    async fn open(
        &mut self,
        address: SocketAddr,
        name: Option<String>,
        tls: Option<ListenerTls>,
        gateway: &GatewayPlan,
    ) -> anyhow::Result<()> {
        let is_of_plan = self.bind.listen.is_none() && !gateway.listeners.is_empty();
        let setting = if is_of_plan { "`port` of the listener" } else { "--listen ADDR" };
        let shared = self.open.remove(&address).and_then(|open| {
            let socket = open.socket.upgrade();
            open.stop.cancel();
            socket
        });
        let socket = match shared {
            Some(socket) => socket,
            None => Arc::new(bind(address, setting).await?),
        };
        let (bound, stop, name) =
            (socket.local_addr()?, self.stop.child_token(), Arc::new(ArcSwapOption::from_pointee(name)));
        let listener = self.bind.listener(bound, Arc::clone(&name));
        let path = listener.current(gateway).map(|plan| plan.path.clone());
        let scheme = if tls.is_some() { "https" } else { "http" };
        tracing::info!(address = %bound, path, scheme, "MCP endpoint");
        self.url.get_or_insert_with(|| format!("{scheme}://{bound}{}", path.unwrap_or_default()));
        let service = web::McpService::new(Arc::clone(&self.engine), listener, stop.clone());
        let bounds = McpBounds(Arc::clone(&self.engine));
        let (shared, stopped) = (Arc::downgrade(&socket), stop.clone());
        match tls.clone() {
            Some(tls) => self.connections.spawn(serve_over(tls, socket, service, bounds, stopped)),
            None => self.connections.spawn(serve_over(Plain, socket, service, bounds, stopped)),
        };
        self.open.insert(address, Open { socket: shared, tls, name, stop });
        Ok(())
    }

    /// Follows the plan in force, and says what came of it.
    async fn follow_current(&mut self) {
        let snapshot = self.engine.in_force.snapshot();
        let plan = snapshot.plan();
        let mut problems = self.certificates.follow(&plan.gateway, snapshot.certificates());
        let unbound = self.follow(&plan.gateway).await;
        self.has_failed = !unbound.is_empty();
        problems.extend(unbound.iter().map(|unbound| unbound.problem(&plan.gateway)));
        for problem in problems.iter().filter(|problem| !self.problems.contains(problem)) {
            tracing::error!("{problem}");
        }
        self.problems.clone_from(&problems);
        self.engine.endpoints().followed(&plan.revision, problems);
    }

    /// Opens and closes endpoints as the plans in force require, and retries addresses that could not be bound. Returns
    /// after `stop` is cancelled and the last connection has closed.
    pub async fn keep(mut self, mut plans: watch::Receiver<()>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                changed = plans.changed() => if changed.is_err() { break },
                () = tokio::time::sleep(TRY_AGAIN), if self.has_failed => {}
                Some(_) = self.connections.join_next() => continue,
            }
            self.follow_current().await;
        }
        self.engine.endpoints().end();
        while self.connections.join_next().await.is_some() {}
    }
}
