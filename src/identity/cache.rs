//! The tokens that were accepted, so that the signature of each is verified once.

use std::sync::Arc;
use std::time::SystemTime;

use dashmap::DashMap;
use sha2::{Digest, Sha256};

use super::key_set::KeySet;
use crate::domain::identity::Identity;

/// The maximum number of tokens. Each holds the claims of one.
const MAX_TOKENS: usize = 1024;

pub(super) type TokenDigest = [u8; 32];

/// Accepted tokens, by their digests.
#[derive(Default)]
pub(super) struct TokenCache(DashMap<TokenDigest, Accepted>);

/// A token that was accepted.
#[derive(Clone)]
pub(super) struct Accepted {
    /// The place of the issuer in the plan.
    pub(super) issuer: usize,
    identity: Arc<Identity>,
    keys: Arc<KeySet>,
    /// In Unix seconds.
    until: u64,
}

impl Accepted {
    /// Returns the identity, if these are the keys by which it was proved.
    pub(super) fn identity_by(&self, keys: &Arc<KeySet>) -> Option<Arc<Identity>> {
        Arc::ptr_eq(&self.keys, keys).then(|| Arc::clone(&self.identity))
    }
}

pub(super) fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}

impl TokenCache {
    /// Returns what is known of a token that is still valid.
    pub(super) fn find(&self, token: &TokenDigest) -> Option<Accepted> {
        self.0.get(token).filter(|known| now() < known.until).map(|known| known.clone())
    }

    /// Adds a token. If there is no room, removes those that have expired, or all.
    pub(super) fn add(
        &self,
        token: TokenDigest,
        issuer: usize,
        identity: &Arc<Identity>,
        keys: Arc<KeySet>,
        until: u64,
    ) {
        if self.0.len() >= MAX_TOKENS {
            let now = now();
            self.0.retain(|_, known| now < known.until);
            if self.0.len() >= MAX_TOKENS {
                self.0.clear();
            }
        }
        self.0.insert(token, Accepted { issuer, identity: Arc::clone(identity), keys, until });
    }
}

/// The time in Unix seconds, by the clock by which the library compares the times of tokens.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(u64::MAX, |since| since.as_secs())
}
