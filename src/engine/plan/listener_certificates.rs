//! The certificates of listeners, from the Secrets that the plan names.

use std::collections::BTreeMap;

use crate::domain::ids::ObjectKey;
use crate::domain::plan::{GatewayPlan, Refusal, TlsPlan};
use crate::domain::ports::Secrets;
use crate::domain::secret::SecretText;

/// The certificate of a listener with those of its issuers, and its private key, as PEM.
pub struct PemPair {
    /// The certificates, that of the listener first.
    pub chain: SecretText,
    /// The private key.
    pub key: SecretText,
}

/// The certificates of the listeners that serve HTTPS, by the names of the listeners, or why one cannot be read.
pub type ListenerCertificates = BTreeMap<String, Result<PemPair, Refusal>>;

/// Reads the certificates of a gateway's listeners.
pub fn listener_certificates(gateway: &GatewayPlan, secrets: &impl Secrets) -> ListenerCertificates {
    let listeners = gateway.listeners.iter();
    let certified = listeners.filter_map(|listener| Some((listener.name.clone(), listener.tls.as_ref()?)));
    certified.map(|(name, secret)| (name, pair(secret, secrets))).collect()
}

fn pair(secret: &ObjectKey, secrets: &impl Secrets) -> Result<PemPair, Refusal> {
    let [chain, key] = TlsPlan::PAIR.map(|key| {
        secrets.secret(secret, key).map_err(|why| Refusal {
            reason: why.reason(),
            message: why.message(&format!("key {key:?} of Secret {secret}")),
        })
    });
    Ok(PemPair { chain: chain?, key: key? })
}
