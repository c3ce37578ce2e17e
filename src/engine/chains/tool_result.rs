//! The members of a tool's result that the gateway itself reads or writes.

use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::question::{INPUT_REQUIRED, RESULT_TYPE};
use crate::domain::raw::to_raw;
use crate::domain::skim::Skim;
use crate::domain::tokens::owned;
use crate::domain::upstream::Answer;

/// Facts about an answer, read in one pass because results can be large.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResultFacts {
    /// Whether the server asks for input during the call (`resultType: input_required`).
    pub(crate) asks_back: bool,
    /// Whether the server goes on with the call as a task (`resultType: task`).
    pub(crate) begins_task: bool,
    /// Whether the answer is a result with `isError: true`.
    pub(crate) is_error: bool,
    /// Whether the answer is a result that has a `resultType`, or to which none is added: it is not an object, has
    /// `resultType` or `isError` twice, or has a member whose name cannot be decoded.
    pub(crate) typed: bool,
    /// Whether the answer is a result whose `resultType` is not a string.
    pub(crate) mistyped: bool,
    /// Whether another parser may see another `resultType` or `isError` than this one.
    pub(crate) unclear: bool,
}

impl ResultFacts {
    pub(crate) fn of(answer: &Answer) -> Self {
        let Answer::Result(result) = answer else { return Self::default() };
        let unclear = Self { typed: true, unclear: true, ..Self::default() };
        let Some(members) = Skim::from(&**result).members() else { return unclear };
        let (mut result_type, mut is_error) = (None, None);
        for (name, value) in members {
            // A name that cannot be decoded could be `resultType` or `isError` to another parser.
            let Some(name) = name else { return unclear };
            let place = match &*name {
                RESULT_TYPE => &mut result_type,
                "isError" => &mut is_error,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return unclear;
            }
        }
        let kind = result_type.and_then(Skim::text);
        Self {
            asks_back: kind.as_deref() == Some(INPUT_REQUIRED),
            begins_task: kind.as_deref() == Some("task"),
            mistyped: result_type.is_some() && kind.is_none(),
            is_error: is_error.is_some_and(|flag| flag.get() == "true"),
            typed: result_type.is_some(),
            unclear: false,
        }
    }
}

/// Whether a result says for how long and by whom it may be cached.
pub(crate) fn says_caching(result: &RawValue) -> bool {
    let Some(members) = Skim::from(result).members() else { return false };
    let (mut ttl, mut scope) = (0, 0);
    for (name, _) in members {
        match name.as_deref() {
            Some("ttlMs") => ttl += 1,
            Some("cacheScope") => scope += 1,
            _ => {}
        }
    }
    (ttl, scope) == (1, 1)
}

/// The members of what was read of a resource that clients of the legacy era do not know.
pub(crate) const MODERN_OF_RESOURCES: [&str; 3] = [RESULT_TYPE, "ttlMs", "cacheScope"];

/// Returns an answer without these members of its result.
pub(crate) fn without_members(answer: Answer, unwanted: &[&str]) -> Answer {
    let Answer::Result(result) = answer else { return answer };
    let mut members = Skim::from(&*result).members().into_iter().flatten();
    if !members.any(|(name, _)| name.as_deref().is_some_and(|name| unwanted.contains(&name))) {
        return Answer::Result(result);
    }
    let changes: Vec<_> = unwanted.iter().map(|name| (*name, None)).collect();
    Answer::Result(with_members(&result, &changes).unwrap_or(result))
}

/// Leaves structured content out that is no object, which clients of the legacy era cannot read (MCP 2025-11-25,
/// CallToolResult). Its text block stays.
pub(crate) fn leave_out_other_structure(result: &mut Box<RawValue>) {
    let structured = Skim::from(&**result).member("structuredContent");
    if structured.is_some_and(|structured| structured.members().is_none()) {
        *result = with_members(result, &[("structuredContent", None)]).unwrap_or_else(|| result.clone());
    }
}

/// Returns an object with its members changed as [`Skim::with_members`] does; `None` if it is not an object.
pub(in crate::engine) fn with_members(object: &RawValue, changes: &[(&str, Option<&str>)]) -> Option<Box<RawValue>> {
    owned(Skim::from(object).with_members(changes)?)
}

