//! The access token that requests to one server carry: that of the gateway, or that of one user.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::access_token::AccessToken;
use super::token_endpoint::TokenEndpoint;
use crate::domain::budget::Account;
use crate::domain::secret::SecretText;
use crate::domain::upstream::UpstreamError;

/// How long the error of the token endpoint is the answer to further requests.
const PAUSE: Duration = Duration::from_secs(1);
/// The same where there still is a token that can be sent.
const PAUSE_OF_RENEWAL: Duration = Duration::from_secs(5);

/// The current access token, which is got when a request needs it.
#[derive(Debug)]
pub(in crate::upstream) struct Tokens {
    endpoint: Arc<TokenEndpoint>,
    current: ArcSwapOption<AccessToken>,
    /// Locked while a token is got. The last failure, and when it was.
    failed: Mutex<Option<(UpstreamError, Instant)>>,
    /// The user whom the token is for; `None` if it is the gateway's.
    user: Option<User>,
}

#[derive(Debug, Default)]
struct User {
    /// The user's own tokens, each as long as the request runs that came with it. One is exchanged when a token is needed.
    presented: StdMutex<Vec<Arc<SecretText>>>,
    /// The account by which connections of this user are counted.
    account: Arc<Account>,
}

/// A user's own token, which is forgotten when this value is dropped.
pub(in crate::upstream) struct PresentedToken(Arc<Tokens>, Arc<SecretText>);

impl Drop for PresentedToken {
    fn drop(&mut self) {
        let Some(user) = &self.0.user else { return };
        let mut presented = user.presented.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = presented.iter().position(|token| Arc::ptr_eq(token, &self.1)) {
            presented.remove(at);
        }
    }
}

impl Tokens {
    /// Creates them without a token.
    pub(in crate::upstream) fn new(endpoint: Arc<TokenEndpoint>) -> Self {
        Self { endpoint, current: ArcSwapOption::empty(), failed: Mutex::default(), user: None }
    }

    /// Creates those of a user of the same server, without a token.
    pub(super) fn for_user(&self) -> Self {
        Self { user: Some(User::default()), ..Self::new(Arc::clone(&self.endpoint)) }
    }

    /// Keeps the user's own token until the returned value is dropped.
    pub(super) fn present(self: Arc<Self>, token: &Arc<SecretText>) -> PresentedToken {
        if let Some(user) = &self.user {
            user.presented.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(token));
        }
        PresentedToken(self, Arc::clone(token))
    }

    /// The account by which connections of this user are counted.
    pub(in crate::upstream) fn account(&self) -> Option<Arc<Account>> {
        self.user.as_ref().map(|user| Arc::clone(&user.account))
    }

    /// Returns the user's own token of the latest request that runs.
    fn presented(&self) -> Option<Arc<SecretText>> {
        let user = self.user.as_ref()?;
        user.presented.lock().unwrap_or_else(PoisonError::into_inner).last().cloned()
    }

    async fn request(&self) -> Result<AccessToken, UpstreamError> {
        match (&self.user, self.presented()) {
            (None, _) => self.endpoint.request().await,
            (Some(_), Some(token)) => self.endpoint.exchange(&token).await,
            (Some(_), None) => Err(UpstreamError::NoUserToken),
        }
    }

    /// Returns a token that is valid. Of several callers, one gets a new one, and the others wait for it or use the old one.
    pub(in crate::upstream) async fn token(&self) -> Result<Arc<AccessToken>, UpstreamError> {
        let old = self.current.load_full().filter(|token| token.is_valid());
        if self.user.is_some() && self.presented().is_none() {
            // The connection's own messages, such as its end, use what there is.
            return old.ok_or(UpstreamError::NoUserToken);
        }
        let mut failed = match &old {
            Some(token) if token.is_fresh() => return Ok(Arc::clone(token)),
            Some(token) => match self.failed.try_lock() {
                Ok(failed) => failed,
                Err(_) => return Ok(Arc::clone(token)),
            },
            None => self.failed.lock().await,
        };
        if let Some(token) = self.current.load_full().filter(|token| token.is_fresh()) {
            return Ok(token);
        }
        let pause = if old.is_some() { PAUSE_OF_RENEWAL } else { PAUSE };
        if let Some((error, _)) = failed.as_ref().filter(|(_, at)| at.elapsed() < pause) {
            return old.ok_or_else(|| error.clone());
        }
        match self.request().await {
            Ok(token) => {
                let token = Arc::new(token);
                self.current.store(Some(Arc::clone(&token)));
                *failed = None;
                Ok(token)
            }
            Err(error) => {
                if old.is_some() {
                    tracing::warn!("an access token was not renewed, and the old one is used to its end: {error}");
                }
                *failed = Some((error.clone(), Instant::now()));
                old.ok_or(error)
            }
        }
    }

    /// Forgets a token that the server has refused. Returns whether another one may help.
    pub(in crate::upstream) fn renounce(&self, token: &Arc<AccessToken>) -> bool {
        let current = self.current.load_full();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, token)) {
            if !token.is_worth_renewing() {
                return false;
            }
            self.current.compare_and_swap(&current, None);
        }
        true
    }

    /// Returns the text of the current token, for masks.
    pub(in crate::upstream) fn secret(&self) -> Option<SecretText> {
        self.current.load().as_ref().map(|token| token.text.clone())
    }
}
