//! State that the handlers of one listener share, and the listener's endpoints.

use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio_util::sync::CancellationToken;

use super::replicas::Replicas;
use super::ticks::Ticks;
use crate::domain::instance::Instance;
use crate::domain::limits::Tracker;
use crate::domain::plan::{GatewayPlan, ListenerPlan};
use crate::engine::access::addresses::Addresses;
use crate::engine::{Endpoint, Engine};

/// A bound listener of this process. Its settings are those of a listener in the plan; the settings of a new plan apply
/// from the next request on.
#[derive(Clone, Debug)]
pub struct ServedListener {
    /// The port of the listener in the plan; `None` for the plan's first listener, whatever its port.
    pub port: Option<u16>,
    /// The name of the listener in the last plan that has one with this port: the socket stays until the new address of
    /// that listener is bound. `None` if that plan has no listeners.
    pub name: Arc<ArcSwapOption<String>>,
    /// The settings to use if the plan has no listeners.
    pub default: ListenerPlan,
    /// The address that the socket is bound to.
    pub bound: SocketAddr,
    /// The address at which other replicas of the gateway reach this listener; `None` if they do not.
    pub advertised: Option<SocketAddr>,
    /// The identity of this process, so that it can refuse requests that it sent itself.
    pub instance: Instance,
}

impl ServedListener {
    /// Returns the settings of this listener in the plan in force; `None` if the plan has no such listener.
    pub fn current<'a>(&'a self, gateway: &'a GatewayPlan) -> Option<&'a ListenerPlan> {
        let listeners = &gateway.listeners;
        match self.port {
            Some(port) if !listeners.is_empty() => {
                listeners.iter().find(|listener| listener.port == port).or_else(|| self.moved(gateway))
            }
            Some(port) => Some(&self.default).filter(|default| default.port == port).or_else(|| self.moved(gateway)),
            None => Some(listeners.first().unwrap_or(&self.default)),
        }
    }

    /// Returns the listener that was at this port and has another one now. One from before the plan had listeners is the
    /// plan's first listener, and the other way round.
    fn moved<'a>(&'a self, gateway: &'a GatewayPlan) -> Option<&'a ListenerPlan> {
        let name = self.name.load();
        let Some(first) = gateway.listeners.first() else { return Some(&self.default) };
        match name.as_deref() {
            None => Some(first),
            Some(name) => gateway.listeners.iter().find(|listener| listener.name == *name),
        }
    }
}

/// State that the handlers of one listener share.
pub(super) struct ListenerContext {
    pub(super) engine: Arc<Engine>,
    pub(super) listener: ServedListener,
    /// Cancelled at the shutdown, to close the streams that clients hold open.
    pub(super) shutdown: CancellationToken,
    /// Counts the open streams that have a [`StreamPlace`](super::stream_place::StreamPlace): GET streams of sessions and
    /// `subscriptions/listen`.
    pub(super) streams: Tracker,
    /// Counts the same streams, by address.
    pub(super) streams_by_address: Addresses<Tracker>,
    /// The other replicas of the gateway.
    pub(super) replicas: Replicas,
    /// The clock of what is to become a stream.
    pub(super) ticks: Arc<Ticks>,
}

impl ListenerContext {
    /// The maximum number of [open streams](Self::streams).
    pub(super) fn max_streams(&self) -> u32 {
        self.engine.in_force.snapshot().plan().gateway.limits.max_streams
    }
}

/// The endpoint that a request's path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathEndpoint {
    /// All upstreams.
    All,
    /// One upstream, by name.
    One(String),
}

impl PathEndpoint {
    /// Returns the endpoint at `path`, if there is one. `all` is the listener's path for all upstreams; a single
    /// upstream is at `{all without /mcp}/{upstream}/mcp`. A slash at the end makes no difference, because many servers have
    /// one there.
    pub(super) fn of(path: &str, all: &str) -> Option<Self> {
        let path = without_slash(path);
        if path == without_slash(all) {
            return Some(Self::All);
        }
        let name = path.strip_prefix(base(all))?.strip_prefix('/')?.strip_suffix("/mcp")?;
        (!name.is_empty() && !name.contains('/')).then(|| Self::One(name.to_owned()))
    }

    /// Returns the path of the endpoint. `all` is the listener's path for all upstreams.
    pub(super) fn path(&self, all: &str) -> String {
        match self {
            Self::All => all.to_owned(),
            Self::One(name) => format!("{}/{name}/mcp", base(all)),
        }
    }

    pub(super) fn as_engine(&self) -> Endpoint<'_> {
        match self {
            Self::All => Endpoint::All,
            Self::One(upstream) => Endpoint::One(upstream),
        }
    }

    /// Returns the name of the upstream; `None` for the endpoint of all upstreams.
    pub(super) fn upstream(&self) -> Option<&str> {
        match self {
            Self::All => None,
            Self::One(upstream) => Some(upstream),
        }
    }
}

fn without_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

/// Returns what the paths of single upstreams begin with. `all` is the listener's path for all upstreams.
fn base(all: &str) -> &str {
    let all = without_slash(all);
    all.strip_suffix("/mcp").unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_an_endpoint_leads_to_it() {
        for all in ["/mcp", "/team/mcp", "/", "/api", "/mcp/"] {
            for endpoint in [PathEndpoint::All, PathEndpoint::One("up".into())] {
                let path = endpoint.path(all);
                assert_eq!(PathEndpoint::of(&path, all).as_ref(), Some(&endpoint), "{all}");
                let other = path.strip_suffix('/').map_or_else(|| format!("{path}/"), str::to_owned);
                assert_eq!(PathEndpoint::of(&other, all).as_ref(), Some(&endpoint), "{all}");
            }
            assert_eq!(PathEndpoint::of("/up/mcp//", all), None);
        }
    }
}
