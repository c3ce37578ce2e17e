//! Normalizes free-form JSON, so that an object that was read from a file equals the same object in a cluster.

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::api::values::FreeObject;
use crate::domain::raw::to_raw;

/// Returns a copy of `value` with sorted keys, in which whole numbers are written without a fraction (`1.0` becomes
/// `1`). An object then has the same digest whether it was read from a file or from a cluster.
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

/// Converts a float that is a whole number of at most 2^53 to an integer; returns `None` for any other number. Beyond
/// 2^53, floats cannot represent every integer.
fn whole(number: &Number) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() <= EXACT)?;
    #[allow(clippy::cast_possible_truncation)] // Within 2^53 and without a fraction.
    Some(Number::from(float as i64))
}

/// Returns the JSON text of the [`canonical`] form of an object.
pub fn canonical_text(object: &FreeObject) -> Box<RawValue> {
    to_raw(&canonical(&Value::Object(object.0.clone())))
}
