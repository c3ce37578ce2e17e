//! The tokens of the users of one server (`external.oauth.tokenExchange`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::tokens::{PresentedToken, Tokens};
use crate::domain::secret::SecretText;

/// Tokens by user. Those of a user are kept as long as connections or requests of that user use them, so that there are no more
/// than there may be of these.
#[derive(Debug)]
pub(in crate::upstream) struct UserTokens {
    gateway: Arc<Tokens>,
    by_user: Mutex<HashMap<String, Weak<Tokens>>>,
}

impl UserTokens {
    /// Creates them for the server for which these are the tokens of the gateway.
    pub(in crate::upstream) fn new(gateway: Arc<Tokens>) -> Self {
        Self { gateway, by_user: Mutex::default() }
    }

    /// Returns the tokens of a user.
    pub(in crate::upstream) fn of(&self, user: &str) -> Arc<Tokens> {
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_user.get(user).and_then(Weak::upgrade) {
            return known;
        }
        by_user.retain(|_, tokens| tokens.strong_count() > 0);
        let tokens = Arc::new(self.gateway.for_user());
        by_user.insert(user.to_owned(), Arc::downgrade(&tokens));
        tokens
    }

    /// Keeps a user's own token until the returned value is dropped.
    pub(in crate::upstream) fn present(&self, user: &str, token: &Arc<SecretText>) -> PresentedToken {
        self.of(user).present(token)
    }
}
