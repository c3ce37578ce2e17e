//! Seals what the gateway gives to clients and gets back, such as session ids: only a process that has the key can make or
//! read it. The replicas of a gateway share the key.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::domain::secret::SecretText;

/// The maximum number of keys: the newest, and older ones with which texts of the last day were sealed.
const MAX_KEYS: usize = 8;
/// The size of a key in bytes.
const KEY_BYTES: usize = 32;
/// How to make a key.
const HOW: &str = "make one with `openssl rand -base64 32`";
/// The size in bytes of the nonce with which a sealed text begins.
const NONCE_BYTES: usize = 12;
/// The size in bytes of the tag with which a sealed text ends.
const TAG_BYTES: usize = 16;
/// The maximum length of a sealed text. One can hold the state of a server, which clients bring back.
const MAX_SEALED: usize = 1 << 20;
/// The maximum number of bytes that can be sealed.
pub(crate) const MAX_BYTES: usize = MAX_SEALED / 4 * 3 - NONCE_BYTES - TAG_BYTES;

/// The keys with which texts are sealed. The cipher is AES-256-GCM-SIV: replicas that share a key cannot agree on
/// nonces, and a nonce that is drawn twice must not reveal the key.
pub struct SealKeys {
    /// Seals and opens.
    newest: RandomizedNonceKey,
    /// Keys that only open.
    older: Vec<RandomizedNonceKey>,
    /// The keys of tags, in the same order.
    tags: Vec<hmac::Key>,
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
        let (keys, tags): (Vec<_>, Vec<_>) = keys.into_iter().unzip();
        let mut keys = keys.into_iter();
        let newest = keys.next().ok_or("it has no key: write one, such as `openssl rand -base64 32` prints")?;
        Ok(Self { newest, older: keys.collect(), tags })
    }

    /// Makes a key that nobody else has; `None` if the system provides no random numbers.
    fn random() -> Option<Self> {
        let mut bytes = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        let (newest, tag) = keys_of(&bytes)?;
        Some(Self { newest, older: Vec::new(), tags: vec![tag] })
    }

    /// Returns what the newest key makes of a text, and no other.
    fn tag(&self, text: &str) -> Option<Vec<u8>> {
        Some(hmac::sign(self.tags.first()?, text.as_bytes()).as_ref().to_vec())
    }

    /// Whether one of the keys makes these first bytes of a tag of a text.
    fn is_tag(&self, text: &str, first: &[u8]) -> bool {
        self.tags.iter().any(|key| {
            let tag = hmac::sign(key, text.as_bytes());
            tag.as_ref().get(..first.len()).is_some_and(|own| verify_slices_are_equal(own, first).is_ok())
        })
    }

    /// Seals bytes into a text of URL-safe base64. `context` is authenticated with them, but not contained: the text is
    /// opened only where the same is given again. `None` if the text would be too long, or the system provides no random
    /// numbers.
    fn seal(&self, context: &str, mut bytes: Vec<u8>) -> Option<String> {
        let nonce = self.newest.seal_in_place_append_tag(Aad::from(context), &mut bytes).ok()?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut bytes);
        Some(URL_SAFE_NO_PAD.encode(sealed)).filter(|text| text.len() <= MAX_SEALED)
    }

    /// Opens a text that was sealed in this context. Returns `None` for every other text, whatever is wrong with it.
    fn open(&self, context: &str, text: &str) -> Option<Vec<u8>> {
        let bytes =
            Some(text).filter(|text| text.len() <= MAX_SEALED).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok())?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_BYTES)?;
        std::iter::once(&self.newest).chain(&self.older).find_map(|key| {
            let (nonce, mut sealed) = (Nonce::try_assume_unique_for_key(nonce).ok()?, sealed.to_vec());
            Some(key.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?.to_vec())
        })
    }
}

/// The keys of this process: those that it shares with other replicas, if there are any, and one of its own.
pub struct Seals {
    own: Option<SealKeys>,
    shared: ArcSwapOption<SealKeys>,
}

impl Default for Seals {
    fn default() -> Self {
        Self { own: SealKeys::random(), shared: ArcSwapOption::empty() }
    }
}

impl Seals {
    /// Sets the keys that this process shares with other replicas.
    pub fn share(&self, keys: SealKeys) {
        self.shared.store(Some(Arc::new(keys)));
    }

    /// Whether this process shares keys with other replicas.
    pub fn is_shared(&self) -> bool {
        self.shared.load().is_some()
    }

    /// Returns a tag of a text (HMAC with SHA-256), by which [`Self::is_tag`] finds that this process, or another replica, has seen
    /// the text. `None` if the system provides no random numbers.
    pub fn tag(&self, text: &str) -> Option<Vec<u8>> {
        match &*self.shared.load() {
            Some(keys) => keys.tag(text),
            None => self.own.as_ref()?.tag(text),
        }
    }

    /// Whether these are the first bytes of a tag of the text.
    pub fn is_tag(&self, text: &str, first: &[u8]) -> bool {
        let shared = self.shared.load();
        let mut keys = shared.as_deref().into_iter().chain(&self.own);
        keys.any(|keys| keys.is_tag(text, first))
    }

