//! Hides secret values in JSON text.
//!
//! What is read can be as large as an answer of a server, so it is not parsed into a tree: everything but what is hidden is
//! copied as it is.

use std::borrow::Cow;

use serde_json::Number;
use serde_json::value::RawValue;

use super::json::unescaped;
use super::raw::to_raw;
use super::secret::{HIDDEN, Mask};
use super::splice::Splice;
use super::tokens::{JsonToken, JsonTokens};

/// The members of a JSON-RPC error. Clients ignore an error without them, and wait for another answer.
const OF_ERROR: [&str; 3] = ["code", "message", "data"];

impl Mask {
    /// Masks the strings, the member names and the numbers of a JSON text, which is whole: a string can end as a value
    /// begins.
    pub fn masked_json(&self, json: Box<RawValue>) -> Box<RawValue> {
        self.replaced(json, false)
    }

    /// Masks a JSON-RPC error so that clients can still read it: the names of its own members stay, and so does its code. Its
    /// strings may have been cut within a value.
    pub fn masked_error(&self, error: Box<RawValue>) -> Box<RawValue> {
        self.replaced(error, true)
    }

    fn replaced(&self, json: Box<RawValue>, is_error: bool) -> Box<RawValue> {
        if self.is_empty() {
            return json;
        }
        match self.pass(json.get(), is_error) {
            Some(masked) => RawValue::from_string(masked).unwrap_or_else(|_| to_raw(&HIDDEN)),
            None => json,
        }
    }

    /// Returns the text with values hidden; `None` if it has none.
    fn pass(&self, json: &str, is_error: bool) -> Option<String> {
        let mut masked = Splice::new(json);
        let (mut tokens, mut depth, mut is_code) = (JsonTokens(json), 0_usize, false);
        while let Some(token) = tokens.next() {
            let of_error = is_error && depth == 1;
            let (text, hidden) = match token {
                JsonToken::Object | JsonToken::Array => {
                    depth += 1;
                    continue;
                }
                JsonToken::Close => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                JsonToken::String(quoted) if tokens.is_before_colon() => {
                    let name = said(quoted);
                    is_code = of_error && name == "code";
                    let stays = of_error && OF_ERROR.contains(&&*name);
                    (quoted, if stays { None } else { changed(self.masked_whole(&*name)) })
                }
                JsonToken::String(quoted) if is_error => (quoted, changed(self.masked(&*said(quoted)))),
                JsonToken::String(quoted) => (quoted, changed(self.masked_whole(&*said(quoted)))),
                JsonToken::Other(code) if of_error && is_code && code.parse::<i64>().is_ok() => continue,
                JsonToken::Other(other) => (other, self.masked_number(other)),
            };
            if let Some(hidden) = hidden {
                masked.replace(text, to_raw(&hidden).get());
            }
        }
        masked.finish()
    }

    /// Masks a number; `None` if no value is in it, or if it is another literal.
    fn masked_number(&self, number: &str) -> Option<String> {
        if !number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
            return None;
        }
        changed(self.masked_whole(number)).or_else(|| {
            // Its digits need not stand in a row: 1.2345e4.
            let spelled_out: Number = number.contains(['e', 'E']).then(|| serde_json::from_str(number).ok())??;
            changed(self.masked_whole(&*spelled_out.to_string()))
        })
    }
}

