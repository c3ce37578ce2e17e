//! The members of a tool's result that the gateway itself reads or writes.

use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::raw::{RawObject, to_raw};
use crate::domain::skim::Skim;
use crate::domain::upstream::Answer;

/// Facts about an answer, read in one pass because results can be large.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultFacts {
    /// Whether the server asks for input during the call (`resultType: input_required`).
    pub(crate) asks_back: bool,
    /// Whether the answer is a result with `isError: true`.
    pub(crate) is_error: bool,
    /// Whether the answer is a result that has a `resultType`, or to which none is added: it is not an object, has
    /// `resultType` or `isError` twice, or has a member whose name cannot be decoded.
    pub(crate) typed: bool,
    /// Whether the answer is a result whose `resultType` is not a string.
    pub(crate) mistyped: bool,
}

impl ResultFacts {
    pub(crate) fn of(answer: &Answer) -> Self {
        let Answer::Result(result) = answer else { return Self::default() };
        let unclear = Self { typed: true, ..Self::default() };
        let Some(members) = Skim::from(&**result).members() else { return unclear };
        let (mut result_type, mut is_error) = (None, None);
        for (name, value) in members {
            // A name that cannot be decoded could be `resultType` or `isError` to another parser.
            let Some(name) = name else { return unclear };
            let place = match &*name {
                "resultType" => &mut result_type,
                "isError" => &mut is_error,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return unclear;
            }
        }
        let kind = result_type.and_then(Skim::text);
        Self {
            asks_back: kind.as_deref() == Some("input_required"),
            mistyped: result_type.is_some() && kind.is_none(),
            is_error: is_error.is_some_and(|flag| flag.get() == "true"),
            typed: result_type.is_some(),
        }
    }
}

/// Adds `resultType: complete` to a result. MCP 2026-07-28 requires the member in every result, but results of legacy
/// servers and of the gateway itself do not have it.
pub(crate) fn complete(result: &mut Box<RawValue>) {
    let Some(rest) = result.get().strip_prefix('{').map(str::trim_start) else { return };
    let comma = if rest.starts_with('}') { "" } else { "," };
    if let Ok(with) = RawValue::from_string(format!(r#"{{"resultType":"complete"{comma}{rest}"#)) {
        *result = with;
    }
}

/// Creates a tool result that is one text.
pub(crate) fn text_result(text: &str) -> Box<RawValue> {
    to_raw(&json!({"content": [{"type": "text", "text": text}]}))
}

/// Creates a tool result with `isError: true` that tells a model what is wrong.
pub(crate) fn error_result(text: &str) -> Box<RawValue> {
    to_raw(&json!({"content": [{"type": "text", "text": text}], "isError": true}))
}

/// Returns `result` with `key` set to `value` in its `_meta`. A result that is not an object is returned unchanged.
pub(crate) fn with_meta(result: &RawValue, key: &str, value: Box<RawValue>) -> Box<RawValue> {
    let Ok(mut object) = RawObject::parse(result.get()) else { return result.to_owned() };
    let meta = object.get("_meta").map_or("{}", RawValue::get);
    let mut meta = RawObject::parse(meta).unwrap_or_default();
    meta.set(key, value);
    object.set("_meta", meta.to_raw());
    object.to_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(result: &str) -> [bool; 4] {
        let facts = ResultFacts::of(&Answer::Result(RawValue::from_string(result.into()).unwrap()));
        [facts.asks_back, facts.is_error, facts.typed, facts.mistyped]
    }

    #[test]
    fn what_a_result_says_of_itself_is_read() {
        for (result, expected) in [
            (r#"{"content":[{"isError":true}]}"#, [false; 4]),
            (r#"{"content":[], "isError" : true }"#, [false, true, false, false]),
            (r#"{"isError":false,"resultType":"complete"}"#, [false, false, true, false]),
            (r#"{"resultType":"input_required"}"#, [true, false, true, false]),
            (r#"{"result\u0054ype":"input\u005frequired"}"#, [true, false, true, false]),
            (r#"{"isError":true,"resultType":null}"#, [false, true, true, true]),
            (r#"{"resultType":"\ud800"}"#, [false, false, true, true]),
            (r#"{"isError":true,"isError":true}"#, [false, false, true, false]),
            (r#"{"resultType":"input_required","resultType":1}"#, [false, false, true, false]),
            (r#"{"isError":true,"\ud800":1}"#, [false, false, true, false]),
            ("[]", [false, false, true, false]),
        ] {
            assert_eq!(facts(result), expected, "{result}");
        }
    }

    #[test]
    fn meta_is_added_and_nothing_else_changes() {
        let result = RawValue::from_string(r#"{"content":[],"n": 1.0,"_meta":{"a": 1e2}}"#.into()).unwrap();
        let with = with_meta(&result, "b", RawValue::from_string("true".into()).unwrap());
        assert_eq!(with.get(), r#"{"content":[],"n":1.0,"_meta":{"a":1e2,"b":true}}"#);
    }
}
