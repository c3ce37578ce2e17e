//! The certificates of the listeners that serve HTTPS. One that cannot be used does not replace the last good one.

use std::collections::BTreeMap;

use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{GatewayPlan, ListenerPlan, Refusal};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::engine::plan::listener_certificates::{ListenerCertificates, PemPair};
use crate::transport::ListenerTls;

/// The last good certificate of each listener, by its name.
#[derive(Default)]
pub struct Certificates(BTreeMap<String, ListenerTls>);

impl Certificates {
    /// Takes the certificates that were found. Returns a Problem for each one that cannot be used.
    pub fn follow(&mut self, gateway: &GatewayPlan, found: &ListenerCertificates) -> Vec<Problem> {
        self.0.retain(|name, _| found.contains_key(name));
        let refused = gateway.listeners.iter().enumerate().filter_map(|(index, listener)| {
            let pair = found.get(&listener.name)?;
            let refusal = self.take(listener, pair.as_ref()).err()?;
            let effect = match self.0.contains_key(&listener.name) {
                true => "the listener keeps its last certificate",
                false => "the listener stays closed",
            };
            let object = ObjectId::new(Kind::MCPGateway, gateway.key.clone());
            let field = format!("spec.listeners[{index}].tls.certificateSecretRef");
            Some(Problem::error(refusal.reason, object, field, format!("{}: {effect}", refusal.message)))
        });
        refused.collect()
    }

    fn take(&mut self, listener: &ListenerPlan, pair: Result<&PemPair, &Refusal>) -> Result<(), Refusal> {
        let PemPair { chain, key } = pair.map_err(Clone::clone)?;
        let (chain, key) = (chain.expose(), key.expose());
        let taken = match self.0.get(&listener.name) {
            Some(known) => known.replace(chain, key).map(|is_other| {
                if is_other {
                    tracing::info!(listener = listener.name, "new connections get another certificate");
                }
            }),
            None => ListenerTls::new(chain, key).map(|new| drop(self.0.insert(listener.name.clone(), new))),
        };
        let secret = listener.tls.as_ref().map(ToString::to_string).unwrap_or_default();
        taken.map_err(|why| Refusal { reason: Reason::InvalidSecret, message: format!("Secret {secret}: {why}") })
    }

    /// Returns the certificate of a listener; `None` if it has none that can be used.
    pub fn of(&self, listener: &ListenerPlan) -> Option<&ListenerTls> {
        self.0.get(&listener.name)
    }
}