/// Returns what a string says. A surrogate without its pair is no character, and part of no value.
fn said(quoted: &str) -> Cow<'_, str> {
    match unescaped(quoted) {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

/// Returns the text that [`Mask`] made of a borrowed one.
fn changed(masked: Cow<'_, str>) -> Option<String> {
    match masked {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::secret::SecretText;
    use super::*;

    fn mask(values: &[&str]) -> Mask {
        Mask::of(&values.iter().map(|value| SecretText::new(*value)).collect::<Vec<_>>())
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[track_caller]
    fn check(values: &[&str], json: &str, expected: &str) {
        assert_eq!(mask(values).masked_json(raw(json)).get(), expected, "{values:?}");
    }

    #[track_caller]
    fn check_error(values: &[&str], json: &str, expected: &str) {
        assert_eq!(mask(values).masked_error(raw(json)).get(), expected, "{values:?}");
    }

    #[test]
    fn an_error_keeps_its_code() {
        let check = |json, expected| check_error(&["swordfish", "32001"], json, expected);
        check(
            r#"{"code":-32001,"message":"no swordfish","data":{"key":"swordfish"}}"#,
            r#"{"code":-32001,"message":"no [secret]","data":{"key":"[secret]"}}"#,
        );
        check(
            r#"{"code":"swordfish","detail":"a swordfish","swordfish":1}"#,
            r#"{"code":"[secret]","detail":"a [secret]","[secret]":1}"#,
        );
        check(
            r#"{"c\u006fde": 32001 ,"data":{"code":32001},"is":32001}"#,
            r#"{"c\u006fde": 32001 ,"data":{"code":"[secret]"},"is":"[secret]"}"#,
        );
        check(r#"{"code":[32001],"message":"32001"}"#, r#"{"code":["[secret]"],"message":"[secret]"}"#);
        check(r#"["swordfish"]"#, r#"["[secret]"]"#);
        // Any character can be written as an escape, as many serializers do.
        check(
            r#"{"code":1,"message":"a swor\u0064fish","data":{"\u0073wordfish":["x\/swordfis\u0068"]}}"#,
            r#"{"code":1,"message":"a [secret]","data":{"[secret]":["x/[secret]"]}}"#,
        );
    }

    #[test]
    fn what_has_no_value_stays_as_it_came() {
        for json in [
            r#"{"code":1,"message":"a \"b\""}"#,
            r#"{"code": 1.0, "message":"a \u0066ish\/", "message": "\ud800 \ud83d\ude00"}"#,
            r#"{"b" : [ 1.50e+3, 12345678901234567890123, 1e999 ] ,"a":{},"a":null,"mess":"", "a":true}"#,
            "[]",
        ] {
            check(&["sagebrush42", "true", "null", "fish and ships"], json, json);
            check(&[], json, json);
            check_error(&["sagebrush42", "code", "message", "data"], json, json);
        }
    }

    #[test]
    fn names_are_hidden_only_where_a_whole_value_is_in_them() {
        check_error(
            &["code-7", "database-pw", "user42", "message", "data"],
            r#"{"code":1,"message":"m","data":{"code":"code","data":"x","user":"user","my-user42":"as user42"}}"#,
            r#"{"code":1,"message":"m","data":{"code":"[secret]","[secret]":"x","user":"[secret]","my-[secret]":"as [secret]"}}"#,
        );
        check(&["sagebrush42"], r#"{"message":"\n"}"#, r#"{"message":"\n"}"#);
    }

    #[test]
    fn json_stays_json() {
        let values = ["swordfish", "12345", "true"];
        check(
            &values,
            r#"{"swordfish": [12345, 1, true, null, {"b": "a swordfish"}], "a": "\"true"}"#,
            r#"{"[secret]": ["[secret]", 1, true, null, {"b": "a [secret]"}], "a": "\"[secret]"}"#,
        );
        check(&values, r#"{"a":"swordfish","a":"x"}"#, r#"{"a":"[secret]","a":"x"}"#);
        check(&values, r#"{"a":"swor\u0064fish" , "a":"y"}"#, r#"{"a":"[secret]" , "a":"y"}"#);
        check(&values, "\"swordfish\"", "\"[secret]\"");
    }

    #[test]
    fn numbers_are_found_however_they_are_spelled() {
        let check = |json, expected| check(&["12345"], json, expected);
        check("[-12345,0.12345,9123459]", r#"["-[secret]","0.[secret]","9[secret]9"]"#);
        check("[1.2345e4,1234.5E+1,-123.45e2]", r#"["[secret].0","[secret].0","-[secret].0"]"#);
        check("[12345e999,1.2346e4,1234,99991234]", r#"["[secret]e999",1.2346e4,1234,99991234]"#);
        check("123456789012345678901234567890", r#""[secret]67890[secret]67890[secret]67890""#);
    }

    #[test]
    fn what_was_cut_shows_no_part() {
        let cut = r#"{"swordf":"swordf"}"#;
        check(&["swordfish-ä-7"], cut, cut);
        check_error(
            &["swordfish-ä-7"],
            r#"{"swordf":["it said \"swordf","swordfish-\u00e4...","swo","swordf it"]}"#,
            r#"{"swordf":["it said \"[secret]","[secret]...","swo","swordf it"]}"#,
        );
    }

    #[test]
    fn surrogates_are_read_in_pairs_and_without_them() {
        check(
            &["p-\u{1f41f}-x"],
            r#"["p-\ud83d\udc1f-x","p-\uD83D\uDC1F-x","p-🐟-x"]"#,
            r#"["[secret]","[secret]","[secret]"]"#,
        );
        check(
            &["swordfish"],
            r#"{"\udc1f":"\ud83d swor\u0064fish"}"#,
            "{\"\\udc1f\":\"\u{fffd}\u{fffd}\u{fffd} [secret]\"}",
        );
    }

    #[test]
    fn it_may_nest_as_deep_as_it_likes() {
        let nested = |said: &str| format!("{}\"{said}\"{}", "[{\"a\":".repeat(10_000), "}]".repeat(10_000));
        check(&["swordfish"], &nested("swor\\u0064fish"), &nested("[secret]"));
        check(&["swordfish"], &nested("\\n"), &nested("\\n"));
    }

    #[test]
    fn what_is_long_is_read_once() {
        let long = "-----BEGIN KEY-----\n".to_owned()
            + &(0..2000).map(|line| format!("{line:05}-li+ne/\n")).collect::<String>();
        let mask = mask(&[&long, "swordfish"]);
        let items = r#""\n","a \"b\"",1e3,{"swor":"x"},"#.repeat(1 << 16);
        assert!(items.len() > 1 << 20);
        let error = |last: &str| {
            format!(r#"{{"code":1,"message":"{}{last}","data":[{items}"{last}"]}}"#, "x\\n".repeat(1 << 18))
        };
        assert_eq!(mask.masked_error(raw(&error("sword, fish"))).get(), error("sword, fish"));
        assert_eq!(mask.masked_error(raw(&error("swordfis\\u0068"))).get(), error("[secret]"));
        assert_eq!(mask.masked_error(raw(&error("01234-li+ne\\/"))).get(), error("[secret]"));
    }
}
