//! Operations on JSON text: finding keys that occur twice in an object and surrogates without their pair, and comparing
//! two texts for equality.
//!
//! JSON parsers differ in which of two equal keys they use (RFC 8259, section 4), and most round long integers. These
//! functions work on the text, so nothing is rounded or lost.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::splice::Splice;
use super::tokens::{JsonToken, JsonTokens, MAX_DEPTH, valid};

/// The keys of an object are compared one by one up to this number. An object with more keys needs a hash set.
const FEW: usize = 16;

/// Strings of more bytes take longer to copy than to leave out.
const LONG: usize = 64;

/// A JSON string without its escapes, as bytes. It can contain lone surrogates, and those cannot be encoded in UTF-8.
type Bytes<'a> = Cow<'a, [u8]>;

/// A step from a value to one of its members or elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonStep {
    /// A step to the member with this name.
    Member(String),
    /// A step to the element at this index.
    Element(usize),
}

/// The keys that were read so far of one object.
#[derive(Default)]
struct ObjectKeys<'a> {
    few: Vec<Bytes<'a>>,
    /// All keys, once there are more than [`FEW`].
    many: HashSet<Bytes<'a>>,
}

impl<'a> ObjectKeys<'a> {
    /// Adds a key. Returns whether it is new.
    fn insert(&mut self, key: Bytes<'a>) -> bool {
        if self.few.len() < FEW {
            let new = !self.few.contains(&key);
            self.few.push(key);
            return new;
        }
        if self.many.is_empty() {
            self.many.extend(self.few.iter().cloned());
        }
        self.many.insert(key)
    }
}

/// An array or object that is being read.
enum Open<'a> {
    /// An array, with the number of elements so far.
    Array(usize),
    /// An object, with its keys so far, and the key whose value comes next.
    Object(ObjectKeys<'a>, Option<Bytes<'a>>),
}

/// Returns the path of the first key that repeats an earlier key of the same object; `None` if there is no such key.
/// `json` must be valid JSON.
pub fn doubled_key(json: &str) -> Option<Vec<JsonStep>> {
    first_string(json, |_, is_doubled| is_doubled)
}

/// Returns the path of the first string that has a surrogate without its pair, which JSON allows and Unicode does not
/// (RFC 8259, section 8.2); of a key, the path of its member. `None` if there is no such string. `json` must be valid
/// JSON.
pub fn lone_surrogate(json: &str) -> Option<Vec<JsonStep>> {
    let is_escaped = |raw: &str| memchr::memchr(b'\\', raw.as_bytes()).is_some();
    first_string(json, |raw, _| is_escaped(raw) && serde_json::from_str::<String>(raw).is_err())
}

/// Returns a JSON text with `""` in the place of each long string that is a value; `None` if there is none, or if one has an
/// escape that can be half of a surrogate pair. `json` must be valid JSON.
pub fn without_long_strings(json: &str) -> Option<String> {
    let (mut tokens, mut short) = (JsonTokens(json), Splice::new(json));
    while let Some(token) = tokens.next() {
        let JsonToken::String(text) = token else { continue };
        if text.len() <= LONG || tokens.is_before_colon() {
            continue;
        }
        if memchr::memmem::find(text.as_bytes(), br"\u").is_some() {
            return None;
        }
        short.replace(text, "\"\"");
    }
    short.finish()
}

/// Whether a JSON text has neither escapes nor exponents, so that a search of the text finds what its strings and numbers
/// say. `json` must be valid JSON.
pub fn is_plain(json: &str) -> bool {
    let has_exponent = |other: &str| !matches!(other, "true" | "false") && other.contains(['e', 'E']);
    memchr::memchr(b'\\', json.as_bytes()).is_none()
        && !JsonTokens(json).any(|token| matches!(token, JsonToken::Other(other) if has_exponent(other)))
}

/// Returns the path of the first key or string value of which `is_found` holds. It gets the string with its quotes, and
/// whether that is a key which repeats an earlier key of the same object.
fn first_string(json: &str, is_found: impl Fn(&str, bool) -> bool) -> Option<Vec<JsonStep>> {
    let mut open: Vec<Open<'_>> = Vec::new();
    for token in JsonTokens(json) {
        if let (Some(Open::Object(keys, next @ None)), JsonToken::String(raw)) = (open.last_mut(), token) {
            let key = unescaped(raw);
            *next = Some(key.clone());
            if is_found(raw, !keys.insert(key)) {
                return Some(open.iter().map(Open::step).collect());
            }
            continue;
        }
        if let (Some(Open::Array(count)), false) = (open.last_mut(), matches!(token, JsonToken::Close)) {
            *count += 1;
        }
        if matches!(token, JsonToken::String(raw) if is_found(raw, false)) {
            return Some(open.iter().map(Open::step).collect());
        }
        match token {
            JsonToken::Object => open.push(Open::Object(ObjectKeys::default(), None)),
            JsonToken::Array => open.push(Open::Array(0)),
            JsonToken::Close => {
                open.pop();
                value_ended(&mut open);
            }
            JsonToken::String(_) | JsonToken::Other(_) => value_ended(&mut open),
        }
    }
    None
}

