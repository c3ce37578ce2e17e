//! Sealed ids of what one process has: the stream of a call, a question, a call that waits for input, a task. Their clients
//! send them back, maybe to another replica, which reads in them where the thing is.

use std::net::SocketAddr;

use super::replica;
use super::seal::Seals;
use crate::domain::ids::ObjectKey;

/// What a sealed id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdPurpose {
    /// The stream of a call. The ids of its events begin with it.
    Stream,
    /// A question to a client.
    Question,
    /// A call that waits for input, in `requestState`.
    CallState,
    /// A run of a pipeline that goes on as a task. Clients get it within the id of the task.
    Task,
}

impl IdPurpose {
    /// Returns the purpose of the seal and the version of the sealed data.
    fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "hawsepipe stream 1",
            Self::Question => "hawsepipe question 1",
            Self::CallState => "hawsepipe call state 1",
            Self::Task => "hawsepipe run task 1",
        }
    }
}

/// Where a sealed id may be used. An id that was sealed for one scope cannot be opened in another.
#[derive(Clone, Copy, Debug)]
pub struct IdScope<'a> {
    /// What the id names.
    pub purpose: IdPurpose,
    /// The gateway.
    pub gateway: &'a ObjectKey,
    /// The id of the session; empty if there is none.
    pub session: &'a str,
}

impl IdScope<'_> {
    fn to_context(self) -> String {
        let Self { purpose, gateway, session } = self;
        serde_json::json!([purpose.as_str(), gateway.namespace, gateway.name, session]).to_string()
    }
}

/// What a sealed id says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedId {
    /// The replica that made the id; `None` if others cannot reach it.
    pub replica: Option<SocketAddr>,
    /// The end of the id's validity, in Unix milliseconds. Sealed in whole seconds.
    pub expires_at: u64,
    /// The number by which the replica finds what the id names.
    pub handle: u64,
    /// A digest of what the id is bound to besides its scope; empty if to nothing.
    pub binding: Vec<u8>,
}

/// Why a text is not a valid sealed id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// No replica of this gateway sealed it for this scope.
    Foreign,
    /// It was valid once.
    Expired,
}

impl SealedId {
    /// Seals the id; `None` only if the system provides no random numbers.
    pub fn seal(&self, seals: &Seals, scope: IdScope<'_>) -> Option<String> {
        let mut bytes = Vec::with_capacity(64);
        replica::write(self.replica, &mut bytes);
        bytes.extend(u32::try_from(self.expires_at / 1000).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(self.handle.to_be_bytes());
        bytes.extend(&self.binding);
        seals.seal(&scope.to_context(), bytes)
    }

    /// Opens an id that was sealed for this scope. `now` is in Unix milliseconds.
    ///
    /// # Errors
    /// If the text is no such id, or one that is not valid any more.
    pub fn open(seals: &Seals, scope: IdScope<'_>, text: &str, now: u64) -> Result<Self, NotOpened> {
        let bytes = seals.open(&scope.to_context(), text).ok_or(NotOpened::Foreign)?;
        let id = Self::read(&bytes).ok_or(NotOpened::Foreign)?;
        if id.expires_at > now { Ok(id) } else { Err(NotOpened::Expired) }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (replica, rest) = replica::read(bytes)?;
        let (expires, rest) = rest.split_first_chunk()?;
        let (handle, binding) = rest.split_first_chunk()?;
        let (expires_at, handle) = (u64::from(u32::from_be_bytes(*expires)) * 1000, u64::from_be_bytes(*handle));
        Some(Self { replica, expires_at, handle, binding: binding.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SealedId {
        let replica = Some("[fd00:1234:5678:9abc:def0:1234:5678:9abc]:65535".parse().unwrap());
        SealedId { replica, expires_at: 1_700_000_000_000, handle: u64::MAX - 1, binding: Vec::new() }
    }

    #[test]
    fn an_id_is_short_and_says_what_was_sealed() {
        let (seals, gateway) = (Seals::default(), ObjectKey::new("mcp", "main"));
        let scope = IdScope { purpose: IdPurpose::Stream, gateway: &gateway, session: "s" };
        for id in [id(), SealedId { replica: None, ..id() }, SealedId { binding: vec![7; 16], ..id() }] {
            let text = id.seal(&seals, scope).unwrap();
            assert!(text.len() < 110, "{text}");
            assert_eq!(SealedId::open(&seals, scope, &text, 1_699_999_999_999), Ok(id.clone()));
            assert_eq!(SealedId::open(&seals, scope, &text, 1_700_000_000_000), Err(NotOpened::Expired));
        }
    }

    #[test]
    fn an_id_is_worth_nothing_in_another_scope_and_changed_in_no_part() {
        let (gateway, other) = (ObjectKey::new("mcp", "main"), ObjectKey::new("mcp", "other"));
        let scope = IdScope { purpose: IdPurpose::Question, gateway: &gateway, session: "s" };
        let (seals, foreign_seals) = (Seals::default(), Seals::default());
        let text = id().seal(&seals, scope).unwrap();
        let open = |seals: &Seals, scope: IdScope<'_>, text: &str| SealedId::open(seals, scope, text, 0);
        assert!(open(&seals, scope, &text).is_ok());
        for foreign in [
            IdScope { purpose: IdPurpose::Stream, ..scope },
            IdScope { purpose: IdPurpose::CallState, ..scope },
            IdScope { purpose: IdPurpose::Task, ..scope },
            IdScope { gateway: &other, ..scope },
            IdScope { session: "t", ..scope },
            IdScope { session: "", ..scope },
        ] {
            assert_eq!(open(&seals, foreign, &text), Err(NotOpened::Foreign), "{foreign:?}");
        }
        assert_eq!(open(&foreign_seals, scope, &text), Err(NotOpened::Foreign));
        // The parts stand in a row: address, expiry, number. A change of any of them is seen.
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(open(&seals, scope, &changed), Err(NotOpened::Foreign), "{place}");
        }
    }
}
