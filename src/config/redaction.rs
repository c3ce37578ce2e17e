//! What is taken out of the content of calls before the history keeps it.

use std::borrow::Cow;
use std::ops::Range;

use regex::Regex;
use serde_json::value::RawValue;

use crate::config::expr::compile_pattern;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::record::Payload;
use crate::domain::secret::{Mask, SecretText};

/// What stands in the place of what is taken out.
const REDACTED: &str = "[redacted]";
/// Maximum size of content that is read, in bytes.
const MAX_READ: usize = 64 << 10;
/// Maximum size of content that is kept, in bytes.
const MAX_KEPT: usize = 16 << 10;
/// Maximum size of one string in it, in bytes. Longer ones are cut.
const MAX_STRING: usize = 4 << 10;
/// Maximum nesting depth of content, JSON in strings included. Deeper values are taken out.
const MAX_DEPTH: usize = 32;

/// What is taken out in addition to the rules of the manifest: credentials by their form.
const BUILT_IN: [&str; 6] = [
    r"(?i)\b(?:bearer|basic)\s+[a-z0-9._~+/-]{16,}=*",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
    r"\b(?:gh[pousr]_|github_pat_|sk-|AKIA)\w{16,}",
    r"\b(?:xox[abeprs]-|sk-proj-|sk-ant-|glpat-|AIza)[\w-]+",
    r"://[^\s/:@]*:[^\s/@]+@",
];
/// Words in names whose values are taken out.
const WORDS: &str = "passw(?:or)?d|passphrase|secret|api[-_]?key|private[-_]?key|authorization|cookie|credential|(?:access|auth|refresh|id|bearer)[-_]?token";
/// What follows such a name in a text: a separator and the value, which is taken out. After a colon it is the rest of the line, as
/// in headers and YAML, otherwise one word. An array or object is taken out up to its first end: [`Redaction::objects`] sees those
/// that are whole.
const VALUES: [&str; 3] = [
    r#"(?:=>|[:=>])\s*(?:\\+["']([^"']*)|"((?:[^"\\]|\\.)*)|'((?:[^'\\]|\\.)*)|([\[{][^\]}]*[\]}]?))"#,
    r#":\s*([^\s"'][^\r\n"']*)"#,
    r#"(?:=>|[=>])\s*((?:bearer|basic)\s+[^\s&<"']+|[^\s,;&<"']+)"#,
];
/// How many beginnings of objects are tried in one text that turn out to be none.
const MAX_TRIED: usize = 256;

/// The rules by which content is redacted.
pub struct Redaction {
    secrets: Mask,
    rules: Vec<Regex>,
    names: Regex,
    /// A name and its value in a text.
    pairs: Regex,
}

impl Redaction {
    /// Compiles a rule of the manifest.
    ///
    /// # Errors
    /// Returns a message if it is no pattern that a `when` can have.
    pub fn rule(rule: &str) -> Result<Regex, String> {
        compile_pattern(rule)
    }