/// Records that a value has ended: the next string in the enclosing object is a key.
fn value_ended(open: &mut [Open<'_>]) {
    if let Some(Open::Object(_, next)) = open.last_mut() {
        *next = None;
    }
}

impl Open<'_> {
    fn step(&self) -> JsonStep {
        match self {
            Self::Array(count) => JsonStep::Element(count.saturating_sub(1)),
            Self::Object(_, key) => {
                JsonStep::Member(String::from_utf8_lossy(key.as_deref().unwrap_or_default()).into_owned())
            }
        }
    }
}

/// Formats steps as a JSON Pointer (RFC 6901).
pub struct Pointer<'a>(pub &'a [JsonStep]);

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            JsonStep::Member(name) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")),
            JsonStep::Element(index) => write!(f, "/{index}"),
        })
    }
}

/// A JSON value for comparison: numbers are kept as text, and the order of keys is not kept.
#[derive(PartialEq)]
enum Tree<'a> {
    Other(&'a str),
    String(Bytes<'a>),
    Array(Vec<Tree<'a>>),
    Object(BTreeMap<Bytes<'a>, Tree<'a>>),
}

/// Whether two texts are the same JSON, apart from white space and the order of keys. Strings are compared without
/// their escapes, numbers as text. False if either text is not JSON, has a key twice in one object, or nests too deep.
pub fn is_same(one: &str, other: &str) -> bool {
    let is_json = |text: &str| valid(text.as_bytes()).is_some();
    is_json(one) && is_json(other) && tree(one).is_some_and(|one| tree(other) == Some(one))
}

fn tree(json: &str) -> Option<Tree<'_>> {
    let mut tokens = JsonTokens(json);
    let first = tokens.next()?;
    grow(&mut tokens, first, 0)
}

fn grow<'a>(tokens: &mut JsonTokens<'a>, first: JsonToken<'a>, depth: usize) -> Option<Tree<'a>> {
    if depth > MAX_DEPTH {
        return None;
    }
    Some(match first {
        JsonToken::Other(text) => Tree::Other(text),
        JsonToken::String(raw) => Tree::String(unescaped(raw)),
        JsonToken::Array => {
            let mut elements = Vec::new();
            loop {
                match tokens.next()? {
                    JsonToken::Close => break Tree::Array(elements),
                    token => elements.push(grow(tokens, token, depth + 1)?),
                }
            }
        }
        JsonToken::Object => {
            let mut members = BTreeMap::new();
            loop {
                let JsonToken::String(key) = tokens.next()? else { break Tree::Object(members) };
                let value = tokens.next()?;
                if members.insert(unescaped(key), grow(tokens, value, depth + 1)?).is_some() {
                    return None;
                }
            }
        }
        JsonToken::Close => return None,
    })
}

/// Returns the string without its escapes. `raw` includes its quotes.
pub(super) fn unescaped(raw: &str) -> Bytes<'_> {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner.as_bytes());
    }
    serde_json::from_str::<Unescaped>(raw).map_or(Cow::Borrowed(inner.as_bytes()), |text| Cow::Owned(text.0))
}

struct Unescaped(Vec<u8>);

