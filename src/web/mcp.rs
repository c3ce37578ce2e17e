//! The MCP endpoint: one path for all upstreams, one for each. Both protocol eras come in here and part.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use tokio_util::sync::CancellationToken;

use super::post::post;
use super::reply::{method_not_allowed, refuse};
use super::{access, legacy, modern};
use crate::domain::instance::{INSTANCE, INSTANCE_HEADER};
use crate::domain::limits::Tracker;
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::engine::{Endpoint, Engine, Ports};

/// The header that names the protocol version.
pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";

/// Where a router is reached, and which of the plan's listeners it serves. Their settings count from the next request on.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The listener of this port; none is the plan's first, whatever its port.
    pub port: Option<u16>,
    /// What is served where a plan has no listeners.
    pub default: ListenerPlan,
    /// The address it is bound to.
    pub bound: SocketAddr,
}

impl Listener {
    /// The settings that count; none where the gateway has no such listener.
    pub fn current<'a>(&'a self, gateway: &'a GatewayPlan) -> Option<&'a ListenerPlan> {
        let listeners = &gateway.listeners;
        match self.port {
            Some(port) if !listeners.is_empty() => listeners.iter().find(|listener| listener.port == port),
            Some(port) => Some(&self.default).filter(|default| default.port == port),
            None => Some(listeners.first().unwrap_or(&self.default)),
        }
    }
}

/// What the handlers of one listener share.
pub(super) struct Gate<P: Ports> {
    pub(super) engine: Arc<Engine<P>>,
    pub(super) listener: Listener,
    /// Closes streams that would else stay open.
    pub(super) shutdown: CancellationToken,
    /// Counts open legacy GET streams.
    pub(super) streams: Tracker,
}

/// The endpoint that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All upstreams.
    All,
    /// One, by name.
    One(String),
}

impl Scope {
    /// What `path` names on a listener whose endpoint for all is `all`: that, or `{all without /mcp}/{upstream}/mcp`.
    fn of(path: &str, all: &str) -> Option<Self> {
        if path == all {
            return Some(Self::All);
        }
        let base = all.strip_suffix("/mcp").unwrap_or(all.trim_end_matches('/'));
        let name = path.strip_prefix(base)?.strip_prefix('/')?.strip_suffix("/mcp")?;
        (!name.is_empty() && !name.contains('/')).then(|| Self::One(name.to_owned()))
    }

    /// As the engine has it.
    pub(super) fn endpoint(&self) -> Endpoint<'_> {
        match self {
            Self::All => Endpoint::All,
            Self::One(upstream) => Endpoint::One(upstream),
        }
    }

    /// The upstream's name.
    pub(super) fn upstream(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::One(upstream) => Some(upstream),
        }
    }
}

/// A router that speaks MCP over Streamable HTTP: all upstreams at the listener's path (default `/mcp`), one at
/// `/{upstream}/mcp` beside it. `shutdown` closes the streams that clients hold open.
pub fn mcp_router<P: Ports>(engine: Arc<Engine<P>>, listener: Listener, shutdown: CancellationToken) -> Router {
    let gate = Arc::new(Gate { engine, listener, shutdown, streams: Tracker::default() });
    // Paths are matched on each request, because a plan may change them.
    Router::new().fallback(handle::<P>).with_state(gate)
}

async fn handle<P: Ports>(State(gate): State<Arc<Gate<P>>>, request: Request) -> Response {
    let snapshot = gate.engine.snapshot();
    let plan = snapshot.plan();
    let Some(listener) = gate.listener.current(&plan.gateway) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the plan in force has no such listener");
    };
    let checked = access::check_host(request.headers(), &listener.hosts, gate.listener.bound);
    let origin = match checked.and_then(|()| access::check_origin(request.headers(), listener)) {
        Ok(origin) => origin.cloned(),
        Err(why) => return refuse(StatusCode::FORBIDDEN, why),
    };
    if request.headers().get(INSTANCE_HEADER).is_some_and(|id| id.as_bytes() == INSTANCE.as_bytes()) {
        let why = "this gateway sent the request itself: the URL of one of its upstreams leads back to it";
        return refuse(StatusCode::LOOP_DETECTED, why);
    }
    let response = match (&listener.refusing, Scope::of(request.uri().path(), &listener.path)) {
        (Some(refusal), _) => refuse(StatusCode::SERVICE_UNAVAILABLE, refusal.message.clone()),
        (None, None) => refuse(StatusCode::NOT_FOUND, format!("MCP is spoken at {}", listener.path)),
        (None, Some(Scope::One(name))) if plan.upstream(&name).is_none() => {
            refuse(StatusCode::NOT_FOUND, format!("there is no upstream {name:.253?} here"))
        }
        (None, Some(scope)) => {
            let limit = plan.gateway.limits.max_request_size;
            drop(snapshot);
            dispatch(&gate, scope, request, limit).await
        }
    };
    match origin {
        None => response,
        Some(origin) => {
            let mut response = response;
            access::allow_page(&mut response, origin);
            response
        }
    }
}

async fn dispatch<P: Ports>(gate: &Arc<Gate<P>>, scope: Scope, request: Request, limit: u64) -> Response {
    let is_modern = modern::is_meant(request.headers());
    match *request.method() {
        Method::POST => post(gate, scope, request, limit).await,
        Method::OPTIONS if access::is_preflight(request.method(), request.headers()) => {
            access::preflight(request.headers())
        }
        _ if is_modern => method_not_allowed("POST"),
        Method::GET => legacy::open_stream(gate, &scope, request.headers()),
        Method::DELETE => legacy::end_session(gate, &scope, request.headers()),
        _ => method_not_allowed("GET, POST, DELETE"),
    }
}

/// What kinds of answer a client takes. One that says nothing takes all (RFC 9110, 12.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Takes {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Takes {
    /// Reads `Accept`.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::ACCEPT).iter().peekable();
        let mut takes = Self { json: values.peek().is_none(), events: values.peek().is_none() };
        for kind in values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')) {
            let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let (any, json, text) = (kind == "*/*", kind == "application/*", kind == "text/*");
            takes.json |= any || json || kind == "application/json";
            takes.events |= any || text || kind == "text/event-stream";
        }
        takes
    }
}
