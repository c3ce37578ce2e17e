//! The few members of a result that the gateway itself looks at.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::upstream::Answer;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    #[serde(borrow)]
    result_type: Option<&'a RawValue>,
    #[serde(borrow)]
    is_error: Option<&'a RawValue>,
}

fn read(result: &RawValue) -> Option<Shape<'_>> {
    serde_json::from_str(result.get()).ok()
}

/// Whether a result says `isError`.
pub(super) fn is_error(result: &RawValue) -> bool {
    read(result).and_then(|shape| shape.is_error).is_some_and(|flag| flag.get() == "true")
}

/// Whether a server asks for input during the call.
pub(super) fn asks_back(answer: &Answer) -> bool {
    let Answer::Result(result) = answer else { return false };
    let kind = read(result).and_then(|shape| shape.result_type);
    kind.is_some_and(|kind| serde_json::from_str::<String>(kind.get()).is_ok_and(|kind| kind == "input_required"))
}

/// MCP 2026-07-28: every result says what it is. What a legacy server sent does not yet.
pub(super) fn complete(result: &mut Box<RawValue>) {
    if read(result).is_some_and(|shape| shape.result_type.is_none()) {
        let rest = result.get()[1..].trim_start();
        let comma = if rest.starts_with('}') { "" } else { "," };
        if let Ok(with) = RawValue::from_string(format!(r#"{{"resultType":"complete"{comma}{rest}"#)) {
            *result = with;
        }
    }
}