impl<'de> Deserialize<'de> for Unescaped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyBytes;
        impl Visitor<'_> for AnyBytes {
            type Value = Unescaped;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Unescaped, E> {
                Ok(Unescaped(bytes.to_vec()))
            }
        }
        // When asked for bytes, serde_json accepts lone surrogates too.
        deserializer.deserialize_bytes(AnyBytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(json: &str) -> Option<String> {
        doubled_key(json).map(|steps| Pointer(&steps).to_string())
    }

    #[test]
    fn a_key_that_stands_twice_is_found_at_any_depth() {
        for (json, expected) in [
            (r#"{"a":1,"a":2}"#, "/a"),
            (r#"{"a" : "x" , "b":{"c":[0,{"d":1,"e":[],"d":{}}]}}"#, "/b/c/1/d"),
            (r#"[[1,2],["a","a"],{"k":"k","x":{},"k":null}]"#, "/2/k"),
            (r#"{"a":1,"\u0061":2}"#, "/a"),
            (r#"{"\ud800":1,"\ud800":2}"#, "/\u{fffd}\u{fffd}\u{fffd}"),
            (r#"{"a/b":{"~":1,"~":2}}"#, "/a~1b/~0"),
            (r#"{"":1,"":2}"#, "/"),
            (r#"{"a\\":"\"","a\\":[]}"#, r"/a\"),
        ] {
            assert_eq!(pointer(json).as_deref(), Some(expected), "{json}");
        }
        let many: String = (0..1000).map(|n| format!("\"k{n}\":{n},")).collect();
        assert_eq!(pointer(&format!("{{{many}\"k700\":1}}")).as_deref(), Some("/k700"));
        assert_eq!(pointer(&format!("{{{many}\"x\":1}}")), None);
    }

    #[test]
    fn keys_of_different_objects_may_be_equal() {
        for json in [
            "{}",
            "[]",
            "null",
            "1e400",
            r#""{\"a\":1,\"a\":2}""#,
            r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#,
            r#"[{"a":1},{"a":1}]"#,
            r#"{"a":"b","b":"a"}"#,
            r#"{"\ud800":1,"\udc00":2,"😀":3,"a":[true,false,null,-1.0E+2]}"#,
        ] {
            assert_eq!(pointer(json), None, "{json}");
        }
        assert_eq!(pointer(r#"{"😀":1,"\ud83d\ude00":2}"#).as_deref(), Some("/😀"));
    }

    #[test]
    fn a_surrogate_without_its_pair_is_found_at_any_depth() {
        for (json, expected) in [
            (r#"{"a":"\ud83c"}"#, "/a"),
            (r#"{"a":"\ud83d\ude00","b":[1,{"c":["x","\ude00\ud83d"]}]}"#, "/b/1/c/1"),
            (r#"{"a":1,"b":{"c":{},"d":"x\ud83dy"}}"#, "/b/d"),
            (r#"{"a":{"\ud800":1}}"#, "/a/\u{fffd}\u{fffd}\u{fffd}"),
            (r#""\udc00""#, ""),
        ] {
            let found = lone_surrogate(json).map(|steps| Pointer(&steps).to_string());
            assert_eq!(found.as_deref(), Some(expected), "{json}");
        }
        for json in [r#"{"a":"\ud83d\ude00\\ud83c\n","b":[1e400,{}],"a":"\"\\"}"#, "[]", r#""""#, "1"] {
            assert_eq!(lone_surrogate(json), None, "{json}");
        }
    }

    #[test]
    fn long_strings_that_are_values_are_left_out() {
        let (long, escaped) = ("x".repeat(LONG), r#"{\"a\": \n}"#.repeat(8));
        let json = format!(r#"{{"{long}" : 1,"a":["{long}",{{"b": "{escaped}" , "c":"short"}}]}}"#);
        let short = format!(r#"{{"{long}" : 1,"a":["",{{"b": "" , "c":"short"}}]}}"#);
        assert_eq!(without_long_strings(&json), Some(short));
        assert_eq!(without_long_strings(r#"{"a":"short"}"#), None);
        assert_eq!(without_long_strings(&format!(r#"["{long}","{long}\ud800"]"#)), None);
    }

    #[test]
    fn a_text_is_plain_without_escapes_and_exponents() {
        for json in ["{}", r#"{"é 1e3":[true,false,null,-1.5,0]}"#, r#""E""#, "12345678901234567890"] {
            assert!(is_plain(json), "{json}");
        }
        for json in [r#"{"a":"\n"}"#, r#"{"\u0061":1}"#, r#"["\/"]"#, "1e3", r#"{"a":[1,-2.5E+1]}"#] {
            assert!(!is_plain(json), "{json}");
        }
    }

    #[test]
    fn the_same_json_may_be_written_in_other_ways() {
        for (one, other) in [
            (r#"{"a":1,"b":[true,"x"]}"#, "{ \"b\": [true,\n\"x\"], \"a\": 1 }"),
            (r#"{"é":"\u00e9"}"#, r#"{"\u00e9":"é"}"#),
            ("[]", "[ ]"),
            (r#"{"n":12345678901234567890123}"#, r#"{"n": 12345678901234567890123}"#),
        ] {
            assert!(is_same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn what_a_reader_may_tell_apart_is_not_the_same() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (one, other) in [
            (r#"{"a":"SECRET","a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1}"#, r#"{"a":"SECRET","a":1}"#),
            (r#"{"a":1,"a":1}"#, r#"{"a":1,"a":1}"#),
            (r#"{"n":12345678901234567890123}"#, r#"{"n":12345678901234567890124}"#),
            ("1.0", "1"),
            ("1", "\"1\""),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
            ("[1,2]", "[2,1]"),
            (r#"{"a" 1}"#, r#"{"a":1}"#),
            ("", ""),
            (&deep, &deep),
        ] {
            assert!(!is_same(one, other), "{one} {other}");
        }
    }
}
