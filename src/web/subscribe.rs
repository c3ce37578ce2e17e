//! `resources/subscribe` and `resources/unsubscribe` of clients with a session. What they subscribe to is reported on the
//! GET stream of the session.

use serde_json::json;

use super::dispatch::{ClientRequest, invalid};
use super::envelope::text;
use crate::domain::item::MAX_URI;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::RpcError;
use crate::engine::access::session::Session;
use crate::engine::{Reply, SubscribeRequest};

impl ClientRequest<'_> {
    /// `resources/subscribe`.
    pub(super) async fn subscribe(&self, session: &Session) -> Reply {
        let Some(uri) = self.params.uri.and_then(text).filter(|uri| uri.len() <= MAX_URI) else { return no_uri() };
        if session.has_subscribed(&uri) {
            return done();
        }
        let caller = self.caller();
        let request = SubscribeRequest {
            endpoint: self.endpoint.as_engine(),
            caller: &caller,
            uri: &uri,
            mailbox: &session.mailbox,
            within: None,
        };
        match self.gate.engine.calls.subscribe(request).await {
            Ok(subscription) => match session.subscribed(&uri, subscription) {
                true => done(),
                false => Reply::Error(RpcError::refused(Reason::SessionEnded, "this session has ended")),
            },
            Err(reply) => reply,
        }
    }

    /// `resources/unsubscribe`. To end what was never begun is no error.
    pub(super) fn unsubscribe(&self, session: &Session) -> Reply {
        let Some(uri) = self.params.uri.and_then(text) else { return no_uri() };
        session.unsubscribe(&uri);
        done()
    }
}

fn done() -> Reply {
    Reply::Result(to_raw(&json!({})))
}

fn no_uri() -> Reply {
    invalid(&format!("`uri` must be a string of at most {MAX_URI} bytes that names a resource"))
}
