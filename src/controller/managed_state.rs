//! The state that the loop of managed servers publishes for the other loops.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::ids::ObjectKey;
use crate::domain::reason::Reason;

/// The server of one managed upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ManagedServer {
    /// Uid of the upstream.
    pub(super) uid: String,
    /// The generation of the upstream that this describes.
    pub(super) generation: i64,
    /// Kind of the workload; `None` as long as it is not known.
    pub(super) kind: Option<&'static str>,
    /// Why the server's objects are not up to date, if they are not.
    pub(super) fault: Option<(Reason, String)>,
    /// Who has the Service at its address.
    pub(super) address: Address,
    /// Why the pods do not serve what the spec says, if they do not.
    pub(super) not_ready: Option<String>,
}

/// Who has the Service at the address of a managed upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Address {
    /// Nobody, as far as the watch shows.
    #[default]
    Unseen,
    /// The upstream.
    Ours,
    /// Somebody else, with the message that says so.
    Taken(String),
}

/// The servers of all managed upstreams.
pub(super) type ManagedServers = Arc<BTreeMap<ObjectKey, ManagedServer>>;