    /// Seals bytes with the newest key. `context` says what the text is for and by whom it may be used: it is opened only
    /// where the same is given again. `None` if the text would be too long, or the system provides no random numbers.
    pub fn seal(&self, context: &str, bytes: Vec<u8>) -> Option<String> {
        match &*self.shared.load() {
            Some(keys) => keys.seal(context, bytes),
            None => self.own.as_ref()?.seal(context, bytes),
        }
    }

    /// Opens a text that this process sealed in this context, or another replica did.
    pub fn open(&self, context: &str, text: &str) -> Option<Vec<u8>> {
        self.open_shared(context, text).or_else(|| self.own.as_ref()?.open(context, text))
    }

    /// Opens a text that was sealed in this context with keys that replicas share.
    pub fn open_shared(&self, context: &str, text: &str) -> Option<Vec<u8>> {
        self.shared.load().as_deref()?.open(context, text)
    }
}

fn key(line: &str) -> Option<(RandomizedNonceKey, hmac::Key)> {
    keys_of(&STANDARD.decode(line).ok().filter(|bytes| bytes.len() == KEY_BYTES)?)
}

/// Returns the key that seals and the key of tags, which is derived from the bytes so that no key has two uses.
fn keys_of(bytes: &[u8]) -> Option<(RandomizedNonceKey, hmac::Key)> {
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), b"hawsepipe tag 1");
    Some((RandomizedNonceKey::new(&AES_256_GCM_SIV, bytes).ok()?, hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(seeds: &[u8]) -> SealKeys {
        let lines: Vec<_> = seeds.iter().map(|seed| STANDARD.encode([*seed; KEY_BYTES])).collect();
        SealKeys::parse(&SecretText::new(lines.join("\n"))).unwrap_or_else(|why| panic!("{why}"))
    }

    fn sealed(keys: &SealKeys) -> String {
        keys.seal("test", b"bytes".to_vec()).unwrap()
    }

    #[test]
    fn a_text_is_opened_by_every_key_of_the_file_and_by_no_other() {
        let text = sealed(&keys(&[1]));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{text}");
        for (seeds, opens) in [(&[1][..], true), (&[2, 1], true), (&[1, 2], true), (&[2], false)] {
            assert_eq!(keys(seeds).open("test", &text), opens.then(|| b"bytes".to_vec()), "{seeds:?}");
        }
        assert_eq!(keys(&[1]).open("other", &text), None, "what was sealed for something else");
        assert_ne!(sealed(&keys(&[1])), text, "equal bytes are sealed differently");
    }

    #[test]
    fn a_tag_is_that_of_one_text_and_of_the_keys_of_the_file() {
        let tag = keys(&[1]).tag("text").unwrap();
        for (seeds, text, first, is_it) in [
            (&[1][..], "text", 7, true),
            (&[2, 1], "text", 32, true),
            (&[2], "text", 7, false),
            (&[1], "other", 7, false),
        ] {
            assert_eq!(keys(seeds).is_tag(text, &tag[..first]), is_it, "{seeds:?} {text}");
        }
        assert!(!keys(&[1]).is_tag("text", &[7; 33]));
    }

    #[test]
    fn as_many_bytes_are_sealed_as_it_says() {
        let keys = keys(&[1]);
        let sealed = |bytes: usize| keys.seal("test", vec![7; bytes]);
        let most = sealed(MAX_BYTES).and_then(|text| keys.open("test", &text));
        assert_eq!(most.map(|bytes| bytes.len()), Some(MAX_BYTES));
        assert_eq!(sealed(MAX_BYTES + 1), None);
    }

    #[test]
    fn a_text_that_was_changed_in_any_way_is_not_opened() {
        let keys = keys(&[1]);
        let text = sealed(&keys);
        for place in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone().into_bytes();
                changed[place] ^= 1 << bit;
                let Ok(changed) = String::from_utf8(changed) else { continue };
                assert_eq!(keys.open("test", &changed), None, "bit {bit} at {place}");
            }
            assert_eq!(keys.open("test", &text[..place]), None, "cut at {place}");
            assert_eq!(keys.open("test", &text[place + 1..]), None, "cut before {place}");
        }
        for forged in ["", "A", "AAAAAAAAAAAAAAAA", &format!("{text}A"), &format!("{text}="), &"A".repeat(8192)] {
            assert_eq!(keys.open("test", forged), None, "{forged}");
        }
    }

    #[test]
    fn what_a_process_sealed_before_it_got_keys_is_opened_by_it_alone() {
        let (process, other) = (Seals::default(), Seals::default());
        let early = process.seal("test", b"early".to_vec()).unwrap();
        for seals in [&process, &other] {
            assert!(!seals.is_shared());
            seals.share(keys(&[1]));
        }
        let late = process.seal("test", b"late".to_vec()).unwrap();
        assert_eq!((process.open("test", &early), other.open("test", &early)), (Some(b"early".to_vec()), None));
        assert_eq!(process.open_shared("test", &early), None);
        assert_eq!(other.open_shared("test", &late), Some(b"late".to_vec()));
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
