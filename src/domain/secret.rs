//! Secret values, masks that hide them in text, and the reasons why a value can be missing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use memchr::memmem;

use super::ids::ObjectKey;
use super::json_spellings::spellings;
use super::plan::{Plan, StorePlan, TlsPlan, ValueSource};
use super::reason::Reason;
use super::report::SecretState;

/// Maximum size of a secret value in bytes, which is the size limit of a Kubernetes Secret.
pub const MAX_VALUE: usize = 1 << 20;

/// Text from a Secret or an environment variable. It cannot be printed, logged or serialized by accident.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the value. Only call this where the value itself is needed.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The text that replaces a value in masked text.
pub(super) const HIDDEN: &str = "[secret]";
/// Minimum length of a value that is masked, in bytes. Shorter values (`1`, `yes`) occur in too many ordinary texts.
const SHORTEST: usize = 4;
/// What stands before credentials in an `Authorization` header (RFC 9110, 11.4): registered schemes, and those that services
/// made up.
const SCHEMES: [&str; 9] = ["basic", "bearer", "dpop", "negotiate", "oauth", "token", "apikey", "api-key", "key"];

/// Hides secret values in text that plugins and servers write.
#[derive(Clone, Default)]
pub struct Mask {
    /// The longest first: a value can contain another, and masking the shorter one first would reveal the rest of the
    /// longer one.
    words: Vec<SecretText>,
    /// How each word begins, and its place in `words`; sorted. One value has up to 18 spellings, and a Secret can have
    /// thousands of lines, so what is read is looked through once for these, and not once for each word. An automaton of
    /// the whole words would take many times their memory, and a mask is made for each call.
    starts: Vec<(u32, usize)>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mask").field(&self.words).finish()
    }
}

impl Mask {
    /// Creates a mask of these values. The single lines of a value are masked too, because logs are split into lines.
    /// Of one that begins with an authentication scheme, only the credentials are. So are the JSON encodings of all these.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a SecretText>) -> Self {
        let mut words = BTreeSet::new();
        for value in values.into_iter().map(SecretText::expose) {
            let parts = std::iter::once(value).chain(value.lines());
            for word in parts.map(|part| credentials(part).unwrap_or(part).trim()).filter(|word| word.len() >= SHORTEST)
            {
                words.extend(spellings(word));
                words.insert(word.to_owned());
            }
        }
        let mut words: Vec<_> = words.into_iter().map(SecretText).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.0.len()));
        let starts = words.iter().enumerate().filter_map(|(at, word)| Some((windows(&word.0).next()?, at)));
        let mut starts: Vec<_> = starts.collect();
        starts.sort_unstable();
        Self { words, starts }
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Replaces each value in `text` with `[secret]`. A long text may have been cut within a value, so the beginning of
    /// a value at the end of `text` is replaced too.
    pub fn masked<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let text = text.into();
        let words = self.candidates(&text);
        let text = without(text, &words);
        let end = text.strip_suffix("...").unwrap_or(&text).len();
        match words.iter().filter_map(|word| begins_at(&text[..end], word)).min() {
            Some(at) => format!("{}{HIDDEN}{}", &text[..at], &text[end..]).into(),
            None => text,
        }
    }

    /// Replaces each value in `text` with `[secret]`, for text that nobody cuts: names, for example, can end as a value
    /// begins.
    pub fn masked_whole<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let text = text.into();
        let words = self.candidates(&text);
        without(text, &words)
    }

    /// Returns the words whose first bytes stand in `text`, the longest first. No other word is in it, and no other word
    /// begins at its end.
    fn candidates(&self, text: &str) -> Vec<&str> {
        if self.starts.is_empty() {
            return Vec::new();
        }
        let of = |start| {
            let from = self.starts.partition_point(|(known, _)| *known < start);
            self.starts[from..].iter().take_while(move |(known, _)| *known == start)
        };
        let found: BTreeSet<u32> = windows(text).filter(|start| of(*start).next().is_some()).collect();
        let mut places: Vec<_> = found.into_iter().flat_map(of).map(|(_, at)| *at).collect();
        places.sort_unstable();
        places.into_iter().map(|at| self.words[at].expose()).collect()
    }

    /// Returns text that a server wrote, for a log or a message: masked, without white space at the end, and with spaces
    /// in the place of control characters other than tabs.
    pub fn printable(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = self.masked(&*text);
        text.trim_end().chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
    }
}

/// Returns each [`SHORTEST`] bytes of `text` that follow each other.
fn windows(text: &str) -> impl Iterator<Item = u32> {
    text.as_bytes().array_windows().map(|bytes: &[u8; SHORTEST]| u32::from_be_bytes(*bytes))
}

