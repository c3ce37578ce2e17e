//! What clients bring back: ids that only the gateway can make or read.

use std::net::{IpAddr, SocketAddr};

use hawsepipe::domain::capabilities::ClientCapabilities;
use hawsepipe::domain::ids::ObjectKey;
use hawsepipe::domain::secret::SecretText;
use hawsepipe::domain::version::LEGACY_VERSIONS;
use hawsepipe::engine::SealKeys;
use hawsepipe::engine::access::seal::Seals;
use hawsepipe::engine::access::sealed_id::{IdPurpose, IdScope, NotOpened, SealedId};
use hawsepipe::engine::access::session_id::{self, SessionFacts, SessionScope};

use super::kind;

/// The key of the replicas: a text that opens with it and was not sealed here is forged.
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
/// Bytes before the changes: what is sealed, its replica, when it expires, the number of changes.
const HEAD: usize = 4;
/// Changes of a sealed text, at most.
const CHANGES: usize = 8;
/// Bytes of a change: its kind, its place, a value.
const CHANGE: usize = 3;

/// What is sealed, and for whom (four bytes), changes of the sealed text (three bytes each), and, with a NUL after each,
/// the session or principal, the binding or the client's name, and a text that a client makes up. What was sealed opens to
/// the same, and neither a changed text, nor one that was made up, nor the text of another opens.
pub fn sealed(data: &[u8]) -> String {
    let Some((head, rest)) = data.split_first_chunk::<HEAD>() else { return "nothing".into() };
    let (changes, rest) = rest.split_at(rest.len().min(usize::from(head[3]) % (CHANGES + 1) * CHANGE));
    let mut texts = rest.splitn(3, |byte| *byte == 0);
    let [owner, bound, made_up] = [(); 3].map(|()| texts.next().unwrap_or_default());
    let (Ok(owner), Ok(made_up)) = (std::str::from_utf8(owner), std::str::from_utf8(made_up)) else {
        return "no text".into();
    };
    let seals = Seals::default();
    seals.share(SealKeys::parse(&SecretText::new(KEY)).expect("a key"));
    let (replica, expires) = (replica(head[1]), u64::from(head[2]) << 24);
    let gateway = ObjectKey::new("mcp", "main");
    let sealed: Box<dyn Sealed> = match head[0] % 4 {
        3 => Box::new(OfSession { gateway, owner, facts: facts(bound, made_up, expires, replica) }),
        purpose => {
            let purpose = [IdPurpose::Stream, IdPurpose::Question, IdPurpose::CallState][usize::from(purpose)];
            let id = SealedId { replica, expires_at: expires * 1000, handle: expires, binding: bound.to_vec() };
            Box::new(OfCall { purpose, gateway, owner, id })
        }
    };
    let text = sealed.seal(&seals);
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text} is no id");
    let came = sealed.opens(&seals, &text);
    sealed.is_closed_to_others(&seals, &text);
    assert!(!sealed.may_open(&seals, made_up), "{made_up:?} was made up, and opens");
    let changed = changed(&text, changes);
    assert!(changed == text || !sealed.may_open(&seals, &changed), "{text} opens as {changed:?} too");
    let length = changed.len().cmp(&text.len());
    let made_up = made_up.chars().next().map(|first| (first.is_ascii_alphanumeric(), made_up.len() % 4));
    format!("{came}, {length:?}, {:?}, {made_up:?}", changes.chunks(CHANGE).map(|change| change[0] % 4).max())
}

/// Something that is sealed for one client.
trait Sealed {
    fn seal(&self, seals: &Seals) -> String;

    /// Asserts that this text is opened as what was sealed, and says what that is.
    fn opens(&self, seals: &Seals, text: &str) -> String;

    /// Asserts that no other client, endpoint or gateway opens the text.
    fn is_closed_to_others(&self, seals: &Seals, text: &str);

    /// Whether a text is opened where this may be used, at any time.
    fn may_open(&self, seals: &Seals, text: &str) -> bool;
}

struct OfCall<'a> {
    purpose: IdPurpose,
    gateway: ObjectKey,
    owner: &'a str,
    id: SealedId,
}

impl OfCall<'_> {
    fn scope(&self) -> IdScope<'_> {
        IdScope { purpose: self.purpose, gateway: &self.gateway, session: self.owner }
    }
}

