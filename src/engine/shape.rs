//! The few members of a result that the gateway itself looks at.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::domain::upstream::Answer;

/// What is read of an answer, in one pass: results are large.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shape {
    /// The server asks for input during the call.
    pub(super) asks_back: bool,
    /// A result that says `isError`.
    pub(super) is_error: bool,
    /// A result that says what it is, or no object that could.
    pub(super) typed: bool,
    /// A result that says what it is by something that is not a string.
    pub(super) mistyped: bool,
}

impl Shape {
    /// Reads it.
    pub(super) fn of(answer: &Answer) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Members<'a> {
            #[serde(borrow, default, deserialize_with = "present")]
            result_type: Option<&'a RawValue>,
            #[serde(borrow)]
            is_error: Option<&'a RawValue>,
        }
        let Answer::Result(result) = answer else { return Self::default() };
        let Ok(Members { result_type, is_error }) = serde_json::from_str(result.get()) else {
            return Self { typed: true, ..Self::default() };
        };
        let kind = result_type.and_then(|kind| serde_json::from_str::<String>(kind.get()).ok());
        Self {
            asks_back: kind.as_deref() == Some("input_required"),
            mistyped: result_type.is_some() && kind.is_none(),
            is_error: is_error.is_some_and(|flag| flag.get() == "true"),
            typed: result_type.is_some(),
        }
    }
}

/// A member that is there, if only as `null`.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// MCP 2026-07-28: every result says what it is. What a legacy server sent, and what is made here, does not yet.
pub(super) fn complete(result: &mut Box<RawValue>) {
    let Some(rest) = result.get().strip_prefix('{').map(str::trim_start) else { return };
    let comma = if rest.starts_with('}') { "" } else { "," };
    if let Ok(with) = RawValue::from_string(format!(r#"{{"resultType":"complete"{comma}{rest}"#)) {
        *result = with;
    }
}
