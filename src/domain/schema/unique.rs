//! The keyword `uniqueItems` (JSON Schema 2020-12, validation 6.4.3).
//!
//! The library's own compares all elements with one another whose hashes are the same, and all nestings of empty arrays
//! have the same. This one compares texts.

use std::collections::{BTreeMap, HashSet};

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};

/// The keyword that this one takes the place of.
pub(super) const UNIQUE: &str = "uniqueItems";

struct UniqueItems {
    is_asked: bool,
}

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) { Ok(()) } else { Err(ValidationError::custom("it has an element twice")) }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        match value {
            Value::Array(list) if self.is_asked && list.len() > 1 => are_unique(list),
            _ => true,
        }
    }
}

/// Makes the keyword of its value.
pub(super) fn unique_items<'a>(
    _: &'a Map<String, Value>,
    value: &'a Value,
    _: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(UniqueItems { is_asked: value == true }))
}

fn are_unique(list: &[Value]) -> bool {
    let mut seen = HashSet::with_capacity(list.len());
    list.iter().all(|value| seen.insert(canonical(value).to_string()))
}

/// Returns a value whose text is that of another one if, and only if, JSON Schema takes them for equal (core 4.2.2): the order
/// of members does not matter, nor how a number is written.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(canonical).collect(),
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().map(|(name, value)| (name, canonical(value))).collect();
            sorted.into_iter().map(|(name, value)| (name.clone(), value)).collect()
        }
        Value::Number(number) => match number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
            // Integers end below 2^64. The sum has no negative zero.
            Some(float) if float.abs() < 1e20 => {
                format!("{:.0}", float + 0.0).parse().map_or_else(|_| value.clone(), Value::Number)
            }
            _ => value.clone(),
        },
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(list: &str) -> bool {
        are_unique(&serde_json::from_str::<Vec<Value>>(list).unwrap())
    }

    #[test]
    fn equal_values_are_found_however_they_are_written() {
        for doubled in [
            "[1,1.0]",
            "[0,-0.0]",
            "[100,1e2]",
            "[18446744073709551615,1,18446744073709551615]",
            "[18446744073709551616,1,1.8446744073709551616e19]",
            "[9007199254740992,9007199254740992.0]",
            "[-5,-5.0]",
            "[1e300,1.0e300]",
            r#"[{"a":1,"b":[2]},{"b":[2.0],"a":1}]"#,
            r#"["A","\u0041"]"#,
            "[[],1,[]]",
        ] {
            assert!(!unique(doubled), "{doubled}");
        }
        for distinct in [
            "[]",
            "[1]",
            "[1,true]",
            "[0,false,null,\"\",[],{}]",
            r#"[1,"1","1;"]"#,
            "[[[],[]],[[[]]],[[]],[]]",
            r#"[["a","b"],["ab"],["a\",\"b"],"ab"]"#,
            r#"[{"a":1},{"a":2},{"b":1},["a",1]]"#,
            "[9007199254740993,9007199254740992.0]",
            "[1.5,15]",
            "[1e300,1e301]",
        ] {
            assert!(unique(distinct), "{distinct}");
        }
    }
}
