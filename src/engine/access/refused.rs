//! Counts and logs credentials that are refused.

use std::net::IpAddr;

use super::gate::Gate;
use super::refusals::Refusals;
use crate::domain::network::network;
use crate::domain::refusal::{Fault, RefusalKind, TokenFacts};

impl Gate {
    /// Counts a credential that a listener has refused, and logs it: once a minute for each kind, else only with the level debug.
    pub fn refuse_credential(&self, listener: &str, (fault, why): (Fault, &str), facts: TokenFacts, address: IpAddr) {
        self.metrics.access.refused(listener, fault.as_str());
        let kind = RefusalKind::new(listener, fault, &facts, network(address).to_string());
        let RefusalKind { issuer, audience, address, .. } = kind.clone();
        let (reason, is_due) = (fault.as_str(), self.refusals.add(kind, facts, self.clock.unix_millis()));
        // Clients begin without credentials to find out what is accepted.
        if is_due && fault != Fault::NoCredentials {
            tracing::info!(listener, reason, issuer, audience, address, "a credential is refused: {why}");
        } else {
            tracing::debug!(listener, reason, issuer, audience, address, "a credential is refused: {why}");
        }
    }

    /// The credentials that were refused.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}
