//! Answers of the gateway's own making that a model reads as a tool's: denied, failed, refused, wrong arguments.

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::raw::{RawObject, to_raw};

/// Which entry ended a call, and why.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Culprit {
    /// The chain, as `namespace/name`; none where the gateway itself refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chain: Option<String>,
    /// The plugin, as `namespace/name`; none where the chain as a whole refuses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plugin: Option<String>,
    /// A word of the closed list, or the denying plugin's own words.
    #[serde(skip)]
    pub(super) reason: String,
}

/// How a call was ended before its content could be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// A plugin denied it.
    Denied,
    /// A plugin's failure failed it.
    Failed,
    /// It was not sent, because something that guards it cannot run.
    Refused,
}

/// A tool result with `isError: true` that says in `_meta` who ended the call.
pub(super) fn ended(how: Ended, culprit: &Culprit, text: &str) -> Box<RawValue> {
    let (key, word) = match how {
        Ended::Denied => ("hawsepipe.dev/denied", "error"),
        Ended::Failed => ("hawsepipe.dev/failed", "reason"),
        Ended::Refused => ("hawsepipe.dev/refused", "reason"),
    };
    let mut detail = json!(culprit);
    detail[word] = json!(culprit.reason);
    to_raw(&json!({"content": [{"type": "text", "text": text}], "isError": true, "_meta": {key: detail}}))
}

/// A tool result with `isError: true` that tells a model what is wrong.
pub(super) fn error(text: &str) -> Box<RawValue> {
    to_raw(&json!({"content": [{"type": "text", "text": text}], "isError": true}))
}

/// `result` with one more member in its `_meta`. What is no object stays as it is.
pub(super) fn with_meta(result: &RawValue, key: &str, value: Box<RawValue>) -> Box<RawValue> {
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

    #[test]
    fn meta_is_added_and_nothing_else_changes() {
        let result = RawValue::from_string(r#"{"content":[],"n": 1.0,"_meta":{"a": 1e2}}"#.into()).unwrap();
        let with = with_meta(&result, "b", RawValue::from_string("true".into()).unwrap());
        assert_eq!(with.get(), r#"{"content":[],"n":1.0,"_meta":{"a":1e2,"b":true}}"#);
    }

    #[test]
    fn a_denial_names_chain_plugin_and_error() {
        let culprit = Culprit { chain: Some("n/c".into()), plugin: Some("n/p".into()), reason: "no".into() };
        let value: serde_json::Value = serde_json::from_str(ended(Ended::Denied, &culprit, "text").get()).unwrap();
        let expected = json!({"chain": "n/c", "plugin": "n/p", "error": "no"});
        assert_eq!(value["_meta"]["hawsepipe.dev/denied"], expected);
        assert_eq!((&value["isError"], &value["content"][0]["text"]), (&json!(true), &json!("text")));
    }
}
