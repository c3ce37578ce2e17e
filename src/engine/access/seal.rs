//! Sealed session ids: they contain, encrypted, what a replica needs to take a session over. The replicas of a gateway
//! share the key.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use crate::domain::capabilities::ClientCapabilities;
use crate::domain::ids::ObjectKey;
use crate::domain::secret::SecretText;
use crate::domain::version::LEGACY_VERSIONS;

/// The maximum number of keys: the newest, and older ones with which ids of the last day were sealed.
const MAX_KEYS: usize = 8;
/// The size of a key in bytes.
const KEY_BYTES: usize = 32;
/// How to make a key.
const HOW: &str = "make one with `openssl rand -base64 32`";
/// The size in bytes of the nonce with which an id begins.
const NONCE_BYTES: usize = 12;
/// The maximum length of an id that is read. The ids that this gateway makes are shorter: the extensions of a client are
/// bounded.
const MAX_ID: usize = 4096;
/// The purpose of the seal and the version of the sealed data. Both are authenticated with each id.
const PURPOSE: &str = "hawsepipe session 1";

/// Who may use a session, and on which endpoint. An id that was sealed for one scope cannot be opened in another.
#[derive(Clone, Copy, Debug)]
pub struct SessionScope<'a> {
    /// The gateway at which the session was begun.
    pub gateway: &'a ObjectKey,
    /// The client's principal.
    pub principal: &'a str,
    /// The upstream whose endpoint the session was begun on; `None` for the endpoint of all upstreams.
    pub upstream: Option<&'a str>,
}

impl SessionScope<'_> {
    /// Returns the data that is authenticated together with an id but is not part of the id.
    fn to_aad(self) -> Vec<u8> {
        let Self { gateway, principal, upstream } = self;
        serde_json::json!([PURPOSE, gateway.namespace, gateway.name, principal, upstream]).to_string().into_bytes()
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
}

/// The keys with which session ids are sealed. The cipher is AES-256-GCM-SIV: replicas that share a key cannot agree on
/// nonces, and a nonce that is drawn twice must not reveal the key.
pub struct SealKeys {
    /// Seals new ids, and opens ids.
    newest: RandomizedNonceKey,
    /// Keys that only open ids.
    older: Vec<RandomizedNonceKey>,
}

impl SealKeys {
    /// Parses keys: one line of base64 for each key, the newest first. Empty lines are skipped.
    ///
    /// # Errors
    /// Says which line is wrong and why, without the text of the line.
    pub fn parse(text: &SecretText) -> Result<Self, String> {
        let lines = text.expose().lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
        let mut keys = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            if keys.len() == MAX_KEYS {
                return Err(format!("line {number}: there are more than {MAX_KEYS} keys: remove the oldest"));
            }
            if STANDARD.decode(line).is_ok_and(|bytes| bytes == [0; KEY_BYTES]) {
                return Err(format!("line {number} is {KEY_BYTES} zeros, which anybody can guess: {HOW}"));
            }
            keys.push(key(line).ok_or_else(|| format!("line {number} is not the base64 of {KEY_BYTES} bytes: {HOW}"))?);
        }
        let mut keys = keys.into_iter();
        let newest = keys.next().ok_or("it has no key: write one, such as `openssl rand -base64 32` prints")?;
        Ok(Self { newest, older: keys.collect() })
    }

    /// Creates a key that no other process has; `None` only if the system provides no random numbers.
    pub(super) fn of_process() -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        let newest = RandomizedNonceKey::new(&AES_256_GCM_SIV, &bytes).ok()?;
        Some(Self { newest, older: Vec::new() })
    }

    /// Creates the id of a session; `None` only if the system provides no random numbers.
    pub(super) fn seal(&self, scope: SessionScope<'_>, session: &SessionFacts) -> Option<String> {
        self.seal_bytes(&scope.to_aad(), serde_json::to_vec(session).ok()?)
    }

    /// Opens an id that was sealed for this scope. Returns `None` for every other id, whatever is wrong with it.
    pub(super) fn open(&self, scope: SessionScope<'_>, id: &str) -> Option<SessionFacts> {
        let opened = self.open_bytes(&scope.to_aad(), Some(id).filter(|id| id.len() <= MAX_ID)?)?;
        let session: SessionFacts = serde_json::from_slice(&opened).ok()?;
        LEGACY_VERSIONS.contains(&&*session.version).then_some(session)
    }

    /// Encrypts a text; `scope` is authenticated with it. `None` only if the system provides no random numbers.
    pub(super) fn seal_bytes(&self, scope: &[u8], mut text: Vec<u8>) -> Option<String> {
        let nonce = self.newest.seal_in_place_append_tag(Aad::from(scope), &mut text).ok()?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut text);
        Some(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Decrypts what was sealed for this scope. Returns `None` for everything else, whatever is wrong with it.
    pub(super) fn open_bytes(&self, scope: &[u8], sealed: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
        let mut keys = std::iter::once(&self.newest).chain(&self.older);
        keys.find_map(|key| {
            let (nonce, mut sealed) = (Nonce::try_assume_unique_for_key(nonce).ok()?, sealed.to_vec());
            Some(key.open_in_place(nonce, Aad::from(scope), &mut sealed).ok()?.to_vec())
        })
    }
}

