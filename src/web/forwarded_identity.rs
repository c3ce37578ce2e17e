//! The identity of a client whose request another replica forwards. A token has room for its key and its subject; groups, scopes
//! and claims, which rules read, are sealed and stand behind the body.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;

use crate::domain::identity::Identity;
use crate::domain::ids::ObjectKey;
use crate::engine::access::seal::Seals;

/// The purpose of the seal, and the version of the sealed data.
const IDENTITY: &str = "hawsepipe forward identity 1";
/// The maximum size of a sealed identity, in bytes. A larger one stays with the replica that has checked it.
pub(super) const MAX_IDENTITY: u64 = 64 << 10;

/// Returns the body with the sealed identity of its client behind it, and the size of that; the body alone if the identity is too
/// large, or is not known whole here either.
pub(super) fn with_identity(seals: &Seals, gateway: &ObjectKey, body: Bytes, identity: &Identity) -> (Bytes, u64) {
    if !identity.is_whole() || identity.is_anonymous() {
        return (body, 0);
    }
    let sealed = serde_json::to_vec(identity).ok().and_then(|identity| seals.seal(&context(gateway), identity));
    let Some(sealed) = sealed.filter(|sealed| sealed.len() as u64 <= MAX_IDENTITY) else { return (body, 0) };
    let mut both = BytesMut::with_capacity(body.len() + sealed.len());
    both.put(body);
    both.put(sealed.as_bytes());
    (both.freeze(), sealed.len() as u64)
}

/// Takes the sealed identity of this size off the end of a body. `None` if no replica of the gateway sealed it.
pub(super) fn take_identity(seals: &Seals, gateway: &ObjectKey, body: &mut Bytes, size: u64) -> Option<Identity> {
    let at = body.len().checked_sub(usize::try_from(size).ok()?)?;
    let sealed = body.split_off(at);
    let opened = seals.open_shared(&context(gateway), std::str::from_utf8(&sealed).ok()?)?;
    serde_json::from_slice(&opened).ok()
}

fn context(gateway: &ObjectKey) -> String {
    json!([IDENTITY, gateway.namespace, gateway.name]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::identity::IdentityMethod;
    use crate::domain::secret::SecretText;
    use crate::engine::SealKeys;

    fn seals() -> Seals {
        let (seals, key) = (Seals::default(), SecretText::new("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="));
        seals.share(SealKeys::parse(&key).unwrap_or_else(|why| panic!("{why}")));
        seals
    }

    fn ann(groups: usize) -> Identity {
        let mut ann = Identity::new(IdentityMethod::Jwt, "https://issuer.example", "ann".to_owned()).unwrap();
        ann.groups = (0..groups).map(|n| format!("group-{n}")).collect();
        ann.claims.insert("tenant".to_owned(), json!({"id": 7}));
        ann
    }

    #[test]
    fn an_identity_travels_whole_behind_the_body() {
        let (seals, gateway, ann) = (seals(), ObjectKey::new("mcp", "main"), ann(200));
        let (mut body, size) = with_identity(&seals, &gateway, Bytes::from_static(b"{}"), &ann);
        assert!(!body.windows(7).any(|part| part == b"group-7"), "it is not in clear");
        let foreign = take_identity(&seals, &ObjectKey::new("mcp", "other"), &mut body.clone(), size);
        assert!(foreign.is_none(), "another gateway has sealed it");
        let read = take_identity(&seals, &gateway, &mut body, size).unwrap();
        assert_eq!((&*body, read.key(), &read.groups, &read.claims), (&b"{}"[..], ann.key(), &ann.groups, &ann.claims));
        assert!(read.is_whole() && read.method == IdentityMethod::Jwt);
    }

    #[test]
    fn an_identity_that_is_large_or_not_whole_stays() {
        let (seals, gateway) = (seals(), ObjectKey::new("mcp", "main"));
        for identity in [ann(10_000), Identity::forwarded("jwt:1", "ann"), Identity::forwarded("anonymous", "")] {
            assert_eq!(with_identity(&seals, &gateway, Bytes::from_static(b"{}"), &identity).1, 0);
        }
        assert!(take_identity(&seals, &gateway, &mut Bytes::from_static(b"{}"), 3).is_none());
    }
}