    /// Compiles the rules of the manifest. `secrets` are hidden in any case.
    ///
    /// # Errors
    /// If a rule cannot be compiled.
    pub fn new(rules: &[String], secrets: &[SecretText]) -> Result<Self, String> {
        let rules = BUILT_IN.into_iter().chain(rules.iter().map(String::as_str));
        let own = |pattern: String| Regex::new(&pattern).map_err(|error| error.to_string());
        let names = own(format!("(?i){WORDS}|^token$"))?;
        let pairs = own(format!(r#"(?is)(?:(?:{WORDS})[\w.-]*|\btoken)[\\"']*\s*(?:{})"#, VALUES.join("|")))?;
        Ok(Self { secrets: Mask::of(secrets), rules: rules.map(Self::rule).collect::<Result<_, _>>()?, names, pairs })
    }

    /// Returns JSON text as the history keeps it.
    pub fn payload(&self, json: &str) -> Payload {
        let raw = (json.len() <= MAX_READ).then(|| RawValue::from_string(json.to_owned()).ok()).flatten();
        let kept = raw.map(|raw| self.value(&self.secrets.masked_json(raw), 0));
        match kept.filter(|kept| kept.get().len() <= MAX_KEPT) {
            Some(kept) => Payload::Content(kept),
            None => Payload::Omitted(format!("too large: {} bytes", json.len())),
        }
    }

    fn value(&self, value: &RawValue, depth: usize) -> Box<RawValue> {
        let json = value.get();
        let depth = depth + 1;
        let redacted = match json.as_bytes().first() {
            _ if depth > MAX_DEPTH => None,
            Some(b'{') => RawObject::parse(json).ok().map(|object| to_raw(&self.members(&object, depth))),
            Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(json).ok().map(|items| {
                let items = items.into_iter().map(|item| self.value(item, depth));
                to_raw(&items.collect::<Vec<_>>())
            }),
            Some(b'"') => serde_json::from_str::<String>(json).ok().map(|text| to_raw(&self.string(&text, depth))),
            _ => match self.text(json) {
                Cow::Borrowed(_) => Some(value.to_owned()),
                Cow::Owned(redacted) => Some(to_raw(&redacted)),
            },
        };
        redacted.unwrap_or_else(|| to_raw(&REDACTED))
    }

    /// Redacts the members of an object. If a rule matches a name, the value is taken out too.
    fn members(&self, object: &RawObject, depth: usize) -> RawObject {
        let mut redacted = RawObject::default();
        for (name, value) in object.iter() {
            let shown = self.text(name);
            let is_named = self.names.is_match(name) || matches!(shown, Cow::Owned(_));
            let value = if is_named { to_raw(&REDACTED) } else { self.value(value, depth) };
            redacted.set(&shown, value);
        }
        redacted
    }

    /// Redacts a string, which can be JSON text itself or have objects in it, and cuts it.
    fn string(&self, text: &str, depth: usize) -> String {
        let is_json = text.trim_start().starts_with(['{', '[']);
        let inner = is_json.then(|| serde_json::from_str::<&RawValue>(text).ok()).flatten();
        let text = inner.map_or_else(|| self.objects(text, depth), |inner| self.value(inner, depth).get().to_owned());
        let mut text = self.text(&text).into_owned();
        if text.len() > MAX_STRING {
            text.truncate(text.floor_char_boundary(MAX_STRING));
            text.push_str("...");
        }
        text
    }

    /// Redacts the JSON objects that stand in a text.
    fn objects(&self, text: &str, depth: usize) -> String {
        let (mut redacted, mut rest, mut tried) = (String::with_capacity(text.len()), text, 0);
        while tried < MAX_TRIED
            && let Some(at) = rest.find('{')
        {
            let (before, from) = rest.split_at(at);
            redacted.push_str(before);
            let mut values = serde_json::Deserializer::from_str(from).into_iter::<&RawValue>();
            let has_name = from[1..].trim_start().starts_with('"');
            if let Some(Some(Ok(object))) = has_name.then(|| values.next()) {
                redacted.push_str(self.value(object, depth).get());
                rest = &from[values.byte_offset()..];
            } else {
                redacted.push('{');
                rest = &from[1..];
                tried += usize::from(has_name);
            }
        }
        redacted + rest
    }

    /// Replaces the matches of all rules. They are sought in the whole text, because a match of one can be in that of another.
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let found = self.rules.iter().flat_map(|rule| rule.find_iter(text).map(|found| found.range()));
        let values = self.pairs.captures_iter(text);
        let values = values.filter_map(|pair| pair.iter().skip(1).flatten().next().map(|value| value.range()));
        let mut found: Vec<Range<usize>> = found.chain(values).filter(|range| !range.is_empty()).collect();
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_unstable_by_key(|range| range.start);
        let (mut redacted, mut at) = (String::with_capacity(text.len()), 0);
        for range in found {
            if range.start >= at {
                redacted.push_str(&text[at..range.start]);
                redacted.push_str(REDACTED);
            }
            at = at.max(range.end);
        }
        redacted.push_str(&text[at..]);
        Cow::Owned(redacted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(rules: &[&str], json: &str) -> String {
        let rules: Vec<_> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        match Redaction::new(&rules, &[SecretText::new("swordfish")]).unwrap().payload(json) {
            Payload::Content(kept) => kept.get().to_owned(),
            Payload::Omitted(why) => why,
        }
    }

    #[test]
    fn matches_are_taken_out_of_strings_names_numbers_and_json_in_strings() {
        for (json, expected) in [
            (r#"{"a":"pay 4111111111111111 now"}"#, r#"{"a":"pay [redacted] now"}"#),
            (
                r#"{"a":4111111111111111,"b":[12345678901234567890]}"#,
                r#"{"a":"[redacted]","b":[12345678901234567890]}"#,
            ),
            (r#"{"4111111111111111":{"a":1},"b":1.0}"#, r#"{"[redacted]":"[redacted]","b":1.0}"#),
            (r#"{"\u0041uthor":"x","b":"swor\u0064fish"}"#, r#"{"Author":"x","b":"[secret]"}"#),
            (r#"{"x":"{\"card\": 4111111111111111}"}"#, r#"{"x":"{\"card\":\"[redacted]\"}"}"#),
            (r#"{"x":"\ud800"}"#, r#"{"x":"[redacted]"}"#),
        ] {
            assert_eq!(kept(&[r"\b\d{16}\b"], json), expected, "{json}");
        }
        // The value of a member that a rule names goes too, and a longer match of another rule is not lost.
        let rules = ["(?i)x-auth", "X-Auth: [a-z]+"];
        assert_eq!(
            kept(&rules, r#"{"X-Auth":["a"],"h":"X-Auth: abc, X-AUTH"}"#),
            r#"{"[redacted]":"[redacted]","h":"[redacted], [redacted]"}"#
        );
    }

    #[test]
    fn credentials_are_taken_out_without_a_rule() {
        for json in [
            r#"{"Authorization":"hunter22"}"#,
            r#"{"dbPassword":["hunter22"]}"#,
            r#""Authorization: Bearer hunter22hunter22""#,
            r#""postgres://me:hunter22@db/x""#,
            r#""{\"api_key\": \"hunter22\"}""#,
            r#""-----BEGIN RSA PRIVATE KEY-----\nhunter22\n-----END RSA PRIVATE KEY-----""#,
        ] {
            let kept = kept(&[], json);
            assert!(kept.contains(REDACTED) && !kept.contains("hunter22"), "{json}: {kept}");
        }
        let plain = r#"{"nextPageToken":"a","text":"basic ideas, http://host/a@b"}"#;
        assert_eq!(kept(&[], plain), plain);
    }

    #[test]
    fn credentials_in_texts_are_taken_out_by_their_names() {
        for text in [
            r#"{"password":"hunter2"}A"#,
            r#"the answer: {"a": [{"dbPassword": ["x", {"b": "hunter2"}]}]}, as of today"#,
            r#"{"password":["x","hunter2"#,
            r#"{"a":1} {"api_key" : "hunter2", "b": 2}"#,
            r#"sent {\"password\": \"hunter2\"}"#,
            "DB_PASSWORD=hunter2",
            "password=hunter2",
            "host=db password=hunter2 user=me",
            "PASSWORD='a hunter2'",
            r#"export API-KEY="a\"hunter2""#,
            "https://host/?a=b&access_token=hunter2&c=d",
            "token: hunter2",
            "password: a hunter2 b",
            "Password:\n  hunter2",
            "{'secret': 'hunter2'}",
            "{secret: hunter2}",
            "client_secret => hunter2",
            "<password>hunter2</password>",
            "Cookie: a=b; sid=hunter2",
            "authorization=Bearer hunter2",
            "spring.datasource.password: hunter2",
        ] {
            let kept = kept(&[], &serde_json::to_string(text).unwrap());
            assert!(kept.contains(REDACTED) && !kept.contains("hunter2"), "{text}: {kept}");
        }
        for (text, expected) in [
            ("host=db password=hunter2 user=me", "host=db password=[redacted] user=me"),
            (r#"x {"password":"hunter2","a":1} y"#, r#"x {"password":"[redacted]","a":1} y"#),
            (
                "a password is needed; max_tokens=5, nextPageToken=6 {a} {\"",
                "a password is needed; max_tokens=5, nextPageToken=6 {a} {\"",
            ),
            ("token: a\nb", "token: [redacted]\nb"),
        ] {
            assert_eq!(kept(&[], &serde_json::to_string(text).unwrap()), serde_json::to_string(expected).unwrap());
        }
    }

    #[test]
    fn a_text_of_many_braces_is_read_in_time() {
        for part in ["{", "{\"", "{\"a\":", "{\"a\":1", "[{\"a\":[", "password={", "password:"] {
            let text = part.repeat(MAX_READ / 2 / part.len());
            assert!(!kept(&[], &serde_json::to_string(&text).unwrap()).is_empty());
        }
    }

    #[test]
    fn large_or_deep_content_is_cut_or_left_out() {
        let long = kept(&[], &format!("\"{}\"", "ä".repeat(3000)));
        assert_eq!(long.len(), MAX_STRING + 5);
        let many = serde_json::to_string(&vec!["a".repeat(4000); 5]).unwrap();
        assert_eq!(kept(&[], &many), format!("too large: {} bytes", many.len()));
        assert!(kept(&[], &format!("\"{}\"", "a".repeat(MAX_READ))).starts_with("too large"));
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(kept(&[], &deep), format!("{}\"[redacted]\"{}", "[".repeat(32), "]".repeat(32)));
    }

    #[test]
    fn a_rule_that_is_wrong_or_slow_is_refused() {
        assert!(Redaction::rule("(").unwrap_err().starts_with("\"(\" is not a regular expression"));
        assert!(Redaction::rule(r"(?:a|b)*a(?:a|b){40}").unwrap_err().contains("too many states"));
    }
}
