//! The port that checks credentials; see `ports.rs`.

use std::sync::Arc;

use async_trait::async_trait;

use super::identity::Identity;
use super::plan::AuthenticationPlan;

/// Why a credential proves no identity. No text contains a part of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unproved {
    /// The credential is not accepted, for this reason.
    Rejected(String),
    /// It cannot be checked now, for this reason.
    Unavailable(String),
}

/// Checks the credentials of clients.
#[async_trait]
pub trait Authenticate: Send + Sync + 'static {
    /// Returns the identity that a bearer token proves by these methods.
    ///
    /// # Errors
    /// If it proves none. A token that a method recognizes and rejects is tried with no other method.
    async fn bearer(&self, methods: &AuthenticationPlan, token: &str) -> Result<Arc<Identity>, Unproved>;
}

/// Accepts no credential.
pub struct NoAuthentication;

#[async_trait]
impl Authenticate for NoAuthentication {
    async fn bearer(&self, _: &AuthenticationPlan, _: &str) -> Result<Arc<Identity>, Unproved> {
        Err(Unproved::Rejected("no method of authentication is known here".to_owned()))
    }
}
