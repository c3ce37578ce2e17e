//! Secret values, masks that hide them in text, and the reasons why a value can be missing.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::ids::ObjectKey;
use super::json_spellings::spellings;
use super::plan::{Plan, TransportPlan, ValueSource};
use super::raw::{RawObject, to_raw};
use super::reason::Reason;
use super::report::SecretState;
use super::rpc::INTERNAL_ERROR;

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
const HIDDEN: &str = "[secret]";
/// Minimum length of a value that is masked, in bytes. Shorter values (`1`, `yes`) occur in too many ordinary texts.
const SHORTEST: usize = 4;
/// What stands before credentials in an `Authorization` header (RFC 9110, 11.4): registered schemes, and those that services
/// made up.
const SCHEMES: [&str; 9] = ["basic", "bearer", "dpop", "negotiate", "oauth", "token", "apikey", "api-key", "key"];

/// Hides secret values in text that plugins and servers write.
#[derive(Clone, Debug, Default)]
pub struct Mask(Vec<SecretText>);

impl Mask {
    /// Creates a mask of these values. The single lines of a value are masked too, because logs are split into lines.
    /// So are the credentials of a value that begins with an authentication scheme, and the JSON encodings of all these.
    pub fn of<'a>(values: impl IntoIterator<Item = &'a SecretText>) -> Self {
        let mut words = BTreeSet::new();
        for value in values.into_iter().map(SecretText::expose) {
            let parts = std::iter::once(value).chain(value.lines()).chain(credentials(value)).map(str::trim);
            for word in parts.filter(|word| word.len() >= SHORTEST) {
                words.extend(spellings(word));
                words.insert(word.to_owned());
            }
        }
        let mut words: Vec<_> = words.into_iter().map(SecretText).collect();
        // The longest first: a value can contain another, and masking the shorter one first would reveal the rest of
        // the longer one.
        words.sort_by_key(|word| std::cmp::Reverse(word.0.len()));
        Self(words)
    }

    /// Replaces each value in `text` with `[secret]`. A long text may have been cut within a value, so the beginning of
    /// a value at the end of `text` is replaced too.
    pub fn masked<'a>(&self, text: impl Into<Cow<'a, str>>) -> Cow<'a, str> {
        let text: Cow<'a, str> = self.0.iter().fold(text.into(), |text, SecretText(word)| match text.contains(word) {
            true => text.replace(word, HIDDEN).into(),
            false => text,
        });
        let end = text.strip_suffix("...").unwrap_or(&text).len();
        match self.0.iter().filter_map(|word| begins_at(&text[..end], &word.0)).min() {
            Some(at) => format!("{}{HIDDEN}{}", &text[..at], &text[end..]).into(),
            None => text,
        }
    }

    /// Returns text that a server wrote, for a log or a message: masked, without white space at the end, and with spaces
    /// in the place of control characters other than tabs.
    pub fn printable(&self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = self.masked(&*text);
        text.trim_end().chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
    }

    /// Masks the strings, the member names and the numbers of a JSON text. Returns `None` if a value occurs in the
    /// text, but the text nests too deep to be parsed.
    pub fn masked_json(&self, json: Box<RawValue>) -> Option<Box<RawValue>> {
        if !self.may_be_in(json.get()) {
            return Some(json);
        }
        let value: Value = serde_json::from_str(json.get()).ok()?;
        let mut masked = value.clone();
        self.mask_in(&mut masked);
        // A word that stands in the text is in no value where a key stands twice, and in none of numbers that were rounded.
        let is_same = masked == value && !self.0.iter().any(|word| json.get().contains(&word.0));
        if is_same { Some(json) } else { RawValue::from_string(masked.to_string()).ok() }
    }

    /// Whether a value can be in a JSON text, in which any character can be written as an escape.
    fn may_be_in(&self, json: &str) -> bool {
        !self.0.is_empty() && (json.contains('\\') || self.0.iter().any(|word| json.contains(&word.0)))
    }

    /// Masks a JSON-RPC error, whose code stays. What cannot be masked is left out.
    pub fn masked_error(&self, error: Box<RawValue>) -> Box<RawValue> {
        if !self.may_be_in(error.get()) {
            return error;
        }
        let Ok(members) = RawObject::parse(error.get()) else {
            return to_raw(&json!({"code": INTERNAL_ERROR, "message": HIDDEN}));
        };
        let (mut masked, mut is_same) = (RawObject::default(), true);
        for (name, said) in members.iter() {
            let is_code = name == "code" && said.get().parse::<i64>().is_ok();
            let shown = if is_code { Some(said.to_owned()) } else { self.masked_json(said.to_owned()) };
            let (shown, shown_name) = (shown.unwrap_or_else(|| to_raw(&HIDDEN)), self.masked(name));
            is_same &= shown.get() == said.get() && shown_name == name;
            masked.set(&shown_name, shown);
        }
        if is_same { error } else { masked.to_raw() }
    }

    fn mask_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.masked(std::mem::take(text)).into_owned(),
            Value::Number(number) => {
                if let Cow::Owned(hidden) = self.masked(&*number.to_string()) {
                    *value = hidden.into();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.mask_in(item)),
            Value::Object(members) => {
                let masked = std::mem::take(members).into_iter().map(|(name, mut member)| {
                    self.mask_in(&mut member);
                    (self.masked(name).into_owned(), member)
                });
                *members = masked.collect();
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

/// Returns the credentials of a value that begins with an authentication scheme.
fn credentials(value: &str) -> Option<&str> {
    let (scheme, credentials) = value.trim().split_once(' ')?;
    SCHEMES.contains(&&*scheme.to_ascii_lowercase()).then_some(credentials)
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
    let upstreams = plan.upstreams.iter().flat_map(|upstream| match &upstream.transport {
        TransportPlan::External { headers, .. } => &headers[..],
        TransportPlan::Process { env, .. } => &env[..],
        TransportPlan::None => &[],
    });
    let values = upstreams.chain(plan.plugins.iter().flat_map(|plugin| &plugin.env));
    let named = values.filter_map(|named| match &named.value {
        ValueSource::Secret { secret, key, .. } => Some((secret, key.as_str())),
        ValueSource::Literal(_) | ValueSource::Environment(_) => None,
    });
    named.collect()
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
    fn an_error_keeps_its_code() {
        let mask = mask(&["swordfish", "32001"]);
        let masked = |json: &str| mask.masked_error(RawValue::from_string(json.to_owned()).unwrap()).get().to_owned();
        assert_eq!(
            masked(r#"{"code":-32001,"message":"no swordfish","data":{"key":"swordfish"}}"#),
            r#"{"code":-32001,"message":"no [secret]","data":{"key":"[secret]"}}"#
        );
        assert_eq!(
            masked(r#"{"code":"swordfish","detail":"a swordfish","swordfish":1}"#),
            r#"{"code":"[secret]","detail":"a [secret]","[secret]":1}"#
        );
        assert_eq!(masked(r#"["swordfish"]"#), r#"{"code":-32603,"message":"[secret]"}"#);
        for other in [r#"{"code": 1, "message":"no fish"}"#, r#"{"code": 1.0, "message":"a \u0066ish\/"}"#] {
            assert_eq!(masked(other), other);
        }
        // Any character can be written as an escape, as many serializers do.
        let escaped = r#"{"code":1,"message":"a swor\u0064fish","data":{"\u0073wordfish":["x\/swordfis\u0068"]}}"#;
        assert_eq!(masked(escaped), r#"{"code":1,"message":"a [secret]","data":{"[secret]":["x/[secret]"]}}"#);
    }

    #[test]
    fn credentials_are_hidden_without_their_scheme() {
        let mask = mask(&["Bearer swordfish", "a plain sentence"]);
        assert_eq!(mask.masked("bad token swordfish, plain"), "bad token [secret], plain");
    }

    #[test]
    fn lines_and_escapes_do_not_give_them_away() {
        let key = "-----BEGIN KEY-----\nMIIEow\"IBA\n-----END KEY-----\n";
        let mask = mask(&[key]);
        for said in [key.to_owned(), Value::from(key).to_string(), "at MIIEow\"IBA".into(), format!("{key:?}")] {
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
    fn json_stays_json() {
        let mask = mask(&["swordfish", "12345", "true"]);
        let masked = |json: &str| {
            mask.masked_json(RawValue::from_string(json.into()).unwrap()).map(|json| json.get().to_owned())
        };
        assert_eq!(masked(r#"{"a": 1.0, "b": "x"}"#).unwrap(), r#"{"a": 1.0, "b": "x"}"#);
        let hidden = masked(r#"{"swordfish": [12345, 1, true, null, {"b": "a swordfish"}]}"#).unwrap();
        assert_eq!(hidden, r#"{"[secret]":["[secret]",1,true,null,{"b":"a [secret]"}]}"#);
        assert_eq!(masked(&format!("{}\"swordfish\"{}", "[".repeat(200), "]".repeat(200))), None);
        assert_eq!(masked(r#"{"a":"swordfish","a":"x"}"#).unwrap(), r#"{"a":"x"}"#);
    }
}
