//! Requests of clients, of which a test says only what matters to it.

use super::*;
use crate::domain::budget::Reservation;

/// A client, with what each of its requests needs.
pub(in crate::engine) struct Client {
    caller: Caller,
    heard: Heard,
    pub(in crate::engine) reservation: Reservation,
}

impl Client {
    pub(in crate::engine) fn new(engine: &Gateway, caller: Caller) -> Self {
        Self { caller, heard: Heard::default(), reservation: engine.budget().reservation(Category::Answer) }
    }

    /// Returns a request for an item at the endpoint of all upstreams, with nothing that it could do without.
    pub(in crate::engine) fn request<'a>(&'a self, kind: ItemKind, name: &'a str) -> CallRequest<'a> {
        request(&self.caller, &self.heard, &self.reservation, kind, name)
    }
}

/// Like [`Client::request`], for a client of other parts.
pub(in crate::engine) fn request<'a>(
    caller: &'a Caller,
    client: &'a dyn ToClient,
    reservation: &'a Reservation,
    kind: ItemKind,
    name: &'a str,
) -> CallRequest<'a> {
    CallRequest {
        endpoint: Endpoint::All,
        caller,
        id: None,
        rpc_id: None,
        name,
        kind,
        input: None,
        meta: None,
        round: InputRound::default(),
        wants_progress: false,
        log_level: None,
        client,
        reservation,
        check_mirrored: None,
        within: None,
        task: TaskUse::None,
    }
}

/// Returns the result or the error of a reply.
pub(in crate::engine) fn said(reply: Reply) -> Value {
    match reply {
        Reply::Result(said) | Reply::UpstreamError(said) => serde_json::from_str(said.get()).unwrap(),
        Reply::Error(error) => json!(error),
    }
}
