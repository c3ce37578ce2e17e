//! Free JSON in the one form that it has after a passage through an API server.

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::api::values::FreeObject;
use crate::domain::raw::to_raw;

/// Whole numbers lose their fraction (`1.0` is `1`), keys are sorted. So a digest over it is the same for a file and
/// for an object that a cluster kept.
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(whole(number).unwrap_or_else(|| number.clone())),
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            Value::Object(sorted.into_iter().map(|(key, value)| (key.clone(), canonical(value))).collect())
        }
        other => other.clone(),
    }
}

/// A float without a fraction as an integer, as far as it is exact.
fn whole(number: &Number) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() <= EXACT)?;
    #[allow(clippy::cast_possible_truncation)] // Within 2^53 and without a fraction.
    Some(Number::from(float as i64))
}

/// The canonical text of a `config`.
pub fn canonical_text(object: &FreeObject) -> Box<RawValue> {
    to_raw(&canonical(&Value::Object(object.0.clone())))
}