fn key(line: &str) -> Option<RandomizedNonceKey> {
    let bytes = STANDARD.decode(line).ok().filter(|bytes| bytes.len() == KEY_BYTES)?;
    RandomizedNonceKey::new(&AES_256_GCM_SIV, &bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(seeds: &[u8]) -> SealKeys {
        let lines: Vec<_> = seeds.iter().map(|seed| STANDARD.encode([*seed; KEY_BYTES])).collect();
        SealKeys::parse(&SecretText::new(lines.join("\n"))).unwrap_or_else(|why| panic!("{why}"))
    }

    fn session() -> SessionFacts {
        let capabilities = ClientCapabilities::default();
        SessionFacts { version: "2025-11-25".into(), client: "t 1".into(), capabilities, created_at: 7 }
    }

    fn scope(gateway: &ObjectKey) -> SessionScope<'_> {
        SessionScope { gateway, principal: "anonymous", upstream: None }
    }

    #[test]
    fn an_id_is_opened_by_every_key_of_the_file_and_by_no_other() {
        let gateway = ObjectKey::new("mcp", "main");
        let id = keys(&[1]).seal(scope(&gateway), &session()).unwrap();
        assert!(id.len() < 160 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{id}");
        for (seeds, opens) in [(&[1][..], true), (&[2, 1], true), (&[1, 2], true), (&[2], false)] {
            assert_eq!(keys(seeds).open(scope(&gateway), &id), opens.then(session), "{seeds:?}");
        }
        assert_ne!(keys(&[1]).seal(scope(&gateway), &session()).unwrap(), id, "ids of equal sessions differ");
    }

    #[test]
    fn an_id_is_worth_nothing_elsewhere() {
        let (gateway, other) = (ObjectKey::new("mcp", "main"), ObjectKey::new("mcp", "other"));
        let (keys, own) = (keys(&[1]), scope(&gateway));
        let id = keys.seal(own, &session()).unwrap();
        for foreign in [
            SessionScope { gateway: &other, ..own },
            SessionScope { principal: "alice", ..own },
            SessionScope { upstream: Some("up"), ..own },
        ] {
            assert_eq!(keys.open(foreign, &id), None, "{foreign:?}");
        }
        assert!(keys.open(own, &id).is_some());
    }

    #[test]
    fn an_id_that_was_changed_in_any_way_is_not_opened() {
        let gateway = ObjectKey::new("mcp", "main");
        let (keys, own) = (keys(&[1]), scope(&gateway));
        let id = keys.seal(own, &session()).unwrap();
        for place in 0..id.len() {
            for bit in 0..8 {
                let mut changed = id.clone().into_bytes();
                changed[place] ^= 1 << bit;
                let Ok(changed) = String::from_utf8(changed) else { continue };
                assert_eq!(keys.open(own, &changed), None, "bit {bit} at {place}");
            }
            assert_eq!(keys.open(own, &id[..place]), None, "cut at {place}");
            assert_eq!(keys.open(own, &id[place + 1..]), None, "cut before {place}");
        }
        for forged in ["", "A", "AAAAAAAAAAAAAAAA", &format!("{id}A"), &format!("{id}="), &"A".repeat(8192)] {
            assert_eq!(keys.open(own, forged), None, "{forged}");
        }
    }

    #[test]
    fn a_version_that_is_not_spoken_any_more_is_not_opened() {
        let gateway = ObjectKey::new("mcp", "main");
        let (keys, own) = (keys(&[1]), scope(&gateway));
        let old = SessionFacts { version: "2024-11-05".into(), ..session() };
        assert_eq!(keys.open(own, &keys.seal(own, &old).unwrap()), None);
    }

    #[test]
    fn a_file_that_is_wrong_is_told_by_its_line_alone() {
        let good = STANDARD.encode([1; KEY_BYTES]);
        let wrong = |text: &str| SealKeys::parse(&SecretText::new(text)).map(|_| ()).unwrap_err();
        let secret = "c2VjcmV0IHNlY3JldA==";
        let message = wrong(&format!("\n{good}\n{secret}\n"));
        assert!(message.starts_with("line 3 is not the base64 of 32 bytes") && !message.contains(secret), "{message}");
        assert!(wrong(" \n").contains("openssl rand -base64 32"));
        assert!(wrong(&STANDARD.encode([0; KEY_BYTES])).starts_with("line 1 is 32 zeros"));
        assert!(wrong(&format!("{good}\n").repeat(MAX_KEYS + 1)).contains("more than 8 keys"));
        assert!(SealKeys::parse(&SecretText::new(format!("{good}\n").repeat(MAX_KEYS))).is_ok());
    }
}
