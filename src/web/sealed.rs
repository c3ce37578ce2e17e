//! The sealed ids that clients of this listener get and send back.

use std::net::SocketAddr;
use std::time::Duration;

use super::client_sender::LONGEST_QUESTION;
use super::listener_context::ListenerContext;
use crate::engine::access::sealed_id::{IdPurpose, IdScope, NotOpened, SealedId};
use crate::engine::access::session::Session;
use crate::engine::exchange::handle::new_handle;

impl ListenerContext {
    /// Seals an id that is valid for `lives`. `session` is the id of the session that it is for; empty if there is none.
    /// `binding` is a digest of what it is bound to besides; empty if to nothing. `None` only if the system provides no
    /// random numbers.
    pub(super) fn seal_id(
        &self,
        purpose: IdPurpose,
        session: &str,
        handle: u64,
        lives: Duration,
        binding: Vec<u8>,
    ) -> Option<String> {
        let snapshot = self.engine.in_force.snapshot();
        let scope = IdScope { purpose, gateway: &snapshot.plan().gateway.key, session };
        let expires_at = self.engine.now().saturating_add(u64::try_from(lives.as_millis()).unwrap_or(u64::MAX));
        let id = SealedId { replica: self.listener.advertised, expires_at, handle, binding };
        id.seal(self.engine.gate.sessions().seals(), scope)
    }

    /// Opens an id that a replica of this gateway sealed.
    ///
    /// # Errors
    /// If the text is no such id, or one that is not valid any more.
    pub(super) fn open_id(&self, purpose: IdPurpose, session: &str, text: &str) -> Result<SealedId, NotOpened> {
        let snapshot = self.engine.in_force.snapshot();
        let scope = IdScope { purpose, gateway: &snapshot.plan().gateway.key, session };
        SealedId::open(self.engine.gate.sessions().seals(), scope, text, self.engine.now())
    }

    /// Makes the id of a question to the client of a session, as raw JSON. `None` only if the system provides no random
    /// numbers.
    pub(super) fn new_question(&self, session: &Session) -> Option<String> {
        let id = self.seal_id(IdPurpose::Question, &session.id, new_handle(), LONGEST_QUESTION, Vec::new());
        id.map(|id| format!("\"{id}\""))
    }

    /// The longest time that a call may take.
    pub(super) fn longest_call(&self) -> Duration {
        Duration::from_millis(u64::from(self.engine.in_force.snapshot().plan().gateway.limits.call_ceiling_ms))
    }

    /// Returns the address of a replica that a sealed id names, unless it is this one or cannot be reached.
    pub(super) fn elsewhere(&self, replica: Option<SocketAddr>) -> Option<SocketAddr> {
        replica.filter(|replica| Some(*replica) != self.listener.advertised)
    }
}
