//! The access token that the requests of one connection carry.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::access_token::AccessToken;
use super::token_endpoint::TokenEndpoint;
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
}

impl Tokens {
    /// Creates them without a token.
    pub(in crate::upstream) fn new(endpoint: Arc<TokenEndpoint>) -> Self {
        Self { endpoint, current: ArcSwapOption::empty(), failed: Mutex::default() }
    }

    /// Returns a token that is valid. Of several callers, one gets a new one, and the others wait for it or use the old one.
    pub(in crate::upstream) async fn token(&self) -> Result<Arc<AccessToken>, UpstreamError> {
        let old = self.current.load_full().filter(|token| token.is_valid());
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
        match self.endpoint.request().await {
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