/// Replaces each of `words` in `text`.
fn without<'a>(text: Cow<'a, str>, words: &[&str]) -> Cow<'a, str> {
    words.iter().fold(text, |text, word| match memmem::find(text.as_bytes(), word.as_bytes()) {
        Some(_) => text.replace(word, HIDDEN).into(),
        None => text,
    })
}

/// Returns the credentials of a value that begins with an authentication scheme, if they are long enough to be masked.
fn credentials(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    let is_long = credentials.trim().len() >= SHORTEST;
    (is_long && SCHEMES.contains(&&*scheme.to_ascii_lowercase())).then_some(credentials)
}

/// Returns the first position from which the rest of `text` is the beginning of `word`; `None` if there is no such rest
/// of at least [`SHORTEST`] bytes.
fn begins_at(text: &str, word: &str) -> Option<usize> {
    let from = (text.len() + 1).saturating_sub(word.len());
    let mut starts = (from..(text.len() + 1).saturating_sub(SHORTEST)).filter(|at| text.is_char_boundary(*at));
    starts.find(|at| word.starts_with(&text[*at..]))
}

/// Converts the bytes of a value to text. A final newline is removed, because editors add one that is not meant to be
/// part of the value.
///
/// # Errors
/// `Invalid` if the bytes are not UTF-8, or more than [`MAX_VALUE`].
pub fn text_of(bytes: &[u8]) -> Result<SecretText, NoSecret> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_VALUE).ok_or(NoSecret::Invalid)?;
    Ok(SecretText::new(text.strip_suffix('\n').unwrap_or(text)))
}

/// Returns the value if a header of HTTP can have it.
///
/// # Errors
/// `NotHeader` if it cannot; see [`fits_header`].
pub fn header_value(value: SecretText) -> Result<SecretText, NoSecret> {
    if fits_header(value.expose()) { Ok(value) } else { Err(NoSecret::NotHeader) }
}

/// Whether a header of HTTP can have this value (RFC 9110, 5.5): it has no control characters but tabs.
pub fn fits_header(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control())
}

/// Returns the Secrets and keys that a plan names, sorted and without duplicates.
pub fn secret_uses(plan: &Plan) -> BTreeSet<(&ObjectKey, &str)> {
    let upstreams = plan.upstreams.iter().flat_map(|upstream| upstream.transport.values());
    let values = upstreams.chain(plan.plugins.iter().flat_map(|plugin| &plugin.env));
    let named = values.filter_map(|named| match &named.value {
        ValueSource::Secret { secret, key, .. } => Some((secret, key.as_str())),
        ValueSource::Literal(_) | ValueSource::Environment(_) => None,
    });
    let store = plan.gateway.history.store.iter().filter_map(|store| match store {
        StorePlan::Postgres { secret, key } => Some((secret, key.as_str())),
        StorePlan::Embedded { .. } => None,
    });
    let admin = plan.gateway.admin_methods.secret.as_ref().map(|(secret, key)| (secret, key.as_str()));
    let certificates = plan.gateway.listeners.iter().filter_map(|listener| listener.tls.as_ref());
    let certificates = certificates.flat_map(|secret| TlsPlan::PAIR.map(|key| (secret, key)));
    named.chain(store).chain(admin).chain(certificates).collect()
}

/// Why a secret value is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSecret {
    /// There is no such Secret, or no such key in it.
    NotFound,
    /// The Secret is in another namespace, and its owner has not granted it.
    NotGranted,
    /// The value is not UTF-8 text, or too large.
    Invalid,
    /// The value has a character that no header of HTTP can have.
    NotHeader,
    /// The Secret could not be read yet.
    NotRead,
}

impl NoSecret {
    /// Returns the reason for a Problem.
    pub fn reason(self) -> Reason {
        match self {
            Self::NotFound | Self::NotRead => Reason::SecretNotFound,
            Self::NotGranted => Reason::SecretNotGranted,
            Self::Invalid | Self::NotHeader => Reason::InvalidSecret,
        }
    }

    /// Returns the state for a pod's report.
    pub fn state(self) -> SecretState {
        match self {
            Self::NotFound | Self::NotRead => SecretState::NotFound,
            Self::NotGranted => SecretState::NotGranted,
            Self::Invalid | Self::NotHeader => SecretState::Invalid,
        }
    }

