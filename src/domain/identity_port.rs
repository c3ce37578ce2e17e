//! The port that checks credentials; see `ports.rs`.

use core::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;

use super::identity::Identity;
use super::plan::AuthenticationPlan;
use super::refusal::{Fault, TokenFacts};

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
    /// The credential is not accepted: the fault, and what it is in words.
    Rejected(Fault, String),
    /// It cannot be checked now, for this reason.
    Unavailable(String),
}

/// An issuer whose keys cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedIssuer {
    /// The place of the issuer in the methods.
    pub place: usize,
    /// The issuer.
    pub issuer: String,
    /// The cause. It has no query of a URL.
    pub why: String,
    /// Whether keys that were read before still count.
    pub has_keys: bool,
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

    /// Returns what a credential that was refused says of itself, and what the methods accept. It has no part of a key or of a
    /// signature.
    fn facts(&self, methods: &Methods, credential: Credential<'_>) -> TokenFacts {
        let _ = (methods, credential);
        TokenFacts::default()
    }

    /// Reads the keys of all issuers that were not read yet, and asks the API server whether it reviews tokens.
    async fn read_issuers(&self, methods: &Methods) {
        let _ = methods;
    }

    /// Returns the issuers whose keys could not be read when that was last tried.
    fn failed_issuers(&self, methods: &Methods) -> Vec<FailedIssuer> {
        let _ = methods;
        Vec::new()
    }

    /// Returns why the API server did not review a token when it was last asked; `None` if it did, or was never asked.
    fn failed_reviews(&self) -> Option<String> {
        None
    }
}

/// Accepts no credential.
pub struct NoAuthentication;

#[async_trait]
impl Authenticate for NoAuthentication {
    async fn prove(&self, _: &Methods, _: Credential<'_>, _: IpAddr) -> Result<Arc<Identity>, Unproved> {
        Err(Unproved::Rejected(Fault::UnknownApiKey, "no method of authentication is known here".to_owned()))
    }
}
