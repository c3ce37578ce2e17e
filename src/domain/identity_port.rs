//! The port that checks credentials; see `ports.rs`.

use core::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

use super::identity::Identity;
use super::plan::AuthenticationPlan;

/// The methods of a plan, with the keys that the plan only names.
#[derive(Debug, Default)]
pub struct Methods {
    /// The methods.
    pub plan: AuthenticationPlan,
    /// The API keys that are accepted.
    pub api_keys: Vec<ApiKey>,
    /// The addresses that issuers may have although they are those of metadata services or of the API server.
    pub allowed_addresses: Vec<IpAddr>,
}

/// An API key. Only its digest is kept.
#[derive(Debug)]
pub struct ApiKey {
    /// SHA-256 of the key, in lower-case hex.
    pub digest: String,
    /// The identity that the key proves.
    pub identity: Arc<Identity>,
}

/// What a client has sent to prove its identity.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// A token in `Authorization`.
    Bearer(&'a str),
    /// An API key in the header that is only for keys.
    ApiKey(&'a str),
}

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
    /// Returns the identity that a credential proves by these methods. A client at the address `from` has sent it.
    ///
    /// # Errors
    /// If it proves none. A credential that a method recognizes and rejects is tried with no other method.
    async fn prove(
        &self,
        methods: &Methods,
        credential: Credential<'_>,
        from: IpAddr,
    ) -> Result<Arc<Identity>, Unproved>;
}

/// Accepts no credential.
pub struct NoAuthentication;

#[async_trait]
impl Authenticate for NoAuthentication {
    async fn prove(&self, _: &Methods, _: Credential<'_>, _: IpAddr) -> Result<Arc<Identity>, Unproved> {
        Err(Unproved::Rejected("no method of authentication is known here".to_owned()))
    }
}