/// Sets members of a result to these values, which are JSON. Everything else keeps its bytes. A result that is not an object
/// stays as it is.
pub(crate) fn set_members(result: &mut Box<RawValue>, members: &[(&str, &str)]) {
    let changes: Vec<_> = members.iter().map(|(name, value)| (*name, Some(*value))).collect();
    // Most results need no change, and are large.
    if let Some(new) = if changes.is_empty() { None } else { with_members(result, &changes) } {
        *result = new;
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
pub(crate) fn with_meta(result: &RawValue, key: &str, value: &RawValue) -> Box<RawValue> {
    with_meta_changed(result, &[(key, Some(value.get()))])
}

/// Returns an object with members of its `_meta` changed. One that is empty then is left out. What is not an object is
/// returned unchanged.
pub(in crate::engine) fn with_meta_changed(object: &RawValue, changes: &[(&str, Option<&str>)]) -> Box<RawValue> {
    let meta = Skim::from(object).member("_meta").filter(|meta| meta.members().is_some()).unwrap_or(Skim::EMPTY);
    let meta = meta.with_members(changes).filter(|meta| meta != Skim::EMPTY.get());
    with_members(object, &[("_meta", meta.as_deref())]).unwrap_or_else(|| object.to_owned())
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
    fn members_are_set_and_everything_else_keeps_its_bytes() {
        for (result, expected) in [
            ("{}", r#"{"ttlMs":0,"cacheScope":"private"}"#),
            (r#" { "n": [1.0, 2 ] } "#, r#"{ "n": [1.0, 2 ] ,"ttlMs":0,"cacheScope":"private"}"#),
            (r#"{"ttlMs": 9e9 ,"x":[{"ttlMs":1}]}"#, r#"{"ttlMs": 0 ,"x":[{"ttlMs":1}],"cacheScope":"private"}"#),
            (
                r#"{"a":"\ud800","cacheSc\u006fpe":"public","ttlMs":1,"\ud800":2,"ttlMs":{"a":[]}}"#,
                r#"{"a":"\ud800","cacheSc\u006fpe":"private","ttlMs":0,"\ud800":2}"#,
            ),
            ("[]", "[]"),
        ] {
            let mut changed = RawValue::from_string(result.trim().into()).unwrap();
            set_members(&mut changed, &[("ttlMs", "0"), ("cacheScope", r#""private""#)]);
            assert_eq!(changed.get(), expected);
        }
    }

    #[test]
    fn members_of_the_modern_era_are_removed_and_nothing_else() {
        for (result, expected) in [
            (r#"{"contents": [{"ttlMs":1}]}"#, r#"{"contents": [{"ttlMs":1}]}"#),
            (
                r#"{"n":1.0,"ttlMs":1,"contents":[ ],"cache\u0053cope":"public","ttlMs":2,"resultType":"complete"}"#,
                r#"{"n":1.0,"contents":[ ]}"#,
            ),
            ("[1]", "[1]"),
        ] {
            let answer = Answer::Result(RawValue::from_string(result.into()).unwrap());
            let Answer::Result(without) = without_members(answer, &MODERN_OF_RESOURCES) else { panic!("{result}") };
            assert_eq!(without.get(), expected);
        }
    }

    #[test]
    fn a_result_says_how_it_may_be_cached_if_it_says_so_once() {
        for (result, says) in [
            (r#"{"ttlMs":1,"cacheScope":"public"}"#, true),
            (r#"{"ttlMs":1,"cacheScope":"public","ttlMs":2}"#, false),
            (r#"{"ttlMs":1,"contents":[{"cacheScope":"public"}]}"#, false),
            ("[]", false),
        ] {
            assert_eq!(says_caching(&RawValue::from_string(result.into()).unwrap()), says, "{result}");
        }
    }

    #[test]
    fn meta_is_added_and_nothing_else_changes() {
        let result = RawValue::from_string(r#"{"content":[],"n": 1.0,"_meta":{"a": 1e2}}"#.into()).unwrap();
        let with = with_meta(&result, "b", &RawValue::from_string("true".into()).unwrap());
        assert_eq!(with.get(), r#"{"content":[],"n": 1.0,"_meta":{"a": 1e2,"b":true}}"#);
    }
}