    /// Returns the message for users. `place` describes the value, such as `key "a" of Secret b/c`.
    pub fn message(self, place: &str) -> String {
        match self {
            Self::NotFound => format!("there is no {place}"),
            Self::NotRead => format!("the API server has not said yet whether there is {place}"),
            Self::NotGranted => format!(
                "{place} is not granted to this gateway: its owner has to bind the gateway's service account to a Role \
                 with get and watch on it"
            ),
            Self::Invalid => format!("{place} is not UTF-8 text, or larger than {MAX_VALUE} bytes"),
            Self::NotHeader => format!("{place} has a line break or another control character, perhaps at its end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(values: &[&str]) -> Mask {
        Mask::of(&values.iter().map(|value| SecretText::new(*value)).collect::<Vec<_>>())
    }

    #[test]
    fn values_are_hidden_wherever_they_stand() {
        let mask = mask(&["swordfish", "hunter2", "sword", "yes"]);
        assert_eq!(mask.masked("a swordfish, hunter2, a swordfish!"), "a [secret], [secret], a [secret]!");
        assert_eq!(mask.masked("a sword, yes"), "a [secret], yes");
        assert!(matches!(mask.masked("nothing"), Cow::Borrowed("nothing")));
        assert!(matches!(Mask::default().masked(""), Cow::Borrowed("")));
    }

    #[test]
    fn a_header_has_no_control_characters_but_tabs() {
        for (text, fits) in [
            ("", true),
            ("a\tb", true),
            ("é\u{85}", true),
            ("a\nb", false),
            ("a\r", false),
            ("\0", false),
            ("\x7f", false),
        ] {
            let expected = if fits { Ok(SecretText::new(text)) } else { Err(NoSecret::NotHeader) };
            assert_eq!(header_value(SecretText::new(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn credentials_are_hidden_without_their_scheme() {
        let short = mask(&["key abc"]);
        let mask = mask(&["Bearer swordfish", "a plain sentence"]);
        assert_eq!(mask.masked("bad token swordfish, plain"), "bad token [secret], plain");
        assert_eq!(mask.masked("Bearer swordfish, not Bearer"), "Bearer [secret], not Bearer");
        assert_eq!(short.masked("is key abc"), "is [secret]");
    }

    #[test]
    fn lines_and_escapes_do_not_give_them_away() {
        let key = "-----BEGIN KEY-----\nMIIEow\"IBA\n-----END KEY-----\n";
        let mask = mask(&[key]);
        for said in
            [key.to_owned(), serde_json::Value::from(key).to_string(), "at MIIEow\"IBA".into(), format!("{key:?}")]
        {
            let masked = mask.masked(&*said);
            assert!(!masked.contains("MIIE") && masked.contains(HIDDEN), "{masked}");
        }
    }

    #[test]
    fn no_serializer_s_escapes_give_them_away() {
        let mask = mask(&["Mü\"ller\\geheim/<x>", "p/\u{1f41f}"]);
        for said in [
            r#"{"a": "M\u00fc\"ller\\geheim/<x>"}"#,
            r#"{"a": "Mü\"ller\\geheim\/<x>"}"#,
            r#"{"a": "Mü\"ller\\geheim/\u003cx\u003e"}"#,
            r#"{"a": "p/\ud83d\udc1f"}"#,
            r#"{"a": "p\/\uD83D\uDC1F"}"#,
            r#"{"a": "M\u00FC\u0022ller\\geheim/\u003Cx\u003E"}"#,
        ] {
            assert_eq!(mask.masked(said), r#"{"a": "[secret]"}"#, "{said}");
        }
    }

    #[test]
    fn a_text_that_was_cut_shows_no_part() {
        let mask = mask(&["swordfish-ä-7"]);
        assert_eq!(mask.masked("it said swordf"), "it said [secret]");
        assert_eq!(mask.masked("it said swordfish-ä..."), "it said [secret]...");
        assert_eq!(mask.masked("swordfish-ä-"), "[secret]");
        assert_eq!(mask.masked("it said swo"), "it said swo");
        assert_eq!(mask.masked("swordf it said"), "swordf it said");
    }

    #[test]
    fn a_name_that_ends_as_a_value_begins_stays() {
        let mask = mask(&["sagebrush42"]);
        assert_eq!(mask.masked("a message"), "a mes[secret]");
        assert_eq!(mask.masked_whole("a message"), "a message");
        assert_eq!(mask.masked_whole("a sagebrush42, mes-sagebrush42"), "a [secret], mes-[secret]");
    }

    #[test]
    fn it_shows_no_value_when_it_is_printed() {
        assert_eq!(format!("{:?}", mask(&["swordfish"])), "Mask([[secret]])");
    }
}
