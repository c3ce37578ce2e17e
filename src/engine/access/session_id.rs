//! Sealed session ids: they contain, encrypted, what a replica needs to take a session over, and which one began it.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::replica;
use super::seal::Seals;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::ids::ObjectKey;
use crate::domain::version::LEGACY_VERSIONS;

/// The purpose of the seal and the version of the sealed data.
const PURPOSE: &str = "hawsepipe session 2";

/// Who may use a session, and on which endpoint. An id that was sealed for one scope cannot be opened in another.
#[derive(Clone, Copy, Debug)]
pub struct SessionScope<'a> {
    /// The gateway at which the session was begun.
    pub gateway: &'a ObjectKey,
    /// The key of the client's identity.
    pub principal: &'a str,
    /// The upstream whose endpoint the session was begun on; `None` for the endpoint of all upstreams.
    pub upstream: Option<&'a str>,
}

impl SessionScope<'_> {
    /// Returns the data that is authenticated together with an id but is not part of the id.
    fn to_context(self) -> String {
        let Self { gateway, principal, upstream } = self;
        serde_json::json!([PURPOSE, gateway.namespace, gateway.name, principal, upstream]).to_string()
    }
}

/// What a replica needs to know about a session that another replica began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFacts {
    /// The negotiated protocol version.
    #[serde(rename = "v")]
    pub version: String,
    /// Name and version of the client, as it reports them.
    #[serde(rename = "c")]
    pub client: String,
    /// The questions of servers that the client answers, and its extensions.
    #[serde(rename = "q", default, skip_serializing_if = "ClientCapabilities::is_empty")]
    pub capabilities: ClientCapabilities,
    /// When the session was opened, in Unix milliseconds.
    #[serde(rename = "t")]
    pub created_at: u64,
    /// The replica at which the session was opened; `None` if others cannot reach it.
    #[serde(skip)]
    pub replica: Option<SocketAddr>,
}

/// Creates the id of a session; `None` only if the system provides no random numbers.
pub fn seal(seals: &Seals, scope: SessionScope<'_>, session: &SessionFacts) -> Option<String> {
    let mut bytes = Vec::with_capacity(160);
    replica::write(session.replica, &mut bytes);
    serde_json::to_writer(&mut bytes, session).ok()?;
    seals.seal(&scope.to_context(), bytes)
}

/// Opens an id that a replica sealed for this scope. Returns `None` for every other id, whatever is wrong with it.
pub fn open(seals: &Seals, scope: SessionScope<'_>, id: &str) -> Option<SessionFacts> {
    let bytes = seals.open_shared(&scope.to_context(), id)?;
    let (replica, rest) = replica::read(&bytes)?;
    let session = SessionFacts { replica, ..serde_json::from_slice(rest).ok()? };
    LEGACY_VERSIONS.contains(&&*session.version).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::SecretText;
    use crate::engine::access::seal::SealKeys;

    fn seals() -> Seals {
        let seals = Seals::default();
        let key = SecretText::new("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
        seals.share(SealKeys::parse(&key).unwrap_or_else(|why| panic!("{why}")));
        seals
    }

    fn session() -> SessionFacts {
        SessionFacts {
            version: "2025-11-25".into(),
            client: "t 1".into(),
            capabilities: ClientCapabilities::default(),
            created_at: 1_700_000_000_000,
            replica: Some("10.1.2.3:8080".parse().unwrap()),
        }
    }

    #[test]
    fn an_id_is_worth_nothing_elsewhere() {
        let (gateway, other) = (ObjectKey::new("mcp", "main"), ObjectKey::new("mcp", "other"));
        let own = SessionScope { gateway: &gateway, principal: "anonymous", upstream: None };
        let seals = seals();
        let id = seal(&seals, own, &session()).unwrap();
        assert!(id.len() < 160, "{id}");
        for foreign in [
            SessionScope { gateway: &other, ..own },
            SessionScope { principal: "alice", ..own },
            SessionScope { upstream: Some("up"), ..own },
        ] {
            assert_eq!(open(&seals, foreign, &id), None, "{foreign:?}");
        }
        assert_eq!(open(&seals, own, &id), Some(session()));
    }

    #[test]
    fn a_version_that_is_not_spoken_any_more_is_not_opened() {
        let gateway = ObjectKey::new("mcp", "main");
        let own = SessionScope { gateway: &gateway, principal: "anonymous", upstream: None };
        let (seals, old) = (seals(), SessionFacts { version: "2024-10-07".into(), ..session() });
        assert_eq!(open(&seals, own, &seal(&seals, own, &old).unwrap()), None);
    }
}
