//! The keyword `uniqueItems` (JSON Schema 2020-12, validation 6.4.3).
//!
//! The library's own compares all elements with one another whose hashes are the same, and all nestings of empty arrays
//! have the same. This one compares texts, and counts the steps that these take.

use std::collections::HashSet;
use std::fmt;
use std::io::Write;
use std::sync::LazyLock;

use jsonschema::{Keyword, ValidationError, Validator};
use serde_json::{Map, Number, Value, json};

use super::steps::spend;

/// The keyword that this one takes the place of.
pub(super) const UNIQUE: &str = "uniqueItems";

/// The steps of a value in an element.
const OF_VALUE: u64 = 40;
/// The number of bytes of a text that are one step.
const BYTES: usize = 4;

/// A list that has an element twice, and what the library says of such a list.
static DOUBLED: LazyLock<Value> = LazyLock::new(|| json!([0, 0]));
static SAYS: LazyLock<Option<Validator>> = LazyLock::new(|| jsonschema::validator_for(&json!({UNIQUE: true})).ok());

struct UniqueItems {
    is_asked: bool,
}

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) {
            return Ok(());
        }
        // The library puts its place and value in place of those in the error.
        SAYS.as_ref().map_or(Ok(()), |says| says.validate(&DOUBLED))?;
        Err(ValidationError::custom("it has non-unique elements"))
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
    _: jsonschema::paths::Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(UniqueItems { is_asked: value == true }))
}

fn are_unique(list: &[Value]) -> bool {
    let mut text = Vec::new();
    let ends = list.iter().map(|value| {
        write(value, &mut text);
        text.len()
    });
    let ends: Vec<_> = ends.collect();
    let mut seen = HashSet::with_capacity(ends.len());
    let mut begin = 0;
    ends.into_iter().all(|end| seen.insert(&text[std::mem::replace(&mut begin, end)..end]))
}

/// Appends a text that two values have in common if, and only if, JSON Schema takes them for equal (core 4.2.2): the order of
/// members does not matter, nor how a number is written.
fn write(value: &Value, text: &mut Vec<u8>) {
    spend(OF_VALUE);
    match value {
        Value::Null => text.push(b'n'),
        Value::Bool(false) => text.push(b'f'),
        Value::Bool(true) => text.push(b't'),
        Value::Number(number) => append(text, format_args!("{};", Plain(number))),
        Value::String(string) => write_string(string, text),
        Value::Array(list) => {
            text.push(b'[');
            list.iter().for_each(|value| write(value, text));
            text.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            text.push(b'{');
            for (name, value) in members {
                write_string(name, text);
                write(value, text);
            }
            text.push(b'}');
        }
    }
}

/// Appends a string, with its length before it.
fn write_string(string: &str, text: &mut Vec<u8>) {
    spend((string.len() / BYTES) as u64);
    append(text, format_args!("{}:{string}", string.len()));
}

/// Appends to a text in memory, which cannot fail.
fn append(text: &mut Vec<u8>, what: fmt::Arguments<'_>) {
    let _ = text.write_fmt(what);
}

/// A number, written in one way. One of type float that is an integer is written as those of type integer are, which end below
/// 2^64.
struct Plain<'a>(&'a Number);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_f64().filter(|_| self.0.is_f64()) {
            Some(0.0) => f.write_str("0"),
            Some(float) if float.fract() == 0.0 && float.abs() < 1e20 => write!(f, "{float:.0}"),
            Some(float) => write!(f, "{float:e}"),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unique(list: &Value) -> bool {
        are_unique(list.as_array().unwrap())
    }

    #[test]
    fn equal_values_are_found_however_they_are_written() {
        let list = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        for doubled in [
            "[1,1.0]",
            "[0,-0.0]",
            "[100,1e2]",
            "[18446744073709551615,1,18446744073709551615]",
            "[9007199254740992,9007199254740992.0]",
            "[1e300,1.0e300]",
            r#"[{"a":1,"b":[2]},{"b":[2.0],"a":1}]"#,
            r#"["A","\u0041"]"#,
            "[[],1,[]]",
        ] {
            assert!(!unique(&list(doubled)), "{doubled}");
        }
        for distinct in [
            "[]",
            "[1]",
            "[1,true]",
            "[0,false,null,\"\",[],{}]",
            r#"[1,"1","1;"]"#,
            "[[[],[]],[[[]]],[[]],[]]",
            r#"[["a","b"],["ab"],["a:1b"],"ab"]"#,
            r#"[{"a":1},{"a":2},{"b":1},["a",1]]"#,
            "[9007199254740993,9007199254740992.0]",
            "[1.5,15]",
            "[1e300,1e301]",
        ] {
            assert!(unique(&list(distinct)), "{distinct}");
        }
    }
}
