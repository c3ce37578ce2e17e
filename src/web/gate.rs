//! What the handlers of one listener share, and the endpoints that it has.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::domain::instance::Instance;
use crate::domain::limits::Tracker;
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::engine::{Endpoint, Engine};

/// Where a router is reached, and which of the plan's listeners it serves. Their settings count from the next request on.
#[derive(Clone, Debug)]
pub struct ServedListener {
    /// The listener of this port; none is the plan's first, whatever its port.
    pub port: Option<u16>,
    /// What is served where a plan has no listeners.
    pub default: ListenerPlan,
    /// The address it is bound to.
    pub bound: SocketAddr,
    /// This process: what it sent itself is not answered.
    pub instance: Instance,
}

impl ServedListener {
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
pub(super) struct Gate {
    pub(super) engine: Arc<Engine>,
    pub(super) listener: ServedListener,
    /// Closes streams that would else stay open.
    pub(super) shutdown: CancellationToken,
    /// Counts open legacy GET streams.
    pub(super) streams: Tracker,
}

/// The endpoint that a request's path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathEndpoint {
    /// All upstreams.
    All,
    /// One, by name.
    One(String),
}

impl PathEndpoint {
    /// What `path` names on a listener whose endpoint for all is `all`: that, or `{all without /mcp}/{upstream}/mcp`.
    pub(super) fn of(path: &str, all: &str) -> Option<Self> {
        if path == all {
            return Some(Self::All);
        }
        let base = all.strip_suffix("/mcp").unwrap_or(all.trim_end_matches('/'));
        let name = path.strip_prefix(base)?.strip_prefix('/')?.strip_suffix("/mcp")?;
        (!name.is_empty() && !name.contains('/')).then(|| Self::One(name.to_owned()))
    }

    /// As the engine's [`Endpoint`].
    pub(super) fn as_engine(&self) -> Endpoint<'_> {
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
