//! Sessions that end.

use super::*;
use crate::engine::access::session_id::{SessionFacts, SessionScope};

#[tokio::test]
async fn what_upstreams_hold_for_a_session_goes_with_it_however_it_ends() {
    let engine = engine(Server::default());
    let gateway = ObjectKey::new("default", "main");
    let scope = SessionScope { gateway: &gateway, principal: "p", upstream: None };
    let open = || {
        let (version, capabilities) = ("2025-11-25".to_owned(), ClientCapabilities::default());
        let facts = SessionFacts { version, client: String::new(), capabilities, created_at: 0, replica: None };
        engine.gate.sessions().open(facts, scope).unwrap()
    };
    let (idle, busy, ended) = (open(), open(), open());
    busy.tracker.enter(None, None).unwrap();
    engine.end_session(&ended.id);
    engine.expire();
    engine.expire();
    assert_eq!(*engine.server.forgotten.lock().unwrap(), [ended.id.clone(), idle.id.clone()]);
}
