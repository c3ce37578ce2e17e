//! A request as a client or a plugin makes it, and what comes back: the words that all use cases share.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::domain::budget::Reservation;
use crate::domain::limits::Tracker;
use crate::domain::log_level::LogLevel;
use crate::domain::mirror::Mirrored;
use crate::domain::ports::ToClient;
use crate::domain::route::Route;
use crate::domain::rpc::RpcError;
use crate::domain::upstream::Era;
use crate::engine::plan::snapshot::Snapshot;

/// Who calls.
#[derive(Clone)]
pub struct Caller {
    /// The era that the client speaks.
    pub era: Era,
    /// `anonymous`, or who the credentials say.
    pub principal: String,
    /// The session's id; empty in the stateless era.
    pub session: String,
    /// Counts the calls of the session, principal or address.
    pub tracker: Arc<Tracker>,
    /// Whether it is an address that is counted: many may share it, behind an ingress all do, so that limits hold for
    /// it only while the gateway is crowded.
    pub by_address: bool,
}

/// A `tools/call` as a client sent it.
pub struct CallRequest<'a> {
    /// Where it came in.
    pub endpoint: Endpoint<'a>,
    /// Who sent it.
    pub caller: &'a Caller,
    /// `params.name`.
    pub name: &'a str,
    /// `params.arguments`.
    pub arguments: Option<&'a RawValue>,
    /// `params._meta`.
    pub meta: Option<&'a RawValue>,
    /// Whether progress is wanted.
    pub wants_progress: bool,
    /// The least grave log message of the server that is wanted; none where none is.
    pub log_level: Option<LogLevel>,
    /// The way back while the call runs.
    pub client: &'a dyn ToClient,
    /// Reserves memory for the answer until the caller is done with it.
    pub reservation: &'a Reservation,
    /// Compares the arguments that clients of the modern era mirror in headers with those; none where nothing is mirrored.
    pub check_mirrored: Option<&'a CheckMirrored<'a>>,
    /// The call whose plugin makes it; none where a client does.
    pub within: Option<Within<'a>>,
}

/// Says where a tool's marked arguments are not what the headers that mirror them say.
pub type CheckMirrored<'a> = dyn Fn(&[Mirrored]) -> Result<(), RpcError> + Sync + 'a;

/// The call that a call lies within.
#[derive(Clone, Copy)]
pub struct Within<'a> {
    /// Our id of it.
    pub request_id: &'a str,
    /// From 1: how many calls the one that is made lies within.
    pub depth: u32,
}

impl CallRequest<'_> {
    /// How many calls of plugins it lies within.
    pub(super) fn depth(&self) -> u32 {
        self.within.map_or(0, |within| within.depth)
    }
}

/// What the client gets.
#[derive(Debug)]
pub enum Reply {
    /// `result`.
    Result(Box<RawValue>),
    /// `error`, as the upstream sent it.
    UpstreamError(Box<RawValue>),
    /// `error` of the gateway's own making.
    Error(RpcError),
}

/// Where a client came in.
#[derive(Clone, Copy, Debug)]
pub enum Endpoint<'a> {
    /// The endpoint for all upstreams.
    All,
    /// The endpoint of one upstream, by name: its tools have the server's own names.
    One(&'a str),
}

impl Endpoint<'_> {
    /// The route of a name.
    pub(super) fn route<'s>(&self, snapshot: &'s Snapshot, name: &str) -> Option<&'s Arc<Route>> {
        match self {
            Self::All => snapshot.routes.public(name),
            Self::One(upstream) => snapshot.routes.own(snapshot.upstream(upstream)?, name),
        }
    }

    pub(super) fn definitions<'s>(&self, snapshot: &'s Snapshot) -> Vec<&'s RawValue> {
        let all = snapshot.routes.all().iter();
        match self {
            Self::All => all.filter_map(|route| route.public_definition.as_deref()).collect(),
            Self::One(upstream) => {
                let index = snapshot.upstream(upstream);
                all.filter(|route| Some(route.upstream) == index).map(|route| &*route.own_definition).collect()
            }
        }
    }
}
