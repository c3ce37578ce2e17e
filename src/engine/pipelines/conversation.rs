//! The conversation that a run belongs to. Its id is that of the client's choice, or new: a run stores values for later runs of the same
//! conversation.

use serde::Deserialize;
use serde_json::json;
use uuid::{Builder, Uuid};

use crate::domain::identity::IdentityMethod;
use crate::domain::pipeline::RUN;
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;
use crate::engine::access::seal::Seals;
use crate::engine::chains::routed_call::Routed;

/// The number of bytes of an id that are random; the version is in them.
const RANDOM: usize = 9;

/// The member of `_meta` in which a client names the conversation of a run.
#[derive(Deserialize)]
struct RunMeta {
    conversation: Option<String>,
}

/// Returns the conversation of a call: that which the client names, or a new one. A client without identity can name only one that
/// the gateway began in the same session: no identity keeps others out of a conversation.
///
/// # Errors
/// If the client names no UUID, or has no identity and names a conversation of its own.
pub(super) fn conversation(seals: &Seals, call: &Routed<'_>) -> Result<String, Failure> {
    let caller = &call.facts.caller;
    let is_anonymous = caller.identity.method == IdentityMethod::Anonymous;
    let invalid = |message: &str| Failure::new(Reason::InvalidArguments, format!("_meta {RUN}: {message}"));
    let named = match &call.meta.run {
        Some(meta) => {
            let shape = "give {conversation}, a UUID";
            let meta: RunMeta = serde_json::from_str(meta.get()).map_err(|_| invalid(shape))?;
            let id = meta.conversation.map(|id| Uuid::parse_str(&id));
            id.transpose().map_err(|_| invalid("conversation: it is no UUID"))?
        }
        None => None,
    };
    match named {
        Some(id) if is_anonymous && !is_tagged(seals, &caller.session, id) => {
            let message = "conversation: it was not begun for this client, which proves no identity: leave it out, and use the \
                           one in the answer";
            Err(invalid(message))
        }
        Some(id) => Ok(id.to_string()),
        None if is_anonymous => Ok(tagged(seals, &caller.session).unwrap_or_else(Uuid::new_v4).to_string()),
        None => Ok(Uuid::new_v4().to_string()),
    }
}

/// Returns the text whose tag an id has.
fn text(session: &str, random: &[u8]) -> String {
    json!(["conversation", session, random]).to_string()
}

/// Returns a new id whose last bytes show that the gateway has made it for a session (RFC 9562, version 8). `None` if there are no
/// random numbers.
fn tagged(seals: &Seals, session: &str) -> Option<Uuid> {
    let mut bytes = *Builder::from_custom_bytes(*Uuid::new_v4().as_bytes()).as_uuid().as_bytes();
    let tag = seals.tag(&text(session, &bytes[..RANDOM]))?;
    let rest = bytes.len() - RANDOM;
    bytes[RANDOM..].copy_from_slice(tag.get(..rest)?);
    Some(Uuid::from_bytes(bytes))
}

fn is_tagged(seals: &Seals, session: &str, id: Uuid) -> bool {
    let (random, tag) = id.as_bytes().split_at(RANDOM);
    seals.is_tag(&text(session, random), tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_in_the_session_that_it_was_made_for() {
        let seals = Seals::default();
        let id = tagged(&seals, "s").unwrap();
        assert_eq!((id.get_version_num(), is_tagged(&seals, "s", id)), (8, true));
        assert!(!is_tagged(&seals, "other", id) && !is_tagged(&Seals::default(), "s", id));
        assert!(!is_tagged(&seals, "s", Uuid::new_v4()), "an id of the client's own");
        assert_ne!(tagged(&seals, "s"), tagged(&seals, "s"));
        for place in 0..16 {
            let mut bytes = *id.as_bytes();
            bytes[place] ^= 1;
            assert!(!is_tagged(&seals, "s", Uuid::from_bytes(bytes)), "byte {place}");
        }
    }
}