impl Sealed for OfCall<'_> {
    fn seal(&self, seals: &Seals) -> String {
        self.id.seal(seals, self.scope()).expect("random numbers")
    }

    fn opens(&self, seals: &Seals, text: &str) -> String {
        let end = self.id.expires_at;
        assert_eq!(SealedId::open(seals, self.scope(), text, end), Err(NotOpened::Expired), "it is valid for ever");
        if let Some(before) = end.checked_sub(1) {
            assert_eq!(
                SealedId::open(seals, self.scope(), text, before).as_ref(),
                Ok(&self.id),
                "it says another thing"
            );
        }
        let replica = self.id.replica.map(|replica| replica.is_ipv4());
        format!("{:?}, {replica:?}, {}", self.purpose, self.id.binding.len().min(17))
    }

    fn is_closed_to_others(&self, seals: &Seals, text: &str) {
        let (gateway, session) = (ObjectKey::new("mcp", "other"), format!("{}x", self.owner));
        let purposes = [IdPurpose::Stream, IdPurpose::Question, IdPurpose::CallState];
        let other_purposes = purposes.into_iter().filter(|purpose| *purpose != self.purpose);
        let scopes = other_purposes.map(|purpose| IdScope { purpose, ..self.scope() });
        let scopes = scopes
            .chain([IdScope { gateway: &gateway, ..self.scope() }, IdScope { session: &session, ..self.scope() }]);
        for scope in scopes {
            assert_eq!(SealedId::open(seals, scope, text, 0), Err(NotOpened::Foreign), "{scope:?} is another's");
        }
        assert_eq!(
            SealedId::open(&Seals::default(), self.scope(), text, 0),
            Err(NotOpened::Foreign),
            "without the key"
        );
    }

    fn may_open(&self, seals: &Seals, text: &str) -> bool {
        SealedId::open(seals, self.scope(), text, 0) != Err(NotOpened::Foreign)
    }
}

struct OfSession<'a> {
    gateway: ObjectKey,
    owner: &'a str,
    facts: SessionFacts,
}

impl OfSession<'_> {
    fn scope(&self) -> SessionScope<'_> {
        SessionScope { gateway: &self.gateway, principal: self.owner, upstream: None }
    }
}

impl Sealed for OfSession<'_> {
    fn seal(&self, seals: &Seals) -> String {
        session_id::seal(seals, self.scope(), &self.facts).expect("random numbers")
    }

    fn opens(&self, seals: &Seals, text: &str) -> String {
        let opened = session_id::open(seals, self.scope(), text);
        assert_eq!(opened.as_ref(), Some(&self.facts), "the session is another");
        let SessionFacts { version, client, capabilities, replica, .. } = &self.facts;
        let client = (client.len().min(3), kind(client).len() == client.len());
        format!("session of {version}, {client:?}, {}, {:?}", *capabilities == Default::default(), replica.is_some())
    }

    fn is_closed_to_others(&self, seals: &Seals, text: &str) {
        let (gateway, principal) = (ObjectKey::new("other", "main"), format!("{}x", self.owner));
        for scope in [
            SessionScope { gateway: &gateway, ..self.scope() },
            SessionScope { principal: &principal, ..self.scope() },
            SessionScope { upstream: Some(self.owner), ..self.scope() },
            SessionScope { upstream: Some(""), ..self.scope() },
        ] {
            assert_eq!(session_id::open(seals, scope, text), None, "{scope:?} is another's");
        }
        assert_eq!(session_id::open(&Seals::default(), self.scope(), text), None, "without the key");
    }

    fn may_open(&self, seals: &Seals, text: &str) -> bool {
        session_id::open(seals, self.scope(), text).is_some()
    }
}

/// A session of a client of this name that declares these capabilities.
fn facts(client: &[u8], capabilities: &str, created_at: u64, replica: Option<SocketAddr>) -> SessionFacts {
    SessionFacts {
        version: LEGACY_VERSIONS[client.len() % LEGACY_VERSIONS.len()].to_owned(),
        client: String::from_utf8_lossy(client).into_owned(),
        capabilities: ClientCapabilities::read(serde_json::from_str(capabilities).ok()),
        created_at,
        replica,
    }
}

fn replica(from: u8) -> Option<SocketAddr> {
    let ip: IpAddr = match from % 3 {
        0 => return None,
        1 => [10, 0, from, 1].into(),
        _ => [0xfd00, 0, 0, 0, 0, 0, u16::from(from), 1].into(),
    };
    Some(SocketAddr::new(ip, u16::from(from) << 8))
}

/// A text with these changes, as far as it stays text.
fn changed(text: &str, changes: &[u8]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for change in changes.chunks_exact(CHANGE) {
        // From the end too, where base64 has bits that are no part of any byte.
        let at = match change[1] {
            place @ 0..128 => usize::from(place).min(bytes.len()),
            place => bytes.len().saturating_sub(usize::from(u8::MAX - place)),
        };
        match change[0] % 4 {
            0 if at < bytes.len() => bytes[at] ^= change[2],
            1 => bytes.insert(at, change[2]),
            2 => bytes.truncate(at),
            _ => drop(bytes.drain(..at.min(usize::from(change[2])))),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
