//! An access token, and how long it is used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderValue;
use serde::Deserialize;
use tokio::time::Instant;

use crate::domain::secret::SecretText;

/// How long before its end a token is renewed, at most. A token that lives shortly is renewed after three quarters of its life.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// How long a token is used whose life the token endpoint does not tell, and how long a token is used at most.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// The shortest time between a token that a server never accepted and the next one.
const RENEW_AGAIN: Duration = Duration::from_secs(10);
/// The maximum length of a token in bytes. Servers accept no longer headers.
const MAX_TOKEN: usize = 16 << 10;

/// The answer of a token endpoint (RFC 6749, 5.1).
#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    token_type: String,
    expires_in: Option<serde_json::Value>,
}

/// An access token.
#[derive(Debug)]
pub(in crate::upstream) struct AccessToken {
    /// The value of `Authorization`.
    pub(in crate::upstream) header: HeaderValue,
    pub(super) text: SecretText,
    issued: Instant,
    life: Duration,
    /// Whether the server has accepted it.
    accepted: AtomicBool,
}

impl AccessToken {
    /// Reads the answer of a token endpoint to a request that was sent at `issued`, with the token `of` a user if it is to be
    /// exchanged. The answer must have another one: the user's own token is for the gateway alone.
    ///
    /// # Errors
    /// What is wrong with the answer, without text of it.
    pub(super) fn read(answer: &[u8], issued: Instant, of: Option<&SecretText>) -> Result<Self, String> {
        let answer: TokenAnswer = serde_json::from_slice(answer)
            .map_err(|_| "its answer is no JSON object with access_token and token_type".to_owned())?;
        if !answer.token_type.eq_ignore_ascii_case("bearer") {
            return Err("its answer has a token_type other than Bearer".to_owned());
        }
        if of.is_some_and(|of| of.expose() == answer.access_token) {
            return Err("its answer has the token of the user, which is not for the server".to_owned());
        }
        let header = HeaderValue::from_str(&format!("Bearer {}", answer.access_token));
        let header = header.ok().filter(|_| (1..=MAX_TOKEN).contains(&answer.access_token.len()));
        let mut header = header.ok_or_else(|| {
            format!("its access_token is empty, longer than {MAX_TOKEN} bytes, or cannot be in a header")
        })?;
        header.set_sensitive(true);
        let life = answer.expires_in.and_then(|life| life.as_u64()).map_or(LONGEST, Duration::from_secs).min(LONGEST);
        let (text, accepted) = (SecretText::new(answer.access_token), AtomicBool::new(false));
        Ok(Self { header, text, issued, life, accepted })
    }

    /// Whether the token can still be sent.
    pub(super) fn is_valid(&self) -> bool {
        self.issued.elapsed() < self.life
    }

    /// Whether there is no reason yet to get another one.
    pub(super) fn is_fresh(&self) -> bool {
        self.issued.elapsed() < self.renewal()
    }

    /// The age at which the token is renewed.
    fn renewal(&self) -> Duration {
        self.life.saturating_sub(RENEW_BEFORE.min(self.life / 4))
    }

    /// Notes that the server has accepted the token.
    pub(in crate::upstream) fn note_accepted(&self) {
        self.accepted.store(true, Ordering::Relaxed);
    }

    /// Whether another token may help where the server has refused this one. Of a server that accepts none, the tokens are
    /// renewed slowly.
    pub(super) fn is_worth_renewing(&self) -> bool {
        self.accepted.load(Ordering::Relaxed) || self.issued.elapsed() >= RENEW_AGAIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Result<AccessToken, String> {
        AccessToken::read(answer.as_bytes(), Instant::now(), Some(&SecretText::new("hunter2-of-user")))
    }

    #[test]
    fn tokens_are_renewed_before_their_end() {
        for (life, renewal, end) in [("4", 3, 4), ("3000", 2940, 3000), ("1e9", 3540, 3600), ("\"soon\"", 3540, 3600)] {
            let answer = format!(r#"{{"access_token":"hunter2","token_type":"bearer","expires_in":{life}}}"#);
            let token = read(&answer).unwrap();
            assert_eq!((token.renewal().as_secs(), token.life.as_secs()), (renewal, end), "{life}");
            assert!(token.is_fresh() && token.is_valid() && !format!("{token:?}").contains("hunter2"), "{life}");
        }
    }

    #[test]
    fn answers_that_are_no_tokens_are_refused_without_their_text() {
        for answer in [
            "hunter2",
            r#"{"access_token":"hunter2"}"#,
            r#"{"access_token":"hunter2","token_type":"DPoP"}"#,
            r#"{"access_token":"hunter2\n","token_type":"Bearer"}"#,
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"access_token":"hunter2-of-user","token_type":"Bearer"}"#,
        ] {
            let why = read(answer).unwrap_err();
            assert!(why.starts_with("its a") && !why.contains("hunter2"), "{answer}: {why}");
        }
    }
}
