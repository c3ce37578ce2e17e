//! JSON as values of CEL.

use std::collections::HashMap;

use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt};
use cel::common::value::Val;
use serde_json::Value;

/// Returns the CEL value of a JSON value. An integer is an `int`, so that `x + 1` is defined, or a `uint` if an `int` cannot
/// hold it. A number with a point or an exponent is a `double`, as is one that is too large for both.
pub(super) fn from_json(value: Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(value) => Box::new(CelBool::from(value)),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(integer), _) => Box::new(CelInt::from(integer)),
            (None, Some(integer)) => Box::new(CelUInt::from(integer)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => Box::new(CelString::from(text)),
        Value::Array(items) => Box::new(CelList::from(items.into_iter().map(from_json).collect::<Vec<_>>())),
        Value::Object(members) => {
            let member = |(name, value)| (CelMapKey::String(CelString::from(name)), from_json(value));
            Box::new(CelMap::from(members.into_iter().map(member).collect::<HashMap<_, _>>()))
        }
    }
}
