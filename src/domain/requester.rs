//! The client that a request to a server is made for.

use std::sync::Arc;

use super::budget::Account;

/// A client, as far as it can be told apart from others. Those of one address without a session are one.
#[derive(Clone, Debug, Default)]
pub struct Requester {
    /// The id of its session; empty if it has none.
    pub session: String,
    /// The account of its address; `None` if that is not known.
    pub account: Option<Arc<Account>>,
}

impl Requester {
    /// Whether it has a session.
    pub fn has_session(&self) -> bool {
        !self.session.is_empty()
    }

    /// The account of its address as a number, which another account can have once nobody holds this one; 0 if the address is
    /// not known.
    pub fn address(&self) -> usize {
        self.account.as_ref().map_or(0, |account| Arc::as_ptr(account).addr())
    }
}
